"""Write a spec as KIP-482's JSON: canonical, compact, one field per line, without defaults."""

from __future__ import annotations

import json
import uuid
from typing import Any

from kafkaframes.protocol.spec.defaults import BadDefaultError, parse_default
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.wire.primitives import NIL_UUID, uuid_to_text

# A field's default if the spec does not specify one.
_TYPE_DEFAULTS = (False, 0, 0.0, "", b"", NIL_UUID, ())


def to_json(message: MessageSpec) -> dict[str, Any]:
    """Return a spec as the JSON object that loads as the same spec (``about`` included)."""
    inlined_structs: set[str] = set()
    out: dict[str, Any] = {}
    if message.api_key is not None:
        out["apiKey"] = message.api_key
    out["type"] = message.type
    if message.listeners:
        out["listeners"] = list(message.listeners)
    out["name"] = message.name
    out["validVersions"] = str(message.valid_versions)
    if not message.deprecated_versions.is_empty:
        out["deprecatedVersions"] = str(message.deprecated_versions)
    out["flexibleVersions"] = str(message.flexible_versions)
    if message.latest_version_unstable:
        out["latestVersionUnstable"] = True
    if message.header_versions is not None:
        out["headerVersions"] = {str(versions): str(header) for versions, header in message.header_versions}
    out["fields"] = [_field_to_json(message, field, inlined_structs) for field in message.struct.fields]
    if message.common_structs:
        out["commonStructs"] = [
            _common_struct_to_json(message, field, inlined_structs) for field in message.common_structs
        ]
    return out


def _common_struct_to_json(message: MessageSpec, struct: StructSpec, inlined_structs: set[str]) -> dict[str, Any]:
    fields = [_field_to_json(message, field, inlined_structs) for field in struct.fields]
    return {"name": struct.name, "versions": str(struct.versions), "fields": fields}


def _field_to_json(message: MessageSpec, field: FieldSpec, inlined_structs: set[str]) -> dict[str, Any]:
    """Return a field as a JSON object."""
    out: dict[str, Any] = {"name": field.name, "type": str(field.type), "versions": str(field.versions)}
    out.update(_list_version_keys(field))
    if field.map_key:
        out["mapKey"] = True
    if field.ignorable:
        out["ignorable"] = True
    default = default_text(field)
    if default is not None:
        out["default"] = default
    if field.entity_type != "unknown":
        out["entityType"] = field.entity_type
    if field.zero_copy:
        out["zeroCopy"] = True
    if field.about:
        out["about"] = field.about
    if field.type.is_struct:
        struct = message.struct_of(field)
        if not struct.is_common and struct.name not in inlined_structs:
            inlined_structs.add(struct.name)
            out["fields"] = [_field_to_json(message, inner, inlined_structs) for inner in struct.fields]
    return out


def _list_version_keys(field: FieldSpec) -> dict[str, Any]:
    """Return the keys of a field about nullable, tagged and flexible versions."""
    out: dict[str, Any] = {}
    if not field.nullable_versions.is_empty:
        out["nullableVersions"] = str(field.nullable_versions)
    if field.tag is not None:
        out["tag"] = field.tag
        out["taggedVersions"] = str(field.tagged_versions)
    if field.flexible_versions is not None:
        out["flexibleVersions"] = str(field.flexible_versions)
    return out


def default_text(field: FieldSpec) -> str | None:
    """Return the text of a field's default; None if the field has its type's default.

    The result is the text in the file if the default is still the same, otherwise the default's shortest form.
    """
    value = field.default
    if _is_written_default_valid(field):
        return field.written_default
    if value is None:
        return None if field.type.name == "records" and not field.type.is_array else "null"
    if any(type(value) is type(own) and value == own for own in _TYPE_DEFAULTS):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, uuid.UUID):
        return uuid_to_text(value)
    return _format_float(value) if isinstance(value, float) else str(value)


def _is_written_default_valid(field: FieldSpec) -> bool:
    try:
        return bool(field.written_default) and parse_default(field.type, field.written_default) == field.default
    except BadDefaultError:  # the written default is invalid for the field's new type
        return False


def _format_float(value: float) -> str:
    if value != value:
        return "NaN"
    return repr(value).replace("inf", "Infinity")


def to_text(message: MessageSpec) -> str:
    """Return the text of a spec file: one key per line, one field per line, nested fields indented."""
    lines = [f"{json.dumps(key)}: {_value_text(key, value)}" for key, value in to_json(message).items()]
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def _value_text(key: str, value: Any, indent: str = "  ") -> str:
    """Return the text of a value in a spec file; fields have a line each."""
    if key not in ("fields", "commonStructs") or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    return "[\n" + ",\n".join(inner + _format_object(field, inner) for field in value) + f"\n{indent}]"


def _format_object(value: dict[str, Any], indent: str) -> str:
    """Return the text of a field's JSON object."""
    return (
        "{" + ", ".join(f"{json.dumps(key)}: {_value_text(key, field, indent)}" for key, field in value.items()) + "}"
    )
