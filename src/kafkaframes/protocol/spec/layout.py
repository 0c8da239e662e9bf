"""The wire layout of one version of a message: a tree of slots in the order of the bytes.

What two specs write is equal when their layouts are. KIP-482: untagged fields first, then the tag section ascending.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kafkaframes.protocol.spec.model import PRIMITIVES, Default, FieldSpec, FieldType, MessageSpec, StructSpec


@dataclass(frozen=True, slots=True)
class Slot:
    """One field of one version.

    Attributes:
        is_compact: its length is an unsigned varint, one too high (KIP-482); false for types without a length.
        tag: its tag number in this version, or ``None`` in the order of the struct.
        children: the layout of the struct, or of each element; empty for primitive types.
        about: what the spec says of the field.
    """

    name: str
    type: FieldType
    is_nullable: bool
    is_compact: bool
    tag: int | None
    default: Default
    children: tuple[Slot, ...] = ()
    about: str = field(default="", compare=False)

    @property
    def wire_type(self) -> str:
        """The type in Kafka's words (``COMPACT_NULLABLE_STRING``), an array's as ``[]`` and its element."""
        if self.type.is_array:
            return f"{self._prefix}ARRAY"
        if self.type.is_struct:
            return "NULLABLE_STRUCT" if self.is_nullable else "STRUCT"
        return f"{self._prefix}{self.type.name.upper()}"

    @property
    def _prefix(self) -> str:
        return ("COMPACT_" if self.is_compact else "") + ("NULLABLE_" if self.is_nullable else "")


def layout(message: MessageSpec, version: int) -> tuple[Slot, ...]:
    """Return the slots of a version, the tagged ones last."""
    return _struct(message, message.struct, version)


def _struct(message: MessageSpec, struct: StructSpec, version: int) -> tuple[Slot, ...]:
    fields = (*struct.fields_at(version), *struct.tagged_at(version))
    return tuple(_slot(message, one, version) for one in fields)


def _slot(message: MessageSpec, field_spec: FieldSpec, version: int) -> Slot:
    has_length = field_spec.type.is_array or (
        not field_spec.type.is_struct and PRIMITIVES[field_spec.type.name] is None
    )
    return Slot(
        name=field_spec.name,
        type=field_spec.type,
        is_nullable=field_spec.is_nullable(version),
        is_compact=has_length and message.field_is_flexible(field_spec, version),
        tag=field_spec.tag if field_spec.is_tagged(version) else None,
        default=field_spec.default,
        children=_struct(message, message.struct_of(field_spec), version) if field_spec.type.is_struct else (),
        about=field_spec.about,
    )


def walk(slots: tuple[Slot, ...], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Slot]]:
    """Yield every slot of a layout with its path of field names, parents first."""
    for slot in slots:
        here = (*path, slot.name)
        yield here, slot
        yield from walk(slot.children, here)
