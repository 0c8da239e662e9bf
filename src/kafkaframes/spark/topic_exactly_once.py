"""Rows into topics exactly once: one Kafka transaction for each micro-batch, shared by the driver and all tasks.

The steps for one micro-batch, all on the driver but the third:

1. ``InitProducerId`` under a transactional id made of the query's id: an earlier writer of this query is fenced
   off, what it left open is aborted. It gives the producer id and a new epoch.
2. The newest marker of this sink is read from ``MARKERS``, a compacted topic. A marker of this batch or a later one
   means that the batch was committed before the query could note it: nothing is written again.
3. Tasks build finished batches of their rows (``topic_blobs.py``), and these are shared out so that **each topic
   partition is written by one task**; such tasks join the transaction with the id and epoch of step 1, and their
   sequences begin at 0 in each partition. A second attempt of a task is refused, and so is one of a stage that Spark
   runs again: the rows of the first may be in the transaction already. The batch fails then, and is written anew
   from step 1.
4. The marker is written in the same transaction, and the transaction commits: rows and marker, or neither.

How long the transaction may be open: ``transaction_time.py``.

A reader with ``kafka.isolation.level=read_committed`` sees each row once. A marker is kept for good, unlike the
offsets of a group that does nothing for ``offsets.retention.minutes``.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError
from kafkaframes.spark.query_ids import asker, is_connect
from kafkaframes.spark.topic_blobs import DDL, Format, Packer
from kafkaframes.spark.topic_options import TopicWriteOptions
from kafkaframes.spark.topic_writer import DEFAULT_BATCH, check_columns, open_producer
from kafkaframes.spark.transaction_time import (
    LIMIT,
    NO_MARKER,
    OPTION,
    Marker,
    TransactionTime,
    is_end_of_transaction,
    is_refused_timeout,
)
from kafkaframes.spark.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("kafkaframes.spark")
MARKERS: Final = "__kafkaframes_spark_sinks"
_EXISTS: Final = 36  # TOPIC_ALREADY_EXISTS
_CLIENT_ONLY: Final = frozenset({"transactional.id", "enable.idempotence", "acks"})
_ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FEW_ROWS: Final = "64"


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
    parsed = replace(TopicWriteOptions.parse({**options, "sink": sink}), delivery="exactly-once")
    forbidden = sorted(_CLIENT_ONLY & set(parsed.client))
    if forbidden:
        raise OptionError(f"option kafka.{forbidden[0]}: a write exactly once chooses that itself")
    check_columns({field.name: field.dataType.simpleString() for field in frame.schema}, parsed)
    if not frame.isStreaming:
        _write(frame, parsed, f"kafkaframes-{uuid.uuid4()}-{sink}", None, TransactionTime.of(parsed))
        return None
    if checkpoint is None:
        raise OptionError("a stream needs checkpoint=")
    name, id_of_query = asker(frame.sparkSession, query_name)
    writer = frame.writeStream.foreachBatch(_writer_of(parsed, id_of_query)).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _writer_of(options: TopicWriteOptions, id_of_query: Callable[[Any], str]) -> Callable[[DataFrame, int], None]:
    known: list[TransactionTime] = []  # asked for by the first batch: the function travels under Spark Connect

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        query_id = id_of_query(batch.sparkSession)
        if not known:
            known.append(TransactionTime.of(options))
        _write(batch, options, f"kafkaframes-{query_id}-{options.sink}", batch_id, known[0])

    return write_batch


def _write(
    frame: DataFrame, options: TopicWriteOptions, transactional_id: str, batch_id: int | None, times: TransactionTime
) -> None:
    """Write one batch in one transaction; ``batch_id`` is None where nothing will be repeated."""
    with _opened(options, transactional_id, times) as producer:
        before = NO_MARKER
        if batch_id is not None:
            _make_markers(options)
            before = newest_marker(options, transactional_id)
            if before.batch_id >= batch_id:
                return
        if (warning := times.warning(before)) is not None:
            log.warning("%s: %s", transactional_id if batch_id is None else f"micro-batch {batch_id}", warning)
        began = time.time()
        try:
            _write_transaction(frame, options, transactional_id, batch_id, producer, times)
        except Exception as error:
            reason = times.too_long((time.time() - began) * 1000)
            if reason is None or not is_end_of_transaction(error):
                raise
            raise KafkaframesError(f"{reason} ({error})") from error


def _write_transaction(
    frame: DataFrame,
    options: TopicWriteOptions,
    transactional_id: str,
    batch_id: int | None,
    producer: Producer,
    times: TransactionTime,
) -> None:
    """Send rows and marker in a transaction of their own.

    The marker comes last: until the first task sends something, brokers do not count the transaction's time.
    """
    producer.begin_transaction()
    try:
        sent = _send(frame, options, transactional_id, producer)
        if batch_id is not None:
            marker = json.dumps({"batchId": batch_id, "openMs": sent.open_ms()})
            producer.send(MARKERS, marker, key=transactional_id, partition=0).result()
    except BaseException:
        _abort(producer)
        raise
    if sent.records or batch_id is not None:
        producer.commit_transaction()
        times.add(sent.open_ms())


@contextmanager
def _opened(options: TopicWriteOptions, transactional_id: str, times: TransactionTime) -> Iterator[Producer]:
    """Open the driver's producer, which fences off an earlier writer."""
    settings = {"transactional_id": transactional_id, "transaction_timeout_ms": times.timeout_ms}
    with ExitStack() as stack:
        try:
            producer = stack.enter_context(open_producer(options, **settings))
        except BrokerError as error:
            if not is_refused_timeout(error):
                raise
            text = f"kafka.{OPTION} is {times.timeout_ms}: more than the brokers' {LIMIT}; nothing was written"
            raise OptionError(text) from error
        yield producer


def _abort(producer: Producer) -> None:
    try:
        producer.abort_transaction()
    except KafkaframesError:
        return  # the next run's InitProducerId aborts it, or its timeout


def _make_markers(options: TopicWriteOptions) -> None:
    configs = {"cleanup.policy": "compact"}
    with Admin(**options.connection) as admin:
        try:
            admin.create_topics([NewTopic(name=MARKERS, num_partitions=1, configs=configs)])
        except BrokerError as error:
            if error.code is None or error.code.number != _EXISTS:
                raise


def newest_marker(options: TopicWriteOptions, transactional_id: str) -> Marker:
    """Return what the newest batch has left that was committed under a transactional id."""
    place = TopicPartition(MARKERS, 0)
    newest = NO_MARKER
    with Consumer(**options.connection, isolation_level="read_committed", enable_auto_commit=False) as consumer:
        end = consumer.end_offsets([place])[place]
        consumer.assign({place: consumer.beginning_offsets([place])[place]})
        while consumer.position(place) < end:
            records = consumer.poll(1_000)
            if not records:  # compaction may have left nothing before the end
                consumer.skip_gap(place, end)
            for record in records:
                if record.key == transactional_id.encode() and record.value is not None:
                    said = json.loads(record.value)
                    newest = Marker(said["batchId"], said.get("openMs", 0))
    return newest


class Sent(NamedTuple):
    """What tasks have sent in a transaction."""

    records: int
    since_ms: int  # since 1970: when the first of them began

    def open_ms(self) -> int:
        """Return for how long the transaction has been open."""
        return max(_now_ms() - self.since_ms, 0)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _send(frame: DataFrame, options: TopicWriteOptions, transactional_id: str, producer: Producer) -> Sent:
    """Have tasks build batches and send them, each topic partition by one task; check that, and return how many."""
    identity = producer.share_transaction()
    count = len(producer.partitions_for(options.topic)) if options.topic else None
    shared = _shared_out(frame.mapInArrow(_packing(options, count), DDL), count)
    columns = "topic string, partition int, task int, stage int, since bigint, records bigint"
    with _arrow_batches_are_bounded(frame):
        written = shared.mapInArrow(_sending(options, transactional_id, identity), columns).collect()
    owners: dict[tuple[str, int], int] = {}
    for row in written:
        place = (row["topic"], row["partition"])
        if owners.setdefault(place, row["task"]) != row["task"]:
            raise KafkaframesError(f"two tasks wrote to {place[0]}-{place[1]} in one transaction: it is aborted")
    _refuse_stages_run_again(frame.sparkSession, {row["stage"] for row in written})
    return Sent(sum(row["records"] for row in written), min((row["since"] for row in written), default=_now_ms()))


def _refuse_stages_run_again(spark: Any, stages: Iterable[int]) -> None:
    """Raise where Spark ran a stage again (an executor was lost): its tasks count as first attempts, and are not.

    Brokers since 3.0 refuse such a task already, see ``join_transaction``; this is for older ones, and for two that
    begin in the same moment. Spark Connect does not tell.
    """
    if is_connect(spark):
        return
    tracker = spark.sparkContext.statusTracker()
    for stage in stages:
        info = tracker.getStageInfo(stage)
        if info is not None and info.currentAttemptId:
            raise KafkaframesError(f"Spark ran stage {stage} again, which may have sent rows twice: it is aborted")


def _shared_out(packed: DataFrame, count: int | None) -> DataFrame:
    """Bring the batches of each topic partition into one task; those of one topic with ``count`` partitions evenly.

    Not into more tasks than there are cores (which Spark Connect does not tell): each costs 35 ms of CPU time, with
    rows or without.
    """
    if count is None:
        return packed.repartition("topic", "partition")
    spark: Any = packed.sparkSession
    tasks = count if is_connect(spark) else min(count, spark.sparkContext.defaultParallelism)
    try:
        return packed.repartitionById(tasks, "partition")
    except AttributeError:  # before Spark 4.1; by hash some tasks get more partitions than others
        return packed.repartition(tasks, "partition")


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


Rows = Iterator[pa.RecordBatch]


def _packing(options: TopicWriteOptions, count: int | None) -> Callable[[Rows], Rows]:
    """Return what makes batches of a task's rows."""

    def pack(rows: Rows) -> Rows:
        from pyspark import TaskContext

        context = TaskContext.get()
        settings = ProducerSettings.of(options.client)
        batch_bytes = settings.batch_size if "batch.size" in options.client else DEFAULT_BATCH
        form = Format(settings.compression_type, settings.compression_level, batch_bytes, settings.max_request_size)
        with ExitStack() as stack:
            counts_of = (lambda _: count) if count is not None else _Counts(options, stack)
            packer = Packer(
                options.topic,
                counts_of,
                form,
                now_ms=_now_ms,
                turn=context.partitionId() if context else 0,
            )
            yield from packer.pack(rows)
        settle()

    return pack


class _Counts:
    """Asks the cluster for the number of partitions of topics, each once; a topic that is not there is made."""

    def __init__(self, options: TopicWriteOptions, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._producer: Producer | None = None
        self._known: dict[str, int] = {}

    def __call__(self, topic: str) -> int:
        if self._producer is None:
            self._producer = self._stack.enter_context(open_producer(self._options, enable_idempotence=False))
        if topic not in self._known:
            self._known[topic] = len(self._producer.partitions_for(topic))
        return self._known[topic]


def _sending(options: TopicWriteOptions, transactional_id: str, identity: ProducerIdentity) -> Callable[[Rows], Rows]:
    """Return what a task does: join the transaction, send its batches, and return what it wrote."""

    def send(blobs: Rows) -> Rows:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        if context is not None and context.attemptNumber():
            raise KafkaframesError(
                f"task {task} failed and would be repeated: its rows may be in the transaction already, so the whole "
                "batch fails and is written anew"
            )
        counts: dict[tuple[str, int], int] = {}
        first = next(blobs, None)
        since = _now_ms()
        if first is not None:
            producer = open_producer(options, transactional_id=transactional_id)
            with closing(producer):  # not entered: that would begin anew, and fence the driver off
                producer.join_transaction(identity)
                for batch in chain([first], blobs):
                    _send_blobs(producer, batch, counts)
        settle()
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([name for name, _ in counts], pa.string()),
                pa.array([number for _, number in counts], pa.int32()),
                pa.array([task] * len(counts), pa.int32()),
                pa.array([0 if context is None else context.stageId()] * len(counts), pa.int32()),
                pa.array([since] * len(counts), pa.int64()),
                pa.array(list(counts.values()), pa.int64()),
            ],
            names=["topic", "partition", "task", "stage", "since", "records"],
        )

    return send


def _send_blobs(producer: Producer, blobs: pa.RecordBatch, counts: dict[tuple[str, int], int]) -> None:
    """Send finished batches, those of one partition together and in their order."""
    parts: dict[tuple[str, int], list[bytes]] = {}
    for topic, partition, records, data in zip(*(column.to_pylist() for column in blobs.columns), strict=True):
        place = (topic, partition)
        parts.setdefault(place, []).append(data)
        counts[place] = counts.get(place, 0) + records
    for place, datas in parts.items():
        producer.send_batches(TopicPartition(*place), b"".join(datas))
