"""Open a segment, on a disk or in a store, as what ``records`` reads batches from. No pyspark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafkaframes.errors import LogDirError
from kafkaframes.log.filesystem import FileSystem, LocalFileSystem, filesystem_for
from kafkaframes.log.segment_file import open_segment_file
from kafkaframes.records.chunks import Source
from kafkaframes.spark.planning import Slice


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment that a store answers for, piece by piece."""

    name: str
    size_bytes: int
    filesystem: FileSystem

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        return self.filesystem.read(self.name, position=position, length=length)


@contextmanager
def open_slice(piece: Slice) -> Iterator[Source]:
    """Open the segment of a slice.

    Raises:
        LogDirError: it cannot be read, or has lost bytes since the read was planned: before or while it is read.
    """
    path = piece.segment.path
    filesystem = filesystem_for(path)
    _check_size(filesystem, piece)
    if isinstance(filesystem, LocalFileSystem):
        with open_segment_file(path) as source:
            yield source
    else:
        yield StoredSegment(path, piece.end, filesystem)


def check_not_cut(piece: Slice) -> None:
    """See whether a slice that ended early did so because its file was cut meanwhile.

    Raises:
        LogDirError: it was.
    """
    _check_size(filesystem_for(piece.segment.path), piece)


def _check_size(filesystem: FileSystem, piece: Slice) -> None:
    found = filesystem.stat(piece.segment.path)
    if found is None:
        raise LogDirError("has vanished since the read was planned", file=piece.segment.path)
    if found.size_bytes < piece.end:
        raise LogDirError("has become shorter since the read was planned", file=piece.segment.path)
