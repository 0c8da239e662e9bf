"""Parse Avro schemas: resolve names, and convert logical types to units. This module does no I/O and uses no library.

``parse_avro_schema`` returns an object for each type. All uses of a named type are the same object, so types can be
compared by identity, and a recursive type refers to itself. Logical types that are invalid for their type are ignored,
as Avro's specification requires.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
)  # fmt: skip
RECORD, ENUM, FIXED, ARRAY, MAP, UNION = "record", "enum", "fixed", "array", "map", "union"
PRIMITIVE_KINDS: Final = frozenset({NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING})
NAMED_KINDS: Final = frozenset({RECORD, ENUM, FIXED})
MAX_NESTING: Final = 100  # nesting levels of the JSON
NO_DEFAULT: Final = object()
Json = Any


class AvroSchemaError(Exception):
    """Raised if JSON is not an Avro schema. The message contains the position and the reason."""


@dataclass(frozen=True, slots=True)
class TimeUnit:
    """The time unit of a number with a logical type, such as ``timestamp-millis``.

    Attributes:
        name: name of the logical type.
        dimension: ``date``, ``time`` (of a day), ``instant`` (UTC) or ``local`` (a date and time without a zone).
        nanoseconds: length of the unit, in nanoseconds.
    """

    name: str
    dimension: str
    nanoseconds: int


_NANOSECONDS_PER_SECOND: Final = 1_000_000_000
_LOGICAL_UNITS: Final[Mapping[tuple[str, str], TimeUnit]] = {
    (kind, name): TimeUnit(name, dimension, nanoseconds)
    for kind, name, dimension, nanoseconds in (
        (INT, "date", "date", 86_400 * _NANOSECONDS_PER_SECOND),
        (INT, "time-millis", "time", 1_000_000),
        (LONG, "time-micros", "time", 1_000),
        (LONG, "timestamp-millis", "instant", 1_000_000),
        (LONG, "timestamp-micros", "instant", 1_000),
        (LONG, "timestamp-nanos", "instant", 1),
        (LONG, "local-timestamp-millis", "local", 1_000_000),
        (LONG, "local-timestamp-micros", "local", 1_000),
        (LONG, "local-timestamp-nanos", "local", 1),
    )
}


@dataclass(frozen=True, slots=True)
class DecimalDigits:
    """Precision and scale of a decimal."""

    precision: int
    scale: int


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of an Avro record.

    Attributes:
        default: default value as JSON, or ``NO_DEFAULT``.
    """

    name: str
    type: AvroType
    default: Json = NO_DEFAULT
    aliases: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class AvroType:
    """An Avro type.

    Attributes:
        kind: ``record``, ``enum``, ``fixed``, ``array``, ``map``, ``union``, or the name of a primitive type.
        name: full name of a named type; empty for other types.
        aliases: full names of the aliases.
        unit: unit of a date or time type; None for other types.
        digits: precision and scale of a decimal; None for other types.
        items: element type of an array, or value type of a map.
        default: symbol of an enum that replaces unknown symbols; None if unknown symbols are errors.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    unit: TimeUnit | None = None
    digits: DecimalDigits | None = None
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()

    @property
    def element(self) -> AvroType:
        """The type of an array's elements, or of a map's values."""
        assert self.items is not None
        return self.items

    @property
    def label(self) -> str:
        """The name of the type in messages."""
        return self.name or self.kind


def parse_avro_schema(schema: Json) -> AvroType:
    """Return the type of a schema, given as parsed JSON.

    Raises:
        AvroSchemaError: the JSON is not an Avro schema.
    """
    try:
        return _SchemaParser().parse_type(schema, "", 0)
    except RecursionError:
        raise AvroSchemaError("nested too deeply") from None


class _SchemaParser:
    """A parser of one schema, which stores the schema's named types."""

    def __init__(self) -> None:
        self._types_by_name: dict[str, AvroType] = {}
        self._primitives = {kind: AvroType(kind) for kind in PRIMITIVE_KINDS}

    def parse_type(self, schema: Json, namespace: str, depth: int) -> AvroType:
        """Return the type of a schema or of a nested part of it."""
        if depth > MAX_NESTING:
            raise AvroSchemaError(f"the schema is nested more than {MAX_NESTING} levels deep")
        if isinstance(schema, str):
            return self._find_named_type(schema, namespace)
        if isinstance(schema, list):
            return self._parse_union(schema, namespace, depth)
        if not isinstance(schema, dict):
            raise AvroSchemaError(f"{_shorten(schema)} is not a type")
        return self._parse_object(schema, namespace, depth)

    def _parse_union(self, schema: list[Json], namespace: str, depth: int) -> AvroType:
        branches = tuple(self.parse_type(branch, namespace, depth + 1) for branch in schema)
        if any(branch.kind == UNION for branch in branches):
            raise AvroSchemaError("a union is directly inside a union")
        return AvroType(UNION, branches=branches)

    def _parse_object(self, schema: Mapping[str, Json], namespace: str, depth: int) -> AvroType:
        kind = schema.get("type")
        if isinstance(kind, dict | list):  # invalid but common: {"type": {"type": "string"}}
            return self.parse_type(kind, namespace, depth + 1)
        if not isinstance(kind, str):
            raise AvroSchemaError(f"{_shorten(schema)} has no type")
        if kind in PRIMITIVE_KINDS:
            return self._add_logical_type(AvroType(kind), schema)
        if kind == ARRAY:
            return AvroType(ARRAY, items=self._parse_part(schema, "items", namespace, depth))
        if kind == MAP:
            return AvroType(MAP, items=self._parse_part(schema, "values", namespace, depth))
        if kind in (RECORD, "error", ENUM, FIXED):
            return self._define_type(schema, RECORD if kind == "error" else kind, namespace, depth)
        return self._find_named_type(kind, namespace)

    def _find_named_type(self, name: str, namespace: str) -> AvroType:
        """Return the primitive or defined type with a name."""
        if name in self._primitives:
            return self._primitives[name]
        named_type = self._types_by_name.get(_full_name(name, namespace)) or self._types_by_name.get(name)
        if named_type is None:
            raise AvroSchemaError(f"unknown type {name!r}")
        return named_type

    def _parse_part(self, schema: Mapping[str, Json], key: str, namespace: str, depth: int) -> AvroType:
        """Return the element type of an array (``items``) or the value type of a map (``values``)."""
        if key not in schema:
            raise AvroSchemaError(f"{schema['type']} without {key}")
        return self.parse_type(schema[key], namespace, depth + 1)

    def _define_type(self, schema: Mapping[str, Json], kind: str, namespace: str, depth: int) -> AvroType:
        """Parse a record, enum or fixed type, and store it by its name."""
        short_name = schema.get("name")
        if not isinstance(short_name, str) or not short_name:
            raise AvroSchemaError(f"the {kind} has no name")
        name = _full_name(short_name, schema.get("namespace") if "namespace" in schema else namespace)
        if name in self._types_by_name:
            raise AvroSchemaError(f"type {name} is defined twice")
        inner = name.rpartition(".")[0]
        aliases = tuple(_full_name(alias, inner) for alias in _check_text_list(schema, "aliases"))
        result = self._types_by_name[name] = AvroType(kind, name, aliases)
        if kind == ENUM:
            result.symbols = _check_text_list(schema, "symbols")
            if not result.symbols:
                raise AvroSchemaError(f"enum {name} has no symbols")
            default = schema.get("default")
            result.default = default if default in result.symbols else None
        elif kind == FIXED:
            size = schema.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise AvroSchemaError(f"fixed {name} has no size")
            result.size = size
            self._add_logical_type(result, schema)
        else:
            result.fields = self._parse_fields(schema, name, inner, depth)
        return result

    def _parse_fields(self, schema: Mapping[str, Json], name: str, namespace: str, depth: int) -> list[AvroField]:
        entries = schema.get("fields")
        if not isinstance(entries, list):
            raise AvroSchemaError(f"record {name} has no fields")
        result: list[AvroField] = []
        names: set[str] = set()
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "type" not in entry:
                raise AvroSchemaError(f"record {name}: {_shorten(entry)} is not a field")
            if entry["name"] in names:
                raise AvroSchemaError(f"record {name} has the field {entry['name']} twice")
            names.add(entry["name"])
            kind = self.parse_type(entry["type"], namespace, depth + 1)
            default = entry.get("default", NO_DEFAULT)
            result.append(AvroField(entry["name"], kind, default, _check_text_list(entry, "aliases")))
        return result

    def _add_logical_type(self, result: AvroType, schema: Mapping[str, Json]) -> AvroType:
        """Store the decimal digits or the time unit of a logical type."""
        logical = schema.get("logicalType")
        if logical == "decimal" and result.kind in (BYTES, FIXED):
            result.digits = _parse_decimal_digits(schema, result)
        elif isinstance(logical, str):
            result.unit = _LOGICAL_UNITS.get((result.kind, logical))
        return result


def _parse_decimal_digits(schema: Mapping[str, Json], kind: AvroType) -> DecimalDigits | None:
    precision, scale = _whole(schema.get("precision")), _whole(schema.get("scale", 0))
    if precision is None or scale is None or not 0 <= scale <= precision or precision == 0:
        return None
    if kind.kind == FIXED and precision > int(math.log10(2) * (8 * kind.size - 1)):
        return None
    return DecimalDigits(precision, scale)


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _full_name(name: str, namespace: Json) -> str:
    return f"{namespace}.{name}" if isinstance(namespace, str) and namespace and "." not in name else name


def _check_text_list(schema: Mapping[str, Json], key: str) -> tuple[str, ...]:
    """Return a list of names in a schema, after a check that it is a list of texts."""
    names = schema.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise AvroSchemaError(f"{key} is not a list of names")
    return tuple(names)


def _shorten(value: Json) -> str:
    """Return a value as text of at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
