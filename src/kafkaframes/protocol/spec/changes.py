"""Evolution rules for changes of specs, and findings that refer to a rule. Tables only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from kafkaframes.protocol.spec.versions import Versions

Verdict = Literal["compatible", "note", "breaking"]
SEVERITY_BY_VERDICT: Mapping[str, int] = MappingProxyType({"compatible": 0, "note": 1, "breaking": 2})


@dataclass(frozen=True, slots=True)
class EvolutionRule:
    """A rule for changes of specs: the verdict on a kind of change, and the reason in one sentence."""

    name: str
    verdict: Verdict
    source: str


_FROZEN_REASON = "a released version never changes"
_RULE_TABLE: tuple[tuple[str, Verdict, str], ...] = (
    ("api-key", "breaking", "the API key of a frame identifies its API"),
    ("message-type", "breaking", "a message keeps its type"),
    ("record-convention", "note", "since 4.1 the type of a coordinator record is its apiKey; the bytes are the same"),
    ("versions-lowered", "breaking", "only the lowest versions may be removed"),
    ("versions-below", "breaking", "new versions are higher than all existing ones"),
    ("versions-removed", "note", "KIP-97, KIP-896: a KIP may remove old versions; clients that need them stop working"),
    ("api-removed", "note", "a removed API keeps its file, with validVersions none, so that its key is not reused"),
    ("message-gone", "breaking", "a removed API keeps its file, with validVersions none: its key is never reused"),
    ("versions-added", "compatible", "a new version is free to have another layout"),
    ("message-added", "compatible", "no existing client or broker uses it"),
    ("message-renamed", "note", "the name is not on the wire, but application code uses it"),
    ("flexibility", "breaking", "KIP-482: an inflexible version cannot retroactively become flexible, nor the reverse"),
    ("header-version", "breaking", "KIP-1313: a released version keeps its header version"),
    ("field-added", "breaking", f"KIP-482: {_FROZEN_REASON}; only a tagged field can be added to an existing version"),
    ("field-removed", "breaking", f"{_FROZEN_REASON}; to remove a field, close its versions: 0+ becomes 0-2"),
    ("field-order", "breaking", f"{_FROZEN_REASON}; fields are identified by their order on the wire"),
    ("field-type", "breaking", f"{_FROZEN_REASON}; a field keeps its type"),
    ("array-of-struct", "note", "in inflexible versions an array of structs of one field has the bytes of that field"),
    ("records-are-bytes", "note", "bytes and records have the same encoding, but different types in code"),
    ("field-nullable", "breaking", f"{_FROZEN_REASON}; its nullability is part of it (a new version may allow null)"),
    ("field-compact", "breaking", f"{_FROZEN_REASON}; a length keeps its encoding"),
    ("became-tagged", "breaking", "KIP-482: a field moves to the tag section in a new version only"),
    ("became-mandatory", "breaking", "KIP-482: a tagged field stays tagged, because any peer may send the tag"),
    ("tagged-added", "compatible", "KIP-482: a tagged field can be added to an existing flexible version"),
    ("tag-removed", "breaking", "KIP-482: a tag number is never reused; keep the declaration and stop setting it"),
    ("tag-moved", "breaking", "KIP-482: the format of a tagged field never changes, nor does its number"),
    ("tag-reused", "breaking", "KIP-482: tag numbers must never be reused"),
    ("tag-type", "breaking", "KIP-482: the format of a tagged field never changes"),
    ("tag-nullable", "breaking", "KIP-482: the nullability of a tag never changes"),
    ("tag-narrowed", "breaking", "new readers reject the tag in messages of existing writers"),
    ("default-changed", "breaking", "omitted fields, and fields that a version lacks, have the default value"),
    ("default-to-null", "note", "all versions contain the text, so its default is unused; an unset text is now null"),
    ("field-renamed", "note", "the name is not on the wire, but it is in code and in Kafka's JSON form of messages"),
    ("struct-renamed", "note", "the name of a struct is only in code"),
    ("ignorable", "note", "the bytes stay the same; versions without the field now drop or reject other values"),
    ("map-key", "note", "the bytes stay the same; Kafka stores the array in another collection"),
    ("listeners", "note", "a broker or controller starts or stops serving this API"),
    ("stability", "note", "a latestVersionUnstable version may change until it is released"),
    ("pair-versions", "breaking", "request and response of an API have the same versions and flexible versions"),
    ("language", "breaking", "Kafka's generator rejects the new spec"),
)  # fmt: skip
EVOLUTION_RULES: Mapping[str, EvolutionRule] = MappingProxyType({row[0]: EvolutionRule(*row) for row in _RULE_TABLE})


@dataclass(frozen=True, slots=True)
class SpecChange:
    """A change between two specs of a message, and the rule that judges it.

    Attributes:
        versions: the versions with the change, as text (``0-3, 5``); ``""`` for the whole message.
        path: the field names down to the changed field.
        text: the change, with the old and the new value.
    """

    rule: EvolutionRule
    message: str
    path: tuple[str, ...]
    versions: str
    text: str
    verdict: Verdict

    @property
    def where(self) -> str:
        """The field path with dots, or ``-`` for the whole message."""
        return ".".join(self.path) or "-"


def format_versions(versions: Iterable[int]) -> str:
    """Return versions as ranges.

    >>> format_versions([5, 0, 1, 2])
    '0-2, 5'
    """
    ranges: list[Versions] = []
    for version in sorted(set(versions)):
        if ranges and ranges[-1].highest + 1 == version:
            ranges[-1] = Versions(ranges[-1].lowest, version)
        else:
            ranges.append(Versions(version, version))
    return ", ".join(map(str, ranges))


def most_severe(findings: Iterable[SpecChange]) -> Verdict:
    """Return the most severe verdict; ``compatible`` without findings."""
    return max((finding.verdict for finding in findings), key=SEVERITY_BY_VERDICT.__getitem__, default="compatible")


@dataclass(frozen=True, slots=True)
class SpecCheck:
    """The changes between two specs, or two sets of specs.

    Attributes:
        changes: the changes, each with a verdict and the rule for it.
        messages: number of messages in the later set of specs.
    """

    changes: tuple[SpecChange, ...]
    messages: int

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict: breaking, note or compatible."""
        return most_severe(self.changes)
