"""Merge the specs of two releases: all versions of both, each with the layout of its newest release.

Fields are matched by name within their struct. A renamed field becomes two fields with disjoint versions. The result is
checked: if a version's layout differs from its source, a SpecError names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.layout import Slot, layout
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.protocol.spec.versions import Versions


def merge_older(newer: MessageSpec, older: MessageSpec) -> MessageSpec:
    """Return ``newer`` with the additional versions of ``older``.

    Raises:
        SpecError: the additional versions are not directly below the newer ones, or one struct cannot express both
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
    merged_spec = _Merge(newer, older, missing, valid).run()
    for version in merged_spec.valid_versions:
        source = older if missing.contains(version) else newer
        if not _same(layout(merged_spec, version), layout(source, version)) or _flexible(merged_spec, source, version):
            raise SpecError(f"{newer.name}: version {version} cannot be described together with the newer ones")
    return merged_spec


def _flexible(merged_spec: MessageSpec, source: MessageSpec, version: int) -> bool:
    return merged_spec.is_flexible(version) != source.is_flexible(version)


def _same(first: tuple[Slot, ...], other: tuple[Slot, ...]) -> bool:
    """Return whether two layouts write the same bytes for the same JSON. Names of structs may differ."""
    return len(first) == len(other) and all(
        (a.name, a.type.is_array, a.is_nullable, a.is_compact, a.tag) == (b.name, b.type.is_array, *_rest(b))
        and (a.type.is_struct or a.type == b.type)
        and _same(a.children, b.children)
        for a, b in zip(first, other, strict=True)
    )


def _rest(slot: Slot) -> tuple[bool, bool, int | None]:
    return slot.is_nullable, slot.is_compact, slot.tag


@dataclass(slots=True)
class _Merge:
    """The merge of one pair; ``low`` are the older spec's versions, ``high`` the newer's."""

    newer: MessageSpec
    older: MessageSpec
    low: Versions
    high: Versions
    structs: dict[str, StructSpec] = field(default_factory=dict)

    def run(self) -> MessageSpec:
        top = self._struct(self.newer.struct, self.older.struct, self.newer.name)
        order = [name for name in (*self.newer.structs, *self.structs) if name in self.structs]
        return replace(
            self.newer,
            struct=replace(top, versions=Versions(self.low.lowest, self.high.highest)),
            structs={name: self.structs[name] for name in order},
            flexible_versions=self._join(self.newer.flexible_versions, self.older.flexible_versions),
        )

    def _struct(self, newer: StructSpec, older: StructSpec, name: str) -> StructSpec:
        fields = tuple(self._fields(newer, older))
        return StructSpec(name, self._join(newer.versions, older.versions), fields, newer.is_common)

    def _fields(self, newer: StructSpec, older: StructSpec) -> Iterator[FieldSpec]:
        """Yield the newer fields in order, each with the removed fields that follow it in the older spec."""
        names = {one.name for one in newer.fields}
        waiting: dict[str | None, list[FieldSpec]] = {}
        previous: str | None = None
        for member in older.fields:
            if member.name in names:
                previous = member.name
            elif not member.versions.intersect(self.low).is_empty:
                waiting.setdefault(previous, []).append(member)
        yield from map(self._limit_to_older, waiting.get(None, ()))
        before = {one.name: one for one in older.fields}
        for member in newer.fields:
            yield self._pair(member, before[member.name]) if member.name in before else self._new(member)
            yield from map(self._limit_to_older, waiting.get(member.name, ()))

    def _pair(self, newer: FieldSpec, older: FieldSpec) -> FieldSpec:
        if newer.type.is_struct and older.type.is_struct:
            name = newer.type.name
            if name not in self.structs:
                self.structs[name] = self._struct(self.newer.structs[name], self.older.structs[older.type.name], name)
        only_older_lack_it = newer.versions.covers(self.high) and not older.versions.covers(self.low)
        return replace(
            newer,
            ignorable=older.ignorable if only_older_lack_it else newer.ignorable,
            versions=self._join(newer.versions, older.versions),
            nullable_versions=self._join(newer.nullable_versions, older.nullable_versions),
        )

    def _new(self, field_spec: FieldSpec) -> FieldSpec:
        """Return a field that the older spec lacks, limited to the newer versions."""
        self._keep(self.newer, field_spec)
        return replace(
            field_spec,
            versions=self._high(field_spec.versions),
            nullable_versions=self._high(field_spec.nullable_versions),
        )

    def _limit_to_older(self, field_spec: FieldSpec) -> FieldSpec:
        """Return a field that the newer spec lacks, limited to the older versions."""
        self._keep(self.older, field_spec)
        versions, nullable = field_spec.versions.intersect(self.low), field_spec.nullable_versions.intersect(self.low)
        return replace(field_spec, versions=versions, nullable_versions=nullable)

    def _keep(self, source: MessageSpec, field_spec: FieldSpec) -> None:
        if field_spec.type.is_struct and field_spec.type.name not in self.structs:
            self.structs[field_spec.type.name] = source.struct_of(field_spec)
            for inner in source.struct_of(field_spec).fields:
                self._keep(source, inner)

    def _high(self, versions: Versions) -> Versions:
        """Remove the versions below the newer spec's."""
        return versions.intersect(Versions(self.high.lowest, Versions.ALL.highest))

    def _join(self, newer: Versions, older: Versions) -> Versions:
        low, high = older.intersect(self.low), self._high(newer)
        if low.is_empty or high.is_empty:
            return high if low.is_empty else low
        if low.highest + 1 != high.lowest:
            raise SpecError(f"{self.newer.name}: {low} of the older release and {high} of the newer leave a gap")
        return Versions(low.lowest, high.highest)
