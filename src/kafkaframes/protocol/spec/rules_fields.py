"""The rules about one field and about the fields of one struct, as tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kafkaframes.protocol.spec.declared import ENTITY_TYPES, FieldDecl, JsonPath, MessageDecl, StructDecl
from kafkaframes.protocol.spec.defaults import NULL_TEXT, BadDefaultError, parse_default
from kafkaframes.protocol.spec.versions import Versions

# ---------------------------------------------------------------------------------------------------------------------
# Rules, violations, and the structs that Kafka's generator registers for a message.

T = TypeVar("T")
#: A reason, and the declaration that it refers to, if this is not the checked one.
Spoken: TypeAlias = str | tuple[str, FieldDecl | StructDecl]


class Rule(NamedTuple, Generic[T]):
    """A rule: its name, its source, and its check."""

    name: str
    source: str
    check: Callable[[T, Message], Iterator[Spoken]]
    key: str = ""  # JSON key that violations refer to, for their line number
    of_generated: bool = False  # checked by the code generator, hence only for fields with generated code


class Violation(NamedTuple):
    """A violation of a rule, with its place in the file."""

    rule: str
    reason: str
    where: JsonPath
    path: tuple[str, ...]


class Message(NamedTuple):
    """Input of the rules: a declaration, and all structs that the generator registers for it."""

    declaration: MessageDecl
    structs: dict[str, StructDecl]

    @property
    def flexible_versions(self) -> Versions:
        """The message's flexible versions; empty if the key is missing."""
        return self.declaration.flexible_versions or Versions.NONE


def registry(declaration: MessageDecl) -> tuple[dict[str, StructDecl], list[Violation]]:
    """Return the structs that the generator registers, common structs first, and violations in their declarations."""
    structs: dict[str, StructDecl] = {}
    wrong: list[Violation] = []
    for common in declaration.common_structs:
        if not common.name[:1].isupper():
            _speak(wrong, "common-struct-capital", f"struct {common.name} must start with a capital", common)
        if common.name in structs:
            _speak(wrong, "common-struct-once", f"common struct {common.name} is declared twice: drop one", common)
        structs[common.name] = common
    _register_inline(declaration.struct.fields, structs, wrong)
    return structs, wrong


def _register_inline(fields: tuple[FieldDecl, ...], structs: dict[str, StructDecl], wrong: list[Violation]) -> None:
    for field in fields:
        if not field.type.is_struct:
            continue
        name = field.type.name
        if name not in structs:
            structs[name] = StructDecl(
                where=field.where, path=field.path, name=name, versions=field.versions, fields=field.fields
            )
        elif not structs[name].is_common:
            reason = f"struct {name} is declared twice: move it to commonStructs, or give one of them another name"
            _speak(wrong, "inline-struct-once", reason, field)
        elif field.fields:
            reason = f"{name} is a common struct, so the field that uses it cannot declare fields: drop them"
            _speak(wrong, "common-struct-no-fields", reason, field)
        _register_inline(field.fields, structs, wrong)


def _speak(wrong: list[Violation], rule: str, reason: str, about: StructDecl | FieldDecl) -> None:
    wrong.append(Violation(rule, reason, about.where, about.path))


def judge(
    rules: tuple[Rule[T], ...], subject: T, message: Message, where: JsonPath, path: tuple[str, ...]
) -> Iterator[Violation]:
    """Check a declaration, which is at ``where``, and yield its violations."""
    for rule in rules:
        for spoken in rule.check(subject, message):
            if isinstance(spoken, str):
                yield Violation(rule.name, spoken, (*where, rule.key) if rule.key else where, path)
            else:
                yield Violation(rule.name, spoken[0], spoken[1].where, spoken[1].path)


# ---------------------------------------------------------------------------------------------------------------------

FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def _name(field: FieldDecl, _message: Message) -> Iterator[str]:
    if not FIELD_NAME.fullmatch(field.name):
        yield f"field name {field.name!r} must consist of letters and digits, and start with a letter"


def _nullable_type(field: FieldDecl, _message: Message) -> Iterator[str]:
    if not field.nullable_versions.is_empty and not field.type.can_be_nullable:
        yield f"type {field.type} cannot be nullable: drop nullableVersions, or choose a value that means nothing"


def _entity_type(field: FieldDecl, _message: Message) -> Iterator[str]:
    needed = ENTITY_TYPES[field.entity_type]
    if needed is not None and field.type.name != needed:
        yield f"entityType {field.entity_type} needs type {needed}, but {field.name} is {field.type}"


def _fields_of_struct(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.fields and not (field.type.is_array or field.type.is_struct):
        yield f"{field.name} is {field.type}, neither a struct nor an array: it cannot have fields"


def _own_flexible_type(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.flexible_versions is not None and (field.type.is_array or field.type.name not in ("string", "bytes")):
        yield f"only string and bytes fields can have flexibleVersions of their own; {field.name} is {field.type}"


def _own_flexible_subset(field: FieldDecl, message: Message) -> Iterator[str]:
    own = field.flexible_versions
    if own is not None and not message.flexible_versions.covers(own):
        yield f"flexibleVersions {own} must be within the message's, {message.flexible_versions}"


def _zero_copy(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.zero_copy and (field.type.is_array or field.type.name != "bytes"):
        yield f"zeroCopy is for bytes fields only; {field.name} is {field.type}"


def _tag_pair(field: FieldDecl, message: Message) -> Iterator[str]:
    if field.tag is None and not field.tagged_versions.is_empty:
        yield f"taggedVersions {field.tagged_versions} without a tag: give the field a tag, or drop taggedVersions"
    if field.tag is not None and field.tagged_versions.is_empty:
        yield f"tag {field.tag} without taggedVersions: {_where_tagged(field, message)}"


def _where_tagged(field: FieldDecl, message: Message) -> str:
    """Propose taggedVersions for a tag without them: all flexible versions that have the field (KIP-482)."""
    flexible = _flexible(field, message)
    proposed = flexible if field.versions.is_empty else flexible.intersect(field.versions)
    if proposed.is_empty:
        return f"and no version that has the field is flexible (flexibleVersions {flexible})"
    if not proposed.is_open:
        return f"they must be open, and the versions of the field end: {field.versions}"
    return f'the generator requires them; in all flexible versions: "taggedVersions": "{proposed}"'


def _flexible(field: FieldDecl, message: Message) -> Versions:
    return message.flexible_versions if field.flexible_versions is None else field.flexible_versions


def _tag_key(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.tag is not None and field.map_key:
        yield "a tagged field cannot be a mapKey: drop one of the two"


def _tag_negative(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.tag is not None and field.tag < 0:
        yield f"tag {field.tag} is negative: tags count from 0"


def _tag_nullable(field: FieldDecl, _message: Message) -> Iterator[str]:
    nullable = field.nullable_versions.intersect(field.tagged_versions)
    if field.tag is not None and not nullable.is_empty and nullable != field.tagged_versions:
        yield f"nullable in {nullable} of its tagged versions {field.tagged_versions}: it must be in all or in none"


def _tag_open(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.tag is not None and not field.tagged_versions.is_empty and not field.tagged_versions.is_open:
        yield f"taggedVersions {field.tagged_versions} must be open, such as {field.tagged_versions.lowest}+"


def _tag_subset(field: FieldDecl, _message: Message) -> Iterator[str]:
    if not field.versions.covers(field.tagged_versions):
        yield f"taggedVersions {field.tagged_versions} must be within versions, {field.versions}"


def _tag_flexible(field: FieldDecl, message: Message) -> Iterator[str]:
    flexible = _flexible(field, message)
    if not flexible.covers(field.tagged_versions):
        yield f"taggedVersions {field.tagged_versions} must be within the flexible versions, {flexible}"


def _tag_records(field: FieldDecl, _message: Message) -> Iterator[str]:
    if field.tag is not None and field.type.name == "records":
        yield "a records field cannot be tagged"


def _default(field: FieldDecl, _message: Message) -> Iterator[str]:
    try:
        parse_default(field.type, field.default)
    except BadDefaultError as error:
        yield str(error)
        return
    says_null = field.default == NULL_TEXT and field.type.can_be_nullable and not _is_records(field)
    if says_null and not field.nullable_versions.covers(field.versions):
        nullable = field.nullable_versions
        yield f"null cannot be the default: nullableVersions {nullable} must cover versions {field.versions}"


def _is_records(field: FieldDecl) -> bool:
    return field.type.name == "records" and not field.type.is_array


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
        "own-flexible-subset",
        "a field is flexible in flexible versions only",
        _own_flexible_subset,
        "flexibleVersions",
        of_generated=True,
    ),
    Rule("zero-copy-type", "FieldSpec: zeroCopy keeps a view of bytes", _zero_copy, "zeroCopy"),
    Rule("tag-and-tagged-versions", "KIP-482: each optional field has a tag number", _tag_pair),
    Rule("tag-not-key", "a key must be there in every element", _tag_key, "mapKey"),
    Rule("tag-not-negative", "KIP-482: a tag has 31 bits", _tag_negative, "tag"),
    Rule("tag-nullable", "KIP-482: nullable or not, for ever", _tag_nullable, "nullableVersions"),
    Rule("tag-open", "KIP-482: a tag is never reused, so its versions never end", _tag_open, "taggedVersions"),
    Rule("tag-subset", "KIP-482: taggedVersions must be a subset of versions", _tag_subset, "taggedVersions"),
    Rule(
        "tag-flexible",
        "KIP-482: no tagged fields in an inflexible version",
        _tag_flexible,
        "taggedVersions",
        of_generated=True,
    ),
    Rule(
        "tag-not-records",
        "the generator has no code for it (KIP-482 says any type)",
        _tag_records,
        "tag",
        of_generated=True,
    ),
    Rule("default", "FieldSpec: a default is a value of the type", _default, "default", of_generated=True),
)


def _unique_names(struct: StructDecl, _message: Message) -> Iterator[Spoken]:
    for field in _repeated_fields(struct.fields, lambda field: field.name):
        yield f"two fields are called {field.name}: rename one", field


def _unique_tags(struct: StructDecl, _message: Message) -> Iterator[Spoken]:
    for field in _repeated_fields((one for one in struct.fields if one.tag is not None), lambda field: field.tag):
        yield f"two fields have tag {field.tag}: give one the next free number", field


def _contiguous_tags(struct: StructDecl, _message: Message) -> Iterator[str]:
    tags = {one.tag for one in struct.fields if one.tag is not None}
    missing = [tag for tag in range(len(tags)) if tag not in tags]
    if missing:
        yield f"tag {missing[0]} is not used: tags must count from 0 without a gap (keep removed fields declared)"


def _repeated_fields(fields: Iterable[FieldDecl], key: Callable[[FieldDecl], object]) -> Iterator[FieldDecl]:
    """Yield fields that have the same key as an earlier field."""
    seen: set[object] = set()
    for field in fields:
        if key(field) in seen:
            yield field
        seen.add(key(field))


STRUCT_RULES: tuple[Rule[StructDecl], ...] = (
    Rule("unique-names", "StructSpec: names are unique in a struct", _unique_names),
    Rule("unique-tags", "KIP-482: a tag is unique within the context it appears in", _unique_tags),
    Rule("contiguous-tags", "StructSpec: no tag may be left out", _contiguous_tags),
)
