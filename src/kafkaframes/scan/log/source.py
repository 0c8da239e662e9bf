"""The scan source for logs. ``resolve.py`` plans the read, and ``reading.py`` executes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from kafkaframes.errors import LogDirError, describe_missing_path
from kafkaframes.records.columns import ReadError
from kafkaframes.records.scan import DAMAGED_END_REASONS, FILE, Chunks
from kafkaframes.scan.arrow import MAX_INSTANT_MS
from kafkaframes.scan.log.discovery import discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Segment, SegmentSlice
from kafkaframes.scan.log.reading import open_slice, read_rows
from kafkaframes.scan.log.resolve import plan_discovered
from kafkaframes.scan.ranges import NO_END, NO_START, get_common_offset
from kafkaframes.scan.rows import RecordCounter, check_origin_columns
from kafkaframes.scan.slices import ScanSource, SourcePlan
from kafkaframes.scan.where import RowFilter
from kafkaframes.storage.files.contents import HEAD_BYTES, begins_with_batch, is_segment_name
from kafkaframes.storage.files.filesystem import VIEW_SEPARATOR, has_wildcard, plain_path, split_path
from kafkaframes.storage.files.names import DirectoryName
from kafkaframes.storage.log.discover import (
    check_topics,
    find_filesystem,
    not_a_segment_error,
    to_object_path,
    to_view_path,
)
from kafkaframes.storage.log.open_segment import DamagedRange


@dataclass(frozen=True, slots=True)
class LogWork:
    """The work of one task: slices of segments, in record order."""

    slices: tuple[SegmentSlice, ...]

    @property
    def size_bytes(self) -> int:
        """Number of log bytes to read."""
        return sum(part.size_bytes for part in self.slices)

    @property
    def label(self) -> str:
        """A label for messages: the first segment, its byte range, and the number of other slices."""
        first = self.slices[0]
        more = f" and {len(self.slices) - 1} more" if len(self.slices) > 1 else ""
        return f"{first.segment.path}, bytes {first.start} to {first.end}{more}"


@dataclass(frozen=True, slots=True)
class LogSource(ScanSource):
    """The scan source that reads the records of logs in directories or files.

    Attributes:
        options: Options of the read. Their columns and row filter are not used, because the scan specifies both.
        files: Segments that are read one after the other, without their index and snapshot files.
        names: Topic names and patterns. Each name or pattern must match a topic in the log.
    """

    options: ReadOptions
    files: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A label for messages: the paths."""
        return f"log {', '.join(self.options.paths)}"

    @property
    def is_file_list(self) -> bool:
        """Whether the source is a list of segment files, whose topic and partition may be unknown."""
        return bool(self.files)

    @property
    def reads_in_threads(self) -> bool:
        """Always true, because kernels read segments without the GIL."""
        return True

    @property
    def budget_bytes(self) -> int:
        """The memory budget of the options, in bytes."""
        return self.options.budget_bytes

    def share_budget(self, readers: int) -> LogSource:
        """Return the source with an equal share of the budget for each reader."""
        return replace(self, options=replace(self.options, budget_bytes=max(self.options.budget_bytes // readers, 1)))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are selected by name."""
        return tuple(name for name in self.names if not has_wildcard(name))

    def check_columns(self, columns: Sequence[str], row_filter: RowFilter) -> None:
        """Check the column names."""
        check_origin_columns(columns)

    def plan_slices(self, row_filter: RowFilter, *, parts: int) -> SourcePlan:
        """List the segments, resolve start and end to offsets, and split large segments at batches."""
        if self.files:
            file_slices = [self._plan_file(path, row_filter) for path in self.files]
            return SourcePlan([LogWork((part,)) for part in file_slices if _may_have_rows(part, row_filter)])
        options = replace(self.options, row_filter=row_filter)
        result = discover_logs(options.paths, storage=options.storage)
        unreadable_topics = (entry.topic_partition.topic for entry in result.unreadable_partitions)
        check_topics(self.names, (*(segment.topic for segment in result.segments), *unreadable_topics))
        plan = plan_discovered(result, options, cores=parts)
        return SourcePlan(
            [LogWork(slices) for slices in plan.works],
            (*plan.notes.hidden_records, *plan.notes.findings),
            tuple(ReadError(finding.file, 0, None, None, finding.message, 0) for finding in plan.notes.unreadable),
        )

    def _plan_file(self, path: str, row_filter: RowFilter) -> SegmentSlice:
        """Return a slice of a segment file whose path the user has specified."""
        path = to_view_path(path, options=self.options.storage)
        info = find_filesystem(path, options=self.options.storage).stat(path)
        if info is None:
            raise LogDirError(describe_missing_path(path), file=path)
        self._check_file(path, info.size_bytes)
        directory = split_path(path)[0]
        name = DirectoryName.parse(split_path(directory)[1])
        topic, partition = ("", -1) if name is None else (name.topic_partition.topic, name.topic_partition.partition)
        segment = Segment(path, info.size_bytes, 0, topic, partition, directory)
        start, limit = get_common_offset(self.options.start), get_common_offset(self.options.end)
        first, end = row_filter.limit_range(NO_START if start is None else start, NO_END if limit is None else limit)
        return SegmentSlice(segment, 0, segment.size_bytes, first, end)

    def _check_file(self, path: str, size_bytes: int) -> None:
        """Check that a file whose name is not that of a segment begins with a batch.

        Raises:
            LogDirError: The file does not begin with a batch. The message describes its format.
        """
        if VIEW_SEPARATOR in path or is_segment_name(split_path(path)[1]) or not size_bytes:
            return
        filesystem = find_filesystem(path, options=self.options.storage)
        with filesystem.open(path) as read_at:
            is_segment = begins_with_batch(bytes(read_at(0, HEAD_BYTES)))
        if not is_segment:
            raise not_a_segment_error(filesystem, path)

    def read_slice(
        self, work: LogWork, columns: Sequence[str], conditions_of_scan: RowFilter, errors: list[ReadError]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of slices, in order."""
        return read_rows(work.slices, columns, replace(self.options, row_filter=conditions_of_scan), errors)

    def count_slice(self, work: LogWork, row_filter: RowFilter) -> int | None:
        """Count the records of a slice by its batch headers. Checksums are verified unless ``verify_crc`` is false."""
        counts = [self._count_slice(part, row_filter) for part in work.slices]
        return None if None in counts else sum(count or 0 for count in counts)

    def has_out_of_range_timestamps(self, slices: Sequence[LogWork]) -> bool:
        """Return whether batch headers have timestamps that do not fit into microseconds."""
        return any(self._has_out_of_range_header(part) for work in slices for part in work.slices)

    def _has_out_of_range_header(self, planned: SegmentSlice) -> bool:
        """Return whether a batch header of a slice has a timestamp that microseconds cannot represent."""
        with open_slice(planned, self.options) as slice_reader:
            if slice_reader is None:
                return False
            part = slice_reader.slice
            for run in slice_reader.iterate_runs(self.options.on_damage, lambda gap: None):
                chunks = Chunks(slice_reader.segment.source, rules=FILE, start=run.start, end=part.end)
                for chunk in chunks:
                    batches = chunk.batches
                    column = batches.column
                    is_inside = (column("last_offset") >= part.first_offset) & (column("base_offset") < part.end_offset)
                    is_far = (column("max_timestamp") > MAX_INSTANT_MS) | (column("base_timestamp") < -MAX_INSTANT_MS)
                    if (is_inside & is_far).any():
                        return True
                run.end = chunks.end
        return False

    def _count_slice(self, planned_slice: SegmentSlice, row_filter: RowFilter) -> int | None:
        """Return the number of rows of a slice by its batch headers; None if they do not determine it."""
        options, gaps = self.options, list[DamagedRange]()
        total = 0
        with open_slice(planned_slice, options) as slice_reader:
            if slice_reader is None:
                return 0
            part = slice_reader.slice
            counting = RecordCounter(
                part.first_offset, part.end_offset, row_filter, options.verify_crc, options.include_control
            )
            for run in slice_reader.iterate_runs(options.on_damage, gaps.append):
                chunks = Chunks(
                    slice_reader.segment.source,
                    rules=FILE,
                    start=run.start,
                    end=part.end,
                    includes_data=options.verify_crc,
                )
                for chunk in chunks:
                    aborted_transactions = (
                        None if slice_reader.skipped_batches is None else slice_reader.skipped_batches(chunk.batches)
                    )
                    count = counting.count_records(chunk.data, chunk.batches, aborted_transactions)
                    if count is None:
                        return None
                    total += count
                run.end = chunks.end
                if gaps or (run.end is not None and run.end.status in DAMAGED_END_REASONS):
                    return None
        return None if gaps else total


def _may_have_rows(part: SegmentSlice, row_filter: RowFilter) -> bool:
    """Return whether rows of a slice's topic partition can fulfil the conditions."""
    topic = part.segment.topic
    if not topic:
        return row_filter.topics is None and row_filter.partitions is None
    return row_filter.has_partition(topic, part.segment.partition)


def create_log_source(options: ReadOptions, names: Sequence[str], *, as_log: bool) -> LogSource:
    """Return the source. If all paths are files, each is read by itself, unless they are replicas of one log.

    Args:
        options: Options of the read.
        names: Topic names and patterns.
        as_log: Whether the selection needs whole logs.
    """
    paths = tuple(plain_path(path) if VIEW_SEPARATOR not in path else path for path in options.paths)
    if as_log or any(_is_directory(path, options) for path in paths) or _are_merged(paths, options):
        return LogSource(
            replace(options, paths=tuple(to_object_path(path) for path in options.paths)), names=tuple(names)
        )
    return LogSource(options, files=options.paths)


def _is_directory(path: str, options: ReadOptions) -> bool:
    """Return whether a path is read as a log: a directory, or a pattern, which may match directories."""
    info = None if VIEW_SEPARATOR in path else find_filesystem(path, options=options.storage).stat(path)
    return has_wildcard(path) if info is None else info.is_directory


def _are_merged(paths: Sequence[str], options: ReadOptions) -> bool:
    """Return whether paths include segments of one partition in two directories, to be merged to one log."""
    directories: dict[str, str] = {}
    for path in (path for path in paths if VIEW_SEPARATOR not in path):
        directory = split_path(path)[0]
        if directories.setdefault(split_path(directory)[1], directory) != directory:
            return options.replicas == "merge"
    return False
