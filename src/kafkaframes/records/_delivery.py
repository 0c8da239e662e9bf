"""What Kafka's record reader receives from a decompressing stream, up to and including its failure.

The fast paths of the codecs answer for whole streams. A damaged stream (or an unusual one) is read again
here, call by call as Kafka reads it, because how much is *lost* with a failure depends on the size of the
read that failed: the bytes of earlier reads were delivered, those of the failing one were not.

Kafka puts a buffer (``ChunkedBytesStream``) between the codec and the records: 2 KiB for snappy and LZ4,
16 KiB for gzip and zstd. It is refilled with one read when it is empty, and stepped around when what
remains of a record's body is at least as long as the buffer. Message sets of format 0 and 1 are
decompressed as a whole before their first record is given, so there only success or failure counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

_MAX_VARINT_BYTES = 5
# Attributes, two deltas, key, value, number of headers: a byte each.
_SHORTEST_BODY = 6
_NO_MORE = 1 << 62
# A record that is longer is asked for in several reads. It makes no difference: it is lost or delivered as a whole.
_LARGEST_READ = 1 << 20


class Decompressed(NamedTuple):
    """The bytes of a batch's records section or of a message set.

    ``data`` is what was delivered; ``error`` is ``None``, or the reason why no more could be.
    """

    data: bytes | bytearray
    error: str | None


class DamagedStreamError(Exception):
    """The codec's stream fails at this read; the text is the reason."""


class Stream(Protocol):
    """One codec's stream, with the reading habits of the Java class that Kafka uses."""

    def read(self, size: int) -> bytes | memoryview:
        """Return 1 to ``size`` bytes, ``b""`` at the end, or raise ``DamagedStreamError``."""
        ...


def deliver(open_stream: Callable[[], Stream], *, buffer_size: int, magic: int, limit_bytes: int) -> Decompressed:
    """Read a stream to its end, its failure, or ``limit_bytes``.

    A stream of format 2 that fails is read once more, in the portions that Kafka's reader of records asks for: they
    decide how much comes before the failure.

    ``open_stream`` may raise ``DamagedStreamError`` as its stream's reads may.
    """
    received, damage = _read(open_stream, buffer_size, limit_bytes, None)
    if damage is not None and magic >= 2 and received:
        received, damage = _read(open_stream, buffer_size, limit_bytes, _RecordWalk())
    if len(received) > limit_bytes:
        del received[limit_bytes:]
        return Decompressed(received, over_limit(limit_bytes))
    return Decompressed(received, damage)


def _read(
    open_stream: Callable[[], Stream], buffer_size: int, limit_bytes: int, walk: _RecordWalk | None
) -> tuple[bytearray, str | None]:
    delivered = bytearray()
    try:
        stream = open_stream()
        while len(delivered) <= limit_bytes:
            missing = walk.missing(delivered) if walk is not None else 0
            left = limit_bytes + 1 - len(delivered)
            part = stream.read(min(max(missing, buffer_size), left, _LARGEST_READ))
            if not part:
                break
            delivered += part
    except DamagedStreamError as damage:
        return delivered, str(damage)
    return delivered, None


_OVER_LIMIT = "bytes after decompression"


def over_limit(limit_bytes: int) -> str:
    """Say that a stream holds more than the caller allows."""
    return f"more than {limit_bytes} {_OVER_LIMIT}"


def is_over_limit(detail: str) -> bool:
    """Return whether a stream was given up for its size."""
    return detail.endswith(_OVER_LIMIT)


class _RecordWalk:
    """Follows the record lengths of format 2 through the delivered bytes."""

    def __init__(self) -> None:
        self._position = 0

    def missing(self, delivered: bytearray) -> int:
        """Return how many bytes of the current record's body are still to come (0: unknown or none)."""
        while self._position < len(delivered):
            length, body = _length_at(delivered, self._position)
            if length is not None and length < _SHORTEST_BODY:  # Kafka fails here, and reads no further
                self._position = _NO_MORE
                return 0
            if length is None:
                return 0
            if body + length > len(delivered):
                return body + length - len(delivered)
            self._position = body + length
        return 0


def _length_at(delivered: bytearray, position: int) -> tuple[int | None, int]:
    """Read a zig-zag varint that may be cut off or too long: then the length is ``None``."""
    raw = 0
    for index, byte in enumerate(delivered[position : position + _MAX_VARINT_BYTES]):
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    return None, position
