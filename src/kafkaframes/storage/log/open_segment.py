"""Open a segment on a disk, in an object store or in tiered storage, and continue after damaged chunks.

All readers of records and batches use this loop. If a chunk of a tiered segment cannot be decrypted or decompressed,
the segment is read in *runs*. The first run ends before the damaged chunk. The next run starts at the first batch after
the chunk that has an entry in the index. All other segments are read in a single run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.records.scan import BatchSource, Bytes, ScanEnd, as_array
from kafkaframes.storage.files.filesystem import DelegatingFileSystem, FileSystem, LocalFileSystem, ReadAt
from kafkaframes.storage.files.indexes import read_offset_index
from kafkaframes.storage.files.segment_file import SHORTENED_REASON, VANISHED_REASON, ByteCounter, open_segment_file
from kafkaframes.storage.log.discover import find_filesystem
from kafkaframes.storage.tiered.chunks import ChunkReader
from kafkaframes.storage.tiered.filesystem import TieredFileSystem
from kafkaframes.storage.tiered.names import ViewPath

# ---------------------------------------------------------------------------------------------------------------------
# Segments in a store or in tiered storage as sources of batches, with a count of the fetched bytes.
#
# Reads from a store are buffered, some megabytes at a time. A tiered segment with a damaged chunk ends, for its reader,
# before that chunk; ``damage`` then contains the reason.

MIN_STORE_READ_BYTES = 8 << 20  # smallest request to a store: each request takes some milliseconds, whatever its size


@dataclass(frozen=True, slots=True)
class CountingFileSystem(DelegatingFileSystem):
    """A file system that counts the bytes that are read from its inner file system."""

    inner: FileSystem
    meter: ByteCounter

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        data = self.inner.read(path, position=position, length=length)
        self.meter.bytes_read += len(data)
        return data

    def open(self, path: str) -> AbstractContextManager[ReadAt]:
        """Open a file for many reads."""
        return self._open_counting(path)

    @contextmanager
    def _open_counting(self, path: str) -> Iterator[ReadAt]:
        with self.inner.open(path) as read_at:

            def count_read(position: int, length: int) -> bytes:
                data = read_at(position, length)
                self.meter.bytes_read += len(data)
                return data

            yield count_read


@dataclass(slots=True)
class StoredSegment:
    """A segment in a store, read some megabytes at a time and never after ``size_bytes``.

    Attributes:
        damage: unreadable chunk at which the segment ended, until the reader resets it; None if no chunk is damaged.
    """

    name: str
    size_bytes: int
    read_at: ReadAt
    damage: DamagedChunkError | None = None
    _start: int = 0
    _data: bytes = b""

    def read(self, position: int, length: int) -> Bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer before a damaged chunk.

        Raises:
            LogDirError: the store fails.
        """
        data_position = position - self._start
        if data_position < 0 or data_position + length > len(self._data):
            fetch_bytes = min(max(length, MIN_STORE_READ_BYTES), max(self.size_bytes - position, 0))
            self._start, self._data, data_position = position, self._fetch_bytes(position, fetch_bytes), 0
        return as_array(memoryview(self._data)[data_position : data_position + length])

    def _fetch_bytes(self, position: int, length: int) -> bytes:
        try:
            data = self.read_at(position, length)
        except DamagedChunkError as damage:
            self.damage = damage
            return self.read_at(position, damage.lost[0] - position) if position < damage.lost[0] else b""
        if len(data) < length:
            reason = f"the store returned {len(data)} of {length} bytes"
            raise LogDirError(reason, position=position, file=self.name)
        return data


@dataclass(slots=True)
class ChunkedSegment:
    """A tiered segment whose chunks are decrypted and decompressed. It is never read past ``size_bytes``."""

    name: str
    size_bytes: int
    read_at: ChunkReader
    damage: DamagedChunkError | None = None

    def read(self, position: int, length: int) -> Bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer before a damaged chunk."""
        length = max(min(length, self.size_bytes - position), 0)
        self.read_at.read_ahead(self.size_bytes)
        try:
            return as_array(self.read_at.read_view(position, length))
        except DamagedChunkError as damage:
            self.damage = damage
            undamaged_bytes = max(damage.lost[0] - position, 0)
            return as_array(self.read_at.read_view(position, undamaged_bytes) if undamaged_bytes else b"")


TieredSource = StoredSegment | ChunkedSegment


def make_counting_filesystem(filesystem: FileSystem, meter: ByteCounter) -> FileSystem:
    """Return a file system that counts fetched bytes; for tiered segments it counts the bytes of their objects."""
    if isinstance(filesystem, TieredFileSystem):
        return replace(filesystem, inner=CountingFileSystem(filesystem.inner, meter))
    return CountingFileSystem(filesystem, meter)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadableRun:
    """A part of a segment that is read without interruption, up to the segment's end or to a damaged chunk.

    Attributes:
        start: position of the first batch, in bytes.
        end: position and reason at the end, set by the reader of the run; None if the reader stopped earlier.
    """

    start: int
    end: ScanEnd | None = None


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """A part of a segment that is skipped because a chunk is damaged.

    Attributes:
        damage: the damaged chunk.
        start: position after the last batch before the gap, in bytes.
        end: position of the next run, in bytes; None if the rest of the segment is not read.
    """

    damage: DamagedChunkError
    start: int
    end: int | None

    def __str__(self) -> str:
        continuation = "the data after it is not read" if self.end is None else f"reading continues at byte {self.end}"
        first, last = self.damage.lost
        return f"{self.damage}; bytes {first} to {last} of the segment are lost; {continuation}"


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment that is open for reading. ``read_runs`` continues after damaged chunks of a tiered segment."""

    filesystem: FileSystem
    path: str
    source: BatchSource

    def read_runs(
        self, *, start: int = 0, end: int | None = None, on_damage: str, on_gap: Callable[[DamagedRange], object]
    ) -> Iterator[ReadableRun]:
        """Yield the runs of the segment.

        The caller reads each run and sets the run's ``end`` before requesting the next run.

        Args:
            start: position of a batch, in bytes.
            end: position that the batches must reach, in bytes; None if the end is unknown.
            on_damage: with ``fail``, a damaged chunk raises an error; with other values, the read continues after the
                chunk.
            on_gap: function that is called with each gap before the next run starts.

        Raises:
            DamagedChunkError: a chunk is damaged and ``on_damage`` is ``fail``.
            LogDirError: the file was truncated during the read and does not reach ``end``.
        """
        position: int | None = start
        while position is not None:
            run = ReadableRun(position)
            yield run
            if run.end is None:
                return
            damage = self.take_damage()
            if damage is None:
                if end is not None and run.end.position < end:
                    _check_not_truncated(self.filesystem, self.path, end)
                return
            if on_damage == "fail":
                raise damage
            position = self._find_position_after(damage)
            if position is not None and end is not None and position >= end:
                position = None
            on_gap(DamagedRange(damage, run.end.position, position))

    def take_damage(self) -> DamagedChunkError | None:
        """Return the damaged chunk at which the last read ended, and reset it; None if no chunk is damaged."""
        source = self.source
        if not isinstance(source, TieredSource):
            return None
        damage, source.damage = source.damage, None
        return damage

    def _find_position_after(self, damage: DamagedChunkError) -> int | None:
        """Return the position of the first indexed batch after a damaged chunk; None if the index has none."""
        view = ViewPath.parse(self.path)
        if view is None:
            return None
        file = self.path.removesuffix(".log") + ".index"
        try:
            index = read_offset_index(self.filesystem.read(file), base_offset=int(view.name[:20]), file=file)
        except (LogDirError, ValueError):
            return None
        return min((int(position) for position in index.positions if position >= damage.lost[1]), default=None)


def open_planned_segment(
    path: str, end: int | None = None, *, options: Mapping[str, Any] | None = None
) -> AbstractContextManager[OpenSegment]:
    """Open a segment for a planned read of the bytes up to ``end``.

    Args:
        end: position of the first byte that is not fetched; None for the current end of the segment.

    Raises:
        LogDirError: the segment cannot be read, or has become shorter than ``end``.
    """
    return open_planned_segment_on(find_filesystem(path, options=options), path, end)


@contextmanager
def open_planned_segment_on(
    filesystem: FileSystem, path: str, end: int | None = None, *, meter: ByteCounter | None = None
) -> Iterator[OpenSegment]:
    """Open a segment of a given file system, as ``open_planned_segment`` does."""
    if isinstance(filesystem, LocalFileSystem):
        with open_segment_file(path, meter=meter, planned_bytes=end) as file:
            yield OpenSegment(filesystem, path, file)
        return
    stored_bytes = _check_not_truncated(filesystem, path, end or 0)
    size_bytes = stored_bytes if end is None else end
    source = filesystem if meter is None else make_counting_filesystem(filesystem, meter)
    with source.open(path) as read_at:
        if isinstance(read_at, ChunkReader):
            yield OpenSegment(filesystem, path, ChunkedSegment(path, size_bytes, read_at))
        else:
            yield OpenSegment(filesystem, path, StoredSegment(path, size_bytes, read_at))


def _check_not_truncated(filesystem: FileSystem, path: str, end: int) -> int:
    """Return the size of a segment, which is at least ``end``."""
    info = filesystem.stat(path)
    if info is None:
        raise LogDirError(VANISHED_REASON, file=path)
    if info.size_bytes < end:
        raise LogDirError(SHORTENED_REASON, file=path)
    return info.size_bytes
