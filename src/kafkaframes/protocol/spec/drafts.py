"""Change specs by a proposal (KIP) in a few lines of Python: from current specs to specs with a new version.

A proposal's function gets a ``Kip``. With this object, the function selects fields by name, type and path, tags, drops
or adds fields, and raises an API's version. Request and response always get their new version together. A proposal
needs no code for these changes:

* A tag gets the next free number of its struct.
* Null becomes the default of a tagged text if all versions of the field are nullable. Otherwise a null text, which
  takes one byte untagged, would take three bytes as a tag.
* An unreleased version (``latestVersionUnstable``) is changed in place, because a higher version would release it.
* A range that ends at the newest version (``0-5``) is extended to the new one, because the field would otherwise be
  lost.
* A version with tags becomes flexible, with flexible headers.

Old versions keep their layouts, and the new version differs from its predecessor only by the requested changes. Each
changed message is checked for both properties. The functions take and return specs; they do no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from kafkaframes.errors import SpecError
from kafkaframes.errors.suggestions import did_you_mean
from kafkaframes.protocol.spec.defaults import parse_default
from kafkaframes.protocol.spec.layout import FieldSlot, list_slots
from kafkaframes.protocol.spec.model import PRIMITIVES, FieldSpec, FieldType, MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

Path = tuple[str, ...]
_NO_FIELDS: Final[Set[tuple[str, str]]] = frozenset()


class FieldLocation(NamedTuple):
    """A field and its position: the name of its struct, the path of field names, the number of enclosing arrays."""

    struct: str
    field: FieldSpec
    path: Path
    arrays: int


class MessageDraft:
    """A draft of a message's new version.

    Attributes:
        old: the message before the change.
        before: existing version whose layout the new version is based on.
        version: the new version.
        changed_fields: the fields that are tagged, dropped or added, as (struct, field).
    """

    def __init__(self, old: MessageSpec, before: int, version: int) -> None:
        self.old, self.before, self.version = old, before, version
        self.changed_fields: set[tuple[str, str]] = set()
        new_spec = self._add_version()
        self._base = new_spec
        self._structs: dict[str, StructSpec] = {new_spec.name: new_spec.struct, **new_spec.structs}

    def list_fields(self) -> list[FieldLocation]:
        """Return the fields of every struct that ``before`` has, each struct once, in spec order."""
        return list(self._walk_struct(self._base.struct, (), 0, set()))

    def _walk_struct(
        self, struct: StructSpec, path: Path, arrays: int, visited_structs: set[str]
    ) -> Iterator[FieldLocation]:
        """Yield the fields of a struct and of the structs in it."""
        for field in self._structs[struct.name].fields:
            yield FieldLocation(struct.name, field, (*path, field.name), arrays)
            name = field.type.name
            if field.type.is_struct and field.is_present(self.before) and name not in visited_structs:
                visited_structs.add(name)  # a common struct is changed once for all its uses
                yield from self._walk_struct(
                    self._structs[name], (*path, field.name), arrays + field.type.is_array, visited_structs
                )

    def reason_not_to_tag(self, field: FieldSpec) -> str | None:
        """Return the reason why a field cannot be tagged; ``None`` if it can."""
        if field.tag is not None:
            return f"it already has tag {field.tag}"
        if not field.is_present(self.before):
            return f"version {self.before} does not have it: its versions are {field.versions}"
        return "it is a key of its array, and a key cannot be tagged" if field.map_key else None

    def tag_field(self, location: FieldLocation) -> FieldSpec:
        """Tag a field with the next free number of its struct, from the new version on; return the tagged field.

        Raises:
            SpecError: the field cannot be tagged.
        """
        reason = self.reason_not_to_tag(location.field)
        if reason is not None:
            raise SpecError(f"{'.'.join((self.old.name, *location.path))} cannot be tagged: {reason}")
        versions, nullable = Versions(location.field.versions.lowest, MAX_VERSION), location.field.nullable_versions
        if nullable.contains(self.before):
            nullable = Versions(nullable.lowest, MAX_VERSION)
        is_empty = location.field.default == ""
        tagged_field = replace(
            location.field,
            versions=versions,
            nullable_versions=nullable,
            tag=self._next_free_tag(location.struct),
            tagged_versions=Versions(self.version, MAX_VERSION),
            default=None if is_empty and nullable.covers(versions) else location.field.default,
        )
        self._update_struct(location.struct, {location.field.name: tagged_field})
        return tagged_field

    def drop_field(self, location: FieldLocation) -> None:
        """Drop a field from the new version on.

        Raises:
            SpecError: the field is tagged, so its declaration must stay, or it ends at an older version.
        """
        if location.field.tag is not None or not location.field.is_present(self.before):
            raise SpecError(f"{'.'.join((self.old.name, *location.path))} is already tagged or dropped")
        old_versions = Versions(0, self.version - 1)
        flexible = location.field.flexible_versions
        limited_field = replace(
            location.field,
            versions=location.field.versions.intersect(old_versions),
            nullable_versions=location.field.nullable_versions.intersect(old_versions),
            flexible_versions=None if flexible is None else flexible.intersect(old_versions),
        )
        self._update_struct(location.struct, {location.field.name: limited_field})

    def add_field(self, struct: str, field: FieldSpec, *, is_tag: bool) -> None:
        """Add a field at the end of a struct, or as its next free tag."""
        if is_tag:
            field = replace(field, tag=self._next_free_tag(struct), tagged_versions=field.versions)
        self._update_struct(struct, {}, field)

    def build_checked_spec(self) -> MessageSpec:
        """Return the message with its new version.

        Raises:
            SpecError: an old version would change, or the spec already declares fields for the new version.
        """
        new = self.build_spec()
        self._check_new_spec(new)
        return new

    def build_spec(self) -> MessageSpec:
        """Return the message unchecked. Only ``version`` is reliable, because later versions may have changed too."""
        structs = {name: self._structs[name] for name in self._base.structs}
        return replace(self._base, struct=self._structs[self._base.name], structs=structs)

    def _update_struct(self, struct: str, fields: Mapping[str, FieldSpec], *new_fields: FieldSpec) -> None:
        own = self._structs[struct]
        updated_fields = tuple(fields.get(field.name, field) for field in own.fields)
        self._structs[struct] = replace(own, fields=(*updated_fields, *new_fields))
        self.changed_fields |= {(struct, name) for name in (*fields, *(field.name for field in new_fields))}

    def _next_free_tag(self, struct: str) -> int:
        """Return the next free tag number of a struct."""
        tags = (field.tag for field in self._structs[struct].fields if field.tag is not None)
        return max(tags, default=-1) + 1

    # ---- the new version --------------------------------------------------------------------------------------------

    def _add_version(self) -> MessageSpec:
        """Return the spec with the new version, which is flexible."""
        spec = self.old
        valid = Versions(spec.valid_versions.lowest, max(spec.valid_versions.highest, self.version))
        flexible = spec.flexible_versions
        if not spec.is_flexible(self.version):
            flexible = Versions(self.version, MAX_VERSION)
        top = replace(self._extend_struct_versions(spec.struct), versions=valid)
        structs = {name: self._extend_struct_versions(struct) for name, struct in spec.structs.items()}
        new_spec = replace(spec, struct=top, structs=structs, flexible_versions=flexible)
        return replace(new_spec, header_versions=self._extend_header_versions(new_spec))

    def _extend_struct_versions(self, struct: StructSpec) -> StructSpec:
        """Return a struct in which ranges that ended at the previous version end at the new version."""
        fields = tuple(
            replace(
                field,
                versions=self._extend_versions(field.versions),
                nullable_versions=self._extend_versions(field.nullable_versions),
                flexible_versions=None
                if field.flexible_versions is None
                else self._extend_versions(field.flexible_versions),
            )
            for field in struct.fields
        )
        return replace(struct, versions=self._extend_versions(struct.versions), fields=fields)

    def _extend_versions(self, versions: Versions) -> Versions:
        """Return a range; if the range ended at the previous version, the result ends at the new version."""
        ends_here = not versions.is_empty and versions.highest == self.before
        return Versions(versions.lowest, self.version) if ends_here else versions

    def _extend_header_versions(self, spec: MessageSpec) -> tuple[tuple[Versions, int], ...] | None:
        """Return the header table (KIP-1313), if any, with a flexible header for a version that became flexible."""
        min_header_version = 2 if spec.type == "request" else 1
        rows = spec.header_versions
        if (
            rows is None
            or spec.header_version(self.version) >= min_header_version
            or not spec.is_flexible(self.version)
        ):
            return rows
        before = [(Versions(row.lowest, min(row.highest, self.version - 1)), header) for row, header in rows]
        return (*before, (Versions(self.version, MAX_VERSION), min_header_version))

    def _check_new_spec(self, new: MessageSpec) -> None:
        for version in self.old.valid_versions:
            if version != self.version and _wire_shape(self.old, version) != _wire_shape(new, version):
                raise SpecError(f"{self.old.name}: version {version} would change")
        compact = self.old.is_flexible(self.before) or not new.is_flexible(self.version)
        before = _wire_shape(self.old, self.before, self.changed_fields, compact=compact)
        if before != _wire_shape(new, self.version, self.changed_fields, compact=compact):
            version = self.version
            raise SpecError(
                f"{self.old.name}: version {version} does not exist yet, but the spec declares other fields for it"
            )


def _wire_shape(
    spec: MessageSpec, version: int, without: Set[tuple[str, str]] = _NO_FIELDS, *, compact: bool = True
) -> tuple[object, ...]:
    """Return the shape of a version without some fields (struct, name); ``compact=False`` ignores length encodings."""

    def shape_struct(owner: str, slots: tuple[FieldSlot, ...]) -> tuple[object, ...]:
        """Return the shape of a struct: the properties of its fields and of the fields of inner structs."""
        return tuple(
            (
                *(slot.name, slot.type, slot.is_nullable, slot.is_compact and compact, slot.tag),
                shape_struct(slot.type.name, slot.children),
            )
            for slot in slots
            if (owner, slot.name) not in without
        )

    return shape_struct(spec.struct.name, list_slots(spec, version))


# ---- whole sets -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KipField:
    """A field that a proposal has selected; ``path`` starts with the message's name."""

    draft: MessageDraft
    at: FieldLocation

    @property
    def path(self) -> str:
        """The field path with dots."""
        return ".".join((self.draft.old.name, *self.at.path))

    @property
    def name(self) -> str:
        """The field's own name."""
        return self.at.field.name

    @property
    def api(self) -> str:
        """The name of the API."""
        return self.draft.old.name.removesuffix("Request").removesuffix("Response")

    @property
    def can_be_tagged(self) -> bool:
        """Whether the field is neither tagged nor a key of its array."""
        return self.draft.reason_not_to_tag(self.at.field) is None

    @property
    def type(self) -> str:
        """The type in spec notation: ``int16``, ``[]TopicData``."""
        return str(self.at.field.type)

    def tag(self) -> None:
        """Tag the field from the new version on."""
        self.draft.tag_field(self.at)

    def drop(self) -> None:
        """Drop the field from the new version on."""
        self.draft.drop_field(self.at)


def _is_pattern(text: str) -> bool:
    return any(wildcard in text.removeprefix("[]") for wildcard in "*?[")


class Kip:
    """The specs that a proposal changes; the argument of its function ``rewrite(kip)``."""

    def __init__(self, specs: Mapping[str, MessageSpec]) -> None:
        self._old = dict(specs)
        self._drafts: dict[str, MessageDraft] = {}
        self._bumped_messages: set[str] = set()

    def fields(self, path: str = "*", *, type: str = "*") -> list[KipField]:  # noqa: A002
        """Return the fields of the newest versions that match a path and a type: ``*Response.*.ErrorCode``, ``int16``.

        Raises:
            SpecError: a path or type without a wildcard does not exist.
        """
        self._check_message(path)
        if not _is_pattern(type):
            self._check_type(type)
        selected_fields, paths = [], []
        for name, spec in sorted(self._old.items()):
            if spec.api_key is None or spec.is_removed or not fnmatchcase(name, path.partition(".")[0]):
                continue
            draft = self._get_draft(name)
            fields = (KipField(draft, at) for at in self._list_fields(name))
            matching = [field for field in fields if fnmatchcase(field.path, path)]
            paths += [field.path for field in matching]
            selected_fields += [field for field in matching if fnmatchcase(field.type, type)]
        if not paths and not _is_pattern(path):
            field_paths = [
                KipField(self._get_draft(name), at).path
                for name in self._find_names(path)
                for at in self._list_fields(name)
            ]
            raise SpecError(f"unknown field {path!r}{did_you_mean(path, field_paths)}")
        return selected_fields

    def _find_names(self, path: str) -> list[str]:
        """Return the message that a path starts with, or an empty list if a proposal cannot change it."""
        message = path.partition(".")[0]
        specs = sorted(self._old.items())
        return [name for name, spec in specs if spec.api_key is not None and not spec.is_removed and name == message]

    def _list_fields(self, name: str) -> list[FieldLocation]:
        """Return the fields that a message has in the version under change."""
        draft = self._get_draft(name)
        return [at for at in draft.list_fields() if at.field.is_present(draft.before)]

    def _check_message(self, path: str) -> None:
        """Reject a path that does not start with a message name."""
        message = path.partition(".")[0]
        if not _is_pattern(message) and message not in self._old:
            raise SpecError(f"{message}: no such message{did_you_mean(message, self._old)}")

    def _check_type(self, text: str) -> None:
        """Reject a type that is neither a primitive nor a struct of these specs."""
        name = text.removeprefix("[]")
        structs = {struct for spec in self._old.values() for struct in spec.structs}
        if name not in PRIMITIVES and name not in structs:
            raise SpecError(f"type {name!r} is unknown{did_you_mean(name, [*PRIMITIVES, *structs])}")

    def add(
        self,
        path: str,
        type: str,  # noqa: A002
        *,
        default: str | None = None,
        nullable: bool = False,
        tagged: bool = False,
        about: str = "",
    ) -> None:
        """Add a field: ``MetadataResponse.Topics.Owner``.

        Args:
            path: the message, the field names down to the struct, and the new field's name.
            type: a primitive's name, or ``[]`` and a primitive's name.
            default: default in spec notation; if omitted, the type's own default.
            nullable: whether null may be written.
            tagged: whether to add a tag instead of a field at the end of the struct.
            about: a description for readers of the spec.

        Raises:
            SpecError: the struct does not exist, it already has the field, or the type is unknown.
        """
        message, *steps, name = path.split(".")
        draft = self._get_draft(message)
        field_type = FieldType(type.removeprefix("[]"), type.startswith("[]"))
        if field_type.is_struct:
            hint = did_you_mean(field_type.name, PRIMITIVES)
            raise SpecError(f"{path}: type {type!r} is unknown{hint or ';'} expected one of {', '.join(PRIMITIVES)}")
        struct = message
        for number, _ in enumerate(steps, 1):
            fields = {at.path: at.field for at in draft.list_fields()}
            field = fields.get(tuple(steps[:number]))
            if field is None or not field.type.is_struct:
                wrong = ".".join(steps[:number])
                structs = [".".join(names) for names, spec in fields.items() if spec.type.is_struct]
                raise SpecError(f"{path}: {message} has no struct {wrong}{did_you_mean(wrong, structs)}")
            struct = field.type.name
        if any(at.field.name == name and at.struct == struct for at in draft.list_fields()):
            raise SpecError(f"{path} already exists")
        versions = Versions(draft.version, MAX_VERSION)
        new_field = FieldSpec(
            name=name,
            type=field_type,
            versions=versions,
            default=parse_default(field_type, default or ""),
            nullable_versions=versions if nullable else Versions.NONE,
            about=about,
        )
        draft.add_field(struct, new_field, is_tag=tagged)

    def bump(self, api: str) -> None:
        """Add a version to an API (``Heartbeat``) with the layout of the previous version.

        Raises:
            SpecError: the API does not exist.
        """
        api_names = [spec.name.removesuffix("Request") for spec in self._old.values() if spec.type == "request"]
        if api not in api_names:
            raise SpecError(f"unknown API {api!r}{did_you_mean(api, api_names)}")
        for half in ("Request", "Response"):
            self._bumped_messages.add(self._get_draft(f"{api}{half}").old.name)

    def build_specs(self) -> dict[str, MessageSpec]:
        """Return all specs with the proposal's changes. Request and response of a changed API get a new version.

        Raises:
            SpecError: an old version would change.
        """
        keys = {
            draft.old.api_key
            for draft in self._drafts.values()
            if draft.changed_fields or draft.old.name in self._bumped_messages
        }
        changed_names = [spec.name for spec in self._old.values() if spec.api_key in keys and spec.api_key is not None]
        return self._old | {name: self._get_draft(name).build_checked_spec() for name in changed_names}

    def _get_draft(self, name: str) -> MessageDraft:
        """Return the draft of a message; a new one if the proposal has not changed it yet."""
        self._check_message(name)
        if name not in self._drafts:
            spec = self._old[name]
            before = spec.valid_versions.highest
            requests = [
                request
                for request in self._old.values()
                if request.type == "request" and request.api_key == spec.api_key
            ]
            in_place = any(request.latest_version_unstable for request in requests)
            self._drafts[name] = MessageDraft(spec, before, before if in_place else before + 1)
        return self._drafts[name]
