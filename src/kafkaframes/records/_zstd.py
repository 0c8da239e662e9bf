"""zstd as Kafka reads and writes it: ``ZstdInputStream`` of zstd-jni over libzstd, streaming frames without a size.

* Frames follow each other, skippable ones are skipped; anything else between or behind them is a failure.
* Windows up to 2^27 bytes; checksums are verified where there are any.
* A read ends at a frame's end; the read in which a block fails is lost, as far back as it began.
* An empty payload is an empty stream, and so is a frame that is cut off, if another ended in the same 128 KiB of input.
"""

from __future__ import annotations

import zstandard

from kafkaframes.records._delivery import DamagedStreamError

BUFFER_SIZE = 16 * 1024
_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_HEAD, _SKIPPABLE_TAIL = 0x50, b"\x2a\x4d\x18"
_INPUT_SIZE = 128 * 1024 + 3
_LARGEST_WINDOW_LOG = 27
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_DICTIONARY_ID_SIZES = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES = (0, 2, 4, 8)
_BLOCK_HEADER_SIZE = 3
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3
DEFAULT_LEVEL = 3
# Output is reserved (not touched) for this ratio, whatever the header claims; denser streams are read piece by piece.
_USUAL_SIZE, _USUAL_RATIO = 65536, 32
# One decompressor serves one caller at a time. Taking from and giving to a list is atomic, so threads share these.
_idle_decompressors: list[zstandard.ZstdDecompressor] = []
_idle_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}


def decompress_whole(payload: bytes, _magic: int, limit_bytes: int) -> bytes | None:
    """Return the content of one intact frame that is all there is, or ``None``."""
    most_bytes = min(limit_bytes, _USUAL_SIZE + _USUAL_RATIO * len(payload))
    if payload[:4] != _MAGIC or not _is_usual(payload, most_bytes):
        return None
    try:
        decompressor = _idle_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        return decompressor.decompress(payload, max_output_size=most_bytes, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    finally:
        _idle_decompressors.append(decompressor)


def _is_usual(payload: bytes, most_bytes: int) -> bool:
    """Say whether this is one whole frame, with a size and a window that may be left to the library."""
    if _frame_end(payload, 0) != len(payload):
        return False
    if payload[4] & ~_CHECKSUM == 0:
        return True
    try:
        header = zstandard.get_frame_parameters(payload[:18])
    except zstandard.ZstdError:
        return False
    size: int = header.content_size
    return size <= most_bytes and header.window_size <= 1 << _LARGEST_WINDOW_LOG


class ZstdStream:
    """The reads of ``ZstdInputStreamNoFinalizer``."""

    def __init__(self, payload: bytes, _magic: int, _limit_bytes: int) -> None:
        self._payload = payload
        self._start = 0
        self._position = 0
        self._frame: zstandard.ZstdDecompressionReader | None = None
        self._delivered = 0
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes | memoryview:
        """Return at most ``size`` bytes of the current frame, or of the next that holds any."""
        while self._frame is not None or self._next_frame():
            part = self._read_frame(size)
            if part:
                self._delivered += len(part)
                return part
            self._frame = None
            if self._position > len(self._payload):
                self._stop_inside()
        return b""

    def _read_frame(self, size: int) -> bytes | memoryview:
        """Read on in the frame; its end, or that of the payload, is empty."""
        part = bytearray(size)
        try:
            count = self._frame.readinto(part) if self._frame is not None else 0
            if count:
                return bytes(memoryview(part)[:count])
            if self._position > len(self._payload) and not self._rest:
                # The library's reader keeps what it decoded of a frame that is cut off; this one gives it away.
                whole = zstandard.ZstdDecompressor().decompressobj().decompress(self._payload[self._start :])
                self._rest = memoryview(whole)[self._delivered :]
        except zstandard.ZstdError as error:
            raise DamagedStreamError(f"zstd: {error}") from None
        part_of_rest, self._rest = self._rest[:size], self._rest[size:]
        return part_of_rest

    def _next_frame(self) -> bool:
        """Open the next frame that is not skippable; say whether there was one."""
        while self._position < len(self._payload):
            self._start = self._position
            if _may_be(self._payload[self._start : self._start + 4], _MAGIC):
                self._position = _frame_end(self._payload, self._start)
                self._frame = zstandard.ZstdDecompressor().stream_reader(self._payload[self._start : self._position])
                self._delivered = 0
                self._rest = memoryview(b"")
                return True
            self._position = _skippable_end(self._payload, self._start)
        if self._position > len(self._payload):
            self._stop_inside()
        return False

    def _stop_inside(self) -> None:
        """Fail, if zstd-jni would: it does not where it has read no further input since the last frame's end."""
        next_input = -(-self._start // _INPUT_SIZE) * _INPUT_SIZE
        if next_input < len(self._payload):
            raise DamagedStreamError("zstd: the stream stops inside a frame")


def _may_be(prefix: bytes, magic: bytes) -> bool:
    """Tell whether ``prefix`` begins with ``magic``, as far as there are bytes to tell by."""
    return prefix[: len(magic)] == magic[: len(prefix)]


def _skippable_end(payload: bytes, start: int) -> int:
    """Return where the skippable frame at ``start`` ends; past the payload if it is cut off."""
    header = payload[start : start + 8]
    if header[0] & 0xF0 != _SKIPPABLE_HEAD or not _may_be(header[1:4], _SKIPPABLE_TAIL):
        raise DamagedStreamError(f"zstd: no frame at byte {start}")
    if len(header) < 8:
        return len(payload) + 1
    return start + 8 + int.from_bytes(header[4:], "little")


def _frame_end(payload: bytes, start: int) -> int:
    """Return where the frame at ``start`` ends by its block headers (RFC 8878); past the payload if it is cut off."""
    beyond = len(payload) + 1
    if start + 5 > len(payload):
        return beyond
    descriptor = payload[start + 4]
    single = bool(descriptor & _SINGLE_SEGMENT)
    position = start + 5 + (not single) + _DICTIONARY_ID_SIZES[descriptor & 3]
    position += _CONTENT_SIZE_SIZES[descriptor >> 6] or int(single)
    last = False
    while not last:
        header = int.from_bytes(payload[position : position + _BLOCK_HEADER_SIZE], "little")
        if position + _BLOCK_HEADER_SIZE > len(payload):
            return beyond
        last, kind = bool(header & 1), header >> 1 & 3
        if kind == _RESERVED_BLOCK:  # the library says so when it gets there
            return len(payload)
        position += _BLOCK_HEADER_SIZE + (1 if kind == _RLE_BLOCK else header >> 3)
    return position + (4 if descriptor & _CHECKSUM else 0)


def compress(data: bytes, level: int | None, _magic: int) -> bytes:
    """Return one frame as a stream of unknown length writes it: without content size and checksum."""
    level = DEFAULT_LEVEL if level is None else level
    idle = _idle_compressors.setdefault(level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    frame = compressor.compressobj()
    compressed = frame.compress(data) + frame.flush()
    idle.append(compressor)
    return compressed
