"""Verify partitions, or a range of their offsets: each segment by itself, and then relations between segments.

``verify_segment`` is expensive and independent for each segment, so ``run`` may use many processes. The rest only needs
batch headers: offsets and leader epochs across segments, producer sequences, transaction indexes and markers, small
files. No file is modified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkaframes.errors import LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.jobs.verify.verify_segment import VerifiedSegment, verify_segment
from kafkaframes.records.layout import CONTROL, TRANSACTIONAL
from kafkaframes.scan.log.narrowing import ALL_OFFSETS, OffsetRange, select_segments_in_range
from kafkaframes.scan.ranges import NO_END
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem
from kafkaframes.storage.files.findings import Finding, Severity, describe_caveats, find_highest_severity
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition
from kafkaframes.storage.files.producer_files import AbortedTransaction, read_producer_snapshot, read_txn_index
from kafkaframes.storage.log.producers import DEFAULT_EXPIRATION_MS
from kafkaframes.storage.log.swaps import swap_findings
from kafkaframes.storage.log.transactions import (
    OpenTransactions,
    TransactionMarker,
    TransactionState,
    find_hidden_records,
)
from kafkaframes.storage.tiered.filesystem import TieredFileSystem

# Coordinators append batches with producer ids to this topic, always with base sequence 0.
GROUP_OFFSETS_TOPIC = "__consumer_offsets"
NO_RANGES: Mapping[str, OffsetRange] = MappingProxyType({})  # without ranges, all offsets are verified
_SEQUENCE_COUNT = 2**31  # number of sequence numbers: the next one after 2**31 - 1 is 0


class VerifyTask(NamedTuple):
    """A segment to verify. ``deep`` also verifies its records. Batches without ``offsets`` are not verified."""

    filesystem: FileSystem
    segment: Segment
    deep: bool
    offsets: OffsetRange = ALL_OFFSETS


@dataclass(slots=True)
class VerifyReport:
    """The result of a verification: counts of verified items, and findings in order of directory and file.

    Attributes:
        merged_partitions: number of partitions with several copies.
        decisions: decisions about these copies, which are findings as well.
        not_merged: reasons why copies could not be compared; empty if all were compared.
    """

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    merged_partitions: int = 0
    decisions: list[Decision] = field(default_factory=list)
    not_merged: str = ""

    @property
    def lost_ranges(self) -> int:
        """The number of offset ranges that no copy has undamaged, or about which copies differ."""
        errors = [decision for decision in self.decisions if decision.severity == Severity.ERROR]
        return len({(decision.topic_partition, decision.first_offset) for decision in errors})

    @property
    def is_sound(self) -> bool:
        """Whether no record is damaged, missing or out of order. Warnings and notes are allowed."""
        return find_highest_severity(self.findings) < Severity.ERROR

    @property
    def caveats(self) -> tuple[str, ...]:
        """Properties of a sound log that would surprise consumers if a broker served it."""
        return describe_caveats(self.findings)

    @property
    def verdict(self) -> str:
        """``sound``, ``UNREADABLE`` or ``DAMAGED``. Caveats follow ``sound``."""
        errors = {finding.check for finding in self.findings if finding.severity == Severity.ERROR}
        if errors:
            return "UNREADABLE" if errors == {"unreadable"} else "DAMAGED"
        return f"sound, but {' and '.join(self.caveats)}" if self.caveats else "sound"

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        counts = {name: getattr(self, name) for name in ("partitions", "segments", "batches", "records", "size_bytes")}
        verdict = {"sound": self.is_sound, "caveats": list(self.caveats)}
        values = {**verdict, **counts, "findings": [finding.as_json() for finding in self.findings]}
        if not self.merged_partitions:
            return values
        merged = {"merged_partitions": self.merged_partitions, "merged_is_whole": not self.lost_ranges}
        return values | merged | {"decisions": [decision.as_json() for decision in self.decisions]}

    @property
    def merge_text(self) -> str:
        """The verdict on the copies in one line; empty without copies."""
        if not self.merged_partitions:
            return ""
        whole = "each offset is undamaged in at least one copy"
        verdict = f"{self.lost_ranges:,} ranges of offsets are lost or undecided" if self.lost_ranges else whole
        return f"merged: {count_text(self.merged_partitions, 'partition')} with several copies; {verdict}"


def add_copies(
    report: VerifyReport,
    directories: Sequence[LogDirectory],
    paths: Iterable[str],
    *,
    ranges: Mapping[str, OffsetRange] = NO_RANGES,
    options: Mapping[str, Any],
) -> None:
    """Compare the copies of partitions, and add the decisions of a merge to a report.

    Args:
        report: report to which the decisions and findings about the copies are added.
        directories: log directories with the verified partitions.
        paths: paths that the user named.
        ranges: verified offsets, as for ``verify``. Decisions about other offsets are omitted.
        options: options for reading the directories.
    """
    from kafkaframes.storage.copies.one_log import limit_decisions, merge_directories

    log, reason = merge_directories(directories, paths, check=True, options=options)
    log = limit_decisions(log, _map_ranges_by_partition(directories, ranges))
    report.merged_partitions, report.decisions = len(log.merged_partitions), log.decisions
    report.not_merged = "" if reason is None else str(reason)
    report.findings += [decision.as_finding() for decision in log.decisions]


def _map_ranges_by_partition(
    directories: Iterable[LogDirectory], ranges: Mapping[str, OffsetRange]
) -> dict[TopicPartition, list[OffsetRange]]:
    """Return the verified offset ranges of the copies of each partition."""
    result: dict[TopicPartition, list[OffsetRange]] = {}
    for directory in directories:
        for partition in directory.partitions:
            offsets = ranges.get(partition.directory, ALL_OFFSETS)
            result.setdefault(partition.topic_partition, []).append(offsets)
    return result


def run_task(task: VerifyTask) -> VerifiedSegment:
    """Verify one segment."""
    return verify_segment(task.filesystem, task.segment, deep=task.deep, offsets=task.offsets)


def list_tasks(
    directories: Iterable[LogDirectory], *, deep: bool = False, ranges: Mapping[str, OffsetRange] = NO_RANGES
) -> Iterator[VerifyTask]:
    """Yield the segments to verify, in the order in which ``verify`` expects their results."""
    for directory in directories:
        for partition in directory.partitions:
            offsets = ranges.get(partition.directory, ALL_OFFSETS)
            for segment in _select_segments(partition, offsets):
                yield VerifyTask(directory.filesystem, segment, deep, offsets)


def _select_segments(partition: Partition, offsets: OffsetRange) -> tuple[Segment, ...]:
    """Return the segments of a range. KRaft snapshots repeat earlier records, so they are in no range."""
    if not offsets.is_limited:
        return *partition.segments, *partition.kraft_snapshots
    return select_segments_in_range(partition.segments, offsets)


def verify(
    directories: Iterable[LogDirectory],
    *,
    ranges: Mapping[str, OffsetRange] = NO_RANGES,
    deep: bool = False,
    run: Runner = run_here,
) -> VerifyReport:
    """Verify the partitions of log directories. Damage is a finding, not an exception.

    Args:
        directories: log directories with the partitions to verify.
        ranges: offsets to verify, by partition directory (``resolve_ranges``). Default: all.
        deep: whether to also decompress and parse every record of format 2.
        run: function that runs the tasks.
    """
    directory_list = list(directories)
    results = iter(run(run_task, list(list_tasks(directory_list, deep=deep, ranges=ranges))))
    report = VerifyReport()
    for directory in directory_list:
        is_tiered = isinstance(directory.filesystem, TieredFileSystem)
        report.findings += [_make_problem_finding(problem, is_tiered=is_tiered) for problem in directory.problems]
        report.findings += [partition.as_finding() for partition in directory.unreadable_partitions]
        report.findings += [] if is_tiered else find_foreign_files(directory)
        for partition in directory.partitions:
            offsets = ranges.get(partition.directory, ALL_OFFSETS)
            segments = _select_segments(partition, offsets)
            verified_segments = [next(results) for _ in segments]
            _add_counts(report, verified_segments)
            count = min(len(segments), len(partition.segments))
            verified_partition = replace(partition, segments=segments[:count])
            report.findings += _find_leftover_files(partition)
            report.findings += _verify_partition(
                directory.filesystem, verified_partition, verified_segments[:count], offsets
            )
    return report


def _add_counts(report: VerifyReport, verified_segments: list[VerifiedSegment]) -> None:
    """Add the counts and findings of a partition's segments to a report."""
    report.partitions += 1
    report.segments += len(verified_segments)
    for entry in verified_segments:
        report.batches += entry.batches
        report.records += entry.records
        report.size_bytes += entry.size_bytes
        report.findings += entry.findings


def _make_problem_finding(problem: LogDirError, *, is_tiered: bool) -> Finding:
    """Return a finding about an unreadable small file or tiered object."""
    severity, check = (Severity.ERROR, "tiered") if is_tiered else (Severity.WARNING, "small-file")
    return Finding(severity, check, problem.reason, problem.file or "", problem.position)


def _verify_partition(
    filesystem: FileSystem, partition: Partition, verified_segments: list[VerifiedSegment], offsets: OffsetRange
) -> Iterator[Finding]:
    """Yield the findings that need all segments of a partition."""
    yield from _check_segment_order(verified_segments)
    yield from _check_epochs(partition, verified_segments)
    if partition.topic != GROUP_OFFSETS_TOPIC:
        yield from _check_sequences(verified_segments)
    yield from _check_transactions(filesystem, partition, verified_segments, offsets)
    yield from _check_snapshots(filesystem, partition)
    if not offsets.is_limited:
        yield from _check_checkpoint_offsets(partition, verified_segments)


def _find_leftover_files(partition: Partition) -> Iterator[Finding]:
    segment_paths = {segment.path for segment in partition.segments}
    yield from swap_findings(partition)
    for file in (file for file in partition.temporary if file.path not in segment_paths):
        yield Finding(Severity.NOTE, "temporary", f"a .{file.name.temporary} file", file.path)
    for file in partition.orphans:
        yield Finding(Severity.WARNING, "orphan", "an index without its segment", file.path)
    for note in partition.notes:  # uploads in a tiered store that do not belong to the log
        path, _, reason = note.partition(": ")
        yield Finding(Severity.NOTE, "tiered-left-out", reason, path)


def _check_segment_order(verified_segments: list[VerifiedSegment]) -> Iterator[Finding]:
    """Check that segments do not overlap: all offsets of a segment are below the base offset of the next one."""
    for entry, following in pairwise(verified_segments):
        if entry.last_offset >= following.base_offset:
            message = (
                f"the segment ends with offset {entry.last_offset}, but the next segment begins at "
                f"{following.base_offset}"
            )
            yield Finding(Severity.ERROR, "segment-overlap", message, entry.path, offset=entry.last_offset)


def _check_epochs(partition: Partition, verified_segments: list[VerifiedSegment]) -> Iterator[Finding]:
    """Check that leader epochs never decrease, and that the checkpoint has the start offset of each epoch.

    A broker with message format 0 or 1 clears its checkpoint. After an upgrade, the checkpoint therefore starts later
    than the batches. The checkpoint does not have epochs that ended below the log start offset.
    """
    starts = {entry.leader_epoch: entry.start_offset for entry in partition.leader_epochs or ()}
    first_kept = partition.log_start_offset
    result = [
        (verified_segment.path, *epoch) for verified_segment in verified_segments for epoch in verified_segment.epochs
    ]
    ends = [offset for _, _, offset, _ in result[1:]] + [first_kept + 1]
    last = -1
    for (path, epoch, offset, position), end in zip(result, ends, strict=False):
        if epoch < last:
            message = f"leader epoch {epoch} follows the higher epoch {last}"
            yield Finding(Severity.WARNING, "epoch-order", message, path, position, offset)
        elif partition.leader_epochs is not None and epoch not in starts and end > first_kept:
            message = f"leader-epoch-checkpoint does not have leader epoch {epoch}"
            yield Finding(Severity.WARNING, "epoch-checkpoint", message, path, position, offset)
        elif starts.get(epoch, offset) > max(offset, first_kept):
            message = f"leader-epoch-checkpoint has leader epoch {epoch} only from offset {starts[epoch]} on"
            yield Finding(Severity.NOTE, "epoch-start", message, path, position, offset)
        last = max(last, epoch)


def _check_sequences(verified_segments: list[VerifiedSegment]) -> Iterator[Finding]:
    """Check that sequence numbers of a producer and epoch have no gaps, if no batch can be missing.

    The first batch of a producer may have any number, because earlier batches may have been deleted. In a compacted log
    gaps prove nothing. A broker expires idle producers (``producer.id.expiration.ms``), so an id may be reused, for
    example if a restored log continues in a new cluster.
    """
    if any(verified_segment.has_holes for verified_segment in verified_segments):
        return
    expected_sequences: dict[tuple[int, int], tuple[int, int]] = {}
    for entry in verified_segments:
        for producer, epoch, sequence, base, last, attributes, position, timestamp in entry.producers.T.tolist():
            if sequence < 0 or attributes & CONTROL:
                continue
            last_sequence, previous_time = expected_sequences.get((producer, epoch), (sequence, timestamp))
            is_expired = sequence == 0 and timestamp - previous_time >= DEFAULT_EXPIRATION_MS
            if sequence != last_sequence and not is_expired:
                message = f"producer {producer}, epoch {epoch}: sequence {sequence}, expected {last_sequence}"
                yield Finding(Severity.WARNING, "sequence", message, entry.path, position, base)
            expected_sequences[producer, epoch] = (sequence + last - base + 1) % _SEQUENCE_COUNT, timestamp


def _check_transactions(
    filesystem: FileSystem, partition: Partition, verified_segments: list[VerifiedSegment], offsets: OffsetRange
) -> Iterator[Finding]:
    """Compare transaction indexes with the markers in their segments, and find open transactions."""
    transaction_state = OpenTransactions(partition.log_start_offset)
    aborted_transactions: list[AbortedTransaction] = []
    for segment, item in zip(partition.segments, verified_segments, strict=True):
        result = {
            ended_transaction.last_offset: ended_transaction
            for ended_transaction in _replay_aborted(item, transaction_state)
        }
        aborted_transactions += result.values()
        file = segment.txn_index
        if file is None:
            if result:
                message = f"the segment has {len(result)} aborted transactions, but the transaction index is missing"
                yield Finding(Severity.WARNING, "txnindex-missing", message, segment.path, offset=min(result))
            continue
        try:
            raw = filesystem.read(file.path)
            entries = [
                entry
                for entry in read_txn_index(raw, base_offset=segment.base_offset, file=file.path)
                if offsets.first_offset <= entry.last_offset < offsets.end_offset
            ]
        except LogDirError as problem:
            yield Finding(Severity.WARNING, "txnindex-corrupt", problem.reason, file.path, problem.position)
            continue
        yield from _check_txn_index(file.path, result, {entry.last_offset: entry for entry in entries}, item)
    if offsets.end_offset == NO_END:  # otherwise markers may follow after the range
        yield from _find_open_transactions(
            filesystem, partition, verified_segments, aborted_transactions, transaction_state
        )


def _find_open_transactions(
    filesystem: FileSystem,
    partition: Partition,
    verified_segments: list[VerifiedSegment],
    aborted_transactions: list[AbortedTransaction],
    transaction_state: OpenTransactions,
) -> Iterator[Finding]:
    """Yield a finding for each transaction without a marker. The first finding names the records that it hides."""
    if not transaction_state.first_offsets:
        return
    end = max(entry.last_offset for entry in verified_segments) + 1
    try:
        state = TransactionState(tuple(aborted_transactions), dict(transaction_state.first_offsets), end)
        hidden_records = find_hidden_records(filesystem, partition, state)
    except LogDirError:  # the segment is already reported as unreadable
        hidden_records = None
    paths = [(entry.base_offset, entry.path) for entry in verified_segments]
    for producer, first in sorted(transaction_state.first_offsets.items(), key=lambda item: item[1]):
        path = max((row for row in paths if row[0] <= first), default=paths[0])[1]
        is_earliest = hidden_records is not None and producer == hidden_records.producer_id
        message = (
            str(hidden_records)
            if is_earliest
            else f"the transaction of producer {producer} is open since offset {first}"
        )
        yield Finding(Severity.WARNING, "open-transaction", message, path, offset=first)


def _replay_aborted(
    verified_segment: VerifiedSegment, transaction_state: OpenTransactions
) -> Iterator[AbortedTransaction]:
    """Replay a segment's transactional batches and markers in offset order, and yield its aborted transactions."""
    kinds = {offset: (producer, kind) for offset, producer, kind in verified_segment.markers}
    for producer, epoch, _, base, last, attributes, *_ in verified_segment.producers.T.tolist():  # PRODUCER_COLUMNS
        if not attributes & TRANSACTIONAL:
            continue
        if not attributes & CONTROL:
            transaction_state.process_data(producer, base, last)
        elif base in kinds:
            ended_transaction = transaction_state.process_marker(
                TransactionMarker(base, kinds[base][0], epoch, kinds[base][1], -1)
            )
            if ended_transaction is not None:
                yield ended_transaction


def _check_txn_index(
    path: str,
    result: dict[int, AbortedTransaction],
    entries: dict[int, AbortedTransaction],
    verified_segment: VerifiedSegment,
) -> Iterator[Finding]:
    """Yield a finding for each difference between a transaction index and the aborts in its segment."""
    for offset, transaction in sorted(result.items()):
        entry = entries.get(offset)
        if entry is None or entry.producer_id != transaction.producer_id:
            message = (
                f"the aborted transaction of producer {transaction.producer_id} is missing from the transaction index"
            )
            yield Finding(Severity.WARNING, "txnindex-mismatch", message, path, offset=offset)
        elif entry.first_offset > transaction.first_offset:
            message = (
                f"the aborted transaction of producer {transaction.producer_id} is listed from offset "
                f"{entry.first_offset}; it starts at {transaction.first_offset}"
            )
            yield Finding(Severity.WARNING, "txnindex-mismatch", message, path, offset=offset)
    aborts = {(offset, producer) for offset, producer, kind in verified_segment.markers if kind == "ABORT"}
    for offset in sorted(entries.keys() - result.keys()):
        if (offset, entries[offset].producer_id) not in aborts:
            message = (
                f"the index has an aborted transaction of producer {entries[offset].producer_id}, but the log has no "
                "ABORT marker at this offset"
            )
            yield Finding(Severity.WARNING, "txnindex-mismatch", message, path, offset=offset)


def _check_snapshots(filesystem: FileSystem, partition: Partition) -> Iterator[Finding]:
    """Yield a finding for each unreadable producer snapshot."""
    for file in partition.producer_snapshots:
        try:
            read_producer_snapshot(filesystem.read(file.path), file=file.path)
        except LogDirError as problem:
            message = f"{problem.reason}; a broker deletes it and replays the log"
            yield Finding(Severity.WARNING, "snapshot-corrupt", message, file.path, problem.position)


def _check_checkpoint_offsets(partition: Partition, verified_segments: list[VerifiedSegment]) -> Iterator[Finding]:
    """Check that no checkpoint is above the log end offset."""
    if not verified_segments:
        return
    end = max(verified_segments[-1].last_offset + 1, verified_segments[-1].base_offset)
    for name in (names.RECOVERY_POINT_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT, names.LOG_START_CHECKPOINT):
        offset = partition.checkpointed_offsets.get(name, 0)
        if offset > end:
            message = f"{name} has offset {offset} for {partition.topic_partition}, but the log ends at {end}"
            yield Finding(Severity.WARNING, "checkpoint-beyond-end", message, partition.directory, offset=offset)


_KAFKAFRAMES_FILES = (
    "_SUCCESS",
    "group-offsets.csv",
    ".kafkaframes-streams",
)  # files of restores, rewrites and streaming sinks
_DIRECTORY_FILES = frozenset(
    (
        names.META_PROPERTIES,
        names.CLEAN_SHUTDOWN_FILE,
        names.BROKER_LOCK_FILE,
        *names.OFFSET_CHECKPOINTS,
        "bootstrap.checkpoint",
        "kafkaframes.broker.json",  # FILE_NAME in broker/state/metadata_file.py
        *_KAFKAFRAMES_FILES,
    )
)
_PARTITION_FILES = frozenset(
    (
        names.LEADER_EPOCH_CHECKPOINT,
        names.PARTITION_METADATA,
        "quorum-state",
        "remote_log_snapshot",
        *_KAFKAFRAMES_FILES,
    )
)
_INDEX_CACHE_DIRECTORY = "remote-log-index-cache"  # the only directory that LogManager skips when it loads partitions


def find_foreign_files(directory: LogDirectory) -> Iterator[Finding]:
    """Yield a finding for each entry of a log directory and its partitions that no broker creates.

    A broker does not start if a directory is not named like a partition (``LogManager.loadLogs``,
    ``UnifiedLog.parseTopicPartitionName``). A broker ignores unknown files.
    """
    if directory.meta is not None:
        yield from _find_foreign_entries(directory)
    for partition in directory.partitions:
        yield from _find_foreign_partition_files(directory.filesystem, partition)


def _find_foreign_entries(directory: LogDirectory) -> Iterator[Finding]:
    """Yield a finding for each entry of a log directory that no broker creates."""
    for entry in directory.filesystem.list_directory(directory.path):
        if not entry.is_directory:
            yield from _check_file_name(entry, _DIRECTORY_FILES)
        elif entry.name != _INDEX_CACHE_DIRECTORY and DirectoryName.parse(entry.name) is None:
            message = "a directory whose name is not TOPIC-PARTITION; a broker does not start with it"
            yield Finding(Severity.WARNING, "unexpected", message, entry.path)


def _find_foreign_partition_files(filesystem: FileSystem, partition: Partition) -> Iterator[Finding]:
    """Yield a finding for each file of a partition that no broker creates."""
    for entry in filesystem.list_directory(partition.directory):
        if entry.is_directory:
            yield Finding(Severity.NOTE, "unexpected", "a directory inside a partition's directory", entry.path)
        elif FileName.parse(entry.name) is None:
            yield from _check_file_name(entry, _PARTITION_FILES)


def _check_file_name(entry: FileInfo, known_names: frozenset[str]) -> Iterator[Finding]:
    """Yield a finding if no broker creates files with this name."""
    if entry.name.removesuffix(".tmp") not in known_names:
        yield Finding(Severity.NOTE, "unexpected", "a file that no broker writes", entry.path)
