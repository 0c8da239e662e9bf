"""Rows become finished batches where they are, and batches travel: what makes writing exactly once cheap. No pyspark.

In one transaction each topic partition is written by one task, so rows that lie elsewhere have to come to it. They come
as **batches**: built and compressed by the task that has the rows, some hundred kilobytes in one row of bytes, so that
neither the JVM nor the shuffle handles records. The task that sends them only puts producer id, epoch and sequence into
their headers (``Producer.send_batches``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.build import build_records
from kafkaframes.records.partitioner import partitions_of_rows
from kafkaframes.records.scan import scan_all

GATHER_BYTES: Final = 16 << 20  # of rows, before they are built: batches of few rows compress badly
BLOB_BYTES: Final = 1 << 20
SCHEMA: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("records", pa.int64()), ("data", pa.binary())]
)
DDL: Final = "topic string, partition int, records bigint, data binary"
_RECORD: Final = ("key", "value", "headers", "timestamp")


class Format(NamedTuple):
    """How batches are built: settings of a producer."""

    codec: str
    level: int | None
    batch_bytes: int
    max_bytes: int


class Packer:
    """Builds the batches of one task.

    Args:
        topic: of all rows; None: their column says it.
        counts_of: gives the number of partitions of a topic.
        form: of the batches.
        now_ms: the time of rows without a timestamp.
        turn: the partition at which rows without key and partition begin: another one for each task.
    """

    def __init__(
        self, topic: str | None, counts_of: Callable[[str], int], form: Format, *, now_ms: Callable[[], int], turn: int
    ) -> None:
        self._topic = topic
        self._counts_of = counts_of
        self._form = form
        self._now_ms = now_ms
        self._turn = turn

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of ``SCHEMA`` for rows in the columns of ``kafka-topic``.

        Raises:
            EncodeError: a row without a topic, or one that no batch can hold.
            OptionError: a partition that its topic has not.
        """
        for rows in gathered(batches, GATHER_BYTES):
            if self._topic is not None:
                yield from self._of_topic(self._topic, rows)
                continue
            names = rows.column("topic")
            if names.null_count:
                row = pc.index(names.is_null(), True).as_py()
                raise EncodeError("no topic: give the option topic, or a column topic without nulls").within(row)
            for name in pc.unique(names).to_pylist():
                yield from self._of_topic(name, rows.filter(pc.equal(names, name)))

    def _of_topic(self, topic: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        partitions = self._partitions(topic, rows)
        kept = _recorded(rows, self._now_ms())
        order = np.argsort(partitions, kind="stable")
        edges = np.flatnonzero(np.diff(partitions[order], prepend=-1, append=-1))
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            whole = end - first == len(order)
            mine = kept if whole else kept.take(pa.array(order[first:end]))
            data = build_records(
                mine, codec=self._form.codec, level=self._form.level, batch_bytes=self._form.batch_bytes
            )
            yield from self._blobs(topic, int(partitions[order[first]]), data)

    def _partitions(self, topic: str, rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
        count = self._counts_of(topic)
        partitions, wrong = partitions_of_rows(rows, count)
        if wrong is not None:
            raise OptionError(f"topic {topic} has no partition {partitions[wrong]}, it has {count}")
        free = partitions < 0
        if free.any():
            partitions[free] = self._turn % count  # rows that may go anywhere stay together, as with KIP-480
            self._turn += 1
        return partitions

    def _blobs(self, topic: str, partition: int, data: bytes) -> Iterator[pa.RecordBatch]:
        """Cut built batches into rows of about ``BLOB_BYTES``."""
        batches = scan_all(data)
        position, size, base, last = (
            batches.column(name) for name in ("position", "size", "base_offset", "last_offset")
        )
        if len(size) and int(size.max()) > self._form.max_bytes:
            raise EncodeError(
                f"a record for {topic}-{partition} makes a batch of {int(size.max())} bytes; "
                f"kafka.max.request.size is {self._form.max_bytes}"
            )
        first = 0
        while first < len(size):
            end = first + max(int(np.searchsorted(np.cumsum(size[first:]), BLOB_BYTES, "right")), 1)
            begins, ends = int(position[first]), int(position[end - 1] + size[end - 1])
            records = int((last[first:end] - base[first:end] + 1).sum())
            columns = [[topic], [partition], [records], [data[begins:ends]]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
            first = end


def gathered(batches: Iterable[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Put batches together until they are ``most_bytes`` large."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= most_bytes:
            yield from _joined(waiting)
            waiting, size = [], 0
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) < 2:
        yield from batches
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def _recorded(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return the columns of a record; rows without a timestamp get the time of now, as producers give it."""
    names = [name for name in _RECORD if name in rows.schema.names and not pa.types.is_null(rows.column(name).type)]
    arrays = [rows.column(name) for name in names if name != "timestamp"]
    kept = [name for name in names if name != "timestamp"]
    times = pa.array(np.full(rows.num_rows, now_ms)) if "timestamp" not in names else _milliseconds(rows, now_ms)
    return pa.RecordBatch.from_arrays([*arrays, times], names=[*kept, "timestamp"])


def _milliseconds(rows: pa.RecordBatch, now_ms: int) -> pa.Array:
    column = rows.column("timestamp")
    if not pa.types.is_timestamp(column.type):
        return pc.fill_null(column.cast(pa.int64()), now_ms)
    micros = pc.fill_null(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), now_ms * 1000)
    return pa.array(np.floor_divide(micros.to_numpy(zero_copy_only=False), 1000))


__all__ = ["BLOB_BYTES", "DDL", "GATHER_BYTES", "SCHEMA", "Format", "Packer", "gathered"]
