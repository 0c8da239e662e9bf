"""Build a Spark task's rows into record batches for each partition, before the task requests sequences. No pyspark.

Building and compressing takes most of the time, and is done while other tasks may be writing to the same partitions. A
task holds a lease of a partition (``sequences.py``) only while it sends finished batches. The sequences are then
written into the batch headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.client import TopicPartition
from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.arrays import add_timestamps
from kafkaframes.records.build import build_separate_batches
from kafkaframes.records.partitioner import compute_partitions, split_by_partition

MIN_PACKED_BYTES: Final = 8 << 20  # size of rows that are built together: batches of few rows compress badly


class PackedBatches(NamedTuple):
    """Finished batches for one partition, each with its number of records."""

    topic_partition: TopicPartition
    batches: list[tuple[bytes, int]]

    @property
    def record_count(self) -> int:
        """The number of records in the batches."""
        return sum(count for _, count in self.batches)


class BatchFormat(NamedTuple):
    """The producer settings that determine how batches are built."""

    codec: str
    level: int | None
    batch_bytes: int
    max_bytes: int


@dataclass(slots=True)
class Packer:
    """Builds the batches of one task.

    Attributes:
        topic: topic of all rows; None if the column ``topic`` specifies it.
        counts_of: function that returns the number of partitions of a topic.
        now_ms: function that returns the timestamp for rows without a timestamp.
        turn: first partition, modulo the number of partitions, for rows without key and partition. Each task starts
            at another partition.
    """

    topic: str | None
    counts_of: Callable[[str], int]
    form: BatchFormat
    now_ms: Callable[[], int]
    turn: int

    def pack_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[PackedBatches]]:
        """Yield finished batches for rows in the columns of ``kafka-topic``. The batches of a list can be sent at once.

        A list has at most one item for each partition.

        Raises:
            EncodeError: a row has no topic, or is too large for a batch.
            OptionError: the topic does not have the partition of a row.
        """
        for rows in resize_batches(batches, MIN_PACKED_BYTES):
            if self.topic is not None:
                yield list(self._pack_topic(self.topic, rows))
                continue
            names = rows.column("topic")
            check_row_topics(names)
            topics = pc.unique(names).to_pylist()
            yield [part for name in topics for part in self._pack_topic(name, rows.filter(pc.equal(names, name)))]

    def _pack_topic(self, topic: str, rows: pa.RecordBatch) -> Iterator[PackedBatches]:
        partitions = self._choose_partitions(topic, rows)
        for number, partition_rows in split_by_partition(add_timestamps(rows, self.now_ms()), partitions):
            yield self._pack_partition(TopicPartition(topic, number), partition_rows)

    def _choose_partitions(self, topic: str, rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
        count = self.counts_of(topic)
        if "partition" in rows.schema.names and not pa.types.is_null(rows.column("partition").type):
            check_row_partitions(rows.column("partition"))
        partitions, wrong_row = compute_partitions(rows, count)
        if wrong_row is not None:
            raise OptionError(f"topic {topic} has no partition {partitions[wrong_row]}; it has {count}")
        is_unassigned = partitions < 0
        if is_unassigned.any():
            partitions[is_unassigned] = (
                self.turn % count
            )  # one partition for all rows without key and partition (KIP-480)
            self.turn += 1
        return partitions

    def _pack_partition(self, index: TopicPartition, rows: pa.RecordBatch) -> PackedBatches:
        batch_format = self.form
        batches = list(
            build_separate_batches(
                rows, codec=batch_format.codec, level=batch_format.level, batch_bytes=batch_format.batch_bytes
            )
        )
        max_record_bytes = max(len(data) for data, _ in batches)
        if max_record_bytes > batch_format.max_bytes:
            raise EncodeError(
                f"a record for {index} needs a batch of {max_record_bytes} bytes, more than kafka.max.request.size="
                f"{batch_format.max_bytes}; increase that option"
            )
        return PackedBatches(index, batches)


def check_row_topics(names: pa.Array) -> None:
    """Check that each row specifies its topic.

    Raises:
        EncodeError: a row has no topic. The error has the row's number.
    """
    if names.null_count:
        row = pc.index(names.is_null(), True).as_py()
        raise EncodeError("the row has no topic; set the option topic, or add a column topic without nulls").within(row)


def check_row_partitions(numbers: pa.Array) -> None:
    """Check that no partition number is negative, as Kafka's producer does. Null is allowed.

    Raises:
        EncodeError: a number is negative. The error has the row's number.
    """
    negative = pc.less(numbers, 0)
    if pc.any(negative).as_py():
        row = pc.index(negative, True).as_py()
        raise EncodeError(
            f"column partition is {numbers[row].as_py()}; expected null or a partition number from 0"
        ).within(row)


def resize_batches(batches: Iterable[pa.RecordBatch], max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split and join batches into batches of about ``max_bytes`` bytes."""
    pending_batches: list[pa.RecordBatch] = []
    size = 0
    for batch in chain.from_iterable(_slice_batch(batch, max_bytes) for batch in batches):
        pending_batches.append(batch)
        size += batch.nbytes
        if size >= max_bytes:
            yield from _join_batches(pending_batches)
            pending_batches, size = [], 0
    yield from _join_batches(pending_batches)


def _slice_batch(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of about ``max_bytes``, because Spark's batches may have 10,000 rows of any size."""
    rows = -(-batch.num_rows // max(batch.nbytes // max_bytes, 1))
    for first in range(0, batch.num_rows, rows or 1):
        yield batch.slice(first, rows)


def _join_batches(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) < 2:
        yield from batches
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()
