"""Find segments for planning and batch boundaries in large segments, and merge the replicas of a partition.

The ``.index`` file contains batch positions: each entry is (relative offset, position of a batch). An index can be
outdated or belong to another segment, so an entry is used only if a plausible batch header is at its position, followed
by another one or the end of the file. If no entry near a position is usable, batch headers are read from the last known
position. In a store that is read over a network, batch headers are not read in this way, and the segment stays whole.

The replicas of a partition are merged to one log (``replicas=merge``), or each is read by itself (``all``). All
decisions of a merge are based on the batch headers of all replicas and are made before the read. The result is a list
of segments. Each segment is a byte range in a file of one replica, with the ranges of the same offsets in other
replicas.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kafkaframes.errors import LogDirError, MissingSegmentError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Segment
from kafkaframes.scan.ranges import NO_END, NO_START, TimeBound, restrict_bound
from kafkaframes.storage.copies.decisions import Decision, sort_by_severity
from kafkaframes.storage.copies.one_log import merge_copies
from kafkaframes.storage.copies.reading import AlternateRange, CopySource
from kafkaframes.storage.copies.spans import MergedLog, SegmentRange, Span
from kafkaframes.storage.copies.view import MergedViewBuilder
from kafkaframes.storage.files.directory import LogDirectory, Partition, UnreadablePartition
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.filesystem import (
    FileSystem,
    LocalFileSystem,
    ReadAt,
    has_wildcard,
    plain_path,
    split_path,
)
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.headers import BatchHeader, HeaderWalk
from kafkaframes.storage.files.indexes import read_offset_index
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.discover import discover, find_filesystem
from kafkaframes.storage.log.lookup import log_end_offset


@dataclass(frozen=True, slots=True)
class Log:
    """The log of a topic partition, with its file system and its log directory.

    Attributes:
        missing_segments: Segments that a tiered store lacks and that no other copy of the partition has.
    """

    filesystem: FileSystem
    partition: Partition
    log_directory: LogDirectory | None = None
    missing_segments: tuple[MissingSegmentError, ...] = ()


@dataclass(frozen=True, slots=True)
class DiscoveredLogs:
    """The logs under the paths of a ``load()``.

    Attributes:
        segments: Readable segments.
        by_directory: Logs, by partition directory.
        has_whole_directories: False if paths name files, so that other segments of their partitions are unknown.
        unreadable_partitions: Partitions that ``segments`` and ``by_directory`` lack because they cannot be read.
    """

    segments: list[Segment]
    by_directory: dict[str, Log]
    has_whole_directories: bool
    unreadable_partitions: tuple[UnreadablePartition, ...] = ()


def discover_logs(paths: tuple[str, ...], *, storage: Mapping[str, Any] | None = None) -> DiscoveredLogs:
    """Return every live segment under the paths with its partition, and the partitions that cannot be read.

    Renamed directories (``-delete``, ``-future``, ``-stray``) and temporary files are omitted, unless a path names
    them.

    Args:
        paths: Paths of log directories, partitions or files, or patterns.
        storage: Options of the object stores.

    Raises:
        LogDirError: A path does not exist, cannot be read or contains no Kafka files.
    """
    plain_paths = {plain_path(path).rstrip("/") for path in paths if not has_wildcard(path)}
    segments: list[Segment] = []
    by_directory: dict[str, Log] = {}
    unreadable_partitions: list[UnreadablePartition] = []
    for directory in discover(paths, options=storage, omit_unreadable=True):
        unreadable_partitions += (entry for entry in directory.unreadable_partitions if not entry.state)
        for partition in directory.partitions:
            missing_segments = tuple(
                problem for problem in partition.problems if isinstance(problem, MissingSegmentError)
            )
            by_directory[partition.directory] = Log(directory.filesystem, partition, directory, missing_segments)
            segments += iterate_segments(partition, plain_paths)
    has_whole_directories = not any(is_file_path(path) for path in paths)
    return DiscoveredLogs(segments, by_directory, has_whole_directories, tuple(unreadable_partitions))


def is_file_path(path: str) -> bool:
    """Return whether a path, or a pattern of paths, names segments or KRaft snapshots."""
    name = split_path(plain_path(path))[1]
    return FileName.parse(name) is not None or ".log" in name or ".checkpoint" in name


def iterate_segments(partition: Partition, paths: set[str]) -> Iterator[Segment]:
    """Yield the live segments of a partition, and segments of any kind with paths in ``paths``."""
    is_named = partition.directory in paths
    for segment in (*partition.segments, *partition.kraft_snapshots):
        file_named = segment.path in paths
        if not (file_named or (segment.log.name.kind == "log" and (partition.is_live or is_named))):
            continue
        yield Segment(
            path=segment.path,
            size_bytes=segment.size_bytes,
            base_offset=segment.base_offset,
            topic=partition.topic,
            partition=partition.partition,
            directory=partition.directory,
            index_path=segment.index.path if segment.index else None,
            is_named=is_named or file_named,
            log_start_offset=_find_log_start_in_segment(partition, segment),
            stored_files=segment,
            source=partition.log_directory,
        )


def _find_log_start_in_segment(partition: Partition, segment: StoredFiles) -> int:
    """Return the log start offset if it is inside this segment. Temporary files and snapshots do not have one."""
    is_log = segment.log.name.kind == "log" and not segment.log.name.temporary
    start = partition.log_start_offset
    return start if is_log and start > segment.base_offset else NO_START


_MAX_INDEX_ENTRIES = 3  # index entries that are checked for each requested position
_HEADER_READ_BYTES = (
    1 << 10
)  # bytes per read of the header walk: batches are large in a segment that is worth splitting


def find_boundaries(
    segment: Segment, positions: Sequence[int], *, storage: Mapping[str, Any] | None = None
) -> list[int]:
    """Return the first batch start at or after each requested position, if one exists.

    If the file is truncated or deleted in the meantime, positions are missing, and the segment's reader reports the
    error.
    """
    filesystem = find_filesystem(segment.path, options=storage)
    try:
        with filesystem.open(segment.path) as read_at:
            result = _find_in_index(filesystem, segment, positions, read_at)
            unresolved_positions = [
                position for position, boundary in zip(positions, result, strict=True) if boundary is None
            ]
            if unresolved_positions and isinstance(filesystem, LocalFileSystem):
                result += _find_by_header_walk(read_at, segment, unresolved_positions)
    except LogDirError:
        return []
    return sorted({boundary for boundary in result if boundary is not None})


def is_batch_start(read_at: ReadAt, position: int, segment: Segment) -> bool:
    """Return whether a plausible batch starts at ``position``, followed by another one or the end of the file."""
    walk = HeaderWalk(read_at, size_bytes=segment.size_bytes, position=position, window_bytes=BATCH_V2.size)
    headers = list(islice(walk, 2))
    if not headers or not all(_is_plausible(header, segment) for header in headers):
        return False
    return len(headers) == 2 or headers[0].end == segment.size_bytes


def _is_plausible(header: BatchHeader, segment: Segment) -> bool:
    return header.base_offset >= segment.base_offset and 0 <= header.magic <= 2


def _find_in_index(
    filesystem: FileSystem, segment: Segment, requested_positions: Sequence[int], read_at: ReadAt
) -> list[int | None]:
    """Return a batch start at or after each requested position, by the offset index; None if the index has none."""
    if segment.index_path is None:
        return [None] * len(requested_positions)
    index = read_offset_index(filesystem.read(segment.index_path), base_offset=segment.base_offset, strict=False)
    positions = sorted(position for position in index.positions.tolist() if position > 0)
    result: list[int | None] = []
    for target in requested_positions:
        first = bisect_left(positions, target)
        candidates = positions[first : first + _MAX_INDEX_ENTRIES]
        result.append(next((p for p in candidates if is_batch_start(read_at, p, segment)), None))
    return result


def _find_by_header_walk(read_at: ReadAt, segment: Segment, positions: Iterable[int]) -> Iterator[int]:
    """Walk over the batch headers, and yield the first batch at or after each requested position. Stop at damage."""
    headers = iter(HeaderWalk(read_at, size_bytes=segment.size_bytes, window_bytes=_HEADER_READ_BYTES))
    header = next(headers, None)
    for position in sorted(positions):
        while header is not None and header.position < position:
            header = next(headers, None)
        if header is None:
            return
        yield header.position


_LOGGER = logging.getLogger("kafkaframes.scan")
_LEVEL_BY_SEVERITY = {
    Severity.NOTE: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.WARNING,
}
Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class DistinctSegments:
    """Segments without duplicates, so that no two of them are replicas of each other.

    Attributes:
        logs: Logs, with a virtual directory for each merged partition.
        segments: Selected segments, in order.
        decisions: Decisions of the merges, and conflicts that remain unresolved; the most severe first.
    """

    logs: DiscoveredLogs
    segments: list[Segment]
    decisions: tuple[Decision, ...] = ()


def merge_copies_of_segments(
    discovery: DiscoveredLogs, segments_to_merge: Sequence[Segment], options: ReadOptions, *, cores: int
) -> DistinctSegments:
    """Merge the replicas of the selected topic partitions.

    Raises:
        LogDirError: Replicas belong to different topics or cannot be read; or ``on_damage`` is ``fail`` and replicas
            contradict each other.
    """
    directories = _group_directories_by_partition(segments_to_merge)
    if all(len(paths) == 1 for paths in directories.values()):
        return DistinctSegments(discovery, list(segments_to_merge))
    by_directory, segments = dict(discovery.by_directory), []
    decisions: list[Decision] = []
    is_named_by_partition = {(segment.topic, segment.partition): segment.is_named for segment in segments_to_merge}
    view = MergedViewBuilder(options.storage)
    with ThreadPoolExecutor(cores) as pool:
        for name, paths in directories.items():
            if len(paths) == 1:
                segments += [segment for segment in segments_to_merge if (segment.topic, segment.partition) == name]
                continue
            copies = [_to_copy_source(by_directory[path]) for path in paths]
            merged_log = merge_copies(copies, run=pool.map)
            merged_partition = view.add_merged(merged_log, copies)
            missing_segments = _find_segments_missing_in_all([by_directory[path] for path in paths])
            by_directory[merged_partition.directory] = Log(
                view.filesystem, merged_partition, missing_segments=missing_segments
            )
            segments += [
                _to_segment(merged_log, part, merged_partition.directory, is_named_by_partition[name])
                for part in merged_log.spans
            ]
            decisions += merged_log.decisions
            _report_lost_chunks(merged_log, options)
    sorted_decisions = tuple(sort_by_severity(decisions))
    _report_decisions(sorted_decisions, options)
    return DistinctSegments(replace(discovery, by_directory=by_directory), segments, sorted_decisions)


def _find_segments_missing_in_all(copies: Sequence[Log]) -> tuple[MissingSegmentError, ...]:
    """Return the missing segments of tiered copies, except those whose offsets another copy has."""
    missing_segments = [(entry, problem) for entry in copies for problem in entry.missing_segments]
    return tuple(
        problem
        for entry, problem in missing_segments
        if not any(copy is not entry and _has_offsets(copy, problem.offsets) for copy in copies)
    )


def _has_offsets(entry: Log, offsets: tuple[int, int] | None) -> bool:
    """Return whether a log starts at or before a range of offsets, ends after it, and lacks no segment."""
    if offsets is None or entry.missing_segments:
        return False
    first, last = offsets
    partition = entry.partition
    return partition.log_start_offset <= first and log_end_offset(entry.filesystem, partition) > last


def _group_directories_by_partition(segments: Sequence[Segment]) -> dict[Name, list[str]]:
    """Return the directories that contain segments of each topic partition."""
    result: dict[Name, dict[str, None]] = {}
    for segment in segments:
        result.setdefault((segment.topic, segment.partition), {})[segment.directory] = None
    return {name: list(paths) for name, paths in result.items()}


def _to_copy_source(entry: Log) -> CopySource:
    """Return a log as a source of the merge: its log directory and its partition."""
    if entry.log_directory is None:  # the log is already the result of a merge
        return CopySource(LogDirectory(entry.partition.log_directory, entry.filesystem), entry.partition)
    return CopySource(entry.log_directory, entry.partition)


def _report_decisions(decisions: Sequence[Decision], options: ReadOptions) -> None:
    """Log what was decided while replicas were merged.

    With ``on_damage=fail``, raise an error for an unresolved conflict.
    """
    for decision in decisions:
        if decision.check == "undecided" and options.on_damage == "fail":
            location = decision.locations[0]
            raise LogDirError(str(decision), position=location.position, file=location.file)
        _LOGGER.log(_LEVEL_BY_SEVERITY[decision.severity], "%s", decision)


def _report_lost_chunks(merged_log: MergedLog, options: ReadOptions) -> None:
    """Log damaged chunks that no replica can replace.

    With ``on_damage=fail``, raise an error for the first damaged chunk.
    """
    for path, damage in merged_log.find_lost_chunks():
        if options.on_damage == "fail":
            raise damage
        _LOGGER.warning("%s: %s; no other copy has its offsets", path, damage)


def _to_segment(merged_log: MergedLog, part: Span, directory: str, is_named: bool) -> Segment:
    """Return a range of a merged log as a segment."""
    source_segment = merged_log.segment(part.segment_range)
    first_offset = max(part.first_offset if part.is_clipped else NO_START, merged_log.start_offset)
    return Segment(
        path=source_segment.path,
        size_bytes=part.segment_range.end,
        base_offset=part.first_offset,
        topic=merged_log.topic_partition.topic,
        partition=merged_log.topic_partition.partition,
        directory=directory,
        index_path=source_segment.index.path if source_segment.index else None,
        is_named=is_named,
        log_start_offset=first_offset if part.is_clipped or first_offset > part.first_offset else NO_START,
        stored_files=source_segment,
        source=merged_log.copies[part.segment_range.copy].source,
        start=part.segment_range.start,
        end_offset=part.end_offset if part.is_clipped else NO_END,
        alternates=tuple(_alternate(merged_log, segment_range) for segment_range in part.alternates),
    )


def _alternate(merged_log: MergedLog, segment_range: SegmentRange) -> AlternateRange:
    return AlternateRange(merged_log.segment(segment_range).path, segment_range.start, segment_range.end)


def group_distinct_segments(
    segments: Sequence[Segment], options: ReadOptions
) -> Iterator[tuple[list[Segment], ReadOptions]]:
    """Yield groups of segments without duplicates, each with the options for its partitions."""
    directories = _group_directories_by_partition(segments)
    for index in range(max((len(paths) for paths in directories.values()), default=0)):
        paths = {directory_list[index] for directory_list in directories.values() if len(directory_list) > index}
        part = [segment for segment in segments if segment.directory in paths]
        yield part, restrict_bounds({(entry.topic, entry.partition) for entry in part}, options)


def exclude_from_bounds(names: Collection[Name], options: ReadOptions) -> ReadOptions:
    """Return a copy of the options without the start and end offsets of these topic partitions."""
    values = (bound.times if isinstance(bound, TimeBound) else bound for bound in (options.start, options.end))
    other_names = {name for value in values if isinstance(value, Mapping) for name in value} - set(names)
    return restrict_bounds(other_names, options)


def restrict_bounds(names: set[Name], options: ReadOptions) -> ReadOptions:
    """Return a copy of the options with the start and end offsets of these topic partitions only."""
    return replace(options, start=restrict_bound(options.start, names), end=restrict_bound(options.end, names))
