"""Read and write LZ4 frames as Kafka does, which has its own ``Lz4BlockInputStream``.

* A stream is one frame. Bytes after the frame's end mark are ignored. A missing end mark is an error after the last
  block.
* Blocks must be independent. Linked blocks, dictionaries and reserved bits are rejected.
* Block checksums are verified. The content checksum (KAFKA-20528) and the content size are ignored.
* The header checksum is ignored in format 0, because its writers computed it over the frame's magic bytes as well
  (KAFKA-3160). In formats 1 and 2 the header checksum is verified.
* A read never crosses a block boundary, so all blocks before a damaged one are delivered.
"""

from __future__ import annotations

import struct

import lz4.block
import lz4.frame

from kafkaframes.records._delivery import DamagedStreamError

BUFFER_SIZE = 2 * 1024  # bytes per read of Kafka's decompressing stream
_MAGIC = b"\x04\x22\x4d\x18"
_VERSION, _INDEPENDENT, _BLOCK_CHECKSUMS, _CONTENT_SIZE, _CONTENT_CHECKSUM, _RESERVED = 0x40, 0x20, 0x10, 0x08, 0x04, 3
_RAW_BLOCK_FLAG = 0x80000000  # set in the length of a block that is not compressed
_BLOCK_BYTES_BY_DESCRIPTOR = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
_MAX_OUTPUT_BLOCK_BYTES = 1 << 16
_END_MARK = bytes(4)
# KIP-390: level 9 is the default and means the fast compressor; every other level means the high compressor.
FAST_LEVEL = 9
# The densest sequence turns one byte of input into 255.
_MAX_COMPRESSION_RATIO = 256
_decompress_frame = lz4.frame.decompress


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & 0xFFFFFFFF


def _hash_short(data: bytes) -> int:
    """Return XXH32 (seed 0) of fewer than 16 bytes, the longest input that a frame header has."""
    primes = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
    value = (primes[4] + len(data)) & 0xFFFFFFFF
    words = len(data) // 4
    for word in struct.unpack_from(f"<{words}I", data):
        value = _rotate((value + word * primes[2]) & 0xFFFFFFFF, 17) * primes[3] & 0xFFFFFFFF
    for byte in data[4 * words :]:
        value = _rotate((value + byte * primes[4]) & 0xFFFFFFFF, 11) * primes[0] & 0xFFFFFFFF
    value = (value ^ (value >> 15)) * primes[1] & 0xFFFFFFFF
    value = (value ^ (value >> 13)) * primes[2] & 0xFFFFFFFF
    return value ^ (value >> 16)


def compute_header_checksum(header: bytes) -> int:
    """Return the frame header's HC byte for the header bytes that it covers."""
    return _hash_short(header) >> 8 & 0xFF


def _list_usual_headers() -> frozenset[bytes]:
    """Return the headers that the LZ4 library and Kafka interpret alike: no content checksum, no content size."""
    headers = []
    for flags in (0x60, 0x70):
        for block_size in _BLOCK_BYTES_BY_DESCRIPTOR:
            descriptor = bytes((flags, block_size))
            headers.append(_MAGIC + descriptor + bytes((compute_header_checksum(descriptor),)))
    return frozenset(headers)


_USUAL_HEADERS = _list_usual_headers()


def decompress_whole(payload: bytes, _magic: int, limit_bytes: int) -> bytes | None:
    """Return the content of a stream that is one intact frame with a header of ``_USUAL_HEADERS``, else ``None``."""
    if payload[:7] not in _USUAL_HEADERS or len(payload) * _MAX_COMPRESSION_RATIO > limit_bytes:
        return None
    try:
        data: bytes = _decompress_frame(payload)
    except RuntimeError:
        return None
    return data


class Lz4Stream:
    """An LZ4 stream with the read sizes of ``Lz4BlockInputStream``."""

    def __init__(self, payload: bytes, magic: int, _limit_bytes: int) -> None:
        self._payload = payload
        self._is_at_end = False
        self._block = memoryview(b"")
        if len(payload) < 6:
            raise DamagedStreamError("lz4: the stream is truncated in the frame header")
        if payload[:4] != _MAGIC:
            raise DamagedStreamError("lz4: not an LZ4 frame")
        self._flags = payload[4]
        _check_flags(self._flags)
        self._position = 6
        self._max_block_bytes = _BLOCK_BYTES_BY_DESCRIPTOR.get(payload[5], 0)
        if not self._max_block_bytes:
            raise DamagedStreamError(f"lz4: unknown block descriptor {payload[5]:#04x}")
        if self._flags & _CONTENT_SIZE:
            self._position += 8
        if self._position >= len(payload):
            raise DamagedStreamError("lz4: the stream is truncated in the frame header")
        if magic > 0 and payload[self._position] != compute_header_checksum(payload[4 : self._position]):
            raise DamagedStreamError("lz4: the frame header's checksum does not match")
        self._position += 1

    def read(self, size: int) -> memoryview | bytes:
        """Return at most ``size`` bytes of the current block, or of the next block if the current one is exhausted."""
        if not self._block and not self._is_at_end:
            self._open_next_block()
        part = self._block[:size]
        self._block = self._block[size:]
        return part

    def _open_next_block(self) -> None:
        word = int.from_bytes(self._take_input(4), "little")
        length = word & ~_RAW_BLOCK_FLAG
        if length == 0:
            self._is_at_end = True
            if self._flags & _CONTENT_CHECKSUM:
                self._take_input(4)
            return
        if length > self._max_block_bytes:
            raise DamagedStreamError(
                f"lz4: a block has {length} bytes; the frame header allows {self._max_block_bytes}"
            )
        start = self._position
        block = self._take_input(length)
        if not word & _RAW_BLOCK_FLAG:
            try:
                block = lz4.block.decompress(block, uncompressed_size=self._max_block_bytes)
            except lz4.block.LZ4BlockError as error:
                raise DamagedStreamError(f"lz4: the block at byte {start}: {error}") from None
        if self._flags & _BLOCK_CHECKSUMS:
            self._verify_block(start, length)
        self._block = memoryview(block)

    def _verify_block(self, start: int, length: int) -> None:
        """Verify a block's checksum with the LZ4 library, in a frame that holds only this block."""
        checksum = self._take_input(4)
        descriptor = bytes((_VERSION | _INDEPENDENT | _BLOCK_CHECKSUMS, self._payload[5]))
        header = _MAGIC + descriptor + bytes((compute_header_checksum(descriptor),))
        block = self._payload[start : start + length]
        raw_length = struct.pack("<I", length | _RAW_BLOCK_FLAG)
        try:
            _decompress_frame(b"".join((header, raw_length, block, checksum, _END_MARK)))
        except RuntimeError:
            raise DamagedStreamError(f"lz4: the checksum of the block at byte {start} does not match") from None

    def _take_input(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._payload):
            raise DamagedStreamError("lz4: the stream is truncated before its end mark")
        data = self._payload[self._position : end]
        self._position = end
        return data


def _check_flags(flags: int) -> None:
    if flags & _RESERVED:
        raise DamagedStreamError("lz4: the frame header has a reserved bit or a dictionary")
    if not flags & _INDEPENDENT:
        raise DamagedStreamError("lz4: linked blocks are not supported")
    if flags & 0xC0 != _VERSION:
        raise DamagedStreamError(f"lz4: unsupported frame version {flags >> 6}")


def compress(data: bytes, level: int | None, magic: int) -> bytes:
    """Return one frame of independent 64 KiB blocks.

    The frame's header checksum is computed by the rule of format ``magic``.
    """
    if level in (None, FAST_LEVEL):
        return _compress_fast(data, magic)
    return _compress_high(data, level, magic)


def _compress_fast(data: bytes, magic: int) -> bytes:
    """Compress with the LZ4 library, whose header differs from Kafka's only in format 0's checksum."""
    frame: bytes = lz4.frame.compress(
        data, compression_level=0, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    if magic > 0:
        return frame
    return b"".join((frame[:6], bytes((compute_header_checksum(frame[:6]),)), frame[7:]))


def _compress_high(data: bytes, level: int | None, magic: int) -> bytes:
    descriptor = bytes((_VERSION | _INDEPENDENT, 0x40))
    checksum_input = descriptor if magic > 0 else _MAGIC + descriptor
    parts = [_MAGIC, descriptor, bytes((compute_header_checksum(checksum_input),))]
    view = memoryview(data)
    for start in range(0, len(view), _MAX_OUTPUT_BLOCK_BYTES):
        plain = view[start : start + _MAX_OUTPUT_BLOCK_BYTES]
        block = lz4.block.compress(plain, mode="high_compression", compression=level, store_size=False)
        if len(block) < len(plain):
            parts += (struct.pack("<I", len(block)), block)
        else:
            parts += (struct.pack("<I", len(plain) | _RAW_BLOCK_FLAG), bytes(plain))
    parts.append(_END_MARK)
    return b"".join(parts)
