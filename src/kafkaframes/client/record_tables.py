"""Rows of an Arrow table, shared out among a topic's partitions as a producer's records are. Pure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.client.batches import Batch
from kafkaframes.client.metadata import Cluster, TopicPartition
from kafkaframes.errors import EncodeError, ErrorCode, OptionError, broker_error
from kafkaframes.records.arrays import stamped
from kafkaframes.records.partitioner import by_partition, partitions_of_rows
from kafkaframes.records.rows import Int64s


def topics_of(table: pa.Table, topic: str | None) -> list[str]:
    """Return the topics that a table is written to.

    Raises:
        OptionError: neither an argument nor a column names any.
        EncodeError: a row has none.
    """
    if topic is not None:
        return [topic]
    if "topic" not in table.schema.names:
        raise OptionError("no topic: give topic=, or a column topic")
    names: list[str] = pc.unique(table.column("topic")).to_pylist()
    if None in names:
        raise EncodeError("a row has no topic").within("topic")
    return names


def routed(
    table: pa.Table, topics: Sequence[str], cluster: Cluster, batch_bytes: int
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Return the rows of each partition, topics in this order; their metadata are known.

    Rows that name neither partition nor key go to one partition after the other, a batch's worth of them at least.

    Raises:
        BrokerError: a row names a partition that its topic does not have.
    """
    batches: list[tuple[TopicPartition, pa.RecordBatch]] = []
    for topic in topics:
        has_column = "topic" in table.schema.names and len(topics) > 1
        rows = table.filter(pc.equal(table.column("topic"), topic)) if has_column else table
        for batch in rows.combine_chunks().to_batches():
            batches += _by_partition(topic, batch, cluster, batch_bytes)
    return batches


def _by_partition(
    topic: str, rows: pa.RecordBatch, cluster: Cluster, batch_bytes: int
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Share a topic's rows out."""
    count = len(cluster.partitions_of(topic))
    partitions, wrong = partitions_of_rows(rows, count)
    if wrong is not None:
        raise broker_error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"row {wrong}: topic {topic} has no partition {partitions[wrong]}, it has {count}",
        )
    _share_out_free(partitions, count, rows.nbytes // batch_bytes)
    timed = stamped(rows, int(time.time() * 1000))
    return [(TopicPartition(topic, number), part) for number, part in by_partition(timed, partitions)]


def _share_out_free(partitions: Int64s, count: int, most_runs: int) -> None:
    """Give the rows without a partition theirs: runs of them, as many as ``most_runs`` and ``count`` allow."""
    free = np.flatnonzero(partitions < 0)
    if len(free):
        run = np.arange(len(free)) * max(min(most_runs, count), 1) // len(free)
        partitions[free] = (np.random.default_rng().integers(count) + run) % count


def written(batches: Sequence[Batch], base_offsets: Sequence[int]) -> pa.Table:
    """Return what ``send_arrow`` reports: a row for each batch."""
    columns: dict[str, Any] = {
        "topic": pa.array([batch.partition.topic for batch in batches], pa.string()),
        "partition": pa.array([batch.partition.partition for batch in batches], pa.int32()),
        "base_offset": pa.array(base_offsets, pa.int64()),
        "count": pa.array([batch.count for batch in batches], pa.int64()),
    }
    return pa.table(columns)
