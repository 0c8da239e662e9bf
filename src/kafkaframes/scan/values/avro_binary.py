"""Readers of Avro's binary encoding, and functions that compose readers. Pure.

A reader takes the bytes of a record value and a position. A reader returns a value and the position after it. A reader
raises BadValueError with the reason. IndexError and struct.error mean that the data are truncated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kafkaframes.errors.words import count_text
from kafkaframes.scan.values.avro_columns import is_empty
from kafkaframes.scan.values.avro_schema import BOOLEAN, BYTES, DOUBLE, FLOAT, INT, LONG, STRING, AvroType
from kafkaframes.scan.values.registry import BadValueError
from kafkaframes.wire.integers import MAX_INT32, MIN_INT32

Read = Callable[[bytes, int], tuple[Any, int]]
Convert = Callable[[Any], Any]
MAX_VARINT_BITS: Final = 64


def read_long(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 64 bits.

    Raises:
        BadValueError: the number has more than 64 bits.
        IndexError: the data are truncated.
    """
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= MAX_VARINT_BITS:
            raise BadValueError("the number has more than 64 bits")
    if value >> MAX_VARINT_BITS:
        raise BadValueError("the number has more than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def _read_int(data: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 32 bits."""
    value, position = read_long(data, position)
    if not MIN_INT32 <= value <= MAX_INT32:
        raise BadValueError(f"{value} is not a 32-bit int")
    return value, position


def read_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes with a length prefix."""
    size, position = read_long(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise BadValueError(f"expected {size} bytes of text or data, found {len(data) - position}")
    return data[position:end], end


def read_string(data: bytes, position: int) -> tuple[str, int]:
    """Read text.

    Raises:
        BadValueError: the text is not UTF-8.
    """
    value, position = read_bytes(data, position)
    return decode_text(value), position


def decode_text(value: bytes) -> str:
    """Return bytes as text.

    Raises:
        BadValueError: the bytes are not UTF-8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadValueError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from None


def _read_boolean(data: bytes, position: int) -> tuple[bool, int]:
    value = data[position]
    if value > 1:
        raise BadValueError(f"byte {value} is not a boolean")
    return value == 1, position + 1


def read_null(data: bytes, position: int) -> tuple[None, int]:
    """Return None without reading a byte."""
    return None, position


_FLOAT, _DOUBLE = struct.Struct("<f").unpack_from, struct.Struct("<d").unpack_from


def _read_float(data: bytes, position: int) -> tuple[float, int]:
    return _FLOAT(data, position)[0], position + 4


def _read_double(data: bytes, position: int) -> tuple[float, int]:
    return _DOUBLE(data, position)[0], position + 8


PRIMITIVE_READERS: Final[Mapping[str, Read]] = {
    BOOLEAN: _read_boolean,
    INT: _read_int,
    LONG: read_long,
    FLOAT: _read_float,
    DOUBLE: _read_double,
    BYTES: read_bytes,
    STRING: read_string,
}


def create_fixed_reader(size: int) -> Read:
    """Return a reader of a fixed number of bytes."""

    def read_fixed(data: bytes, position: int) -> tuple[bytes, int]:
        """Read ``size`` bytes."""
        end = position + size
        if end > len(data):
            raise BadValueError(f"expected {size} bytes of a fixed type, found {len(data) - position}")
        return data[position:end], end

    return read_fixed


def create_record_reader(steps: Sequence[tuple[str | None, Read]], defaults: Mapping[str, Any]) -> Read:
    """Return a reader of a record as a dictionary.

    Args:
        steps: name and reader of each written field. The value of a field without a name is dropped.
        defaults: values of the fields that are not in the writer schema.
    """

    def read_record(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        row = dict(defaults)
        for name, read in steps:
            value, position = read(data, position)
            if name is not None:
                row[name] = value
        return row, position

    return read_record


def _read_block_header(data: bytes, position: int) -> tuple[int, int]:
    """Return the number of elements in the next block, and the position of the first one."""
    count, position = read_long(data, position)
    if count < 0:
        _, position = read_long(data, position)  # skips the size of the block in bytes
        count = -count
    if count > len(data) - position:  # each element has at least one byte
        raise BadValueError(f"{count_text(count, 'element')} in {count_text(len(data) - position, 'byte')}")
    return count, position


def create_array_reader(read: Read, items: AvroType) -> Read:
    """Return a reader of an array.

    Args:
        read: reader of an element.
        items: element type in the writer schema.
    """
    if is_empty(items):
        return create_failing_reader("arrays of values that occupy no bytes are not supported")

    def read_array(data: bytes, position: int) -> tuple[list[Any], int]:
        result: list[Any] = []
        count, position = _read_block_header(data, position)
        while count:
            for _ in range(count):
                value, position = read(data, position)
                result.append(value)
            count, position = _read_block_header(data, position)
        return result, position

    return read_array


def create_map_reader(read: Read) -> Read:
    """Return a reader of a map as (key, value) pairs, given a reader of its values."""

    def read_map(data: bytes, position: int) -> tuple[list[tuple[str, Any]], int]:
        result: dict[str, Any] = {}
        count, position = _read_block_header(data, position)
        while count:
            for _ in range(count):
                key, position = read_string(data, position)
                result[key], position = read(data, position)
            count, position = _read_block_header(data, position)
        return list(result.items()), position

    return read_map


def create_failing_reader(reason: str) -> Read:
    """Return a reader that rejects every value with a reason."""

    def raise_reason(data: bytes, position: int) -> tuple[Any, int]:
        raise BadValueError(reason)

    return raise_reason


def create_mismatch_reader(writer: AvroType, reader: AvroType) -> Read:
    """Return a reader that rejects every value, because the writer's type cannot be resolved to the reader's type."""
    return create_failing_reader(
        f"the value was written as {describe_type(writer)}, which cannot be read as {describe_type(reader)}"
    )


def describe_type(schema: AvroType) -> str:
    """Return the name of a type in messages, with its logical type."""
    if schema.unit is not None:
        return f"{schema.kind} ({schema.unit.name})"
    if schema.digits is not None:
        return f"{schema.kind} (decimal of {schema.digits.precision} digits, scale {schema.digits.scale})"
    return f"{schema.kind} {schema.name}".rstrip()


def create_converting_reader(read: Read, convert: Convert | None) -> Read:
    """Return a reader that also converts the value, or ``read`` itself if ``convert`` is None."""
    if convert is None:
        return read

    def read_converted(data: bytes, position: int) -> tuple[Any, int]:
        value, position = read(data, position)
        return convert(value), position

    return read_converted


def encode_long(value: int) -> bytes:
    """Return a number as a zigzag varint."""
    remaining_bits = (value << 1) ^ (value >> MAX_VARINT_BITS - 1)
    result = bytearray()
    while remaining_bits >= 0x80:
        result.append(remaining_bits & 0x7F | 0x80)
        remaining_bits >>= 7
    result.append(remaining_bits)
    return bytes(result)


def encode_bytes(value: bytes) -> bytes:
    """Return bytes with a length prefix."""
    return encode_long(len(value)) + value
