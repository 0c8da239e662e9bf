"""Decoder for JSON values that follow a JSON Schema, and the inference of a schema from sample values. Pure.

``json_schema`` defines which parts of a JSON Schema become columns. A part without a single type becomes a column of
JSON text, in which numbers keep their spelling. A value is invalid if its type differs from the type of its column.
Fields that are not in the schema are kept as JSON text, by path, in the column ``other_fields``.

Values of plain types are parsed together by Arrow's parser, about 10 times faster than one by one. The results of
Arrow's parser must equal those of ``JsonDecoder.decode``. Before that, each value is wrapped in an object, so that a
value cannot extend into other rows. Values that only one of the two parsers accepts are decoded one by one.
``tests/scan/values/test_json_columns.py`` compares the results on arbitrary bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from kafkaframes.errors import OptionError
from kafkaframes.records.arrays import make_string_array
from kafkaframes.scan.values.columns import MAX_NESTING_DEPTH, RESERVED_COLUMNS, Row, choose_column_names
from kafkaframes.scan.values.json_schema import ARRAY, OBJECT, ColumnSchema, simplify
from kafkaframes.scan.values.registry import BadValueError

OTHER_FIELDS_COLUMN: Final = "other_fields"
WHOLE_VALUE_COLUMN: Final = "value"  # the column of values that are not objects
_INT64_LIMIT: Final = 2**63
Extras = dict[str, Any]
Reader = Callable[[Any, str, Extras], Any]


class JsonDecoder:
    """A decoder for JSON values that follow a JSON Schema.

    Args:
        schema: JSON Schema, as parsed JSON.
        references: Other schemas, by their names in ``$ref``.
        other_fields: Whether fields that are not in the schema are returned in a column. If False, these fields are
            omitted.

    Raises:
        OptionError: The schema is invalid.
    """

    def __init__(self, schema: Any, *, other_fields: bool = True, references: Mapping[str, Any] | None = None) -> None:
        if not isinstance(schema, dict):
            raise OptionError("the JSON Schema is not an object")
        plan = simplify(schema, references or {})
        self._is_object = plan.kind == OBJECT
        self._readers = _fields_planned(plan) if self._is_object else {WHOLE_VALUE_COLUMN: _plan_column(plan)}
        self._names = choose_column_names(self._readers, reserved_names={*RESERVED_COLUMNS, OTHER_FIELDS_COLUMN})
        result = [pa.field(self._names[name], kind) for name, (kind, _) in self._readers.items()]
        self._keeps_other = other_fields
        self._kinds = {name: kind for name, (kind, _) in self._readers.items()}
        self._is_plain = self._is_object and _is_plain(plan)
        self.fields: tuple[pa.Field, ...] = (
            (*result, pa.field(OTHER_FIELDS_COLUMN, pa.string())) if other_fields else (*result,)
        )

    def decode_columns(self, values: pa.Array) -> dict[str, pa.Array] | None:
        """Return the columns of many values at once; None if a value does not match the schema exactly."""
        if not self._is_plain:
            return None
        arrays = parse_columns(values, self._kinds, drops_other=not self._keeps_other)
        if arrays is None:
            return None
        columns = dict(zip(self._names.values(), arrays, strict=True))
        return {**columns, OTHER_FIELDS_COLUMN: pa.nulls(len(values), pa.string())} if self._keeps_other else columns

    def decode(self, value: bytes) -> Row:
        """Return the columns of a value.

        Raises:
            BadValueError: The value is not JSON, or has another type than the schema.
        """
        document = _parse_document(value)
        try:
            return self._to_row(document)
        except RecursionError:
            raise BadValueError("not JSON: nested too deeply") from None

    def _to_row(self, document: Any) -> Row:
        """Return the columns of a parsed value. Fields that are not in the schema go to ``other_fields``."""
        extras: Extras = {}
        if not self._is_object:
            row = {WHOLE_VALUE_COLUMN: self._readers[WHOLE_VALUE_COLUMN][1](document, "$", extras)}
        elif not isinstance(document, dict):
            raise BadValueError(f"$: expected an object, found {_name_type(document)}")
        else:
            row = _read_fields(document, self._readers, "$", extras)
            row = {self._names[name]: value for name, value in row.items()}
        if extras and self._keeps_other:
            row[OTHER_FIELDS_COLUMN] = _to_json_text(extras)
        return row


def _parse_document(value: bytes) -> Any:
    try:
        return _JSON_DECODER(value.decode())
    except UnicodeDecodeError as error:
        raise BadValueError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise BadValueError("not JSON: nested too deeply") from None
    except ValueError as error:
        raise BadValueError(f"not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


class WrittenNumber(float):
    """A number with its text, because a double has only 17 digits and a maximum of 1.8e308."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        """Parse a number."""
        result = super().__new__(cls, text)
        result.text = text
        return result


def _parse_int(text: str) -> int | WrittenNumber:
    return WrittenNumber(text) if len(text) > _MAX_INT_TEXT_LENGTH or text == "-0" else int(text)


_MAX_INT_TEXT_LENGTH: Final = 4_000  # Python refuses to convert longer text
# One decoder for all values: json.loads creates a decoder for each call.
_JSON_DECODER: Final = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=WrittenNumber, parse_int=_parse_int
).decode


def _is_plain(plan: ColumnSchema) -> bool:
    """Return whether Arrow's parser can return all columns: no JSON text, and no renamed fields."""
    if plan.kind == ARRAY and plan.items is not None:
        return _is_plain(plan.items)
    if plan.kind == OBJECT:
        names = choose_column_names(plan.properties, reserved_names=())
        return (
            bool(names)
            and all(name == column for name, column in names.items())
            and all(map(_is_plain, plan.properties.values()))
        )
    return plan.kind in _SCALAR_TYPES


def _plan_column(plan: ColumnSchema) -> tuple[pa.DataType, Reader]:
    """Return the Arrow type of a column, and the function that reads its value from parsed JSON."""
    if plan.kind in _SCALAR_TYPES:
        return _SCALAR_TYPES[plan.kind]
    if plan.kind == ARRAY and plan.items is not None:
        return _create_array_reader(*_plan_column(plan.items))
    if plan.kind == OBJECT:
        return _create_object_reader(_fields_planned(plan))
    return pa.string(), _json_text


def _fields_planned(plan: ColumnSchema) -> dict[str, tuple[pa.DataType, Reader]]:
    return {name: _plan_column(property_plan) for name, property_plan in plan.properties.items()}


def _create_array_reader(kind: pa.DataType, read: Reader) -> tuple[pa.DataType, Reader]:
    """Return the Arrow type of an array, and a function that reads one from parsed JSON."""

    def read_array(value: Any, path: str, extras: Extras) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise _wrong(value, path, "an array")
        return [read(item, f"{path}[{index}]", extras) for index, item in enumerate(value)]

    return pa.list_(pa.field("element", kind)), read_array


def _create_object_reader(readers: Mapping[str, tuple[pa.DataType, Reader]]) -> tuple[pa.DataType, Reader]:
    """Return the Arrow type of an object, and a function that reads one from parsed JSON."""
    names = choose_column_names(readers, reserved_names=())

    def read_object(value: Any, path: str, extras: Extras) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        return {names[name]: item for name, item in _read_fields(value, readers, path, extras).items()}

    return pa.struct([pa.field(names[name], kind) for name, (kind, _) in readers.items()]), read_object


def _read_fields(
    value: dict[str, Any], readers: Mapping[str, tuple[pa.DataType, Reader]], path: str, extras: Extras
) -> dict[str, Any]:
    """Return the fields of an object that are in the schema, and add the others to ``extras``."""
    result = {}
    for name, entry in value.items():
        reader = readers.get(name)
        if reader is None:
            extras[f"{path}.{name}".removeprefix("$.")] = entry
        else:
            result[name] = reader[1](entry, f"{path}.{name}", extras)
    return result


def _json_text(value: Any, path: str, extras: Extras) -> Any:
    return None if value is None else _to_json_text(value)


def _to_json_text(value: Any) -> str:
    """Return JSON text in which numbers keep their spelling."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{_quote_text(name)}:{_to_json_text(value[name])}' for name in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_to_json_text, value))}]"
    if isinstance(value, str):
        return _quote_text(value)
    if isinstance(value, WrittenNumber):
        return value.text
    return _JSON_LITERALS[value] if value is None or isinstance(value, bool) else str(value)


_JSON_LITERALS: Final = {None: "null", True: "true", False: "false"}


def _quote_text(text: str) -> str:
    """Return a JSON string. An unpaired surrogate, which UTF-8 cannot represent, stays escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _ENCODE_ESCAPED(text)
    return _ENCODE_UNESCAPED(text)


_ENCODE_ESCAPED: Final = json.JSONEncoder().encode
_ENCODE_UNESCAPED: Final = json.JSONEncoder(ensure_ascii=False).encode


def _create_scalar_reader(type_name: str, convert: Callable[[Any], Any]) -> Reader:
    """Return a function that reads a scalar from parsed JSON. ``test`` returns None for a value of another type."""

    def read_scalar(value: Any, path: str, extras: Extras) -> Any:
        if value is None:
            return None
        result = convert(value)
        if result is None:
            raise _wrong(value, path, type_name)
        return result

    return read_scalar


def _read_integer(value: Any) -> int | None:
    """Return a 64-bit integer; None for any other value."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and -_INT64_LIMIT <= value < _INT64_LIMIT else None


def _read_number(value: Any) -> float | None:
    """Return a number as a double; None for any other value, or one that is out of range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if math.isfinite(result) else None


_SCALAR_TYPES: Final[Mapping[str, tuple[pa.DataType, Reader]]] = {
    "string": (pa.string(), _create_scalar_reader("text", lambda value: value if isinstance(value, str) else None)),
    "integer": (pa.int64(), _create_scalar_reader("a 64-bit integer", _read_integer)),
    "number": (pa.float64(), _create_scalar_reader("a number", _read_number)),
    "boolean": (
        pa.bool_(),
        _create_scalar_reader("true or false", lambda value: value if isinstance(value, bool) else None),
    ),
}


def _wrong(value: Any, path: str, type_name: str) -> BadValueError:
    return BadValueError(f"{path}: expected {type_name}, found {_name_type(value)}")


def _name_type(value: Any) -> str:
    """Return the JSON type of a value, for error messages."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, WrittenNumber) and not math.isfinite(value):
        return f"{value.text[:40]}, which is out of the range of a double"
    names = {str: "text", int: "a number", WrittenNumber: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), "null")


# ------------------------------------------------------------------------------------------------------ inference


def infer_schema(values: Iterable[bytes | None]) -> dict[str, Any]:
    """Return a JSON Schema that all values match. Values that are not JSON are ignored.

    >>> infer_schema([b'{"a": 1, "b": [1.5]}', b'{"a": null, "c": {"d": "x"}}'])["properties"]["a"]
    {'type': 'integer'}

    Raises:
        OptionError: There are no values from which a schema can be inferred.
    """
    result: dict[str, Any] | None = None
    for value in values:
        if value is None:
            continue
        try:
            entry = _infer_value_schema(_parse_document(value), 1)
        except BadValueError:
            continue
        result = entry if result is None else _merge_schemas(result, entry)
    if result is None or result == _NULL_SCHEMA:
        raise OptionError("the sample contains no JSON value, so columns cannot be inferred; set `schema`")
    return result


_NULL_SCHEMA: Final[dict[str, Any]] = {"type": "null"}  # schema of a field with only nulls in the sample
_MIXED_SCHEMA: Final[dict[str, Any]] = {}  # schema of a field with several types, which becomes JSON text


def _infer_value_schema(value: Any, depth: int) -> dict[str, Any]:
    """Return a JSON Schema that one value matches."""
    if value is None:
        return _NULL_SCHEMA
    if depth > MAX_NESTING_DEPTH:
        return _MIXED_SCHEMA
    if isinstance(value, dict):
        fields = {name: _infer_value_schema(entry, depth + 1) for name, entry in value.items() if _is_utf8(name)}
        return {"type": "object", "properties": fields}
    if isinstance(value, list):
        items = _NULL_SCHEMA
        for entry in value:
            items = _merge_schemas(items, _infer_value_schema(entry, depth + 1))
        return {"type": "array", "items": items}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"} if _read_integer(value) is not None else _MIXED_SCHEMA
    if isinstance(value, float):
        return {"type": "number"} if math.isfinite(value) else _MIXED_SCHEMA
    return {"type": "string"} if _is_utf8(value) else _MIXED_SCHEMA


def _is_utf8(text: str) -> bool:
    """Return whether text has no unpaired surrogate, which a column cannot represent."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _merge_schemas(first: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that the values of both schemas match."""
    if first in (right, _NULL_SCHEMA):
        return right
    if right == _NULL_SCHEMA:
        return first
    kinds = {first.get("type"), right.get("type")}
    if kinds == {"integer", "number"}:
        return {"type": "number"}
    if kinds == {"array"}:
        return {"type": "array", "items": _merge_schemas(first["items"], right["items"])}
    if kinds == {"object"}:
        left_properties, right_properties = first["properties"], right["properties"]
        names = dict.fromkeys([*left_properties, *right_properties])
        fields = {
            name: _merge_schemas(left_properties.get(name, _NULL_SCHEMA), right_properties.get(name, _NULL_SCHEMA))
            for name in names
        }
        return {"type": "object", "properties": fields}
    return _MIXED_SCHEMA


VALUE_KEY: Final = "v"  # key of the object in which Arrow's JSON parser gets each value
_OPENED, _CLOSED, _NULL, _NOTHING = make_string_array([f'{{"{VALUE_KEY}":', "}\n", "null", ""])


def parse_columns(values: pa.Array, fields: Mapping[str, pa.DataType], *, drops_other: bool) -> list[pa.Array] | None:
    """Return a column for each field, with nulls for null values; None if values must be decoded one by one.

    Args:
        values: Values (binary).
        fields: Fields of the objects, with their plain types, by their JSON names.
        drops_other: Whether other fields are omitted. If not, values with other fields must be decoded one by one.
    """
    kind = pa.struct(list(fields.items()))
    try:
        struct_array = _parse_with_arrow(values, kind)
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    if (
        struct_array is None
        or struct_array.null_count != values.null_count
        or not struct_array.is_null().equals(values.is_null())
    ):
        return None
    if struct_array.type != kind and not drops_other:
        return None
    columns = [_cast_struct(struct_array.field(name), kind) for name, kind in fields.items()]
    return columns if all(map(_is_finite, columns)) else None


def _parse_with_arrow(values: pa.Array, kind: pa.StructType) -> pa.Array | None:
    """Parse JSON values with Arrow's parser; None if it cannot parse all of them."""
    texts = pc.fill_null(values.cast(pa.string()), _NULL)  # the cast rejects invalid UTF-8
    rows = pc.binary_join_element_wise(_OPENED, texts, _CLOSED, _NOTHING)
    data = rows.buffers()[2]
    if data is None or not len(rows):
        return None
    table = arrow_json.read_json(
        pa.BufferReader(data.slice(0, _end(rows))),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=data.size + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema([pa.field(VALUE_KEY, kind)]), unexpected_field_behavior="infer"
        ),
    )
    if table.schema.names != [VALUE_KEY] or table.num_rows != len(values):  # a value ended its wrapper object
        return None
    return table.column(0).combine_chunks()


def _end(rows: pa.Array) -> int:
    return int(np.frombuffer(rows.buffers()[1], np.int32)[len(rows)])


def _cast_struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column without the fields that are not in ``kind``."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        columns = [_cast_struct(array.field(field.name), field.type) for field in kind]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
    return pa.ListArray.from_arrays(
        array.offsets, _cast_struct(array.values, kind.value_type), type=kind, mask=array.is_null()
    )


def _is_finite(array: Any) -> bool:
    """Return whether no number is NaN or infinite. Arrow accepts these, but they are not JSON."""
    if pa.types.is_struct(array.type):
        return all(_is_finite(array.field(number)) for number in range(array.type.num_fields))
    if pa.types.is_list(array.type):
        return _is_finite(array.values)
    if array.type != pa.float64() or array.null_count == len(array):
        return True
    return bool(pc.all(pc.is_finite(array)).as_py())
