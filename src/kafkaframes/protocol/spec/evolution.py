"""Check the compatibility of a changed message spec, or of a changed set of specs, with its predecessor.

The rules are taken from KIP-482, "Tagged Fields and Version Compatibility".

Every version that both specs have is laid out and compared slot by slot. A change is judged by its effect on the
bytes and not by the text of the JSON. Tags are compared across all versions in a ledger. Kafka's own checker pairs
fields by position and compares texts; ``docs/spec-evolution.md`` explains the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkaframes.protocol.spec.changes import EVOLUTION_RULES, SEVERITY_BY_VERDICT, SpecChange, Verdict, format_versions
from kafkaframes.protocol.spec.layout import FieldSlot, list_slots
from kafkaframes.protocol.spec.model import RPC_TYPES, FieldSpec, MessageSpec, StructSpec

Path = tuple[str, ...]


def compare_messages(old: MessageSpec, new: MessageSpec, *, is_unstable: bool | None = None) -> list[SpecChange]:
    """Return every change from one spec of a message to the next, most severe first.

    Args:
        is_unstable: whether the highest version of ``old`` is unreleased. Only request specs contain this, so it must
            be specified for a response. The default is the value in ``old``.
    """
    return _SpecComparison(
        old, new, old.latest_version_unstable if is_unstable is None else is_unstable
    ).compare_specs()


@dataclass(slots=True)
class _SpecComparison:
    """A comparison of two specs of one message.

    A change is reported once, with its versions: the keys of ``versions_by_change`` are (rule, path, text).
    """

    old: MessageSpec
    new: MessageSpec
    is_unstable: bool
    versions_by_change: dict[tuple[str, Path, str], list[int]] = field(default_factory=dict)
    new_paths: dict[Path, Path] = field(default_factory=dict)

    def compare_specs(self) -> list[SpecChange]:
        """Return all changes between the two specs."""
        if self._is_new_convention():
            self._add_change("record-convention", (), f"type {self.old.type} is now {self.new.type} {self.new.api_key}")
            self._compare_slots(list_slots(self.old, self.new.api_key or 0), list_slots(self.new, 0), (), 0)
            return self._list_changes()
        self._compare_identity()
        self._compare_valid_versions()
        for version in self._common_versions():
            self._compare_version(version)
        self._compare_tags()
        self._compare_fields()
        return self._list_changes()

    def _add_change(self, rule: str, path: Path, text: str, version: int | None = None) -> None:
        versions = self.versions_by_change.setdefault((rule, path, text), [])
        if version is not None:
            versions.append(version)

    def _list_changes(self) -> list[SpecChange]:
        findings = [
            self._make_change(EVOLUTION_RULES[rule].name, path, text, at)
            for (rule, path, text), at in self.versions_by_change.items()
        ]
        return sorted(findings, key=lambda finding: -SEVERITY_BY_VERDICT[finding.verdict])

    def _make_change(self, rule: str, path: Path, text: str, versions: list[int]) -> SpecChange:
        verdict: Verdict = EVOLUTION_RULES[rule].verdict
        unreleased_version = self.old.valid_versions.highest if self.is_unstable else None
        if verdict == "breaking" and versions and set(versions) == {unreleased_version}:
            verdict, text = "note", f"{text} (the version is unstable: not released yet)"
        return SpecChange(EVOLUTION_RULES[rule], self.new.name, path, format_versions(versions), text, verdict)

    # ---- the message as a whole -----------------------------------------------------------------------------------

    def _is_new_convention(self) -> bool:
        """Whether a record key changed from type data, with its record type as version, to coordinator-key."""
        old, new = self.old, self.new
        return old.type == "data" and new.type == "coordinator-key" and old.valid_versions.contains(new.api_key or 0)

    def _compare_identity(self) -> None:
        """Compare the message type, API key, name, listeners and stability."""
        old, new = self.old, self.new
        is_new_value = old.type == "data" and new.type == "coordinator-value"
        if is_new_value:
            self._add_change("record-convention", (), f"type data is now coordinator-value {new.api_key}")
        elif old.type != new.type:
            self._add_change("message-type", (), f"type {old.type} is now {new.type}")
        if old.api_key != new.api_key and not is_new_value:
            self._add_change("api-key", (), f"apiKey {old.api_key} is now {new.api_key}")
        if old.name != new.name:
            self._add_change("message-renamed", (), f"{old.name} is now {new.name}")
        if set(old.listeners) != set(new.listeners) and not new.is_removed:
            self._add_change("listeners", (), f"listeners {_words(old.listeners)} are now {_words(new.listeners)}")
        if new.latest_version_unstable and new.latest_stable_version < old.latest_stable_version:
            self._add_change("stability", (), f"version {old.latest_stable_version} was stable and is unstable now")

    def _compare_valid_versions(self) -> None:
        old, new = self.old.valid_versions, self.new.valid_versions
        if old.is_empty or new.is_empty:
            if not old.is_empty:
                self._add_change("api-removed", (), f"versions {old} were removed")
            return
        if new.highest < old.highest:
            self._compare_span("versions-lowered", "the highest version is lower", new.highest + 1, old.highest)
        if new.highest > old.highest:
            self._compare_span("versions-added", "new versions", max(old.highest + 1, new.lowest), new.highest)
        if new.lowest < old.lowest:
            self._compare_span("versions-below", "the lowest version is lower", new.lowest, old.lowest - 1)
        if new.lowest > old.lowest:
            self._compare_span(
                "versions-removed", "the lowest versions were removed", old.lowest, min(new.lowest - 1, old.highest)
            )

    def _compare_span(self, rule: str, text: str, low: int, high: int) -> None:
        """Report a change for each version from ``low`` to ``high``."""
        for version in range(low, high + 1):
            self._add_change(rule, (), text, version)

    def _common_versions(self) -> Iterator[int]:
        yield from self.old.valid_versions.intersect(self.new.valid_versions)

    # ---- one version ----------------------------------------------------------------------------------------------

    def _compare_version(self, version: int) -> None:
        """Compare the layouts of one version that both specs have."""
        old, new = self.old, self.new
        if old.is_flexible(version) != new.is_flexible(version):
            words = ("inflexible", "flexible")
            text = f"{words[old.is_flexible(version)]} is now {words[new.is_flexible(version)]}"
            self._add_change("flexibility", (), text, version)
            return  # every length differs and would be reported
        if old.type in RPC_TYPES and new.type in RPC_TYPES:
            before, after = old.header_version(version), new.header_version(version)
            if before != after:
                self._add_change("header-version", (), f"header {before} is now {after}", version)
        self._compare_slots(list_slots(old, version), list_slots(new, version), (), version)

    def _compare_slots(self, old: tuple[FieldSlot, ...], new: tuple[FieldSlot, ...], path: Path, version: int) -> None:
        """Compare the slots of a struct: untagged slots by name and order, tagged slots by number."""
        before = {slot.name: slot for slot in old if slot.tag is None}
        after = {slot.name: slot for slot in new if slot.tag is None}
        self._pair_renamed(before, after, path, version)
        for name, slot in before.items():
            if name not in after:
                self._report_removed(slot, new, (*path, name), version)
            else:
                self._compare_slot(slot, after[name], (*path, name), version)
        for name in after.keys() - before.keys():
            self._report_added(after[name], old, (*path, name), version)
        old_order = [name for name in before if name in after]
        new_order = [name for name in after if name in before]
        if old_order != new_order:
            self._add_change(
                "field-order", path, f"order {', '.join(old_order)} is now {', '.join(new_order)}", version
            )
        tagged_slots = {slot.tag: slot for slot in new if slot.tag is not None}
        for slot in old:
            if slot.tag is not None and slot.tag in tagged_slots:
                self._compare_children(slot, tagged_slots[slot.tag], (*path, slot.name), version)

    def _pair_renamed(
        self, before: dict[str, FieldSlot], after: dict[str, FieldSlot], path: Path, version: int
    ) -> None:
        """Report fields that differ only in their names, and continue with their new names."""
        removed_names, added_names = before.keys() - after.keys(), after.keys() - before.keys()
        positions = list(zip(before, after, strict=False))
        pairs = [
            (old_name, new_name)
            for old_name, new_name in positions
            if old_name in removed_names and new_name in added_names
        ]
        if not removed_names or len(before) != len(after) or len(pairs) != len(removed_names):
            return
        if any(_wire_shape(before[old_name]) != _wire_shape(after[new_name]) for old_name, new_name in pairs):
            return
        names = dict(pairs)
        for old_name, new_name in pairs:
            self.new_paths[*path, old_name] = (*path, new_name)
            self._add_change("field-renamed", (*path, new_name), f"{old_name} is now {new_name}", version)
        slots = [(names.get(name, name), slot) for name, slot in before.items()]
        before.clear()
        before.update(slots)

    def _report_removed(self, slot: FieldSlot, new: tuple[FieldSlot, ...], path: Path, version: int) -> None:
        """Report a field that is missing in this version of the new spec."""
        if any(candidate.name == slot.name for candidate in new):
            self._add_change("became-tagged", path, "the field was mandatory in this version", version)
        else:
            self._add_change("field-removed", path, f"{slot.type} was removed", version)

    def _report_added(self, slot: FieldSlot, old: tuple[FieldSlot, ...], path: Path, version: int) -> None:
        """Report a field that is new in this version of the new spec."""
        if any(candidate.name == slot.name for candidate in old):
            self._add_change("became-mandatory", path, "the field was tagged in this version", version)
        else:
            self._add_change("field-added", path, f"{slot.type} was not in this version", version)

    def _compare_slot(self, old: FieldSlot, new: FieldSlot, path: Path, version: int) -> None:
        if old.is_nullable != new.is_nullable:
            words = ("not nullable", "nullable")
            self._add_change(
                "field-nullable", path, f"{words[old.is_nullable]} is now {words[new.is_nullable]}", version
            )
        if _remove_struct_names(old) != _remove_struct_names(new):
            self._compare_type(old, new, path, version)
            return
        if old.is_compact != new.is_compact:
            self._add_change("field-compact", path, "the length changes its encoding", version)
        self._compare_children(old, new, path, version)

    def _compare_children(self, old: FieldSlot, new: FieldSlot, path: Path, version: int) -> None:
        if old.type.is_struct and new.type.is_struct:
            if old.type.name != new.type.name:
                self._add_change("struct-renamed", path, f"struct {old.type.name} is now {new.type.name}", version)
            self._compare_slots(old.children, new.children, path, version)

    def _compare_type(self, old: FieldSlot, new: FieldSlot, path: Path, version: int) -> None:
        text = f"{old.type} is now {new.type}"
        inflexible = not self.new.is_flexible(version)
        if {_remove_struct_names(old), _remove_struct_names(new)} == {"bytes", "records"}:
            self._add_change("records-are-bytes", path, text, version)
        elif inflexible and (_is_wrapped_in_struct(old, new) or _is_wrapped_in_struct(new, old)):
            self._add_change("array-of-struct", path, text, version)
        else:
            self._add_change("field-type", path, text, version)

    # ---- across all versions --------------------------------------------------------------------------------------

    def _compare_tags(self) -> None:
        """Check that every tag keeps its number, name, type, nullability and versions."""
        if self.new.is_removed:
            return
        after = dict(list_tags(self.new))
        for (path, tag), before in list_tags(self.old):
            now = self._translate_path(path)
            struct = find_struct(self.new, now)
            if struct is None:
                continue  # the struct was removed, which the layout comparison reports
            successor = after.get((now, tag))
            if successor is None or successor.name.lower() != before.name.lower():
                self._report_lost_tag(before, successor, struct, now)
                continue
            if successor.name != before.name:
                self._add_change("field-renamed", (*now, successor.name), f"{before.name} is now {successor.name}")
                self.new_paths[*now, before.name] = (*now, successor.name)
            self._compare_tag(before, successor, (*now, successor.name))
        self._report_added_tags(after)

    def _report_lost_tag(
        self, old_field: FieldSpec, successor: FieldSpec | None, struct: StructSpec, path: Path
    ) -> None:
        new_tag = next((field.tag for field in struct.fields if field.name == old_field.name), None)
        if new_tag is not None:
            self._add_change("tag-moved", (*path, old_field.name), f"tag {old_field.tag} is now {new_tag}")
        elif successor is not None:
            self._add_change("tag-reused", (*path, successor.name), f"tag {old_field.tag} belonged to {old_field.name}")
        else:
            self._add_change("tag-removed", (*path, old_field.name), f"tag {old_field.tag} is no longer declared")

    def _compare_tag(self, old: FieldSpec, new: FieldSpec, path: Path) -> None:
        if (old.type.is_struct, old.type.is_array) != (new.type.is_struct, new.type.is_array) or (
            old.type.name != new.type.name and not old.type.is_struct
        ):
            self._add_change("tag-type", path, f"{old.type} is now {new.type}")
        nullable = [not field.nullable_versions.intersect(field.tagged_versions).is_empty for field in (old, new)]
        if nullable[0] != nullable[1]:
            words = ("not nullable", "nullable")
            self._add_change("tag-nullable", path, f"{words[nullable[0]]} is now {words[nullable[1]]}")
        for version in self._common_versions():
            if old.is_tagged(version) and not new.is_present(version):
                self._add_change("tag-narrowed", path, "the tag is no longer valid in this version", version)

    def _report_added_tags(self, after: dict[tuple[Path, int], FieldSpec]) -> None:
        before = {(self._translate_path(path), tag) for (path, tag), _ in list_tags(self.old)}
        for (path, tag), member in after.items():
            if (path, tag) not in before:
                for version in self._common_versions():
                    if member.is_tagged(version):
                        self._add_change(
                            "tagged-added", (*path, member.name), f"tag {tag} of type {member.type} is new", version
                        )

    def _compare_fields(self) -> None:
        """Compare the properties that all versions of a field share: default, ignorable, mapKey."""
        after = dict(walk_fields(self.new))
        for path, old in walk_fields(self.old):
            new = after.get(self._translate_path(path))
            if new is None or old.versions.intersect(self.old.valid_versions).is_empty or self.new.is_removed:
                continue
            now = self._translate_path(path)
            if _make_comparable_default(old) != _make_comparable_default(new) and _remove_struct_names(
                old
            ) == _remove_struct_names(new):
                is_safe = self._is_harmless(old, new) and self._is_carried(path, now)
                rule = "default-to-null" if is_safe else "default-changed"
                self._add_change(rule, now, f"default {_text(old)} is now {_text(new)}")
            if old.ignorable != new.ignorable:
                self._add_change("ignorable", now, "now refused" if old.ignorable else "now dropped")
            if old.map_key != new.map_key:
                self._add_change("map-key", now, "is no longer a key" if old.map_key else "is a key now")

    def _is_harmless(self, old: FieldSpec, new: FieldSpec) -> bool:
        """Whether a default has changed from empty text or bytes to null, neither of which carries information."""
        return not old.type.is_array and old.default in ("", b"") and new.default is None

    def _is_carried(self, before: Path, after: Path) -> bool:
        """Whether all common versions contain the field, so that no reader ever needs its default."""
        versions = list(self._common_versions())
        return is_carried(self.old, before, versions) and is_carried(self.new, after, versions)

    def _translate_path(self, path: Path) -> Path:
        """Return a path of the old spec with the new spec's names."""
        for length in range(1, len(path) + 1):
            if path[:length] in self.new_paths:
                path = (*self.new_paths[path[:length]], *path[length:])
        return path


# ---- helpers --------------------------------------------------------------------------------------------------


def walk_fields(message: MessageSpec) -> Iterator[tuple[Path, FieldSpec]]:
    """Yield every declared field with its path, parents first; a recursive struct is visited once."""
    yield from _walk_fields(message, message.struct, (), (message.struct.name,))


def _walk_fields(
    message: MessageSpec, struct: StructSpec, path: Path, within: Path
) -> Iterator[tuple[Path, FieldSpec]]:
    for member in struct.fields:
        yield (*path, member.name), member
        if member.type.is_struct and member.type.name not in within:
            yield from _walk_fields(
                message, message.struct_of(member), (*path, member.name), (*within, member.type.name)
            )


def list_tags(message: MessageSpec) -> Iterator[tuple[tuple[Path, int], FieldSpec]]:
    """Yield ((path of the struct, tag), field) for every tag in a spec's history."""
    for path, member in walk_fields(message):
        if member.tag is not None:
            yield (path[:-1], member.tag), member


def is_carried(message: MessageSpec, path: Path, versions: Iterable[int]) -> bool:
    """Return whether a field is untagged and present in every struct of these versions that can contain it.

    A struct in an array is present if the array is present. A single struct that a version lacks, or that is tagged, is
    read as a struct of defaults if it is absent.
    """
    struct = message.struct
    *parents, name = path
    for parent in parents:
        member = struct.field(parent)
        if member.type.is_array or member.default is None:
            versions = [version for version in versions if member.is_present(version)]
        elif not _stands(member, versions):
            return False
        struct = message.struct_of(member)
    return _stands(struct.field(name), versions)


def _stands(field_spec: FieldSpec, versions: Iterable[int]) -> bool:
    return all(field_spec.is_present(version) and not field_spec.is_tagged(version) for version in versions)


def find_struct(message: MessageSpec, path: Path) -> StructSpec | None:
    """Return the struct at a path of field names; ``None`` if the path does not exist."""
    struct = message.struct
    for name in path:
        inner = next((member for member in struct.fields if member.name == name and member.type.is_struct), None)
        if inner is None:
            return None
        struct = message.struct_of(inner)
    return struct


def _remove_struct_names(field_type: FieldSlot | FieldSpec) -> str:
    """Return the type as text, with ``struct`` for the name of a struct."""
    return ("[]" if field_type.type.is_array else "") + (
        "struct" if field_type.type.is_struct else field_type.type.name
    )


def _wire_shape(slot: FieldSlot) -> tuple[object, ...]:
    """Return all properties of a slot that affect the wire format; bytes and records have the same encoding."""
    kind = "bytes" if _remove_struct_names(slot) == "records" else _remove_struct_names(slot)
    return kind, slot.is_nullable, slot.is_compact, slot.tag, tuple(map(_wire_shape, slot.children))


def _is_wrapped_in_struct(structs: FieldSlot, plain: FieldSlot) -> bool:
    """Return whether ``structs`` is an array of structs whose only field has the element type of ``plain``."""
    children = structs.children
    return (
        structs.type.is_array
        and plain.type.is_array
        and len(children) == 1
        and not plain.type.is_struct
        and children[0].type.name == plain.type.name
        and not children[0].type.is_array
        and not children[0].is_nullable
    )


def _make_comparable_default(field_spec: FieldSpec) -> object:
    value = field_spec.default
    return "NaN" if value != value else value  # makes NaN defaults equal


def _text(field_spec: FieldSpec) -> str:
    return "null" if field_spec.default is None else repr(field_spec.default) if field_spec.default != () else "empty"


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(sorted(names)) or "none"


def compare_sets(old: Mapping[str, MessageSpec], new: Mapping[str, MessageSpec]) -> Iterator[SpecChange]:
    """Yield every change from one set of specs (by name) to the next, message by message.

    A removed message counts as renamed if a new message has the same type and API key.
    """
    new_names = dict(_pair_messages(old, new))
    unstable = {spec.api_key for spec in old.values() if spec.type == "request" and spec.latest_version_unstable}
    for name, before in sorted(old.items()):
        after = new.get(new_names.get(name, name))
        if after is not None:
            is_unstable = before.type in RPC_TYPES and before.api_key in unstable
            yield from compare_messages(before, after, is_unstable=is_unstable)
        elif not before.is_removed:
            yield _finding(
                "message-gone", name, f"{before.type} {before.api_key if before.api_key is not None else ''}"
            )
    for name in sorted(new.keys() - old.keys() - set(new_names.values())):
        yield _finding("message-added", name, f"{new[name].type} with versions {new[name].valid_versions}")
    yield from find_unpaired_versions(new.values())


def find_unpaired_versions(specs: Iterable[MessageSpec]) -> Iterator[SpecChange]:
    """Yield the APIs with different versions of request and response."""
    halves: dict[tuple[int, str], MessageSpec] = {}
    for spec in specs:
        if spec.type in RPC_TYPES and spec.api_key is not None:
            halves[spec.api_key, spec.type] = spec
    for (key, kind), request in sorted(halves.items(), key=lambda item: item[0]):
        response = halves.get((key, "response"))
        if kind != "request" or response is None:
            continue
        for key_name, request_versions, response_versions in (
            ("validVersions", request.valid_versions, response.valid_versions),
            ("flexibleVersions", request.flexible_versions, response.flexible_versions),
        ):
            if request_versions != response_versions and not request.is_removed:
                text = f"{key_name} {request_versions}, but {response.name} has {response_versions}"
                yield _finding("pair-versions", request.name, text)


def _pair_messages(old: Mapping[str, MessageSpec], new: Mapping[str, MessageSpec]) -> Iterator[tuple[str, str]]:
    """Yield (old name, new name) if a removed message's key and type belong to a new message."""
    added_names: dict[tuple[str, int], list[str]] = {}
    for name in new.keys() - old.keys():
        key = new[name].api_key
        if key is not None:
            added_names.setdefault((new[name].type, key), []).append(name)
    for name in old.keys() - new.keys():
        key = old[name].api_key
        candidates = added_names.get((old[name].type, key), []) if key is not None else []
        if len(candidates) == 1 and old[name].type in RPC_TYPES:
            yield name, candidates[0]


def _finding(rule: str, message: str, text: str) -> SpecChange:
    return SpecChange(EVOLUTION_RULES[rule], message, (), "", text.strip(), EVOLUTION_RULES[rule].verdict)
