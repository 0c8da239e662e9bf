"""snappy as Kafka reads and writes it: xerial's ``SnappyInputStream``, chunks of at most 32 KiB behind a header.

* Without the header the whole payload is one raw block (librdkafka writes that).
* A chunk length equal to the first four bytes of the header begins another header: streams may follow each other.
  The rest of its magic does not matter.
* The versions in the first header are not looked at (Redpanda writes them little-endian); in a later one the first
  must be at least 1.
* One to three bytes where a chunk length should be end the stream without an error.
"""

from __future__ import annotations

import struct

import cramjam

from kafkaframes.records._delivery import DamagedStreamError

BUFFER_SIZE = 2 * 1024
_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_HEADER_SIZE = len(_HEADER)
_NEXT_HEADER = int.from_bytes(_MAGIC[:4], "big")
_WRITTEN_CHUNK_SIZE = 32 * 1024
_LARGEST_CHUNK_SIZE = 512 * 1024 * 1024
# The densest element copies 64 bytes and takes 3: a longer claim is a lie, and nothing is allocated for it.
_LARGEST_RATIO = 22
_raw_into = cramjam.snappy.decompress_raw_into


def decompress_whole(payload: bytes, _magic: int, limit_bytes: int) -> bytes | bytearray | None:
    """Return the content of an intact stream, or ``None``."""
    if payload[:8] != _MAGIC:
        return _raw_or_none(payload, limit_bytes)
    end = len(payload)
    position = _HEADER_SIZE + 4
    if position > end:
        return None
    length = int.from_bytes(payload[_HEADER_SIZE:position], "big")
    if position + length == end:
        return _raw_or_none(payload[position:], limit_bytes)
    return _chunks_or_none(payload, limit_bytes)


def _chunks_or_none(payload: bytes, limit_bytes: int) -> bytes | None:
    """Decompress chunk after chunk; ``None`` if anything but a chunk turns up."""
    chunks, position = [], _HEADER_SIZE
    while position < len(payload):
        start = position + 4
        position = start + int.from_bytes(payload[position:start], "big")
        if start > len(payload) or position > len(payload):
            return None
        chunk = _raw_or_none(payload[start:position], limit_bytes)
        if chunk is None:
            return None
        limit_bytes -= len(chunk)
        chunks.append(chunk)
    return b"".join(chunks)


def _raw_or_none(block: bytes, limit_bytes: int) -> bytearray | None:
    try:
        return _raw(block, limit_bytes)
    except DamagedStreamError:
        return None


def _raw(block: bytes, limit_bytes: int) -> bytearray:
    """Decompress one raw block; its own length is believed only if it is possible."""
    size = _claimed_size(block)
    if size > limit_bytes or size > len(block) * _LARGEST_RATIO:
        raise DamagedStreamError(f"snappy: a block of {len(block)} bytes claims to hold {size}")
    out = bytearray(size)
    try:
        written = _raw_into(block, out)
    except (cramjam.DecompressionError, BufferError, ValueError) as error:
        raise DamagedStreamError(f"snappy: {error}") from None
    if written != size:
        raise DamagedStreamError(f"snappy: a block holds {written} bytes instead of {size}")
    return out


def _claimed_size(block: bytes | memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise DamagedStreamError("snappy: a block without a length")


class SnappyStream:
    """The reads of ``SnappyInputStream``: one read runs over chunk borders, and is lost whole if a chunk fails."""

    def __init__(self, payload: bytes, _magic: int, limit_bytes: int) -> None:
        if not payload:
            raise DamagedStreamError("snappy: an empty stream")
        self._payload = payload
        self._limit_bytes = limit_bytes
        self._chunk = memoryview(b"")
        self._position = 0
        if payload[:8] == _MAGIC and len(payload) >= _HEADER_SIZE:
            self._position = _HEADER_SIZE
        else:
            self._chunk = memoryview(_raw(payload, limit_bytes))
            self._position = len(payload)

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer at the end."""
        delivered: list[memoryview] = []
        while size:
            if not self._chunk and not self._next_chunk():
                break
            delivered.append(self._chunk[:size])
            self._chunk = self._chunk[size:]
            size -= len(delivered[-1])
        return b"".join(delivered)

    def _next_chunk(self) -> bool:
        """Decompress the next chunk; say whether there was one."""
        while True:
            if self._position + 4 > len(self._payload):
                return False
            (length,) = struct.unpack_from(">I", self._payload, self._position)
            if length != _NEXT_HEADER:
                break
            self._step_over_header()
        start = self._position + 4
        if length > _LARGEST_CHUNK_SIZE:
            raise DamagedStreamError(f"snappy: a chunk length of {length}")
        if start + length > len(self._payload):
            raise DamagedStreamError("snappy: the stream stops inside a chunk")
        self._chunk = memoryview(_raw(self._payload[start : start + length], self._limit_bytes))
        self._position = start + length
        return True

    def _step_over_header(self) -> None:
        """Pass a later header; only one with the right magic is looked into."""
        header = self._payload[self._position : self._position + _HEADER_SIZE]
        if len(header) < _HEADER_SIZE:
            raise DamagedStreamError("snappy: the stream stops inside a header")
        (version,) = struct.unpack_from(">i", header, 8)
        if header[:8] == _MAGIC and version < 1:
            raise DamagedStreamError(f"snappy: version {version} of the framing")
        self._position += _HEADER_SIZE


def compress(data: bytes, _level: int | None, _magic: int) -> bytes:
    """Return xerial's framing around raw blocks of 32 KiB of ``data`` each; snappy has no levels."""
    parts = [_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _WRITTEN_CHUNK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _WRITTEN_CHUNK_SIZE]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)
