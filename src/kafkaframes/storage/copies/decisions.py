"""Decisions about differences between copies, including unresolved ones, as text, JSON and findings."""

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
    "copy-lags": (Severity.NOTE, "a copy ends before the merged log"),
    "copy-starts-later": (Severity.NOTE, "records before a copy's start (retention, lost files) are read "
                                         "from another copy"),
    "compacted-differently": (Severity.NOTE, "copies were compacted to different offsets; only one of them "
                                             "is read"),
    "divergent-tail": (Severity.WARNING, "records that diverge from the chosen history are omitted, as a "
                                         "follower truncates them"),
    "epochs-doubtful": (Severity.WARNING, "a leader epoch checkpoint contradicts the batches; the batches "
                                          "are trusted"),
    "taken-from-copy": (Severity.WARNING, "offsets that are damaged or missing in one copy are read from "
                                          "another"),
    "misplaced": (Severity.WARNING, "a batch is ignored because its offsets or leader epoch do not match its "
                                    "position"),
    "damaged": (Severity.ERROR, "a batch is damaged in every copy"),
    "missing": (Severity.ERROR, "offsets are missing in every copy"),
    "undecided": (Severity.ERROR, "copies contradict each other, and nothing shows which one is correct; none is read"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a segment file of a copy, in bytes."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a difference between copies, or a difference that could not be resolved.

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


def format_offset_range(first: int, end: int) -> str:
    """Return a range of offsets as text.

    >>> format_offset_range(3, 4), format_offset_range(3, 9)
    ('offset 3', 'offsets 3 to 8')
    """
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


def sort_by_severity(decisions: Iterable[Decision]) -> list[Decision]:
    """Return decisions sorted by severity, most severe first. Decisions of the same severity keep their order."""
    return sorted(decisions, key=lambda decision: -decision.severity)
