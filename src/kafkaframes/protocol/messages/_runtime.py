"""Functions that generated code calls for parts of the wire format that are too long to inline.

All functions here are for canonical data only. Other data (a varint that is longer than needed, an invalid null,
broken UTF-8, a value of the wrong type) raises one of ``MALFORMED_ERRORS``. The caller then decodes the message again
with the plain interpreter, which applies the mode's rules and reports the position. Generated code therefore never has
to explain an error.

On truncated data, positions may exceed the end of the buffer. Slices of truncated data are short, unpacking raises an
error, and the caller compares the last position with the size. No memory is allocated for a length before its data is
checked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Sequence
from itertools import repeat
from typing import Any, Final
from uuid import UUID, SafeUUID

from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import STRUCT_FORMATS, DeferredBytes

MALFORMED_ERRORS: Final = (struct.error, LookupError, ValueError, TypeError, AttributeError, OverflowError)

BOOL_VALUES: Final = (False, True)  # any other byte is not canonical and raises IndexError
_MAX_PREPARED_COUNT: Final = 64  # arrays with fewer elements use a prepared struct.Struct
_MAX_CACHED_PACKERS: Final = 1024  # packers that are kept for one run of fields, one per combination of array lengths
new = object.__new__
# ``UUID`` is immutable: its ``__setattr__`` raises. The setters of its slots take a third of object.__setattr__'s time.
_set_uuid_int = UUID.__dict__["int"].__set__
_set_uuid_safety = UUID.__dict__["is_safe"].__set__
_UNKNOWN_UUID_SAFETY: Final = SafeUUID.unknown


class NotCanonicalError(ValueError):
    """Raised if the data is not canonical; the caller then decodes the data with the plain interpreter."""


def read_varint(buf: bytes | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of two to five bytes that is no longer than needed and below 2^31."""
    value = buf[position] & 0x7F
    shift = 0
    while buf[position] > 0x7F:
        position += 1
        shift += 7
        value |= (buf[position] & 0x7F) << shift
        if shift > 28:
            raise NotCanonicalError
    if (shift and not buf[position]) or value > MAX_INT32:
        raise NotCanonicalError
    return value, position + 1


def encode_varint(value: int) -> bytes:
    """Return a value as an unsigned varint."""
    if 0x7F < value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def make_uuid(raw: bytes | memoryview) -> UUID:
    """Return a UUID from 16 bytes, three times as fast as ``UUID(bytes=raw)``."""
    if len(raw) != 16:
        raise NotCanonicalError
    value = new(UUID)
    _set_uuid_int(value, int.from_bytes(raw))
    _set_uuid_safety(value, _UNKNOWN_UUID_SAFETY)
    return value


def make_number_readers(type_name: str) -> tuple[Callable[[bytes, int], tuple[Any, ...]], ...]:
    """Return the ``unpack_from`` functions for 0 to 63 numbers of a type."""
    return tuple(
        struct.Struct(f">{count}{STRUCT_FORMATS[type_name]}").unpack_from for count in range(_MAX_PREPARED_COUNT)
    )


def read_numbers(buf: bytes | memoryview, position: int, count: int, type_name: str) -> tuple[Any, ...]:
    """Read ``count`` numbers of a type; truncated data raises an error before any allocation."""
    return struct.unpack_from(f">{count}{STRUCT_FORMATS[type_name]}", buf, position)


def read_bools(buf: bytes | memoryview, position: int, count: int) -> list[bool]:
    """Read ``count`` canonical bools."""
    return [BOOL_VALUES[byte] for byte in buf[position : position + count]]


def read_uuids(buf: bytes | memoryview, position: int, count: int) -> list[UUID]:
    """Read ``count`` uuids."""
    end = position + 16 * count
    if end > len(buf):
        raise NotCanonicalError
    return [make_uuid(buf[start : start + 16]) for start in range(position, end, 16)]


def read_compact_strings(buf: bytes | memoryview, position: int, count: int) -> tuple[list[str], int]:
    """Read ``count`` compact strings."""
    raw, position = read_compact_blobs(buf, position, count)
    if raw and max(map(len, raw)) > 0x7FFF:
        raise NotCanonicalError
    return [str(text, "utf-8") for text in raw], position


def read_compact_blobs(buf: bytes | memoryview, position: int, count: int) -> tuple[list[bytes], int]:
    """Read ``count`` byte strings with compact lengths."""
    if count > len(buf) - position:
        raise NotCanonicalError
    items = []
    for _ in repeat(None, count):
        length = buf[position]
        if length > 0x7F:
            length, position = read_varint(buf, position)
        else:
            position += 1
        if not length:
            raise NotCanonicalError
        end = position + length - 1
        items.append(bytes(buf[position:end]))
        position = end
    return items, position


def read_plain_strings(buf: bytes | memoryview, position: int, count: int) -> tuple[list[str], int]:
    """Read ``count`` strings with int16 lengths."""
    raw, position = _read_plain_blobs(buf, position, count, ">h")
    return [str(text, "utf-8") for text in raw], position


def read_plain_blobs(buf: bytes | memoryview, position: int, count: int) -> tuple[list[bytes], int]:
    """Read ``count`` byte strings with int32 lengths."""
    return _read_plain_blobs(buf, position, count, ">i")


def _read_plain_blobs(buf: bytes | memoryview, position: int, count: int, fmt: str) -> tuple[list[bytes], int]:
    if count > len(buf) - position:
        raise NotCanonicalError
    size = struct.calcsize(fmt)
    items = []
    for _ in repeat(None, count):
        (length,) = struct.unpack_from(fmt, buf, position)
        if length < 0:
            raise NotCanonicalError
        position += size
        items.append(bytes(buf[position : position + length]))
        position += length
    return items, position


def require_bytes(value: Any) -> bytes | DeferredBytes:
    """Return a value that is exactly ``bytes``, or a ``DeferredBytes``; the interpreter checks all other values."""
    if value.__class__ is bytes or isinstance(value, DeferredBytes):
        data: bytes | DeferredBytes = value
        return data
    raise NotCanonicalError


def encode_utf8(value: Any) -> bytes:
    """Return the UTF-8 encoding of a string; raise NotCanonicalError if it has more than 32,767 bytes."""
    raw: bytes = value.encode()
    if len(raw) > 0x7FFF or value.__class__ is not str:
        raise NotCanonicalError
    return raw


def require_list(value: Any) -> Any:
    """Return the value if it is a list or a tuple."""
    if value.__class__ is not list and value.__class__ is not tuple:
        raise NotCanonicalError
    return value


def write_blobs(raw: Sequence[bytes], write: Callable[[bytes], None], *, compact: bool, size: int) -> None:
    """Write byte strings, each after its length; ``size`` is the size of a length that is not compact, in bytes."""
    for element in raw:
        write(encode_varint(len(element) + 1) if compact else len(element).to_bytes(size))
        write(element)


def read_unknown_tags(o: Any, buf: bytes | memoryview, position: int, end: int) -> int:
    """Read the tag section of a struct that declares no tags; return its end."""
    count, position = _read_varint(buf, position)
    last = -1
    for _ in repeat(None, count):
        tag, position = _read_varint(buf, position)
        size, position = _read_varint(buf, position)
        if tag <= last or size > end - position:
            raise NotCanonicalError
        last = tag
        o.unknown_tags.append((tag, bytes(buf[position : position + size])))
        position += size
    return position


def _read_varint(buf: bytes | memoryview, position: int) -> tuple[int, int]:
    value = buf[position]
    return read_varint(buf, position) if value > 0x7F else (value, position + 1)


def write_tags(
    declared_tags: Sequence[tuple[int, bytes]],
    raw_tags: Sequence[tuple[int, bytes]],
    write: Callable[[bytes], None],
    reserved_tags: Container[int] = (),
) -> None:
    """Write a tag section: declared tags, then raw tags, which must ascend and must not be in ``reserved_tags``."""
    write(encode_varint(len(declared_tags) + len(raw_tags)))
    last = -1
    for tag, payload in raw_tags:
        if (
            not last < tag < MAX_INT32
            or tag in reserved_tags
            or payload.__class__ is not bytes
            or tag.__class__ is not int
        ):
            raise NotCanonicalError
        last = tag
    for tag, payload in (*declared_tags, *raw_tags):
        write(encode_varint(tag))
        write(encode_varint(len(payload)))
        write(payload)


def make_run_format(
    before: Sequence[str], elements: Sequence[str], after: str, counts: Sequence[int], *, compact: bool
) -> str:
    """Return the ``struct`` format of a run of fields whose arrays have these counts."""
    length = "B" if compact else "i"
    runs = zip(before, counts, elements, strict=True)
    return "".join(f"{numbers}{length}{count}{element}" for numbers, count, element in runs) + after


class ShapePackers(dict[Any, Callable[..., bytes]]):
    """Functions that pack adjacent fixed-size fields and arrays of numbers, by the lengths of the arrays.

    ``parts`` are the formats of the run: one before each array's count, one for each array's elements, one at the end.
    A packer takes every value in order, counts included. In a flexible version, arrays of 127 or more elements have
    longer counts; those runs are packed in parts.
    """

    def __init__(self, before: Sequence[str], elements: Sequence[str], after: str, *, compact: bool) -> None:
        self.before = before
        self.elements = elements
        self.after = after
        self.compact = compact

    def __missing__(self, key: Any) -> Callable[..., bytes]:
        counts = key if isinstance(key, tuple) else (key,)
        if self.compact and max(counts) > 126:
            return self._make_long_packer(counts)
        fmt = make_run_format(self.before, self.elements, self.after, counts, compact=self.compact)
        packer = struct.Struct(f">{fmt}").pack
        if len(self) < _MAX_CACHED_PACKERS:
            self[key] = packer
        return packer

    def _make_long_packer(self, counts: tuple[int, ...]) -> Callable[..., bytes]:
        """Return a packer for arrays of 127 or more elements, whose compact counts have several bytes."""

        def pack(*values: Any) -> bytes:
            out = bytearray()
            position = 0
            for before, count, element in zip(self.before, counts, self.elements, strict=True):
                out += struct.pack(f">{before}", *values[position : position + _arity(before)])
                position += _arity(before)
                out += encode_varint(values[position])
                out += struct.pack(f">{count}{element}", *values[position + 1 : position + 1 + count])
                position += 1 + count
            return bytes(out + struct.pack(f">{self.after}", *values[position:]))

        return pack


def _arity(fmt: str) -> int:
    return len(fmt.replace("16s", "s"))
