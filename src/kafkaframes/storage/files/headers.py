"""Iterate the batch headers of a segment in plain Python, so that a look-up does not wait for kernels or numpy.

The start and end of batches are determined as in Kafka's FileLogInputStream: every magic is accepted (2 and above are
read as format 2), and up to 17 remaining bytes are not a batch. ``kafkaframes.records.scan`` reads the headers of whole
files into columns. ``tests/storage/files/test_headers.py`` compares the two modules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkaframes.errors import LogDirError
from kafkaframes.records import layout
from kafkaframes.records.layout import (
    BATCH_V2,
    BYTES_TO_MAGIC,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_STATED_BATCH_BYTES,
    OVERHEAD_BYTES,
)
from kafkaframes.records.reasons import CORRUPT_END_REASONS, END, END_REASONS, SMALL_SIZE, TORN
from kafkaframes.storage.files.filesystem import ReadAt
from kafkaframes.wire.integers import MAX_INT32

if TYPE_CHECKING:
    from kafkaframes.records.scan import BatchHeaders

WINDOW_BYTES = 16 << 10  # size of one read; the rest of a larger batch is skipped
_MAGIC_POSITION = MESSAGE_V0.position_of("magic")
_SIZE_POSITION = MESSAGE_V0.position_of("size")
_SIZE_STRUCT = struct.Struct(">i")
_V0, _V1, _V2 = (
    struct.Struct(">" + "".join(field.format for field in header.fields))
    for header in (MESSAGE_V0, MESSAGE_V1, BATCH_V2)
)


class BatchHeader(NamedTuple):
    """A batch header, with the fields in the order of ``records.layout.BATCH_COLUMNS``.

    A message of format 0 or 1 has only one offset and one timestamp, which are used for both offsets and both
    timestamps. The offset of a compressed wrapper is that of the last message inside it. Header fields that the batch's
    format lacks are -1.

    Attributes:
        position: position of the batch in the ``.log`` file, in bytes.
        size: size of the batch in bytes, including the 12 bytes of offset and size.
        record_count: number of records according to the header; -1 in formats 0 and 1.
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
        """The position after the batch, in bytes."""
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
        """Whether the batch has control records, which consumers do not return."""
        return self.magic >= 2 and bool(self.attributes & layout.CONTROL)

    @property
    def has_producer(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, wrapped after 2^31 - 1; -1 without sequence numbers."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset - self.base_offset) & MAX_INT32


class HeaderWalk:
    """An iterator over the batch headers of a file, from a position on.

    Iterate it once. After the iteration, ``status`` (see ``records.reasons``) contains the reason for the end, and
    ``position`` is the end of the last batch. If the file is shorter than ``size_bytes``, a ``LogDirError`` with
    ``file`` is raised.

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
        """The reason why the batches end, as text."""
        return END_REASONS[self.status]

    @property
    def is_corrupt(self) -> bool:
        """Whether Kafka reports this end as an error; an incomplete last batch is not an error."""
        return self.status in CORRUPT_END_REASONS

    def __iter__(self) -> Iterator[BatchHeader]:
        window, start = b"", 0
        while self._has_header():
            window_position = self.position - start
            if window_position < 0 or window_position + BATCH_V2.size > len(window):
                start = self.position
                window, window_position = self._read_at(start, self._window_bytes), 0
                if len(window) < min(self._window_bytes, self._size_bytes - start):
                    reason = "the file became shorter while it was read"
                    raise LogDirError(reason, position=start + len(window), file=self._file)
            result = self._parse_next_header(window, window_position)
            if result is None:
                return
            self.position = result.end
            yield result

    def _has_header(self) -> bool:
        remaining_bytes = self._size_bytes - self.position
        self.status = END if remaining_bytes <= 0 else TORN
        return remaining_bytes > BYTES_TO_MAGIC

    def _parse_next_header(self, window: bytes, window_position: int) -> BatchHeader | None:
        body: int = _SIZE_STRUCT.unpack_from(window, window_position + _SIZE_POSITION)[0]
        if body < MIN_STATED_BATCH_BYTES:
            self.status = SMALL_SIZE
            return None
        size = body + OVERHEAD_BYTES
        if self.position + size > self._size_bytes:
            return None
        return parse_header(window, window_position=window_position, position=self.position, size=size)


def parse_header(window: bytes | bytearray, *, window_position: int, position: int, size: int) -> BatchHeader:
    """Return the header that starts at a position in the file.

    Args:
        window: bytes that contain the header; fields after the end of the batch or of the window are -1.
        position: position of the batch in the file, in bytes.
        size: size of the whole batch, from its size field, in bytes.
    """
    magic: int = int.from_bytes(
        window[window_position + _MAGIC_POSITION : window_position + _MAGIC_POSITION + 1], "big", signed=True
    )
    if magic >= 2:
        return _parse_v2(window[window_position : window_position + min(size, _V2.size)], position, size, magic)
    if magic == 1:
        offset, _, crc, _, attributes, timestamp = _V1.unpack_from(window, window_position)
    else:
        offset, _, crc, _, attributes = _V0.unpack_from(window, window_position)
        timestamp = -1
    return BatchHeader(
        position, size, magic, crc, attributes & 0xFF, offset, offset, -1, timestamp, timestamp, -1, -1, -1, -1
    )


def read_first_header(data: bytes | bytearray) -> BatchHeader | None:
    """Return the header of the format 2 batch at the start of ``data``; None if ``data`` does not start with one.

    The size in the header is not checked. If ``data`` ends inside the header, the missing fields are -1.
    """
    if len(data) < BYTES_TO_MAGIC or data[_MAGIC_POSITION] != 2:
        return None
    return _parse_v2(data[: _V2.size], 0, _SIZE_STRUCT.unpack_from(data, _SIZE_POSITION)[0] + OVERHEAD_BYTES, 2)


def parse_headers(data: bytes | bytearray) -> list[BatchHeader]:
    """Return the headers of whole batches.

    A single batch, the usual append in format 2, is parsed directly; the scan kernel parses several.
    """
    size = int.from_bytes(data[_SIZE_POSITION:OVERHEAD_BYTES], "big", signed=True)
    if size + OVERHEAD_BYTES == len(data) and size >= MIN_STATED_BATCH_BYTES:
        return [parse_header(data, window_position=0, position=0, size=len(data))]
    from kafkaframes.records.scan import scan_all  # imports numpy and a kernel, which single batches do not need

    return list_scanned_headers(scan_all(data))


def list_scanned_headers(batches: BatchHeaders) -> list[BatchHeader]:
    """Return the headers of a scan as a list."""
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
