"""What a schema registry's serializers put before a value: a zero byte, the schema's id, for Protobuf which message.

The format is Confluent's ("wire format" in the documentation of Schema Registry), which other registries write too: one
byte 0, the id as a 32-bit integer in network order, the payload. Protobuf has message indexes between id and payload:
a count and as many indexes, each a zigzag varint, that lead from the file's messages to a nested one; a count of 0
stands for the first message of the file.
"""

from __future__ import annotations

from typing import Final

from kafkaframes.errors import DecodeError, TruncatedError

PREFIX_SIZE: Final = 5
_MOST_INDEXES: Final = 64  # deeper nesting than any protoc takes
_VARINT_BITS: Final = 35


class BadValueError(Exception):
    """A value is not what its schema says: the reason, for the table of dead letters."""


def split_prefix(value: bytes) -> tuple[int, bytes]:
    """Return the schema's id and what follows it.

    >>> split_prefix(bytes([0, 0, 0, 1, 2]) + b"payload")
    (258, b'payload')

    Raises:
        BadValueError: there is no such prefix.
    """
    if len(value) < PREFIX_SIZE:
        raise BadValueError(f"{len(value)} bytes are too few for a schema registry's prefix")
    if value[0] != 0:
        raise BadValueError(f"no schema registry's prefix: the first byte is {value[0]}, not 0")
    return int.from_bytes(value[1:PREFIX_SIZE], "big"), value[PREFIX_SIZE:]


def split_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """Return the message indexes of a Protobuf value, and the message's bytes.

    >>> split_indexes(bytes([0]) + b"m"), split_indexes(bytes([4, 2, 0]) + b"m")
    (((0,), b'm'), ((1, 0), b'm'))

    Raises:
        BadValueError: they break off, or there are too many.
    """
    try:
        count, position = _zigzag(payload, 0)
        if not 0 <= count <= _MOST_INDEXES:
            raise BadValueError(f"{count} message indexes")
        indexes = []
        for _ in range(count):
            index, position = _zigzag(payload, position)
            indexes.append(index)
    except DecodeError as error:
        raise BadValueError(f"message indexes: {error}") from None
    return tuple(indexes) or (0,), payload[position:]


def _zigzag(buffer: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(buffer):
            raise TruncatedError("the varint breaks off", position=position)
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift >= _VARINT_BITS:
            raise DecodeError("the varint is longer than 5 bytes", position=position)
