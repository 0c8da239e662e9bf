"""Make a report of what was discovered: one pass over every segment, then what needs several of them.

The pass (``measure_segment``) may run in many processes; what comes back is folded into its topic at once, so memory
does not grow with the number of segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafkaframes.errors import OptionError
from kafkaframes.log import verify
from kafkaframes.log.directory import LogDirectory, Partition
from kafkaframes.log.findings import Finding, Severity
from kafkaframes.log.names import TopicPartition
from kafkaframes.log.verify_segment import SegmentFacts
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import Ints
from kafkaframes.report import totals
from kafkaframes.report.copies import CopyReport, Placed, compare, copies_of
from kafkaframes.report.measure import Loss, Measure, Measured, Task, Want, measure_segment
from kafkaframes.report.metadata import compacted_topics, transactional_ids
from kafkaframes.report.model import DirectoryReport, NotRead, PartitionReport, Report
from kafkaframes.report.transactions import Transactions, transactions_of

Run = Callable[[Sequence[Task]], Iterator[Measured]]
_HEADERS_ONLY = Want(records=False)


@dataclass(slots=True)
class TopicState:
    """A topic while its segments come in."""

    measure: Measure = field(default_factory=Measure)
    segments: int = 0
    size_bytes: int = 0
    disk_bytes: int = 0
    copies: int = 0
    partitions: list[PartitionReport] = field(default_factory=list)
    transactions: list[tuple[TopicPartition, Transactions]] = field(default_factory=list)
    lossless: bool = True


@dataclass(slots=True)
class Survey:
    """Everything that the pass brought."""

    topics: dict[str, TopicState] = field(default_factory=dict)
    signatures: dict[str, Ints] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def one_by_one(tasks: Sequence[Task]) -> Iterator[Measured]:
    """Measure segments in this process, in their order."""
    return map(measure_segment, tasks)


def make_report(
    directories: Iterable[LogDirectory],
    *,
    paths: Sequence[str],
    version: str,
    generated_at: int,
    run: Run = one_by_one,
) -> Report:
    """Read everything that was discovered and report it.

    Args:
        directories: from ``discover``.
        paths: what the caller named, for the heading.
        version: of kafkaframes.
        generated_at: what time it is, in milliseconds; the report of the same files is otherwise the same.
        run: measures segments, in order; a process pool's ordered map, for one.

    Raises:
        OptionError: there is no partition.
    """
    listed = list(directories)
    copies = copies_of(listed)
    if not any(directory.partitions for directory in listed):
        raise OptionError(f"{', '.join(paths)}: there is no topic partition to report on")
    chosen = {placed[0][1].directory: placed for placed in copies.values()}
    survey = _pass(listed, copies, chosen, run)
    compacted = compacted_topics(listed)
    topics = totals.topics_of(survey.topics, compacted, survey.findings)
    known = {topic.name: topic.keys.compacted for topic in topics}
    times = totals.times_of(survey.topics, topics)
    return Report(
        version=version,
        paths=list(paths),
        generated_at=generated_at,
        directories=[_directory(one) for one in listed],
        topics=topics,
        partitions=totals.partitions_of(survey.topics, survey.findings),
        times=times,
        record_sizes=totals.sizes_of(survey.topics, "record_sizes"),
        batch_sizes=totals.sizes_of(survey.topics, "batch_sizes"),
        producers=totals.producers_of(survey.topics, transactional_ids(placed[0] for placed in copies.values())),
        transactions=totals.transactions_of(one for state in survey.topics.values() for one in state.transactions),
        copies=_compared(copies, survey, known),
        findings=sorted(survey.findings, key=lambda one: -one.severity),
        losses=survey.losses,
        not_read=list(_not_read(listed)),
    )


def _pass(
    directories: list[LogDirectory],
    copies: dict[TopicPartition, list[Placed]],
    chosen: dict[str, list[Placed]],
    run: Run,
) -> Survey:
    """Verify every segment and measure those of the chosen copies, in the order in which ``verify`` asks for them."""
    survey = Survey()
    partitions = [one for directory in directories for one in directory.partitions]
    wants = [_wants(one, copies, chosen) for one in partitions]

    def measured(asked: Iterable[verify.Task]) -> Iterator[SegmentFacts]:
        wanted = (want for each in wants for want in each)
        tasks = [Task(filesystem, one, want) for (filesystem, one, _), want in zip(asked, wanted, strict=True)]
        results = iter(run(tasks))
        for partition, each in zip(partitions, wants, strict=True):
            found = [next(results) for _ in each]
            _fold(survey, partition, found[: len(partition.segments)], chosen.get(partition.directory))
            yield from (facts for facts, _ in found)

    survey.findings = verify.verify(directories, run=measured).findings
    known = {(one.file, one.position) for one in survey.findings}
    survey.findings += [_finding(loss) for loss in survey.losses if (loss.file, loss.position) not in known]
    return survey


def _wants(
    partition: Partition, copies: dict[TopicPartition, list[Placed]], chosen: dict[str, list[Placed]]
) -> list[Want]:
    several = partition.is_live and len(copies[partition.topic_partition]) > 1
    want = Want(records=partition.directory in chosen, batches=several)
    return [want] * len(partition.segments) + [_HEADERS_ONLY] * len(partition.kraft_snapshots)


def _fold(survey: Survey, partition: Partition, found: list[Measured], placed: list[Placed] | None) -> None:
    tables = [measured.signatures for _, measured in found if measured.signatures is not None]
    if tables:
        survey.signatures[partition.directory] = totals.joined(tables)
    if placed is None:
        return
    state = survey.topics.setdefault(partition.topic, TopicState())
    whole = Measure()
    for _, measured in found:
        whole.merge(measured.measure)
        survey.losses += measured.losses
    state.measure.merge(whole)
    state.lossless &= not any(measured.losses for _, measured in found)
    state.segments += len(partition.segments)
    state.size_bytes += partition.size_bytes
    state.disk_bytes += sum(one.size_bytes for _, one in placed)
    state.copies += len(placed)
    state.partitions.append(totals.partition_of(partition, whole, [facts for facts, _ in found], len(placed)))
    ended = transactions_of(found)
    if ended.count or ended.empty_markers:
        state.transactions.append((partition.topic_partition, ended))


def _finding(loss: Loss) -> Finding:
    check = "crc" if loss.reason == CRC_MISMATCH else "records"
    return Finding(Severity.ERROR, check, loss.reason, loss.file, loss.position, loss.base_offset)


def _compared(
    copies: dict[TopicPartition, list[Placed]], survey: Survey, compacted: dict[str, str]
) -> list[CopyReport]:
    found: list[CopyReport] = []
    errors = totals.errors_by_directory(survey.findings)
    for topic_partition, placed in sorted(copies.items()):
        if len(placed) > 1:
            tables = [(one, survey.signatures.get(one.directory, totals.NO_SIGNATURES)) for _, one in placed]
            found += compare(tables, errors=errors, is_compacted=bool(compacted.get(topic_partition.topic)))
    return found


def _directory(one: LogDirectory) -> DirectoryReport:
    return DirectoryReport(
        path=one.path,
        node_id=one.meta.node_id if one.meta else None,
        cluster_id=one.meta.cluster_id if one.meta else None,
        clean_shutdown=one.clean_shutdown is not None,
        partitions=sum(partition.is_live for partition in one.partitions),
        size_bytes=sum(partition.size_bytes for partition in one.partitions),
    )


_STATES = {
    "delete": "the broker had renamed it to delete it",
    "future": "a move between disks that had not ended",
    "stray": "the broker had set it aside: the cluster no longer assigned it",
}


def _not_read(directories: list[LogDirectory]) -> Iterator[NotRead]:
    for directory in directories:
        for partition in directory.partitions:
            if not partition.is_live:
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
