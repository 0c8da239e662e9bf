"""Write a spec as KIP-482's JSON: canonical, compact, one field a line, nothing that is a default."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

from kafkaframes.protocol.spec.model import NIL_UUID, FieldSpec, MessageSpec, StructSpec

# What a field's default is when the spec says none.
_OWN_DEFAULTS = (False, 0, 0.0, "", b"", NIL_UUID, ())


def to_json(message: MessageSpec) -> dict[str, Any]:
    """Return a spec as the JSON object that loads as the same spec (``about`` included)."""
    inlined: set[str] = set()
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
    out["fields"] = [_field(message, one, inlined) for one in message.struct.fields]
    if message.common_structs:
        out["commonStructs"] = [_common(message, one, inlined) for one in message.common_structs]
    return out


def _common(message: MessageSpec, struct: StructSpec, inlined: set[str]) -> dict[str, Any]:
    fields = [_field(message, one, inlined) for one in struct.fields]
    return {"name": struct.name, "versions": str(struct.versions), "fields": fields}


def _field(message: MessageSpec, one: FieldSpec, inlined: set[str]) -> dict[str, Any]:
    out: dict[str, Any] = {"name": one.name, "type": str(one.type), "versions": str(one.versions)}
    out.update(_ranges(one))
    if one.map_key:
        out["mapKey"] = True
    if one.ignorable:
        out["ignorable"] = True
    default = default_text(one)
    if default is not None:
        out["default"] = default
    if one.entity_type != "unknown":
        out["entityType"] = one.entity_type
    if one.zero_copy:
        out["zeroCopy"] = True
    if one.about:
        out["about"] = one.about
    if one.type.is_struct:
        struct = message.struct_of(one)
        if not struct.is_common and struct.name not in inlined:
            inlined.add(struct.name)
            out["fields"] = [_field(message, inner, inlined) for inner in struct.fields]
    return out


def _ranges(one: FieldSpec) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if not one.nullable_versions.is_empty:
        out["nullableVersions"] = str(one.nullable_versions)
    if one.tag is not None:
        out["tag"] = one.tag
        out["taggedVersions"] = str(one.tagged_versions)
    if one.flexible_versions is not None:
        out["flexibleVersions"] = str(one.flexible_versions)
    return out


def default_text(one: FieldSpec) -> str | None:
    """Return a field's default as a spec writes it; ``None`` where the type's own default says it already."""
    value = one.default
    if value is None:
        return None if one.type.name == "records" and not one.type.is_array else "null"
    if any(type(value) is type(own) and value == own for own in _OWN_DEFAULTS):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    return repr(value).replace("inf", "Infinity")


def to_text(message: MessageSpec) -> str:
    """Return the text of a spec file: a key a line, a field a line, nested fields indented."""
    lines = [f"{json.dumps(key)}: {_value(key, value)}" for key, value in to_json(message).items()]
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def _value(key: str, value: Any, indent: str = "  ") -> str:
    if key not in ("fields", "commonStructs") or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent + "  "
    return "[\n" + ",\n".join(inner + _object(one, inner) for one in value) + f"\n{indent}]"


def _object(value: dict[str, Any], indent: str) -> str:
    return "{" + ", ".join(f"{json.dumps(key)}: {_value(key, one, indent)}" for key, one in value.items()) + "}"
