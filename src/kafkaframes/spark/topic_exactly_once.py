"""Rows into topics exactly once: one Kafka transaction for each micro-batch, shared by the driver and all tasks.

The steps for one micro-batch, all on the driver but the third:

1. ``InitProducerId`` under a transactional id made of the query's id: whoever wrote for this query before is fenced
   off, what it left open is aborted. It gives the producer id and a new epoch.
2. The newest marker of this sink is read from ``MARKERS``, a compacted topic. A marker of this batch or a later one
   means that the batch was committed before the query could note it: nothing is written again.
3. Rows are shared out so that **each topic partition is written by one task**; tasks join the transaction with the id
   and epoch of step 1, and their sequences begin at 0 in each partition. A second attempt of a task is refused: the
   rows of the first may be in the transaction already. The batch fails then, and is written anew from step 1.
4. The marker is written in the same transaction, and the transaction commits: rows and marker, or neither.

A reader with ``kafka.isolation.level=read_committed`` sees each row once. A marker is kept for good, unlike the
offsets of a group that does nothing for ``offsets.retention.minutes``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.client.batches import Producer as ProducerIdentity
from kafkaframes.errors import BrokerError, KafkaframesError, OptionError
from kafkaframes.records.partitioner import UNASSIGNED, assign_by_key
from kafkaframes.records.rows import blobs_of
from kafkaframes.spark.topic_options import TopicWriteOptions
from kafkaframes.spark.topic_writer import check_columns, open_producer, send_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

MARKERS: Final = "__kafkaframes_spark_sinks"
_EXISTS: Final = 36  # TOPIC_ALREADY_EXISTS
_CLIENT_ONLY: Final = frozenset({"transactional.id", "enable.idempotence", "acks"})
_PARTITIONED: Final = "partition"


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
    writer = frame.writeStream.foreachBatch(_writer_of(parsed)).option("checkpointLocation", checkpoint)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _writer_of(options: TopicWriteOptions) -> Callable[[DataFrame, int], None]:
    def write_batch(batch: DataFrame, batch_id: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
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
    """Have tasks write the rows, each topic partition by one task, and check that it was so; return how many."""
    identity = producer.share_transaction()
    topics = [options.topic] if options.topic else _topics_of(frame)
    counts = {name: len(producer.partitions_for(name)) for name in topics}
    shared = frame.mapInArrow(_assigner(options.topic, counts), _with_partition(frame))
    keys = [_PARTITIONED] if options.topic else ["topic", _PARTITIONED]
    rows = shared.repartition(max(sum(counts.values()), 1), *keys)
    told = "topic string, partition int, task int, records bigint"
    written = rows.mapInArrow(_joiner(options, transactional_id, identity), told).collect()
    owners: dict[tuple[str, int], int] = {}
    for row in written:
        place = (row["topic"], row["partition"])
        if owners.setdefault(place, row["task"]) != row["task"]:
            raise KafkaframesError(f"two tasks wrote to {place[0]}-{place[1]} in one transaction: it is aborted")
    return sum(row["records"] for row in written)


def _topics_of(frame: DataFrame) -> list[str]:
    names = [row[0] for row in frame.select("topic").distinct().collect()]
    if None in names:
        raise OptionError("no topic: give the option topic, or a column topic without nulls")
    return sorted(names)


def _with_partition(frame: DataFrame) -> Any:
    """Return the schema of the rows with their partitions."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    kept = [field for field in frame.schema if field.name != _PARTITIONED]
    return StructType([*kept, StructField(_PARTITIONED, IntegerType())])


Rows = Iterator[pa.RecordBatch]


def _assigner(topic: str | None, counts: Mapping[str, int]) -> Callable[[Rows], Rows]:
    """Return what gives every row its partition: the given one, the key's, or one after the other."""

    def assign(batches: Rows) -> Rows:
        turn = 0
        for batch in batches:
            names = [name for name in batch.schema.names if name != _PARTITIONED]
            if topic is None:
                of_row = np.array([counts[one] for one in batch.column("topic").to_pylist()], np.int64)
            else:
                of_row = np.full(batch.num_rows, counts[topic], np.int64)
            partitions = np.full(batch.num_rows, UNASSIGNED, np.int64)
            if _PARTITIONED in batch.schema.names:
                given = pc.fill_null(batch.column(_PARTITIONED).cast(pa.int64()), UNASSIGNED)
                partitions = given.to_numpy(zero_copy_only=False).copy()
                wrong = np.flatnonzero((partitions >= of_row) | (partitions < UNASSIGNED))
                if len(wrong):
                    raise OptionError(f"there is no partition {partitions[wrong[0]]} in its topic")
            if "key" in names and not pa.types.is_null(batch.column("key").type):
                assign_by_key(blobs_of("key", batch.column("key")), of_row, partitions)
            free = np.flatnonzero(partitions < 0)
            partitions[free] = (turn + np.arange(len(free))) % of_row[free]
            turn += len(free)
            columns = [batch.column(name) for name in names]
            yield pa.RecordBatch.from_arrays([*columns, pa.array(partitions, pa.int32())], names=[*names, _PARTITIONED])

    return assign


def _joiner(options: TopicWriteOptions, transactional_id: str, identity: ProducerIdentity) -> Callable[[Rows], Rows]:
    """Return what a task does: join the transaction, send its rows, tell what it wrote."""

    def send(batches: Rows) -> Rows:
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        if context is not None and context.attemptNumber():
            raise KafkaframesError(
                f"task {task} failed and would be repeated: its rows may be in the transaction already, so the whole "
                "batch fails and is written anew"
            )
        counts: dict[tuple[str, int], int] = {}
        first = next(batches, None)
        if first is not None:
            producer = open_producer(options, transactional_id=transactional_id)
            with closing(producer):  # not entered: that would begin anew, and fence the driver off
                producer.join_transaction(identity)
                counts = send_all(producer, options, chain([first], batches))
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
