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
#: A reason, and the declaration that it refers to, if that is not the checked declaration.
Reason: TypeAlias = str | tuple[str, FieldDecl | StructDecl]


class SpecRule(NamedTuple, Generic[T]):
    """A rule of Kafka's generator: its name, its source (KIP or Java class), and the function that checks it."""

    name: str
    source: str
    check: Callable[[T, RuleContext], Iterator[Reason]]
    key: str = ""  # JSON key that violations refer to, for their line number
    # True if only the code generator checks this rule, and hence only for fields with generated code.
    of_generated: bool = False


class RuleViolation(NamedTuple):
    """A violation of a rule, with its position in the file."""

    rule: str
    reason: str
    where: JsonPath
    path: tuple[str, ...]


class RuleContext(NamedTuple):
    """Input of the rules: a declaration, and all structs that the generator registers for it."""

    declaration: MessageDecl
    structs: dict[str, StructDecl]

    @property
    def flexible_versions(self) -> Versions:
        """The message's flexible versions; empty if the key is missing."""
        return self.declaration.flexible_versions or Versions.NONE


def register_structs(declaration: MessageDecl) -> tuple[dict[str, StructDecl], list[RuleViolation]]:
    """Return the structs that the generator registers, common structs first, and violations in their declarations."""
    structs: dict[str, StructDecl] = {}
    wrong: list[RuleViolation] = []
    for common in declaration.common_structs:
        if not common.name[:1].isupper():
            _speak(wrong, "common-struct-capital", f"struct {common.name} must start with a capital", common)
        if common.name in structs:
            _speak(wrong, "common-struct-once", f"common struct {common.name} is declared twice: remove one", common)
        structs[common.name] = common
    _register_inline(declaration.struct.fields, structs, wrong)
    return structs, wrong


def _register_inline(fields: tuple[FieldDecl, ...], structs: dict[str, StructDecl], wrong: list[RuleViolation]) -> None:
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
            reason = f"{name} is a common struct, so the field that uses it cannot declare fields: remove them"
            _speak(wrong, "common-struct-no-fields", reason, field)
        _register_inline(field.fields, structs, wrong)


def _speak(wrong: list[RuleViolation], rule: str, reason: str, about: StructDecl | FieldDecl) -> None:
    wrong.append(RuleViolation(rule, reason, about.where, about.path))


def apply_rules(
    rules: tuple[SpecRule[T], ...], subject: T, message: RuleContext, where: JsonPath, path: tuple[str, ...]
) -> Iterator[RuleViolation]:
    """Check a declaration, which is at ``where``, and yield its violations."""
    for rule in rules:
        for reason in rule.check(subject, message):
            if isinstance(reason, str):
                yield RuleViolation(rule.name, reason, (*where, rule.key) if rule.key else where, path)
            else:
                yield RuleViolation(rule.name, reason[0], reason[1].where, reason[1].path)


# ---------------------------------------------------------------------------------------------------------------------

FIELD_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9]*")


def _check_name(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if not FIELD_NAME_PATTERN.fullmatch(field.name):
        yield f"field name {field.name!r} must consist of letters and digits, and start with a letter"


def _check_nullable_type(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if not field.nullable_versions.is_empty and not field.type.can_be_nullable:
        yield f"type {field.type} cannot be nullable: remove nullableVersions, and use a value such as -1 for null"


def _check_entity_type(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    needed_type = ENTITY_TYPES[field.entity_type]
    if needed_type is not None and field.type.name != needed_type:
        yield f"entityType {field.entity_type} needs type {needed_type}, but {field.name} is {field.type}"


def _check_fields_of_struct(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.fields and not (field.type.is_array or field.type.is_struct):
        yield f"{field.name} is {field.type}, neither a struct nor an array: it cannot have fields"


def _check_own_flexible_type(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.flexible_versions is not None and (field.type.is_array or field.type.name not in ("string", "bytes")):
        yield f"only string and bytes fields can have flexibleVersions of their own; {field.name} is {field.type}"


def _check_own_flexible_subset(field: FieldDecl, message: RuleContext) -> Iterator[str]:
    own = field.flexible_versions
    if own is not None and not message.flexible_versions.covers(own):
        yield f"flexibleVersions {own} must be within the message's, {message.flexible_versions}"


def _check_zero_copy(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.zero_copy and (field.type.is_array or field.type.name != "bytes"):
        yield f"zeroCopy is for bytes fields only; {field.name} is {field.type}"


def _check_tag_pair(field: FieldDecl, message: RuleContext) -> Iterator[str]:
    if field.tag is None and not field.tagged_versions.is_empty:
        yield f"taggedVersions {field.tagged_versions} without a tag: give the field a tag, or remove taggedVersions"
    if field.tag is not None and field.tagged_versions.is_empty:
        yield f"tag {field.tag} without taggedVersions: {_propose_tagged_versions(field, message)}"


def _propose_tagged_versions(field: FieldDecl, message: RuleContext) -> str:
    """Propose ``taggedVersions`` for a tag that lacks them: all flexible versions that have the field (KIP-482)."""
    flexible = _flexible(field, message)
    proposed_versions = flexible if field.versions.is_empty else flexible.intersect(field.versions)
    if proposed_versions.is_empty:
        return f"and no version that has the field is flexible (flexibleVersions {flexible})"
    if not proposed_versions.is_open:
        return f"they must be open, and the versions of the field end: {field.versions}"
    return f'the generator requires them; in all flexible versions: "taggedVersions": "{proposed_versions}"'


def _flexible(field: FieldDecl, message: RuleContext) -> Versions:
    return message.flexible_versions if field.flexible_versions is None else field.flexible_versions


def _check_tag_key(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.tag is not None and field.map_key:
        yield "a tagged field cannot be a mapKey: remove one of the two"


def _check_tag_negative(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.tag is not None and field.tag < 0:
        yield f"tag {field.tag} is negative: tags count from 0"


def _check_tag_nullable(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    nullable = field.nullable_versions.intersect(field.tagged_versions)
    if field.tag is not None and not nullable.is_empty and nullable != field.tagged_versions:
        yield f"nullable in {nullable} of its tagged versions {field.tagged_versions}: it must be in all or in none"


def _check_tag_open(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.tag is not None and not field.tagged_versions.is_empty and not field.tagged_versions.is_open:
        yield f"taggedVersions {field.tagged_versions} must be open, such as {field.tagged_versions.lowest}+"


def _check_tag_subset(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if not field.versions.covers(field.tagged_versions):
        yield f"taggedVersions {field.tagged_versions} must be within versions, {field.versions}"


def _check_tag_flexible(field: FieldDecl, message: RuleContext) -> Iterator[str]:
    flexible = _flexible(field, message)
    if not flexible.covers(field.tagged_versions):
        yield f"taggedVersions {field.tagged_versions} must be within the flexible versions, {flexible}"


def _check_tag_records(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
    if field.tag is not None and field.type.name == "records":
        yield "a records field cannot be tagged"


def _check_default(field: FieldDecl, _message: RuleContext) -> Iterator[str]:
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


FIELD_RULES: tuple[SpecRule[FieldDecl], ...] = (
    SpecRule("field-name", "FieldSpec: names are Java identifiers of letters and digits", _check_name),
    SpecRule(
        "nullable-type",
        "FieldSpec: only strings, bytes, records, arrays and structs can be null",
        _check_nullable_type,
        "nullableVersions",
    ),
    SpecRule("entity-type", "EntityType: each entity type has one field type", _check_entity_type, "entityType"),
    SpecRule("fields-of-struct", "FieldSpec: only structs and arrays have fields", _check_fields_of_struct),
    SpecRule(
        "own-flexible-type",
        "FieldSpec: only the client id in request headers needs flexibleVersions of its own",
        _check_own_flexible_type,
        "flexibleVersions",
    ),
    SpecRule(
        "own-flexible-subset",
        "a field is flexible in flexible versions only",
        _check_own_flexible_subset,
        "flexibleVersions",
        of_generated=True,
    ),
    SpecRule("zero-copy-type", "FieldSpec: zeroCopy is for fields of type bytes", _check_zero_copy, "zeroCopy"),
    SpecRule("tag-and-tagged-versions", "KIP-482: each optional field has a tag number", _check_tag_pair),
    SpecRule(
        "tag-not-key",
        "every element of an array must have its key, so a key cannot be tagged",
        _check_tag_key,
        "mapKey",
    ),
    SpecRule("tag-not-negative", "KIP-482: a tag is not negative, and has at most 31 bits", _check_tag_negative, "tag"),
    SpecRule("tag-nullable", "KIP-482: a tag keeps its nullability", _check_tag_nullable, "nullableVersions"),
    SpecRule(
        "tag-open", "KIP-482: a tag is never reused, so its versions never end", _check_tag_open, "taggedVersions"
    ),
    SpecRule("tag-subset", "KIP-482: taggedVersions must be a subset of versions", _check_tag_subset, "taggedVersions"),
    SpecRule(
        "tag-flexible",
        "KIP-482: no tagged fields in an inflexible version",
        _check_tag_flexible,
        "taggedVersions",
        of_generated=True,
    ),
    SpecRule(
        "tag-not-records",
        "Kafka's generator does not support tagged fields of type records (KIP-482 allows any type)",
        _check_tag_records,
        "tag",
        of_generated=True,
    ),
    SpecRule(
        "default",
        "FieldSpec: a default must be a value of the field's type",
        _check_default,
        "default",
        of_generated=True,
    ),
)


def _check_unique_names(struct: StructDecl, _message: RuleContext) -> Iterator[Reason]:
    for field in _find_duplicates(struct.fields, lambda field: field.name):
        yield f"two fields are named {field.name}: rename one", field


def _check_unique_tags(struct: StructDecl, _message: RuleContext) -> Iterator[Reason]:
    for field in _find_duplicates(
        (member for member in struct.fields if member.tag is not None), lambda field: field.tag
    ):
        yield f"two fields have tag {field.tag}: give one the next free number", field


def _check_contiguous_tags(struct: StructDecl, _message: RuleContext) -> Iterator[str]:
    tags = {member.tag for member in struct.fields if member.tag is not None}
    missing = [tag for tag in range(len(tags)) if tag not in tags]
    if missing:
        yield f"tag {missing[0]} is not used: tags must count from 0 without a gap (keep removed fields declared)"


def _find_duplicates(fields: Iterable[FieldDecl], key: Callable[[FieldDecl], object]) -> Iterator[FieldDecl]:
    """Yield fields that have the same key as an earlier field."""
    keys: set[object] = set()
    for field in fields:
        if key(field) in keys:
            yield field
        keys.add(key(field))


STRUCT_RULES: tuple[SpecRule[StructDecl], ...] = (
    SpecRule("unique-names", "StructSpec: names are unique in a struct", _check_unique_names),
    SpecRule("unique-tags", "KIP-482: a tag is unique within the context it appears in", _check_unique_tags),
    SpecRule("contiguous-tags", "StructSpec: tags have no gaps", _check_contiguous_tags),
)
