"""Make a report of log directories: one pass over all segments, then the numbers that need several segments.

Each copy of a partition is verified, and the merged log is measured once. The pass (``measure_segment``) may run in
many processes. Each result is added to its topic at once, so memory use does not grow with the number of segments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import OptionError
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.jobs.report.copies import MeasuredLog, copy_reports, join_copies
from kafkaframes.jobs.report.histograms import STANDARD_ERROR, Sizes, Times, timeline
from kafkaframes.jobs.report.measure import (
    DamagedBatch,
    Measure,
    Measured,
    MeasureTask,
    ProducerCounts,
    measure_segment,
)
from kafkaframes.jobs.report.metadata import (
    OpenTransaction,
    Transactions,
    find_compacted_topics,
    transactional_ids,
    transactions_of,
)
from kafkaframes.jobs.report.model import (
    DirectoryReport,
    KeyReport,
    LogReport,
    NotRead,
    PartitionReport,
    ProducerReport,
    SizeReport,
    TimeReport,
    TopicReport,
    TopicState,
    TransactionReport,
)
from kafkaframes.jobs.verify import verify
from kafkaframes.jobs.verify.verify_segment import SegmentFacts
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.filesystem import plain_path
from kafkaframes.storage.files.findings import Finding, Severity

MAX_PRODUCERS = 1000  # producers that are listed; the rest is counted as ``OTHER_PRODUCERS``
MAX_OPEN_TRANSACTIONS = 100
OTHER_PRODUCERS = -2  # producer id for all producers that are not listed
Topics = Mapping[str, TopicState]


def partition_of(measured_log: MeasuredLog, whole: Measure, facts: list[SegmentFacts]) -> PartitionReport:
    """Return the report of a partition."""
    partition, total = measured_log.partition, whole.total
    firsts = [one.first_offset for one in facts if one.first_offset >= 0]
    lasts = [one.last_offset for one in facts if one.last_offset >= 0]
    start = partition.log_start_offset
    end = max(start, max(lasts, default=-1) + 1, *(one.base_offset for one in partition.segments), 0)
    span = max(lasts) + 1 - min(firsts) if firsts and lasts else 0  # format 1: too small by a wrapper's first records
    return PartitionReport(
        topic=partition.topic,
        partition=partition.partition,
        directories=[one.partition.directory for one in measured_log.copies],
        start_offset=start,
        end_offset=end,
        high_watermark=partition.high_watermark,
        segments=len(partition.segments),
        size_bytes=partition.size_bytes,
        batches=total.batches,
        records=total.records,
        missing_offsets=max(span - whole.offsets_seen, 0),
        leader_epochs=len({epoch for one in facts for epoch, _, _ in one.epochs}),
        first=whole.times.first,
        last=whole.times.last,
        errors=0,
    )


def topics_of(topics: Topics, compaction_evidence: Mapping[str, str], findings: Iterable[Finding]) -> list[TopicReport]:
    """Return the reports of topics, sorted by size, the largest first."""
    errors = errors_by_directory(findings)
    result = [_topic(name, state, compaction_evidence.get(name, ""), errors) for name, state in topics.items()]
    return sorted(result, key=lambda entry: (-entry.size_bytes, entry.name))


def _topic(name: str, state: TopicState, compaction_evidence: str, errors: Counter[str]) -> TopicReport:
    measure, total = state.measure, state.measure.total
    if not compaction_evidence and state.lossless and measure.thinned:
        compaction_evidence = "records are missing inside batches"
    exact = measure.keys.is_exact
    return TopicReport(
        name=name,
        is_internal=name.startswith("__"),
        partitions=len(state.partitions),
        copies=state.copies,
        segments=state.segments,
        size_bytes=state.size_bytes,
        disk_bytes=state.disk_bytes,
        log_bytes=total.log_bytes,
        raw_bytes=total.raw_bytes,
        batches=total.batches,
        records=total.records,
        control_records=measure.control_records,
        with_headers=measure.with_headers,
        record_sizes=SizeReport.of(measure.record_sizes),
        first=measure.times.first,
        last=measure.times.last,
        cells=[cell for _, cell in sorted(measure.cells.items())],
        keys=KeyReport(
            compacted=compaction_evidence,
            keyed=measure.keyed,
            without_key=total.records - measure.keyed,
            distinct=min(measure.keys.count(), measure.keyed),
            standard_error=0.0 if exact else round(STANDARD_ERROR, 4),
            tombstones=measure.tombstones,
        ),
        transactions=_transactions_of(state.transactions),
        errors=sum(errors[directory] for directory in state.directories),
    )


def errors_by_directory(findings: Iterable[Finding]) -> Counter[str]:
    """Count errors by the directory of their files."""
    return Counter(one.file.rpartition("/")[0] for one in findings if one.severity == Severity.ERROR)


def partitions_of(topics: Topics) -> list[PartitionReport]:
    """Return the reports of all partitions, in order."""
    result = (one for state in topics.values() for one in state.partitions)
    return sorted(result, key=lambda entry: (entry.topic, entry.partition, entry.directories))


def times_of(topics: Topics, reports: list[TopicReport]) -> TimeReport:
    """Choose a timeline for all records, and count each topic's records in its buckets."""
    whole = Times()
    for state in topics.values():
        whole.merge(state.measure.times)
    line = timeline(whole)
    for report in reports:
        report.activity = line.of(topics[report.name].measure.times)
    append = sum(state.measure.append_time for state in topics.values())
    return TimeReport(
        whole.first, whole.last, line.unit, line.edges, line.counts, line.before, line.after, whole.without, append
    )


def sizes_of(topics: Topics, name: str) -> SizeReport:
    """Return one histogram over all topics."""
    whole = Sizes()
    for state in topics.values():
        whole.merge(getattr(state.measure, name))
    return SizeReport.of(whole)


def producers_of(topics: Topics, ids: Mapping[int, str]) -> list[ProducerReport]:
    """Return the producers by size, the largest first. Those beyond ``MAX_PRODUCERS`` are one entry at the end."""
    counts: dict[int, ProducerCounts] = {}
    topics_by_producer: dict[int, list[str]] = {}
    for name, state in sorted(topics.items()):
        for producer, entry in state.measure.producers.items():
            counts.setdefault(producer, ProducerCounts()).merge(entry)
            topics_by_producer.setdefault(producer, []).append(name)
    order = sorted(counts, key=lambda producer: (-counts[producer].log_bytes, producer))
    result = [_producer(one, counts[one], ids.get(one, ""), topics_by_producer[one]) for one in order[:MAX_PRODUCERS]]
    if len(order) > MAX_PRODUCERS:
        other_counts = ProducerCounts()
        for producer in order[MAX_PRODUCERS:]:
            other_counts.merge(counts[producer])
        result.append(_producer(OTHER_PRODUCERS, other_counts, f"{len(order) - MAX_PRODUCERS:,} other producers", []))
    return result


def _producer(producer: int, entry: ProducerCounts, name: str, topics: list[str]) -> ProducerReport:
    numbers = entry.epoch, entry.batches, entry.records, entry.log_bytes, entry.first, entry.last
    return ProducerReport(producer, name, *numbers, topics)


def _transactions_of(ended_of_partitions: Iterable[Transactions]) -> TransactionReport:
    """Add up the transactions of partitions."""
    durations, report, still = Sizes(), TransactionReport(), list[OpenTransaction]()
    for transactions in ended_of_partitions:
        report.committed += transactions.committed
        report.aborted += transactions.aborted
        report.open += len(transactions.open)
        report.empty_markers += transactions.empty_markers
        durations.merge(transactions.durations)
        still += transactions.open
    report.durations = SizeReport.of(durations)
    report.oldest_open = sorted(still, key=lambda each: (each.since, each.topic, each.partition))[
        :MAX_OPEN_TRANSACTIONS
    ]
    return report


@dataclass(slots=True)
class Survey:
    """The results of the pass over all segments."""

    topics: dict[str, TopicState] = field(default_factory=dict)
    losses: list[DamagedBatch] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def make_report(
    directories: Iterable[LogDirectory],
    *,
    paths: Sequence[str],
    version: str,
    generated_at: int,
    options: Mapping[str, Any] | None = None,
    run: Runner = run_here,
) -> LogReport:
    """Read log directories and return a report.

    Args:
        paths: paths that the caller passed. A deleted partition's directory (``-delete``) is measured only if it is one
            of them.
        version: version of kafkaframes.
        generated_at: time of the report, in milliseconds. Reports of the same files differ only in it.
        options: options of the object stores.

    Raises:
        OptionError: the directories have no partitions.
    """
    directory_list = list(directories)
    if not any(directory.partitions for directory in directory_list):
        raise OptionError(f"{', '.join(paths)}: there is no topic partition to report on")
    path_names = {plain_path(path).rstrip("/") for path in paths}
    measured_logs = join_copies(directory_list, path_names, options or {})
    survey = _pass(directory_list, measured_logs, run)
    topics = topics_of(survey.topics, find_compacted_topics(directory_list), survey.findings)
    times = times_of(survey.topics, topics)
    names = transactional_ids((one.filesystem, one.partition) for one in measured_logs)
    return LogReport(
        version=version,
        paths=list(paths),
        generated_at=generated_at,
        directories=[_directory(one) for one in directory_list],
        topics=topics,
        partitions=partitions_of(survey.topics),
        times=times,
        record_sizes=sizes_of(survey.topics, "record_sizes"),
        batch_sizes=sizes_of(survey.topics, "batch_sizes"),
        producers=producers_of(survey.topics, names),
        transactions=_transactions_of(one for state in survey.topics.values() for one in state.transactions),
        copies=copy_reports(measured_logs, errors_by_directory(survey.findings)),
        findings=sorted(survey.findings, key=lambda entry: -entry.severity),
        losses=survey.losses,
        not_read=list(_not_read(directory_list, path_names)),
    )


def _pass(directories: list[LogDirectory], measured_logs: list[MeasuredLog], run: Runner) -> Survey:
    """Verify all segments, in the order of ``verify``, and measure each log once.

    A log with one copy is measured in the same pass. Merged logs are measured after it, because their data is in
    several copies.
    """
    survey = Survey()
    single_logs = {one.partition.directory: one for one in measured_logs if one.merged_log is None}
    partitions = [one for directory in directories for one in directory.partitions]
    views = [one for one in measured_logs if one.merged_log is not None]
    merged_tasks = [MeasureTask(one.filesystem, segment) for one in views for segment in one.partition.segments]
    results: Iterator[Measured] = iter(())

    def measure_tasks(_: object, verify_tasks: Iterable[verify.VerifyTask]) -> Iterator[SegmentFacts]:
        nonlocal results
        is_measured = (
            one.directory in single_logs and index < len(one.segments)
            for one in partitions
            for index in range(len(one.segments) + len(one.kraft_snapshots))
        )
        tasks = [
            MeasureTask(filesystem, one, want)
            for (filesystem, one, *_), want in zip(verify_tasks, is_measured, strict=True)
        ]
        results = iter(run(measure_segment, tasks + merged_tasks))
        for partition in partitions:
            result = [next(results) for _ in (*partition.segments, *partition.kraft_snapshots)]
            if partition.directory in single_logs:
                _fold(survey, single_logs[partition.directory], result[: len(partition.segments)])
            yield from (facts for facts, _ in result)

    survey.findings = verify.verify(directories, run=measure_tasks).findings
    positions = {(one.file, one.position) for one in survey.findings}
    survey.findings += [_finding(loss) for loss in survey.losses if (loss.file, loss.position) not in positions]
    for entry in views:
        _fold(survey, entry, [next(results) for _ in entry.partition.segments])
    survey.findings += [finding for one in measured_logs for finding in one.findings]
    _count_errors(survey)
    return survey


def _fold(survey: Survey, entry: MeasuredLog, result: list[Measured]) -> None:
    state = survey.topics.setdefault(entry.partition.topic, TopicState())
    whole = Measure()
    for _, measured_segment in result:
        whole.merge(measured_segment.measure)
        survey.losses += measured_segment.losses
    state.measure.merge(whole)
    state.lossless &= not any(measured_segment.losses for _, measured_segment in result)
    state.segments += len(entry.partition.segments)
    state.size_bytes += entry.partition.size_bytes
    state.disk_bytes += entry.disk_bytes
    state.copies += len(entry.copies)
    state.directories += [copy.partition.directory for copy in entry.copies]
    state.partitions.append(partition_of(entry, whole, [facts for facts, _ in result]))
    transactions = transactions_of(entry.partition, result)
    if transactions.count or transactions.empty_markers:
        state.transactions.append(transactions)


def _count_errors(survey: Survey) -> None:
    errors = errors_by_directory(survey.findings)
    for state in survey.topics.values():
        for partition in state.partitions:
            partition.errors = sum(errors[directory] for directory in partition.directories)


def _finding(loss: DamagedBatch) -> Finding:
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


def _not_read(directories: list[LogDirectory], path_names: Collection[str]) -> Iterator[NotRead]:
    for directory in directories:
        for partition in directory.partitions:
            if not partition.is_live and partition.directory not in path_names:
                why = f"{_STATES.get(partition.state, partition.state)}; verified, not measured"
                yield NotRead(partition.directory, why, partition.size_bytes)
            swapped_paths = {segment.path for segment in partition.segments}
            for file in (file for file in partition.temporary if file.path not in swapped_paths):
                yield NotRead(file.path, f"a temporary file (.{file.name.temporary})", file.size_bytes)
            for segment in partition.replaced_segments:
                yield NotRead(segment.path, "replaced by a finished swap file (.swap)", segment.size_bytes)
            for snapshot in partition.kraft_snapshots:
                yield NotRead(snapshot.path, "a snapshot of the metadata; verified, not measured", snapshot.size_bytes)
        if directory.bootstrap is not None:
            yield NotRead(
                directory.bootstrap.path, "a file of the metadata's bootstrap", directory.bootstrap.size_bytes
            )
