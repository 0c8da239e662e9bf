"""Read and write snappy as Kafka does, which uses xerial's ``SnappyInputStream``: a header, then chunks of 32 KiB.

* A payload without the header is one raw block (librdkafka writes those).
* Streams may be concatenated: a chunk length equal to the header's first four bytes starts another header. In a later
  header, the other four bytes of the magic are not checked.
* The versions in the first header are ignored (Redpanda writes them in little-endian order). In a later header the
  first version must be at least 1.
* One to three bytes at the position of a chunk length end the stream without an error.
"""

from __future__ import annotations

import struct

import cramjam

from kafkaframes.records._delivery import DamagedStreamError

BUFFER_SIZE = 2 * 1024  # bytes per read of Kafka's decompressing stream
_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
_HEADER_SIZE = len(_HEADER)
_MAGIC_AS_LENGTH = int.from_bytes(_MAGIC[:4], "big")  # value of the length field if another stream follows
_OUTPUT_CHUNK_BYTES = 32 * 1024
_MAX_CHUNK_BYTES = 512 * 1024 * 1024
# The densest element copies 64 bytes and takes 3. A block with a higher ratio is rejected before memory is allocated.
_MAX_COMPRESSION_RATIO = 22
_raw_into = cramjam.snappy.decompress_raw_into


def decompress_whole(payload: bytes, _magic: int, limit_bytes: int) -> bytes | bytearray | None:
    """Return the content of an intact stream, or ``None``."""
    if payload[:8] != _MAGIC:
        return _try_decompress_block(payload, limit_bytes)
    end = len(payload)
    position = _HEADER_SIZE + 4
    if position > end:
        return None
    length = int.from_bytes(payload[_HEADER_SIZE:position], "big")
    if position + length == end:
        return _try_decompress_block(payload[position:], limit_bytes)
    return _decompress_chunks(payload, limit_bytes)


def _decompress_chunks(payload: bytes, limit_bytes: int) -> bytes | None:
    """Decompress all chunks; return ``None`` if the payload is anything but intact chunks."""
    chunks, position = [], _HEADER_SIZE
    while position < len(payload):
        start = position + 4
        position = start + int.from_bytes(payload[position:start], "big")
        if start > len(payload) or position > len(payload):
            return None
        chunk = _try_decompress_block(payload[start:position], limit_bytes)
        if chunk is None:
            return None
        limit_bytes -= len(chunk)
        chunks.append(chunk)
    return b"".join(chunks)


def _try_decompress_block(block: bytes, limit_bytes: int) -> bytearray | None:
    try:
        return _decompress_block(block, limit_bytes)
    except DamagedStreamError:
        return None


def _decompress_block(block: bytes, limit_bytes: int) -> bytearray:
    """Decompress one raw block. The stated size of the block is checked first."""
    size = _read_stated_size(block)
    if size > limit_bytes or size > len(block) * _MAX_COMPRESSION_RATIO:
        raise DamagedStreamError(f"snappy: a block of {len(block)} bytes states a decompressed size of {size}")
    out = bytearray(size)
    try:
        size_read = _raw_into(block, out)
    except (cramjam.DecompressionError, BufferError, ValueError) as error:
        raise DamagedStreamError(f"snappy: {error}") from None
    if size_read != size:
        raise DamagedStreamError(f"snappy: a block has {size_read} bytes instead of {size}")
    return out


def _read_stated_size(block: bytes | memoryview) -> int:
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise DamagedStreamError("snappy: the block's size is truncated or too long")


class SnappyStream:
    """A snappy stream with the read sizes of ``SnappyInputStream``. A read returns nothing if its chunk is damaged."""

    def __init__(self, payload: bytes, _magic: int, limit_bytes: int) -> None:
        if not payload:
            raise DamagedStreamError("snappy: the stream is empty")
        self._payload = payload
        self._limit_bytes = limit_bytes
        self._chunk = memoryview(b"")
        self._position = 0
        if payload[:8] == _MAGIC and len(payload) >= _HEADER_SIZE:
            self._position = _HEADER_SIZE
        else:
            self._chunk = memoryview(_decompress_block(payload, limit_bytes))
            self._position = len(payload)

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, or fewer at the end of the stream."""
        parts: list[memoryview] = []
        while size:
            if not self._chunk and not self._open_next_chunk():
                break
            parts.append(self._chunk[:size])
            self._chunk = self._chunk[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def _open_next_chunk(self) -> bool:
        """Decompress the next chunk. At the end of the stream, return False."""
        while True:
            if self._position + 4 > len(self._payload):
                return False
            (length,) = struct.unpack_from(">I", self._payload, self._position)
            if length != _MAGIC_AS_LENGTH:
                break
            self._skip_header()
        start = self._position + 4
        if length > _MAX_CHUNK_BYTES:
            raise DamagedStreamError(f"snappy: a chunk length of {length} exceeds {_MAX_CHUNK_BYTES}")
        if start + length > len(self._payload):
            raise DamagedStreamError("snappy: the stream is truncated in a chunk")
        self._chunk = memoryview(_decompress_block(self._payload[start : start + length], self._limit_bytes))
        self._position = start + length
        return True

    def _skip_header(self) -> None:
        """Skip a header after the first one. The header's version is checked only if its whole magic is right."""
        header = self._payload[self._position : self._position + _HEADER_SIZE]
        if len(header) < _HEADER_SIZE:
            raise DamagedStreamError("snappy: the stream is truncated in a header")
        (version,) = struct.unpack_from(">i", header, 8)
        if header[:8] == _MAGIC and version < 1:
            raise DamagedStreamError(f"snappy: unsupported stream version {version}")
        self._position += _HEADER_SIZE


def compress(data: bytes, _level: int | None, _magic: int) -> bytes:
    """Return ``data`` as a xerial stream with chunks of 32 KiB; snappy has no levels."""
    parts = [_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _OUTPUT_CHUNK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _OUTPUT_CHUNK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)
