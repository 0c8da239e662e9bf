"""What a restore says that it did: read by people, by programs as JSON, and by the next run of the same job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.jobs.restore.groups import GroupsReport
from kafkaframes.jobs.restore.partition import PartitionReport
from kafkaframes.storage.files.row_counts import row_counts_text


@dataclass(slots=True)
class RestoreReport:
    """What a restore did, or (``dry_run``) would do.

    Attributes:
        settings: those of the job.
        fingerprint: of the names, sizes and times of the sources' segments.
        partitions: in their order.
        topic_ids: name to id.
        groups: what became of the committed offsets; None where none were requested.
        left_out: directories of the sources that were not restored, with the reason.
        decisions: what was decided where partitions have several copies.
        held: topics that keep everything (``retention.ms`` is -1) until the setting is changed.
        cluster_id: of the new node; empty for an existing cluster.
        done_before: an earlier run of the same job had finished; nothing was done now.
    """

    source: Any
    destination: str
    settings: dict[str, Any]
    fingerprint: str
    partitions: list[PartitionReport] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    groups: GroupsReport | None = None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    cluster_id: str = ""
    dry_run: bool = False
    done_before: bool = False

    @property
    def bytes_lost(self) -> int:
        """Bytes of damaged batches that are not in the result; unfinished tails do not count."""
        return sum(one.end - one.start for report in self.partitions for one in report.lost if not one.is_tail)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing that the sources should have had."""
        return not self.bytes_lost and all(one["severity"] != "error" for one in self.decisions)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as values that JSON has."""
        return self.as_json()

    def __str__(self) -> str:
        left_out = sum((one.records_left_out for one in self.partitions), Counter[str]())
        read = sum(one.records_read for one in self.partitions)
        written = sum(one.records_written for one in self.partitions)
        where = "nothing was written" if self.dry_run else f"written to {self.destination}"
        return f"{len(self.partitions):,} partitions, {row_counts_text(read, written, left_out)}\n{where}"

    def as_json(self) -> dict[str, Any]:
        """Return the report as values that JSON has."""
        values = {name: getattr(self, name) for name in self.__slots__}
        groups = self.groups and {name: getattr(self.groups, name) for name in self.groups.__slots__}
        return values | {"partitions": [one.as_json() for one in self.partitions], "groups": groups}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> RestoreReport:
        """Return what ``as_json`` said."""
        partitions = [PartitionReport.from_json(one) for one in said["partitions"]]
        groups = said["groups"] and GroupsReport(**said["groups"] | {"dropped": Counter(said["groups"]["dropped"])})
        left_out = [(directory, reason) for directory, reason in said["left_out"]]
        return cls(**said | {"partitions": partitions, "groups": groups, "left_out": left_out})
