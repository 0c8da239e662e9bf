"""Error codes and messages of a response as tagged fields, from one version on: KIP-636's step for a single spec.

Which fields are meant, which tag each gets, what default. ``kip_636.py`` does it to whole sets of specs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

#: Name of a field and its type: only a field that has both is an error code or message.
FIELDS: Final = {"ErrorCode": "int16", "ErrorMessage": "string"}
KINDS: Final = {"int16": "code", "string": "message"}

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaggedField:
    """One field that became a tag.

    Attributes:
        message: the response's name; ``path`` the names of the fields that lead to it.
        kind: ``code`` or ``message``.
        tag: its number, from ``version`` on.
        is_null_default_new: null was made its default.
        arrays: how many arrays it stands in.
    """

    message: str
    path: Path
    kind: str
    tag: int
    version: int
    is_null_default_new: bool
    arrays: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays as it is, and why: a whole message (no path) or one field of it."""

    message: str
    path: Path
    reason: str


def is_error(one: FieldSpec, *, suffix: bool) -> bool:
    """Return whether a field's name says that it is an error; with ``suffix``: whether it ends so."""
    return any(one.name == name or (suffix and one.name.endswith(name)) for name in FIELDS)


@dataclass(slots=True)
class Tagger:
    """The work on one response.

    Attributes:
        old: the response.
        before: the version whose errors are meant; ``version``: from which version on they are tags.
        suffix: whether names that end so are meant too.
        fields, kept: what became a tag, and what was meant and did not.
        tagged: the same as ``fields``, as (struct, field).
    """

    old: MessageSpec
    before: int
    version: int
    suffix: bool
    fields: list[TaggedField] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    tagged: set[tuple[str, str]] = field(default_factory=set)
    structs: dict[str, StructSpec] = field(default_factory=dict)

    def run(self) -> MessageSpec:
        """Return the spec; what was and was not done stands in ``fields``, ``kept`` and ``tagged``."""
        top = self._struct(self.old.struct, (), 0)
        structs = {name: self.structs.get(name, one) for name, one in self.old.structs.items()}
        return replace(self.old, struct=top, structs=structs)

    def _struct(self, struct: StructSpec, path: Path, arrays: int) -> StructSpec:
        """Return a struct with its error fields tagged; structs within it go to ``structs``."""
        free = max([one.tag for one in struct.fields if one.tag is not None], default=-1) + 1
        fields = []
        for one in struct.fields:
            here = (*path, one.name)
            tagged = one
            if is_error(one, suffix=self.suffix) and self._can_be_tagged(one, here):
                tagged = self._tag(one, free)
                free += 1
                null = tagged.default is None and one.default is not None
                kind = KINDS[one.type.name]
                self.tagged.add((struct.name, one.name))
                self.fields.append(TaggedField(self.old.name, here, kind, free - 1, self.version, null, arrays))
            fields.append(tagged)
            if one.type.is_struct and one.is_present(self.before):
                self._inner(one, here, arrays + one.type.is_array)
        return replace(struct, fields=tuple(fields))

    def _inner(self, one: FieldSpec, path: Path, arrays: int) -> None:
        name = one.type.name
        if name not in self.structs:  # a common struct is tagged once, wherever it is used
            self.structs[name] = self.old.structs[name]  # while it is under way
            self.structs[name] = self._struct(self.old.structs[name], path, arrays)

    def _can_be_tagged(self, one: FieldSpec, path: Path) -> bool:
        reason = None
        if one.type.is_array or one.type.name not in KINDS:
            reason = f"its type is {one.type}"
        elif one.tag is not None:
            reason = f"it is tag {one.tag} already"
        elif not one.is_present(self.before):
            reason = f"version {self.before} has it no more: its versions are {one.versions}"
        elif one.map_key:
            reason = "it is a key of its array, and a key cannot be tagged"
        if reason is not None:
            self.kept.append(Kept(self.old.name, path, reason))
        return reason is None

    def _tag(self, one: FieldSpec, tag: int) -> FieldSpec:
        """Return a field as a tag from the new version on; null is its default where every version allows null."""
        versions = Versions(one.versions.lowest, MAX_VERSION)
        nullable = one.nullable_versions
        if nullable.contains(self.before):
            nullable = Versions(nullable.lowest, MAX_VERSION)
        is_empty = one.default == ""
        return replace(
            one,
            versions=versions,
            nullable_versions=nullable,
            tag=tag,
            tagged_versions=Versions(self.version, MAX_VERSION),
            default=None if is_empty and nullable.covers(versions) else one.default,
        )
