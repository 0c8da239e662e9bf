"""Base-128 varints, plain and zig-zag, within the limits of Kafka's ``ByteUtils``.

Every reader is ``read_x(buf, position) -> (value, next_position)``; every writer is ``write_x(out, value)`` and
appends to a bytearray; ``size_of_x(value)``, of unsigned ones, is the number of bytes the writer appends.

What Kafka does, and so does this:

* A 32-bit varint has at most 5 bytes, a 64-bit one at most 10; a continuation bit in the last is an error.
* Bits that do not fit (above bit 3 of the 5th byte, above bit 0 of the 10th) are silently lost.
* Longer encodings than needed are accepted (``80 80 80 80 00`` is 0).
* Values are Java's ints and longs: the unsigned varint ``ff ff ff ff 0f`` reads as -1.
"""

from __future__ import annotations

from typing import Protocol

from kafkaframes.errors import DecodeError, EncodeError, TruncatedError

VARINT_MAX_BYTES = 5
VARLONG_MAX_BYTES = 10


class Buffer(Protocol):
    """Anything that gives a byte's value by position: ``bytes``, ``bytearray``, ``memoryview``."""

    def __getitem__(self, position: int, /) -> int:
        """Return the byte at ``position``."""
        ...

    def __len__(self) -> int:
        """Return the size in bytes."""
        ...


def _read(buf: Buffer, position: int, max_bytes: int, bits: int) -> tuple[int, int]:
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
    raise DecodeError(f"varint longer than {max_bytes} bytes", position=position)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _append(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def _size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def _checked_unsigned(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise EncodeError(f"{value} does not fit into {bits} bits")
    return value & ((1 << bits) - 1)


def _zigzag(value: int, bits: int) -> int:
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise EncodeError(f"{value} does not fit into {bits} signed bits")
    return (value << 1) ^ (value >> (bits - 1))


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def read_unsigned_varint(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a 32-bit varint as Java's int: from 2^31 on it turns negative (``ByteUtils.readUnsignedVarint``).

    Raises:
        TruncatedError: ``buf`` ends inside the varint, which starts at the error's ``position``.
        DecodeError: the 5th byte has its continuation bit set.
    """
    if 0 <= position < len(buf) and (byte := buf[position]) < 0x80:  # nearly every length and tag
        return byte, position + 1
    value, position = _read(buf, position, VARINT_MAX_BYTES, 32)
    return _signed(value, 32), position


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append a 32-bit varint of 1 to 5 bytes; a negative value is written as its 32 bits (-1 is ``ff ff ff ff 0f``).

    Raises:
        EncodeError: ``value`` is not within [-2^31, 2^32).
    """
    if 0 <= value < 0x80:
        out.append(value)
        return
    _append(out, _checked_unsigned(value, 32))


def size_of_unsigned_varint(value: int) -> int:
    """Return how many bytes :func:`write_unsigned_varint` appends.

    >>> [size_of_unsigned_varint(value) for value in (0, 127, 128, 300, -1)]
    [1, 1, 2, 2, 5]
    """
    return _size(_checked_unsigned(value, 32))


def read_unsigned_varlong(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a 64-bit varint as Java's long: from 2^63 on it turns negative (``ByteUtils.readUnsignedVarlong``).

    Raises:
        TruncatedError: ``buf`` ends inside the varint.
        DecodeError: the 10th byte has its continuation bit set.
    """
    value, position = _read(buf, position, VARLONG_MAX_BYTES, 64)
    return _signed(value, 64), position


def write_unsigned_varlong(out: bytearray, value: int) -> None:
    """Append a 64-bit varint of 1 to 10 bytes; a negative value is written as its 64 bits.

    Raises:
        EncodeError: ``value`` is not within [-2^63, 2^64).
    """
    _append(out, _checked_unsigned(value, 64))


def size_of_unsigned_varlong(value: int) -> int:
    """Return how many bytes :func:`write_unsigned_varlong` appends."""
    return _size(_checked_unsigned(value, 64))


def read_varint(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag int32 of 1 to 5 bytes (``ByteUtils.readVarint``).

    >>> read_varint(bytes.fromhex("d804"), 0)
    (300, 2)

    Raises:
        TruncatedError, DecodeError: as :func:`read_unsigned_varint`.
    """
    value, position = _read(buf, position, VARINT_MAX_BYTES, 32)
    return _unzigzag(value), position


def write_varint(out: bytearray, value: int) -> None:
    """Append a zig-zag int32 of 1 to 5 bytes.

    Raises:
        EncodeError: ``value`` is no int32.
    """
    _append(out, _zigzag(value, 32))


def read_varlong(buf: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag int64 of 1 to 10 bytes (``ByteUtils.readVarlong``).

    Raises:
        TruncatedError, DecodeError: as :func:`read_unsigned_varlong`.
    """
    value, position = _read(buf, position, VARLONG_MAX_BYTES, 64)
    return _unzigzag(value), position


def write_varlong(out: bytearray, value: int) -> None:
    """Append a zig-zag int64 of 1 to 10 bytes.

    Raises:
        EncodeError: ``value`` is no int64.
    """
    _append(out, _zigzag(value, 64))
