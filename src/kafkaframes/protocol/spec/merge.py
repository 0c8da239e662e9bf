"""Merge the specs of two releases; the result has the versions of both, each in its newest release's layout.

Fields are matched by name within their struct. A renamed field becomes two fields with disjoint versions. The result is
checked, and a ``SpecError`` names a version whose layout differs from the layout in its release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.layout import FieldSlot, list_slots
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import Versions


def merge_older(newer: MessageSpec, older: MessageSpec) -> MessageSpec:
    """Return ``newer`` with the additional versions of ``older``.

    Raises:
        SpecError: the additional versions are not directly below the newer versions, or one struct cannot express both
        layouts.
    """
    valid = newer.valid_versions
    if valid.is_empty:
        return replace(older, api_key=newer.api_key)
    missing = Versions(older.valid_versions.lowest, min(older.valid_versions.highest, valid.lowest - 1))
    if older.valid_versions.is_empty or missing.is_empty:
        return newer
    if missing.highest + 1 != valid.lowest:
        raise SpecError(f"{newer.name}: versions {missing} and {valid} leave a gap")
    merged_spec = _SpecMerge(newer, older, missing, valid).merge_specs()
    for version in merged_spec.valid_versions:
        source = older if missing.contains(version) else newer
        if not _have_same_bytes(list_slots(merged_spec, version), list_slots(source, version)) or _flexible(
            merged_spec, source, version
        ):
            raise SpecError(f"{newer.name}: version {version} cannot be described together with the newer ones")
    return merged_spec


def _flexible(merged_spec: MessageSpec, source: MessageSpec, version: int) -> bool:
    return merged_spec.is_flexible(version) != source.is_flexible(version)


def _have_same_bytes(first: tuple[FieldSlot, ...], other: tuple[FieldSlot, ...]) -> bool:
    """Return whether two layouts write the same bytes for the same JSON. Names of structs may differ."""
    return len(first) == len(other) and all(
        (a.name, a.type.is_array, a.is_nullable, a.is_compact, a.tag) == (b.name, b.type.is_array, *_rest(b))
        and (a.type.is_struct or a.type == b.type)
        and _have_same_bytes(a.children, b.children)
        for a, b in zip(first, other, strict=True)
    )


def _rest(slot: FieldSlot) -> tuple[bool, bool, int | None]:
    return slot.is_nullable, slot.is_compact, slot.tag


@dataclass(slots=True)
class _SpecMerge:
    """The merge of an older and a newer spec of one message; ``low`` and ``high`` are their versions."""

    newer: MessageSpec
    older: MessageSpec
    low: Versions
    high: Versions
    structs: dict[str, StructSpec] = field(default_factory=dict)

    def merge_specs(self) -> MessageSpec:
        top = self._merge_structs(self.newer.struct, self.older.struct, self.newer.name)
        order = [name for name in (*self.newer.structs, *self.structs) if name in self.structs]
        return replace(
            self.newer,
            struct=replace(top, versions=Versions(self.low.lowest, self.high.highest)),
            structs={name: self.structs[name] for name in order},
            flexible_versions=self._join_versions(self.newer.flexible_versions, self.older.flexible_versions),
        )

    def _merge_structs(self, newer: StructSpec, older: StructSpec, name: str) -> StructSpec:
        fields = tuple(self._merge_fields(newer, older))
        return StructSpec(name, self._join_versions(newer.versions, older.versions), fields, newer.is_common)

    def _merge_fields(self, newer: StructSpec, older: StructSpec) -> Iterator[FieldSpec]:
        """Yield the newer fields in order, each with the removed fields that follow it in the older spec."""
        names = {member.name for member in newer.fields}
        removed_fields: dict[str | None, list[FieldSpec]] = {}
        previous: str | None = None
        for member in older.fields:
            if member.name in names:
                previous = member.name
            elif not member.versions.intersect(self.low).is_empty:
                removed_fields.setdefault(previous, []).append(member)
        yield from map(self._limit_to_older, removed_fields.get(None, ()))
        before = {member.name: member for member in older.fields}
        for member in newer.fields:
            yield (
                self._merge_field_pair(member, before[member.name])
                if member.name in before
                else self._limit_to_newer(member)
            )
            yield from map(self._limit_to_older, removed_fields.get(member.name, ()))

    def _merge_field_pair(self, newer: FieldSpec, older: FieldSpec) -> FieldSpec:
        if newer.type.is_struct and older.type.is_struct:
            name = newer.type.name
            if name not in self.structs:
                self.structs[name] = self._merge_structs(
                    self.newer.structs[name], self.older.structs[older.type.name], name
                )
        only_older_lack_it = newer.versions.covers(self.high) and not older.versions.covers(self.low)
        return replace(
            newer,
            ignorable=older.ignorable if only_older_lack_it else newer.ignorable,
            versions=self._join_versions(newer.versions, older.versions),
            nullable_versions=self._join_versions(newer.nullable_versions, older.nullable_versions),
        )

    def _limit_to_newer(self, field_spec: FieldSpec) -> FieldSpec:
        """Return a field that the older spec lacks, limited to the newer versions."""
        self._copy_struct(self.newer, field_spec)
        return replace(
            field_spec,
            versions=self._remove_older_versions(field_spec.versions),
            nullable_versions=self._remove_older_versions(field_spec.nullable_versions),
        )

    def _limit_to_older(self, field_spec: FieldSpec) -> FieldSpec:
        """Return a field that the newer spec lacks, limited to the older versions."""
        self._copy_struct(self.older, field_spec)
        versions, nullable = field_spec.versions.intersect(self.low), field_spec.nullable_versions.intersect(self.low)
        return replace(field_spec, versions=versions, nullable_versions=nullable)

    def _copy_struct(self, source: MessageSpec, field_spec: FieldSpec) -> None:
        if field_spec.type.is_struct and field_spec.type.name not in self.structs:
            self.structs[field_spec.type.name] = source.struct_of(field_spec)
            for inner in source.struct_of(field_spec).fields:
                self._copy_struct(source, inner)

    def _remove_older_versions(self, versions: Versions) -> Versions:
        """Return the range without the versions below the newer spec's lowest version."""
        return versions.intersect(Versions(self.high.lowest, Versions.ALL.highest))

    def _join_versions(self, newer: Versions, older: Versions) -> Versions:
        low, high = older.intersect(self.low), self._remove_older_versions(newer)
        if low.is_empty or high.is_empty:
            return high if low.is_empty else low
        if low.highest + 1 != high.lowest:
            raise SpecError(
                f"{self.newer.name}: there is a gap between the older release's versions {low} "
                f"and the newer release's versions {high}"
            )
        return Versions(low.lowest, high.highest)
