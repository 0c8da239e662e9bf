"""A cursor over a request's body for the fast path: it reads what is ordinary, and gives up at anything unusual."""

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
    """The request is not ordinary: the dispatcher answers it."""


# What a cursor raises: bytes that end too early among them.
UNUSUAL = (UnusualError, struct.error, IndexError, UnicodeDecodeError, DecodeError)


class Cursor:
    """A place in a frame; ``is_flexible`` where lengths are varints and structs end with tagged fields (KIP-482)."""

    __slots__ = ("_frame", "at", "blob_at", "blob_end", "is_flexible")

    def __init__(self, frame: bytes | memoryview, at: int, *, is_flexible: bool) -> None:
        self._frame = frame
        self.at = at
        self.blob_at = self.blob_end = 0
        self.is_flexible = is_flexible

    def numbers(self, shape: struct.Struct) -> tuple[int, ...]:
        """Return the next numbers."""
        numbers = shape.unpack_from(self._frame, self.at)
        self.at += shape.size
        return numbers

    def _length(self, shape: struct.Struct) -> int:
        """Return a length or a count, -1 for null."""
        if not self.is_flexible:
            return int(self.numbers(shape)[0])
        value = self._frame[self.at]
        if value < 0x80:  # nearly always
            self.at += 1
            return value - 1
        value = shift = 0
        for _ in range(_MAX_VARINT_BYTES):
            byte = self._frame[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value - 1
            shift += 7
        raise UnusualError

    def _pass(self, length: int) -> slice:
        """Pass bytes; return where they lie."""
        start, end = self.at, self.at + length
        if length < 0 or end > len(self._frame):
            raise UnusualError
        self.at = end
        return slice(start, end)

    def _bytes(self, length: int) -> bytes:
        return bytes(self._frame[self._pass(length)])

    def text(self) -> tuple[str, bytes]:
        """Return a string that is not null, and its bytes."""
        raw = self._bytes(self._length(_INT16))
        if len(raw) > 0x7FFF:
            raise UnusualError
        return str(raw, "utf-8"), raw

    def null_text(self) -> None:
        """Pass a string that is null; give up at any other."""
        if self._length(_INT16) != _NULL_LENGTH:
            raise UnusualError

    def uuid(self) -> bytes:
        """Return the 16 bytes of an id."""
        return self._bytes(_UUID_BYTES)

    def count(self) -> int:
        """Return how many elements an array has: at least one, and not very many."""
        count = self._length(_INT32)
        if not 0 < count <= _MAX_ELEMENTS:
            raise UnusualError
        return count

    def no_elements(self) -> None:
        """Pass an array without elements; give up at null, and at any other."""
        if self._length(_INT32):
            raise UnusualError

    def blob(self) -> bytearray:
        """Return bytes that are not null, as a copy, the only one that records get on the way to the disk.

        ``blob_at`` is where their length is, ``blob_end`` their end.
        """
        self.blob_at = self.at
        blob = self._pass(self._length(_INT32))
        self.blob_end = self.at
        return bytearray(self._frame[blob])

    def no_tags(self) -> None:
        """Pass the tagged fields of a struct, if its version has any; give up where there are some."""
        if self.is_flexible:
            if self._frame[self.at]:
                raise UnusualError
            self.at += 1


def array_start(count: int, *, is_flexible: bool) -> bytes:
    """Return what stands before the elements of an array.

    >>> array_start(2, is_flexible=False), array_start(2, is_flexible=True), array_start(300, is_flexible=True)
    (b'\\x00\\x00\\x00\\x02', b'\\x03', b'\\xad\\x02')
    """
    return unsigned_varint(count + 1) if is_flexible else _INT32.pack(count)


def text_bytes(raw: bytes, *, is_flexible: bool) -> bytes:
    """Return a string as it is written."""
    return (unsigned_varint(len(raw) + 1) if is_flexible else _INT16.pack(len(raw))) + raw


def unsigned_varint(number: int) -> bytes:
    """Return a number as KIP-482 writes lengths."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    write_unsigned_varint(out, number)
    return bytes(out)


def all_different(items: Sequence[Hashable]) -> None:
    """Give up where something is asked for twice."""
    if len(items) > 1 and len(set(items)) < len(items):
        raise UnusualError
