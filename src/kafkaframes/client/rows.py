"""What a consumer gives of fetched records: columns with topic and partition beside them, or Python values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from operator import length_hint
from typing import Any, Final, NamedTuple, cast

import pyarrow as pa

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.records.columns import ReadOptions

_STEP_ROWS: Final = 4_096  # whose values are made at once: they are read while the processor has them at hand
TARGET_COLUMNS: Final = {"topic": pa.string(), "partition": pa.int32()}


class ConsumerRecord(NamedTuple):
    """One record, as ``poll`` and iteration give it; ``timestamp`` is milliseconds since 1970, -1 for none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@lru_cache(maxsize=64)
def schema_of(columns: tuple[str, ...]) -> tuple[tuple[str, ...], pa.Schema]:
    """Return the columns that are the records' own, and the schema of all."""
    inner = tuple(name for name in columns if name not in TARGET_COLUMNS)
    known = ReadOptions(columns=inner).checked().schema
    return inner, pa.schema([(name, TARGET_COLUMNS.get(name) or known.field(name).type) for name in columns])


def placed(
    batch: pa.RecordBatch, partition: TopicPartition, columns: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Return these columns of a batch, with the partition that it is of where they name it."""
    if batch.schema.names == list(columns):
        return batch
    target = {"topic": pa.scalar(partition.topic, pa.string()), "partition": pa.scalar(partition.partition, pa.int32())}
    arrays = [pa.repeat(target[name], batch.num_rows) if name in target else batch.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Records:
    """Fetched records of one partition as Python values, each made when it is taken; an iterator.

    Attributes:
        partition: which.
    """

    __slots__ = ("_offsets", "_records", "_unread", "partition")

    def __init__(self, batch: pa.RecordBatch, partition: TopicPartition) -> None:
        """Take a batch that has the default columns."""
        self.partition = partition
        self._offsets: list[int] = batch.column("offset").to_numpy(zero_copy_only=False).tolist()
        self._unread = iter(self._offsets)  # moves on as records are taken, and knows how many are left
        self._records = map(_NEW_RECORD, chain.from_iterable(_steps(batch, self._unread, partition)))

    @property
    def position(self) -> int:
        """The offset of the record that comes next; there is one."""
        return self._offsets[-length_hint(self._unread)]

    @property
    def is_empty(self) -> bool:
        """Whether all were taken; those behind the last one that was count as not read."""
        return not length_hint(self._unread)

    def drop(self) -> None:
        """End the iteration: what is left is not handed out."""
        self._offsets.clear()

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return the next records, at most so many."""
        return list(islice(self._records, count))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self._records


_NEW_RECORD: Final = cast("Callable[[Iterable[Any]], ConsumerRecord]", partial(tuple.__new__, ConsumerRecord))


def _steps(batch: pa.RecordBatch, offsets: Iterator[int], partition: TopicPartition) -> Iterator[Iterable[Any]]:
    """Yield the fields of some records at a time, until their offsets have ended."""
    for first in range(0, batch.num_rows, _STEP_ROWS):
        if length_hint(offsets):
            yield _fields(batch.slice(first, _STEP_ROWS), offsets, partition)


def _fields(batch: pa.RecordBatch, offsets: Iterator[int], partition: TopicPartition) -> Iterable[tuple[Any, ...]]:
    """Return the fields of each record, by an iterator that runs no Python code."""
    times = batch.column("timestamp")
    milliseconds = times.cast(pa.int64()) if pa.types.is_timestamp(times.type) else times
    headers = batch.column("headers")
    columns = (
        repeat(partition.topic, batch.num_rows),  # ends first: of the offsets none is taken that is not given
        repeat(partition.partition),
        offsets,
        milliseconds.to_numpy(zero_copy_only=False).tolist(),
        _byte_strings(batch.column("key")),
        _byte_strings(batch.column("value")),
        repeat(()) if _has_no_entries(headers) else _pairs(headers),
    )
    return zip(*columns, strict=False)


def _byte_strings(column: pa.Array) -> Iterable[bytes | None]:
    """Return a column of bytes as Python values: several times as fast as ``to_pylist``, which makes scalars."""
    return repeat(None) if column.null_count == len(column) else column.to_numpy(zero_copy_only=False).tolist()


def _has_no_entries(headers: pa.Array) -> bool:
    return headers.null_count == len(headers) or not len(headers.flatten())


def _pairs(headers: pa.Array) -> list[tuple[tuple[str, bytes | None], ...]]:
    return [tuple((entry["key"], entry["value"]) for entry in entries or ()) for entries in headers.to_pylist()]
