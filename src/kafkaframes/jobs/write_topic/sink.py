"""One Kafka transaction for each micro-batch of a sink: begun, filled by somebody, ended with its marker. No pyspark.

1. ``InitProducerId`` under a transactional id made of the query's id: an earlier writer of this query is fenced
   off, what it left open is aborted. It gives the producer id and a new epoch.
2. The newest marker of this sink is read from ``MARKERS``, a compacted topic (``markers.py``). A marker of this
   batch, with the offsets that the checkpoint has of it, means that it was committed before the query could note it:
   nothing is written again. One that it does not fit is an error: the checkpoint is not what it was. A sink that has
   committed the batch before itself, and got the epoch that follows its own, knows the marker: nobody else was there.
3. The rows are sent: tasks share the transaction, ``sequences.py``.
4. The marker is written in the same transaction, and it commits: rows and marker, or neither.

A batch that fails is ended as step 1 would: ``InitProducerId`` aborts it under a newer epoch, so that what a lost task
still sends is refused, and belongs to no later transaction.

How long the transaction may be open: ``transaction_time.py``.

A reader with ``kafka.isolation.level=read_committed`` sees each row once. A marker is kept for ever, unlike the
offsets of a group that does nothing for ``offsets.retention.minutes``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import NamedTuple, Self

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.client.shared_transaction import add_partitions, share
from kafkaframes.errors import BrokerError, KafkaframesError, NetworkError, OptionError
from kafkaframes.jobs.micro_batch import StreamBatch, offsets_in
from kafkaframes.jobs.write_topic.markers import (
    MARKERS,
    Marker,
    check_topic,
    is_written,
    make_topic,
    marker_for,
    read_markers,
)
from kafkaframes.jobs.write_topic.producer import open_producer
from kafkaframes.jobs.write_topic.sequences import Ledger, Shared
from kafkaframes.jobs.write_topic.transaction_time import (
    LIMIT,
    OPTION,
    TransactionTime,
    is_end_of_transaction,
    is_refused_timeout,
)
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.wire.primitives import NIL_UUID

log = logging.getLogger("kafkaframes.jobs")


def now_ms() -> int:
    """Return the time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Sent(NamedTuple):
    """What was sent in a transaction."""

    records: int
    since_ms: int  # since 1970: when the first of them could be sent

    @classmethod
    def of(cls, ledger: Ledger, reported_counts: Mapping[TopicPartition, int]) -> Self:
        """Return what tasks have sent, when the ledger says the same.

        Raises:
            KafkaframesError: it does not; the transaction must not be committed.
        """
        return cls(ledger.settle(reported_counts), now_ms() if ledger.since_ms is None else ledger.since_ms)

    def open_ms(self) -> int:
        """Return for how long the transaction has been open."""
        return max(now_ms() - self.since_ms, 0)


Send = Callable[[Producer], Sent]  # sends a batch's rows in the transaction of a producer


def transactional_id_of(options: TopicWriteOptions, query_id: str) -> str:
    """Return under which id the sink of a query writes; its markers have it as key."""
    return f"kafkaframes-{query_id}-{options.sink}"


def target_of(options: TopicWriteOptions) -> str:
    """Return the name of the sink and where it writes to, as markers have it."""
    return f"{options.sink}, {'topic ' + options.topic if options.topic is not None else 'topics of the rows'}"


def plan_batch(
    options: TopicWriteOptions, query_id: str, batch_id: int, path: str, read: Callable[[str], str | None]
) -> StreamBatch:
    """Return a micro-batch as its checkpoint has planned it.

    Args:
        path: of the checkpoint.
        read: returns the text of a file in it; None where it is not there.

    Raises:
        KafkaframesError: it has not.
    """
    begins, ends = offsets_in(read, batch_id)
    if ends is None:
        raise KafkaframesError(f"the checkpoint {path} has no offsets of micro-batch {batch_id}")
    return StreamBatch(query_id, batch_id, path, target_of(options), begins, ends)


class Committed(NamedTuple):
    """The micro-batch that this sink has committed last, and as whom."""

    identity: ProducerIdentity
    marker: Marker


class Sink:
    """Writes the micro-batches of one run of a query, or one batch."""

    def __init__(
        self, options: TopicWriteOptions, transactional_id: str, *, times: TransactionTime | None = None
    ) -> None:
        """Ask the cluster how long transactions may be open, unless ``times`` says it.

        Raises:
            OptionError: more time is asked for than the cluster allows.
            NetworkError: it cannot be reached.
        """
        self.options = options
        self.transactional_id = transactional_id
        self._times = TransactionTime.of(options) if times is None else times
        self._last: Committed | None = None

    def write(self, batch: StreamBatch | None, send: Send) -> None:
        """Write one batch in one transaction; ``send`` is not called where its marker says that it is there.

        Args:
            batch: None where there is no marker.
            send: sends the rows.

        Raises:
            KafkaframesError: it does not fit the marker of the batch before it; or what ``send`` raises.
        """
        with self._open_producer() as producer:
            before = None if batch is None else self._newest(producer.producer, batch)
            is_there = (
                batch is not None and before is not None and is_written(before.batch, batch, self.transactional_id)
            )
            self._topic_id(producer, before)
            if is_there:
                return
            if (warning := self._times.warning(0 if before is None else before.open_ms)) is not None:
                log.warning("%s: %s", self.name_of(batch), warning)
            began = time.time()
            try:
                self._write_transaction(batch, producer, before, send)
            except Exception as error:
                reason = self._times.too_long((time.time() - began) * 1000)
                if reason is None or not is_end_of_transaction(error):
                    raise
                raise KafkaframesError(f"{reason} ({error})") from error

    def shared(self, producer: Producer, ledger: Ledger) -> Shared:
        """Return the transaction of ``write``'s producer, for tasks to write in."""
        return Shared(ledger, partial(add_partitions, producer), self.transactional_id, share(producer))

    def name_of(self, batch: StreamBatch | None) -> str:
        """Return what a message calls a batch."""
        return self.transactional_id if batch is None else f"micro-batch {batch.batch_id}"

    def _topic_id(self, producer: Producer, before: Marker | None) -> str:
        """Return the id of the topic that is written to; "" where it has none yet, or the rows name theirs.

        Raises:
            KafkaframesError: the newest marker is of another topic of this name.
        """
        topic = self.options.topic
        topic_id_or_nil = NIL_UUID if topic is None else producer.topic_id(topic)
        topic_id = "" if topic_id_or_nil == NIL_UUID else str(topic_id_or_nil)
        if topic is not None and before is not None and self.options.on_foreign_marker != "skip":
            check_topic(before, topic, topic_id)
        return topic_id

    def _write_transaction(
        self, batch: StreamBatch | None, producer: Producer, before: Marker | None, send: Send
    ) -> None:
        """Send rows and marker in a transaction of their own.

        The marker comes last: until the first rows are sent, brokers do not count the transaction's time.
        """
        identity = producer.producer
        producer.begin_transaction()
        try:
            sent_rows = send(producer)
            open_ms = sent_rows.open_ms()
            marker = None
            if batch is not None:
                marker = Marker(batch, open_ms, self._topic_id(producer, before))
                producer.send(MARKERS, marker.value(), key=self.transactional_id, partition=0).result()
            if sent_rows.records or batch is not None:
                _commit(producer, is_repeated=batch is not None)
        except BaseException:
            self._fence_off()
            raise
        self._times.add(open_ms)
        self._last = None if marker is None else Committed(identity, marker)

    def _newest(self, identity: ProducerIdentity, batch: StreamBatch) -> Marker | None:
        """Return the marker of the newest batch that was committed, by whomever, that this one must fit."""
        if self._last is not None:
            producer_id, epoch = self._last.identity
            if identity == (producer_id, epoch + 1):
                return self._last.marker
        make_topic(self.options)
        return marker_for(read_markers(self.options), self.transactional_id, batch)

    @contextmanager
    def _open_producer(self) -> Iterator[Producer]:
        """Open the producer of the transaction, which fences off an earlier writer."""
        with ExitStack() as stack:
            try:
                producer = stack.enter_context(self._new_producer())
            except BrokerError as error:
                if not is_refused_timeout(error):
                    raise
                timeout_ms = self._times.timeout_ms
                text = f"kafka.{OPTION} is {timeout_ms}: more than the brokers' {LIMIT}; nothing was written"
                raise OptionError(text) from error
            yield producer

    def _new_producer(self) -> Producer:
        settings = {"transactional_id": self.transactional_id, "transaction_timeout_ms": self._times.timeout_ms}
        return open_producer(self.options, **settings)

    def _fence_off(self) -> None:
        """Abort what is open, under a newer epoch; where that fails, the next run does it, or the time-out."""
        with suppress(KafkaframesError), self._new_producer():
            pass


def _commit(producer: Producer, *, is_repeated: bool) -> None:
    """Commit; a batch that nobody repeats, so that no marker will tell of it, fails with what is known.

    Raises:
        KafkaframesError: the answer did not come: the rows may be there or not.
    """
    try:
        producer.commit_transaction()
    except NetworkError as error:
        if is_repeated:
            raise
        raise KafkaframesError(
            f"the rows were sent, but it is not known whether they were committed ({error}): read the topic with "
            "read_committed before you write them again"
        ) from error
