"""Convert a JSON Schema to columns. Each part of the schema gets one type, and is nullable. Pure.

The supported keywords are ``type``, ``properties``, ``items``, ``$ref`` (in the schema, or to a schema in the
registry), ``anyOf``, ``oneOf`` and ``allOf``, and ``enum`` and ``const`` if ``type`` is missing. Parts with several
types and recursive objects become JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from kafkaframes.scan.values.columns import ColumnBudget

OBJECT, ARRAY, NUMBER, INTEGER, STRING, BOOLEAN, NULL = (
    "object", "array", "number", "integer", "string", "boolean", "null",
)  # fmt: skip
MIXED_KIND: Final = ""  # the part has several types or any type
_MAX_REFERENCES: Final = 50  # consecutive references


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """The column type that represents a JSON Schema, or a part of one.

    Attributes:
        kind: JSON type; empty for JSON text.
        properties: properties of an object. A nested object without properties is JSON text.
        items: element type of an array; None makes the array JSON text.
    """

    kind: str
    properties: Mapping[str, ColumnSchema] = field(default_factory=dict)
    items: ColumnSchema | None = None


_MIXED_KIND_SCHEMA: Final = ColumnSchema(MIXED_KIND)


def simplify(schema: Mapping[str, Any], references: Mapping[str, Any]) -> ColumnSchema:
    """Return the column type of a schema.

    >>> nullable = {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/id"}], "$defs": {"id": {"type": "integer"}}}
    >>> simplify(nullable, {}).kind
    'integer'

    Args:
        schema: JSON Schema.
        references: other schemas, by their names in ``$ref``.

    Raises:
        OptionError: the schema has too many columns or too many levels.
    """
    return _SchemaSimplifier(references).simplify(schema, schema, "$", ())


class _SchemaSimplifier:
    """A converter of a JSON Schema to a ``ColumnSchema``.

    The argument ``root`` is the document of a part, to which its references are relative. ``within`` contains the ids
    of the parts that enclose this part.
    """

    def __init__(self, references: Mapping[str, Any]) -> None:
        self._references = references
        self._budget = ColumnBudget("JSON Schema")
        # By id() of the list. The list is stored as well, so that its id is not reused.
        self._combinations: dict[int, tuple[Any, dict[str, Any]]] = {}

    def simplify(self, schema: Any, root: Any, path: str, within: tuple[int, ...]) -> ColumnSchema:
        """Return the column type of a part at ``path``. A recursive part becomes JSON text."""
        schema, root = self._resolve_schema(schema, root)
        if id(schema) in within:
            return _MIXED_KIND_SCHEMA
        kind = _find_single_kind(schema)
        self._budget.add_column(path, str(schema.get("title") or kind or "any"), len(within))
        inner = (*within, id(schema))
        if kind == ARRAY and isinstance(schema.get("items"), dict):
            return ColumnSchema(ARRAY, items=self.simplify(schema["items"], root, f"{path}[]", inner))
        properties = schema.get("properties")
        if kind == OBJECT and isinstance(properties, dict) and (properties or not within):
            fields = {
                name: self.simplify(property_schema, root, f"{path}.{name}", inner)
                for name, property_schema in properties.items()
            }
            return ColumnSchema(OBJECT, fields)
        return _MIXED_KIND_SCHEMA if kind in (ARRAY, OBJECT) else ColumnSchema(kind)

    def _resolve_schema(self, schema: Any, root: Any) -> tuple[Any, Any]:
        """Return the resolved form of a schema, and the document that contains it.

        References are followed, null is removed from unions, and the schemas of ``allOf`` are combined.
        """
        for _ in range(_MAX_REFERENCES):
            if not isinstance(schema, dict):
                return {}, root
            if isinstance(reference := schema.get("$ref"), str):
                schema, root = self._follow_reference(reference, root)
            elif "type" in schema:
                return schema, root
            elif branches := _find_alternatives(schema):
                if len(branches) > 1:
                    return self._merge_alternatives(branches, root), root
                schema = branches[0]
            elif isinstance(parts := schema.get("allOf"), list) and parts:
                if len(parts) > 1:
                    combination = self._combinations.get(id(parts))
                    if combination is None:
                        combination = self._combinations[id(parts)] = (parts, self._combine_all_of(parts, root))
                    return combination[1], root
                schema = parts[0]
            else:
                return schema, root
        return {}, root

    def _follow_reference(self, reference: str, root: Any) -> tuple[Any, Any]:
        """Return the schema and the document that a reference names; an empty schema if it does not exist."""
        document, _, pointer = reference.partition("#")
        if document:
            root = self._references.get(document, self._references.get(document.rpartition("/")[2]))
        schema = root
        for step in pointer.split("/")[1:] if pointer.startswith("/") else []:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            schema = schema.get(step) if isinstance(schema, dict) else _item(schema, step)
        if pointer and not pointer.startswith("/"):
            schema = _find_anchor(root, pointer)
        return (schema if isinstance(schema, dict) else {}), root

    def _merge_alternatives(self, branches: Sequence[Any], root: Any) -> dict[str, Any]:
        """Return one schema for alternatives: their common scalar type, or no type."""
        kinds = {_find_single_kind(self._resolve_schema(branch, root)[0]) for branch in branches}
        if kinds == {INTEGER, NUMBER}:
            return {"type": NUMBER}
        (kind,) = kinds if len(kinds) == 1 else (MIXED_KIND,)
        return {} if kind in (MIXED_KIND, OBJECT, ARRAY) else {"type": kind}

    def _combine_all_of(self, parts: Sequence[Any], root: Any) -> dict[str, Any]:
        """Return one schema for the schemas of ``allOf``, with the properties of all."""
        result: dict[str, Any] = {}
        for part in parts:
            schema, schema_root = self._resolve_schema(part, root)
            if schema_root is not root:
                return {}
            properties = {**result.get("properties", {}), **(schema.get("properties") or {})}
            result = {**result, **schema}
            if properties:
                result["properties"] = properties
        return result


def _item(schema: Any, step: str) -> Any:
    return schema[int(step)] if isinstance(schema, list) and step.isdecimal() and int(step) < len(schema) else None


def _find_anchor(root: Any, name: str) -> Any:
    """Return the definition with this anchor; None if it does not exist."""
    definitions = {**(root.get("$defs") or {}), **(root.get("definitions") or {})} if isinstance(root, dict) else {}
    return next(
        (
            definition
            for definition in definitions.values()
            if isinstance(definition, dict) and definition.get("$anchor") == name
        ),
        None,
    )


def _find_alternatives(schema: Mapping[str, Any]) -> list[Any]:
    """Return the alternatives of a schema except null; an empty list if it has no alternatives."""
    for name in ("oneOf", "anyOf"):
        if isinstance(branches := schema.get(name), list):
            return [branch for branch in branches if not _is_null(branch)]
    return []


def _is_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    return schema.get("type") in (NULL, [NULL]) or ("const" in schema and schema["const"] is None)


def _find_single_kind(schema: Any) -> str:
    """Return the only type of a schema except null; an empty string if it has none or several."""
    if not isinstance(schema, dict):
        return MIXED_KIND
    kind = schema.get("type")
    if kind is None:
        return _find_kind_of_values(schema)
    kinds = {name for name in (kind if isinstance(kind, list) else [kind]) if name != NULL}
    if kinds == {INTEGER, NUMBER}:
        return NUMBER
    (single_kind,) = kinds if len(kinds) == 1 else (MIXED_KIND,)
    return single_kind if isinstance(single_kind, str) and single_kind in _JSON_TYPES else MIXED_KIND


_JSON_TYPES: Final = frozenset({OBJECT, ARRAY, NUMBER, INTEGER, STRING, BOOLEAN})


def _find_kind_of_values(schema: Mapping[str, Any]) -> str:
    """Return the type of the values in ``const`` or ``enum``."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return MIXED_KIND
    types = {type(value) for value in values if value is not None}
    if types == {int, float}:
        return NUMBER
    (single_kind,) = types if len(types) == 1 else (None,)
    return (
        {str: STRING, bool: BOOLEAN, int: INTEGER, float: NUMBER}.get(single_kind, MIXED_KIND)
        if single_kind is not None
        else MIXED_KIND
    )
