"""Rows into topics exactly once: one Kafka transaction for each micro-batch, shared by the driver and all tasks.

The steps for one micro-batch, all on the driver but the third:

1. ``InitProducerId`` under a transactional id made of the query's id: whoever wrote for this query before is fenced
   off, what it left open is aborted. It gives the producer id and a new epoch.
2. The newest marker of this sink is read from ``MARKERS``, a compacted topic. A marker of this batch or a later one
   means that the batch was committed before the query could note it: nothing is written again.
3. Tasks build finished batches of their rows (``topic_blobs.py``), and these are shared out so that **each topic
   partition is written by one task**; such tasks join the transaction with the id and epoch of step 1, and their
   sequences begin at 0 in each partition. A second attempt of a task is refused: the
   rows of the first may be in the transaction already. The batch fails then, and is written anew from step 1.
4. The marker is written in the same transaction, and the transaction commits: rows and marker, or neither.

A reader with ``kafka.isolation.level=read_committed`` sees each row once. A marker is kept for good, unlike the
offsets of a group that does nothing for ``offsets.retention.minutes``.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError
from kafkaframes.spark.query_ids import asker
from kafkaframes.spark.topic_blobs import DDL, Format, Packer
from kafkaframes.spark.topic_options import TopicWriteOptions
from kafkaframes.spark.topic_writer import DEFAULT_BATCH, check_columns, open_producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

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
        _write(frame, parsed, f"kafkaframes-{uuid.uuid4()}-{sink}", None)
        return None
    if checkpoint is None:
        raise OptionError("a stream needs checkpoint=")
    name, id_of_query = asker(frame.sparkSession, query_name)
    writer = frame.writeStream.foreachBatch(_writer_of(parsed, id_of_query)).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _writer_of(options: TopicWriteOptions, id_of_query: Callable[[Any], str]) -> Callable[[DataFrame, int], None]:
    def write_batch(batch: DataFrame, batch_id: int) -> None:
        query_id = id_of_query(batch.sparkSession)
        _write(batch, options, f"kafkaframes-{query_id}-{options.sink}", batch_id)

    return write_batch


def _write(frame: DataFrame, options: TopicWriteOptions, transactional_id: str, batch_id: int | None) -> None:
    """Write one batch in one transaction; ``batch_id`` is None where nothing will be repeated."""
    with open_producer(options, transactional_id=transactional_id) as producer:
        if batch_id is not None:
            _make_markers(options)
            if newest_marker(options, transactional_id) >= batch_id:
                return
        producer.begin_transaction()
        try:
            if batch_id is not None:
                marker = json.dumps({"batchId": batch_id})
                producer.send(MARKERS, marker, key=transactional_id, partition=0).result()
            records = _send(frame, options, transactional_id, producer)
        except BaseException:
            _abort(producer)
            raise
        if records or batch_id is not None:
            producer.commit_transaction()


def _abort(producer: Producer) -> None:
    try:
        producer.abort_transaction()
    except KafkaframesError:
        return  # the next run's InitProducerId aborts it, or its timeout


def _make_markers(options: TopicWriteOptions) -> None:
    configs = {"cleanup.policy": "compact"}
    with Admin(**_connection(options)) as admin:
        try:
            admin.create_topics([NewTopic(name=MARKERS, num_partitions=1, configs=configs)])
        except BrokerError as error:
            if error.code is None or error.code.number != _EXISTS:
                raise


def newest_marker(options: TopicWriteOptions, transactional_id: str) -> int:
    """Return the newest batch that was committed under a transactional id, -1 where there is none."""
    place = TopicPartition(MARKERS, 0)
    newest = -1
    with Consumer(**_connection(options), isolation_level="read_committed", enable_auto_commit=False) as consumer:
        end = consumer.end_offsets([place])[place]
        consumer.assign({place: consumer.beginning_offsets([place])[place]})
        while consumer.position(place) < end:
            for record in consumer.poll(1_000):
                if record.key == transactional_id.encode() and record.value is not None:
                    newest = json.loads(record.value)["batchId"]
    return newest


def _connection(options: TopicWriteOptions) -> dict[str, Any]:
    """Return the settings that say how to reach the cluster, without those of a producer."""
    from kafkaframes.client.settings import ClientSettings

    return {
        name: value
        for name, value in options.client.items()
        if name.replace(".", "_") in ClientSettings.__dataclass_fields__ or name.startswith("sasl")
    }


def _send(frame: DataFrame, options: TopicWriteOptions, transactional_id: str, producer: Producer) -> int:
    """Have tasks build batches and send them, each topic partition by one task; check it, and return how many rows."""
    identity = producer.share_transaction()
    count = len(producer.partitions_for(options.topic)) if options.topic else None
    packed = frame.mapInArrow(_packing(options, count), DDL)
    places = ("topic", "partition")
    shared = packed.repartition(*places) if count is None else packed.repartition(count, *places)
    told = "topic string, partition int, task int, records bigint"
    with _arrow_batches_are_bounded(frame):
        written = shared.mapInArrow(_sending(options, transactional_id, identity), told).collect()
    owners: dict[tuple[str, int], int] = {}
    for row in written:
        place = (row["topic"], row["partition"])
        if owners.setdefault(place, row["task"]) != row["task"]:
            raise KafkaframesError(f"two tasks wrote to {place[0]}-{place[1]} in one transaction: it is aborted")
    return sum(row["records"] for row in written)


@contextmanager
def _arrow_batches_are_bounded(frame: DataFrame) -> Iterator[None]:
    """See that Spark gives a task few of the large rows at once: by bytes, or before Spark 4.1 by their number."""
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
                now_ms=lambda: time.time_ns() // 1_000_000,
                turn=context.partitionId() if context else 0,
            )
            yield from packer.pack(rows)

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
    """Return what a task does: join the transaction, send the batches that came to it, tell what it wrote."""

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
        if first is not None:
            producer = open_producer(options, transactional_id=transactional_id)
            with closing(producer):  # not entered: that would begin anew, and fence the driver off
                producer.join_transaction(identity)
                for batch in chain([first], blobs):
                    _send_blobs(producer, batch, counts)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([name for name, _ in counts], pa.string()),
                pa.array([number for _, number in counts], pa.int32()),
                pa.array([task] * len(counts), pa.int32()),
                pa.array(list(counts.values()), pa.int64()),
            ],
            names=["topic", "partition", "task", "records"],
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
