"""The rules of Kafka's generator, as tables: what is refused, why, and how to mend it.

Each ``Rule`` judges one declaration (field, struct or message) and yields nothing or a reason. A spec is accepted when
no rule speaks. ``registry`` and ``schema_gaps`` retrace how the generator finds structs, for its verdict depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar

from kafkaframes.errors import SpecError
from kafkaframes.spec.declared import ENTITY_TYPES, FieldDecl, JsonPath, MessageDecl, StructDecl
from kafkaframes.spec.defaults import NULL_TEXT, BadDefaultError, parse_default
from kafkaframes.spec.model import RPC_TYPES
from kafkaframes.spec.versions import MAX_VERSION, Versions

T = TypeVar("T")
#: A reason, and the declaration it is about where that is another one than was judged.
Spoken: TypeAlias = str | tuple[str, FieldDecl | StructDecl]
FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """One rule: its name, the sentence it comes from, and the check."""

    name: str
    source: str
    check: Callable[[T, Message], Iterator[Spoken]]
    key: str = ""  # the JSON key it speaks about, for the line


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that speaks about a place of a file."""

    rule: str
    reason: str
    where: JsonPath
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """What the rules see: the declaration, and every struct that the generator registers for it."""

    declared: MessageDecl
    structs: dict[str, StructDecl]

    @property
    def flexible_versions(self) -> Versions:
        """The message's flexible versions; none where the key is missing."""
        return self.declared.flexible_versions or Versions.NONE


def registry(declared: MessageDecl) -> tuple[dict[str, StructDecl], list[Violation]]:
    """Return the structs the generator registers, common ones first, and what is wrong with their declarations."""
    structs: dict[str, StructDecl] = {}
    wrong: list[Violation] = []
    for common in declared.common_structs:
        if not common.name[:1].isupper():
            _speak(wrong, "common-struct-capital", f"struct {common.name} must start with a capital", common)
        if common.name in structs:
            _speak(wrong, "common-struct-once", f"common struct {common.name} is declared twice: drop one", common)
        structs[common.name] = common
    _register_inline(declared.struct.fields, structs, wrong)
    return structs, wrong


def _register_inline(fields: tuple[FieldDecl, ...], structs: dict[str, StructDecl], wrong: list[Violation]) -> None:
    for one in fields:
        if not one.type.is_struct:
            continue
        name = one.type.name
        if name not in structs:
            structs[name] = StructDecl(
                where=one.where, path=one.path, name=name, versions=one.versions, fields=one.fields
            )
        elif not structs[name].is_common:
            reason = f"struct {name} is declared twice: move it to commonStructs, or give one of them another name"
            _speak(wrong, "inline-struct-once", reason, one)
        elif one.fields:
            reason = f"{name} is a common struct, so the field that uses it cannot declare fields: drop them"
            _speak(wrong, "common-struct-no-fields", reason, one)
        _register_inline(one.fields, structs, wrong)


def _speak(wrong: list[Violation], rule: str, reason: str, about: StructDecl | FieldDecl) -> None:
    wrong.append(Violation(rule, reason, about.where, about.path))


# ---- fields -------------------------------------------------------------------------------------------------------


def _name(one: FieldDecl, _message: Message) -> Iterator[str]:
    if not FIELD_NAME.fullmatch(one.name):
        yield f"field name {one.name!r} must be letters and digits and start with a letter"


def _nullable_type(one: FieldDecl, _message: Message) -> Iterator[str]:
    if not one.nullable_versions.is_empty and not one.type.can_be_nullable:
        yield f"type {one.type} cannot be nullable: drop nullableVersions, or choose a value that means nothing"


def _entity_type(one: FieldDecl, _message: Message) -> Iterator[str]:
    wanted = ENTITY_TYPES[one.entity_type]
    if wanted is not None and one.type.name != wanted:
        yield f"entityType {one.entity_type} needs type {wanted}, but {one.name} is {one.type}"


def _fields_of_struct(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.fields and not (one.type.is_array or one.type.is_struct):
        yield f"{one.name} is {one.type}, neither a struct nor an array: it cannot have fields"


def _own_flexible_type(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.flexible_versions is not None and (one.type.is_array or one.type.name not in ("string", "bytes")):
        yield f"only string and bytes fields can have flexibleVersions of their own; {one.name} is {one.type}"


def _own_flexible_subset(one: FieldDecl, message: Message) -> Iterator[str]:
    own = one.flexible_versions
    if own is not None and not message.flexible_versions.covers(own):
        yield f"flexibleVersions {own} must lie within the message's, {message.flexible_versions}"


def _zero_copy(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.zero_copy and (one.type.is_array or one.type.name != "bytes"):
        yield f"zeroCopy is for bytes fields only; {one.name} is {one.type}"


def _array_of_records(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.type.is_array and one.type.name == "records":
        yield "there are no arrays of records: use an array of structs with a records field"


def _tag_pair(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.tag is None and not one.tagged_versions.is_empty:
        yield f"taggedVersions {one.tagged_versions} without a tag: give the field a tag, or drop taggedVersions"
    if one.tag is not None and one.tagged_versions.is_empty:
        yield f'tag {one.tag} without taggedVersions: say from which version it is tagged, such as "2+"'


def _tag_key(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.tag is not None and one.map_key:
        yield "a tagged field cannot be a mapKey: drop one of the two"


def _tag_negative(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.tag is not None and one.tag < 0:
        yield f"tag {one.tag} is negative: tags count from 0"


def _tag_nullable(one: FieldDecl, _message: Message) -> Iterator[str]:
    nullable = one.nullable_versions.intersect(one.tagged_versions)
    if one.tag is not None and not nullable.is_empty and nullable != one.tagged_versions:
        yield f"nullable in {nullable} of its tagged versions {one.tagged_versions}: it must be in all or in none"


def _tag_open(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.tag is not None and not one.tagged_versions.is_empty and not one.tagged_versions.is_open:
        yield f"taggedVersions {one.tagged_versions} must be open, such as {one.tagged_versions.lowest}+"


def _tag_subset(one: FieldDecl, _message: Message) -> Iterator[str]:
    if not one.versions.covers(one.tagged_versions):
        yield f"taggedVersions {one.tagged_versions} must lie within versions, {one.versions}"


def _tag_flexible(one: FieldDecl, message: Message) -> Iterator[str]:
    flexible = message.flexible_versions if one.flexible_versions is None else one.flexible_versions
    if not flexible.covers(one.tagged_versions):
        yield f"taggedVersions {one.tagged_versions} must lie within the flexible versions, {flexible}"


def _tag_records(one: FieldDecl, _message: Message) -> Iterator[str]:
    if one.tag is not None and one.type.name == "records":
        yield "a records field cannot be tagged"


def _default(one: FieldDecl, _message: Message) -> Iterator[str]:
    try:
        parse_default(one.type, one.default)
    except BadDefaultError as error:
        yield str(error)
        return
    says_null = one.default == NULL_TEXT and one.type.can_be_nullable and not _is_records(one)
    if says_null and not one.nullable_versions.covers(one.versions):
        yield f"null cannot be the default: nullableVersions {one.nullable_versions} must cover versions {one.versions}"


def _is_records(one: FieldDecl) -> bool:
    return one.type.name == "records" and not one.type.is_array


FIELD_RULES: tuple[Rule[FieldDecl], ...] = (
    Rule("field-name", "FieldSpec: names are Java identifiers of letters and digits", _name),
    Rule(
        "nullable-type",
        "FieldSpec: only strings, bytes, records, arrays and structs can be null",
        _nullable_type,
        "nullableVersions",
    ),
    Rule("entity-type", "EntityType: an entity has one type", _entity_type, "entityType"),
    Rule("fields-of-struct", "FieldSpec: only structs and arrays have fields", _fields_of_struct),
    Rule(
        "own-flexible-type",
        "FieldSpec: the override exists for the client id of headers",
        _own_flexible_type,
        "flexibleVersions",
    ),
    Rule(
        "own-flexible-subset", "a field is flexible in flexible versions only", _own_flexible_subset, "flexibleVersions"
    ),
    Rule("zero-copy-type", "FieldSpec: zeroCopy keeps a view of bytes", _zero_copy, "zeroCopy"),
    Rule("array-of-records", "the generator has no code for it", _array_of_records, "type"),
    Rule("tag-and-tagged-versions", "KIP-482: each optional field has a tag number", _tag_pair),
    Rule("tag-not-key", "a key must be there in every element", _tag_key, "mapKey"),
    Rule("tag-not-negative", "KIP-482: a tag has 31 bits", _tag_negative, "tag"),
    Rule("tag-nullable", "KIP-482: nullable or not, for ever", _tag_nullable, "nullableVersions"),
    Rule("tag-open", "KIP-482: a tag is never reused, so its versions never end", _tag_open, "taggedVersions"),
    Rule("tag-subset", "KIP-482: taggedVersions must be a subset of versions", _tag_subset, "taggedVersions"),
    Rule("tag-flexible", "KIP-482: no tagged fields in an inflexible version", _tag_flexible, "taggedVersions"),
    Rule("tag-not-records", "the generator has no code for it (KIP-482 says any type)", _tag_records, "tag"),
    Rule("default", "FieldSpec: a default is a value of the type", _default, "default"),
)


# ---- structs ------------------------------------------------------------------------------------------------------


def _unique_names(struct: StructDecl, _message: Message) -> Iterator[Spoken]:
    for one in _again(struct.fields, lambda one: one.name):
        yield f"two fields are called {one.name}: rename one", one


def _unique_tags(struct: StructDecl, _message: Message) -> Iterator[Spoken]:
    for one in _again((one for one in struct.fields if one.tag is not None), lambda one: one.tag):
        yield f"two fields have tag {one.tag}: give one the next free number", one


def _contiguous_tags(struct: StructDecl, _message: Message) -> Iterator[str]:
    tags = {one.tag for one in struct.fields if one.tag is not None}
    missing = [tag for tag in range(len(tags)) if tag not in tags]
    if missing:
        yield f"tag {missing[0]} is not used: tags must count from 0 without a gap (keep removed fields declared)"


def _again(fields: Iterable[FieldDecl], key: Callable[[FieldDecl], object]) -> Iterator[FieldDecl]:
    """Yield the fields whose key an earlier one has."""
    seen: set[object] = set()
    for one in fields:
        if key(one) in seen:
            yield one
        seen.add(key(one))


STRUCT_RULES: tuple[Rule[StructDecl], ...] = (
    Rule("unique-names", "StructSpec: names are unique in a struct", _unique_names),
    Rule("unique-tags", "KIP-482: a tag is unique within the context it appears in", _unique_tags),
    Rule("contiguous-tags", "StructSpec: no tag may be left out", _contiguous_tags),
)


# ---- messages -----------------------------------------------------------------------------------------------------


def _flexible_given(one: MessageDecl, _message: Message) -> Iterator[str]:
    if one.flexible_versions is None and not one.struct.versions.is_empty:
        yield 'flexibleVersions is missing: a new message says "0+", an old inflexible one "none"'


def _flexible_open(one: MessageDecl, message: Message) -> Iterator[str]:
    flexible = message.flexible_versions
    if not flexible.is_empty and not flexible.is_open:
        yield f'flexibleVersions {flexible} must be none or open, such as "{flexible.lowest}+"'


def _listeners(one: MessageDecl, _message: Message) -> Iterator[str]:
    if one.listeners and one.type != "request":
        yield f"listeners are for requests; this is a {one.type}"


def _unstable(one: MessageDecl, _message: Message) -> Iterator[str]:
    if one.latest_version_unstable and one.type != "request":
        yield f"latestVersionUnstable is for requests (it holds for the response too); this is a {one.type}"


def _valid_bounded(one: MessageDecl, _message: Message) -> Iterator[str]:
    if one.struct.versions.is_open:
        yield f"validVersions {one.struct.versions} must end: write the highest version"


def _valid_none(one: MessageDecl, _message: Message) -> Iterator[str]:
    if one.struct.versions.is_empty and one.struct.fields:
        yield 'validVersions has no version: write such as "0-3" (or "none" without fields for a removed API)'


def _top_level_keys(one: MessageDecl, _message: Message) -> Iterator[Spoken]:
    for field in one.struct.fields:
        if field.map_key:
            yield "mapKey at the top level: only fields of a struct in an array can be keys", field


def _coordinator(one: MessageDecl, message: Message) -> Iterator[str]:
    if not one.type.startswith("coordinator-"):
        return
    if one.api_key is None:
        yield f"a {one.type} needs an apiKey: the record type"
    if one.type == "coordinator-key":
        if one.struct.versions != Versions(0, 0):
            yield "a coordinator-key has validVersions 0: a new layout is a new record type"
        if not message.flexible_versions.is_empty:
            yield "a coordinator-key has flexibleVersions none"


def _header_versions(one: MessageDecl, _message: Message) -> Iterator[str]:
    if one.header_versions is None:
        return
    if one.type not in RPC_TYPES or one.struct.versions.is_empty:
        yield f"headerVersions are for requests and responses with valid versions; this is a {one.type}"
        return
    try:
        rows = sorted(((Versions.parse(text), header) for text, header in one.header_versions), key=_lowest)
    except SpecError as error:
        yield f"headerVersions: {error.reason}"
        return
    yield from _header_rows(rows, one.struct.versions)
    yield from _header_numbers(rows, one)


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


def _header_numbers(rows: list[tuple[Versions, str]], one: MessageDecl) -> Iterator[str]:
    """KAFKA-20923's further rules: headers do not go back, flexible bodies have flexible headers, ApiVersions has 0."""
    numbers = [(versions, int(header)) for versions, header in rows if _HEADER.fullmatch(header.strip())]
    if one.api_key == 18 and one.type == "response":
        if any(header for _, header in numbers):
            yield "headerVersions: every version of ApiVersionsResponse has header 0 (KIP-511)"
        return
    if any(after < before for (_, before), (_, after) in pairwise(numbers)):
        yield "headerVersions: a header version never goes down"
    first_flexible = 2 if one.type == "request" else 1
    flexible = one.struct.versions.intersect(one.flexible_versions or Versions.NONE)
    for versions, header in numbers:
        if header < first_flexible and not flexible.intersect(versions).is_empty:
            yield f"headerVersions: header {header} is inflexible, but versions {versions} have flexible bodies"


def _inline_in_common(one: MessageDecl, message: Message) -> Iterator[Spoken]:
    """The generator registers inline structs of the message's fields only, but looks all of them up."""
    for common in one.common_structs:
        for field in _all_fields(common.fields):
            if field.type.is_struct and field.type.name not in message.structs:
                yield f"struct {field.type.name}, used in common struct {common.name}, must be common too", field


def _all_fields(fields: tuple[FieldDecl, ...]) -> Iterator[FieldDecl]:
    for one in fields:
        yield one
        if one.type.is_struct:
            yield from _all_fields(one.fields)


def _struct_versions(one: MessageDecl, message: Message) -> Iterator[Spoken]:
    """Each struct must have versions in common with its parents; a common one with the message."""
    valid = one.struct.versions
    if valid.is_empty:
        return
    for common in one.common_structs:
        if valid.intersect(common.versions).is_empty:
            yield f"common struct {common.name} ({common.versions}) is in no valid version, {valid}", common
        yield from _inline_versions(common.fields, common.versions.intersect(valid), message)
    yield from _inline_versions(one.struct.fields, valid, message)


def _inline_versions(fields: tuple[FieldDecl, ...], parents: Versions, message: Message) -> Iterator[Spoken]:
    for one in fields:
        struct = message.structs.get(one.type.name)
        if struct is None or struct.is_common:
            continue
        shared = parents.intersect(struct.versions)
        if shared.is_empty:
            yield f"{one.name} ({struct.versions}) is a struct that is in no version of its parents ({parents})", one
        else:
            yield from _inline_versions(one.fields, shared, message)


def _schema_gaps(one: MessageDecl, message: Message) -> Iterator[Spoken]:
    """A common struct must be declared, and not by itself, for every version in which a field uses it."""
    made: dict[str, Versions] = {}
    done: set[str] = set()
    for common in one.common_structs:
        yield from _schemas(common, one.struct.versions, message, made, done)
    yield from _schemas(one.struct, one.struct.versions, message, made, done)


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
        if inner.name not in done:
            yield f"struct {inner.name} contains itself: break the circle with a bytes field", field
        elif made[inner.name].is_empty or made[inner.name].lowest > needed.lowest:
            yield f"{field.name} needs struct {inner.name} in {needed}, but it is declared for {inner.versions}", field
    done.add(struct.name)


MESSAGE_RULES: tuple[Rule[MessageDecl], ...] = (
    Rule("flexible-given", "KIP-482: the flexible versions must be specified in each JSON file", _flexible_given),
    Rule("flexible-open", "KIP-482: a version never turns inflexible again", _flexible_open, "flexibleVersions"),
    Rule("listeners-of-request", "MessageSpec: only requests arrive at listeners", _listeners, "listeners"),
    Rule("unstable-of-request", "MessageSpec: stability is said once for an API", _unstable, "latestVersionUnstable"),
    Rule("valid-bounded", "MessageDataGenerator: there is a highest version", _valid_bounded, "validVersions"),
    Rule("valid-not-empty", "a message has a version, or is removed whole", _valid_none, "validVersions"),
    Rule("no-top-level-key", "MessageDataGenerator: keys are for collections", _top_level_keys),
    Rule("coordinator-record", "MessageSpec: types coordinator-key and coordinator-value (4.0)", _coordinator),
    Rule("header-versions", "KIP-1313: every body version has one header version", _header_versions, "headerVersions"),
    Rule("inline-in-common", "StructRegistry: structs of common structs are common", _inline_in_common),
    Rule("struct-versions", "VersionConditional: some version must have the struct", _struct_versions),
    Rule("struct-covers-use", "SchemaGenerator: a struct exists wherever it is used", _schema_gaps),
)

_HEADER = re.compile(r"[+]?[0-9]{1,5}", re.ASCII)


# ---- judging ------------------------------------------------------------------------------------------------------


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


def _judge_fields(fields: tuple[FieldDecl, ...], message: Message) -> Iterator[Violation]:
    for one in fields:
        yield from judge(FIELD_RULES, one, message, one.where, one.path)
        yield from _judge_fields(one.fields, message)


def judge(
    rules: tuple[Rule[T], ...], subject: T, message: Message, where: JsonPath, path: tuple[str, ...]
) -> Iterator[Violation]:
    """Yield what a table of rules says of one declaration, which stands at ``where``."""
    for rule in rules:
        for spoken in rule.check(subject, message):
            if isinstance(spoken, str):
                yield Violation(rule.name, spoken, (*where, rule.key) if rule.key else where, path)
            else:
                yield Violation(rule.name, spoken[0], spoken[1].where, spoken[1].path)
