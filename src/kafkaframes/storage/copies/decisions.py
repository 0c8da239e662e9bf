"""Decisions about differences between copies, including undecided ones, as text, JSON and findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import TopicPartition

MERGE, ALL = "merge", "all"
REPLICA_MODES = (MERGE, ALL)  # ways to treat several copies of a partition
MERGED_ROOT = "merged"  # path of the merged log directory
# Severity and meaning of each check; the documentation has this table.
MERGE_CHECKS: dict[str, tuple[Severity, str]] = {
    "copy-lags": (Severity.NOTE, "a copy ends before the merged log does"),
    "copy-starts-later": (Severity.NOTE, "what a copy lacks at its start (retention, lost files) comes from another"),
    "compacted-differently": (Severity.NOTE, "copies were compacted to different points; one of them is taken alone"),
    "divergent-tail": (Severity.WARNING, "records of a history that lost: cut, as a follower would truncate them"),
    "epochs-doubtful": (Severity.WARNING, "a leader epoch checkpoint contradicts the batches; the batches count"),
    "taken-from-copy": (Severity.WARNING, "offsets damaged or missing in one copy are taken from another"),
    "misplaced": (Severity.WARNING, "a batch whose offsets or leader epoch do not fit where it stands is not used"),
    "damaged": (Severity.ERROR, "a damaged batch that no other copy has whole"),
    "missing": (Severity.ERROR, "offsets that no copy has"),
    "undecided": (Severity.ERROR, "copies contradict each other and nothing says which is right: neither is taken"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a segment file of a copy, in bytes."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a difference between copies, or an undecided difference.

    Attributes:
        check: stable identifier, one of ``MERGE_CHECKS``.
        first_offset, end_offset: first affected offset, and offset after the last one.
        copy: directory of the affected copy; empty if all copies are affected.
        locations: positions of contradictory or damaged batches, or of their replacements.
    """

    check: str
    topic_partition: TopicPartition
    first_offset: int
    end_offset: int
    message: str
    copy: str = ""
    locations: tuple[Location, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity of the decision: note, warning or error."""
        return MERGE_CHECKS[self.check][0]

    def as_json(self) -> dict[str, Any]:
        """Return the decision as a JSON object."""
        partition_fields = {"topic": self.topic_partition.topic, "partition": self.topic_partition.partition}
        values = asdict(self)
        del values["topic_partition"]
        values["places"] = values.pop("locations")
        return {"severity": self.severity.name.lower()} | partition_fields | values

    def as_finding(self) -> Finding:
        """Return the decision as a finding of a verification."""
        location = self.locations[0] if self.locations else Location(self.copy, 0)
        position = location.position if self.locations else None
        text = f"{self.topic_partition}: {self.message}"
        return Finding(self.severity, self.check, text, location.file, position, self.first_offset)

    def __str__(self) -> str:
        return f"{self.severity.name.lower()}: {self.check}: {self.topic_partition}: {self.message}"


def offsets_text(first: int, end: int) -> str:
    """Return a range of offsets as text.

    >>> offsets_text(3, 4), offsets_text(3, 9)
    ('offset 3', 'offsets 3 to 8')
    """
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


def by_severity(decisions: Iterable[Decision]) -> list[Decision]:
    """Return decisions by severity, most severe first, otherwise in their order."""
    return sorted(decisions, key=lambda decision: -decision.severity)
