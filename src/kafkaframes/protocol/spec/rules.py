"""Rules by which Kafka's generator rejects specs of messages. Rules for fields are in ``rules_fields.py``.

Each ``SpecRule`` checks a declaration of a field, struct or message, and yields the reasons for a rejection with
remedies. A spec is valid if no rule yields a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from kafkaframes.errors import SpecError
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.spec.declared import FieldDecl, MessageDecl, StructDecl
from kafkaframes.protocol.spec.model import RPC_TYPES
from kafkaframes.protocol.spec.rules_fields import (
    FIELD_RULES,
    STRUCT_RULES,
    Reason,
    RuleContext,
    RuleViolation,
    SpecRule,
    apply_rules,
    register_structs,
)
from kafkaframes.protocol.spec.versions import MAX_VERSION, Versions

MAX_EXPANDED_FIELDS: Final = 10_000  # fields of a message, if the fields of a struct are counted at each use
MAX_FIELDS_TIMES_VERSIONS: Final = 1_000_000  # the number of expanded fields, multiplied by the number of versions


def _check_flexible_is_declared(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.flexible_versions is None and not declaration.struct.versions.is_empty:
        yield 'flexibleVersions is missing: use "0+" for a new message, "none" for an old inflexible one'


def _check_flexible_is_open(declaration: MessageDecl, message: RuleContext) -> Iterator[str]:
    flexible = message.flexible_versions
    if not flexible.is_empty and not flexible.is_open:
        yield f'flexibleVersions {flexible} must be none or open, such as "{flexible.lowest}+"'


def _check_listeners(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.listeners and declaration.type != "request":
        yield f"only requests can have listeners; this is a {declaration.type}"


def _check_unstable(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.latest_version_unstable and declaration.type != "request":
        yield f"latestVersionUnstable is for requests (and applies to responses); this is a {declaration.type}"


def _check_valid_is_bounded(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.struct.versions.is_open:
        yield f"validVersions {declaration.struct.versions} has no end: specify the highest version"


def _check_valid_is_none(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.struct.versions.is_empty and declaration.struct.fields:
        yield 'validVersions is empty: specify a range such as "0-3" (or, for a removed API, "none" without fields)'


def _check_top_level_keys(declaration: MessageDecl, _message: RuleContext) -> Iterator[Reason]:
    for field in declaration.struct.fields:
        if field.map_key:
            yield "mapKey at the top level: only fields of a struct in an array can be map keys", field


def _check_coordinator(declaration: MessageDecl, message: RuleContext) -> Iterator[str]:
    if not declaration.type.startswith("coordinator-"):
        return
    if declaration.api_key is None:
        yield f"a {declaration.type} requires an apiKey, which is the record type"
    if declaration.type == "coordinator-key":
        if declaration.struct.versions != Versions(0, 0):
            yield "a coordinator-key must have validVersions 0: a new layout requires a new record type"
        if not message.flexible_versions.is_empty:
            yield "a coordinator-key must have flexibleVersions none"


def _check_header_versions(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.header_versions is None:
        return
    if declaration.type not in RPC_TYPES or declaration.struct.versions.is_empty:
        yield f"only requests and responses with valid versions can have headerVersions; this is a {declaration.type}"
        return
    try:
        rows = sorted(((Versions.parse(text), header) for text, header in declaration.header_versions), key=_lowest)
    except SpecError as error:
        yield f"headerVersions: {error.reason}"
        return
    yield from _check_header_rows(rows, declaration.struct.versions)
    yield from _check_header_numbers(rows, declaration)


def _lowest(row: tuple[Versions, str]) -> int:
    return row[0].lowest


def _check_header_rows(rows: list[tuple[Versions, str]], valid: Versions) -> Iterator[str]:
    next_version = 0
    for versions, header in rows:
        if versions.is_empty or versions.lowest != next_version:
            yield f"headerVersions: the range {versions} must start at {next_version}; ranges have no gaps or overlaps"
        if not _HEADER_NUMBER_PATTERN.fullmatch(header.strip()) or int(header) > MAX_VERSION:
            yield f"headerVersions: {header!r} is not a header version"
        if versions.lowest > valid.highest:
            yield f"headerVersions: the range {versions} starts above the valid versions {valid}"
        next_version = versions.highest + 1
    if not rows or not rows[-1][0].is_open:
        yield "headerVersions: the last range must be open, such as 2+"


def _check_header_numbers(rows: list[tuple[Versions, str]], declaration: MessageDecl) -> Iterator[str]:
    """Check the rules of KAFKA-20923 for header versions.

    Header versions never decrease, are flexible for flexible bodies, and are 0 for responses of ApiVersions.
    """
    numbers = [(versions, int(header)) for versions, header in rows if _HEADER_NUMBER_PATTERN.fullmatch(header.strip())]
    if declaration.api_key == API_VERSIONS and declaration.type == "response":
        if any(header for _, header in numbers):
            yield "headerVersions: every version of ApiVersionsResponse has header 0 (KIP-511)"
        return
    if any(after < before for (_, before), (_, after) in pairwise(numbers)):
        yield "headerVersions: header versions must not decrease"
    first_flexible = 2 if declaration.type == "request" else 1
    flexible = declaration.struct.versions.intersect(declaration.flexible_versions or Versions.NONE)
    for versions, header in numbers:
        if header < first_flexible and not flexible.intersect(versions).is_empty:
            yield f"headerVersions: header {header} is inflexible, but versions {versions} have flexible bodies"


def _check_arrays_of_records(declaration: MessageDecl, message: RuleContext) -> Iterator[Reason]:
    """Reject arrays of records, except in versions that the field's struct does not have, like the generator."""
    for struct in (declaration.struct, *declaration.common_structs):
        yield from _find_record_arrays(struct.fields, struct.versions, message)


def _find_record_arrays(fields: tuple[FieldDecl, ...], parents: Versions, message: RuleContext) -> Iterator[Reason]:
    for field in fields:
        common_versions = parents.intersect(field.versions)
        if common_versions.is_empty:
            continue
        if field.type.is_array and field.type.name == "records":
            yield "arrays of records are not supported: use an array of structs with a records field", field
        elif field.type.name in message.structs and not message.structs[field.type.name].is_common:
            yield from _find_record_arrays(field.fields, common_versions, message)


def _check_inline_in_common(declaration: MessageDecl, message: RuleContext) -> Iterator[Reason]:
    """Reject an inline struct in a common struct, because the generator looks it up without having registered it."""
    for common in declaration.common_structs:
        for field in _iterate_all_fields(common.fields):
            if field.type.is_struct and field.type.name not in message.structs:
                yield (
                    f"struct {field.type.name}, used in common struct {common.name}, must be a common struct, too",
                    field,
                )


def _iterate_all_fields(fields: tuple[FieldDecl, ...]) -> Iterator[FieldDecl]:
    for field in fields:
        yield field
        if field.type.is_struct:
            yield from _iterate_all_fields(field.fields)


def _check_struct_versions(declaration: MessageDecl, message: RuleContext) -> Iterator[Reason]:
    """Reject a struct without versions in common with its parents, unless it is an unused common struct."""
    valid = declaration.struct.versions
    if valid.is_empty:
        return
    for common in declaration.common_structs:
        yield from _check_inline_versions(common.fields, common.versions.intersect(valid), message)
    yield from _check_inline_versions(declaration.struct.fields, valid, message)


def _check_inline_versions(fields: tuple[FieldDecl, ...], parents: Versions, message: RuleContext) -> Iterator[Reason]:
    for field in fields:
        struct = message.structs.get(field.type.name)
        if struct is None or struct.is_common:
            continue
        common_versions = parents.intersect(struct.versions)
        if common_versions.is_empty:
            yield (
                f"{field.name} has struct versions {struct.versions}; its parents exist only in versions {parents}",
                field,
            )
        else:
            yield from _check_inline_versions(field.fields, common_versions, message)


def _check_schema_gaps(declaration: MessageDecl, message: RuleContext) -> Iterator[Reason]:
    """Reject a common struct that lacks a version in which a field uses it, or that contains itself."""
    schemas: dict[str, Versions] = {}
    finished_names: set[str] = set()
    for common in declaration.common_structs:
        yield from _collect_schemas(common, declaration.struct.versions, message, schemas, finished_names)
    yield from _collect_schemas(declaration.struct, declaration.struct.versions, message, schemas, finished_names)


def _collect_schemas(
    struct: StructDecl, parents: Versions, message: RuleContext, schemas: dict[str, Versions], finished_names: set[str]
) -> Iterator[Reason]:
    """Collect structs as the generator does, in the order of first use and with the versions of the first user."""
    if struct.name in schemas:
        return
    versions = schemas[struct.name] = parents.intersect(struct.versions)
    struct_fields = [
        (field, message.structs[field.type.name]) for field in struct.fields if field.type.name in message.structs
    ]
    for _, inner in struct_fields:
        yield from _collect_schemas(inner, versions, message, schemas, finished_names)
    for field, inner in struct_fields:
        needed_versions = versions.intersect(field.versions)
        if needed_versions.is_empty:
            continue
        if inner is struct and versions.lowest < needed_versions.lowest and not _is_used(struct, message):
            continue  # the generator uses the schema of an older version, and this struct is not expanded
        if inner.name not in finished_names:
            yield f"struct {inner.name} contains itself: use a bytes field instead", field
        elif schemas[inner.name].is_empty or schemas[inner.name].lowest > needed_versions.lowest:
            yield (
                f"{field.name} requires struct {inner.name} in {needed_versions}, "
                f"but it is declared for {inner.versions}",
                field,
            )
    finished_names.add(struct.name)


def _is_used(struct: StructDecl, message: RuleContext) -> bool:
    """Return whether a field outside of a common struct has this struct as its type."""
    others = [other for other in message.structs.values() if other is not struct]
    fields = (field for owner in (message.declaration.struct, *others) for field in owner.fields)
    return any(field.type.name == struct.name for field in fields)


def _check_expansion(declaration: MessageDecl, message: RuleContext) -> Iterator[str]:
    """Limit the expansion of structs, because forty structs that each contain the next twice have 2^40 fields."""
    slots = _count_fields(declaration.struct, message, {})
    versions = declaration.struct.versions
    count = max(versions.highest - versions.lowest + 1, 1)
    if slots > MAX_EXPANDED_FIELDS:
        yield f"its structs expand to more than {MAX_EXPANDED_FIELDS} fields, the limit of this program"
    elif slots * count > MAX_FIELDS_TIMES_VERSIONS and not versions.is_open:
        yield f"{slots} fields in {count} versions exceed {MAX_FIELDS_TIMES_VERSIONS}, the limit of this program"


def _count_fields(struct: StructDecl, message: RuleContext, counts: dict[str, int]) -> int:
    """Count the fields of a struct and its structs, up to a little more than the limit. A cycle counts as 0."""
    counts[struct.name] = 0
    total = 0
    for field in struct.fields:
        inner = message.structs.get(field.type.name)
        if inner is not None and inner.name not in counts:
            _count_fields(inner, message, counts)
        total = min(total + 1 + (counts[inner.name] if inner is not None else 0), MAX_EXPANDED_FIELDS + 1)
    counts[struct.name] = total
    return total


MESSAGE_RULES: tuple[SpecRule[MessageDecl], ...] = (
    SpecRule(
        "flexible-given",
        "KIP-482: the flexible versions must be specified in each JSON file",
        _check_flexible_is_declared,
    ),
    SpecRule(
        "flexible-open",
        "KIP-482: all versions after a flexible version are flexible",
        _check_flexible_is_open,
        "flexibleVersions",
    ),
    SpecRule("listeners-of-request", "MessageSpec: only requests arrive at listeners", _check_listeners, "listeners"),
    SpecRule(
        "unstable-of-request",
        "MessageSpec: an API declares its stability once",
        _check_unstable,
        "latestVersionUnstable",
    ),
    SpecRule(
        "valid-bounded", "MessageDataGenerator: validVersions has an end", _check_valid_is_bounded, "validVersions"
    ),
    SpecRule(
        "valid-not-empty", "a message has at least one version, or is removed", _check_valid_is_none, "validVersions"
    ),
    SpecRule("no-top-level-key", "MessageDataGenerator: only arrays of structs have keys", _check_top_level_keys),
    SpecRule(
        "coordinator-record",
        "MessageSpec: a coordinator record has an apiKey; a new layout of its key requires a new apiKey",
        _check_coordinator,
    ),
    SpecRule(
        "header-versions",
        "KIP-1313: each body version has exactly one header version",
        _check_header_versions,
        "headerVersions",
    ),
    SpecRule("array-of-records", "Kafka's generator does not support arrays of records", _check_arrays_of_records),
    SpecRule("inline-in-common", "StructRegistry: structs of common structs are common", _check_inline_in_common),
    SpecRule("struct-versions", "VersionConditional: some version must have the struct", _check_struct_versions),
    SpecRule("struct-covers-use", "SchemaGenerator: a struct exists wherever it is used", _check_schema_gaps),
    SpecRule("expansion", "a limit of this package; Kafka's largest message has a hundred fields", _check_expansion),
)

_HEADER_NUMBER_PATTERN = re.compile(r"[+]?[0-9]{1,5}", re.ASCII)


__all__ = ["FIELD_RULES", "MESSAGE_RULES", "STRUCT_RULES", "find_violations"]

_RULES_WITHOUT_CODE = tuple(rule for rule in FIELD_RULES if not rule.of_generated)


def find_violations(declaration: MessageDecl) -> Iterator[RuleViolation]:
    """Yield all reasons for which Kafka's generator would reject a declaration; rules about fields come first."""
    structs, wrong = register_structs(declaration)
    message = RuleContext(declaration, structs)
    for owner in (declaration.struct, *declaration.common_structs):
        yield from _check_fields(owner.fields, message)
    for struct in (
        declaration.struct,
        *declaration.common_structs,
        *(struct for struct in structs.values() if not struct.is_common),
    ):
        yield from apply_rules(STRUCT_RULES, struct, message, struct.where, struct.path)
    yield from wrong
    yield from apply_rules(MESSAGE_RULES, declaration, message, (), ())


def _check_fields(
    fields: tuple[FieldDecl, ...], message: RuleContext, *, has_code: bool = True
) -> Iterator[RuleViolation]:
    rules = FIELD_RULES if has_code else _RULES_WITHOUT_CODE
    for field in fields:
        yield from apply_rules(rules, field, message, field.where, field.path)
        yield from _check_fields(field.fields, message, has_code=has_code and _has_generated_struct(field, message))


def _has_generated_struct(field: FieldDecl, message: RuleContext) -> bool:
    """Return whether code is generated for the fields inside a field.

    The generator ignores the fields of an array of primitives.
    """
    struct = message.structs.get(field.type.name)
    return struct is not None and struct.where == field.where
