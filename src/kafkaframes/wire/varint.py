"""Varints, unsigned and zigzag-encoded, as in Kafka's ``ByteUtils``; and headers of tagged fields.

Every reader is ``read_x(buf, position) -> (value, next_position)``, and every writer ``write_x(out, value)`` appends to
a bytearray. ``size_of_x(value)`` returns the number of bytes that the writer appends. ``size_of_x`` exists for unsigned
varints.

As in Kafka:

* A 32-bit varint has at most 5 bytes, a 64-bit varint at most 10. A continuation bit in the last of them is an error.
* Bits that do not fit (above bit 3 of the 5th byte, above bit 0 of the 10th) are discarded.
* Longer encodings than necessary are accepted (``80 80 80 80 00`` is 0).
* Values are Java's ints and longs: the unsigned varint ``ff ff ff ff 0f`` is -1.

A tagged field starts with the field's tag and length in bytes:

* ``adopted``: two unsigned varints. This is Kafka's format.
* ``interleaved``: one unsigned varlong (a Morton code). The even bits contain the length and the odd bits the tag, so
  that two small numbers share a byte. An early draft of KIP-482 specified this format, which was never released and is
  only used for comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


class Buffer(Protocol):
    """A sequence of bytes: ``bytes``, ``bytearray`` or ``memoryview``."""

    def __getitem__(self, position: int, /) -> int:
        """Return the byte at ``position``."""
        ...

    def __len__(self) -> int:
        """Return the size in bytes."""
        ...


def _read_varint_bits(buf: Buffer, position: int, max_bytes: int, bits: int) -> tuple[int, int]:
    value = 0
    end = len(buf)
    for index in range(max_bytes):
        here = position + index
        if not 0 <= here < end:
            raise TruncatedError("the bytes end inside a varint", position=position)
        byte = buf[here]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & ((1 << bits) - 1), here + 1
    raise DecodeError(f"a varint has more than {max_bytes} bytes", position=position)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _append_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def _size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _to_unsigned(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise EncodeError(f"{value} does not fit into {bits} bits")
    return value & ((1 << bits) - 1)


def _encode_zigzag(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise EncodeError(f"{value} does not fit into {bits} signed bits")
    return (value << 1) ^ (value >> (bits - 1))


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def read_unsigned_varint(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a 32-bit varint as Java's int.

    Values of 2^31 and above are returned as negative numbers (``ByteUtils.readUnsignedVarint``).

    Raises:
        TruncatedError: ``buf`` ends inside the varint, which starts at the error's ``position``.
        DecodeError: the 5th byte has its continuation bit set.
    """
    if 0 <= position < len(buf) and (byte := buf[position]) < 0x80:  # fast path: most lengths and tags have one byte
        return byte, position + 1
    value, position = _read_varint_bits(buf, position, MAX_VARINT_BYTES, 32)
    return _signed(value, 32), position


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append a 32-bit varint of 1 to 5 bytes. A negative value is written as its 32 bits (-1 is ``ff ff ff ff 0f``).

    Raises:
        EncodeError: ``value`` is not within [-2^31, 2^32).
    """
    if 0 <= value < 0x80:
        out.append(value)
        return
    _append_varint(out, _to_unsigned(value, 32))


def size_of_unsigned_varint(value: int) -> int:
    """Return the number of bytes that :func:`write_unsigned_varint` appends.

    >>> [size_of_unsigned_varint(value) for value in (0, 127, 128, 300, -1)]
    [1, 1, 2, 2, 5]
    """
    return _size(_to_unsigned(value, 32))


def read_unsigned_varlong(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a 64-bit varint as Java's long.

    Values of 2^63 and above are returned as negative numbers (``ByteUtils.readUnsignedVarlong``).

    Raises:
        TruncatedError: ``buf`` ends inside the varint.
        DecodeError: the 10th byte has its continuation bit set.
    """
    value, position = _read_varint_bits(buf, position, MAX_VARLONG_BYTES, 64)
    return _signed(value, 64), position


def write_unsigned_varlong(out: bytearray, value: int) -> None:
    """Append a 64-bit varint of 1 to 10 bytes. A negative value is written as its 64 bits.

    Raises:
        EncodeError: ``value`` is not within [-2^63, 2^64).
    """
    _append_varint(out, _to_unsigned(value, 64))


def size_of_unsigned_varlong(value: int) -> int:
    """Return the number of bytes that :func:`write_unsigned_varlong` appends."""
    return _size(_to_unsigned(value, 64))


def read_varint(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag-encoded int32 of 1 to 5 bytes (``ByteUtils.readVarint``).

    >>> read_varint(bytes.fromhex("d804"), 0)
    (300, 2)
    """
    value, position = _read_varint_bits(buf, position, MAX_VARINT_BYTES, 32)
    return _unzigzag(value), position


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag-encoded int32 of 1 to 5 bytes.

    Raises:
        EncodeError: ``value`` is not an int32.
    """
    _append_varint(out, _encode_zigzag(value, 32))


def read_varlong(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag-encoded int64 of 1 to 10 bytes (``ByteUtils.readVarlong``)."""
    value, position = _read_varint_bits(buf, position, MAX_VARLONG_BYTES, 64)
    return _unzigzag(value), position


def write_varlong(out: bytearray, value: int) -> None:
    """Append a zigzag-encoded int64 of 1 to 10 bytes.

    Raises:
        EncodeError: ``value`` is not an int64.
    """
    _append_varint(out, _encode_zigzag(value, 64))


_BIT_SPREAD_STEPS: Final = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
_MAX_UINT64: Final = (1 << 64) - 1


def _spread_bits(value: int) -> int:
    """Return the 32 bits of ``value`` as the even bits of a 64-bit number."""
    for shift, mask in _BIT_SPREAD_STEPS:
        value = (value | value << shift) & mask
    return value


def _gather_bits(value: int) -> int:
    """Return the even bits of ``value`` as a 32-bit number: the inverse of :func:`_spread_bits`."""
    value &= _BIT_SPREAD_STEPS[-1][1]
    for (shift, _), (_, mask) in zip(
        reversed(_BIT_SPREAD_STEPS), (*_BIT_SPREAD_STEPS[-2::-1], (0, 0xFFFFFFFF)), strict=True
    ):
        value = (value | value >> shift) & mask
    return value


def interleave(tag: int, length: int) -> int:
    """Return the interleaved header as a number.

    >>> bin(interleave(tag=5, length=4))
    '0b110010'
    """
    for name, value in (("tag", tag), ("length", length)):
        if not 0 <= value < 1 << 32:
            raise EncodeError(f"{name} {value} does not fit into 32 bits")
    return _spread_bits(length) | _spread_bits(tag) << 1


def deinterleave(header: int) -> tuple[int, int]:
    """Return the (tag, length) pair of an interleaved header.

    >>> deinterleave(0b110010)
    (5, 4)
    """
    return _gather_bits(header >> 1), _gather_bits(header)


@dataclass(frozen=True, slots=True)
class TagHeader:
    """An encoding of a tag and a length.

    ``read(buf, position)`` returns (tag, length, next position). ``write(out, tag, length)`` appends to a bytearray.
    ``size(tag, length)`` returns the number of appended bytes.
    """

    name: str
    read: Callable[[bytes, int], tuple[int, int, int]]
    write: Callable[[bytearray, int, int], None]
    size: Callable[[int, int], int]


def _read_varint_header(buf: bytes, position: int) -> tuple[int, int, int]:
    tag, position = read_unsigned_varint(buf, position)
    length, position = read_unsigned_varint(buf, position)
    return tag, length, position


def _write_varint_header(out: bytearray, tag: int, length: int) -> None:
    write_unsigned_varint(out, tag)
    write_unsigned_varint(out, length)


def _size_adopted(tag: int, length: int) -> int:
    return size_of_unsigned_varint(tag) + size_of_unsigned_varint(length)


def _read_interleaved_header(buf: bytes, position: int) -> tuple[int, int, int]:
    header, end = read_unsigned_varlong(buf, position)
    return *deinterleave(header & _MAX_UINT64), end


def _write_interleaved(out: bytearray, tag: int, length: int) -> None:
    write_unsigned_varlong(out, interleave(tag, length))


def _size_interleaved(tag: int, length: int) -> int:
    return size_of_unsigned_varlong(interleave(tag, length))


TAG_HEADERS: Final = {
    header.name: header
    for header in (
        TagHeader("adopted", _read_varint_header, _write_varint_header, _size_adopted),
        TagHeader("interleaved", _read_interleaved_header, _write_interleaved, _size_interleaved),
    )
}
