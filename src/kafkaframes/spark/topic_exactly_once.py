"""Rows into topics exactly once: one Kafka transaction for each micro-batch, shared by the driver and all tasks.

The steps for one micro-batch, all on the driver but the third:

1. ``InitProducerId`` under a transactional id made of the query's id: an earlier writer of this query is fenced
   off, what it left open is aborted. It gives the producer id and a new epoch.
2. The newest marker of this sink is read from ``MARKERS``, a compacted topic (``topic_markers.py``). A marker of this
   batch, with the offsets that the checkpoint has of it, means that it was committed before the query could note it:
   nothing is written again. One that it does not fit is an error: the checkpoint is not what it was. A driver that has
   committed the batch before itself, and got the epoch that follows its own, knows the marker: nobody else was there.
3. Tasks build batches of their rows and send them with the id and epoch of step 1 (``exactly_once_task.py``). Several
   may write to one topic partition: sequences are leased by the driver, to one task at a time (``sequences.py``),
   which adds each partition to the transaction before its first lease.
   A second attempt of a task is refused, and so is one of a stage that Spark runs again: the rows of the first may be
   in the transaction already. A task that is refused, or meets an error of ours, tells it in its result and succeeds:
   Spark would repeat one that fails.
4. What brokers have acknowledged must be what the tasks tell that Spark takes as successful. Then the marker is
   written in the same transaction, and the transaction commits: rows and marker, or neither.

A batch that fails is ended as step 1 would: ``InitProducerId`` aborts it under a newer epoch, so that what a lost task
still sends is refused, and belongs to no later transaction. Where it failed for a task that was lost (its worker or
executor is gone), before the commit was asked for, it is written anew from step 1, ``_TRIES`` times at most.

How long the transaction may be open: ``transaction_time.py``.

A reader with ``kafka.isolation.level=read_committed`` sees each row once. A marker is kept for ever, unlike the
offsets of a group that does nothing for ``offsets.retention.minutes``.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.client.shared_transaction import add_partitions, share
from kafkaframes.errors import BrokerError, KafkaframesError, LostTaskError, NetworkError, OptionError
from kafkaframes.jobs.restore.writing.micro_batch import StreamBatch, offsets_in
from kafkaframes.jobs.write_topic.sequences import LeaseServer, Ledger
from kafkaframes.jobs.write_topic.transaction_time import (
    LIMIT,
    OPTION,
    TransactionTime,
    is_end_of_transaction,
    is_refused_timeout,
)
from kafkaframes.protocol.spec.model import NIL_UUID
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.checkpoint_files import CheckpointFiles, HadoopFiles, asker, checkpoint_files, is_connect
from kafkaframes.spark.exactly_once_task import COLUMNS, Work, writing
from kafkaframes.spark.schemas import types_of
from kafkaframes.spark.topic_markers import (
    MARKERS,
    Marker,
    check_stateless,
    check_topic,
    is_written,
    make_topic,
    marker_for,
    next_batch,
    read_markers,
    skip_to,
)
from kafkaframes.spark.topic_options import topic_write_options
from kafkaframes.spark.topic_writer import open_producer, written_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("kafkaframes.spark")
_CLIENT_ONLY: Final = frozenset({"transactional.id", "enable.idempotence", "acks"})
_ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FEW_ROWS: Final = "64"
_HERE: Final = "127.0.0.1"
_TRIES: Final = 3
# In Spark's errors of jobs whose worker or executor is gone: PythonRunner, TaskEndReason and the sockets between them.
_LOST_PROCESS: Final = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "Connection reset",
    "Broken pipe",
)


def write(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    checkpoint: str | None,
    sink: str,
    trigger: Mapping[str, Any] | None,
    query_name: str | None,
) -> StreamingQuery | None:
    """Write as ``kafkaframes.spark.write_topic`` says."""
    parsed = replace(topic_write_options({**options, "sink": sink}), delivery="exactly-once")
    forbidden = sorted(_CLIENT_ONLY & set(parsed.client))
    if forbidden:
        raise OptionError(f"option kafka.{forbidden[0]}: an exactly-once write sets this itself")
    frame = frame.select(*written_columns(types_of(frame.schema), parsed))
    _check_speculation(frame.sparkSession)
    if not frame.isStreaming:
        Sink(parsed, transactional_id_of(parsed, str(uuid.uuid4()))).write(frame, None)
        return None
    if checkpoint is None:
        raise OptionError("a stream needs checkpoint=")
    if parsed.on_foreign_marker == "skip":
        _skip(frame, parsed, checkpoint)
    name, id_of_query = asker(frame.sparkSession, query_name)
    write_batch = _writer_of(parsed, id_of_query, checkpoint)
    writer = frame.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _check_speculation(spark: Any) -> None:
    """Refuse a session whose tasks may run twice at once.

    Raises:
        OptionError: says which setting.
    """
    if spark.conf.get("spark.speculation", "false").strip().lower() == "true":
        raise OptionError(
            "spark.speculation is true: the second copy of a task would write its rows again, so each micro-batch with "
            "a slow task would fail. Use a session without spark.speculation for exactly-once writes"
        )


def _skip(frame: DataFrame, options: TopicWriteOptions, checkpoint: str) -> None:
    """Have the checkpoint go on behind the newest marker, where it does not fit that."""
    if is_connect(frame.sparkSession):
        raise OptionError("onForeignMarker=skip writes the checkpoint: that takes a classic session, not Spark Connect")
    check_stateless(frame)
    files = HadoopFiles(frame.sparkSession, checkpoint)
    batch = next_batch(files, target_of(options))
    transactional_id = transactional_id_of(options, batch.query_id)
    with open_producer(options, transactional_id=transactional_id):  # ends what an earlier run has left open
        pass
    make_topic(options)
    marker = marker_for(read_markers(options), transactional_id, batch)
    if marker is not None:
        skip_to(files, marker.batch)


def _writer_of(
    options: TopicWriteOptions, id_of_query: Callable[[Any], str], checkpoint: str
) -> Callable[[DataFrame, int], None]:
    known: list[Query] = []  # made by the first batch: the function travels under Spark Connect

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        spark = batch.sparkSession
        if not known:
            known.append(Query(options, id_of_query(spark), checkpoint_files(spark, checkpoint)))
        known[0].write(batch, batch_id)

    return write_batch


class Query:
    """The micro-batches of one run of a query, as its checkpoint has them."""

    def __init__(self, options: TopicWriteOptions, query_id: str, files: CheckpointFiles) -> None:
        self._sink = Sink(options, transactional_id_of(options, query_id))
        self._query_id = query_id
        self._files = files
        self._target = target_of(options)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, unless it is there."""
        begins, ends = offsets_in(self._files.read, batch_id)
        if ends is None:
            raise KafkaframesError(f"the checkpoint {self._files.path} has no offsets of micro-batch {batch_id}")
        batch = StreamBatch(self._query_id, batch_id, self._files.path, self._target, begins, ends)
        self._sink.write(frame, batch)


def transactional_id_of(options: TopicWriteOptions, query_id: str) -> str:
    """Return under which id the sink of a query writes; its markers have it as key."""
    return f"kafkaframes-{query_id}-{options.sink}"


def target_of(options: TopicWriteOptions) -> str:
    """Return the name of the sink and where it writes to, as markers have it."""
    return f"{options.sink}, {'topic ' + options.topic if options.topic is not None else 'topics of the rows'}"


class Committed(NamedTuple):
    """The micro-batch that this driver has committed last, and as whom."""

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
        self._options = options
        self._transactional_id = transactional_id
        self._times = TransactionTime.of(options) if times is None else times
        self._last: Committed | None = None

    def write(self, frame: DataFrame, batch: StreamBatch | None) -> None:
        """Write one batch in one transaction, anew where tasks were lost; ``batch`` is None where there is no marker.

        Raises:
            KafkaframesError: it does not fit the marker of the batch before it.
        """
        for tries in range(1, _TRIES):
            try:
                self._write_once(frame, batch, is_written_anew=tries > 1)
            except LostTaskError as error:
                log.warning("%s is written anew: %s", self._name_of(batch), error)
            else:
                return
        self._write_once(frame, batch, is_written_anew=True)

    def _name_of(self, batch: StreamBatch | None) -> str:
        return self._transactional_id if batch is None else f"micro-batch {batch.batch_id}"

    def _write_once(self, frame: DataFrame, batch: StreamBatch | None, *, is_written_anew: bool) -> None:
        with self._opened() as producer:
            before = None if batch is None else self._newest(producer.producer, batch)
            is_there = (
                batch is not None and before is not None and is_written(before.batch, batch, self._transactional_id)
            )
            self._topic_id(producer, before)
            if is_there:
                return
            if (warning := self._times.warning(0 if before is None else before.open_ms)) is not None:
                log.warning("%s: %s", self._name_of(batch), warning)
            began = time.time()
            try:
                self._write_transaction(frame, batch, producer, before, is_written_anew=is_written_anew)
            except Exception as error:
                reason = self._times.too_long((time.time() - began) * 1000)
                if reason is None or not is_end_of_transaction(error):
                    raise
                raise KafkaframesError(f"{reason} ({error})") from error

    def _topic_id(self, producer: Producer, before: Marker | None) -> str:
        """Return the id of the topic that is written to; "" where it has none yet, or the rows name theirs.

        Raises:
            KafkaframesError: the newest marker is of another topic of this name.
        """
        topic = self._options.topic
        known = NIL_UUID if topic is None else producer.topic_id(topic)
        topic_id = "" if known == NIL_UUID else str(known)
        if topic is not None and before is not None and self._options.on_foreign_marker != "skip":
            check_topic(before, topic, topic_id)
        return topic_id

    def _write_transaction(
        self,
        frame: DataFrame,
        batch: StreamBatch | None,
        producer: Producer,
        before: Marker | None,
        *,
        is_written_anew: bool,
    ) -> None:
        """Send rows and marker in a transaction of their own.

        The marker comes last: until the first task sends something, brokers do not count the transaction's time.
        """
        identity = producer.producer
        producer.begin_transaction()
        try:
            sent = send(frame, self._options, self._transactional_id, producer, is_written_anew=is_written_anew)
            open_ms = sent.open_ms()
            marker = None
            if batch is not None:
                marker = Marker(batch, open_ms, self._topic_id(producer, before))
                producer.send(MARKERS, marker.value(), key=self._transactional_id, partition=0).result()
            if sent.records or batch is not None:
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
        make_topic(self._options)
        return marker_for(read_markers(self._options), self._transactional_id, batch)

    @contextmanager
    def _opened(self) -> Iterator[Producer]:
        """Open the driver's producer, which fences off an earlier writer."""
        with ExitStack() as stack:
            try:
                producer = stack.enter_context(self._new_producer())
            except BrokerError as error:
                if not is_refused_timeout(error):
                    raise
                requested = self._times.timeout_ms
                text = f"kafka.{OPTION} is {requested}: more than the brokers' {LIMIT}; nothing was written"
                raise OptionError(text) from error
            yield producer

    def _new_producer(self) -> Producer:
        settings = {"transactional_id": self._transactional_id, "transaction_timeout_ms": self._times.timeout_ms}
        return open_producer(self._options, **settings)

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


class Sent(NamedTuple):
    """What tasks have sent in a transaction."""

    records: int
    since_ms: int  # since 1970: when the first of them could begin

    def open_ms(self) -> int:
        """Return for how long the transaction has been open."""
        return max(_now_ms() - self.since_ms, 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def send(
    frame: DataFrame, options: TopicWriteOptions, transactional_id: str, producer: Producer, *, is_written_anew: bool
) -> Sent:
    """Have tasks send the rows in the transaction; return how many, when that is what Spark's tasks tell too.

    Raises:
        LostTaskError: a task was lost, or repeated.
        KafkaframesError: a task has met an error.
    """
    ledger = Ledger(_now_ms)
    listen, host = _driver_address(frame.sparkSession)
    with (
        LeaseServer(
            ledger, partial(add_partitions, producer), listen=listen, host=host, port=options.driver_port
        ) as server,
        _arrow_batches_are_bounded(frame),
    ):
        work = Work(options, transactional_id, share(producer), server.address, is_written_anew)
        try:
            results = frame.mapInArrow(writing(work), COLUMNS).collect()
        except Exception as error:  # of another class on each of Spark's sessions
            if any(text in str(error) for text in _LOST_PROCESS):
                ledger.check()
                raise LostTaskError(f"a worker or an executor was lost: {error}") from error
            raise
    for is_lost, failure in sorted((row.is_lost, row.failure) for row in results if row.failure is not None):
        if is_lost:  # behind a task's own error: others are refused for it
            ledger.check()
        raise LostTaskError(failure) if is_lost else KafkaframesError(failure)
    reported: dict[TopicPartition, int] = {}
    for topic, partition, records, _, _ in results:
        name = TopicPartition(topic, partition)
        reported[name] = reported.get(name, 0) + records
    return Sent(ledger.settle(reported), _now_ms() if ledger.since_ms is None else ledger.since_ms)


def _driver_address(spark: Any) -> tuple[str, str]:
    """Return the address at which the driver listens to its tasks, and the name by which they find it.

    As Spark's own: ``spark.driver.bindAddress`` and ``spark.driver.host``. With ``local`` tasks it is this machine's.
    """
    master = spark.conf.get("spark.master", "")
    if master == "local" or master.startswith("local["):
        return _HERE, _HERE
    host = spark.conf.get("spark.driver.host", _HERE).strip("[]")
    return spark.conf.get("spark.driver.bindAddress", host).strip("[]"), host


@contextmanager
def _arrow_batches_are_bounded(frame: DataFrame) -> Iterator[None]:
    """Check that Spark gives a task few large rows at once: by bytes, or before Spark 4.1 by their number."""
    conf = frame.sparkSession.conf
    try:
        conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
    except Exception:  # of another class in each Spark that does not know the setting
        pass
    else:
        yield
        return
    before = conf.get(_ROWS_PER_BATCH)
    conf.set(_ROWS_PER_BATCH, _FEW_ROWS)
    try:
        yield
    finally:
        conf.set(_ROWS_PER_BATCH, before or "10000")
