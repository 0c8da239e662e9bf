"""Segments with offsets that do not fit an index, and the segments into which Kafka splits them (KAFKA-6264).

An index entry has 31 bits for an offset relative to the segment's base offset. Cleaners before 1.1 could join segments
of a compacted topic with offsets that are further apart, and logs with these segments still exist. Kafka splits these
segments during recovery or cleaning (LogSegment.hasOverflow, UnifiedLog.splitOverflowedSegment). A split does not
change the batches. A new segment, named after its first batch, starts at each offset that does not fit.
``SplitFileSystem`` presents the result without copying: each part is a file whose content is read from the original
segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkaframes.records.scan import BatchHeaders
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogFile, Partition, Segment
from kafkaframes.storage.files.filesystem import DelegatingFileSystem, FileInfo, FileSystem, ReadAt
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.wire.integers import MAX_INT32


class SplitPart(NamedTuple):
    """A segment that results from a split: bytes ``start`` to ``end`` of the original segment.

    Attributes:
        path: path of the part in a ``SplitFileSystem``.
    """

    base_offset: int
    start: int
    end: int
    path: str

    @property
    def file(self) -> LogFile:
        """The part as the ``.log`` file of a segment, without a modification time."""
        return LogFile(FileName(self.base_offset, "log"), self.path, self.end - self.start, None)


@dataclass(frozen=True)
class SplitFileSystem(DelegatingFileSystem):
    """A file system in which the parts of split segments are files. ``glob`` does not return the parts.

    Attributes:
        parts: original file, start and end of each part, by the path of the part.
        listings: directory entries that replace the real ones, by directory.
    """

    inner: FileSystem
    parts: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
    listings: Mapping[str, tuple[FileInfo, ...]] = field(default_factory=dict)

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        listing = self.listings.get(path)
        return self.inner.list_directory(path) if listing is None else list(listing)

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""
        if path not in self.parts:
            return self.inner.stat(path)
        _, start, end = self.parts[path]
        return FileInfo(path, path.rpartition("/")[2], end - start)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads."""
        source, start, end = self.parts.get(path, (path, 0, None))
        with self.inner.open(source) as read_at:
            yield read_at if end is None else _limit_reader(read_at, start, end)


def _limit_reader(read_at: ReadAt, start: int, end: int) -> ReadAt:
    def read(position: int, length: int) -> bytes:
        remaining_bytes = max(end - start - position, 0)
        return read_at(start + position, remaining_bytes if length < 0 else min(length, remaining_bytes))

    return read


def make_split_view(filesystem: FileSystem, parts_by_path: Mapping[str, tuple[SplitPart, ...]]) -> SplitFileSystem:
    """Return a view of a file system in which files are split.

    Args:
        parts_by_path: parts of each split file, by the path of the file.
    """
    parts = {
        part.path: (source, part.start, part.end)
        for source, segment_parts in parts_by_path.items()
        for part in segment_parts
    }
    return SplitFileSystem(filesystem, parts)


def find_parts(filesystem: FileSystem, file: LogFile) -> tuple[SplitPart, ...]:
    """Return the parts into which Kafka splits a segment; usually none, because the last batch fits.

    Like Kafka, this function reads only headers. Bytes after the last whole batch belong to the last part. The recovery
        of the last part checks these bytes. A log with decreasing offsets is not split: no broker can load it.

    Raises:
        LogDirError: the file cannot be read.
    """
    starts: list[tuple[int, int]] = []  # base offset, position
    last = -1
    segment = Segment(file)
    with filesystem.open(file.path) as read_at:
        reader = SegmentReader(filesystem, segment, read_at, use_indexes=False)
        for window in scan_segment(read_at, size_bytes=file.size_bytes, file=file.path):
            starts += _find_part_starts(reader, window.batches, starts[-1][0] if starts else None, last)
            last = int(window.batches.column("last_offset")[-1]) if len(window.batches) else last
    bases = [base for base, _ in starts]
    if last - file.name.offset <= MAX_INT32 or bases != sorted(set(bases)):
        return ()
    ends = [position for _, position in starts[1:]] + [file.size_bytes]
    return tuple(
        SplitPart(base, position, end, f"{file.path}!{position}-{end}")
        for (base, position), end in zip(starts, ends, strict=True)
    )


def _find_part_starts(
    reader: SegmentReader, batches: BatchHeaders, base: int | None, last: int
) -> Iterator[tuple[int, int]]:
    """Yield the base offset and position of each part that starts in these batches."""
    lasts, positions = batches.column("last_offset").tolist(), batches.column("position").tolist()
    for row, (end, position) in enumerate(zip(lasts, positions, strict=True)):
        if base is None or not 0 <= end - base <= MAX_INT32:
            base = _read_first_offset(reader, batches, row, last + 1)
            yield base, position
        last = end


def _read_first_offset(reader: SegmentReader, batches: BatchHeaders, row: int, min_offset: int) -> int:
    """Return the first offset of a batch; as in Kafka, a compressed message of format 0 or 1 is read to find it."""
    base_offset = int(batches.column("base_offset")[row])
    if not batches.is_wrapper[row]:
        return base_offset
    header = next(iter(reader.walk_headers(int(batches.column("position")[row]))))
    return min((record.offset for record in reader.read_records(header)), default=min_offset)


def has_overflow(filesystem: FileSystem, segment: Segment, next_base: int | None) -> bool:
    """Return whether a segment has an offset that does not fit an index.

    The segment is read only if the next segment's base offset does not already give the answer.

    Args:
        next_base: base offset of the next segment; None for the last segment.

    Raises:
        LogDirError: the segment cannot be read.
    """
    if not segment.size_bytes or (next_base is not None and next_base - 1 - segment.base_offset <= MAX_INT32):
        return False
    return _read_last_offset(filesystem, segment) - segment.base_offset > MAX_INT32


def _read_last_offset(filesystem: FileSystem, segment: Segment) -> int:
    if segment.index is not None or segment.end_offset is not None:
        with open_segment(filesystem, segment) as reader:
            return reader.next_offset - 1
    last = segment.base_offset - 1
    with filesystem.open(segment.path) as read_at:  # this reads all headers, in columns
        for window in scan_segment(read_at, size_bytes=segment.size_bytes, file=segment.path):
            last = int(window.batches.column("last_offset")[-1]) if len(window.batches) else last
    return last


def split_partition(filesystem: FileSystem, partition: Partition) -> tuple[FileSystem, Partition]:
    """Return a partition whose overflowing segments are split as by Kafka; without such segments, it is unchanged.

    Raises:
        LogDirError: a segment cannot be read.
    """
    nexts = [*(entry.base_offset for entry in partition.segments), None][1:]
    parts: dict[int, tuple[SplitPart, ...]] = {}
    for segment, next_base in zip(partition.segments, nexts, strict=True):
        if has_overflow(filesystem, segment, next_base):
            parts[segment.base_offset] = find_parts(filesystem, segment.log)
    parts = {base: segment_parts for base, segment_parts in parts.items() if segment_parts}
    if not parts:
        return filesystem, partition
    segments: list[Segment] = []
    entries = [entry for entry in filesystem.list_directory(partition.directory) if not _belongs_to(entry.name, parts)]
    for segment in partition.segments:
        if segment.base_offset not in parts:
            segments.append(segment)
            continue
        for part in parts[segment.base_offset]:
            log = replace(part.file, mtime_ms=segment.log.mtime_ms)
            entries.append(FileInfo(log.path, str(log.name), log.size_bytes, log.mtime_ms))
            segments.append(Segment(log))
    sources = {entry.path: parts[entry.base_offset] for entry in partition.segments if entry.base_offset in parts}
    listing = tuple(sorted(entries, key=lambda entry: entry.name))
    view = replace(make_split_view(filesystem, sources), listings={partition.directory: listing})
    return view, replace(partition, segments=tuple(segments))


def _belongs_to(name: str, bases: Mapping[int, object]) -> bool:
    """Return whether a file (log, index or snapshot) belongs to a segment with one of the base offsets."""
    file_name = FileName.parse(name)
    return (
        file_name is not None
        and file_name.kind in names.SEGMENT_KINDS
        and not file_name.temporary
        and file_name.offset in bases
    )
