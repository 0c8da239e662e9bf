"""Merge the copies of a partition into one log, which is measured, and report the decision about each copy.

Copies with another cluster id or topic id are not copies of the same log. They are measured separately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.copies.one_log import merge_copies, select_copies
from kafkaframes.storage.copies.reading import CopySource, group_by_partition
from kafkaframes.storage.copies.spans import MergedLog
from kafkaframes.storage.copies.view import MergedViewBuilder
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.findings import Finding, Severity

SAME, BEHIND, LATER, CLEANED = "same", "behind", "starts later", "cleaned"
INCOMPLETE, DAMAGED, DIFFERS = "incomplete", "damaged", "differs"
OTHER_TOPIC, OTHER_CLUSTER, UNREADABLE = "other topic", "other cluster", "unreadable"
# The verdict on a copy for each check of a decision, most severe first.
_VERDICT_BY_CHECK = {
    "divergent-tail": DIFFERS,
    "undecided": DIFFERS,
    "misplaced": DAMAGED,
    "damaged": DAMAGED,
    "taken-from-copy": INCOMPLETE,
    "epochs-doubtful": INCOMPLETE,
    "compacted-differently": CLEANED,
    "copy-lags": BEHIND,
    "copy-starts-later": LATER,
}


@dataclass(slots=True)
class CopyReport:
    """The report on one of several copies of a partition.

    Attributes:
        verdict: ``same`` (as the merged log); ``behind`` or ``starts later`` (the same within the copy's offsets);
            ``cleaned`` (compacted to another point); ``incomplete`` (records of other copies are missing); ``damaged``
            (has errors); ``differs`` (another history was preferred, or it is unknown which one is right); ``other
            topic`` (another topic id), ``other cluster`` or ``unreadable`` (not merged).
        leads: whether the merged log has this copy's history where copies differ.
        start_offset, end_offset: offset range of the copy, with an exclusive end; -1 if the headers were not read.
    """

    topic: str
    partition: int
    directory: str
    verdict: str
    leads: bool
    topic_id: str | None
    start_offset: int
    end_offset: int
    size_bytes: int
    batches: int
    errors: int = 0
    decided: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MeasuredLog:
    """One log with its copies. The measured ``partition`` is the merged view of the copies, or the only copy.

    Attributes:
        apart: verdict on copies of the same topic partition that do not belong to the same log as the first copies; ""
            if this log belongs to the first copies.
    """

    copies: tuple[CopySource, ...]
    partition: Partition
    filesystem: FileSystem
    merged_log: MergedLog | None = None
    apart: str = ""
    problem: LogDirError | None = None

    @property
    def disk_bytes(self) -> int:
        """The size of all copies, in bytes."""
        return sum(copy.partition.size_bytes for copy in self.copies)

    @property
    def findings(self) -> list[Finding]:
        """The merge decisions as findings, or a finding with the reason why the copies were not merged."""
        if self.problem is not None:
            message = f"copies were not merged: {self.problem.reason}"
            return [Finding(Severity.WARNING, "copies", message, self.problem.file or self.partition.directory)]
        return [decision.as_finding() for decision in self.decisions]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions of the merge."""
        return self.merged_log.decisions if self.merged_log else ()


def join_copies(
    directories: Iterable[LogDirectory], topics: Collection[str], options: Mapping[str, Any]
) -> list[MeasuredLog]:
    """Return the logs of each topic partition, sorted by name.

    If a partition has several copies, their headers are read.

    ``topics`` are the paths that the caller passed.
    """
    result: list[MeasuredLog] = []
    for _, copies in sorted(group_by_partition(select_copies(directories, topics)).items()):
        for cluster_groups, cluster_separation in _split_by_id(copies, _cluster_id_of, OTHER_CLUSTER):
            for same_topic, topic_separation in _split_by_id(cluster_groups, _topic_id_of, OTHER_TOPIC):
                result.append(_make_measured_log(tuple(same_topic), options, topic_separation or cluster_separation))
    return result


def _cluster_id_of(entry: CopySource) -> str | None:
    return entry.log_directory.meta.cluster_id if entry.log_directory.meta else None


def _topic_id_of(entry: CopySource) -> str | None:
    return entry.partition.metadata.topic_id if entry.partition.metadata else None


def _split_by_id(
    copies: Sequence[CopySource], key: Callable[[CopySource], str | None], verdict: str
) -> Iterator[tuple[list[CopySource], str]]:
    """Split copies into groups by an id.

    Copies without an id join the first group. The other groups get the verdict.
    """
    ids = list(dict.fromkeys(name for copy in copies if (name := key(copy)) is not None))
    for index, name in enumerate(ids or [None]):
        group_copies = [copy for copy in copies if key(copy) == name or (index == 0 and key(copy) is None)]
        yield group_copies, verdict if index else ""


def _make_measured_log(
    result: tuple[CopySource, ...], options: Mapping[str, Any], separation_reason: str
) -> MeasuredLog:
    """Return the log of one or several copies, and their merged view."""
    first = max(result, key=lambda entry: entry.partition.size_bytes)
    single_log = MeasuredLog(result, first.partition, first.filesystem, apart=separation_reason)
    if len(result) == 1:
        return single_log
    view = MergedViewBuilder(options)
    try:
        merged_log = merge_copies(result, check=True, scan=True)
        partition = view.add_merged(merged_log, result)
    except LogDirError as problem:
        return MeasuredLog(result, first.partition, first.filesystem, apart=separation_reason, problem=problem)
    return MeasuredLog(result, partition, view.filesystem, merged_log, separation_reason)


def list_copy_reports(joined_copies: Iterable[MeasuredLog], errors: Mapping[str, int]) -> list[CopyReport]:
    """Return a report on each copy of the partitions that have several copies.

    ``errors`` has the number of findings with severity ``ERROR``, by directory.
    """
    joined_list = list(joined_copies)
    copied_partitions = {
        measured_log.partition.topic_partition
        for measured_log in joined_list
        if len(measured_log.copies) > 1 or measured_log.apart
    }
    return [
        _report_copy(measured_log, index, errors.get(copy.partition.directory, 0))
        for measured_log in joined_list
        if measured_log.partition.topic_partition in copied_partitions
        for index, copy in enumerate(measured_log.copies)
    ]


def _report_copy(entry: MeasuredLog, index: int, errors: int) -> CopyReport:
    """Return the report on copy number ``index`` of a partition."""
    partition = entry.copies[index].partition
    copy = entry.merged_log.copies[index] if entry.merged_log else None
    copy_decisions = [decision for decision in entry.decisions if decision.copy == partition.directory]
    return CopyReport(
        topic=partition.topic,
        partition=partition.partition,
        directory=partition.directory,
        verdict=_choose_verdict(entry, {decision.check for decision in copy_decisions}, errors),
        leads=index == (entry.merged_log.authority if entry.merged_log else 0),
        topic_id=_topic_id_of(entry.copies[index]),
        start_offset=copy.start if copy else -1,
        end_offset=copy.end if copy else -1,
        size_bytes=partition.size_bytes,
        batches=len(copy.blocks) if copy else 0,
        errors=errors,
        decided=[decision.message for decision in copy_decisions],
    )


def _choose_verdict(entry: MeasuredLog, checks: set[str], errors: int) -> str:
    """Derive the verdict on a copy from the checks of the merge and the copy's number of errors."""
    if entry.problem is not None or entry.apart:
        return UNREADABLE if entry.problem is not None else entry.apart
    result = next((verdict for check, verdict in _VERDICT_BY_CHECK.items() if check in checks), SAME)
    return DAMAGED if errors and result != DIFFERS else result
