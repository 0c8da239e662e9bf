"""Encode the JSON default of an Avro field as the bytes that a writer would write. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from kafkaframes.scan.values.avro_binary import describe_type, encode_bytes, encode_long
from kafkaframes.scan.values.avro_schema import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FIXED,
    FLOAT,
    INT,
    LONG,
    MAP,
    NO_DEFAULT,
    NULL,
    RECORD,
    STRING,
    UNION,
    AvroField,
    AvroType,
    Json,
)
from kafkaframes.scan.values.registry import BadValueError
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64


def encode_default(schema: AvroType, value: Json) -> bytes:
    """Return a default value in Avro's binary encoding.

    >>> encode_default(AvroType("bytes"), "\\u00ff")
    b'\\x02\\xff'

    Raises:
        BadValueError: the default is not a value of the type.
    """
    result = _DEFAULT_ENCODERS[schema.kind](schema, value)
    if result is None:
        raise BadValueError(f"{value!r} is not of type {describe_type(schema)}"[:200])
    return result


def _encode_union(schema: AvroType, value: Json) -> bytes | None:
    for index, branch in enumerate(schema.branches):
        try:
            return encode_long(index) + encode_default(branch, value)
        except BadValueError:
            continue
    return None


def _encode_null(schema: AvroType, value: Json) -> bytes | None:
    return b"" if value is None else None


def _encode_boolean(schema: AvroType, value: Json) -> bytes | None:
    return bytes([value]) if isinstance(value, bool) else None


def _encode_integer(schema: AvroType, value: Json) -> bytes | None:
    limit = MAX_INT32 if schema.kind == INT else MAX_INT64
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return encode_long(value) if is_whole and -limit - 1 <= value <= limit else None


def _encode_number(schema: AvroType, value: Json) -> bytes | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        with np.errstate(over="ignore"):
            return struct.pack("<d", value) if schema.kind == DOUBLE else np.float32(value).tobytes()
    except OverflowError:
        return None


def _encode_text(schema: AvroType, value: Json) -> bytes | None:
    return encode_bytes(value.encode("utf-8", "replace")) if isinstance(value, str) else None


def _encode_bytes(schema: AvroType, value: Json) -> bytes | None:
    """Encode text with code points 0 to 255 that represent bytes."""
    if not isinstance(value, str) or any(character > "\u00ff" for character in value):
        return None
    data = value.encode("latin-1")
    if schema.kind == BYTES:
        return encode_bytes(data)
    return data if len(data) == schema.size else None


def _encode_symbol(schema: AvroType, value: Json) -> bytes | None:
    return encode_long(schema.symbols.index(value)) if value in schema.symbols else None


def _encode_array(schema: AvroType, value: Json) -> bytes | None:
    if not isinstance(value, list):
        return None
    return _encode_block([encode_default(schema.element, item) for item in value])


def _encode_map(schema: AvroType, value: Json) -> bytes | None:
    if not isinstance(value, dict):
        return None
    keys = (encode_bytes(key.encode("utf-8", "replace")) for key in value)
    return _encode_block(
        [key + encode_default(schema.element, item) for key, item in zip(keys, value.values(), strict=True)]
    )


def _encode_block(items: list[bytes]) -> bytes:
    return (encode_long(len(items)) + b"".join(items) if items else b"") + b"\0"


def _encode_record(schema: AvroType, value: Json) -> bytes | None:
    if not isinstance(value, dict):
        return None
    return b"".join(_encode_field(schema, field, value) for field in schema.fields)


def _encode_field(schema: AvroType, field: AvroField, value: Mapping[str, Json]) -> bytes:
    """Encode a field of a record, or its default if ``value`` does not contain it."""
    entry = value.get(field.name, field.default)
    if entry is NO_DEFAULT:
        raise BadValueError(f"{schema.label} has no value for {field.name}")
    return encode_default(field.type, entry)


_DEFAULT_ENCODERS: Final[Mapping[str, Callable[[AvroType, Json], bytes | None]]] = {
    UNION: _encode_union,
    NULL: _encode_null,
    BOOLEAN: _encode_boolean,
    INT: _encode_integer,
    LONG: _encode_integer,
    FLOAT: _encode_number,
    DOUBLE: _encode_number,
    STRING: _encode_text,
    BYTES: _encode_bytes,
    FIXED: _encode_bytes,
    ENUM: _encode_symbol,
    ARRAY: _encode_array,
    MAP: _encode_map,
    RECORD: _encode_record,
}
