"""Load message specs from Kafka's JSON. Errors have file, line and field path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.declared import DeclarationError, FieldDecl, MessageDecl, StructDecl, declare_message
from kafkaframes.protocol.spec.defaults import parse_default
from kafkaframes.protocol.spec.jsontext import JsonText, format_file_line
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.protocol.spec.rules_fields import RuleViolation, register_structs
from kafkaframes.protocol.spec.versions import Versions


class SpecDialect(NamedTuple):
    """Rules of one generation of Kafka's generator. ``NEWEST_DIALECT`` is the current language.

    Attributes:
        types: supported message types.
        allows_trailing_text: whether text after the object is ignored (releases up to 2.8 contain such a file).
        needs_flexible_versions: whether the key ``flexibleVersions`` is mandatory (since KIP-482, in 2.4).
        allows_removed: whether ``validVersions: none`` is allowed, for removed APIs (since 4.0).
        knows_header_versions: whether the key ``headerVersions`` exists (KIP-1313, since 4.5).
    """

    types: tuple[str, ...]
    allows_trailing_text: bool = False
    needs_flexible_versions: bool = True
    allows_removed: bool = True
    knows_header_versions: bool = True


_OLD_MESSAGE_TYPES = ("request", "response", "header", "metadata", "data")
NEWEST_DIALECT = SpecDialect((*_OLD_MESSAGE_TYPES, "coordinator-key", "coordinator-value"))
#: The generator of Kafka 3.9. Tests compare with its recorded results.
KAFKA_3_9_DIALECT = SpecDialect(_OLD_MESSAGE_TYPES, allows_removed=False, knows_header_versions=False)
#: All specs that a release contains.
PUBLISHED_DIALECT = SpecDialect(NEWEST_DIALECT.types, allows_trailing_text=True, needs_flexible_versions=False)


def load_message(source: str | bytes, *, file: str | None = None, dialect: SpecDialect = NEWEST_DIALECT) -> MessageSpec:
    """Load a spec.

    Args:
        source: the JSON text.
        file: file name that errors contain.
        dialect: rules to apply.

    Raises:
        SpecError: Kafka's generator would reject the spec; the error is the first reason.
    """
    document = JsonText(source, file=file)
    for problem in find_problems(document, dialect):
        raise SpecError(problem.reason, path=problem.path, file=format_file_line(file, document.line_of(problem.where)))
    return build_spec(read_declaration(document, dialect))


def load_trusted(value: dict[str, Any]) -> MessageSpec:
    """Return the spec of a parsed JSON object without checking the rules, for files of the catalog."""
    return build_spec(declare_message(value, NEWEST_DIALECT.types))


def find_problems(document: JsonText, dialect: SpecDialect = NEWEST_DIALECT) -> Iterator[RuleViolation]:
    """Yield all reasons for which the generator would reject a document."""
    from kafkaframes.protocol.spec.rules import find_violations  # not needed for messages of the catalog

    if document.trailing and not dialect.allows_trailing_text:
        yield RuleViolation(
            "one-object", f"text after the closing brace, line {document.trailing_line}: remove it", (), ()
        )
    try:
        message = read_declaration(document, dialect)
        if message.struct.versions.is_empty and not dialect.allows_removed:
            yield RuleViolation("valid-not-empty", "validVersions is empty", ("validVersions",), ())
        if "headerVersions" in document.value and not dialect.knows_header_versions:
            yield RuleViolation("json", "unknown key 'headerVersions': it exists since 4.5", ("headerVersions",), ())
        yield from find_violations(message)
    except DeclarationError as refusal:
        yield RuleViolation("json", refusal.reason, refusal.where, refusal.path)
    except RecursionError:
        yield RuleViolation("json", "structs are nested too deeply", (), ())


def read_declaration(document: JsonText, dialect: SpecDialect = NEWEST_DIALECT) -> MessageDecl:
    """Return the declaration in a document, without checking the rules.

    Raises:
        DeclarationError: a key is unknown or missing, or its value has the wrong type.
    """
    message = declare_message(document.value, dialect.types)
    if message.flexible_versions is None and not dialect.needs_flexible_versions:
        return message._replace(flexible_versions=Versions.NONE)
    return message


def build_spec(message: MessageDecl) -> MessageSpec:
    """Return the resolved spec of a valid declaration."""
    structs, _ = register_structs(message)
    return MessageSpec(
        name=message.struct.name,
        type=message.type,
        struct=_struct(message.struct),
        flexible_versions=message.flexible_versions or Versions.NONE,
        api_key=message.api_key,
        structs={name: _struct(struct) for name, struct in structs.items()},
        deprecated_versions=message.deprecated_versions,
        listeners=message.listeners,
        latest_version_unstable=message.latest_version_unstable,
        header_versions=_parse_header_versions(message),
    )


def _struct(struct: StructDecl) -> StructSpec:
    return StructSpec(struct.name, struct.versions, tuple(map(_build_field, struct.fields)), struct.is_common)


def _build_field(field: FieldDecl) -> FieldSpec:
    return FieldSpec(
        name=field.name,
        type=field.type,
        versions=field.versions,
        default=parse_default(field.type, field.default),
        nullable_versions=field.nullable_versions,
        tag=field.tag,
        tagged_versions=field.tagged_versions,
        flexible_versions=field.flexible_versions,
        ignorable=field.ignorable,
        map_key=field.map_key,
        entity_type=field.entity_type,
        zero_copy=field.zero_copy,
        about=field.about,
        written_default=field.default,
    )


def _parse_header_versions(message: MessageDecl) -> tuple[tuple[Versions, int], ...] | None:
    if message.header_versions is None:
        return None
    pairs = [(Versions.parse(versions), int(header)) for versions, header in message.header_versions]
    return tuple(sorted(pairs, key=lambda pair: pair[0].lowest))
