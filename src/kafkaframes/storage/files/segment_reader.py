"""One segment for look-ups: batch header by batch header, its records, and its indexes where they can be trusted.

Headers are walked in plain Python, so that a look-up does not wait for kernels. Where batches begin and end is decided
as in Kafka's FileLogInputStream: every magic is accepted (2 and above are read as format 2), and up to 17 remaining
bytes are not a batch. ``kafkaframes.records.scan`` does the same for whole files in columns;
``tests/storage/files/test_headers.py`` holds the two together.

A missing, corrupt or foreign index never leads to a wrong answer: it is not used (``problems`` says why), and the
headers are walked from the start. A position from an index is used only if a fitting batch begins there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.records import layout
from kafkaframes.records.batch import Record, read_values
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, MESSAGE_V0, MESSAGE_V1, MIN_SIZE, OVERHEAD_BYTES
from kafkaframes.records.reasons import CORRUPT_ENDS, END, END_REASONS, SMALL_SIZE, TORN
from kafkaframes.records.scan import FILE
from kafkaframes.storage.files.directory import LogFile, Segment
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt
from kafkaframes.storage.files.indexes import (
    NO_TIMESTAMP,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    read_offset_index,
    read_time_index,
)

if TYPE_CHECKING:
    from kafkaframes.records.scan import Batches

WINDOW_BYTES = 16 << 10  # read at once; a batch beyond it is stepped over, not read
_AT_MAGIC = MESSAGE_V0.position_of("magic")
_AT_SIZE = MESSAGE_V0.position_of("size")
_SIZE = struct.Struct(">i")
_V0, _V1, _V2 = (
    struct.Struct(">" + "".join(field.format for field in header.fields))
    for header in (MESSAGE_V0, MESSAGE_V1, BATCH_V2)
)


class BatchHeader(NamedTuple):
    """One batch without its records; in the order of ``records.layout.BATCH_COLUMNS``.

    For a message of format 0 or 1, compressed or not, the one offset stands for both offsets (of a compressed wrapper
    it is the last inner one), its timestamp for both timestamps, and -1 for what the format does not have.

    Attributes:
        position: byte in the ``.log`` where it begins.
        size: bytes, the 12 of offset and size included.
        record_count: as declared; -1 in formats 0 and 1.
    """

    position: int
    size: int
    magic: int
    crc: int
    attributes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end(self) -> int:
        """The byte after the batch."""
        return self.position + self.size

    @property
    def codec(self) -> int:
        """The codec's number; 5 to 7 are unknown to Kafka."""
        return self.attributes & layout.CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction (data or marker)."""
        return self.magic >= 2 and bool(self.attributes & layout.TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records: consumers are never given them."""
        return self.magic >= 2 and bool(self.attributes & layout.CONTROL)

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record, wrapped at 2^31 - 1; -1 without one."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF


class HeaderWalk:
    """The batch headers of a file, from a position on.

    Iterate it once; afterwards ``status`` (of ``records.reasons``) and ``position`` say how and where the batches end.
    A file that turns out shorter than ``size_bytes`` is a ``LogDirError``, which names ``file``.

    >>> walk = HeaderWalk(lambda position, length: b"", size_bytes=0)
    >>> list(walk), walk.position, walk.reason, walk.is_corrupt
    ([], 0, 'the end of the data', False)
    """

    def __init__(
        self,
        read_at: ReadAt,
        *,
        size_bytes: int,
        position: int = 0,
        window_bytes: int = WINDOW_BYTES,
        file: str | None = None,
    ) -> None:
        self.position = position
        self._file = file
        self.status = END
        self._read_at = read_at
        self._size_bytes = size_bytes
        self._window_bytes = max(window_bytes, BATCH_V2.size)

    @property
    def reason(self) -> str:
        """How the batches ended, in words."""
        return END_REASONS[self.status]

    @property
    def is_corrupt(self) -> bool:
        """Whether Kafka would end these batches with an error, which it does not for an incomplete last batch."""
        return self.status in CORRUPT_ENDS

    def __iter__(self) -> Iterator[BatchHeader]:
        window, start = b"", 0
        while self._has_header():
            at = self.position - start
            if at < 0 or at + BATCH_V2.size > len(window):
                start = self.position
                window, at = self._read_at(start, self._window_bytes), 0
                if len(window) < min(self._window_bytes, self._size_bytes - start):
                    reason = "the file became shorter while it was read"
                    raise LogDirError(reason, position=start + len(window), file=self._file)
            result = self._parse(window, at)
            if result is None:
                return
            self.position = result.end
            yield result

    def _has_header(self) -> bool:
        left = self._size_bytes - self.position
        self.status = END if left <= 0 else TORN
        return left > BYTES_TO_MAGIC

    def _parse(self, window: bytes, at: int) -> BatchHeader | None:
        body: int = _SIZE.unpack_from(window, at + _AT_SIZE)[0]
        if body < MIN_SIZE:
            self.status = SMALL_SIZE
            return None
        size = body + OVERHEAD_BYTES
        if self.position + size > self._size_bytes:
            return None
        return parse_header(window, at=at, position=self.position, size=size)


def parse_header(window: bytes | bytearray, *, at: int, position: int, size: int) -> BatchHeader:
    """Return the header that starts at ``window[at]``.

    Args:
        window: bytes that hold the header; fields that lie beyond the batch or the window are -1.
        at: where in ``window``.
        position: where in the file.
        size: of the whole batch, from its own size field.
    """
    magic: int = int.from_bytes(window[at + _AT_MAGIC : at + _AT_MAGIC + 1], "big", signed=True)
    if magic >= 2:
        return _parse_v2(window[at : at + min(size, _V2.size)], position, size, magic)
    if magic == 1:
        offset, _, crc, _, attributes, timestamp = _V1.unpack_from(window, at)
    else:
        offset, _, crc, _, attributes = _V0.unpack_from(window, at)
        timestamp = -1
    return BatchHeader(
        position, size, magic, crc, attributes & 0xFF, offset, offset, -1, timestamp, timestamp, -1, -1, -1, -1
    )


def first_header(data: bytes | bytearray) -> BatchHeader | None:
    """Return the header of the batch of format 2 that bytes begin with, whatever size it says; None without one.

    Of bytes that end inside the header, what is not there is -1.
    """
    if len(data) < BYTES_TO_MAGIC or data[_AT_MAGIC] != 2:
        return None
    if len(data) < _V2.size:
        return _parse_v2(data, 0, _SIZE.unpack_from(data, _AT_SIZE)[0] + OVERHEAD_BYTES, 2)
    base, length, epoch, magic, crc, attributes, delta, *rest = _V2.unpack_from(data)
    fields = (0, length + OVERHEAD_BYTES, magic, crc, attributes, base, base + delta, epoch, *rest)
    return BatchHeader._make(fields)


def headers_of(data: bytes | bytearray) -> list[BatchHeader]:
    """Return the headers of batches that are known to be whole.

    One batch, the usual append of format 2, is parsed in place; more go through the scan's kernel.
    """
    size = int.from_bytes(data[_AT_SIZE:OVERHEAD_BYTES], "big", signed=True)
    if size + OVERHEAD_BYTES == len(data) and size >= MIN_SIZE:
        return [parse_header(data, at=0, position=0, size=len(data))]
    from kafkaframes.records.scan import scan_all  # numpy and a kernel: only where there are many

    return headers_from(scan_all(data))


def headers_from(batches: Batches) -> list[BatchHeader]:
    """Return the headers of a scan one by one."""
    return [BatchHeader(*column) for column in batches.table.T.tolist()]


def _parse_v2(header: bytes | bytearray, position: int, size: int, magic: int) -> BatchHeader:
    if len(header) == _V2.size:
        base, _, epoch, _, crc, attributes, delta, base_time, max_time, producer, producer_epoch, sequence, count = (
            _V2.unpack(header)
        )
        fields = base, base + delta, epoch, base_time, max_time, producer, producer_epoch, sequence, count
        return BatchHeader(position, size, magic, crc, attributes, *fields)
    have = {
        field.name: struct.unpack_from(">" + field.format, header, BATCH_V2.position_of(field.name))[0]
        for field in BATCH_V2.fields
        if BATCH_V2.end_of(field.name) <= len(header)
    }
    delta = have.get("last_offset_delta")
    have["base_offset"] = have["offset"]
    have["last_offset"] = -1 if delta is None else have["offset"] + delta
    have |= {"position": position, "size": size}
    return BatchHeader(*(have.get(name, -1) for name in layout.BATCH_COLUMNS))


def read_batch(read_at: ReadAt, header: BatchHeader, *, file: str | None = None) -> bytes:
    """Return all bytes of a batch.

    Raises:
        LogDirError: the file has become shorter since its header was read.
    """
    raw = read_at(header.position, header.size)
    if len(raw) < header.size:
        raise LogDirError("the file became shorter while it was read", position=header.position, file=file)
    return raw


_Index = TypeVar("_Index")


class SegmentReader:
    """Reads one segment; made by ``open_segment``.

    Attributes:
        segment: which.
        problems: indexes that were left out, with the reason.
    """

    def __init__(self, filesystem: FileSystem, segment: Segment, read_at: ReadAt, *, use_indexes: bool) -> None:
        self.segment = segment
        self.problems: list[LogDirError] = []
        self._filesystem = filesystem
        self._read_at = read_at
        self._use_indexes = use_indexes

    @cached_property
    def offset_index(self) -> OffsetIndex | None:
        """The offset index; None where there is none that can be used."""
        return self._index(self.segment.index, read_offset_index)

    @cached_property
    def time_index(self) -> TimeIndex | None:
        """The time index; None where there is none that can be used."""
        return self._index(self.segment.time_index, read_time_index)

    def _index(self, file: LogFile | None, read: Callable[..., _Index]) -> _Index | None:
        if file is None or not self._use_indexes:
            return None
        try:
            return read(self._filesystem.read(file.path), base_offset=self.segment.base_offset, file=file.path)
        except LogDirError as problem:
            self.problems.append(problem)
            return None

    def headers(self, position: int = 0) -> HeaderWalk:
        """Walk the batch headers from a position at which a batch starts."""
        segment = self.segment
        return HeaderWalk(self._read_at, size_bytes=segment.size_bytes, position=position, file=segment.path)

    def producer_headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Yield the headers of all batches that a producer with an id wrote, and of the last batch of each window.

        So the last header of the segment is always among them, and says where it ends. The headers are scanned in
        columns: where no producer has an id, this costs next to nothing.
        """
        from kafkaframes.storage.files.scan import scan_segment  # kernels: a look-up must not wait for them

        size, path = self.segment.size_bytes, self.segment.path
        for window in scan_segment(self._read_at, size_bytes=size, position=position, file=path):
            chosen = window.batches.column("producer_id") >= 0
            chosen[-1:] = True
            yield from (BatchHeader(*column) for column in window.batches.table[:, chosen].T.tolist())

    def records(self, header: BatchHeader) -> tuple[Record, ...]:
        """Return a batch's records, control records included, as far as they can be read."""
        raw = read_batch(self._read_at, header, file=self.segment.path)
        for batch in read_values(raw, rules=FILE):
            return batch.records
        return ()

    def entry_before(self, offset: int) -> OffsetPosition:
        """Return the offset index's entry at or before ``offset``; the segment's start without one."""
        if self.offset_index is None:
            return OffsetPosition(self.segment.base_offset, 0)
        return self.offset_index.lookup(offset)

    def time_entry_before(self, timestamp_ms: int) -> TimestampOffset:
        """Return the time index's entry at or before ``timestamp_ms``; the segment's start without one."""
        if self.time_index is None:
            return TimestampOffset(NO_TIMESTAMP, self.segment.base_offset)
        return self.time_index.lookup(timestamp_ms)

    def start_before(self, offset: int) -> int:
        """Return a position at which a batch starts, with every record of ``offset`` and above at or after it."""
        entry = self.entry_before(offset)
        if entry.position == 0 or self._fits(entry):
            return entry.position
        self._distrust(entry)
        return 0

    def find_batch(self, offset: int) -> BatchHeader | None:
        """Return the first batch that ends at or above ``offset``; None where the segment has none."""
        for header in self.headers(self.start_before(offset)):
            if header.last_offset >= offset:
                return header
        return None

    def last_headers(self) -> Iterator[BatchHeader]:
        """Walk the batches from the last index entry on, up to the last batch of the segment."""
        index = self.offset_index
        return iter(self.headers(self.start_before(int(index.offsets[-1])) if index is not None and len(index) else 0))

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset of an empty segment."""
        if self.segment.end_offset is not None:
            return self.segment.end_offset + 1
        last = self.segment.base_offset - 1
        for header in self.last_headers():
            last = header.last_offset
        return last + 1

    @cached_property
    def largest_timestamp(self) -> int:
        """The largest timestamp of all batches, markers included; -1 without any.

        The time index knows it up to the last entry of the offset index, for Kafka adds to both at once; what follows
        is walked, because the indexes of a segment that was not closed do not reach its end.
        """
        known = self.time_index
        if known is None or self.offset_index is None:
            return max((header.max_timestamp for header in self.headers()), default=NO_TIMESTAMP)
        largest = int(known.timestamps[-1]) if len(known) else NO_TIMESTAMP
        return max(largest, max((header.max_timestamp for header in self.last_headers()), default=NO_TIMESTAMP))

    def _fits(self, entry: OffsetPosition) -> bool:
        """Say whether a batch begins at an entry's position, and its offset is not above the entry's."""
        for header in self.headers(entry.position):
            is_in_order = self.segment.base_offset <= header.base_offset <= header.last_offset
            return 0 <= header.magic <= 2 and is_in_order and self._first_offset(header, entry.offset) <= entry.offset
        return False

    def _first_offset(self, header: BatchHeader, requested: int) -> int:
        """Return a batch's first offset. A wrapper's header has the last; brokers of 0.10 indexed the first."""
        if header.magic >= 2 or header.base_offset <= requested:
            return header.base_offset
        return min((record.offset for record in self.records(header)), default=header.base_offset)

    def _distrust(self, entry: OffsetPosition) -> None:
        file = self.segment.index
        reason = f"no batch of offset {entry.offset} or below starts at byte {entry.position} of the segment"
        self.problems.append(LogDirError(reason, file=None if file is None else file.path))
        self.offset_index = None  # none of its entries can be trusted
        self.time_index = None


@contextmanager
def open_segment(filesystem: FileSystem, segment: Segment, *, use_indexes: bool = True) -> Iterator[SegmentReader]:
    """Open a segment.

    Args:
        filesystem: holds the segment.
        segment: from the discovery.
        use_indexes: False walks headers instead; the answers are the same.

    Raises:
        LogDirError: it cannot be read.
    """
    with filesystem.open(segment.path) as read_at:
        yield SegmentReader(filesystem, segment, read_at, use_indexes=use_indexes)
