"""Make a report of log directories: measure all segments in one pass, and then add up the results.

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
from kafkaframes.jobs.report.copies import MeasuredLog, join_copies, list_copy_reports
from kafkaframes.jobs.report.histograms import (
    DISTINCT_COUNT_STANDARD_ERROR,
    SizeHistogram,
    TimeHistogram,
    choose_timeline,
)
from kafkaframes.jobs.report.measure import (
    DamagedBatch,
    LogCounts,
    Measured,
    MeasureTask,
    ProducerCounts,
    measure_segment,
)
from kafkaframes.jobs.report.metadata import (
    OpenTransaction,
    TransactionCounts,
    find_compacted_topics,
    measure_transactions,
    read_transactional_ids,
)
from kafkaframes.jobs.report.model import (
    DirectoryReport,
    KeyReport,
    LogReport,
    PartitionReport,
    ProducerReport,
    SizeReport,
    TimeReport,
    TopicReport,
    TopicTotals,
    TransactionReport,
    UnreadFile,
)
from kafkaframes.jobs.verify import verify
from kafkaframes.jobs.verify.verify_segment import VerifiedSegment
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.filesystem import plain_path
from kafkaframes.storage.files.findings import Finding, Severity

MAX_LISTED_PRODUCERS = 1000  # producers that are listed; the rest is counted as ``OTHER_PRODUCERS``
MAX_LISTED_TRANSACTIONS = 100  # open transactions that are listed
OTHER_PRODUCERS = -2  # producer id for all producers that are not listed
Topics = Mapping[str, TopicTotals]


def report_partition(
    measured_log: MeasuredLog, totals: LogCounts, verified_segments: list[VerifiedSegment]
) -> PartitionReport:
    """Return the report of a partition."""
    partition, total = measured_log.partition, totals.total
    firsts = [measurement.first_offset for measurement in verified_segments if measurement.first_offset >= 0]
    lasts = [measurement.last_offset for measurement in verified_segments if measurement.last_offset >= 0]
    start = partition.log_start_offset
    end = max(start, max(lasts, default=-1) + 1, *(measurement.base_offset for measurement in partition.segments), 0)
    # The span is too small if the log begins with a wrapper of format 1, whose first offset is unknown.
    span = max(lasts) + 1 - min(firsts) if firsts and lasts else 0
    return PartitionReport(
        topic=partition.topic,
        partition=partition.partition,
        directories=[measurement.partition.directory for measurement in measured_log.copies],
        start_offset=start,
        end_offset=end,
        high_watermark=partition.high_watermark,
        segments=len(partition.segments),
        size_bytes=partition.size_bytes,
        batches=total.batches,
        records=total.records,
        missing_offsets=max(span - totals.offsets_seen, 0),
        leader_epochs=len({epoch for measurement in verified_segments for epoch, _, _ in measurement.epochs}),
        first=totals.times.first,
        last=totals.times.last,
        errors=0,
    )


def report_topics(
    topics: Topics, compaction_evidence: Mapping[str, str], findings: Iterable[Finding]
) -> list[TopicReport]:
    """Return the reports of topics, sorted by size, the largest first."""
    errors = count_errors_by_directory(findings)
    result = [_report_topic(name, state, compaction_evidence.get(name, ""), errors) for name, state in topics.items()]
    return sorted(result, key=lambda entry: (-entry.size_bytes, entry.name))


def _report_topic(name: str, state: TopicTotals, compaction_evidence: str, errors: Counter[str]) -> TopicReport:
    """Return the report of a topic."""
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
        record_sizes=SizeReport.from_histogram(measure.record_sizes),
        first=measure.times.first,
        last=measure.times.last,
        cells=[cell for _, cell in sorted(measure.cells.items())],
        keys=KeyReport(
            compacted=compaction_evidence,
            keyed=measure.keyed,
            without_key=total.records - measure.keyed,
            distinct=min(measure.keys.count(), measure.keyed),
            standard_error=0.0 if exact else round(DISTINCT_COUNT_STANDARD_ERROR, 4),
            tombstones=measure.tombstones,
        ),
        transactions=_report_transactions(state.transactions),
        errors=sum(errors[directory] for directory in state.directories),
    )


def count_errors_by_directory(findings: Iterable[Finding]) -> Counter[str]:
    """Count errors by the directory of their files."""
    return Counter(finding.file.rpartition("/")[0] for finding in findings if finding.severity == Severity.ERROR)


def list_partitions(topics: Topics) -> list[PartitionReport]:
    """Return the reports of all partitions, in order."""
    result = (partition for state in topics.values() for partition in state.partitions)
    return sorted(result, key=lambda entry: (entry.topic, entry.partition, entry.directories))


def report_times(topics: Topics, reports: list[TopicReport]) -> TimeReport:
    """Choose a timeline for all records, and count the records of each topic in the timeline's buckets."""
    all_times = TimeHistogram()
    for state in topics.values():
        all_times.merge(state.measure.times)
    line = choose_timeline(all_times)
    for report in reports:
        report.activity = line.count_in_buckets(topics[report.name].measure.times)
    append = sum(state.measure.append_time for state in topics.values())
    return TimeReport(
        all_times.first,
        all_times.last,
        line.unit,
        line.edges,
        line.counts,
        line.before,
        line.after,
        all_times.without,
        append,
    )


def merge_histograms(topics: Topics, name: str) -> SizeReport:
    """Merge the histograms of all topics, and return the result as a report."""
    merged_histogram = SizeHistogram()
    for state in topics.values():
        merged_histogram.merge(getattr(state.measure, name))
    return SizeReport.from_histogram(merged_histogram)


def report_producers(topics: Topics, ids: Mapping[int, str]) -> list[ProducerReport]:
    """Return the largest producers by size, at most ``MAX_LISTED_PRODUCERS``, and one entry for all others."""
    counts: dict[int, ProducerCounts] = {}
    topics_by_producer: dict[int, list[str]] = {}
    for name, state in sorted(topics.items()):
        for producer, entry in state.measure.producers.items():
            counts.setdefault(producer, ProducerCounts()).merge(entry)
            topics_by_producer.setdefault(producer, []).append(name)
    order = sorted(counts, key=lambda producer: (-counts[producer].log_bytes, producer))
    result = [
        _report_producer(producer_id, counts[producer_id], ids.get(producer_id, ""), topics_by_producer[producer_id])
        for producer_id in order[:MAX_LISTED_PRODUCERS]
    ]
    if len(order) > MAX_LISTED_PRODUCERS:
        other_counts = ProducerCounts()
        for producer in order[MAX_LISTED_PRODUCERS:]:
            other_counts.merge(counts[producer])
        result.append(
            _report_producer(
                OTHER_PRODUCERS, other_counts, f"{len(order) - MAX_LISTED_PRODUCERS:,} other producers", []
            )
        )
    return result


def _report_producer(producer: int, entry: ProducerCounts, name: str, topics: list[str]) -> ProducerReport:
    """Return the report of a producer, whose name is its transactional id."""
    numbers = entry.epoch, entry.batches, entry.records, entry.log_bytes, entry.first, entry.last
    return ProducerReport(producer, name, *numbers, topics)


def _report_transactions(ended_of_partitions: Iterable[TransactionCounts]) -> TransactionReport:
    """Add up the transaction counts of all partitions."""
    durations, report, open_transactions = SizeHistogram(), TransactionReport(), list[OpenTransaction]()
    for transactions in ended_of_partitions:
        report.committed += transactions.committed
        report.aborted += transactions.aborted
        report.open += len(transactions.open)
        report.empty_markers += transactions.empty_markers
        durations.merge(transactions.durations)
        open_transactions += transactions.open
    report.durations = SizeReport.from_histogram(durations)
    report.oldest_open = sorted(open_transactions, key=lambda each: (each.since, each.topic, each.partition))[
        :MAX_LISTED_TRANSACTIONS
    ]
    return report


@dataclass(slots=True)
class SurveyResult:
    """The results of the pass over all segments."""

    topics: dict[str, TopicTotals] = field(default_factory=dict)
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
        paths: paths that the caller passed. The directory of a deleted partition (``-delete``) is measured only if it
            was passed itself.
        version: the kafkaframes version that creates the report.
        generated_at: time of the report, in milliseconds. Two reports on the same files differ only in this time.
        options: options of the object stores.

    Raises:
        OptionError: the directories have no partitions.
    """
    directory_list = list(directories)
    if not any(directory.partitions for directory in directory_list):
        raise OptionError(f"{', '.join(paths)}: found no topic partitions to report on")
    path_names = {plain_path(path).rstrip("/") for path in paths}
    measured_logs = join_copies(directory_list, path_names, options or {})
    survey = _survey_segments(directory_list, measured_logs, run)
    topics = report_topics(survey.topics, find_compacted_topics(directory_list), survey.findings)
    times = report_times(survey.topics, topics)
    names = read_transactional_ids((measured_log.filesystem, measured_log.partition) for measured_log in measured_logs)
    return LogReport(
        version=version,
        paths=list(paths),
        generated_at=generated_at,
        directories=[_report_directory(measured_log) for measured_log in directory_list],
        topics=topics,
        partitions=list_partitions(survey.topics),
        times=times,
        record_sizes=merge_histograms(survey.topics, "record_sizes"),
        batch_sizes=merge_histograms(survey.topics, "batch_sizes"),
        producers=report_producers(survey.topics, names),
        transactions=_report_transactions(
            measured_log for state in survey.topics.values() for measured_log in state.transactions
        ),
        copies=list_copy_reports(measured_logs, count_errors_by_directory(survey.findings)),
        findings=sorted(survey.findings, key=lambda entry: -entry.severity),
        losses=survey.losses,
        not_read=list(_list_unread_files(directory_list, path_names)),
    )


def _survey_segments(directories: list[LogDirectory], measured_logs: list[MeasuredLog], run: Runner) -> SurveyResult:
    """Verify all segments, in the order of ``verify``, and measure each log once.

    A log with only one copy is measured while it is verified. Merged logs are measured afterwards, because their data
    is in several copies.
    """
    survey = SurveyResult()
    single_logs = {item.partition.directory: item for item in measured_logs if item.merged_log is None}
    partitions = [item for directory in directories for item in directory.partitions]
    views = [item for item in measured_logs if item.merged_log is not None]
    merged_tasks = [MeasureTask(item.filesystem, segment) for item in views for segment in item.partition.segments]
    results: Iterator[Measured] = iter(())

    def measure_tasks(_: object, verify_tasks: Iterable[verify.VerifyTask]) -> Iterator[VerifiedSegment]:
        nonlocal results
        is_measured = (
            item.directory in single_logs and index < len(item.segments)
            for item in partitions
            for index in range(len(item.segments) + len(item.kraft_snapshots))
        )
        tasks = [
            MeasureTask(filesystem, item, want)
            for (filesystem, item, *_), want in zip(verify_tasks, is_measured, strict=True)
        ]
        results = iter(run(measure_segment, tasks + merged_tasks))
        for partition in partitions:
            result = [next(results) for _ in (*partition.segments, *partition.kraft_snapshots)]
            if partition.directory in single_logs:
                _add_result(survey, single_logs[partition.directory], result[: len(partition.segments)])
            yield from (verified_segment for verified_segment, _ in result)

    survey.findings = verify.verify(directories, run=measure_tasks).findings
    positions = {(item.file, item.position) for item in survey.findings}
    survey.findings += [
        _make_loss_finding(loss) for loss in survey.losses if (loss.file, loss.position) not in positions
    ]
    for entry in views:
        _add_result(survey, entry, [next(results) for _ in entry.partition.segments])
    survey.findings += [finding for item in measured_logs for finding in item.findings]
    _count_errors(survey)
    return survey


def _add_result(survey: SurveyResult, entry: MeasuredLog, result: list[Measured]) -> None:
    """Add the measured segments of a partition to the totals of its topic."""
    state = survey.topics.setdefault(entry.partition.topic, TopicTotals())
    totals = LogCounts()
    for _, measured_segment in result:
        totals.merge(measured_segment.measure)
        survey.losses += measured_segment.losses
    state.measure.merge(totals)
    state.lossless &= not any(measured_segment.losses for _, measured_segment in result)
    state.segments += len(entry.partition.segments)
    state.size_bytes += entry.partition.size_bytes
    state.disk_bytes += entry.disk_bytes
    state.copies += len(entry.copies)
    state.directories += [copy.partition.directory for copy in entry.copies]
    state.partitions.append(report_partition(entry, totals, [verified_segment for verified_segment, _ in result]))
    transactions = measure_transactions(entry.partition, result)
    if transactions.count or transactions.empty_markers:
        state.transactions.append(transactions)


def _count_errors(survey: SurveyResult) -> None:
    """Set the number of errors in each partition from the findings."""
    errors = count_errors_by_directory(survey.findings)
    for state in survey.topics.values():
        for partition in state.partitions:
            partition.errors = sum(errors[directory] for directory in partition.directories)


def _make_loss_finding(loss: DamagedBatch) -> Finding:
    """Return a finding about a damaged batch."""
    check = "crc" if loss.reason == CRC_MISMATCH else "records"
    return Finding(Severity.ERROR, check, loss.reason, loss.file, loss.position, loss.base_offset)


def _report_directory(entry: LogDirectory) -> DirectoryReport:
    """Return the report of a log directory."""
    return DirectoryReport(
        path=entry.path,
        node_id=entry.meta.node_id if entry.meta else None,
        cluster_id=entry.meta.cluster_id if entry.meta else None,
        clean_shutdown=entry.clean_shutdown is not None,
        partitions=sum(partition.is_live for partition in entry.partitions),
        size_bytes=sum(partition.size_bytes for partition in entry.partitions),
    )


_REASON_BY_PARTITION_STATE = {
    "delete": "a partition that the broker was deleting",
    "future": "an unfinished move between disks",
    "stray": "a stray partition, which the cluster no longer assigned to the broker",
}


def _list_unread_files(directories: list[LogDirectory], path_names: Collection[str]) -> Iterator[UnreadFile]:
    """Yield the files and directories that were not measured."""
    for directory in directories:
        for partition in directory.partitions:
            if not partition.is_live and partition.directory not in path_names:
                reason = f"{_REASON_BY_PARTITION_STATE.get(partition.state, partition.state)}; verified, not measured"
                yield UnreadFile(partition.directory, reason, partition.size_bytes)
            swapped_paths = {segment.path for segment in partition.segments}
            for file in (file for file in partition.temporary if file.path not in swapped_paths):
                yield UnreadFile(file.path, f"a temporary file (.{file.name.temporary})", file.size_bytes)
            for segment in partition.replaced_segments:
                yield UnreadFile(segment.path, "replaced by a finished swap file (.swap)", segment.size_bytes)
            for snapshot in partition.kraft_snapshots:
                yield UnreadFile(snapshot.path, "a metadata snapshot; verified, not measured", snapshot.size_bytes)
        if directory.bootstrap is not None:
            yield UnreadFile(
                directory.bootstrap.path, "the bootstrap file of the metadata log", directory.bootstrap.size_bytes
            )
