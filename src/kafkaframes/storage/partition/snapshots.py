"""The producer snapshots of a log on its disk (the files of ProducerStateManager)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkaframes.storage.files.disk import Disk
from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import FileName, segment_file_name
from kafkaframes.storage.files.producer_snapshot import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.producer_snapshots import in_file_order
from kafkaframes.storage.partition.segment import DELETED

_KIND = "snapshot"


class Snapshots:
    """The snapshots of one partition: at each segment's base, and at the end of the log when it was closed.

    Attributes:
        offsets: for which there is one, ascending.
        last: the offset of the one that was taken or loaded last; none is taken at or below it.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        names = (FileName.parse(one.name) for one in disk.list_directory(directory))
        self.offsets = sorted(one.offset for one in names if one and one.kind == _KIND and not one.temporary)
        self.last = self.offsets[-1] if self.offsets else 0

    def path_of(self, offset: int) -> str:
        """Return the path of the snapshot at ``offset``."""
        return join(self._directory, segment_file_name(offset, _KIND))

    def take(self, offset: int, producers: Iterable[ProducerEntry]) -> None:
        """Write a snapshot at ``offset``, flushed, unless nothing came after the last one."""
        if offset <= self.last:
            return
        file = self._disk.open_file(self.path_of(offset))
        try:
            file.truncate(0)
            file.write(0, write_producer_snapshot(in_file_order(producers)))
            file.fsync()
        finally:
            file.close()
        self.offsets = sorted({*self.offsets, offset})
        self.last = offset

    def mark_deleted(self, offset: int) -> list[str]:
        """Rename the snapshot at ``offset``, if there is one, to ``.deleted``; return its new name."""
        if offset not in self.offsets:
            return []
        self.offsets.remove(offset)
        path = self.path_of(offset)
        self._disk.rename(path, path + DELETED)
        return [path + DELETED]

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Delete the snapshots at or below the log's start and beyond its end, before producers are loaded again."""
        for offset in [one for one in self.offsets if one > end_offset or one <= start_offset]:
            self.remove(offset)

    def remove_unfinished(self, offset: int) -> None:
        """Delete what was written of a snapshot that could not be taken."""
        if offset not in self.offsets and self._disk.stat(self.path_of(offset)) is not None:
            self._disk.delete(self.path_of(offset))

    def remove(self, offset: int) -> None:
        """Delete the snapshot at ``offset``."""
        self._disk.delete(self.path_of(offset))
        self.offsets.remove(offset)
