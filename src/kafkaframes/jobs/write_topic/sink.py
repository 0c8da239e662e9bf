"""Write each micro-batch of a sink in one Kafka transaction, together with its marker. No pyspark.

1. ``InitProducerId`` with a transactional id that contains the query's id returns the producer id and a new epoch. This
   request fences an earlier writer of the query, and aborts the open transaction of that writer.
2. The newest marker of this sink is read from the compacted topic ``MARKER_TOPIC`` (``markers.py``). If the marker
   describes this batch and has the same offsets as the checkpoint, the batch was committed before the query could note
   it. The batch is not written again. If the batch does not fit the marker, the checkpoint has changed, which is an
   error. A sink that committed the previous batch itself and got the next epoch has the marker already, because no
   other writer can have committed in the meantime.
3. The rows are sent. Several tasks can share the transaction (``sequences.py``).
4. The marker is written in the same transaction, which is then committed. Rows and marker are committed together or not
   at all.

A failed batch is aborted as in step 1: ``InitProducerId`` aborts it with a newer epoch. Brokers then reject the records
of lost tasks, which therefore cannot become part of a later transaction.

``transaction_time.py`` chooses the time-out of the transaction.

A reader with ``kafka.isolation.level=read_committed`` gets each row once. Markers do not expire, unlike the offsets of
a group that is inactive for ``offsets.retention.minutes``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple, Self

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.client.batches import ProducerIdentity
from kafkaframes.client.shared_transaction import add_partitions, share_transaction
from kafkaframes.errors import BrokerError, KafkaframesError, NetworkError, OptionError
from kafkaframes.jobs.micro_batch import StreamBatch, read_batch_offsets
from kafkaframes.jobs.write_topic.leases import SharedTransaction
from kafkaframes.jobs.write_topic.markers import (
    MARKER_TOPIC,
    Marker,
    check_marker_topic,
    create_marker_topic,
    find_marker,
    is_written,
    read_markers,
)
from kafkaframes.jobs.write_topic.producer import open_producer
from kafkaframes.jobs.write_topic.sequences import LeaseLedger
from kafkaframes.jobs.write_topic.transaction_time import (
    BROKER_TIMEOUT_SETTING,
    TIMEOUT_OPTION,
    TransactionTimeouts,
    is_timeout_rejection,
    is_transaction_ended,
)
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.wire.primitives import NIL_UUID

log = logging.getLogger("kafkaframes.jobs")


def current_time_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class TransactionRecords(NamedTuple):
    """The number of records that tasks have sent in a transaction, and the time at which it began."""

    records: int
    since_ms: int  # time of the first lease, in milliseconds since 1970

    @classmethod
    def from_reports(cls, ledger: LeaseLedger, reported_counts: Mapping[TopicPartition, int]) -> Self:
        """Return the records that the tasks report, after a check against the ledger.

        Raises:
            KafkaframesError: the reported counts differ from those in the ledger. The transaction must not be
                committed.
        """
        return cls(
            ledger.verify_acknowledged(reported_counts),
            current_time_ms() if ledger.since_ms is None else ledger.since_ms,
        )

    def measure_open_ms(self) -> int:
        """Return how long the transaction has been open, in milliseconds."""
        return max(current_time_ms() - self.since_ms, 0)


Send = Callable[[Producer], TransactionRecords]  # sends the rows of a batch in the producer's transaction


def make_transactional_id(options: TopicWriteOptions, query_id: str) -> str:
    """Return the transactional id of a query's sink. The id is also the key of the sink's markers."""
    return f"kafkaframes-{query_id}-{options.sink}"


def describe_target(options: TopicWriteOptions) -> str:
    """Return the name and destination of the sink, in the form that markers store."""
    return f"{options.sink}, {'topic ' + options.topic if options.topic is not None else 'topics of the rows'}"


def plan_batch(
    options: TopicWriteOptions, query_id: str, batch_id: int, path: str, read: Callable[[str], str | None]
) -> StreamBatch:
    """Return a micro-batch with the offsets that its checkpoint has planned.

    Args:
        path: path of the checkpoint.
        read: function that returns the text of a checkpoint file; None if the file does not exist.

    Raises:
        KafkaframesError: the checkpoint has not planned the micro-batch.
    """
    begins, ends = read_batch_offsets(read, batch_id)
    if ends is None:
        raise KafkaframesError(f"the checkpoint {path} has no offsets of micro-batch {batch_id}")
    return StreamBatch(query_id, batch_id, path, describe_target(options), begins, ends)


class CommittedBatch(NamedTuple):
    """The micro-batch that this sink committed last, and the producer id and epoch of its transaction."""

    identity: ProducerIdentity
    marker: Marker


class TopicSink:
    """Writes the micro-batches of one run of a query, or a single batch."""

    def __init__(
        self, options: TopicWriteOptions, transactional_id: str, *, times: TransactionTimeouts | None = None
    ) -> None:
        """Without ``times``, request the maximum transaction time-out from the cluster.

        Raises:
            OptionError: the time-out of the options exceeds the maximum.
            NetworkError: the cluster cannot be reached.
        """
        self.options = options
        self.transactional_id = transactional_id
        self._times = TransactionTimeouts.from_options(options) if times is None else times
        self._last: CommittedBatch | None = None

    def write_batch(self, batch: StreamBatch | None, send: Send) -> None:
        """Write one batch in one transaction. If its marker shows that it was committed, ``send`` is not called.

        Args:
            batch: the micro-batch; None for a batch without a marker.
            send: sends the rows.

        Raises:
            KafkaframesError: the batch does not fit the newest marker. Exceptions of ``send`` are raised too.
        """
        with self._open_producer() as producer:
            newest_marker = None if batch is None else self._fetch_newest_marker(producer.identity, batch)
            is_committed = (
                batch is not None
                and newest_marker is not None
                and is_written(newest_marker.batch, batch, self.transactional_id)
            )
            self._fetch_topic_id(producer, newest_marker)
            if is_committed:
                return
            if (
                warning := self._times.make_slowness_warning(0 if newest_marker is None else newest_marker.open_ms)
            ) is not None:
                log.warning("%s: %s", self.format_batch_name(batch), warning)
            start_ms = time.time()
            try:
                self._write_transaction(batch, producer, newest_marker, send)
            except Exception as error:
                reason = self._times.explain_timeout((time.time() - start_ms) * 1000)
                if reason is None or not is_transaction_ended(error):
                    raise
                raise KafkaframesError(f"{reason} ({error})") from error

    def share_transaction(self, producer: Producer, ledger: LeaseLedger) -> SharedTransaction:
        """Return the transaction of ``producer``, in the form in which tasks share it."""
        return SharedTransaction(
            ledger, partial(add_partitions, producer), self.transactional_id, share_transaction(producer)
        )

    def format_batch_name(self, batch: StreamBatch | None) -> str:
        """Return the name of a batch for messages."""
        return self.transactional_id if batch is None else f"micro-batch {batch.batch_id}"

    def _fetch_topic_id(self, producer: Producer, newest_marker: Marker | None) -> str:
        """Return the topic's id; "" if the topic has no id yet, or if the rows specify their topics.

        Raises:
            KafkaframesError: the newest marker belongs to an earlier topic of this name.
        """
        topic = self.options.topic
        topic_id_or_nil = NIL_UUID if topic is None else producer.topic_id(topic)
        topic_id = "" if topic_id_or_nil == NIL_UUID else str(topic_id_or_nil)
        if topic is not None and newest_marker is not None and self.options.on_foreign_marker != "skip":
            check_marker_topic(newest_marker, topic, topic_id)
        return topic_id

    def _write_transaction(
        self, batch: StreamBatch | None, producer: Producer, newest_marker: Marker | None, send: Send
    ) -> None:
        """Send rows and marker in one transaction.

        The marker is sent last, because the transaction's time-out starts with the first records.
        """
        identity = producer.identity
        producer.begin_transaction()
        try:
            sent_rows = send(producer)
            open_ms = sent_rows.measure_open_ms()
            marker = None
            if batch is not None:
                marker = Marker(batch, open_ms, self._fetch_topic_id(producer, newest_marker))
                producer.send(MARKER_TOPIC, marker.to_record_value(), key=self.transactional_id, partition=0).result()
            if sent_rows.records or batch is not None:
                _commit_transaction(producer, is_repeated=batch is not None)
        except BaseException:
            self._fence_writer()
            raise
        self._times.add_duration(open_ms)
        self._last = None if marker is None else CommittedBatch(identity, marker)

    def _fetch_newest_marker(self, identity: ProducerIdentity, batch: StreamBatch) -> Marker | None:
        """Return the newest marker, which this batch must follow, even if another writer committed it."""
        if self._last is not None:
            producer_id, epoch = self._last.identity
            if identity == (producer_id, epoch + 1):
                return self._last.marker
        create_marker_topic(self.options)
        return find_marker(read_markers(self.options), self.transactional_id, batch)

    @contextmanager
    def _open_producer(self) -> Iterator[Producer]:
        """Open the producer of the transaction, which fences an earlier writer."""
        with ExitStack() as stack:
            try:
                producer = stack.enter_context(self._create_producer())
            except BrokerError as error:
                if not is_timeout_rejection(error):
                    raise
                timeout_ms = self._times.timeout_ms
                raise OptionError(
                    f"kafka.{TIMEOUT_OPTION} is {timeout_ms}, which exceeds the brokers' {BROKER_TIMEOUT_SETTING}; "
                    "nothing was written"
                ) from error
            yield producer

    def _create_producer(self) -> Producer:
        settings = {"transactional_id": self.transactional_id, "transaction_timeout_ms": self._times.timeout_ms}
        return open_producer(self.options, **settings)

    def _fence_writer(self) -> None:
        """Abort the open transaction with a newer epoch.

        If this request fails, the next run or the time-out aborts the transaction.
        """
        with suppress(KafkaframesError), self._create_producer():
            pass


def _commit_transaction(producer: Producer, *, is_repeated: bool) -> None:
    """Commit the transaction.

    Raises:
        NetworkError: the response is missing, and the batch will be repeated. When the batch is repeated, its marker
            shows the outcome.
        KafkaframesError: the response is missing for a batch without a marker. It is unknown whether the rows are
            committed.
    """
    try:
        producer.commit_transaction()
    except NetworkError as error:
        if is_repeated:
            raise
        raise KafkaframesError(
            f"the rows were sent, but it is unknown whether they were committed ({error}); read the topic with "
            "read_committed before you write them again"
        ) from error
