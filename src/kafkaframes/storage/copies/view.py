"""Present a merged log as an ordinary log directory, for all readers of directories and segments.

Segments that are used whole from one copy keep their paths and indexes. A segment that consists of several parts has a
path below ``MERGED_ROOT``, and its bytes are read from the original files. Leader epochs and checkpoints are those of
the merged log. No data is copied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.storage.copies.decisions import MERGED_ROOT
from kafkaframes.storage.copies.reading import CopySource
from kafkaframes.storage.copies.spans import MergedLog, Span
from kafkaframes.storage.files import names
from kafkaframes.storage.files.checkpoints import write_leader_epochs, write_offset_checkpoint
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment, build_partition
from kafkaframes.storage.files.filesystem import (
    FileInfo,
    FileSystem,
    LocalFileSystem,
    ReadAt,
    join,
    make_bytes_reader,
    split_path,
)
from kafkaframes.storage.files.names import TopicPartition, name_segment_file
from kafkaframes.storage.log.discover import find_filesystem


@dataclass(frozen=True, slots=True)
class FileExtent:
    """Bytes ``start`` to ``end`` of a file."""

    filesystem: FileSystem
    path: str
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """The size of the part, in bytes."""
        return self.end - self.start


@dataclass(frozen=True)
class MergedFileSystem:
    """A file system with files that consist of parts of other files; other paths are read unchanged.

    Attributes:
        parts: parts of each composed file below ``MERGED_ROOT``, by path.
        small: content of each file below ``MERGED_ROOT`` that was created for the view, by path.
    """

    parts: Mapping[str, tuple[FileExtent, ...]] = field(default_factory=dict, repr=False)
    small: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    listings: Mapping[str, tuple[FileInfo, ...]] = field(default_factory=dict, compare=False, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the listings, because workers receive the paths of their files."""
        return {"parts": self.parts, "small": self.small, "listings": {}, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        listing = self.listings.get(path.rstrip("/"))
        return self.find_outer_filesystem(path).list_directory(path) if listing is None else list(listing)

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""
        if path in self.parts:
            return FileInfo(path, split_path(path)[1], sum(part.size_bytes for part in self.parts[path]))
        if path in self.small:
            return FileInfo(path, split_path(path)[1], len(self.small[path]))
        if path.rstrip("/") in self.listings:
            return FileInfo(path, split_path(path)[1], is_directory=True)
        return None if _is_ours(path) else self.find_outer_filesystem(path).stat(path)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file; the parts of a composed file are opened at their first read."""
        if path in self.small:
            yield make_bytes_reader(self.small[path])
        elif path in self.parts:
            with ExitStack() as stack:
                yield _JoinedReader(self.parts[path], stack)
        elif _is_ours(path):
            raise LogDirError("the merged log has no such file", file=path)
        else:
            with self.find_outer_filesystem(path).open(path) as read_at:
                yield read_at

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading and return its descriptor; None if it is not a single local file."""
        parts = self.parts.get(path, ())
        if len(parts) != 1 or parts[0].start != 0 or not isinstance(parts[0].filesystem, LocalFileSystem):
            return None
        return os.open(parts[0].path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        if not _is_ours(pattern):
            return self.find_outer_filesystem(pattern).glob(pattern)
        paths = [join(directory, entry.name) for directory, entries in self.listings.items() for entry in entries]
        return sorted(name for name in paths if fnmatch(name, pattern))

    def find_outer_filesystem(self, path: str) -> FileSystem:
        """Return the original file system of a path, which is outside the view."""
        return find_filesystem(path, options=self.options)


def _is_ours(path: str) -> bool:
    return path == MERGED_ROOT or path.startswith(MERGED_ROOT + "/")


class _JoinedReader:
    """A reader that concatenates parts of several files to one file."""

    def __init__(self, parts: Sequence[FileExtent], stack: ExitStack) -> None:
        self._parts = parts
        self._stack = stack
        self._readers: dict[str, ReadAt] = {}

    def __call__(self, position: int, length: int) -> bytes:
        chunks: list[bytes] = []
        remaining_bytes = length if length >= 0 else sum(part.size_bytes for part in self._parts)
        for part in self._parts:
            if position < part.size_bytes and remaining_bytes > 0:
                size = min(remaining_bytes, part.size_bytes - position)
                chunks.append(self._open_part(part)(part.start + position, size))
                remaining_bytes -= size
                position = 0
            else:
                position = max(position - part.size_bytes, 0)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _open_part(self, part: FileExtent) -> ReadAt:
        if part.path not in self._readers:
            self._readers[part.path] = self._stack.enter_context(part.filesystem.open(part.path))
        return self._readers[part.path]


@dataclass
class MergedViewBuilder:
    """A builder of the view of merged partitions, which ``build_directory`` returns."""

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    parts: dict[str, tuple[FileExtent, ...]] = field(default_factory=dict)
    small: dict[str, bytes] = field(default_factory=dict)
    listings: dict[str, tuple[FileInfo, ...]] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)

    def add_merged(self, merged: MergedLog, sources: Sequence[CopySource]) -> Partition:
        """Add a merged partition; return it as a partition of the view."""
        directory = join(MERGED_ROOT, str(merged.topic_partition))
        complete_segments: dict[str, Segment] = {}
        entries: list[FileInfo] = []
        end_offset = 0
        for group in _group_spans(merged):
            entries += self._list_files_of_segment(merged, sources, directory, group, complete_segments, end_offset)
            end_offset = group[-1].end_offset
        entries.append(
            self.add_file(join(directory, names.LEADER_EPOCH_CHECKPOINT), write_leader_epochs(merged.lineage))
        )
        entries += self._list_companion_files(merged, sources[merged.authority].partition)
        offsets = {
            names.LOG_START_CHECKPOINT: merged.start_offset,
            names.HIGH_WATERMARK_CHECKPOINT: merged.high_watermark,
            names.CLEANER_CHECKPOINT: merged.clean_offset,
        }
        merged_offsets = {file: {merged.topic_partition: value} for file, value in offsets.items() if value is not None}
        self._add_offsets(merged_offsets)
        self.listings[directory] = tuple(sorted(entries, key=lambda entry: entry.name))
        partition = build_partition(self.filesystem, directory, entries, MERGED_ROOT, merged_offsets)
        known_ends = tuple(
            replace(segment, end_offset=complete_segments[segment.path].end_offset)
            if segment.path in complete_segments
            else segment
            for segment in partition.segments
        )
        notes = tuple(note for segment in sources for note in segment.partition.notes)
        problems = tuple(problem for segment in sources for problem in segment.partition.problems)
        partition = replace(partition, segments=known_ends, notes=notes, problems=(*partition.problems, *problems))
        self.partitions.append(partition)
        return partition

    def add_single(self, source: CopySource) -> None:
        """Add a partition with a single copy, which keeps its path."""
        self.add_checkpointed_offsets(source.partition)
        self.partitions.append(source.partition)

    def add_checkpointed_offsets(self, partition: Partition) -> None:
        """Add a partition's offsets in the broker's checkpoints."""
        self._add_offsets(
            {file: {partition.topic_partition: offset} for file, offset in partition.checkpointed_offsets.items()}
        )

    def _add_offsets(self, offsets: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        for file, values in offsets.items():
            self.offsets.setdefault(file, {}).update(values)

    @property
    def filesystem(self) -> MergedFileSystem:
        """The file system of the view with everything added so far."""
        return MergedFileSystem(self.parts, self.small, self.listings, self.options)

    def build_directory(self, directories: Sequence[LogDirectory]) -> LogDirectory:
        """Return the view as a log directory.

        Args:
            directories: the source directories; if they belong to one broker, its ``meta.properties`` is kept.
        """
        entries = [
            *self.add_checkpoints(),
            *(
                FileInfo(partition.directory, split_path(partition.directory)[1], is_directory=True)
                for partition in self.partitions
            ),
        ]
        self.listings[MERGED_ROOT] = tuple(sorted(entries, key=lambda entry: entry.name))
        metas = {partition.meta.node_id: partition.meta for partition in directories if partition.meta is not None}
        return LogDirectory(
            path=MERGED_ROOT,
            filesystem=self.filesystem,
            partitions=tuple(
                sorted(self.partitions, key=lambda partition: (partition.topic_partition, partition.directory))
            ),
            meta=next(iter(metas.values())) if len(metas) == 1 else None,
            offset_checkpoints=self.offsets,
            problems=tuple(problem for partition in directories for problem in partition.problems),
            unreadable_partitions=tuple(one for directory in directories for one in directory.unreadable_partitions),
        )

    def add_checkpoints(self) -> list[FileInfo]:
        """Add the checkpoints of all added partitions to the view."""
        return [
            self.add_file(join(MERGED_ROOT, file), write_offset_checkpoint(partition_offsets))
            for file, partition_offsets in self.offsets.items()
        ]

    def add_file(self, path: str, content: bytes) -> FileInfo:
        """Add a file with the given content to the view."""
        self.small[path] = content
        return FileInfo(path, split_path(path)[1], len(content))

    def _list_files_of_segment(
        self,
        merged: MergedLog,
        sources: Sequence[CopySource],
        directory: str,
        group: Sequence[Span],
        complete_segments: dict[str, Segment],
        previous_end_offset: int,
    ) -> Iterator[FileInfo]:
        """Yield the files of one segment: those of a copy if it is used whole, otherwise a composed file."""
        first = group[0]
        segment = merged.segment(first.segment_range)
        is_whole = len(group) == 1 and (first.segment_range.start, first.segment_range.end) == (0, segment.size_bytes)
        is_named_so = (
            first.segment_range.start == 0 and segment.base_offset >= previous_end_offset
        )  # no earlier segment overlaps this one
        if is_whole and is_named_so:
            complete_segments[segment.path] = segment
            for file in (segment.log, segment.index, segment.time_index, segment.txn_index):
                if file is not None:
                    yield FileInfo(file.path, str(file.name), file.size_bytes, file.mtime_ms)
            return
        base = segment.base_offset if is_named_so else first.first_offset
        path = join(directory, name_segment_file(base, "log"))
        self.parts[path] = tuple(
            FileExtent(
                sources[span.segment_range.copy].filesystem,
                merged.segment(span.segment_range).path,
                span.segment_range.start,
                span.segment_range.end,
            )
            for span in group
        )
        size_bytes = sum(span.size_bytes for span in group)
        yield FileInfo(path, split_path(path)[1], size_bytes, segment.log.mtime_ms)

    def _list_companion_files(self, merged: MergedLog, authority: Partition) -> Iterator[FileInfo]:
        """Yield the files that belong to no segment: the topic id, and the authority's producer snapshots."""
        for copy in merged.copies:
            if copy.topic_id is not None:
                path = join(copy.directory, names.PARTITION_METADATA)
                yield FileInfo(path, names.PARTITION_METADATA, 1)
                break
        for file in authority.producer_snapshots:
            if merged.start_offset < file.name.offset <= merged.end_offset:
                yield FileInfo(file.path, str(file.name), file.size_bytes, file.mtime_ms)


def _group_spans(merged: MergedLog) -> Iterator[list[Span]]:
    """Group spans into segments: the spans of one file, with the replacements of its damaged batches between them."""
    last_of = {(span.segment_range.copy, span.segment_range.segment): index for index, span in enumerate(merged.spans)}
    index = 0
    while index < len(merged.spans):
        segment_range = merged.spans[index].segment_range
        end = last_of[segment_range.copy, segment_range.segment] + 1
        yield list(merged.spans[index:end])
        index = end
