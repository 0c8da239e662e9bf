"""Lint warnings for specs, about declarations that the generator accepts but that are useless, wrong or fragile."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from kafkaframes.protocol.spec.declared import FieldDecl, MessageDecl, StructDecl
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.kip_636 import find_untagged_errors
from kafkaframes.protocol.spec.load import build_spec
from kafkaframes.protocol.spec.model import RPC_TYPES, MessageSpec
from kafkaframes.protocol.spec.rules_fields import (
    Reason,
    RuleContext,
    RuleViolation,
    SpecRule,
    apply_rules,
    register_structs,
)

_OCTAL_PATTERN = re.compile(r"[+-]?0\d+")
_INCOMPLETE_HEX_PATTERN = re.compile(r"0x(?:[+-].*)?")
_INTEGER_TYPES = ("int8", "int16", "uint16", "int32", "uint32", "int64")


def _check_leftover_versions(field: FieldDecl, message: RuleContext) -> Iterator[str]:
    valid = message.declaration.struct.versions
    if valid.intersect(field.versions).is_empty:
        yield f"versions {field.versions} contain none of the valid versions, {valid}: the field never exists"


def _check_nullable_range(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if not field.versions.covers(field.nullable_versions):
        yield f"nullableVersions {field.nullable_versions} reach outside versions {field.versions}"


def _check_ignored_fields(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.fields and not field.type.is_struct:
        yield f"the fields of {field.type} are ignored: its elements are not structs"


def _reject_undefined_struct(field: FieldDecl, message: RuleContext) -> Iterator[str]:
    struct = message.structs.get(field.type.name)
    if struct is not None and not struct.is_common and not struct.fields:
        yield f"struct {field.type.name} is not declared, so it is an empty struct: check its spelling"


def _reject_tagged_zero_copy(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.zero_copy and field.tag is not None:
        yield "a tagged zeroCopy field passes the generator, but its Java does not compile"


def _check_records_default(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.type.name == "records" and field.default:
        yield f"the default {field.default!r} of a records field is never read: records start as null"


def _check_octal_default(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.type.name in _INTEGER_TYPES and not field.type.is_array and _OCTAL_PATTERN.fullmatch(field.default):
        yield f"default {field.default} is checked as decimal and compiled as octal: remove the leading 0"


def _check_incomplete_hex_default(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if (
        field.type.name in _INTEGER_TYPES
        and not field.type.is_array
        and _INCOMPLETE_HEX_PATTERN.fullmatch(field.default)
    ):
        yield f"default {field.default} passes the generator, but its Java does not compile"


def _check_long_uuid_default(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.type.name == "uuid" and not field.type.is_array and len(field.default.rstrip("=")) not in (0, 22):
        yield f"default {field.default} is more than 16 bytes of base64url and fails at run time: write 22 characters"


FIELD_LINTS: tuple[SpecRule[FieldDecl], ...] = (
    SpecRule("leftover-field", "a range should overlap validVersions", _check_leftover_versions),
    SpecRule("nullable-outside", "null has no meaning in a version without the field", _check_nullable_range),
    SpecRule("fields-ignored", "only structs have fields", _check_ignored_fields),
    SpecRule(
        "undefined-struct",
        "StructRegistry treats an unknown name as a new, empty struct",
        _reject_undefined_struct,
    ),
    SpecRule("tagged-zero-copy", "the generated writer requires a ByteBuffer", _reject_tagged_zero_copy),
    SpecRule("records-default", "FieldSpec ignores it", _check_records_default),
    SpecRule("octal-default", "the text is copied into Java", _check_octal_default),
    SpecRule("odd-hex-default", "the text is copied into Java", _check_incomplete_hex_default),
    SpecRule("long-uuid-default", "Kafka's Uuid is 22 characters of base64url", _check_long_uuid_default),
)


def _check_names_by_case(struct: StructDecl, _message: RuleContext) -> Iterator[str]:
    count = Counter(field.name.lower() for field in struct.fields)
    clash = [field.name for field in struct.fields if count[field.name.lower()] > 1]
    if clash:
        yield f"fields {', '.join(clash)} differ in case only, and their Java accessors clash"


STRUCT_LINTS: tuple[SpecRule[StructDecl], ...] = (
    SpecRule("names-by-case", "accessors start with a small letter", _check_names_by_case),
)


def _check_api_key(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.api_key is None and declaration.type in (*RPC_TYPES, "metadata"):
        yield f"a {declaration.type} without apiKey cannot be listed among the APIs"


def _check_name_suffix(declaration: MessageDecl, _message: RuleContext) -> Iterator[str]:
    if declaration.type in RPC_TYPES and not declaration.struct.name.endswith(declaration.type.capitalize()):
        yield f"the name of a {declaration.type} ends in {declaration.type.capitalize()}"


def _reject_unused_common(declaration: MessageDecl, message: RuleContext) -> Iterator[Reason]:
    used_names = {field.type.name for _, field in _iterate_all_fields(message)}
    yield from (
        f"common struct {common.name} is not used"
        for common in declaration.common_structs
        if common.name not in used_names
    )


def _check_keys_outside_arrays(_one: MessageDecl, message: RuleContext) -> Iterator[Reason]:
    in_arrays = {field.type.name for _, field in _iterate_all_fields(message) if field.type.is_array}
    for name, struct in message.structs.items():
        if name not in in_arrays and any(field.map_key for field in struct.fields):
            yield f"struct {name} has a mapKey, but no array uses it", struct


def _check_flexible_versions(declaration: MessageDecl, message: RuleContext) -> Iterator[str]:
    flexible, valid = message.flexible_versions, declaration.struct.versions
    if not flexible.is_empty and not valid.is_empty and valid.intersect(flexible).is_empty:
        yield f"flexibleVersions {flexible} contain none of the valid versions, {valid}"


MESSAGE_LINTS: tuple[SpecRule[MessageDecl], ...] = (
    SpecRule("api-key", "ApiMessageTypeGenerator needs it", _check_api_key),
    SpecRule("name-suffix", "ApiMessageTypeGenerator needs it", _check_name_suffix),
    SpecRule("unused-common-struct", "an unused struct has no effect", _reject_unused_common),
    SpecRule("key-of-no-array", "only arrays of structs have keys", _check_keys_outside_arrays),
    SpecRule("flexible-never", "a range should overlap validVersions", _check_flexible_versions),
)


def lint_document(
    document: JsonText, declaration: MessageDecl, *, tagged_errors: bool = False
) -> Iterator[RuleViolation]:
    """Yield the warnings about a spec that the generator accepts.

    Args:
        tagged_errors: whether to apply KIP-636 to all responses, not only to those with tagged errors.
    """
    structs, _ = register_structs(declaration)
    message = RuleContext(declaration, structs)
    for where, field in _iterate_all_fields(message):
        yield from apply_rules(FIELD_LINTS, field, message, where, field.path)
    for struct in (declaration.struct, *structs.values()):
        yield from apply_rules(STRUCT_LINTS, struct, message, struct.where, struct.path)
    yield from apply_rules(MESSAGE_LINTS, declaration, message, (), ())
    yield from _find_untagged_errors(declaration, structs, is_required=tagged_errors)
    yield from (
        RuleViolation("key-twice", f"key {key!r} occurs twice: the last value is used", (), ())
        for key in _find_repeated_keys(document)
    )


def _find_untagged_errors(
    declaration: MessageDecl, structs: dict[str, StructDecl], *, is_required: bool
) -> Iterator[RuleViolation]:
    """Yield the error fields that KIP-636 would tag: a rewritten response's new fields, or all (``is_required``)."""
    if declaration.type != "response":
        return
    newest = declaration.struct.versions.highest
    for error in find_untagged_errors(build_spec(declaration), is_required=is_required):
        struct = declaration.struct if error.struct == declaration.struct.name else structs[error.struct]
        where = next(field.where for field in struct.fields if field.name == error.field.name)
        others = "" if is_required else ", although other errors of the response are tagged"
        reason = (
            f"mandatory in version {newest}{others}: give it a tag and taggedVersions, "
            "or run `spec rewrite kip-636` again"
        )
        yield RuleViolation("untagged-error", reason, where, error.path)


def _iterate_all_fields(message: RuleContext) -> Iterator[tuple[tuple[str | int, ...], FieldDecl]]:
    for struct in (message.declaration.struct, *message.structs.values()):
        yield from ((field.where, field) for field in struct.fields)


def _find_repeated_keys(document: JsonText) -> list[str]:
    texts: list[str] = []

    def count_keys(pairs: list[tuple[str, Any]]) -> None:
        count = Counter(key for key, _ in pairs)
        texts.extend(key for key, times in count.items() if times > 1)

    json.JSONDecoder(object_pairs_hook=count_keys).raw_decode(document.text.lstrip(" \t\r\n"))
    return texts


def lint_set(specs: Iterable[MessageSpec]) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, message, reason) for faults in a set of specs: duplicate keys, APIs without request or response."""
    owners: dict[tuple[str, int], str] = {}
    for spec in specs:
        if spec.api_key is None or spec.type not in RPC_TYPES:
            continue
        first = owners.setdefault((spec.type, spec.api_key), spec.name)
        if first != spec.name:
            yield "api-key-twice", spec.name, f"apiKey {spec.api_key} already belongs to {first}"
    for (kind, key), name in owners.items():
        other = "response" if kind == "request" else "request"
        if (other, key) not in owners:
            yield "half-an-api", name, f"no {other} has apiKey {key}"
