"""Read one segment for look-ups: its records, and its indexes if they are reliable.

A missing, corrupt or foreign index never causes a wrong result. An unreliable index is ignored, ``problems`` states the
reason, and the headers are read from the start of the segment. An index position is used only if a batch with a
matching offset starts there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.records.batch import Record, read_batches, read_offsets_and_timestamps
from kafkaframes.records.scan import FILE, Ints
from kafkaframes.storage.files.directory import LogFile, Segment
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt
from kafkaframes.storage.files.headers import BatchHeader, HeaderWalk
from kafkaframes.storage.files.indexes import (
    NO_TIMESTAMP,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    read_offset_index,
    read_time_index,
)

_Index = TypeVar("_Index")


class SegmentReader:
    """A reader of one segment. Use ``open_segment`` to create one.

    Attributes:
        problems: errors in the ignored indexes.
    """

    def __init__(self, filesystem: FileSystem, segment: Segment, read_at: ReadAt, *, use_indexes: bool) -> None:
        self.segment = segment
        self.problems: list[LogDirError] = []
        self._filesystem = filesystem
        self._read_at = read_at
        self._use_indexes = use_indexes

    @cached_property
    def offset_index(self) -> OffsetIndex | None:
        """The offset index; None if it is missing or unusable."""
        return self._read_index(self.segment.index, read_offset_index)

    @cached_property
    def time_index(self) -> TimeIndex | None:
        """The time index; None if it is missing or unusable."""
        return self._read_index(self.segment.time_index, read_time_index)

    def _read_index(self, file: LogFile | None, read: Callable[..., _Index]) -> _Index | None:
        if file is None or not self._use_indexes:
            return None
        try:
            return read(self._filesystem.read(file.path), base_offset=self.segment.base_offset, file=file.path)
        except LogDirError as problem:
            self.problems.append(problem)
            return None

    def walk_headers(self, position: int = 0) -> HeaderWalk:
        """Return the batch headers from a position on, which must be the start of a batch."""
        segment = self.segment
        return HeaderWalk(self._read_at, size_bytes=segment.size_bytes, position=position, file=segment.path)

    def walk_producer_headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Yield the headers of all batches with a producer id, and of the last batch of each window.

        The result therefore includes the last header of the segment, which shows where the segment ends. The headers
        are scanned in columns. If no batch has a producer id, the call costs almost nothing.
        """
        from kafkaframes.storage.files.scan import scan_segment  # imports kernels, which look-ups do not need

        size, path = self.segment.size_bytes, self.segment.path
        for window in scan_segment(self._read_at, size_bytes=size, position=position, file=path):
            has_producer = window.batches.column("producer_id") >= 0
            has_producer[-1:] = True
            yield from (BatchHeader(*column) for column in window.batches.table[:, has_producer].T.tolist())

    def read_records(self, header: BatchHeader) -> tuple[Record, ...]:
        """Return the readable records of a batch, including control records."""
        for batch in read_batches(self._read_batch(header), rules=FILE):
            return batch.records
        return ()

    def read_offsets_and_timestamps(self, header: BatchHeader) -> tuple[Ints, Ints]:
        """Return the offsets and the timestamps of ``read_records(header)``, without the records themselves."""
        return read_offsets_and_timestamps(self._read_batch(header), rules=FILE)

    def _read_batch(self, header: BatchHeader) -> bytes:
        raw = self._read_at(header.position, header.size)
        if len(raw) < header.size:
            reason = "the file became shorter while it was read"
            raise LogDirError(reason, position=header.position, file=self.segment.path)
        return raw

    def find_entry_before(self, offset: int) -> OffsetPosition:
        """Return the offset index's entry at or before ``offset``; the segment's start if no entry matches."""
        if self.offset_index is None:
            return OffsetPosition(self.segment.base_offset, 0)
        return self.offset_index.lookup(offset)

    def find_time_entry_before(self, timestamp_ms: int) -> TimestampOffset:
        """Return the time index's entry at or before ``timestamp_ms``; the segment's start if no entry matches."""
        if self.time_index is None:
            return TimestampOffset(NO_TIMESTAMP, self.segment.base_offset)
        return self.time_index.lookup(timestamp_ms)

    def find_start_before(self, offset: int) -> int:
        """Return the position of a batch such that all records at or above ``offset`` are at or after it."""
        entry = self.find_entry_before(offset)
        if entry.position == 0 or self._is_entry_valid(entry):
            return entry.position
        self._discard_indexes(entry)
        return 0

    def find_batch(self, offset: int) -> BatchHeader | None:
        """Return the first batch that ends at or above ``offset``; None if the segment has none."""
        for header in self.walk_headers(self.find_start_before(offset)):
            if header.last_offset >= offset:
                return header
        return None

    def walk_last_headers(self) -> Iterator[BatchHeader]:
        """Return the batches from the last index entry to the end of the segment."""
        index = self.offset_index
        return iter(
            self.walk_headers(self.find_start_before(int(index.offsets[-1])) if index is not None and len(index) else 0)
        )

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; for an empty segment, the base offset."""
        if self.segment.end_offset is not None:
            return self.segment.end_offset + 1
        last = self.segment.base_offset - 1
        for header in self.walk_last_headers():
            last = header.last_offset
        return last + 1

    @cached_property
    def largest_timestamp(self) -> int:
        """The largest timestamp of all batches, including markers; -1 if no batch has a timestamp.

        The time index contains it up to the last entry of the offset index, because Kafka adds entries to both indexes
        together. The headers after the last entry are read, because the indexes of an open segment do not cover its
        end.
        """
        time_index = self.time_index
        if time_index is None or self.offset_index is None:
            return max((header.max_timestamp for header in self.walk_headers()), default=NO_TIMESTAMP)
        largest = int(time_index.timestamps[-1]) if len(time_index) else NO_TIMESTAMP
        return max(largest, max((header.max_timestamp for header in self.walk_last_headers()), default=NO_TIMESTAMP))

    def _is_entry_valid(self, entry: OffsetPosition) -> bool:
        """Return whether a batch starts at an entry's position and its offset is at or below the entry's offset."""
        for header in self.walk_headers(entry.position):
            is_in_order = self.segment.base_offset <= header.base_offset <= header.last_offset
            return (
                0 <= header.magic <= 2 and is_in_order and self._read_first_offset(header, entry.offset) <= entry.offset
            )
        return False

    def _read_first_offset(self, header: BatchHeader, offset: int) -> int:
        """Return a batch's first offset. The header of a wrapper message has only its last offset."""
        if header.magic >= 2 or header.base_offset <= offset:
            return header.base_offset
        return min((record.offset for record in self.read_records(header)), default=header.base_offset)

    def _discard_indexes(self, entry: OffsetPosition) -> None:
        file = self.segment.index
        reason = f"no batch of offset {entry.offset} or below starts at byte {entry.position} of the segment"
        self.problems.append(LogDirError(reason, file=None if file is None else file.path))
        self.offset_index = None  # none of its entries can be trusted
        self.time_index = None


@contextmanager
def open_segment(filesystem: FileSystem, segment: Segment, *, use_indexes: bool = True) -> Iterator[SegmentReader]:
    """Open a segment.

    Args:
        use_indexes: whether indexes are used; if False, batch headers are read instead, with the same results.

    Raises:
        LogDirError: the segment cannot be read.
    """
    with filesystem.open(segment.path) as read_at:
        yield SegmentReader(filesystem, segment, read_at, use_indexes=use_indexes)
