"""The header of a tagged field, tag and length: as adopted by KIP-482, and as its earlier draft had it.

* ``adopted``: two unsigned varints, the tag and the length in bytes. What Kafka speaks.
* ``interleaved``: one unsigned varlong; its even bits are the length's, the others the tag's (a Morton code), so that
  two small numbers share a byte. Never released; here for studies of size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaframes.errors import EncodeError
from kafkaframes.wire.varint import (
    read_unsigned_varint,
    read_unsigned_varlong,
    size_of_unsigned_varint,
    size_of_unsigned_varlong,
    write_unsigned_varint,
    write_unsigned_varlong,
)

_SPREAD_STEPS: Final = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
_UINT64: Final = (1 << 64) - 1


def _spread(value: int) -> int:
    """Return the 32 bits of ``value`` on the even bits of 64."""
    for shift, mask in _SPREAD_STEPS:
        value = (value | value << shift) & mask
    return value


def _gather(value: int) -> int:
    """Return the even bits of ``value``, side by side: the inverse of :func:`_spread`."""
    value &= _SPREAD_STEPS[-1][1]
    for (shift, _), (_, mask) in zip(reversed(_SPREAD_STEPS), (*_SPREAD_STEPS[-2::-1], (0, 0xFFFFFFFF)), strict=True):
        value = (value | value >> shift) & mask
    return value


def interleave(tag: int, length: int) -> int:
    """Return the draft's header as a number.

    >>> bin(interleave(tag=5, length=4))
    '0b110010'
    """
    for name, value in (("tag", tag), ("length", length)):
        if not 0 <= value < 1 << 32:
            raise EncodeError(f"{name} {value} does not fit into 32 bits")
    return _spread(length) | _spread(tag) << 1


def deinterleave(header: int) -> tuple[int, int]:
    """Return (tag, length) of the draft's header.

    >>> deinterleave(0b110010)
    (5, 4)
    """
    return _gather(header >> 1), _gather(header)


@dataclass(frozen=True, slots=True)
class TagHeader:
    """One way to write a tag and a length.

    ``read(buf, position)`` gives (tag, length, next position), ``write(out, tag, length)``, ``size(tag, length)``.
    """

    name: str
    read: Callable[[bytes, int], tuple[int, int, int]]
    write: Callable[[bytearray, int, int], None]
    size: Callable[[int, int], int]


def _read_adopted(buf: bytes, position: int) -> tuple[int, int, int]:
    tag, position = read_unsigned_varint(buf, position)
    length, position = read_unsigned_varint(buf, position)
    return tag, length, position


def _write_adopted(out: bytearray, tag: int, length: int) -> None:
    write_unsigned_varint(out, tag)
    write_unsigned_varint(out, length)


def _size_adopted(tag: int, length: int) -> int:
    return size_of_unsigned_varint(tag) + size_of_unsigned_varint(length)


def _read_interleaved(buf: bytes, position: int) -> tuple[int, int, int]:
    header, end = read_unsigned_varlong(buf, position)
    return *deinterleave(header & _UINT64), end


def _write_interleaved(out: bytearray, tag: int, length: int) -> None:
    write_unsigned_varlong(out, interleave(tag, length))


def _size_interleaved(tag: int, length: int) -> int:
    return size_of_unsigned_varlong(interleave(tag, length))


TAG_HEADERS: Final = {
    one.name: one
    for one in (
        TagHeader("adopted", _read_adopted, _write_adopted, _size_adopted),
        TagHeader("interleaved", _read_interleaved, _write_interleaved, _size_interleaved),
    )
}
