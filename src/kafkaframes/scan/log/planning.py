"""Division of segments into the input partitions of a read.

The functions take plain values, do no I/O and do not import pyspark.

A *segment* is a ``.log`` file. A *slice* is a byte range of a segment between batch boundaries. The *work* of an input
partition is a tuple of slices, ordered by topic partition and offset.

Rules

* A segment with offsets outside of the range is not read. Its last offset is unknown, but less than the base
  offset of the next segment.
* A task costs about 35 ms before it reads a byte, and Spark runs as many tasks in parallel as there are cores. Segments
  are therefore packed up to a target size. The target is ``maxBytesPerPartition``, or less if that would leave cores
  idle, but at least ``MIN_INPUT_PARTITION_BYTES`` unless ``minPartitions`` requires more tasks.
* A segment above the target is split at batch boundaries, which the caller finds (``Boundaries``). Without boundaries
  it stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kafkaframes.errors import OptionError
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    NO_END,
    NO_START,
    Assignment,
    TimeBound,
    check_partitions,
    expand_bound,
    format_partition,
)
from kafkaframes.storage.copies.reading import AlternateRange
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.names import INTERNAL_TOPICS
from kafkaframes.storage.files.producer_files import AbortedTransaction

MIN_INPUT_PARTITION_BYTES = 16 << 20
OPEN_COST_BYTES = 64 << 10  # cost of opening a small file, in bytes that could be read in the same time


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file, or a byte range of it.

    Attributes:
        path: Path of the ``.log`` file.
        directory: Directory of its partition.
        index_path: Path of the ``.index`` file; None if it does not exist.
        is_named: Whether the user's path names this partition or segment, so that defaults do not exclude it.
        log_start_offset: Smallest offset that is served (DeleteRecords).
        stored_files: Segment with its index and snapshot files; only for the table ``segments``.
        source: Log directory of the segment.
        start: Position of the first byte, if a merged log has only a part of the file. ``size_bytes`` is then the
            position after the last byte of the part.
        end_offset: Exclusive end offset of the part.
        alternates: Ranges of the same offsets in other replicas, which replace damaged batches.
    """

    path: str
    size_bytes: int
    base_offset: int
    topic: str
    partition: int
    directory: str
    index_path: str | None = None
    is_named: bool = False
    log_start_offset: int = NO_START
    stored_files: StoredFiles | None = None
    source: str = ""
    start: int = 0
    end_offset: int = NO_END
    alternates: tuple[AlternateRange, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """A byte range of a segment, limited to rows with ``first_offset`` <= offset < ``end_offset``.

    ``aborted_transactions`` contains the transactions with omitted batches. ``unproven`` specifies, for the start and
    the end, whether the position comes from an index and has not been verified. The segment's reader verifies these
    positions.
    """

    segment: Segment
    start: int
    end: int
    first_offset: int = NO_START
    end_offset: int = NO_END
    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    unproven: tuple[bool, bool] = (False, False)

    @property
    def size_bytes(self) -> int:
        """Number of bytes between start and end."""
        return self.end - self.start


# Returns the first batch start at or after each requested position of a segment, in ascending order without duplicates.
Boundaries = Callable[[Segment, Sequence[int]], list[int]]


def select_segments(segments: Iterable[Segment], options: ReadOptions) -> list[Segment]:
    """Return the segments of the topic partitions that the options select, in order.

    As for a Kafka consumer's pattern, internal topics are omitted. Internal topics are included if they are named (by
    ``subscribe``, ``assign`` or the path of the partition) or if ``includeInternalTopics`` is set.

    Raises:
        OptionError: A selected topic or partition does not exist.
    """
    segments = list(segments)
    selected_segments = [segment for segment in segments if _is_selected(segment, options)]
    _check_topics_exist(segments, options)
    if options.partitions is not None:
        check_partitions(options.partitions, {segment.partition for segment in selected_segments})
    if options.decode == "internal":
        selected_segments = _select_internal_segments(selected_segments, options)
    selected_segments.sort(key=lambda s: (s.topic, s.partition, s.base_offset, s.path))
    return selected_segments


def _is_selected(segment: Segment, options: ReadOptions) -> bool:
    """Return whether the options select a segment's topic partition."""
    if options.partitions is not None and segment.partition not in options.partitions:
        return False
    if options.subscribe is not None:
        return segment.topic in options.subscribe
    if options.assign is not None:
        return segment.partition in options.assign.get(segment.topic, ())
    if options.subscribe_pattern is not None and not options.subscribe_pattern.fullmatch(segment.topic):
        return False
    is_shown = segment.is_named or options.include_internal or options.decode == "internal"
    return is_shown or segment.topic not in INTERNAL_TOPICS


def _select_internal_segments(segments: Sequence[Segment], options: ReadOptions) -> list[Segment]:
    """Return the segments of internal topics. Other topics cannot be decoded, so naming them is an error."""
    users = sorted({segment.topic for segment in segments} - INTERNAL_TOPICS)
    internal_segments = [segment for segment in segments if segment.topic in INTERNAL_TOPICS]
    if users and (options.subscribe is not None or options.assign is not None or not internal_segments):
        raise OptionError(
            f"decode=internal: {_format_topics(users)} is not one of Kafka's topics "
            f"{', '.join(sorted(INTERNAL_TOPICS))}"
        )
    return internal_segments


def _check_topics_exist(segments: Sequence[Segment], options: ReadOptions) -> None:
    """Check that each topic and topic partition in the options exists in the log."""
    result = {(segment.topic, segment.partition) for segment in segments}
    topics = {topic for topic, _ in result}
    for topic in sorted(options.subscribe or ()):
        if topic not in topics:
            raise OptionError(f"topic {topic} does not exist in {_paths_text(options)}; found {_format_topics(topics)}")
    for name in _list_partitions(options.assign or {}):
        if name not in result:
            raise OptionError(f"topic partition {format_partition(name)} does not exist in {_paths_text(options)}")


def _list_partitions(assignment: Assignment) -> list[tuple[str, int]]:
    return [(topic, partition) for topic, partitions in assignment.items() for partition in partitions]


def check_no_replicas(segments: Iterable[Segment]) -> None:
    """Check that no topic partition has several replicas, for a reader that follows one log.

    Raises:
        OptionError: A topic partition has several replicas.
    """
    directories: dict[tuple[str, int], str] = {}
    for segment in segments:
        name = segment.topic, segment.partition
        first = directories.setdefault(name, segment.directory)
        if first != segment.directory:
            raise OptionError(
                f"topic partition {format_partition(name)} is in two directories, {first} and {segment.directory}: "
                "these are replicas of one log; a stream follows one of them (a batch read merges them)"
            )


def resolve_offset_ranges(segments: Sequence[Segment], options: ReadOptions) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first offset and the end offset (exclusive) of the options for each topic partition.

    Raises:
        OptionError: The start or end offsets name topic partitions that are not selected, or lack a selected one.
    """
    names = set(list_topic_partitions(segments))
    start, end = (  # unresolved times do not limit the offsets
        EARLIEST if isinstance(options.start, TimeBound) else options.start,
        LATEST if isinstance(options.end, TimeBound) else options.end,
    )
    starts, ends = expand_bound("start", start, names), expand_bound("end", end, names)
    unbounded_start, unbounded_end = {EARLIEST: NO_START}, {LATEST: NO_END}
    return {
        name: (unbounded_start.get(starts[name], starts[name]), unbounded_end.get(ends[name], ends[name]))
        for name in names
    }


def list_topic_partitions(segments: Iterable[Segment]) -> list[tuple[str, int]]:
    """Return the topic partitions of the segments, in order and without duplicates."""
    return sorted({(segment.topic, segment.partition) for segment in segments})


def prune_segments(segments: Sequence[Segment], options: ReadOptions) -> list[SegmentSlice]:
    """Return a slice of the whole file for each segment that may have requested offsets, with its offset limits."""
    ranges = resolve_offset_ranges(segments, options)
    slices = []
    for position, segment in enumerate(segments):
        first, end = ranges[segment.topic, segment.partition]
        following = segments[position + 1] if position + 1 < len(segments) else None
        limit, end_limit = _find_offset_limits(segment, following)
        first, end = max(first, segment.log_start_offset), min(end, end_limit, segment.end_offset)
        first, end = options.row_filter.limit_range(first, end)
        is_row = segment.size_bytes > segment.start or options.table == "segments"
        if is_row and segment.base_offset < end and limit > first:
            slices.append(_limit_slice(segment, first, end, limit))
    return slices


def _find_offset_limits(segment: Segment, following: Segment | None) -> tuple[int, int]:
    """Return the end of a segment's offsets, and the offset from which records are read from the next segment.

    Tiered segments may overlap. Offsets in both segments are read from the second.
    """
    limit = following.base_offset if following and following.directory == segment.directory else NO_END
    last = None if segment.stored_files is None else segment.stored_files.end_offset
    return (limit, NO_END) if last is None else (last + 1, limit if limit <= last else NO_END)


def _limit_slice(segment: Segment, first: int, end: int, limit: int) -> SegmentSlice:
    """Return a slice of the whole segment.

    Offset limits that exclude no record are omitted, because comparing offsets takes time.
    """
    return SegmentSlice(
        segment,
        segment.start,
        segment.size_bytes,
        NO_START if first <= segment.base_offset and segment.end_offset == NO_END else first,
        NO_END if limit <= end and segment.end_offset == NO_END else end,
    )


def choose_target_bytes(total_bytes: int, options: ReadOptions, cores: int) -> int:
    """Return the target size of an input partition, in bytes.

    >>> options = ReadOptions(paths=("/data",))
    >>> choose_target_bytes(10 << 30, options, cores=2) >> 20      # plenty: the default of 128 MB
    128
    >>> choose_target_bytes(200 << 20, options, cores=4) >> 20     # four cores, fifty megabytes each
    50
    >>> choose_target_bytes(1 << 20, options, cores=4) >> 20       # too little to be worth two tasks
    16
    """
    fair = max(MIN_INPUT_PARTITION_BYTES, -(-total_bytes // max(1, cores)))
    min_part_bytes = -(-total_bytes // options.min_partitions) if options.min_partitions > 1 else fair
    return max(1, min(options.max_bytes_per_partition, fair, min_part_bytes))


def split_slice(source_slice: SegmentSlice, target: int, boundaries: Boundaries) -> list[SegmentSlice]:
    """Split a slice at batch boundaries into about equal parts of about ``target`` bytes or less."""
    count = -(-source_slice.size_bytes // target)
    if count < 2:
        return [source_slice]
    positions = [source_slice.start + source_slice.size_bytes * part // count for part in range(1, count)]
    cut_positions = [
        p for p in boundaries(source_slice.segment, positions) if source_slice.start < p < source_slice.end
    ]
    edges = [source_slice.start, *sorted(set(cut_positions)), source_slice.end]
    return [
        replace(
            source_slice,
            start=start,
            end=end,
            unproven=(
                source_slice.unproven[0] and start == source_slice.start,
                source_slice.unproven[1] and end == source_slice.end,
            ),
        )
        for start, end in pairwise(edges)
    ]


def pack_slices(slices: Iterable[SegmentSlice], target: int) -> list[tuple[SegmentSlice, ...]]:
    """Pack adjacent slices up to ``target`` bytes, in order."""
    works: list[tuple[SegmentSlice, ...]] = []
    current: list[SegmentSlice] = []
    size_bytes = 0
    for part in slices:
        cost = part.size_bytes + OPEN_COST_BYTES
        if current and size_bytes + cost > target:
            works.append(tuple(current))
            current, size_bytes = [], 0
        current.append(part)
        size_bytes += cost
    return [*works, tuple(current)] if current else works


def distribute_slices(
    slices: Sequence[SegmentSlice], options: ReadOptions, *, cores: int, boundaries: Boundaries
) -> list[tuple[SegmentSlice, ...]]:
    """Split large slices and pack small ones, and return the slices of each input partition."""
    target = choose_target_bytes(sum(s.size_bytes + OPEN_COST_BYTES for s in slices), options, cores)
    return pack_slices(
        (part for source_slice in slices for part in split_slice(source_slice, target, boundaries)), target
    )


def _paths_text(options: ReadOptions) -> str:
    return ", ".join(options.paths)


def _format_topics(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "none"
