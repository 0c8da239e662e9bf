"""A cursor over a request body for the fast path. It raises ``UnusualError`` for requests that are not ordinary."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence

from kafkaframes.errors import DecodeError
from kafkaframes.wire.varint import write_unsigned_varint

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_NULL_LENGTH = -1
_UUID_BYTES = 16
_MAX_VARINT_BYTES = 5  # of an unsigned varint
_MAX_ELEMENTS = 10_000


class UnusualError(Exception):
    """The request is not ordinary, so the dispatcher answers it."""


# The exceptions of a cursor, including those for truncated requests.
UNUSUAL = (UnusualError, struct.error, IndexError, UnicodeDecodeError, DecodeError)


class Cursor:
    """A position in a frame. If ``is_flexible``, lengths are varints and structs end with tagged fields (KIP-482)."""

    __slots__ = ("_frame", "blob_at", "blob_end", "is_flexible", "position")

    def __init__(self, frame: bytes | memoryview, position: int, *, is_flexible: bool) -> None:
        self._frame = frame
        self.position = position
        self.blob_at = self.blob_end = 0
        self.is_flexible = is_flexible

    def numbers(self, shape: struct.Struct) -> tuple[int, ...]:
        """Return the next numbers, of a struct format."""
        numbers = shape.unpack_from(self._frame, self.position)
        self.position += shape.size
        return numbers

    def _length(self, shape: struct.Struct) -> int:
        """Return a length or an element count; -1 for null."""
        if not self.is_flexible:
            return int(self.numbers(shape)[0])
        value = self._frame[self.position]
        if value < 0x80:  # nearly always
            self.position += 1
            return value - 1
        value = shift = 0
        for _ in range(_MAX_VARINT_BYTES):
            byte = self._frame[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value - 1
            shift += 7
        raise UnusualError

    def _skip(self, length: int) -> slice:
        """Skip bytes; return their start and end."""
        start, end = self.position, self.position + length
        if length < 0 or end > len(self._frame):
            raise UnusualError
        self.position = end
        return slice(start, end)

    def _bytes(self, length: int) -> bytes:
        return bytes(self._frame[self._skip(length)])

    def text(self) -> tuple[str, bytes]:
        """Return a string that is not null, and its bytes."""
        raw = self._bytes(self._length(_INT16))
        if len(raw) > 0x7FFF:
            raise UnusualError
        return str(raw, "utf-8"), raw

    def null_text(self) -> None:
        """Skip a null string; raise ``UnusualError`` for all others."""
        if self._length(_INT16) != _NULL_LENGTH:
            raise UnusualError

    def uuid(self) -> bytes:
        """Return the 16 bytes of a UUID."""
        return self._bytes(_UUID_BYTES)

    def count(self) -> int:
        """Return the element count of an array; raise ``UnusualError`` if it is empty or very long."""
        count = self._length(_INT32)
        if not 0 < count <= _MAX_ELEMENTS:
            raise UnusualError
        return count

    def no_elements(self) -> None:
        """Skip an empty array; raise ``UnusualError`` for all others, also for null."""
        if self._length(_INT32):
            raise UnusualError

    def blob(self) -> bytearray:
        """Return a copy of bytes that are not null. It is the only copy of records on their way to the disk.

        ``blob_at`` is where their length is, ``blob_end`` their end.
        """
        self.blob_at = self.position
        blob = self._skip(self._length(_INT32))
        self.blob_end = self.position
        return bytearray(self._frame[blob])

    def no_tags(self) -> None:
        """Skip an empty section of tagged fields, if the version is flexible.

        Raise ``UnusualError`` if it is not empty.
        """
        if self.is_flexible:
            if self._frame[self.position]:
                raise UnusualError
            self.position += 1


def array_start(count: int, *, is_flexible: bool) -> bytes:
    """Return the encoded element count of an array.

    >>> array_start(2, is_flexible=False), array_start(2, is_flexible=True), array_start(300, is_flexible=True)
    (b'\\x00\\x00\\x00\\x02', b'\\x03', b'\\xad\\x02')
    """
    return unsigned_varint(count + 1) if is_flexible else _INT32.pack(count)


def text_bytes(raw: bytes, *, is_flexible: bool) -> bytes:
    """Return an encoded string: its length and its bytes."""
    return (unsigned_varint(len(raw) + 1) if is_flexible else _INT16.pack(len(raw))) + raw


def unsigned_varint(number: int) -> bytes:
    """Return a number as an unsigned varint."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    write_unsigned_varint(out, number)
    return bytes(out)


def reject_duplicates(items: Sequence[Hashable]) -> None:
    """Raise ``UnusualError`` if an item is repeated."""
    if len(items) > 1 and len(set(items)) < len(items):
        raise UnusualError
