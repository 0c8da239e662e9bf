"""A segment, on a disk, in a store or tiered, as what ``records`` reads batches from; how much is fetched is counted.

A store is asked for some megabytes at a time. A tiered segment of which a chunk is damaged ends, for the reader,
before that chunk: ``damage`` says why, and ``resume`` where the next batch behind it is known to start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.files.filesystem import FileInfo, FileSystem, LocalFileSystem, ReadAt
from kafkaframes.files.offset_index import read_offset_index
from kafkaframes.files.segment_file import open_segment_file
from kafkaframes.log.where import filesystem_for
from kafkaframes.records.chunks import Source
from kafkaframes.records.scan import Bytes
from kafkaframes.tiered.chunks import ChunkReader
from kafkaframes.tiered.filesystem import TieredFileSystem
from kafkaframes.tiered.names import ViewPath

STORE_BYTES = 8 << 20  # asked of a store at once: a request costs some milliseconds, whatever its size


@dataclass(slots=True)
class Meter:
    """Counts the bytes that are fetched: of a tiered segment those of its objects, as they are stored."""

    bytes_read: int = 0


@dataclass(frozen=True, slots=True)
class Counting:
    """A file system that counts what is read of another one."""

    inner: FileSystem
    meter: Meter

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        return self.inner.list_directory(path)

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""
        return self.inner.stat(path)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        data = self.inner.read(path, position=position, length=length)
        self.meter.bytes_read += len(data)
        return data

    def open(self, path: str) -> AbstractContextManager[ReadAt]:
        """Open a file for many reads."""
        return self._opened(path)

    @contextmanager
    def _opened(self, path: str) -> Iterator[ReadAt]:
        with self.inner.open(path) as read_at:

            def counted(position: int, length: int) -> bytes:
                data = read_at(position, length)
                self.meter.bytes_read += len(data)
                return data

            yield counted

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return self.inner.glob(pattern)


@dataclass(slots=True)
class StoredSegment:
    """A segment that a store answers for, some megabytes at a time; never a byte behind ``size_bytes``.

    Attributes:
        damage: the chunk that could not be undone, and before which the segment ends; it is the reader's to clear.
    """

    name: str
    size_bytes: int
    read_at: ReadAt
    damage: DamagedChunkError | None = None
    _start: int = 0
    _data: bytes = b""

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Return up to ``length`` bytes from ``position`` on; fewer before a damaged chunk.

        Raises:
            LogDirError: the store fails; it names the file.
        """
        at = position - self._start
        if at < 0 or at + length > len(self._data):
            wanted = min(max(length, STORE_BYTES), max(self.size_bytes - position, 0))
            self._start, self._data, at = position, self._fetched(position, wanted), 0
        return memoryview(self._data)[at : at + length]

    def _fetched(self, position: int, wanted: int) -> bytes:
        try:
            data = self.read_at(position, wanted)
        except DamagedChunkError as damage:
            self.damage = damage
            return self.read_at(position, damage.lost[0] - position) if position < damage.lost[0] else b""
        if len(data) < wanted:
            reason = f"the store gave {len(data)} of {wanted} bytes"
            raise LogDirError(reason, position=position, file=self.name)
        return data


@dataclass(slots=True)
class ChunkedSegment:
    """A tiered segment of which chunks are undone; never one that lies behind ``size_bytes``.

    Attributes:
        damage: as of ``StoredSegment``.
    """

    name: str
    size_bytes: int
    read_at: ChunkReader
    damage: DamagedChunkError | None = None

    def read(self, position: int, length: int) -> bytes | memoryview:
        """Return up to ``length`` bytes from ``position`` on; fewer before a damaged chunk. Raises as it does there."""
        length = max(min(length, self.size_bytes - position), 0)
        self.read_at.read_ahead(self.size_bytes)
        try:
            return self.read_at.view(position, length)
        except DamagedChunkError as damage:
            self.damage = damage
            return self.read_at.view(position, damage.lost[0] - position) if position < damage.lost[0] else b""


TieredSource = StoredSegment | ChunkedSegment


@dataclass(slots=True)
class Metered:
    """A source that counts what is read of it."""

    source: Source
    meter: Meter

    @property
    def name(self) -> str | None:
        """The path."""
        return self.source.name

    @property
    def damage(self) -> Exception | None:
        """The damage that the source itself has met; None where it has met none."""
        return self.source.damage

    @property
    def size_bytes(self) -> int:
        """The size when it was opened."""
        return self.source.size_bytes

    def read(self, position: int, length: int) -> bytes | memoryview | Bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        data = self.source.read(position, length)
        self.meter.bytes_read += len(data)
        return data


@contextmanager
def open_planned(
    path: str, end: int | None = None, *, options: Mapping[str, Any] | None = None, meter: Meter | None = None
) -> Iterator[Source]:
    """Open a segment of which the bytes up to ``end`` are to be read, as its listing promised.

    Args:
        path: of the segment.
        end: no byte behind it is fetched; None for all that the segment has now.
        options: of the store.
        meter: counts what is fetched.

    Raises:
        LogDirError: it cannot be read, or has lost bytes since the read was planned.
    """
    with open_source(filesystem_for(path, options=options), path, end, meter=meter) as source:
        yield source


@contextmanager
def open_source(
    filesystem: FileSystem, path: str, end: int | None = None, *, meter: Meter | None = None
) -> Iterator[Source]:
    """Open a segment as ``open_planned``, of a file system that is known."""
    counted = meter or Meter()
    if isinstance(filesystem, LocalFileSystem):
        if end is not None:
            check_not_cut(filesystem, path, end)
        with open_segment_file(path) as source:
            yield Metered(source, counted) if meter is not None else source
        return
    size_bytes = check_not_cut(filesystem, path, end or 0)
    with _counting(filesystem, counted).open(path) as read_at:
        size_bytes = size_bytes if end is None else end
        if isinstance(read_at, ChunkReader):
            yield ChunkedSegment(path, size_bytes, read_at)
        else:
            yield StoredSegment(path, size_bytes, read_at)


def _counting(filesystem: FileSystem, meter: Meter) -> FileSystem:
    """Count what is fetched where it is fetched: of tiered segments, objects."""
    if isinstance(filesystem, TieredFileSystem):
        return filesystem.over(Counting(filesystem.inner, meter))
    return Counting(filesystem, meter)


def check_not_cut(filesystem: FileSystem, path: str, end: int) -> int:
    """Return the size of a segment that still has the bytes up to ``end``.

    Raises:
        LogDirError: it has vanished, or become shorter.
    """
    found = filesystem.stat(path)
    if found is None:
        raise LogDirError("has vanished since the read was planned", file=path)
    if found.size_bytes < end:
        raise LogDirError("has become shorter since the read was planned", file=path)
    return found.size_bytes


def damage_of(source: Source) -> DamagedChunkError | None:
    """Return the damaged chunk at which a source ended, once; None where it did not."""
    if not isinstance(source, TieredSource):
        return None
    damage, source.damage = source.damage, None
    return damage


def resume(filesystem: FileSystem, path: str, damage: DamagedChunkError) -> int | None:
    """Return where the first batch known to start behind a damaged chunk does, by the offset index; None for none."""
    view = ViewPath.parse(path)
    if view is None:
        return None
    file = path.removesuffix(".log") + ".index"
    try:
        raw = filesystem.read(file)
        index = read_offset_index(raw, base_offset=int(view.name[:20]), file=file)
    except (LogDirError, ValueError):
        return None
    return min((int(place) for place in index.positions if place >= damage.lost[1]), default=None)
