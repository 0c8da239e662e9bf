"""From what the pass brought to the numbers of topics, partitions and producers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafkaframes.jobs.report.copies import Joined
from kafkaframes.jobs.report.histograms import STANDARD_ERROR, Sizes, Times
from kafkaframes.jobs.report.measure import Measure, ProducerCounts
from kafkaframes.jobs.report.metadata import Transactions
from kafkaframes.jobs.report.model import (
    CellReport,
    KeyReport,
    OpenReport,
    PartitionReport,
    ProducerReport,
    SizeReport,
    TimeReport,
    TopicReport,
    TopicState,
    TransactionReport,
)
from kafkaframes.jobs.report.timeline import timeline
from kafkaframes.jobs.verify.verify_segment import SegmentFacts
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import TopicPartition

MOST_PRODUCERS = 1000  # that are named; the others are counted together
MOST_OPEN = 100
OTHERS = -2  # the producer id of all that are not named
Topics = Mapping[str, TopicState]


def partition_of(joined: Joined, whole: Measure, facts: list[SegmentFacts]) -> PartitionReport:
    """Return what is said of a partition."""
    partition = joined.partition
    firsts = [one.first_offset for one in facts if one.first_offset >= 0]
    lasts = [one.last_offset for one in facts if one.last_offset >= 0]
    start = partition.log_start_offset
    end = max(start, max(lasts, default=-1) + 1, *(one.base_offset for one in partition.segments), 0)
    span = max(lasts) + 1 - min(firsts) if firsts and lasts else 0  # short by a wrapper's first records, in format 1
    return PartitionReport(
        topic=partition.topic,
        partition=partition.partition,
        directories=[one.partition.directory for one in joined.copies],
        start_offset=start,
        end_offset=end,
        high_watermark=partition.high_watermark,
        segments=len(partition.segments),
        size_bytes=partition.size_bytes,
        batches=whole.batches,
        records=whole.records,
        missing_offsets=max(span - whole.offsets_seen, 0),
        leader_epochs=len({epoch for one in facts for epoch, _, _ in one.epochs}),
        first=whole.times.first,
        last=whole.times.last,
        errors=0,
    )


def topics_of(topics: Topics, compacted: Mapping[str, str], findings: Iterable[Finding]) -> list[TopicReport]:
    """Return what is said of each topic, the largest first."""
    errors = errors_by_directory(findings)
    result = [_topic(name, state, compacted.get(name, ""), errors) for name, state in topics.items()]
    return sorted(result, key=lambda entry: (-entry.size_bytes, entry.name))


def _topic(name: str, state: TopicState, compacted: str, errors: Counter[str]) -> TopicReport:
    measure = state.measure
    records = measure.records
    if not compacted and state.lossless and measure.thinned:
        compacted = "records are missing inside batches"
    exact = measure.keys.is_exact
    return TopicReport(
        name=name,
        is_internal=name.startswith("__"),
        partitions=len(state.partitions),
        copies=state.copies,
        segments=state.segments,
        size_bytes=state.size_bytes,
        disk_bytes=state.disk_bytes,
        log_bytes=measure.log_bytes,
        raw_bytes=measure.raw_bytes,
        batches=measure.batches,
        records=records,
        control_records=measure.control_records,
        with_headers=measure.with_headers,
        record_sizes=SizeReport.of(measure.record_sizes),
        first=measure.times.first,
        last=measure.times.last,
        cells=[
            CellReport(f"v{magic}", codec, one.batches, one.records, one.log_bytes, one.raw_bytes)
            for (magic, codec), one in sorted(measure.cells.items())
        ],
        keys=KeyReport(
            compacted=compacted,
            keyed=measure.keyed,
            without_key=records - measure.keyed,
            distinct=min(measure.keys.count(), measure.keyed),
            standard_error=0.0 if exact else round(STANDARD_ERROR, 4),
            tombstones=measure.tombstones,
        ),
        transactions=transactions_of(state.transactions),
        errors=sum(errors[directory] for directory in state.directories),
    )


def errors_by_directory(findings: Iterable[Finding]) -> Counter[str]:
    """Count errors by the directory in which their files lie."""
    return Counter(one.file.rpartition("/")[0] for one in findings if one.severity == Severity.ERROR)


def partitions_of(topics: Topics) -> list[PartitionReport]:
    """Return what is said of each partition, in their order."""
    result = (one for state in topics.values() for one in state.partitions)
    return sorted(result, key=lambda entry: (entry.topic, entry.partition, entry.directories))


def times_of(topics: Topics, reports: list[TopicReport]) -> TimeReport:
    """Choose the timeline of all records, and give each topic its counts in the same buckets."""
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
    """Return what each producer wrote, the most bytes first; those beyond ``MOST_PRODUCERS`` together, last."""
    counts: dict[int, ProducerCounts] = {}
    written: dict[int, list[str]] = {}
    for name, state in sorted(topics.items()):
        for producer, entry in state.measure.producers.items():
            counts.setdefault(producer, ProducerCounts()).merge(entry)
            written.setdefault(producer, []).append(name)
    order = sorted(counts, key=lambda producer: (-counts[producer].log_bytes, producer))
    result = [_producer(one, counts[one], ids.get(one, ""), written[one]) for one in order[:MOST_PRODUCERS]]
    if len(order) > MOST_PRODUCERS:
        rest = ProducerCounts()
        for producer in order[MOST_PRODUCERS:]:
            rest.merge(counts[producer])
        result.append(_producer(OTHERS, rest, f"{len(order) - MOST_PRODUCERS:,} other producers", []))
    return result


def _producer(producer: int, entry: ProducerCounts, name: str, topics: list[str]) -> ProducerReport:
    numbers = entry.epoch, entry.batches, entry.records, entry.log_bytes, entry.first, entry.last
    return ProducerReport(producer, name, *numbers, topics)


def transactions_of(ended_of_partitions: Iterable[tuple[TopicPartition, Transactions]]) -> TransactionReport:
    """Sum up the transactions of partitions."""
    durations, report, still = Sizes(), TransactionReport(), []
    for entry, ended in ended_of_partitions:
        report.committed += ended.committed
        report.aborted += ended.aborted
        report.open += len(ended.open)
        report.empty_markers += ended.empty_markers
        durations.merge(ended.durations)
        still += [
            OpenReport(
                entry.topic, entry.partition, each.producer_id, each.producer_epoch, each.first_offset, each.since
            )
            for each in ended.open
        ]
    report.durations = SizeReport.of(durations)
    report.oldest_open = sorted(still, key=lambda each: (each.since, each.topic, each.partition))[:MOST_OPEN]
    return report
