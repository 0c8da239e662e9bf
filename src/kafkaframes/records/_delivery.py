"""Read a compressed stream in the same steps as Kafka's record reader, up to its end or its first error.

The fast paths of the codecs decompress whole streams. A stream that the fast paths do not support is read again here
with the read sizes that Kafka uses, because the sizes determine how many records an error *loses*: the bytes of
earlier reads are delivered, but the bytes of the failing read are not.

Kafka puts a buffer (``ChunkedBytesStream``) between the codec and the records: 2 KiB for snappy and LZ4, 16 KiB for
gzip and zstd. An empty buffer is refilled with one read. If the rest of a record's body is at least as long as the
buffer, Kafka reads it directly, without the buffer. Message sets of formats 0 and 1 are decompressed as a whole before
their first record is returned, so an error loses all of their records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

_MAX_VARINT_BYTES = 5
# Attributes, two deltas, key, value, number of headers: a byte each.
_MIN_RECORD_BODY_BYTES = 6
_END_OF_WALK = 1 << 62  # a position after all data, so that no further record length is read
# A longer record is read in several reads. The result is the same: the record is lost or delivered as a whole.
_MAX_READ_BYTES = 1 << 20


class DecompressedContent(NamedTuple):
    """The decompressed bytes of a batch's records section or of a message set.

    ``data`` is what Kafka's reader receives. ``error`` is the reason why the data ends early, or ``None``.
    """

    data: bytes | bytearray
    error: str | None


class DamagedStreamError(Exception):
    """Raised if a compressed stream cannot be read; the text is the reason."""


class Stream(Protocol):
    """A decompressing stream. Each read returns as many bytes as a read of the Java class that Kafka uses."""

    def read(self, size: int) -> bytes | memoryview:
        """Return 1 to ``size`` bytes, ``b""`` at the end, or raise ``DamagedStreamError``."""
        ...


def deliver(
    open_stream: Callable[[], Stream], *, buffer_size: int, magic: int, limit_bytes: int
) -> DecompressedContent:
    """Read a stream to its end, its first error, or ``limit_bytes``.

    A format 2 stream that fails is read a second time with the read sizes of Kafka's record reader, which decide how
    many bytes are delivered before the error.

    Both ``open_stream`` and the reads of its stream may raise ``DamagedStreamError``.
    """
    data, error = _read_stream(open_stream, buffer_size, limit_bytes, None)
    if error is not None and magic >= 2 and data:
        data, error = _read_stream(open_stream, buffer_size, limit_bytes, _RecordWalk())
    if len(data) > limit_bytes:
        del data[limit_bytes:]
        return DecompressedContent(data, over_limit_text(limit_bytes))
    return DecompressedContent(data, error)


def _read_stream(
    open_stream: Callable[[], Stream], buffer_size: int, limit_bytes: int, walk: _RecordWalk | None
) -> tuple[bytearray, str | None]:
    data = bytearray()
    try:
        stream = open_stream()
        while len(data) <= limit_bytes:
            body_bytes = walk.unread_body_bytes(data) if walk is not None else 0
            remaining_bytes = limit_bytes + 1 - len(data)
            part = stream.read(min(max(body_bytes, buffer_size), remaining_bytes, _MAX_READ_BYTES))
            if not part:
                break
            data += part
    except DamagedStreamError as error:
        return data, str(error)
    return data, None


_LIMIT_ERROR_SUFFIX = "bytes after decompression"


def over_limit_text(limit_bytes: int) -> str:
    """Return the error text of a stream that exceeds ``limit_bytes``."""
    return f"more than {limit_bytes} {_LIMIT_ERROR_SUFFIX}"


def is_over_limit(detail: str) -> bool:
    """Return whether an error text was returned by ``over_limit_text``."""
    return detail.endswith(_LIMIT_ERROR_SUFFIX)


class _RecordWalk:
    """A search for the end of the current format 2 record, which follows the lengths of the records read so far."""

    def __init__(self) -> None:
        self._position = 0

    def unread_body_bytes(self, data: bytearray) -> int:
        """Return the size of the unread rest of the current record's body, in bytes; 0 if it is unknown."""
        while self._position < len(data):
            length, body = _read_length(data, self._position)
            if length is not None and length < _MIN_RECORD_BODY_BYTES:  # Kafka fails here and stops reading
                self._position = _END_OF_WALK
                return 0
            if length is None:
                return 0
            if body + length > len(data):
                return body + length - len(data)
            self._position = body + length
        return 0


def _read_length(data: bytearray, position: int) -> tuple[int | None, int]:
    """Return a zig-zag varint and the position after it; the varint is ``None`` if it is truncated or too long."""
    raw = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    return None, position
