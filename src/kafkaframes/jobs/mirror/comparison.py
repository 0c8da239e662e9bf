"""Compare the records of a source and its copy at equal offsets, so that a mirror only continues its own copy.

The end offset of a copy does not prove that its records are those of the source. Before a mirror resumes, it compares
records of both sides: all records that both have; or the first half megabyte of them, some samples, and the last one.
Key, value and headers must be equal. The timestamp must be equal too, unless the copy's broker sets its own. Offsets
that compaction or retention has removed on one side are skipped. Batches with equal bytes are not decoded, so that
a complete comparison costs little more than reading both sides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol

from kafkaframes.client import AsyncConsumer, TopicPartition
from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.errors import LogDirError, NetworkError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.mirror.mapping import OffsetMapping
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.scan import check_crcs

MAX_FETCH_BYTES: Final = 512 << 10  # fetch size of a comparison; a batch may be larger
MAX_HEAD_BYTES: Final = 512 << 10  # size of the first records, which are all compared
_SAMPLE_COUNT: Final = 4  # number of samples between the first and the last records
_COMPARED_COLUMNS: Final = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")
_MIN_COMPARED_MAGIC: Final = 2  # messages inside older sets have offsets of their own
_LOG_APPEND_TIME: Final = 1  # value of the column timestamp_type
_MAX_WINDOW_ROWS: Final = 10_000  # rows of a window, because a small batch may contain a million records
_RETRY_INTERVAL_MS: Final = 250  # time limit of one fetch, after which the deadline is checked
_MAX_VALUE_TEXT_BYTES: Final = 60  # longer keys, values and headers are shortened in messages
_BODY_POSITION: Final = BATCH_V2.position_of(
    "magic"
)  # earlier bytes are not compared: base offset and length are columns, the leader epoch may differ


class ComparedRecord(NamedTuple):
    """The compared fields of a record. ``timestamp`` is None if the record has no timestamp."""

    timestamp: int | None
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def matches_copy(self, copy: ComparedRecord) -> bool:
        """Return whether ``copy`` is a mirror's copy of this record."""
        if (self.key, self.value, self.headers) != (copy.key, copy.value, copy.headers):
            return False
        has_own_time = copy.is_append_time and not self.is_append_time
        return has_own_time or self.timestamp is None or self.timestamp == copy.timestamp

    def __str__(self) -> str:
        headers = "".join(f", header {name} {_shorten_value(value)}" for name, value in self.headers[:3])
        return (
            f"key {_shorten_value(self.key)}, value {_shorten_value(self.value)}, timestamp {self.timestamp}{headers}"
        )


def _shorten_value(value: bytes | None) -> str:
    """Return a value as text of limited length."""
    if value is None or len(value) <= _MAX_VALUE_TEXT_BYTES:
        return repr(value)
    return f"{value[:_MAX_VALUE_TEXT_BYTES]!r}... ({count_text(len(value), 'byte')})"


class FetchedWindow(NamedTuple):
    """The records of one fetch.

    Attributes:
        records: records by source offset.
        next_offset: source offset after the window. The window contains all records from the requested offset up to
            ``next_offset``.
        size_bytes: size of the fetched batches, in bytes.
    """

    records: dict[int, ComparedRecord]
    next_offset: int
    size_bytes: int = 0


class EqualBatches(NamedTuple):
    """The first batches of two fetches, as far as they have the same bytes.

    Attributes:
        next_offset: offset after the last of these batches.
        records: number of records in these batches, without control records.
        size_bytes: size of the batches on both sides, in bytes.
    """

    next_offset: int
    records: int
    size_bytes: int


def find_equal_batches(
    source: FetchedBatches | None, copy: FetchedBatches | None, offset: int, end: int
) -> EqualBatches | None:
    """Return the first batches of format 2, as far as their bytes are equal on both sides.

    Return None if the first batches already differ.

    The leader epoch may differ, because a broker sets it. Only batches between ``offset`` and ``end`` are compared. A
    batch with a wrong CRC ends the result, because the same damage on both sides must be reported when it is decoded.
    """
    if source is None or copy is None:
        return None
    names = ("base_offset", "last_offset", "size", "position", "magic", "count")
    sides = [zip(*(side.batches.column(name).tolist() for name in names), strict=True) for side in (source, copy)]
    controls = source.batches.is_control.tolist()
    has_right_crc = check_crcs(source.data, source.batches).tolist()
    views = memoryview(source.data), memoryview(copy.data)
    next_offset = records = size_bytes = 0
    for row, (header, other_header) in enumerate(zip(*sides, strict=False)):
        base, last, size, position, magic, count = header
        is_inside = offset <= base and last < end and magic >= _MIN_COMPARED_MAGIC
        if not is_inside or header[:3] != other_header[:3] or not has_right_crc[row]:
            break
        if (
            views[0][position + _BODY_POSITION : position + size]
            != views[1][other_header[3] + _BODY_POSITION : other_header[3] + size]
        ):
            break
        next_offset, size_bytes = last + 1, size_bytes + 2 * size
        records += 0 if controls[row] else count
    return EqualBatches(next_offset, records, size_bytes) if next_offset else None


class ComparedSide(Protocol):
    """The source or the copy of a partition, as one side of a comparison."""

    async def read_window(self, offset: int, end: int) -> FetchedWindow:
        """Return records from source offset ``offset`` on, at most up to ``end`` (exclusive)."""

    async def fetch_batches(self, offset: int, end: int) -> FetchedBatches | None:
        """Return batches from source offset ``offset`` on.

        Return None if the batches do not have source offsets, or if there are no records up to ``end``.
        """

    def decode_window(self, fetched_batches: FetchedBatches | None, offset: int, end: int) -> FetchedWindow | None:
        """Return the records of a fetch from ``offset`` to ``end``.

        Return None if this side does not support ``fetch_batches``.
        """


@dataclass(slots=True)
class PartitionSide:
    """A partition with source offsets: the source itself, or a copy with the same offsets.

    Attributes:
        skips_damage: whether damaged batches are skipped instead of raising an error.
        timeout_s: longest time without new data, in seconds.
    """

    consumer: AsyncConsumer
    partition: TopicPartition
    skips_damage: bool = False
    timeout_s: float = 60.0

    async def read_window(self, offset: int, end: int) -> FetchedWindow:
        """Return records from ``offset`` on, at most up to ``end`` (exclusive).

        Raises:
            CorruptRecordError: a batch is damaged.
            NetworkError: no data arrive for ``timeout_s``.
        """
        return self.decode_window(await self.fetch_batches(offset, end), offset, end)

    async def fetch_batches(self, offset: int, end: int) -> FetchedBatches | None:
        """Return batches from ``offset`` on; None if there are no records up to ``end``.

        Raises:
            NetworkError: no data arrive for ``timeout_s``.
        """
        await self.consumer.assign({self.partition: offset}, ends={self.partition: end})
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            fetched_batches = await self.consumer.fetch(_RETRY_INTERVAL_MS)
            if fetched_batches is not None:
                return fetched_batches
            if await self.consumer.skip_gap(self.partition, end):
                return None
        raise NetworkError(f"no records from {self.partition} arrived for {self.timeout_s:.0f} s")

    def decode_window(self, fetched_batches: FetchedBatches | None, offset: int, end: int) -> FetchedWindow:
        """Return the records of a fetch from ``offset`` to ``end``.

        Raises:
            CorruptRecordError: a batch is damaged.
        """
        if fetched_batches is None:
            return FetchedWindow({}, end)
        on_damage = "drop" if self.skips_damage else "fail"
        rows = chain.from_iterable(
            map(_iterate_records, fetched_batches.read(_COMPARED_COLUMNS, end_offset=end, on_damage=on_damage))
        )
        records = dict(islice((row for row in rows if offset <= row[0] < end), _MAX_WINDOW_ROWS))
        next_offset = max(records) + 1 if len(records) == _MAX_WINDOW_ROWS else min(fetched_batches.next_offset, end)
        return FetchedWindow(records, next_offset, len(fetched_batches.data))


@dataclass(slots=True)
class MappedSide:
    """A copy with its own offsets, which are translated to source offsets."""

    inner: PartitionSide
    mapping: OffsetMapping

    async def fetch_batches(self, offset: int, end: int) -> FetchedBatches | None:
        """Return None, because the offsets in the batches are not those of the source."""
        return None

    def decode_window(self, fetched_batches: FetchedBatches | None, offset: int, end: int) -> FetchedWindow | None:
        """Return None, because this side does not support ``fetch_batches``."""
        return None

    async def read_window(self, offset: int, end: int) -> FetchedWindow:
        """Return the copy's records by source offset. See ``PartitionSide.read_window``."""
        first, last = self.mapping.translate_offset(offset), self.mapping.translate_offset(end)
        if first >= last:
            return FetchedWindow({}, end)
        window = await self.inner.read_window(first, last)
        records = {
            self.mapping.find_source_offset(target_offset): record for target_offset, record in window.records.items()
        }
        next_offset = end if window.next_offset >= last else self.mapping.find_source_offset(window.next_offset)
        return FetchedWindow(records, next_offset, window.size_bytes)


def _iterate_records(columns: Any) -> Iterator[tuple[int, ComparedRecord]]:
    """Yield (offset, record) for each row."""
    values = {name: columns.column(name) for name in _COMPARED_COLUMNS}
    values["timestamp"] = values["timestamp"].cast("int64")
    for offset, timestamp, kind, key, value, headers in zip(
        *(values[name].to_pylist() for name in _COMPARED_COLUMNS), strict=True
    ):
        pairs = tuple((header["key"], header["value"]) for header in headers or ())
        time_ms = timestamp if timestamp is not None and timestamp >= 0 else None
        yield offset, ComparedRecord(time_ms, kind == _LOG_APPEND_TIME, key, value, pairs)


@dataclass(slots=True)
class PartitionComparison:
    """The comparison of the two sides of a partition between two source offsets.

    Attributes:
        is_complete: whether all common records are compared; otherwise only the first ones, some samples and the last
            one.
        compared_offsets: number of offsets at which both sides have the same record.
    """

    partition: TopicPartition
    source: ComparedSide
    copy: ComparedSide
    first: int
    end: int
    is_complete: bool = False
    compared_offsets: int = 0
    _counted_end: int = 0

    async def compare(self) -> int:
        """Compare both sides, and return the number of common offsets that were compared.

        Raises:
            LogDirError: the sides have different records at an offset.
            CorruptRecordError, NetworkError, BrokerError: a side cannot be read.
        """
        offset, size_bytes = self.first, 0
        while offset < self.end and (self.is_complete or size_bytes < MAX_HEAD_BYTES or not self.compared_offsets):
            offset, _, more_bytes = await self._compare_window(offset)
            size_bytes += more_bytes
        if offset >= self.end:
            return self.compared_offsets
        step = (self.end - offset) // (_SAMPLE_COUNT + 1)
        for number in range(_SAMPLE_COUNT if step else 0):
            await self._compare_window(offset + step * (number + 1))
        distance = 1
        while True:  # if one side is compacted, the last common offset may be far from the end
            start = max(self.end - distance, offset)
            if await self._find_common_offset(start) or start == offset:
                return self.compared_offsets
            distance *= 16

    async def _find_common_offset(self, start: int) -> bool:
        """Compare fetched windows from ``start`` on, until both sides of a window have a record at the same offset.

        Return False if no such offset is found.
        """
        while start < self.end:
            start, count, _ = await self._compare_window(start)
            if count:
                return True
        return False

    async def _compare_window(self, offset: int) -> tuple[int, int, int]:
        """Compare one window.

        Compare one window, and return the start of the next one, the number of common offsets and the fetched bytes.
        """
        batches = await self.source.fetch_batches(offset, self.end), await self.copy.fetch_batches(offset, self.end)
        equal_batches = find_equal_batches(*batches, offset, self.end)
        if equal_batches is not None:
            self.compared_offsets += equal_batches.records if offset >= self._counted_end else 0
            self._counted_end = max(self._counted_end, equal_batches.next_offset)
            return equal_batches
        source = self.source.decode_window(batches[0], offset, self.end) or await self.source.read_window(
            offset, self.end
        )
        copy = self.copy.decode_window(batches[1], offset, self.end) or await self.copy.read_window(offset, self.end)
        common_end = min(source.next_offset, copy.next_offset)
        common_offsets = sorted(
            source_offset for source_offset in source.records.keys() & copy.records.keys() if source_offset < common_end
        )
        for source_offset in common_offsets:
            if not source.records[source_offset].matches_copy(copy.records[source_offset]):
                raise LogDirError(
                    f"offset {source_offset:,}: the source has {source.records[source_offset]}; the copy has "
                    f"{copy.records[source_offset]}; the copy has other records than the source: mirror into an "
                    "empty topic or directory",
                    file=str(self.partition),
                )
        self.compared_offsets += sum(source_offset >= self._counted_end for source_offset in common_offsets)
        self._counted_end = max(self._counted_end, max(common_offsets, default=-1) + 1)
        if not common_offsets:  # continue at the first offset that both sides can have
            starts = (min(record.records, default=record.next_offset) for record in (source, copy))
            common_end = max(common_end, *starts)
        return max(common_end, offset + 1), len(common_offsets), source.size_bytes + copy.size_bytes


async def has_records(side: ComparedSide, first: int, end: int) -> bool:
    """Return whether a side has a record at an offset from ``first`` to ``end`` (exclusive).

    Markers and empty batches are not records.
    """
    while first < end:
        window = await side.read_window(first, end)
        if window.records:
            return True
        first = max(window.next_offset, first + 1)
    return False
