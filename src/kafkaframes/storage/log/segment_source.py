"""Segments in a store or in tiered storage as sources of batches; the bytes that are fetched are counted.

A store is read some megabytes at a time. For its reader a tiered segment with a damaged chunk ends before that chunk:
``damage`` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.records.scan import Bytes, as_array
from kafkaframes.storage.files.filesystem import FileSystem, FileSystemOver, ReadAt
from kafkaframes.storage.files.segment_file import Meter
from kafkaframes.storage.tiered.chunks import ChunkReader
from kafkaframes.storage.tiered.filesystem import TieredFileSystem

STORE_BYTES = 8 << 20  # of one request to a store, which takes some milliseconds whatever its size


@dataclass(frozen=True, slots=True)
class CountingFileSystem(FileSystemOver):
    """A file system that counts what is read of another one."""

    inner: FileSystem
    meter: Meter

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


@dataclass(slots=True)
class StoredSegment:
    """A segment in a store, read some megabytes at a time and never beyond ``size_bytes``.

    Attributes:
        damage: the chunk that could not be read, before which the segment ends; the reader clears it.
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
            LogDirError: the store fails; it names the file.
        """
        at = position - self._start
        if at < 0 or at + length > len(self._data):
            fetch_bytes = min(max(length, STORE_BYTES), max(self.size_bytes - position, 0))
            self._start, self._data, at = position, self._fetched(position, fetch_bytes), 0
        return as_array(memoryview(self._data)[at : at + length])

    def _fetched(self, position: int, length: int) -> bytes:
        try:
            data = self.read_at(position, length)
        except DamagedChunkError as damage:
            self.damage = damage
            return self.read_at(position, damage.lost[0] - position) if position < damage.lost[0] else b""
        if len(data) < length:
            reason = f"the store gave {len(data)} of {length} bytes"
            raise LogDirError(reason, position=position, file=self.name)
        return data


@dataclass(slots=True)
class ChunkedSegment:
    """A tiered segment whose chunks are decrypted and decompressed, never beyond ``size_bytes``.

    Attributes:
        damage: as in ``StoredSegment``.
    """

    name: str
    size_bytes: int
    read_at: ChunkReader
    damage: DamagedChunkError | None = None

    def read(self, position: int, length: int) -> Bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer before a damaged chunk. Raises as it does there."""
        length = max(min(length, self.size_bytes - position), 0)
        self.read_at.read_ahead(self.size_bytes)
        try:
            return as_array(self.read_at.view(position, length))
        except DamagedChunkError as damage:
            self.damage = damage
            before = max(damage.lost[0] - position, 0)
            return as_array(self.read_at.view(position, before) if before else b"")


TieredSource = StoredSegment | ChunkedSegment


def counting(filesystem: FileSystem, meter: Meter) -> FileSystem:
    """Return a file system that counts what is fetched; for tiered segments the bytes of their objects."""
    if isinstance(filesystem, TieredFileSystem):
        return filesystem.over(CountingFileSystem(filesystem.inner, meter))
    return CountingFileSystem(filesystem, meter)
