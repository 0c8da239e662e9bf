"""Plan the Arrow columns of an Avro schema, with limits on their depth and number. Pure.

Types without an Arrow type become columns of JSON text: a union of several types, a recursive record, a record without
fields, and a decimal of more than 38 digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from kafkaframes.errors import OptionError
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
    NULL,
    RECORD,
    STRING,
    UNION,
    AvroType,
)
from kafkaframes.scan.values.columns import ColumnBudget, choose_column_names

MAX_DECIMAL_DIGITS: Final = 38
TEXT, SCALAR, STRUCT, LIST, ENTRIES = "text", "scalar", "struct", "list", "entries"
_PRIMITIVE_TYPES: Final[Mapping[str, pa.DataType]] = {
    NULL: pa.string(),
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BYTES: pa.binary(),
    STRING: pa.string(),
    FIXED: pa.binary(),
    ENUM: pa.string(),
}
_TIME_UNIT_TYPES: Final[Mapping[str, pa.DataType]] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True, eq=False)
class AvroColumn:
    """The column for an Avro type, or a nested part of a column.

    Attributes:
        form: ``text``, ``scalar``, ``struct``, ``list`` or ``entries`` (of a map).
        type: Arrow type.
        schema: Avro type to which values are resolved. The schema is a union only if the form is ``text``.
        parts: fields of a struct, by their names in the schema. Array elements and map values have the name ``""``.
        names: column names of a struct's fields, by their names in the schema.
        is_nullable: whether the schema allows null.
    """

    form: str
    type: pa.DataType
    schema: AvroType
    parts: Mapping[str, AvroColumn]
    names: Mapping[str, str]
    is_nullable: bool = False


def plan_fields(record: AvroType) -> tuple[dict[str, AvroColumn], dict[str, str]]:
    """Return the columns of a record's fields, and their column names. Both mappings have the field names as keys.

    Raises:
        OptionError: the schema has too many columns or levels, or an array whose elements have no bytes.
    """
    budget = ColumnBudget("Avro schema")
    names = choose_column_names(field.name for field in record.fields)
    within = (record,)
    return {field.name: _plan_column(field.type, field.name, within, budget) for field in record.fields}, names


def plan_value(schema: AvroType) -> AvroColumn:
    """Return the column of a schema that is not a record.

    Raises:
        OptionError: see ``plan_fields``.
    """
    return _plan_column(schema, "$", (), ColumnBudget("Avro schema"))


def _plan_column(schema: AvroType, path: str, within: tuple[AvroType, ...], budget: ColumnBudget) -> AvroColumn:
    """Return the column of an Avro type. A union of several types becomes JSON text."""
    if schema.kind != UNION:
        return _plan_branch(schema, schema, path, within, budget)
    branches = [branch for branch in schema.branches if branch.kind != NULL]
    is_nullable = len(branches) < len(schema.branches)
    if is_nullable and not branches:
        return AvroColumn(SCALAR, pa.string(), AvroType(NULL), {}, {}, True)
    if len(branches) != 1:
        budget.add_column(path, "union", len(within))
        return _text(schema, is_nullable)
    return _plan_branch(branches[0], schema, path, within, budget, is_nullable)


def _plan_branch(
    schema: AvroType,
    union: AvroType,
    path: str,
    within: tuple[AvroType, ...],
    budget: ColumnBudget,
    is_nullable: bool = False,
) -> AvroColumn:
    """Return the column of a type that is not a union, or of the only branch of a union besides null."""
    named_type = next((candidate for candidate in (schema, *reversed(within)) if candidate.name), schema)
    budget.add_column(path, named_type.label, len(within))
    if schema.kind == RECORD:
        if schema in within or not schema.fields:
            return _text(union, is_nullable)
        inner = (*within, schema)
        parts = {field.name: _plan_column(field.type, f"{path}.{field.name}", inner, budget) for field in schema.fields}
        names = choose_column_names(parts, reserved_names=())
        kind = pa.struct([pa.field(names[name], part.type) for name, part in parts.items()])
        return AvroColumn(STRUCT, kind, schema, parts, names, is_nullable)
    if schema.kind in (ARRAY, MAP) and schema.items is not None:
        is_array = schema.kind == ARRAY
        if is_array and is_empty(schema.items):
            raise OptionError(f"Avro schema, {path}: arrays of values that occupy no bytes are not supported")
        part = _plan_column(schema.items, f"{path}[]" if is_array else f"{path}{{}}", (*within, schema), budget)
        kind = pa.list_(pa.field("element", part.type)) if is_array else pa.map_(pa.string(), part.type)
        return AvroColumn(LIST if is_array else ENTRIES, kind, schema, {"": part}, {}, is_nullable)
    if schema.digits is not None:
        if schema.digits.precision > MAX_DECIMAL_DIGITS:
            return _text(union, is_nullable)
        return AvroColumn(
            SCALAR, pa.decimal128(schema.digits.precision, schema.digits.scale), schema, {}, {}, is_nullable
        )
    kind = (
        _PRIMITIVE_TYPES[schema.kind]
        if schema.unit is None
        else _TIME_UNIT_TYPES.get(schema.unit.name, _PRIMITIVE_TYPES[schema.kind])
    )
    return AvroColumn(SCALAR, kind, schema, {}, {}, is_nullable)


def _text(schema: AvroType, is_nullable: bool) -> AvroColumn:
    return AvroColumn(TEXT, pa.string(), schema, {}, {}, is_nullable)


def is_empty(schema: AvroType) -> bool:
    """Return whether the values of a type take no bytes. Arrays of these values could be of any length."""
    return _has_no_bytes(schema, {})


def _has_no_bytes(schema: AvroType, results: dict[AvroType, bool]) -> bool:
    if schema.kind == RECORD:
        if schema not in results:
            results[schema] = True  # assumed until its fields are checked
            results[schema] = all(_has_no_bytes(field.type, results) for field in schema.fields)
        return results[schema]
    return schema.kind == NULL or (schema.kind == FIXED and schema.size == 0)
