"""Read and write zstd as Kafka does, which uses zstd-jni's ``ZstdInputStream``: frames without a content size.

* Frames may be concatenated, and skippable frames are skipped. Other bytes between or after frames are an error.
* Windows have at most 2^27 bytes. Checksums are verified if present.
* A read ends at the end of a frame. If a block is damaged, all bytes of the read that reaches the block are lost.
* An empty payload is an empty stream. A truncated frame is not an error if another frame ended in the same 128 KiB of
  input.
"""

from __future__ import annotations

import zstandard

from kafkaframes.records._delivery import DamagedStreamError

BUFFER_SIZE = 16 * 1024  # bytes per read of Kafka's decompressing stream
_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_HEAD, _SKIPPABLE_TAIL = 0x50, b"\x2a\x4d\x18"
_JAVA_INPUT_BYTES = 128 * 1024 + 3
_MAX_WINDOW_LOG = 27
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_DICTIONARY_ID_FIELD_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_FIELD_BYTES = (0, 2, 4, 8)
_BLOCK_HEADER_BYTES = 3
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3
DEFAULT_LEVEL = 3
# Memory for output is reserved (not touched) up to this ratio. Streams with a higher ratio are read in steps.
_USUAL_SIZE, _USUAL_RATIO = 65536, 32
# A decompressor serves one caller at a time. Taking it from a list and putting it back are atomic, so threads share it.
_idle_decompressors: list[zstandard.ZstdDecompressor] = []
_idle_compressors: dict[int, list[zstandard.ZstdCompressor]] = {}


def decompress_whole(payload: bytes, _magic: int, limit_bytes: int) -> bytes | None:
    """Return the content of a stream that is one intact frame, or ``None``."""
    max_bytes = min(limit_bytes, _USUAL_SIZE + _USUAL_RATIO * len(payload))
    if payload[:4] != _MAGIC or not _is_single_frame(payload, max_bytes):
        return None
    try:
        decompressor = _idle_decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        return decompressor.decompress(payload, max_output_size=max_bytes, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    finally:
        _idle_decompressors.append(decompressor)


def _is_single_frame(payload: bytes, max_bytes: int) -> bool:
    """Return whether a payload is one whole frame that can be decompressed in one call.

    Such a frame states its content size and has a window that fits.
    """
    if _find_frame_end(payload, 0) != len(payload):
        return False
    if payload[4] & ~_CHECKSUM == 0:
        return True
    try:
        header = zstandard.get_frame_parameters(payload[:18])
    except zstandard.ZstdError:
        return False
    size: int = header.content_size
    return size <= max_bytes and header.window_size <= 1 << _MAX_WINDOW_LOG


class ZstdStream:
    """A zstd stream with the read sizes of ``ZstdInputStreamNoFinalizer``."""

    def __init__(self, payload: bytes, _magic: int, _limit_bytes: int) -> None:
        self._payload = payload
        self._start = 0
        self._position = 0
        self._frame: zstandard.ZstdDecompressionReader | None = None
        self._frame_bytes = 0
        self._unread_output = memoryview(b"")

    def read(self, size: int) -> bytes | memoryview:
        """Return at most ``size`` bytes of the current frame, or of the next one with content."""
        while self._frame is not None or self._open_next_frame():
            part = self._read_frame(size)
            if part:
                self._frame_bytes += len(part)
                return part
            self._frame = None
            if self._position > len(self._payload):
                self._raise_if_truncated()
        return b""

    def _read_frame(self, size: int) -> bytes | memoryview:
        """Read from the current frame. Return ``b""`` at the end of the frame or of the payload."""
        part = bytearray(size)
        try:
            count = self._frame.readinto(part) if self._frame is not None else 0
            if count:
                return bytes(memoryview(part)[:count])
            if self._position > len(self._payload) and not self._unread_output:
                # The library's reader withholds the decoded bytes of a truncated frame; its decompressobj returns them.
                output = zstandard.ZstdDecompressor().decompressobj().decompress(self._payload[self._start :])
                self._unread_output = memoryview(output)[self._frame_bytes :]
        except zstandard.ZstdError as error:
            raise DamagedStreamError(f"zstd: {error}") from None
        part_of_rest, self._unread_output = self._unread_output[:size], self._unread_output[size:]
        return part_of_rest

    def _open_next_frame(self) -> bool:
        """Open the next frame that is not skippable. Return False at the end of the stream."""
        while self._position < len(self._payload):
            self._start = self._position
            if _may_start_with(self._payload[self._start : self._start + 4], _MAGIC):
                self._position = _find_frame_end(self._payload, self._start)
                self._frame = zstandard.ZstdDecompressor().stream_reader(self._payload[self._start : self._position])
                self._frame_bytes = 0
                self._unread_output = memoryview(b"")
                return True
            self._position = _find_skippable_end(self._payload, self._start)
        if self._position > len(self._payload):
            self._raise_if_truncated()
        return False

    def _raise_if_truncated(self) -> None:
        """Raise an error for a truncated frame.

        As in zstd-jni, a stream may end without any input after the last frame.
        """
        next_input = -(-self._start // _JAVA_INPUT_BYTES) * _JAVA_INPUT_BYTES
        if next_input < len(self._payload):
            raise DamagedStreamError("zstd: the stream is truncated in a frame")


def _may_start_with(prefix: bytes, magic: bytes) -> bool:
    """Return whether ``prefix`` starts with ``magic``, or ``magic`` with ``prefix`` if that is shorter."""
    return prefix[: len(magic)] == magic[: len(prefix)]


def _find_skippable_end(payload: bytes, start: int) -> int:
    """Return the end of the skippable frame at ``start``; it is past the payload if the frame is truncated."""
    header = payload[start : start + 8]
    if header[0] & 0xF0 != _SKIPPABLE_HEAD or not _may_start_with(header[1:4], _SKIPPABLE_TAIL):
        raise DamagedStreamError(f"zstd: expected a frame at byte {start}")
    if len(header) < 8:
        return len(payload) + 1
    return start + 8 + int.from_bytes(header[4:], "little")


def _find_frame_end(payload: bytes, start: int) -> int:
    """Return the end of the frame at ``start`` by its block headers (RFC 8878); past the payload if truncated."""
    past_end = len(payload) + 1
    if start + 5 > len(payload):
        return past_end
    descriptor = payload[start + 4]
    single = bool(descriptor & _SINGLE_SEGMENT)
    position = start + 5 + (not single) + _DICTIONARY_ID_FIELD_BYTES[descriptor & 3]
    position += _CONTENT_SIZE_FIELD_BYTES[descriptor >> 6] or int(single)
    last = False
    while not last:
        header = int.from_bytes(payload[position : position + _BLOCK_HEADER_BYTES], "little")
        if position + _BLOCK_HEADER_BYTES > len(payload):
            return past_end
        last, kind = bool(header & 1), header >> 1 & 3
        if kind == _RESERVED_BLOCK:  # the library reports the error when it decodes this block
            return len(payload)
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RLE_BLOCK else header >> 3)
    return position + (4 if descriptor & _CHECKSUM else 0)


def compress(data: bytes, level: int | None, _magic: int) -> bytes:
    """Return one frame without content size and checksum, as a writer that does not know the length writes it."""
    level = DEFAULT_LEVEL if level is None else level
    idle = _idle_compressors.setdefault(level, [])
    try:
        compressor = idle.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=level)
    frame = compressor.compressobj()
    payload = frame.compress(data) + frame.flush()
    idle.append(compressor)
    return payload
