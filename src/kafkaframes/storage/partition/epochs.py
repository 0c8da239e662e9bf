"""The leader epochs of a partition, in memory and in their file (LeaderEpochFileCache, KIP-101, KIP-279)."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import Epochs, EpochStart, write_leader_epochs
from kafkaframes.storage.files.disk import OnlineDisk, overwrite, replace_file
from kafkaframes.storage.files.filesystem import join

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """Where an epoch ends: the offset after its last record. Both are -1 if the epoch is not known."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The epochs of one partition.

    Entries that are added, or removed at the end, are on the disk when a method returns, but for the first of all:
    it is on the disk after ``flush``, which comes before the segment is closed that recovery would find it in. Entries
    that are removed at the beginning stay in the file until their segments are deleted or the log is closed, because
    after a crash the log start offset may be lower again.

    Attributes:
        entries: the current ones.
        path: of the file.
        is_flushed: whether the file is on the disk.
    """

    def __init__(self, disk: OnlineDisk, directory: str, entries: Epochs) -> None:
        self.entries = entries
        self._written = entries
        self._disk = disk
        self.path = join(directory, names.LEADER_EPOCH_CHECKPOINT)
        self.is_flushed = True

    @property
    def latest(self) -> int:
        """The latest epoch; -1 before the first."""
        return self.entries[-1].leader_epoch if self.entries else UNDEFINED

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """Add an epoch whose records begin at ``start_offset``, unless it is there already."""
        new = EpochStart(leader_epoch, start_offset)
        self._write(checkpoints.assign(self._written, new))
        self.entries = checkpoints.assign(self.entries, new)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at or after ``end_offset``."""
        self._write(tuple(one for one in self._written if one.start_offset < end_offset))
        self.entries = tuple(one for one in self.entries if one.start_offset < end_offset)

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or before ``start_offset``, in memory only."""
        self.entries = _from(self.entries, start_offset)

    def segments_begin_at(self, base_offset: int) -> None:
        """Remove the epochs that ended before the first segment from the file, too."""
        self._write(_from(self._written, base_offset))

    def clear(self) -> None:
        """Remove all epochs."""
        self._write(())
        self.entries = ()

    def write(self) -> None:
        """Write ``leader-epoch-checkpoint`` with the epochs as they are now."""
        self._write(self.entries)

    def flush(self) -> None:
        """Return when the file is on the disk."""
        if not self.is_flushed:
            self._disk.flush_file(self.path)
            self.is_flushed = True

    def end_offset_for(self, leader_epoch: int, *, log_end_offset: int) -> EpochEnd:
        """Answer OffsetsForLeaderEpoch: the largest known epoch up to ``leader_epoch``, and where it ends."""
        if leader_epoch == self.latest != UNDEFINED:
            return EpochEnd(leader_epoch, log_end_offset)
        higher = next((one for one in self.entries if one.leader_epoch > leader_epoch), None)
        if leader_epoch == UNDEFINED or higher is None:
            return EpochEnd(UNDEFINED, UNDEFINED)
        lower = [one.leader_epoch for one in self.entries if one.leader_epoch <= leader_epoch]
        return EpochEnd(lower[-1] if lower else leader_epoch, higher.start_offset)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch that wrote ``offset``; -1 where it is not known."""
        return next((one.leader_epoch for one in reversed(self.entries) if one.start_offset <= offset), UNDEFINED)

    def _write(self, entries: Epochs) -> None:
        if entries == self._written:
            return
        if self._written:
            replace_file(self._disk, self.path, write_leader_epochs(entries))
            self.is_flushed = True
        else:
            self.is_flushed = (
                False  # nothing is lost with it: each partition writes its first epoch at its first append
            )
            overwrite(self._disk, self.path, write_leader_epochs(entries))
        self._written = entries


def _from(entries: Epochs, start_offset: int) -> Epochs:
    end = entries[-1].start_offset + 1 if entries else 0
    return checkpoints.truncated(entries, start_offset=start_offset, end_offset=end)
