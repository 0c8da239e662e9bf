"""The rules of Kafka's generator: what is refused, why, and how to mend it; here those about a message as a whole.

Each ``Rule`` judges one declaration (field, struct or message) and yields nothing or a reason. A spec is accepted when
no rule speaks. Those about fields are in ``rules_fields.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.declared import FieldDecl, MessageDecl, StructDecl
from kafkaframes.protocol.spec.model import RPC_TYPES
from kafkaframes.protocol.spec.rules_fields import (
    FIELD_RULES,
    STRUCT_RULES,
    Message,
    Rule,
    Spoken,
    Violation,
    judge,
    registry,
)
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

MOST_SLOTS: Final = 10_000
MOST_SLOTS_OF_ALL: Final = 1_000_000


def _flexible_is_declared(declared: MessageDecl, _message: Message) -> Iterator[str]:
    if declared.flexible_versions is None and not declared.struct.versions.is_empty:
        yield 'flexibleVersions is missing: a new message says "0+", an old inflexible one "none"'


def _flexible_open(declared: MessageDecl, message: Message) -> Iterator[str]:
    flexible = message.flexible_versions
    if not flexible.is_empty and not flexible.is_open:
        yield f'flexibleVersions {flexible} must be none or open, such as "{flexible.lowest}+"'


def _listeners(declared: MessageDecl, _message: Message) -> Iterator[str]:
    if declared.listeners and declared.type != "request":
        yield f"listeners are for requests; this is a {declared.type}"


def _unstable(declared: MessageDecl, _message: Message) -> Iterator[str]:
    if declared.latest_version_unstable and declared.type != "request":
        yield f"latestVersionUnstable is for requests (it holds for the response too); this is a {declared.type}"


def _valid_bounded(declared: MessageDecl, _message: Message) -> Iterator[str]:
    if declared.struct.versions.is_open:
        yield f"validVersions {declared.struct.versions} must end: write the highest version"


def _valid_none(declared: MessageDecl, _message: Message) -> Iterator[str]:
    if declared.struct.versions.is_empty and declared.struct.fields:
        yield 'validVersions has no version: write such as "0-3" (or "none" without fields for a removed API)'


def _top_level_keys(declared: MessageDecl, _message: Message) -> Iterator[Spoken]:
    for field in declared.struct.fields:
        if field.map_key:
            yield "mapKey at the top level: only fields of a struct in an array can be keys", field


def _coordinator(declared: MessageDecl, message: Message) -> Iterator[str]:
    if not declared.type.startswith("coordinator-"):
        return
    if declared.api_key is None:
        yield f"a {declared.type} needs an apiKey: the record type"
    if declared.type == "coordinator-key":
        if declared.struct.versions != Versions(0, 0):
            yield "a coordinator-key has validVersions 0: a new layout is a new record type"
        if not message.flexible_versions.is_empty:
            yield "a coordinator-key has flexibleVersions none"


def _header_versions(declared: MessageDecl, _message: Message) -> Iterator[str]:
    if declared.header_versions is None:
        return
    if declared.type not in RPC_TYPES or declared.struct.versions.is_empty:
        yield f"headerVersions are for requests and responses with valid versions; this is a {declared.type}"
        return
    try:
        rows = sorted(((Versions.parse(text), header) for text, header in declared.header_versions), key=_lowest)
    except SpecError as error:
        yield f"headerVersions: {error.reason}"
        return
    yield from _header_rows(rows, declared.struct.versions)
    yield from _header_numbers(rows, declared)


def _lowest(row: tuple[Versions, str]) -> int:
    return row[0].lowest


def _header_rows(rows: list[tuple[Versions, str]], valid: Versions) -> Iterator[str]:
    expected = 0
    for versions, header in rows:
        if versions.is_empty or versions.lowest != expected:
            yield f"headerVersions: the range {versions} should start at {expected}: no gap, no overlap, from 0 on"
        if not _HEADER.fullmatch(header.strip()) or int(header) > MAX_VERSION:
            yield f"headerVersions: {header!r} is no header version"
        if versions.lowest > valid.highest:
            yield f"headerVersions: the range {versions} starts above the valid versions {valid}"
        expected = versions.highest + 1
    if not rows or not rows[-1][0].is_open:
        yield "headerVersions: the last range must be open, such as 2+"


def _header_numbers(rows: list[tuple[Versions, str]], declared: MessageDecl) -> Iterator[str]:
    """KAFKA-20923's further rules: headers do not go back, flexible bodies have flexible headers, ApiVersions has 0."""
    numbers = [(versions, int(header)) for versions, header in rows if _HEADER.fullmatch(header.strip())]
    if declared.api_key == 18 and declared.type == "response":
        if any(header for _, header in numbers):
            yield "headerVersions: every version of ApiVersionsResponse has header 0 (KIP-511)"
        return
    if any(after < before for (_, before), (_, after) in pairwise(numbers)):
        yield "headerVersions: a header version never goes down"
    first_flexible = 2 if declared.type == "request" else 1
    flexible = declared.struct.versions.intersect(declared.flexible_versions or Versions.NONE)
    for versions, header in numbers:
        if header < first_flexible and not flexible.intersect(versions).is_empty:
            yield f"headerVersions: header {header} is inflexible, but versions {versions} have flexible bodies"


def _array_of_records(declared: MessageDecl, message: Message) -> Iterator[Spoken]:
    """In versions that its struct does not have, the generator never comes to see the field."""
    for struct in (declared.struct, *declared.common_structs):
        yield from _record_arrays(struct.fields, struct.versions, message)


def _record_arrays(fields: tuple[FieldDecl, ...], parents: Versions, message: Message) -> Iterator[Spoken]:
    for field in fields:
        shared = parents.intersect(field.versions)
        if shared.is_empty:
            continue
        if field.type.is_array and field.type.name == "records":
            yield "there are no arrays of records: use an array of structs with a records field", field
        elif field.type.name in message.structs and not message.structs[field.type.name].is_common:
            yield from _record_arrays(field.fields, shared, message)


def _inline_in_common(declared: MessageDecl, message: Message) -> Iterator[Spoken]:
    """The generator registers inline structs of the message's fields only, but looks all of them up."""
    for common in declared.common_structs:
        for field in _all_fields(common.fields):
            if field.type.is_struct and field.type.name not in message.structs:
                yield f"struct {field.type.name}, used in common struct {common.name}, must be common too", field


def _all_fields(fields: tuple[FieldDecl, ...]) -> Iterator[FieldDecl]:
    for field in fields:
        yield field
        if field.type.is_struct:
            yield from _all_fields(field.fields)


def _struct_versions(declared: MessageDecl, message: Message) -> Iterator[Spoken]:
    """Each struct must have versions in common with its parents; a common one that nobody uses need not."""
    valid = declared.struct.versions
    if valid.is_empty:
        return
    for common in declared.common_structs:
        yield from _inline_versions(common.fields, common.versions.intersect(valid), message)
    yield from _inline_versions(declared.struct.fields, valid, message)


def _inline_versions(fields: tuple[FieldDecl, ...], parents: Versions, message: Message) -> Iterator[Spoken]:
    for field in fields:
        struct = message.structs.get(field.type.name)
        if struct is None or struct.is_common:
            continue
        shared = parents.intersect(struct.versions)
        if shared.is_empty:
            yield (
                f"{field.name} ({struct.versions}) is a struct that is in no version of its parents ({parents})",
                field,
            )
        else:
            yield from _inline_versions(field.fields, shared, message)


def _schema_gaps(declared: MessageDecl, message: Message) -> Iterator[Spoken]:
    """A common struct must be declared, and not by itself, for every version in which a field uses it."""
    made: dict[str, Versions] = {}
    done: set[str] = set()
    for common in declared.common_structs:
        yield from _schemas(common, declared.struct.versions, message, made, done)
    yield from _schemas(declared.struct, declared.struct.versions, message, made, done)


def _schemas(
    struct: StructDecl, parents: Versions, message: Message, made: dict[str, Versions], done: set[str]
) -> Iterator[Spoken]:
    """Retrace the schema step: structs in order of first use, each for its first user's versions."""
    if struct.name in made:
        return
    versions = made[struct.name] = parents.intersect(struct.versions)
    used = [(one, message.structs[one.type.name]) for one in struct.fields if one.type.name in message.structs]
    for _, inner in used:
        yield from _schemas(inner, versions, message, made, done)
    for field, inner in used:
        needed = versions.intersect(field.versions)
        if needed.is_empty:
            continue
        if inner is struct and versions.lowest < needed.lowest and not _is_used(struct, message):
            continue  # the generator has a schema of an older version to name, and nobody lays this one out
        if inner.name not in done:
            yield f"struct {inner.name} contains itself: break the circle with a bytes field", field
        elif made[inner.name].is_empty or made[inner.name].lowest > needed.lowest:
            yield f"{field.name} needs struct {inner.name} in {needed}, but it is declared for {inner.versions}", field
    done.add(struct.name)


def _is_used(struct: StructDecl, message: Message) -> bool:
    """Tell whether a common struct is a field's type somewhere but in itself."""
    others = [one for one in message.structs.values() if one is not struct]
    fields = (one for owner in (message.declared.struct, *others) for one in owner.fields)
    return any(one.type.name == struct.name for one in fields)


def _expansion(declared: MessageDecl, message: Message) -> Iterator[str]:
    """Structs are laid out wherever they are used: forty that each use the next twice are 2^40 fields."""
    slots = _slots(declared.struct, message, {})
    versions = declared.struct.versions
    count = max(versions.highest - versions.lowest + 1, 1)
    if slots > MOST_SLOTS:
        yield f"its structs, each laid out where it is used, are more than {MOST_SLOTS} fields: this program's limit"
    elif slots * count > MOST_SLOTS_OF_ALL and not versions.is_open:
        yield f"{slots} fields in {count} versions are more than {MOST_SLOTS_OF_ALL} to lay out: this program's limit"


def _slots(struct: StructDecl, message: Message, known: dict[str, int]) -> int:
    """Count the fields of a struct and of those in it, up to a little more than the limit; a circle counts as none."""
    known[struct.name] = 0
    total = 0
    for field in struct.fields:
        inner = message.structs.get(field.type.name)
        if inner is not None and inner.name not in known:
            _slots(inner, message, known)
        total = min(total + 1 + (known[inner.name] if inner is not None else 0), MOST_SLOTS + 1)
    known[struct.name] = total
    return total


MESSAGE_RULES: tuple[Rule[MessageDecl], ...] = (
    Rule("flexible-given", "KIP-482: the flexible versions must be specified in each JSON file", _flexible_is_declared),
    Rule("flexible-open", "KIP-482: a version never turns inflexible again", _flexible_open, "flexibleVersions"),
    Rule("listeners-of-request", "MessageSpec: only requests arrive at listeners", _listeners, "listeners"),
    Rule("unstable-of-request", "MessageSpec: stability is said once for an API", _unstable, "latestVersionUnstable"),
    Rule("valid-bounded", "MessageDataGenerator: there is a highest version", _valid_bounded, "validVersions"),
    Rule("valid-not-empty", "a message has a version, or is removed whole", _valid_none, "validVersions"),
    Rule("no-top-level-key", "MessageDataGenerator: keys are for collections", _top_level_keys),
    Rule("coordinator-record", "MessageSpec: types coordinator-key and coordinator-value", _coordinator),
    Rule("header-versions", "KIP-1313: every body version has one header version", _header_versions, "headerVersions"),
    Rule("array-of-records", "the generator has no code for it", _array_of_records),
    Rule("inline-in-common", "StructRegistry: structs of common structs are common", _inline_in_common),
    Rule("struct-versions", "VersionConditional: some version must have the struct", _struct_versions),
    Rule("struct-covers-use", "SchemaGenerator: a struct exists wherever it is used", _schema_gaps),
    Rule("expansion", "ours, not Kafka's: its largest message has a hundred fields", _expansion),
)

_HEADER = re.compile(r"[+]?[0-9]{1,5}", re.ASCII)


__all__ = ["FIELD_RULES", "MESSAGE_RULES", "STRUCT_RULES", "violations"]

_RULES_WITHOUT_CODE = tuple(rule for rule in FIELD_RULES if not rule.of_generated)


def violations(declared: MessageDecl) -> Iterator[Violation]:
    """Yield everything that Kafka's generator would refuse in a declaration, the most local first."""
    structs, wrong = registry(declared)
    message = Message(declared, structs)
    for owner in (declared.struct, *declared.common_structs):
        yield from _judge_fields(owner.fields, message)
    for struct in (declared.struct, *declared.common_structs, *(one for one in structs.values() if not one.is_common)):
        yield from judge(STRUCT_RULES, struct, message, struct.where, struct.path)
    yield from wrong
    yield from judge(MESSAGE_RULES, declared, message, (), ())


def _judge_fields(fields: tuple[FieldDecl, ...], message: Message, *, generated: bool = True) -> Iterator[Violation]:
    rules = FIELD_RULES if generated else _RULES_WITHOUT_CODE
    for field in fields:
        yield from judge(rules, field, message, field.where, field.path)
        yield from _judge_fields(field.fields, message, generated=generated and _has_struct(field, message))


def _has_struct(field: FieldDecl, message: Message) -> bool:
    """Whether code is generated for the fields inside a field: those of an array of primitives are forgotten."""
    struct = message.structs.get(field.type.name)
    return struct is not None and struct.where == field.where
