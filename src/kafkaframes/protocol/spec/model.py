"""The message spec as values: what a JSON file says, typed and resolved, for those who plan codecs.

Everything is frozen. A field is on the wire of version v when ``field.versions`` and the versions of all its parents
contain v; it is in the tag section instead when ``field.is_tagged(v)``. Words and rules: KIP-482, Kafka's generator.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.wire.primitives import FIXED_SIZE

#: Fixed size in bytes of each primitive type on the wire; ``None``: a length precedes the bytes.
PRIMITIVES: Mapping[str, int | None] = MappingProxyType({**FIXED_SIZE, "string": None, "bytes": None, "records": None})
#: Types whose values are framed by an API key and a header.
RPC_TYPES = ("request", "response")

Default: TypeAlias = bool | int | float | str | bytes | uuid.UUID | tuple[()] | None
NIL_UUID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field: ``name`` is a key of ``PRIMITIVES`` or the name of a struct, of one or of an array.

    >>> str(FieldType("TopicData", is_array=True)), FieldType("int8").is_struct
    ('[]TopicData', False)
    """

    name: str
    is_array: bool = False

    @property
    def is_struct(self) -> bool:
        """Whether the value, or each element of the array, is a struct."""
        return self.name not in PRIMITIVES

    @property
    def can_be_nullable(self) -> bool:
        """Whether null is a value of this type in some version (a uuid's null is the zero uuid)."""
        return self.is_array or self.is_struct or PRIMITIVES[self.name] is None

    def __str__(self) -> str:
        return f"[]{self.name}" if self.is_array else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a struct, over all versions.

    Attributes:
        name: as in the spec (``TopicId``); ``json_name`` and ``snake_name`` are derived.
        default: the typed value; an array's and a struct's is ``()`` (no elements, a struct of defaults) or ``None``
            for null; records: always ``None``.
        tag: the tag number, or ``None`` for a field that is never tagged.
        flexible_versions: the field's own flexible versions, or ``None``: those of the message.
        map_key: Kafka keeps the array of this struct as a hash collection keyed by such fields; no wire effect.
        entity_type: what the value names (``topicName``, ``brokerId`` ...); ``unknown`` without one.
        zero_copy: Kafka hands bytes on without a copy; no wire effect.
        written_default: the default as the file has it (``0x7fffffff``, ``false``), which ``emit`` writes again.
    """

    name: str
    type: FieldType
    versions: Versions
    default: Default
    nullable_versions: Versions = Versions.NONE
    tag: int | None = None
    tagged_versions: Versions = Versions.NONE
    flexible_versions: Versions | None = None
    ignorable: bool = False
    map_key: bool = False
    entity_type: str = "unknown"
    zero_copy: bool = False
    about: str = ""
    written_default: str = field(default="", compare=False, repr=False)

    @property
    def json_name(self) -> str:
        """The name in Kafka's JSON form of messages: the first letter in lower case."""
        return self.name[:1].lower() + self.name[1:]

    @property
    def snake_name(self) -> str:
        """The name as a Python attribute, by Kafka's rule: ``isKRaftController`` is ``is_kraft_controller``."""
        return snake_case(self.name)

    def is_present(self, version: int) -> bool:
        """Return whether this version has the field, mandatory or tagged (given that it has the struct)."""
        return self.versions.contains(version)

    def is_tagged(self, version: int) -> bool:
        """Return whether this version carries the field in the tag section."""
        return self.tagged_versions.contains(version)

    def is_nullable(self, version: int) -> bool:
        """Return whether null can be the field's value in this version."""
        return self.nullable_versions.contains(version)


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A struct: the message itself, one declared by a field (inline), or a common one.

    ``versions`` are those of the declaration; where it is used, the versions of the parents cut them further.
    """

    name: str
    versions: Versions
    fields: tuple[FieldSpec, ...] = ()
    is_common: bool = False

    def field(self, name: str) -> FieldSpec:
        """Return the field of that name.

        Raises:
            KeyError: there is none.
        """
        for member in self.fields:
            if member.name == name:
                return member
        raise KeyError(f"{self.name} has no field {name}")

    def fields_at(self, version: int) -> tuple[FieldSpec, ...]:
        """Return the untagged fields of a version, in the order of the wire."""
        return tuple(one for one in self.fields if one.is_present(version) and not one.is_tagged(version))

    def tagged_at(self, version: int) -> tuple[FieldSpec, ...]:
        """Return the tagged fields of a version, ascending by tag."""
        return tuple(sorted((one for one in self.fields if one.is_tagged(version)), key=lambda field: field.tag or 0))


@dataclass(frozen=True)
class MessageSpec:
    """One message over all its versions.

    Attributes:
        struct: the top level; its name is the message's, its versions are ``validVersions``.
        structs: every struct below it by name, inline and common; a name that is used and nowhere declared is here as
            a struct without fields, as Kafka takes it.
        valid_versions: empty for an API that was removed (``validVersions: none``; its key stays reserved).
        header_versions: the table of KIP-1313's ``headerVersions`` (body versions, header version), or ``None``.
    """

    name: str
    type: str
    struct: StructSpec
    flexible_versions: Versions
    api_key: int | None = None
    structs: Mapping[str, StructSpec] = field(default_factory=dict)
    deprecated_versions: Versions = Versions.NONE
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    header_versions: tuple[tuple[Versions, int], ...] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return the declared fields alone: the codecs that ``messages`` keeps beside them cannot be pickled."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @property
    def valid_versions(self) -> Versions:
        """The versions that exist."""
        return self.struct.versions

    @property
    def is_removed(self) -> bool:
        """Whether the API is gone and only its key is kept."""
        return self.valid_versions.is_empty

    @property
    def latest_stable_version(self) -> int:
        """The highest released version; -1 when there is none."""
        return self.valid_versions.highest - int(self.latest_version_unstable)

    @cached_property
    def common_structs(self) -> tuple[StructSpec, ...]:
        """The structs of ``commonStructs``, in the order of declaration."""
        return tuple(one for one in self.structs.values() if one.is_common)

    def struct_of(self, of: FieldSpec) -> StructSpec:
        """Return the struct that a field's type names (for an array: of its elements)."""
        return self.structs[of.type.name]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version uses KIP-482's encoding: compact lengths, a tag section after each struct."""
        return self.flexible_versions.contains(version)

    def field_is_flexible(self, of: FieldSpec, version: int) -> bool:
        """Return whether a field's own length is compact in a version (only a header's client id differs)."""
        own = self.flexible_versions if of.flexible_versions is None else of.flexible_versions
        return own.contains(version)

    def canonical_version(self, version: int) -> int:
        """Return the version under which the fields of ``version`` are declared: the same, but for keys of records.

        Up to 4.0 the version of a coordinator record's key was its record type (GroupMetadataKey: 2). Since then the
        type is the API key, the only version 0. Both stand for the same bytes, so a key answers to both.
        """
        is_older_name = self.type == "coordinator-key" and version == self.api_key
        return self.valid_versions.lowest if is_older_name else version

    def header_version(self, version: int) -> int:
        """Return the version of the header that precedes this request's or response's body.

        From ``headerVersions`` (KIP-1313) where the spec has it; derived as Kafka's ApiMessageType does otherwise:
        flexible bodies follow the flexible header, ApiVersions (18) responses always header 0, ControlledShutdown (7)
        request 0 has no client id.

        Raises:
            SpecError: the message is neither a request nor a response.
        """
        if self.type not in RPC_TYPES:
            raise SpecError(f"{self.name} is a {self.type}: only requests and responses have a header")
        for versions, header in self.header_versions or ():
            if versions.contains(version):
                return header
        exception = _HEADER_EXCEPTIONS.get(
            (self.api_key, self.type, version), _HEADER_EXCEPTIONS.get((self.api_key, self.type, None))
        )
        if exception is not None:
            return exception
        return (1 if self.type == "request" else 0) + self.is_flexible(version)


# (api key, type, version or all): header version. KIP-511: a client must understand the answer to a version of
# ApiVersions that the broker does not know. ControlledShutdown 0 is older than the client id.
_HEADER_EXCEPTIONS: dict[tuple[int | None, str, int | None], int] = {(18, "response", None): 0, (7, "request", 0): 0}


def snake_case(name: str) -> str:
    """Return a spec's name in snake case: an underscore before a capital that does not follow a capital.

    >>> snake_case("isKRaftController"), snake_case("ZkMigrationReady"), snake_case("timeoutMs")
    ('is_kraft_controller', 'zk_migration_ready', 'timeout_ms')
    """
    out: list[str] = []
    for index, char in enumerate(name):
        if char.isupper() and index and not name[index - 1].isupper():
            out.append("_")
        out.append(char.lower())
    return "".join(out)
