"""Plan how a log is read: resolve offsets, check for data loss, find transactions, and narrow slices. No pyspark.

* Timestamps are resolved to offsets with Kafka's rules (``log.lookup``), for each selected topic partition.
* Offsets below the log start offset were deleted by retention or DeleteRecords. With ``failOnDataLoss``, reading them
  is an error. Missing offsets above the log start offset were removed by compaction, which is not a loss. An offset
  above the log end offset is an error as well, because the log was truncated or is another log.
* ``read_committed`` ends at the last stable offset and omits aborted transactions. The batch headers of the selected
  partitions are read to find open transactions, because no index contains them.
* The first and the last segment of a range are narrowed to the batches in the range, so that no other bytes are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from kafkaframes.errors import LogDirError, MissingSegmentError, OptionError
from kafkaframes.scan.log.discovery import (
    DiscoveredLogs,
    DistinctSegments,
    Log,
    discover_logs,
    exclude_from_bounds,
    find_boundaries,
    group_distinct_segments,
    merge_copies_of_segments,
    restrict_bounds,
)
from kafkaframes.scan.log.narrowing import OffsetRange, is_tiered, narrow_segment, narrow_tiered_segment
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import (
    Segment,
    SegmentSlice,
    distribute_slices,
    prune_segments,
    resolve_offset_ranges,
    select_segments,
)
from kafkaframes.scan.ranges import (
    LATEST,
    NO_END,
    NO_START,
    Bound,
    PartitionOffsets,
    TimeBound,
    check_batch_start,
    describe_offset_below_start,
    describe_offset_beyond_end,
    expand_bound,
    format_partition,
    limit_common_offsets,
    report_loss,
    resolve_bound,
)
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.copies.view import MergedFileSystem
from kafkaframes.storage.files.directory import UnreadablePartition
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import INTERNAL_TOPICS
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.log.lookup import find_offset_for_timestamp, log_end_offset
from kafkaframes.storage.log.notes import NO_NOTES, LogNotes, merge_notes
from kafkaframes.storage.log.swaps import swap_findings
from kafkaframes.storage.log.transactions import TransactionState, find_hidden_records, read_transactions
from kafkaframes.storage.tiered.filesystem import TieredFileSystem

log = logging.getLogger("kafkaframes.scan")

TopicPartition = tuple[str, int]
Logs = Mapping[TopicPartition, Log]
OffsetRanges = Mapping[TopicPartition, tuple[int, int]]  # first offset and end offset of each topic partition


@dataclass(frozen=True, slots=True)
class SelectedSegments:
    """The segments that a read selects.

    Attributes:
        parts: Groups of segments without duplicates, with the options for their topic partitions.
        internal_topics: Kafka's internal topics that exist but are not selected.
        notes: Swap files that are read as segments.
    """

    parts: list[tuple[DistinctSegments, ReadOptions]]
    internal_topics: tuple[str, ...]
    notes: LogNotes


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The result of planning: the slices that each task reads, with sizes and findings.

    Attributes:
        works: Slices of each task.
        segments: Number of segments in the selected topic partitions.
        log_bytes: Size of these segments.
        bytes_to_fetch: Number of bytes to fetch: the stored chunks of tiered segments, and the slices of others.
        decisions: What was decided while replicas were merged, most severe first.
        internal_topics: Kafka's internal topics that exist but are not selected.
        notes: Findings about swap files and transaction indexes, records that an open transaction hides, and missing
            segments of a tiered store.
    """

    works: tuple[tuple[SegmentSlice, ...], ...]
    segments: int
    log_bytes: int
    bytes_to_fetch: int = 0
    decisions: tuple[Decision, ...] = ()
    internal_topics: tuple[str, ...] = ()
    notes: LogNotes = NO_NOTES

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return len(self.works)

    @property
    def segment_count(self) -> int:
        """The number of segments to open."""
        return len({part.segment.path for work in self.works for part in work})

    @property
    def bytes_to_read(self) -> int:
        """The number of log bytes that the tasks read."""
        return sum(part.size_bytes for work in self.works for part in work)


def plan_log(options: ReadOptions, *, cores: int) -> ReadPlan:
    """List the segments and plan the read.

    Raises:
        OptionError: A topic, partition or offset in the options does not exist, or is lost.
        LogDirError: A path cannot be read.
    """
    discovery = discover_logs(options.paths, storage=options.storage)
    check_batch_start(options.start)
    return plan_discovered(discovery, options, cores=cores)


def plan_discovered(discovery: DiscoveredLogs, options: ReadOptions, *, cores: int) -> ReadPlan:
    """Plan the read of logs that are already discovered. Raises the same exceptions as ``plan_log``."""
    choice = choose_segments(discovery, options, cores=cores)
    parts = choice.parts
    cuts = [plan_part(part, part_options) for part, part_options in parts]
    chunks_with_logs = [chunk for part, _ in cuts for chunk in part]
    notes = merge_notes([choice.notes, *(note for _, note in cuts)])
    slices = [_drop_planning_data(chunk, options) for chunk, _ in chunks_with_logs]
    fetched_bytes = sum(_count_fetched_bytes(chunk, log) for chunk, log in chunks_with_logs)
    boundaries = partial(find_boundaries, storage=options.storage)
    works = distribute_slices(slices, options, cores=cores, boundaries=boundaries)
    segments = [segment for part, _ in parts for segment in part.segments]
    log_bytes = sum(segment.size_bytes - segment.start for segment in segments)
    decisions = tuple(decision for part, _ in parts for decision in part.decisions)
    paths = {segment.path for segment in segments}
    return ReadPlan(tuple(works), len(paths), log_bytes, fetched_bytes, decisions, choice.internal_topics, notes)


def choose_segments(
    discovery: DiscoveredLogs, options: ReadOptions, *, cores: int, omit_unreadable: bool = False
) -> SelectedSegments:
    """Return the segments that the options select, with replicas merged. Raises the same exceptions as ``plan_log``.

    Args:
        discovery: Logs under the paths.
        options: Options of the read.
        cores: Number of replicas that are examined in parallel.
        omit_unreadable: Whether a selected partition that cannot be read becomes a note, instead of an error.
    """
    unreadable_by_directory = {entry.directory: entry for entry in discovery.unreadable_partitions}
    selected_segments = select_segments(
        [*discovery.segments, *map(make_placeholder, discovery.unreadable_partitions)], options
    )
    internal = tuple(
        sorted(
            ({segment.topic for segment in discovery.segments} - {segment.topic for segment in selected_segments})
            & INTERNAL_TOPICS
        )
    )
    if options.row_filter.topics is not None or options.row_filter.partitions is not None:
        selected_segments = [
            segment
            for segment in selected_segments
            if options.row_filter.has_partition(segment.topic, segment.partition)
        ]
        options = restrict_bounds({(segment.topic, segment.partition) for segment in selected_segments}, options)
    unreadable = [
        unreadable_by_directory[entry.directory]
        for entry in selected_segments
        if entry.directory in unreadable_by_directory
    ]
    if unreadable and not omit_unreadable:
        raise unreadable[0].as_error()
    if unreadable:
        selected_segments = [entry for entry in selected_segments if entry.directory not in unreadable_by_directory]
        readable_names = {(entry.topic, entry.partition) for entry in selected_segments}
        unreadable_names = {(name.topic, name.partition) for name in (entry.topic_partition for entry in unreadable)}
        options = exclude_from_bounds(unreadable_names - readable_names, options)
    _report_tiered_problems(discovery, selected_segments, options)
    if options.replicas == "all":
        parts = [
            (DistinctSegments(discovery, part), part_options)
            for part, part_options in group_distinct_segments(selected_segments, options)
        ]
    else:
        parts = [(merge_copies_of_segments(discovery, selected_segments, options, cores=cores), options)]
    partitions = [
        discovery.by_directory[path].partition
        for path in dict.fromkeys(segment.directory for segment in selected_segments)
    ]
    notes = LogNotes(
        tuple(finding for partition in partitions for finding in swap_findings(partition)),
        unreadable=tuple(entry.as_finding() for entry in unreadable),
    )
    return SelectedSegments(parts, internal, notes)


def make_placeholder(partition: UnreadablePartition) -> Segment:
    """Return an empty segment for an unreadable partition, so that the same selection rules apply to it."""
    name = partition.topic_partition
    return Segment(partition.directory, 0, 0, name.topic, name.partition, directory=partition.directory)


def _report_tiered_problems(discovery: DiscoveredLogs, segments: Iterable[Segment], options: ReadOptions) -> None:
    """Log a warning for contradictory objects of tiered partitions. The other segments of these partitions are read.

    ``plan_slices`` reports missing segments, because only it has the offsets to read.

    Raises:
        LogDirError: An object is missing or contradictory, and ``on_damage`` is ``fail``.
    """
    for directory in dict.fromkeys(segment.directory for segment in segments):
        if not is_tiered(directory):
            continue
        for problem in discovery.by_directory[directory].partition.problems:
            if options.on_damage == "fail":
                raise problem
            if not isinstance(problem, MissingSegmentError):
                log.warning("%s", problem)


def plan_part(
    part: DistinctSegments, options: ReadOptions, *, whole_segments: bool = False, omit_unreadable: bool = False
) -> tuple[list[tuple[SegmentSlice, Log]], LogNotes]:
    """Plan the slices to read from distinct segments; return each slice with its log, and the notes.

    Args:
        part: Segments.
        options: Options of the read.
        whole_segments: Whether slices are whole segments, which have more batches than the range.
        omit_unreadable: As for ``plan_slices``.

    Raises:
        OptionError: Offsets of the range are lost, or ``read_committed`` is selected for single segments.
    """
    logs = map_logs_by_partition(part)
    options = resolve_isolation(options, is_whole=part.logs.has_whole_directories)
    resolved_offsets = resolve_offsets(options, logs)
    if part.logs.has_whole_directories:
        check_loss(resolved_offsets, logs)
    elif options.isolation == "read_committed":
        raise OptionError("isolation=read_committed needs whole logs: specify directories instead of single files")
    slices, notes = plan_slices(
        part.segments, resolved_offsets, logs, whole_segments=whole_segments, omit_unreadable=omit_unreadable
    )
    return [(chunk, logs[chunk.segment.topic, chunk.segment.partition]) for chunk in slices], notes


def resolve_isolation(options: ReadOptions, *, is_whole: bool) -> ReadOptions:
    """Return options with an isolation level.

    The transactions of single segments are unknown, because they may begin in other segments.
    """
    if options.isolation is not None:
        return options
    return replace(options, isolation="read_committed" if is_whole else "read_uncommitted")


def plan_slices(
    segments: list[Segment],
    options: ReadOptions,
    logs: Logs,
    *,
    whole_segments: bool = False,
    omit_unreadable: bool = False,
) -> tuple[list[SegmentSlice], LogNotes]:
    """Return the slices with the batches of the range, each with the aborted transactions that it may contain.

    Args:
        segments: Selected segments.
        options: Options of the read, with offsets as start and end.
        logs: Logs of the topic partitions.
        whole_segments: Whether the slices are not narrowed to the batches of the range.
        omit_unreadable: Whether a segment that cannot be read does not stop the plan. With ``read_committed``, the
            partition is read only up to this segment, and a note says so, because the segment's transactions are
            unknown; otherwise its task reports the error.

    Raises:
        LogDirError: A segment cannot be read.
    """
    states = _read_transactions(options, logs, stop_at_unreadable=omit_unreadable)
    notes = LogNotes(tuple(finding for state in states.values() for finding in state.findings))
    ranges = resolve_offset_ranges(segments, options)
    notes += describe_missing_segments(find_missing_segments(options, logs, ranges))
    if any(state.open or state.unreadable for state in states.values()):
        notes += _describe_omitted_records(options, logs, ranges, states)
        options = replace(options, end=_limit_to_stable_offsets(ranges, states))
    slices = prune_segments(segments, options)
    if options.table == "segments":
        slices = [replace(part, end=part.start) for part in slices]
    else:
        if not whole_segments:
            narrow_parts = [_narrow_slice(part, logs, omit_unreadable=omit_unreadable) for part in slices]
            slices = [part for part in narrow_parts if part.size_bytes > 0]
        slices = _add_aborted_transactions(slices, segments, states)
    return slices, notes


def _count_fetched_bytes(part: SegmentSlice, entry: Log) -> int:
    """Return the number of bytes to fetch for a slice. Of a tiered segment, whole stored chunks are fetched."""
    filesystem = entry.filesystem
    if isinstance(filesystem, MergedFileSystem):
        filesystem = filesystem.find_outer_filesystem(part.segment.path)
    if isinstance(filesystem, TieredFileSystem):
        return filesystem.count_fetched_bytes(part.segment.path, part.start, part.end)
    return part.size_bytes


def map_logs_by_partition(part: DistinctSegments) -> Logs:
    """Return the log of each selected topic partition."""
    return {(segment.topic, segment.partition): part.logs.by_directory[segment.directory] for segment in part.segments}


def resolve_offsets(options: ReadOptions, logs: Logs) -> ReadOptions:
    """Return a copy of the options in which offsets replace timestamps.

    Raises:
        OptionError: A timestamp is later than every record and ``no_match`` is ``error``, or the bounds do not name a
            partition.
    """
    find = partial(find_times, logs)
    starts = resolve_bound("start", options.start, logs, find=find, no_match=options.no_match)
    if isinstance(options.start, TimeBound):
        starts = {
            name: find_log_end_offset(logs[name]) if offset == LATEST else offset for name, offset in starts.items()
        }
    ends = resolve_bound("end", options.end, logs, find=find)

    def find_bounds() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the first offsets and the end offsets, by topic partition."""
        firsts = {name: entry.partition.log_start_offset for name, entry in logs.items()}
        return firsts, {name: find_log_end_offset(entry) for name, entry in logs.items()}

    return replace(
        options,
        start=limit_common_offsets(options.start, starts, find_bounds),
        end=limit_common_offsets(options.end, ends, find_bounds),
    )


def find_times(logs: Logs, times: PartitionOffsets) -> dict[TopicPartition, int | None]:
    """Return, for each topic partition, the offset of the first record at or after its time; None if there is none."""
    answers = {
        name: find_offset_for_timestamp(logs[name].filesystem, logs[name].partition, time)
        for name, time in times.items()
    }
    return {name: None if answer is None else answer.offset for name, answer in answers.items()}


def find_log_end_offset(entry: Log) -> int:
    """Return the offset after the log's last record."""
    return log_end_offset(entry.filesystem, entry.partition)


def check_loss(options: ReadOptions, logs: Logs) -> None:
    """Check that the log still has the specified offsets.

    Raises:
        OptionError: Offsets are lost. With ``failOnDataLoss=false`` a warning is logged instead.
    """
    starts, ends = expand_bound("start", options.start, logs), expand_bound("end", options.end, logs)
    fail = options.fail_on_data_loss
    for name, entry in logs.items():
        first, last = entry.partition.log_start_offset, max(starts[name], ends[name])
        if 0 <= starts[name] < first:
            report_loss(describe_offset_below_start(format_partition(name), starts[name], first), fail=fail)
        if last > first and (end := find_log_end_offset(entry)) < last:
            report_loss(describe_offset_beyond_end(format_partition(name), last, end), fail=fail)


def _read_transactions(
    options: ReadOptions, logs: Logs, *, stop_at_unreadable: bool
) -> dict[TopicPartition, TransactionState]:
    """Return the transactions of each log if the read needs them (``isolation=read_committed``)."""
    if options.isolation != "read_committed" or options.table == "segments":
        return {}
    return {
        name: read_transactions(log.filesystem, log.partition, stop_at_unreadable=stop_at_unreadable)
        for name, log in logs.items()
    }


def _describe_omitted_records(
    options: ReadOptions, logs: Logs, ranges: OffsetRanges, states: Mapping[TopicPartition, TransactionState]
) -> LogNotes:
    """Return a note for each partition of which ``read_committed`` omits records of the range.

    ``read_committed`` omits the records from the first segment on that cannot be read, and those after the start of an
    open transaction.
    """
    errors, hidden_records = [], []
    for name, state in states.items():
        first, end = options.row_filter.limit_range(*ranges[name])
        if state.unreadable is None:
            log = logs[name]
            hidden_records.append(find_hidden_records(log.filesystem, log.partition, state, start=first, end=end))
        elif end > state.last_stable_offset:
            message = (
                f"{state.unreadable.reason}; {format_partition(name)} ends at offset {state.last_stable_offset}, "
                "because later transactions are unknown; make the file readable, or use isolation=read_uncommitted"
            )
            errors.append(Finding(Severity.ERROR, "unreadable", message, state.unreadable.file or ""))
    return LogNotes(
        hidden_records=tuple(record for record in hidden_records if record is not None), unreadable=tuple(errors)
    )


def find_missing_segments(
    options: ReadOptions, logs: Logs, ranges: OffsetRanges
) -> dict[TopicPartition, list[MissingSegmentError]]:
    """Return the segments that tiered stores lack and that may have offsets of the range."""
    missing_segments = {}
    for name, (first, end) in ranges.items():
        first, end = options.row_filter.limit_range(first, end)
        missing_segments[name] = [
            problem
            for problem in logs[name].missing_segments
            if problem.offsets is None or (problem.offsets[0] < end and problem.offsets[1] >= first)
        ]
    return missing_segments


def describe_missing_segments(
    missing_segments: Mapping[TopicPartition, Iterable[MissingSegmentError]], *, consequence: str = ""
) -> LogNotes:
    """Return an error for each missing segment, as for a segment that cannot be read.

    Args:
        missing_segments: Missing segments of each topic partition.
        consequence: Text at the end of each message, which states the consequence.
    """
    return LogNotes(
        unreadable=tuple(
            Finding(Severity.ERROR, "missing-segment", f"{problem.reason}{consequence}", problem.file or "")
            for problems in missing_segments.values()
            for problem in problems
        )
    )


def _limit_to_stable_offsets(ranges: OffsetRanges, states: Mapping[TopicPartition, TransactionState]) -> Bound:
    """Return the end offsets of the read, limited to the last stable offset of partitions where records are omitted.

    Other partitions keep their end, so that an export does not repeat their segments after the transaction has ended.
    """
    ends = {name: end for name, (_, end) in ranges.items()}
    limits = {name: state.last_stable_offset for name, state in states.items() if state.open or state.unreadable}
    return {name: min(end, limits.get(name, end)) for name, end in ends.items()}


def _narrow_slice(part: SegmentSlice, logs: Logs, *, omit_unreadable: bool) -> SegmentSlice:
    """Narrow a slice to the batches of its range. The result may be empty.

    Args:
        part: Slice.
        logs: Logs of the topic partitions.
        omit_unreadable: Whether a slice that cannot be read is returned unchanged, so that its task reports the error.

    Raises:
        LogDirError: The segment cannot be read.
    """
    try:
        return _find_batches_of_slice(part, logs)
    except LogDirError:
        if omit_unreadable:
            return part
        raise


def _find_batches_of_slice(part: SegmentSlice, logs: Logs) -> SegmentSlice:
    stored_files = part.segment.stored_files
    if stored_files is None or (part.first_offset == NO_START and part.end_offset == NO_END):
        return part
    entry = logs[part.segment.topic, part.segment.partition]
    offsets = OffsetRange(part.first_offset, part.end_offset)
    if is_tiered(part.segment.path):
        start, end = narrow_tiered_segment(entry.filesystem, stored_files, offsets, start=part.start, end=part.end)
        return replace(part, start=start, end=end, unproven=(start > part.start, end < part.end))
    start, end = narrow_segment(entry.filesystem, stored_files, offsets, start=part.start, end=part.end)
    return replace(part, start=start, end=end)


def _add_aborted_transactions(
    slices: list[SegmentSlice], segments: list[Segment], states: Mapping[TopicPartition, TransactionState]
) -> list[SegmentSlice]:
    """Return the slices with the aborted transactions that may have batches in their segments."""
    following = {
        (segment.path, segment.start): next_segment.base_offset
        if next_segment.directory == segment.directory
        else NO_END
        for segment, next_segment in pairwise(segments)
    }
    slices_with_transactions = []
    for part in slices:
        state = states.get((part.segment.topic, part.segment.partition))
        first, limit = part.segment.base_offset, following.get((part.segment.path, part.segment.start), NO_END)
        aborted_transactions: tuple[AbortedTransaction, ...] = ()
        if state is not None:
            aborted_transactions = tuple(
                transaction
                for transaction in state.aborted_transactions
                if transaction.last_offset > first and transaction.first_offset < limit
            )
        slices_with_transactions.append(replace(part, aborted_transactions=aborted_transactions))
    return slices_with_transactions


def _drop_planning_data(part: SegmentSlice, options: ReadOptions) -> SegmentSlice:
    """Return a slice without the data that only planning needs, because it is sent to its task."""
    keep = options.table == "segments"
    return part if keep else replace(part, segment=replace(part.segment, stored_files=None))
