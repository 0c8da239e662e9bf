"""The message spec model: the content of a spec's JSON file, typed and resolved, as the basis of codec plans.

All objects are frozen. Version v of a message has a field if ``field.versions`` and the versions of all its parents
contain v. The field is in the tag section if ``field.is_tagged(v)``, otherwise in the struct's order. Terms and rules
are the same as in KIP-482 and Kafka's generator.
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
from kafkaframes.wire.primitives import SIZE_BY_FIXED_TYPE

#: Fixed size in bytes of each primitive type on the wire; ``None``: a length precedes the bytes.
PRIMITIVES: Mapping[str, int | None] = MappingProxyType(
    {**SIZE_BY_FIXED_TYPE, "string": None, "bytes": None, "records": None}
)
#: Message types with an API key and a header.
RPC_TYPES = ("request", "response")

Default: TypeAlias = bool | int | float | str | bytes | uuid.UUID | tuple[()] | None


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field, single or array; ``name`` is a key of ``PRIMITIVES`` or the name of a struct.

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
        """Whether null can be a value of this type in some version (the null of a UUID is the zero UUID)."""
        return self.is_array or self.is_struct or PRIMITIVES[self.name] is None

    def __str__(self) -> str:
        return f"[]{self.name}" if self.is_array else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a struct, across all versions.

    Attributes:
        name: name as in the spec (``TopicId``); ``json_name`` and ``snake_name`` are derived.
        default: the typed value. For arrays and structs, ``()`` (no elements, a struct of defaults) or ``None`` for
            null; for records, always ``None``.
        tag: the tag number, or ``None`` for a field that is never tagged.
        flexible_versions: the field's own flexible versions; ``None`` if the message's flexible versions apply.
        map_key: whether Kafka stores an array of this struct as a hash collection with this key, which has no effect on
            the wire.
        entity_type: the kind of name that the value is (``topicName``, ``brokerId`` ...), or ``unknown``.
        zero_copy: whether Kafka passes the bytes on without a copy, which has no effect on the wire.
        written_default: the default as in the file (``0x7fffffff``, ``false``), which ``emit`` writes again.
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
        """The name in Kafka's JSON form of messages, with a lower-case initial."""
        return self.name[:1].lower() + self.name[1:]

    @property
    def snake_name(self) -> str:
        """The name as a Python attribute, by Kafka's rule: ``isKRaftController`` is ``is_kraft_controller``."""
        return snake_case(self.name)

    def is_present(self, version: int) -> bool:
        """Return whether the field, tagged or not, exists in this version if the enclosing struct does."""
        return self.versions.contains(version)

    def is_tagged(self, version: int) -> bool:
        """Return whether the field is in the tag section of this version."""
        return self.tagged_versions.contains(version)

    def is_nullable(self, version: int) -> bool:
        """Return whether the field can be null in this version."""
        return self.nullable_versions.contains(version)


@dataclass(frozen=True, slots=True)
class StructSpec:
    """A struct: the message itself, an inline struct of a field, or a common struct.

    ``versions`` are the versions of the declaration. Each use of the struct is further limited by the versions of its
    parents.
    """

    name: str
    versions: Versions
    fields: tuple[FieldSpec, ...] = ()
    is_common: bool = False

    def field(self, name: str) -> FieldSpec:
        """Return the field of that name.

        Raises:
            KeyError: the field does not exist.
        """
        for member in self.fields:
            if member.name == name:
                return member
        raise KeyError(f"{self.name} has no field {name}")

    def fields_at(self, version: int) -> tuple[FieldSpec, ...]:
        """Return the untagged fields of a version, in wire order."""
        return tuple(member for member in self.fields if member.is_present(version) and not member.is_tagged(version))

    def tags_at(self, version: int) -> tuple[FieldSpec, ...]:
        """Return the tagged fields of a version, ascending by tag."""
        return tuple(
            sorted((member for member in self.fields if member.is_tagged(version)), key=lambda field: field.tag or 0)
        )


@dataclass(frozen=True)
class MessageSpec:
    """One message, across all its versions.

    Attributes:
        struct: the top level, with the message's name and ``validVersions``.
        structs: every struct below the top level by name, inline and common. A name that is used but not declared is a
            struct without fields, as in Kafka.
        valid_versions: empty for a removed API (``validVersions: none``; its key stays reserved).
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
        """Return only the declared fields; the codecs that ``messages`` caches in the object cannot be pickled."""
        return {name: vars(self)[name] for name in self.__dataclass_fields__}

    @property
    def valid_versions(self) -> Versions:
        """The versions that exist."""
        return self.struct.versions

    @property
    def is_removed(self) -> bool:
        """Whether the API has been removed and only its key stays reserved."""
        return self.valid_versions.is_empty

    @property
    def latest_stable_version(self) -> int:
        """The highest released version; -1 if all versions are unreleased."""
        return self.valid_versions.highest - int(self.latest_version_unstable)

    @cached_property
    def common_structs(self) -> tuple[StructSpec, ...]:
        """The structs of ``commonStructs``, in the order of declaration."""
        return tuple(struct for struct in self.structs.values() if struct.is_common)

    def struct_of(self, of: FieldSpec) -> StructSpec:
        """Return the struct of a field's type; for an array, the struct of its elements."""
        return self.structs[of.type.name]

    def is_flexible(self, version: int) -> bool:
        """Return whether a version uses KIP-482's encoding: compact lengths, a tag section after each struct."""
        return self.flexible_versions.contains(version)

    def field_is_flexible(self, of: FieldSpec, version: int) -> bool:
        """Return whether a field's own length is compact in a version (different only for a header's client id)."""
        own = self.flexible_versions if of.flexible_versions is None else of.flexible_versions
        return own.contains(version)

    def canonical_version(self, version: int) -> int:
        """Return the version in which the fields of ``version`` are declared; it differs only for record keys.

        Up to 4.0, the version of a coordinator record key was its record type (GroupMetadataKey: 2). Since then, the
        type is the API key and the only version is 0. Old and new versions of a key result in the same bytes, so both
        are valid.
        """
        is_older_name = self.type == "coordinator-key" and version == self.api_key
        return self.valid_versions.lowest if is_older_name else version

    def header_version(self, version: int) -> int:
        """Return the version of the header that precedes this request's or response's body.

        The version is taken from ``headerVersions`` (KIP-1313) if the spec has this table. Without this table, the
        version is derived as in Kafka's ApiMessageType: flexible bodies follow the flexible header, ApiVersions (18)
        responses always follow header 0, and ControlledShutdown (7) request 0 has no client id.

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


# (API key, type, version or all) -> header version. According to KIP-511, a client must be able to read the response to
# an ApiVersions version that the broker does not support. ControlledShutdown 0 is older than the client id.
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
