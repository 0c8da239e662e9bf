"""Load a message spec: Kafka's JSON in, a checked ``MessageSpec`` out, or a SpecError with file, line, field path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.declared import FieldDecl, MessageDecl, RefusedError, StructDecl, declare
from kafkaframes.protocol.spec.defaults import parse_default
from kafkaframes.protocol.spec.jsontext import JsonText, file_line
from kafkaframes.protocol.spec.model import FieldSpec, MessageSpec, StructSpec
from kafkaframes.protocol.spec.rules_fields import Violation, registry
from kafkaframes.protocol.spec.versions import Versions


class Dialect(NamedTuple):
    """What a generation of Kafka's generator accepts; ``NEWEST`` is the language as it is now.

    Attributes:
        types: the message types it knows.
        allows_trailing_text: text behind the object is ignored (releases up to 2.8 ship such a file).
        needs_flexible_versions: the key must be there (it came with KIP-482, in 2.4).
        allows_removed: ``validVersions: none`` keeps the key of a removed API (since 4.0).
        knows_header_versions: the key ``headerVersions`` exists (KIP-1313, 4.5).
    """

    types: tuple[str, ...]
    allows_trailing_text: bool = False
    needs_flexible_versions: bool = True
    allows_removed: bool = True
    knows_header_versions: bool = True


_OLD_TYPES = ("request", "response", "header", "metadata", "data")
NEWEST = Dialect((*_OLD_TYPES, "coordinator-key", "coordinator-value"))
#: Kafka 3.9's generator, whose verdicts are on record.
KAFKA_3_9 = Dialect(_OLD_TYPES, allows_removed=False, knows_header_versions=False)
#: Whatever a release has shipped.
PUBLISHED = Dialect(NEWEST.types, allows_trailing_text=True, needs_flexible_versions=False)


def load_message(source: str | bytes, *, file: str | None = None, dialect: Dialect = NEWEST) -> MessageSpec:
    """Load one spec.

    Args:
        dialect: which generation of the language to hold it to.

    Raises:
        SpecError: the text is no spec that Kafka's generator would accept; the first reason.
    """
    document = JsonText(source, file=file)
    for problem in problems_of(document, dialect):
        raise SpecError(problem.reason, path=problem.path, file=file_line(file, document.line_of(problem.where)))
    return build(declaration(document, dialect))


def load_trusted(value: dict[str, Any]) -> MessageSpec:
    """Return the spec of a parsed JSON object that is known to pass the rules: the catalog's own files."""
    return build(declare(value, NEWEST.types))


def problems_of(document: JsonText, dialect: Dialect = NEWEST) -> Iterator[Violation]:
    """Yield everything that the generator would refuse in a document."""
    from kafkaframes.protocol.spec.rules import violations  # the catalog's messages are loaded without them

    if document.trailing and not dialect.allows_trailing_text:
        yield Violation("one-object", f"text after the closing brace, line {document.trailing_line}: drop it", (), ())
    try:
        declared = declaration(document, dialect)
        if declared.struct.versions.is_empty and not dialect.allows_removed:
            yield Violation("valid-not-empty", "validVersions has no version", ("validVersions",), ())
        if "headerVersions" in document.value and not dialect.knows_header_versions:
            yield Violation("json", "unknown key 'headerVersions': it came in 4.5", ("headerVersions",), ())
        yield from violations(declared)
    except RefusedError as refusal:
        yield Violation("json", refusal.reason, refusal.where, refusal.path)
    except RecursionError:
        yield Violation("json", "structs nest too deep", (), ())


def declaration(document: JsonText, dialect: Dialect = NEWEST) -> MessageDecl:
    """Return what a document declares, unchecked.

    Raises:
        RefusedError: a key is unknown, missing or of the wrong kind.
    """
    declared = declare(document.value, dialect.types)
    if declared.flexible_versions is None and not dialect.needs_flexible_versions:
        return declared._replace(flexible_versions=Versions.NONE)
    return declared


def build(declared: MessageDecl) -> MessageSpec:
    """Return the resolved spec of a declaration that has passed the rules."""
    structs, _ = registry(declared)
    return MessageSpec(
        name=declared.struct.name,
        type=declared.type,
        struct=_struct(declared.struct),
        flexible_versions=declared.flexible_versions or Versions.NONE,
        api_key=declared.api_key,
        structs={name: _struct(one) for name, one in structs.items()},
        deprecated_versions=declared.deprecated_versions,
        listeners=declared.listeners,
        latest_version_unstable=declared.latest_version_unstable,
        header_versions=_header_versions(declared),
    )


def _struct(declared: StructDecl) -> StructSpec:
    return StructSpec(declared.name, declared.versions, tuple(map(_field, declared.fields)), declared.is_common)


def _field(declared: FieldDecl) -> FieldSpec:
    return FieldSpec(
        name=declared.name,
        type=declared.type,
        versions=declared.versions,
        default=parse_default(declared.type, declared.default),
        nullable_versions=declared.nullable_versions,
        tag=declared.tag,
        tagged_versions=declared.tagged_versions,
        flexible_versions=declared.flexible_versions,
        ignorable=declared.ignorable,
        map_key=declared.map_key,
        entity_type=declared.entity_type,
        zero_copy=declared.zero_copy,
        about=declared.about,
        written_default=declared.default,
    )


def _header_versions(declared: MessageDecl) -> tuple[tuple[Versions, int], ...] | None:
    if declared.header_versions is None:
        return None
    pairs = [(Versions.parse(versions), int(header)) for versions, header in declared.header_versions]
    return tuple(sorted(pairs, key=lambda pair: pair[0].lowest))
