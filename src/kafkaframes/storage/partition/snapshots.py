"""The producer snapshots of a log on its disk (the files of ProducerStateManager)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkaframes.storage.files.disk import OnlineDisk, overwrite
from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import segment_file_name
from kafkaframes.storage.files.producer_snapshot import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.producer_snapshots import in_file_order
from kafkaframes.storage.partition.segment import DELETED

_KIND = "snapshot"


class Snapshots:
    """The snapshots of one partition: at each segment's base, and at the end of the log when it was closed.

    Attributes:
        offsets: for which there is one, ascending.
        last: the offset of the one that was taken or loaded last; none is taken at or below it.
        unflushed: the paths of those that may not be on the disk; one that is damaged is not used (its CRC tells).
    """

    def __init__(self, disk: OnlineDisk, directory: str, offsets: Iterable[int]) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)
        self.last = self.offsets[-1] if self.offsets else 0
        self.unflushed: list[str] = []

    def path_of(self, offset: int) -> str:
        """Return the path of the snapshot at ``offset``."""
        return join(self._directory, segment_file_name(offset, _KIND))

    def take(self, offset: int, producers: Iterable[ProducerEntry], *, active_base: int) -> None:
        """Write a snapshot at ``offset``, unless nothing came after the last one; ``flush`` puts it on the disk.

        It takes the file of one that lies inside the active segment: that of a stop, which no opening needs any more.
        """
        if offset <= self.last:
            return
        path = self.path_of(offset)
        if self.offsets and self.offsets[-1] > active_base:
            self._disk.rename(self.path_of(self.offsets[-1]), path)
            self._forgotten(self.offsets[-1])
        self.unflushed.append(path)
        overwrite(self._disk, path, write_producer_snapshot(in_file_order(producers)))
        self.offsets = sorted({*self.offsets, offset})
        self.last = offset

    def flush(self) -> None:
        """Return when every snapshot is on the disk."""
        for path in self.unflushed:
            self._disk.flush_file(path)
        self.unflushed.clear()

    def mark_deleted(self, offset: int) -> list[str]:
        """Rename the snapshot at ``offset``, if there is one, to ``.deleted``; return its new name."""
        if offset not in self.offsets:
            return []
        path = self._forgotten(offset)
        self._disk.rename(path, path + DELETED)
        return [path + DELETED]

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Delete the snapshots at or below the log's start and beyond its end, before producers are loaded again."""
        for offset in [one for one in self.offsets if one > end_offset or one <= start_offset]:
            self.remove(offset)

    def remove_unfinished(self, offset: int) -> None:
        """Delete what was written of a snapshot that could not be taken."""
        path = self.path_of(offset)
        if offset not in self.offsets and self._disk.stat(path) is not None:
            self._disk.delete(path)
        self.unflushed = [one for one in self.unflushed if one != path]

    def remove(self, offset: int) -> None:
        """Delete the snapshot at ``offset``."""
        self._disk.delete(self._forgotten(offset))

    def _forgotten(self, offset: int) -> str:
        path = self.path_of(offset)
        self.offsets.remove(offset)
        self.unflushed = [one for one in self.unflushed if one != path]
        return path
