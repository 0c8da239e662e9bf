"""A cursor over a request body for the fast path.

The cursor raises ``GeneralPathRequiredError`` for requests that the fast path does not support.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence

from kafkaframes.errors import DecodeError
from kafkaframes.wire.varint import write_unsigned_varint

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_NULL_LENGTH = -1
_UUID_BYTES = 16
_MAX_VARINT_BYTES = 5  # largest size of an unsigned varint
_MAX_ARRAY_ELEMENTS = 10_000


class GeneralPathRequiredError(Exception):
    """Raised if the fast path does not support a request. The general path then answers it."""


# Exceptions that a cursor raises if the fast path cannot read a request: it is unsupported or truncated.
FAST_PATH_READ_ERRORS = (GeneralPathRequiredError, struct.error, IndexError, UnicodeDecodeError, DecodeError)


class Cursor:
    """A position in a frame. If ``is_flexible``, lengths are varints and structs end with tagged fields (KIP-482)."""

    __slots__ = ("_frame", "blob_at", "blob_end", "is_flexible", "position")

    def __init__(self, frame: bytes | memoryview, position: int, *, is_flexible: bool) -> None:
        self._frame = frame
        self.position = position
        self.blob_at = self.blob_end = 0
        self.is_flexible = is_flexible

    def read_numbers(self, shape: struct.Struct) -> tuple[int, ...]:
        """Read the next numbers, in a struct format."""
        numbers = shape.unpack_from(self._frame, self.position)
        self.position += shape.size
        return numbers

    def _read_length(self, shape: struct.Struct) -> int:
        """Return a length or an element count; -1 for null."""
        if not self.is_flexible:
            return int(self.read_numbers(shape)[0])
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
        raise GeneralPathRequiredError

    def _skip_bytes(self, length: int) -> slice:
        """Skip bytes; return their start and end."""
        start, end = self.position, self.position + length
        if length < 0 or end > len(self._frame):
            raise GeneralPathRequiredError
        self.position = end
        return slice(start, end)

    def _bytes(self, length: int) -> bytes:
        return bytes(self._frame[self._skip_bytes(length)])

    def read_text(self) -> tuple[str, bytes]:
        """Return a string that is not null, and its bytes."""
        raw = self._bytes(self._read_length(_INT16))
        if len(raw) > 0x7FFF:
            raise GeneralPathRequiredError
        return str(raw, "utf-8"), raw

    def skip_null_text(self) -> None:
        """Skip a null string; raise ``GeneralPathRequiredError`` for any other string."""
        if self._read_length(_INT16) != _NULL_LENGTH:
            raise GeneralPathRequiredError

    def read_uuid(self) -> bytes:
        """Return the 16 bytes of a UUID."""
        return self._bytes(_UUID_BYTES)

    def read_count(self) -> int:
        """Return the element count of an array.

        Raise ``GeneralPathRequiredError`` if the array is empty or very long.
        """
        count = self._read_length(_INT32)
        if not 0 < count <= _MAX_ARRAY_ELEMENTS:
            raise GeneralPathRequiredError
        return count

    def skip_empty_array(self) -> None:
        """Skip an empty array; raise ``GeneralPathRequiredError`` for any other array, including null."""
        if self._read_length(_INT32):
            raise GeneralPathRequiredError

    def read_bytes(self) -> bytearray:
        """Return a copy of bytes that are not null. The copy of records is written to disk without a further copy.

        ``blob_at`` is then the position of the length field, and ``blob_end`` the end of the bytes.
        """
        self.blob_at = self.position
        blob = self._skip_bytes(self._read_length(_INT32))
        self.blob_end = self.position
        return bytearray(self._frame[blob])

    def skip_empty_tags(self) -> None:
        """Skip an empty section of tagged fields, if the version is flexible.

        Raise ``GeneralPathRequiredError`` if the section is not empty.
        """
        if self.is_flexible:
            if self._frame[self.position]:
                raise GeneralPathRequiredError
            self.position += 1


def encode_array_length(count: int, *, is_flexible: bool) -> bytes:
    """Return the encoded element count of an array.

    >>> encode_array_length(2, is_flexible=False), encode_array_length(2, is_flexible=True)
    (b'\\x00\\x00\\x00\\x02', b'\\x03')
    """
    return encode_unsigned_varint(count + 1) if is_flexible else _INT32.pack(count)


def encode_text(raw: bytes, *, is_flexible: bool) -> bytes:
    """Return an encoded string: its length and its bytes."""
    return (encode_unsigned_varint(len(raw) + 1) if is_flexible else _INT16.pack(len(raw))) + raw


def encode_unsigned_varint(number: int) -> bytes:
    """Return a number as an unsigned varint."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    write_unsigned_varint(out, number)
    return bytes(out)


def reject_duplicates(items: Sequence[Hashable]) -> None:
    """Raise ``GeneralPathRequiredError`` if an item is repeated."""
    if len(items) > 1 and len(set(items)) < len(items):
        raise GeneralPathRequiredError
