"""Plan a read: segments in, input partitions out. Plain functions on plain values: no pyspark, no I/O.

A *segment* is one ``.log`` file; a *slice* is a stretch of one, from one batch boundary to another; the *work* of an
input partition is a tuple of slices, of one topic partition after the other, in the order of their offsets.

Rules

* A segment whose offsets lie outside the range asked for is not planned at all. Its last offset is not known without
  reading, but it is below the next segment's base offset.
* A task costs about 35 ms before it reads a byte, and Spark runs as many at once as there are cores. So segments are
  put together up to a target, which is ``maxBytesPerPartition``, or less where that many bytes would leave cores
  without work; never below ``SMALLEST_TARGET``, unless ``minPartitions`` asks for more tasks.
* A segment above the target is cut at batch boundaries, found by the caller (``Boundaries``): if none are known, it
  stays whole.
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
    AtTime,
    check_partitions,
    per_partition,
    text_of,
)
from kafkaframes.storage.copies.reading import Alternate
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.names import INTERNAL_TOPICS
from kafkaframes.storage.files.producer_files import AbortedTransaction

SMALLEST_TARGET = 16 << 20
OPEN_COST = 64 << 10  # bytes that could be read in the time it takes to open a small file


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment file.

    Attributes:
        path: of the ``.log``; ``directory``: of the partition it belongs to.
        index_path: of the ``.index`` beside it, None where there is none.
        named: the user's path led to this very partition or segment, so that no default hides it.
        log_start_offset: no record below it is served (DeleteRecords).
        stored: the segment with its companions; only for the table of segments.
        source: the log directory that it lies in.
        start: the first byte that counts, where a part of the file stands in a log merged from copies; ``size_bytes``
            is then the byte after it.
        end_offset: records at or above it are not this part's.
        alternates: where other copies have the same offsets, for batches that turn out to be damaged.
    """

    path: str
    size_bytes: int
    base_offset: int
    topic: str
    partition: int
    directory: str
    index_path: str | None = None
    named: bool = False
    log_start_offset: int = NO_START
    stored: StoredFiles | None = None
    source: str = ""
    start: int = 0
    end_offset: int = NO_END
    alternates: tuple[Alternate, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """Bytes ``start`` to ``end`` of one segment; rows are kept if ``first_offset`` <= offset < ``end_offset``.

    ``aborted`` are the transactions whose batches are left out. ``unproven`` says of start and end whether they are
    what an index said, without a look into the segment: the reader of it sees whether the index was right.
    """

    segment: Segment
    start: int
    end: int
    first_offset: int = NO_START
    end_offset: int = NO_END
    aborted: tuple[AbortedTransaction, ...] = ()
    unproven: tuple[bool, bool] = (False, False)

    @property
    def size_bytes(self) -> int:
        """The bytes between start and end."""
        return self.end - self.start


# For each requested position of a segment, where the first batch starts at or after it: ascending, each once.
Boundaries = Callable[[Segment, Sequence[int]], list[int]]


def select_segments(segments: Iterable[Segment], options: ReadOptions) -> list[Segment]:
    """Return the segments of the topic partitions that the options choose, in order.

    Internal topics are left out unless they are asked for by name (``subscribe``, ``assign``, a path that leads
    to the partition itself) or ``includeInternalTopics``, as a Kafka consumer's pattern leaves them out.

    Raises:
        OptionError: a chosen topic or partition is not there.
    """
    segments = list(segments)
    chosen = [segment for segment in segments if _is_chosen(segment, options)]
    _check_all_known(segments, options)
    if options.partitions is not None:
        check_partitions(options.partitions, {segment.partition for segment in chosen})
    if options.decode == "internal":
        chosen = _internal(chosen, options)
    chosen.sort(key=lambda s: (s.topic, s.partition, s.base_offset, s.path))
    return chosen


def _is_chosen(segment: Segment, options: ReadOptions) -> bool:
    if options.partitions is not None and segment.partition not in options.partitions:
        return False
    if options.subscribe is not None:
        return segment.topic in options.subscribe
    if options.assign is not None:
        return segment.partition in options.assign.get(segment.topic, ())
    if options.subscribe_pattern is not None and not options.subscribe_pattern.fullmatch(segment.topic):
        return False
    shown = segment.named or options.include_internal or options.decode == "internal"
    return shown or segment.topic not in INTERNAL_TOPICS


def _internal(chosen: Sequence[Segment], options: ReadOptions) -> list[Segment]:
    """Keep the internal topics, the only ones that can be decoded; users' topics asked for by name are a mistake."""
    users = sorted({segment.topic for segment in chosen} - INTERNAL_TOPICS)
    kept = [segment for segment in chosen if segment.topic in INTERNAL_TOPICS]
    if users and (options.subscribe is not None or options.assign is not None or not kept):
        raise OptionError(
            f"decode=internal: {_some(users)} is not one of Kafka's topics {', '.join(sorted(INTERNAL_TOPICS))}"
        )
    return kept


def _check_all_known(segments: Sequence[Segment], options: ReadOptions) -> None:
    result = {(segment.topic, segment.partition) for segment in segments}
    topics = {topic for topic, _ in result}
    for topic in sorted(options.subscribe or ()):
        if topic not in topics:
            raise OptionError(f"subscribe: no topic {topic} in {_paths_text(options)}; found {_some(topics)}")
    for name in _requested_partitions(options.assign or {}):
        if name not in result:
            raise OptionError(f"assign: no topic partition {text_of(name)} in {_paths_text(options)}")


def _requested_partitions(assignment: Assignment) -> list[tuple[str, int]]:
    return [(topic, partition) for topic, partitions in assignment.items() for partition in partitions]


def check_no_replicas(segments: Iterable[Segment]) -> None:
    """Refuse a topic partition of which there are several copies, for a reader that follows one log.

    Raises:
        OptionError: there is one.
    """
    directories: dict[tuple[str, int], str] = {}
    for segment in segments:
        name = segment.topic, segment.partition
        first = directories.setdefault(name, segment.directory)
        if first != segment.directory:
            raise OptionError(
                f"topic partition {text_of(name)} is in two directories, {first} and {segment.directory}: "
                "these are replicas of one log; a stream follows one of them (a batch read merges them)"
            )


def offset_ranges(segments: Sequence[Segment], options: ReadOptions) -> dict[tuple[str, int], tuple[int, int]]:
    """Return for each topic partition the first offset and the (exclusive) end offset that the options ask for.

    Raises:
        OptionError: offsets name other topic partitions than those chosen.
    """
    names = set(partition_names(segments))
    start, end = (  # times are no bounds before they are looked up
        EARLIEST if isinstance(options.start, AtTime) else options.start,
        LATEST if isinstance(options.end, AtTime) else options.end,
    )
    starts, ends = per_partition("start", start, names), per_partition("end", end, names)
    unbounded_start, unbounded_end = {EARLIEST: NO_START}, {LATEST: NO_END}
    return {
        name: (unbounded_start.get(starts[name], starts[name]), unbounded_end.get(ends[name], ends[name]))
        for name in names
    }


def partition_names(segments: Iterable[Segment]) -> list[tuple[str, int]]:
    """Return the topic partitions of the segments, in order, each once."""
    return sorted({(segment.topic, segment.partition) for segment in segments})


def prune(segments: Sequence[Segment], options: ReadOptions) -> list[Slice]:
    """Return whole-file slices of the segments that can hold an offset asked for, with their offset limits."""
    ranges = offset_ranges(segments, options)
    slices = []
    for position, segment in enumerate(segments):
        first, end = ranges[segment.topic, segment.partition]
        following = segments[position + 1] if position + 1 < len(segments) else None
        limit, requested = _reach(segment, following)
        first, end = max(first, segment.log_start_offset), min(end, requested, segment.end_offset)
        first, end = options.where.bounded(first, end)
        is_row = segment.size_bytes > segment.start or options.table == "segments"
        if is_row and segment.base_offset < end and limit > first:
            slices.append(_bounded(segment, first, end, limit))
    return slices


def _reach(segment: Segment, following: Segment | None) -> tuple[int, int]:
    """Return the offset that a segment's records lie below, and the one from which on they are the next segment's.

    Two tiered segments may overlap: what both have is read from the second.
    """
    limit = following.base_offset if following and following.directory == segment.directory else NO_END
    last = None if segment.stored is None else segment.stored.end_offset
    return (limit, NO_END) if last is None else (last + 1, limit if limit <= last else NO_END)


def _bounded(segment: Segment, first: int, end: int, limit: int) -> Slice:
    """Return the whole segment; bounds that cut nothing are left out, since to compare with them costs time."""
    return Slice(
        segment,
        segment.start,
        segment.size_bytes,
        NO_START if first <= segment.base_offset and segment.end_offset == NO_END else first,
        NO_END if limit <= end and segment.end_offset == NO_END else end,
    )


def target_bytes(total_bytes: int, options: ReadOptions, cores: int) -> int:
    """Return how many bytes an input partition should hold.

    >>> options = ReadOptions(paths=("/data",))
    >>> target_bytes(10 << 30, options, cores=2) >> 20      # plenty: the default of 128 MB
    128
    >>> target_bytes(200 << 20, options, cores=4) >> 20     # four cores, fifty megabytes each
    50
    >>> target_bytes(1 << 20, options, cores=4) >> 20       # too little to be worth two tasks
    16
    """
    fair = max(SMALLEST_TARGET, -(-total_bytes // max(1, cores)))
    requested = -(-total_bytes // options.min_partitions) if options.min_partitions > 1 else fair
    return max(1, min(options.max_bytes_per_partition, fair, requested))


def split(whole: Slice, target: int, boundaries: Boundaries) -> list[Slice]:
    """Cut a slice into about equal parts of at most about ``target`` bytes, at batch boundaries."""
    count = -(-whole.size_bytes // target)
    if count < 2:
        return [whole]
    requested = [whole.start + whole.size_bytes * part // count for part in range(1, count)]
    cuts = [p for p in boundaries(whole.segment, requested) if whole.start < p < whole.end]
    edges = [whole.start, *sorted(set(cuts)), whole.end]
    return [
        replace(
            whole,
            start=start,
            end=end,
            unproven=(whole.unproven[0] and start == whole.start, whole.unproven[1] and end == whole.end),
        )
        for start, end in pairwise(edges)
    ]


def pack(slices: Iterable[Slice], target: int) -> list[tuple[Slice, ...]]:
    """Put neighbouring slices together up to ``target`` bytes, keeping their order."""
    works: list[tuple[Slice, ...]] = []
    current: list[Slice] = []
    size_bytes = 0
    for part in slices:
        cost = part.size_bytes + OPEN_COST
        if current and size_bytes + cost > target:
            works.append(tuple(current))
            current, size_bytes = [], 0
        current.append(part)
        size_bytes += cost
    return [*works, tuple(current)] if current else works


def share_out(
    slices: Sequence[Slice], options: ReadOptions, *, cores: int, boundaries: Boundaries
) -> list[tuple[Slice, ...]]:
    """Split large slices and pack small ones into the work of input partitions."""
    target = target_bytes(sum(s.size_bytes + OPEN_COST for s in slices), options, cores)
    return pack((part for whole in slices for part in split(whole, target, boundaries)), target)


def _paths_text(options: ReadOptions) -> str:
    return ", ".join(options.paths)


def _some(topics: Iterable[str]) -> str:
    names = sorted(topics)
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "") if names else "none"
