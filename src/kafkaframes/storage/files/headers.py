"""Walk a segment from batch header to batch header, in plain Python: a look-up waits neither for kernels nor for numpy.

Where batches begin and end is decided as in Kafka's FileLogInputStream: every magic is accepted (2 and above are read
as format 2), and up to 17 remaining bytes are not a batch. ``kafkaframes.records.scan`` does the same for whole files
in columns; ``tests/storage/files/test_headers.py`` holds the two together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkaframes.errors import LogDirError
from kafkaframes.records import layout
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, MESSAGE_V0, MESSAGE_V1, MIN_SIZE, OVERHEAD_BYTES
from kafkaframes.records.reasons import CORRUPT_ENDS, END, END_REASONS, SMALL_SIZE, TORN
from kafkaframes.storage.files.filesystem import ReadAt

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
    return _parse_v2(data[: _V2.size], 0, _SIZE.unpack_from(data, _AT_SIZE)[0] + OVERHEAD_BYTES, 2)


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
