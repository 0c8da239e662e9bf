"""A segment, on a disk or in a store, as what ``records`` reads batches from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kafkaframes.errors import LogDirError
from kafkaframes.log.filesystem import FileSystem, LocalFileSystem, filesystem_for
from kafkaframes.log.segment_file import open_segment_file
from kafkaframes.records.chunks import Source


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
def open_planned(path: str, end: int) -> Iterator[Source]:
    """Open a segment of which the bytes up to ``end`` are to be read, as its listing promised.

    Raises:
        LogDirError: it cannot be read, or has lost bytes since the read was planned.
    """
    filesystem = filesystem_for(path)
    check_not_cut(path, end)
    if isinstance(filesystem, LocalFileSystem):
        with open_segment_file(path) as source:
            yield source
    else:
        yield StoredSegment(path, end, filesystem)


def check_not_cut(path: str, end: int) -> None:
    """See whether a segment still has the bytes up to ``end``.

    Raises:
        LogDirError: it has vanished, or become shorter.
    """
    found = filesystem_for(path).stat(path)
    if found is None:
        raise LogDirError("has vanished since the read was planned", file=path)
    if found.size_bytes < end:
        raise LogDirError("has become shorter since the read was planned", file=path)
