"""Make a report of what was discovered: one pass over every segment, then what needs several of them.

Copies of a partition are verified each, and measured as the one log that they make. The pass (``measure_segment``) may
run in many processes; what comes back is folded into its topic at once, so memory does not grow with the number of
segments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.jobs.report import totals
from kafkaframes.jobs.report.copies import Joined, copy_reports, joined_copies
from kafkaframes.jobs.report.measure import Loss, Measure, Measured, Task, measure_segment
from kafkaframes.jobs.report.metadata import compacted_topics, transactional_ids, transactions_of
from kafkaframes.jobs.report.model import DirectoryReport, NotRead, Report, TopicState
from kafkaframes.jobs.verify import verify
from kafkaframes.jobs.verify.verify_segment import SegmentFacts
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.filesystem import plain_path
from kafkaframes.storage.files.findings import Finding, Severity


@dataclass(slots=True)
class Survey:
    """Everything that the pass brought."""

    topics: dict[str, TopicState] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def make_report(
    directories: Iterable[LogDirectory],
    *,
    paths: Sequence[str],
    version: str,
    generated_at: int,
    options: Mapping[str, Any] | None = None,
    run: Runner = run_here,
) -> Report:
    """Read everything that was discovered and report it.

    Args:
        directories: from ``discover``.
        paths: what the caller named; a renamed directory (``-delete``) counts only where one of them leads to it.
        version: of kafkaframes.
        generated_at: what time it is, in milliseconds; the report of the same files is otherwise the same.
        options: of the stores.
        run: carries tasks out, in their order.

    Raises:
        OptionError: there is no partition.
    """
    listed = list(directories)
    if not any(directory.partitions for directory in listed):
        raise OptionError(f"{', '.join(paths)}: there is no topic partition to report on")
    named = {plain_path(path).rstrip("/") for path in paths}
    joined = joined_copies(listed, named, options or {})
    survey = _pass(listed, joined, run)
    topics = totals.topics_of(survey.topics, compacted_topics(listed), survey.findings)
    times = totals.times_of(survey.topics, topics)
    names = transactional_ids((one.filesystem, one.partition) for one in joined)
    return Report(
        version=version,
        paths=list(paths),
        generated_at=generated_at,
        directories=[_directory(one) for one in listed],
        topics=topics,
        partitions=totals.partitions_of(survey.topics),
        times=times,
        record_sizes=totals.sizes_of(survey.topics, "record_sizes"),
        batch_sizes=totals.sizes_of(survey.topics, "batch_sizes"),
        producers=totals.producers_of(survey.topics, names),
        transactions=totals.transactions_of(one for state in survey.topics.values() for one in state.transactions),
        copies=copy_reports(joined, totals.errors_by_directory(survey.findings)),
        findings=sorted(survey.findings, key=lambda entry: -entry.severity),
        losses=survey.losses,
        not_read=list(_not_read(listed, named)),
    )


def _pass(directories: list[LogDirectory], joined: list[Joined], run: Runner) -> Survey:
    """Verify every segment, in the order in which ``verify`` asks for them; measure each log once.

    A log of which there is one copy is measured in the same pass. One that was merged follows after all: its bytes lie
    in several copies.
    """
    survey = Survey()
    alone = {one.partition.directory: one for one in joined if one.merged is None}
    partitions = [one for directory in directories for one in directory.partitions]
    views = [one for one in joined if one.merged is not None]
    merged = [Task(one.filesystem, segment) for one in views for segment in one.partition.segments]
    results: Iterator[Measured] = iter(())

    def measured(_: object, requested: Iterable[verify.Task]) -> Iterator[SegmentFacts]:
        nonlocal results
        chosen = (
            one.directory in alone and index < len(one.segments)
            for one in partitions
            for index in range(len(one.segments) + len(one.kraft_snapshots))
        )
        tasks = [Task(filesystem, one, want) for (filesystem, one, *_), want in zip(requested, chosen, strict=True)]
        results = iter(run(measure_segment, tasks + merged))
        for partition in partitions:
            result = [next(results) for _ in (*partition.segments, *partition.kraft_snapshots)]
            if partition.directory in alone:
                _fold(survey, alone[partition.directory], result[: len(partition.segments)])
            yield from (facts for facts, _ in result)

    survey.findings = verify.verify(directories, run=measured).findings
    known = {(one.file, one.position) for one in survey.findings}
    survey.findings += [_finding(loss) for loss in survey.losses if (loss.file, loss.position) not in known]
    for entry in views:
        _fold(survey, entry, [next(results) for _ in entry.partition.segments])
    survey.findings += [finding for one in joined for finding in one.findings]
    _count_errors(survey)
    return survey


def _fold(survey: Survey, entry: Joined, result: list[Measured]) -> None:
    state = survey.topics.setdefault(entry.partition.topic, TopicState())
    whole = Measure()
    for _, measured in result:
        whole.merge(measured.measure)
        survey.losses += measured.losses
    state.measure.merge(whole)
    state.lossless &= not any(measured.losses for _, measured in result)
    state.segments += len(entry.partition.segments)
    state.size_bytes += entry.partition.size_bytes
    state.disk_bytes += entry.disk_bytes
    state.copies += len(entry.copies)
    state.directories += [copy.partition.directory for copy in entry.copies]
    state.partitions.append(totals.partition_of(entry, whole, [facts for facts, _ in result]))
    ended = transactions_of(result)
    if ended.count or ended.empty_markers:
        state.transactions.append((entry.partition.topic_partition, ended))


def _count_errors(survey: Survey) -> None:
    errors = totals.errors_by_directory(survey.findings)
    for state in survey.topics.values():
        for partition in state.partitions:
            partition.errors = sum(errors[directory] for directory in partition.directories)


def _finding(loss: Loss) -> Finding:
    check = "crc" if loss.reason == CRC_MISMATCH else "records"
    return Finding(Severity.ERROR, check, loss.reason, loss.file, loss.position, loss.base_offset)


def _directory(entry: LogDirectory) -> DirectoryReport:
    return DirectoryReport(
        path=entry.path,
        node_id=entry.meta.node_id if entry.meta else None,
        cluster_id=entry.meta.cluster_id if entry.meta else None,
        clean_shutdown=entry.clean_shutdown is not None,
        partitions=sum(partition.is_live for partition in entry.partitions),
        size_bytes=sum(partition.size_bytes for partition in entry.partitions),
    )


_STATES = {
    "delete": "the broker had renamed it to delete it",
    "future": "a move between disks that had not ended",
    "stray": "the broker had set it aside: the cluster no longer assigned it",
}


def _not_read(directories: list[LogDirectory], named: Collection[str]) -> Iterator[NotRead]:
    for directory in directories:
        for partition in directory.partitions:
            if not partition.is_live and partition.directory not in named:
                why = f"{_STATES.get(partition.state, partition.state)}; verified, not measured"
                yield NotRead(partition.directory, why, partition.size_bytes)
            for file in partition.temporary:
                yield NotRead(file.path, f"a temporary file (.{file.name.temporary})", file.size_bytes)
            for snapshot in partition.kraft_snapshots:
                yield NotRead(snapshot.path, "a snapshot of the metadata; verified, not measured", snapshot.size_bytes)
        if directory.bootstrap is not None:
            yield NotRead(
                directory.bootstrap.path, "a file of the metadata's bootstrap", directory.bootstrap.size_bytes
            )
