"""Avro values, through ``fastavro``: writer's schemas by id, one reader's schema for the table.

A value is resolved from the schema it was written with to the table's, by Avro's rules (fields by name, defaults,
promotions). What has no column: unions of several types beside null, recursive types, arrays of values without bytes
(one such value could promise any number of elements); they are refused by name.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from kafkaframes.errors import OptionError, import_extra
from kafkaframes.scan.values.columns import Row, column_names
from kafkaframes.scan.values.registry import BadValueError

WHOLE: Final = "value"
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
_LOGICAL: Final[Mapping[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_MOST_DIGITS: Final = 38
Schema = Any  # as JSON has it
SchemaOf = Callable[[bytes], tuple[Schema | None, bytes]]


def load_library() -> Any:
    """Return the module ``fastavro``.

    Raises:
        MissingExtraError: it is absent.
    """
    return import_extra("`mode` avro", "avro", "fastavro", "fastavro.schema")


class AvroDecoder:
    """Decodes Avro.

    Args:
        reader: the table's schema.
        schema_of: given a value, returns the schema that wrote it (None: the table's) and the payload.

    Raises:
        OptionError: the schema is none, or has what no column can hold.
        MissingExtraError: fastavro is absent.
    """

    def __init__(self, reader: Schema, schema_of: SchemaOf) -> None:
        self._library = load_library()
        self._named: dict[str, Any] = {}
        try:
            self._reader = self._library.parse_schema(_plainer(reader), self._named)
        except Exception as error:  # of fastavro: several, without a root of their own
            raise OptionError(f"no Avro schema: {error}") from error
        self._schema_of = schema_of
        self._writers: dict[int, tuple[Schema, Any]] = {}
        top = self._resolved(self._reader)
        self._is_record = isinstance(top, dict) and top["type"] in ("record", "error")
        if self._is_record:
            self._names = column_names(one["name"] for one in top["fields"])
            kinds = {one["name"]: self._type(one["type"], one["name"], (top["name"],)) for one in top["fields"]}
        else:
            self._names, kinds = {WHOLE: WHOLE}, {WHOLE: self._type(self._reader, "$", ())}
        self.fields: tuple[pa.Field, ...] = tuple(pa.field(self._names[name], kind) for name, kind in kinds.items())

    def decode(self, value: bytes) -> Row:
        """Return a value's columns.

        Raises:
            BadValueError: the bytes are not what the schema says, or its schema does not resolve to the table's.
        """
        written, payload = self._schema_of(value)
        writer = self._reader if written is None else self._parsed(written)
        buffer = io.BytesIO(payload)
        try:
            result = self._library.schemaless_reader(buffer, writer, None if writer is self._reader else self._reader)
        except Exception as error:  # EOFError, IndexError, struct.error, ...: fastavro lets through what it meets
            raise BadValueError(f"no Avro value of its schema: {error or type(error).__name__}") from None
        if left := len(payload) - buffer.tell():
            raise BadValueError(f"{left} bytes are left behind the Avro value")
        row = result if self._is_record else {WHOLE: result}
        return {self._names[name]: one for name, one in row.items()}

    def _parsed(self, written: Schema) -> Any:
        known = self._writers.get(id(written))
        if known is None:
            try:
                parsed = self._library.parse_schema(_plainer(written), {})
            except Exception as error:
                raise BadValueError(f"its schema is no Avro schema: {error}") from None
            _check_arrays(parsed)
            known = self._writers[id(written)] = (written, parsed)  # the schema is kept, for its id to stay its own
        return known[1]

    def _resolved(self, schema: Schema) -> Schema:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def _type(self, schema: Schema, path: str, within: tuple[str, ...]) -> pa.DataType:
        """Return the type of a column."""
        schema = self._resolved(schema)
        if isinstance(schema, list):
            kinds = [one for one in schema if one != "null"]
            if len(kinds) != 1:
                raise OptionError(f"Avro schema, {path}: a union of several types has no column")
            return self._type(kinds[0], path, within)
        if isinstance(schema, str):
            schema = {"type": schema}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self._type(kind, path, within)
        if kind in ("record", "error"):
            return self._struct(schema, path, within)
        if kind == "array":
            if _has_no_bytes(self._resolved(schema["items"]), self._named):
                raise OptionError(f"Avro schema, {path}: an array of values without bytes is not read")
            return pa.list_(pa.field("element", self._type(schema["items"], f"{path}[]", within)))
        if kind == "map":
            return pa.map_(pa.string(), self._type(schema["values"], f"{path}{{}}", within))
        return _scalar(schema, path)

    def _struct(self, schema: Schema, path: str, within: tuple[str, ...]) -> pa.DataType:
        if schema["name"] in within:
            raise OptionError(f"Avro schema, {path}: {schema['name']} contains itself, which no column can hold")
        if not schema["fields"]:
            raise OptionError(f"Avro schema, {path}: a record without fields has no column")
        inner = (*within, schema["name"])
        fields = [pa.field(f["name"], self._type(f["type"], f"{path}.{f['name']}", inner)) for f in schema["fields"]]
        return pa.struct(fields)


def _scalar(schema: Schema, path: str) -> pa.DataType:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        digits = schema.get("precision", 0)
        if not 1 <= digits <= _MOST_DIGITS:
            raise OptionError(f"Avro schema, {path}: a decimal of {digits} digits; a column has at most {_MOST_DIGITS}")
        return pa.decimal128(digits, schema.get("scale", 0))
    result = _LOGICAL.get((kind, str(logical))) or _PRIMITIVES.get(kind)
    if result is None:
        raise OptionError(f"Avro schema, {path}: no type {kind!r}")
    return result


def _plainer(schema: Schema) -> Schema:
    """Return a schema without the logical types that tables do not have: they are what they are made of."""
    if isinstance(schema, list):
        return [_plainer(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {
        name: _plainer(one) if name in ("type", "items", "values", "fields") else one for name, one in schema.items()
    }
    kind, logical = made.get("type"), made.get("logicalType")
    if logical is not None and logical != "decimal" and (kind, logical) not in _LOGICAL:
        del made["logicalType"]
    return made


def _check_arrays(schema: Schema) -> None:
    """Refuse a writer's schema by which few bytes could promise many values."""
    if isinstance(schema, list):
        for entry in schema:
            _check_arrays(entry)
    elif isinstance(schema, dict):
        if schema.get("type") == "array" and _has_no_bytes(schema["items"], {}):
            raise BadValueError("its schema has an array of values without bytes")
        for name in ("type", "items", "values"):
            _check_arrays(schema.get(name))
        for entry in schema.get("fields", ()):
            _check_arrays(entry["type"])


def _has_no_bytes(schema: Schema, named: Mapping[str, Any]) -> bool:
    schema = named.get(schema, schema) if isinstance(schema, str) else schema
    if isinstance(schema, dict):
        kind = schema["type"]
        if kind in ("record", "error"):
            return all(_has_no_bytes(one["type"], named) for one in schema["fields"])
        if kind == "fixed":
            return bool(schema["size"] == 0)
        return isinstance(kind, str | dict) and kind not in ("array", "map") and _has_no_bytes(kind, named)
    return bool(schema == "null")
