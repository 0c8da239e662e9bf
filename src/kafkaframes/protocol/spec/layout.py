"""The wire layout of one version of a message: a tree of slots in byte order.

Specs with equal layouts write equal bytes. By KIP-482, untagged fields precede the tag section, whose tags
are ascending.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from kafkaframes.protocol.spec.model import PRIMITIVES, Default, FieldSpec, FieldType, MessageSpec, StructSpec
from kafkaframes.wire.primitives import NIL_UUID, uuid_to_text


@dataclass(frozen=True, slots=True)
class FieldSlot:
    """A field in the wire layout of one version of a message.

    Attributes:
        is_compact: whether the field's length is an unsigned varint of n + 1 (KIP-482); false for types without a
            length.
        tag: the field's tag number in this version, or ``None`` for an untagged field.
        children: the layout of the struct, or of each element; empty for primitive types.
        about: the spec's description of the field.
    """

    name: str
    type: FieldType
    is_nullable: bool
    is_compact: bool
    tag: int | None
    default: Default
    children: tuple[FieldSlot, ...] = ()
    about: str = field(default="", compare=False)

    @property
    def wire_type(self) -> str:
        """The type in Kafka's notation (``COMPACT_NULLABLE_STRING``); for an array, ``[]`` and its element type."""
        if self.type.is_array:
            return f"{self._prefix}ARRAY"
        if self.type.is_struct:
            return "NULLABLE_STRUCT" if self.is_nullable else "STRUCT"
        return f"{self._prefix}{self.type.name.upper()}"

    @property
    def _prefix(self) -> str:
        return ("COMPACT_" if self.is_compact else "") + ("NULLABLE_" if self.is_nullable else "")


def list_slots(message: MessageSpec, version: int) -> tuple[FieldSlot, ...]:
    """Return the slots of a version, the tagged ones last."""
    return _list_struct_slots(message, message.struct, version)


def _list_struct_slots(message: MessageSpec, struct: StructSpec, version: int) -> tuple[FieldSlot, ...]:
    fields = (*struct.fields_at(version), *struct.tags_at(version))
    return tuple(_make_slot(message, field, version) for field in fields)


def _make_slot(message: MessageSpec, field_spec: FieldSpec, version: int) -> FieldSlot:
    has_length = field_spec.type.is_array or (
        not field_spec.type.is_struct and PRIMITIVES[field_spec.type.name] is None
    )
    return FieldSlot(
        name=field_spec.name,
        type=field_spec.type,
        is_nullable=field_spec.is_nullable(version),
        is_compact=has_length and message.field_is_flexible(field_spec, version),
        tag=field_spec.tag if field_spec.is_tagged(version) else None,
        default=field_spec.default,
        children=_list_struct_slots(message, message.struct_of(field_spec), version)
        if field_spec.type.is_struct
        else (),
        about=field_spec.about,
    )


def walk_slots(slots: tuple[FieldSlot, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldSlot]]:
    """Yield every slot of a layout with its path of field names, parents first."""
    for slot in slots:
        here = (*path, slot.name)
        yield here, slot
        yield from walk_slots(slot.children, here)


# ---------------------------------------------------------------------------------------------------------------------
# Layouts for people: table rows, Kafka's BNF, JSON, and the changes between two versions. Values only.

_LENGTH_BYTES = {"string": 2, "bytes": 4, "records": 4}


@dataclass(frozen=True, slots=True)
class LayoutRow:
    """One line of a layout: a field, or the tag section that ends a struct of a flexible version.

    Attributes:
        size: size on the wire: ``4``, ``2 + n``, ``varint + n``, ``tagged``. A struct's total size is not included.
        about: the spec's description of the field; empty for catalog specs, whose descriptions are stored separately.
    """

    depth: int
    name: str
    wire_type: str
    size: str
    note: str
    about: str = ""


def layout_rows(message: MessageSpec, version: int) -> Iterator[LayoutRow]:
    """Yield the lines of a version's layout in byte order."""
    yield from _make_rows(message, list_slots(message, version), version, 0)


def _make_rows(message: MessageSpec, slots: tuple[FieldSlot, ...], version: int, depth: int) -> Iterator[LayoutRow]:
    for slot in slots:
        tag = "" if slot.tag is None else f"tag {slot.tag}"
        default = (
            f"default {default_text(slot.default)}" if slot.tag is not None or is_informative(slot.default) else ""
        )
        note = ", ".join(filter(None, (tag, default)))
        yield LayoutRow(depth, slot.name, type_text(slot), size_text(slot), note, slot.about)
        yield from _make_rows(message, slot.children, version, depth + 1) if slot.type.is_struct else ()
    if message.is_flexible(version):
        yield LayoutRow(depth, "_tags", "TAG_BUFFER", "varint + ...", "")


def is_informative(value: Default) -> bool:
    """Return whether a default adds information to the type (zero, empty and null do not)."""
    return value not in (False, 0, "", b"", (), None, NIL_UUID)


def type_text(slot: FieldSlot) -> str:
    """Return the wire type of a slot; an array of primitives includes its element (``COMPACT_ARRAY of INT32``)."""
    if not slot.type.is_array or slot.type.is_struct:
        return slot.wire_type
    has_length = PRIMITIVES[slot.type.name] is None
    return f"{slot.wire_type} of {'COMPACT_' if slot.is_compact and has_length else ''}{slot.type.name.upper()}"


def size_text(slot: FieldSlot) -> str:
    """Return the size of a slot as text: ``8``, ``2 + n``, ``varint + n``; ``varint + k x ...`` for arrays."""
    if slot.type.is_struct and not slot.type.is_array:
        return "1 + ..." if slot.is_nullable else "..."
    size_bytes = PRIMITIVES.get(slot.type.name)
    if slot.type.is_array:
        head = "varint" if slot.is_compact else "4"
        return f"{head} + k x {size_bytes if size_bytes is not None else '...'}"
    if size_bytes is not None:
        return str(size_bytes)
    return f"{'varint' if slot.is_compact else _LENGTH_BYTES[slot.type.name]} + n"


def default_text(value: Default) -> str:
    """Return a default in readable form: ``null``, ``""``, ``-1``, ``empty``."""
    if value is None:
        return "null"
    if value in ((), b"") and not isinstance(value, bool | int | float):
        return "empty"
    if isinstance(value, uuid.UUID):
        return "zero uuid" if value == NIL_UUID else uuid_to_text(value)
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def bnf_text(message: MessageSpec, version: int) -> str:
    """Return a version in the notation of Kafka's protocol guide: one line per field, structs as ``name => fields``."""
    head = f"{message.name} (version {version}) =>"
    return "\n".join(
        (
            f"{head} {_format_slot_names(message, list_slots(message, version), version)}",
            *_format_bnf_lines(message, version),
        )
    )


def _format_slot_names(message: MessageSpec, slots: tuple[FieldSlot, ...], version: int) -> str:
    words = [f"[{slot.name}]" if slot.type.is_array else slot.name for slot in slots if slot.tag is None]
    return " ".join(words + (["TAG_BUFFER"] if message.is_flexible(version) else []))


def _format_bnf_lines(message: MessageSpec, version: int) -> Iterator[str]:
    for path, slot in walk_slots(list_slots(message, version)):
        tag = "" if slot.tag is None else f"<tag {slot.tag}> "
        null = "?" if slot.is_nullable and slot.type.is_struct else ""
        what = _format_slot_names(message, slot.children, version) if slot.type.is_struct else type_text(slot)
        yield f"{'  ' * len(path)}{tag}{slot.name} => {null}{what}"


def layout_json(message: MessageSpec, version: int) -> dict[str, Any]:
    """Return a version's layout as a JSON object."""
    flexible = message.is_flexible(version)
    fields = [_slot_to_json(slot) for slot in list_slots(message, version)]
    return {"name": message.name, "type": message.type, "apiKey": message.api_key, "version": version} | {
        "flexible": flexible,
        "fields": fields,
    }


def _slot_to_json(slot: FieldSlot) -> dict[str, Any]:
    out: dict[str, Any] = {"name": slot.name, "type": str(slot.type), "wireType": slot.wire_type}
    if slot.is_nullable:
        out["nullable"] = True
    if slot.tag is not None:
        out["tag"] = slot.tag
    if slot.tag is not None or is_informative(slot.default):
        out["default"] = default_text(slot.default)
    if slot.type.is_struct:
        out["fields"] = [_slot_to_json(child) for child in slot.children]
    return out


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two versions of a message."""

    kind: Literal["added", "removed", "changed", "encoding"]
    path: tuple[str, ...]
    text: str


def list_changes(message: MessageSpec, before: int, after: int, *, later: MessageSpec | None = None) -> list[Change]:
    """Return the wire differences from version ``before`` to version ``after``.

    ``later`` is the spec of version ``after``, if that is another spec.
    """
    last = message if later is None else later
    old, new = dict(walk_slots(list_slots(message, before))), dict(walk_slots(list_slots(last, after)))
    out = list(_describe_encoding(message.is_flexible(before), last.is_flexible(after)))
    for path, slot in new.items():
        if path not in old:
            if path[:-1] in old or len(path) == 1:
                out.append(Change("added", path, _describe_slot(slot)))
        else:
            out += [Change("changed", path, text) for text in _compare_slots(old[path], slot)]
    out += [
        Change("removed", path, _describe_slot(slot))
        for path, slot in old.items()
        if path not in new and (path[:-1] in new or len(path) == 1)
    ]
    return out


def _describe_encoding(before: bool, after: bool) -> Iterator[Change]:
    if before != after:
        words = ("inflexible", "flexible: compact lengths, tag sections")
        yield Change("encoding", (), f"{words[before]} -> {words[after]}")


def _describe_slot(slot: FieldSlot) -> str:
    tag = "" if slot.tag is None else f", tag {slot.tag}"
    return f"{slot.type}{', nullable' if slot.is_nullable else ''}{tag}"


def _compare_slots(old: FieldSlot, new: FieldSlot) -> Iterator[str]:
    if str(old.type) != str(new.type):
        yield f"{old.type} -> {new.type}"
    if old.is_nullable != new.is_nullable:
        yield "now nullable" if new.is_nullable else "no longer nullable"
    if old.tag != new.tag:
        yield f"now tag {new.tag}" if new.tag is not None else "now mandatory"
