"""What one Fetch answer holds of one partition: as Arrow columns, or as Python values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pyarrow as pa

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import UnsupportedFormatError
from kafkaframes.records.arrays import int64_values, repeated
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadOptions, RecordReader
from kafkaframes.records.fields import NO_TIMESTAMP
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import FAILFAST
from kafkaframes.records.scan import Batches, Memory, as_array, scan_all

if TYPE_CHECKING:
    from kafkaframes.storage.log.transactions import TransactionState

_PART_BYTES: Final = 8 << 20  # of records, that one Arrow batch is made of: a fetch is kept as a whole
# 25 ns a value, as to_numpy, which imports pandas: a second of a consumer's first poll. Older versions take 600 ns.
_LISTS_ARE_FAST: Final = int(pa.__version__.partition(".")[0]) >= 26
_STEP_ROWS: Final = 4_096  # whose values are made at once: they are read while the processor has them at hand
TARGET_COLUMNS: Final = {"topic": pa.string(), "partition": pa.int32()}


@dataclass(slots=True)
class Fetched:
    """One partition's part of a Fetch answer; the headers of its batches are read when it is made.

    Attributes:
        partition: which.
        fetch_offset: the offset asked for; batches may begin below it.
        data: batches; the last one may be cut off. A view of the memory that they were received in, which is used for
            later answers once nobody holds it; ``bytes(data)`` is a copy.
        high_watermark, last_stable_offset, log_start_offset: as the broker said; -1 where its version does not.
        aborted: of each aborted transaction among ``data`` producer id and first offset; None is all of it wanted.
        batches: the headers of the whole batches.
        formats: their record formats.
        next_offset: where to go on; ``fetch_offset`` if there is no whole batch.
        leader_epoch: of the last batch, -1 where there is none.
    """

    partition: TopicPartition
    fetch_offset: int
    data: bytes | memoryview
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    batches: Batches = field(init=False, repr=False, compare=False)
    formats: frozenset[int] = field(init=False, repr=False)
    next_offset: int = field(init=False, repr=False)
    leader_epoch: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.batches = batches = scan_all(self.data)
        self.formats = frozenset(batches.column("magic").tolist())
        last, epochs = batches.column("last_offset"), batches.column("leader_epoch")
        self.next_offset = max(int(last[-1]) + 1, self.fetch_offset) if len(last) else self.fetch_offset
        self.leader_epoch = int(epochs[-1]) if len(epochs) else -1

    def select_formats(self, formats: Sequence[int]) -> Fetched:
        """Return the batches before the first one of another format, which is the object itself in most cases.

        Raises:
            UnsupportedFormatError: the first batch has another format.
        """
        if self.formats.issubset(formats):
            return self
        magics = self.batches.column("magic").tolist()
        first = next(index for index, magic in enumerate(magics) if magic not in formats)
        if first == 0:
            raise UnsupportedFormatError(str(self.partition), self.fetch_offset, magics[0], tuple(formats))
        return replace(self, data=self.data[: int(self.batches.column("position")[first])])

    def read(
        self,
        columns: Sequence[str] = DEFAULT_COLUMNS,
        *,
        end_offset: int | None = None,
        verify_crc: bool = True,
        memory: Recycler | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return the records from ``fetch_offset`` on, without control records and aborted ones.

        Args:
            columns: of ``kafkaframes.read_records``.
            end_offset: leave out this offset and what follows.
            verify_crc: whether a wrong CRC is an error.
            memory: for the arrays of many reads.

        Raises:
            CorruptRecordError: a batch is damaged; its position counts in ``data``.
        """
        batches, name = self.batches, str(self.partition)
        begins_before = bool(len(batches)) and not (
            batches.column("magic")[0] >= 2 and batches.column("base_offset")[0] >= self.fetch_offset
        )
        options = ReadOptions(
            columns=columns,
            mode=FAILFAST,
            verify_crc=verify_crc,
            control_records=not batches.is_control.any(),
            first_offset=self.fetch_offset if begins_before else None,
            end_offset=end_offset,
            chunk_bytes=_PART_BYTES,
            part_bytes=_PART_BYTES,
            unwanted=self.transactions.aborted_batches if self.aborted else None,
        )
        source = Memory(as_array(self.data), name)
        return iter(RecordReader(source, options, memory=memory, scanned=batches))

    @property
    def transactions(self) -> TransactionState:
        """What ``read_committed`` leaves out of ``data``."""
        from kafkaframes.storage.log.transactions import transactions_of_fetched  # 15 ms that few tasks need

        return transactions_of_fetched(self.data, self.batches, self.aborted or ())


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
    target: dict[str, str | int] = {"topic": partition.topic, "partition": partition.partition}
    arrays = [
        repeated(target[name], TARGET_COLUMNS[name], batch.num_rows) if name in target else batch.column(name)
        for name in columns
    ]
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
        self._offsets: list[int] = int64_values(batch.column("offset")).tolist()
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
    headers = batch.column("headers")
    columns = (
        repeat(partition.topic, batch.num_rows),  # ends first: of the offsets none is taken that is not given
        repeat(partition.partition),
        offsets,
        int64_values(batch.column("timestamp"), missing=NO_TIMESTAMP).tolist(),
        _byte_strings(batch.column("key")),
        _byte_strings(batch.column("value")),
        repeat(()) if _has_no_entries(headers) else _pairs(headers),
    )
    return zip(*columns, strict=False)


def _byte_strings(column: pa.Array) -> Iterable[bytes | None]:
    """Return a column of bytes as Python values."""
    if column.null_count == len(column):
        return repeat(None)
    values: list[bytes | None]
    values = column.to_pylist() if _LISTS_ARE_FAST else column.to_numpy(zero_copy_only=False).tolist()
    return values


def _has_no_entries(headers: pa.Array) -> bool:
    return headers.null_count == len(headers) or not len(headers.flatten())


def _pairs(headers: pa.Array) -> list[tuple[tuple[str, bytes | None], ...]]:
    return [tuple((entry["key"], entry["value"]) for entry in entries or ()) for entries in headers.to_pylist()]
