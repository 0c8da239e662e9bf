"""The plan of a message at one version: its fields in wire order, with all encoding decisions made. Data only.

A plan is created once from a ``MessageSpec`` and a version (:func:`plan_message`). After the plan is built, nothing
depends on the version. All executors read the same plan and nothing else: the plain interpreter (``_reference.py``),
the source generator for objects (``_source.py``), and the columns. A plan therefore refers to no class, buffer or mode.

How to read or write a struct by its plan (Kafka's rules, KIP-482):

1. ``fields`` in order. A field's ``type`` is the name of a primitive type (``wire.primitives.PRIMITIVE_CODECS``) or
   ``"struct"``. With ``array``, the value is a count and that many elements, which are never null. With ``compact``,
   the length or count is an unsigned varint of n + 1 (null: 0). Without ``compact``, the length or count is an int16
   (string) or an int32 (bytes, records, arrays) of n (null: -1). A ``nullable`` single struct starts with an int8: null
   if negative, otherwise present.
2. If ``flexible``: an unsigned varint count, then for each tag an unsigned varint tag, an unsigned varint size and a
   payload. A tag in ``tagged`` contains its field as in 1, except that a nullable single struct starts with an unsigned
   varint (0 null, 1 present). A tag in ``refused_tags`` is an error, because the message declares it for other versions
   only. Any other tag is kept as raw bytes. A tagged field that has its default is not written.
3. ``absent`` fields are declared, but not for this version. Absent fields have their defaults after reading. Writing
   another value is an error unless the field is ignorable.

Equal structs of one message and version share one ``StructPlan`` object, so ``id(plan)`` and ``plan.name`` identify it.
"""

from __future__ import annotations

import enum
import keyword
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from kafkaframes.errors import OptionError, SpecError
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.wire.primitives import SIZE_BY_FIXED_TYPE

# Largest nesting of structs; Kafka's maximum is 5. A deeper spec contains a struct that refers to itself.
MAX_STRUCT_DEPTH: Final = 64


class MutableDefault(enum.Enum):
    """Defaults of mutable types, which need a new object for each value."""

    ARRAY = "an empty list"
    STRUCT = "a struct of defaults"


Default: TypeAlias = bool | int | float | str | bytes | UUID | MutableDefault | None


@dataclass(frozen=True, slots=True, eq=False)
class FieldPlan:
    """How one field of a message is encoded at one version.

    Attributes:
        name, attribute, json_name: ``TopicId`` in the spec, ``topic_id`` in Python, ``topicId`` in JSON.
        type: a primitive's name or ``"struct"``.
        array: whether the value is a list of ``type``.
        nullable: whether the field may be null.
        compact: whether lengths are unsigned varints of n + 1.
        struct: the plan of the struct or of each element, if ``type`` is ``"struct"``.
        default: the value if the tag is absent.
        tag: the tag, in ``StructPlan.tagged`` only.
    """

    name: str
    attribute: str
    json_name: str
    type: str
    array: bool
    nullable: bool
    compact: bool
    struct: StructPlan | None
    default: Default
    tag: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AbsentField:
    """A field that the message declares for other versions only.

    ``first_version`` and ``last_version`` are the first and the last valid version that have the field, or ``None`` if
    none does. ``struct`` is the name of its struct, if it has one, and ``parts`` are that struct's fields.
    ``nullable``: whether null is valid in some version.
    """

    name: str
    attribute: str
    type: str
    array: bool
    struct: str | None
    default: Default
    ignorable: bool
    first_version: int | None
    last_version: int | None
    nullable: bool = False
    parts: tuple[AbsentField, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StructPlan:
    """How a struct is encoded at one version; the module's docstring describes the encoding.

    ``min_size`` is the minimum encoded size of the struct, in bytes.
    """

    name: str
    flexible: bool
    fields: tuple[FieldPlan, ...]
    tagged_fields: tuple[FieldPlan, ...]
    refused_tags: tuple[int, ...]
    absent: tuple[AbsentField, ...]
    min_size: int

    @property
    def declared_tags(self) -> dict[int, str | None]:
        """The tags that an unknown tag must not have, with their fields' names; None for fields of other versions."""
        return dict.fromkeys(self.refused_tags) | {
            field.tag: field.name for field in self.tagged_fields if field.tag is not None
        }


@dataclass(frozen=True, slots=True, eq=False)
class MessagePlan:
    """How a message is encoded at one version.

    ``root`` is the plan of the message's top level. ``structs`` are all struct plans in the message, children first.
    """

    name: str
    type: str
    api_key: int | None
    version: int
    flexible: bool
    root: StructPlan
    structs: tuple[StructPlan, ...]


def attribute_name(field: FieldSpec) -> str:
    """Return the Python attribute of a field: Kafka's snake case, with a trailing underscore for reserved names."""
    name = field.snake_name
    return f"{name}_" if keyword.iskeyword(name) or name in _RESERVED_ATTRIBUTES else name


# Members of every struct class besides its fields (objects.py).
_RESERVED_ATTRIBUTES: Final = frozenset(
    {"codec", "decode", "decode_columns", "decode_prefix", "encode", "encode_columns", "find", "find_all", "from_json"}
    | {"replace", "size", "spec", "to_json", "unknown_tags"}
)


def plan_default(field: FieldSpec) -> Default:
    """Return a field's default in the form that plans use."""
    if not isinstance(field.default, tuple):
        return field.default
    return MutableDefault.ARRAY if field.type.is_array else MutableDefault.STRUCT


class _Planner:
    """A builder of the plan of one message at one version."""

    def __init__(self, spec: MessageSpec, version: int) -> None:
        self.spec = spec
        self.version = version
        self.flexible = spec.is_flexible(version)
        self.plans: dict[str, StructPlan] = {}
        self.parts_done: dict[str, tuple[AbsentField, ...]] = {}

    def plan_struct(self, struct: StructSpec, depth: int = 0) -> StructPlan:
        if struct.name in self.plans:
            return self.plans[struct.name]
        self.check_depth(struct, depth)
        all_fields, version = struct.fields, self.version
        tag_specs = sorted(filter(self.is_tag, all_fields), key=lambda field: field.tag or 0)
        fields = tuple(
            self.plan_field(field, depth)
            for field in all_fields
            if field.is_present(version) and not self.is_tag(field)
        )
        plan = StructPlan(
            name=struct.name,
            flexible=self.flexible,
            fields=fields,
            tagged_fields=tuple(self.plan_field(field, depth) for field in tag_specs),
            refused_tags=tuple(
                sorted(field.tag for field in all_fields if field.tag is not None and not self.is_tag(field))
            ),
            absent=tuple(
                self.plan_absent_field(field)
                for field in all_fields
                if not field.is_present(version) and not self.is_tag(field)
            ),
            min_size=sum(map(_compute_min_size, fields)) + self.flexible,
        )
        self.plans[struct.name] = plan
        return plan

    def is_tag(self, field: FieldSpec) -> bool:
        return field.tag is not None and field.is_tagged(self.version)

    def check_depth(self, struct: StructSpec, depth: int) -> None:
        if depth > MAX_STRUCT_DEPTH:
            raise SpecError(f"{self.spec.name}: struct {struct.name} contains itself")

    def plan_field(self, field: FieldSpec, depth: int) -> FieldPlan:
        is_struct = field.type.is_struct
        own = field.type.name in ("string", "bytes") and not field.type.is_array
        return FieldPlan(
            name=field.name,
            attribute=attribute_name(field),
            json_name=field.json_name,
            type="struct" if is_struct else field.type.name,
            array=field.type.is_array,
            nullable=field.is_nullable(self.version),
            compact=self.spec.field_is_flexible(field, self.version) if own else self.flexible,
            struct=self.plan_struct(self.spec.struct_of(field), depth + 1) if is_struct else None,
            default=plan_default(field),
            tag=field.tag if self.is_tag(field) else None,
        )

    def plan_absent_field(self, field: FieldSpec, depth: int = 1) -> AbsentField:
        versions = field.versions.intersect(self.spec.valid_versions)
        return AbsentField(
            name=field.name,
            attribute=attribute_name(field),
            type="struct" if field.type.is_struct else field.type.name,
            array=field.type.is_array,
            struct=field.type.name if field.type.is_struct else None,
            default=plan_default(field),
            ignorable=field.ignorable,
            first_version=None if versions.is_empty else versions.lowest,
            last_version=None if versions.is_empty else versions.highest,
            nullable=not field.nullable_versions.is_empty,
            parts=self.plan_absent_parts(field, depth),
        )

    def plan_absent_parts(self, field: FieldSpec, depth: int) -> tuple[AbsentField, ...]:
        """Return the fields of a struct that the version lacks; the struct's default consists of their defaults."""
        if not field.type.is_struct or field.type.is_array:
            return ()
        struct = self.spec.struct_of(field)
        if struct.name not in self.parts_done:
            self.check_depth(struct, depth)
            self.parts_done[struct.name] = tuple(self.plan_absent_field(field, depth + 1) for field in struct.fields)
        return self.parts_done[struct.name]


def _compute_min_size(field: FieldPlan) -> int:
    if field.array or field.type not in SIZE_BY_FIXED_TYPE:
        if field.struct is not None and not field.array:
            return 1 if field.nullable else field.struct.min_size
        return 1 if field.compact else 2 if field.type == "string" and not field.array else 4
    return SIZE_BY_FIXED_TYPE[field.type]


def plan_message(spec: MessageSpec, version: int) -> MessagePlan:
    """Return the plan of a message at a version. Later calls return the same object.

    Raises:
        OptionError: the message does not have this version. Kafka's generated classes do not check the top level.
        SpecError: a struct contains itself.
    """
    version = spec.canonical_version(version)
    if not spec.valid_versions.contains(version):
        raise OptionError(f"{spec.name} has no version {version}; expected {spec.valid_versions}")
    plans: dict[int, MessagePlan] = vars(spec).setdefault("_plans", {})  # lives as long as the spec
    if version not in plans:
        planner = _Planner(spec, version)
        root = planner.plan_struct(spec.struct)
        plans[version] = MessagePlan(
            name=spec.name,
            type=spec.type,
            api_key=spec.api_key,
            version=version,
            flexible=planner.flexible,
            root=root,
            structs=tuple(planner.plans.values()),
        )
    return plans[version]
