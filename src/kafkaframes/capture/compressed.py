"""Decompress gzip, zstd and lz4 files up to the first byte that cannot be decompressed.

``MemberFile`` and ``ZstdFile`` are raw binary files. ``readinto`` returns all data before damage or truncation, and
then raises ``DecodeError``. Consecutive compressed members are read as one file. The memory of each call is bounded for
every compression ratio.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from kafkaframes.errors import DecodeError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP_MAGIC, ZSTD_MAGIC, LZ4_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
_SKIPPABLE_MAGIC: Final = (
    b"\x2a\x4d\x18"  # magic of a skippable zstd frame, after a byte 0x50 to 0x5f; pzstd files start with one
)
_READ_BYTES: Final = 256 << 10  # size of a read from the file
_MAX_OUTPUT_BYTES: Final = 4 << 20  # largest output of one call of the decompressor
_FIRST_INPUT_BYTES: Final = 512  # input size of the decompressor's first call for a member
_ZSTD_INPUT_BYTES: Final = 64 << 10  # input size of a call; small, because a call that fails loses its output
_MAX_ZSTD_WINDOW_BYTES: Final = 1 << 27  # window size of ``zstd --long``


def open_compressed(raw: IO[bytes], head: bytes) -> IO[bytes]:
    """Return a file of the decompressed bytes, or ``raw`` itself if it is not compressed.

    Args:
        raw: file to read, at position 0.
        head: first four bytes of the file.
    """
    if head.startswith(GZIP_MAGIC):
        return MemberFile(raw, "gzip", GzipMember)  # type: ignore[return-value]
    if head == LZ4_MAGIC:
        return MemberFile(raw, "lz4", Lz4Member)  # type: ignore[return-value]
    if head == ZSTD_MAGIC or (head[1:] == _SKIPPABLE_MAGIC and head[0] >> 4 == 5):
        return ZstdFile(raw)  # type: ignore[return-value]
    return raw


class MemberDecompressor(Protocol):
    """The decompressor of one member (gzip) or frame (lz4)."""

    @property
    def is_complete(self) -> bool:
        """Whether the member has ended."""
        ...

    def decompress(self, data: memoryview, max_bytes: int) -> tuple[bytes, int]:
        """Return at most ``max_bytes`` of output, and the number of bytes of ``data`` that were consumed."""
        ...


class GzipMember:
    """A gzip member (RFC 1952)."""

    def __init__(self) -> None:
        from isal import isal_zlib

        self._inflate: Any = isal_zlib.decompressobj(wbits=31)

    @property
    def is_complete(self) -> bool:
        """Whether the member has ended."""
        return bool(self._inflate.eof)

    def decompress(self, data: memoryview, max_bytes: int) -> tuple[bytes, int]:
        """Return the output and the number of consumed input bytes. See ``MemberDecompressor``."""
        output = self._inflate.decompress(data, max_bytes)
        unused_data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        return output, len(data) - len(unused_data)


class Lz4Member:
    """An lz4 frame."""

    def __init__(self) -> None:
        import lz4.frame

        self._frame: Any = lz4.frame.LZ4FrameDecompressor()

    @property
    def is_complete(self) -> bool:
        """Whether the frame has ended."""
        return bool(self._frame.eof)

    def decompress(self, data: memoryview, max_bytes: int) -> tuple[bytes, int]:
        """Return the output and the number of consumed input bytes.

        Buffered output of previous calls is returned first.
        """
        if not self._frame.needs_input:
            return self._frame.decompress(b"", max_bytes), 0
        output = self._frame.decompress(bytes(data), max_bytes)
        unused_data = self._frame.unused_data or b"" if self._frame.eof else b""
        return output, len(data) - len(unused_data)


class _CompressedFile(io.RawIOBase):
    """Base class of decompressed files. Damage and truncation raise ``DecodeError``."""

    def __init__(self, raw: IO[bytes], codec: str) -> None:
        super().__init__()
        self._raw, self._codec = raw, codec

    def readable(self) -> bool:
        """Return True."""
        return True

    def _create_truncation_error(self) -> DecodeError:
        return DecodeError(f"the {self._codec} data end early: the file is truncated")

    def _create_damage_error(self, error: Exception) -> DecodeError:
        return DecodeError(f"the {self._codec} data cannot be decompressed: {error}")


class MemberFile(_CompressedFile):
    """A file of consecutive gzip members or lz4 frames. Zeros between gzip members are skipped as padding."""

    def __init__(self, raw: IO[bytes], codec: str, create_member: Callable[[], MemberDecompressor]) -> None:
        from isal import isal_zlib

        super().__init__(raw, codec)
        errors: Any = (isal_zlib.error, EOFError, RuntimeError, ValueError)
        self._errors: tuple[type[Exception], ...] = errors
        self._create_member = create_member
        self._member: MemberDecompressor | None = None  # None between members
        self._input = memoryview(b"")
        # Input size of a call; small at first, because bytes after the compressed member are copied.
        self._step = _FIRST_INPUT_BYTES
        self._output = memoryview(b"")

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read data into ``buffer`` and return the number of bytes; 0 at the end of the file.

        Raises:
            DecodeError: the data are truncated or damaged at this position.
        """
        view = memoryview(buffer).cast("B")
        while not len(self._output):
            if not self._advance():
                return 0
        size = min(len(view), len(self._output))
        view[:size] = self._output[:size]
        self._output = self._output[size:]
        return size

    def _advance(self) -> bool:
        """Decompress the next part of the input. Return False at the end of the file."""
        if not self._input:
            self._input = memoryview(self._raw.read(_READ_BYTES))
        if self._member is None:
            self._skip_zeros()
        if not self._input:
            return self._read_input()
        if self._member is None:
            self._member, self._step = self._create_member(), _FIRST_INPUT_BYTES
        self._input = self._input[self._decompress(self._input[: self._step]) :]
        self._step = min(2 * self._step, _READ_BYTES)
        return True

    def _decompress(self, data: memoryview) -> int:
        """Decompress input into ``_output``, and return the number of consumed bytes."""
        assert self._member is not None
        try:
            output, input_bytes = self._member.decompress(data, _MAX_OUTPUT_BYTES)
        except self._errors as error:
            self._member, self._input = None, memoryview(b"")
            raise self._create_damage_error(error) from error
        self._output = memoryview(output)
        if self._member.is_complete:
            self._member = None
        return input_bytes

    def _read_input(self) -> bool:
        """Read more input, or flush the decompressor at the end of the file. Return False if no output can follow."""
        if self._member is None:
            self._input = memoryview(self._raw.read(_READ_BYTES))
            return bool(self._input)
        self._decompress(memoryview(b""))  # flush buffered output
        if self._output or self._member is None:
            return True
        self._member = None
        raise self._create_truncation_error()

    def _skip_zeros(self) -> None:
        if self._codec == "gzip":
            self._input = self._input[len(self._input) - len(bytes(self._input).lstrip(b"\0")) :]


class ZstdFile(_CompressedFile):
    """A file of zstd frames. Skippable frames are skipped."""

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        super().__init__(raw, "zstd")
        self._errors = zstandard.ZstdError, MemoryError
        self._frames = ZstdFrames()
        decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW_BYTES)
        source: Any = _ObservedFile(raw, self._frames.feed)
        self._stream = decompressor.stream_reader(source, read_across_frames=True)
        self._has_ended = False

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read data into ``buffer`` and return the number of bytes; 0 at the end of the file.

        Raises:
            DecodeError: the data are truncated or damaged at this position.
        """
        if self._has_ended:
            return 0
        try:
            size = self._stream.readinto1(memoryview(buffer).cast("B")[:_ZSTD_INPUT_BYTES])
        except self._errors as error:
            self._has_ended = True
            raise self._create_damage_error(error) from error
        if not size:
            self._has_ended = True
            if not self._frames.ends_with_complete_frame:
                raise self._create_truncation_error()
        return int(size)


class _ObservedFile:
    """A file that also passes the bytes of each read to a function."""

    def __init__(self, raw: IO[bytes], feed: Callable[[bytes], None]) -> None:
        self._raw, self._feed = raw, feed

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        self._feed(data)
        return data


_MAGIC_STATE, _SKIP_STATE, _DESCRIPTOR_STATE, _BLOCK_STATE = range(4)
_HEADER_BYTES_BY_STATE: Final = {_MAGIC_STATE: 4, _SKIP_STATE: 4, _DESCRIPTOR_STATE: 1, _BLOCK_STATE: 3}


class ZstdFrames:
    """A parser of zstd frame and block headers (RFC 8878, 3.1) that detects whether the last frame is complete.

    The zstd library reports a truncated frame as a normal end of the data.
    """

    def __init__(self) -> None:
        self._state, self._head, self._skip_bytes = _MAGIC_STATE, b"", 0
        self._checksum_bytes = 0
        self._is_foreign = False  # the data are not zstd; the library reports this error

    @property
    def ends_with_complete_frame(self) -> bool:
        """Whether the data so far ends with a complete frame."""
        return self._state == _MAGIC_STATE and not self._head and not self._skip_bytes

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the file."""
        position = 0
        while position < len(data) and not self._is_foreign:
            if self._skip_bytes:
                step = min(self._skip_bytes, len(data) - position)
                self._skip_bytes -= step
                position += step
                continue
            missing_bytes = _HEADER_BYTES_BY_STATE[self._state] - len(self._head)
            self._head += data[position : position + missing_bytes]
            position += missing_bytes
            if len(self._head) == _HEADER_BYTES_BY_STATE[self._state]:
                head, self._head = self._head, b""
                self._parse_header(head)

    def _parse_header(self, head: bytes) -> None:
        if self._state == _MAGIC_STATE:
            is_skippable = head[1:] == _SKIPPABLE_MAGIC and head[0] >> 4 == 5
            self._is_foreign = not is_skippable and head != ZSTD_MAGIC
            self._state = _SKIP_STATE if is_skippable else _DESCRIPTOR_STATE
        elif self._state == _SKIP_STATE:
            self._skip_bytes, self._state = int.from_bytes(head, "little"), _MAGIC_STATE
        elif self._state == _DESCRIPTOR_STATE:
            is_single = head[0] >> 5 & 1
            self._checksum_bytes = 4 * (head[0] >> 2 & 1)
            size_bytes = (is_single, 2, 4, 8)[head[0] >> 6]
            self._skip_bytes = (1 - is_single) + (0, 1, 2, 4)[head[0] & 3] + size_bytes
            self._state = _BLOCK_STATE
        else:
            block = int.from_bytes(head, "little")
            is_last, is_repeated = block & 1, block >> 1 & 3 == 1
            self._skip_bytes = 1 if is_repeated else block >> 3
            if is_last:
                self._skip_bytes += self._checksum_bytes
                self._state = _MAGIC_STATE
