"""The mutable state of one partition's log: segments, offsets, producers and leader epochs.

``PartitionLog`` adds the operations on it: append, fetch, flush and retention.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.errors import LogDirError, OffsetOutOfRangeError
from kafkaframes.records.append.settings import AppendSettings
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import (
    Epochs,
    EpochStart,
    end_of_epoch,
    get_latest_epoch,
    write_leader_epochs,
)
from kafkaframes.storage.files.disk import OnlineDisk, overwrite, replace_file
from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import TopicPartition, name_segment_file
from kafkaframes.storage.files.producer_files import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.rebuild import sort_in_file_order
from kafkaframes.storage.partition.segment import DELETED_SUFFIX, LogSegment
from kafkaframes.storage.partition.settings import LogSettings, to_append_settings

UNDEFINED_OFFSET = -1


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last record. Epoch and offset are -1 if the epoch is unknown."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one partition, and their checkpoint file.

    Added entries, and removals at the end, are durable when a method returns. The first entry of a log is an exception:
    it is durable after ``flush``. Before that flush, recovery can restore the entry from the active segment. Entries
    that are removed at the start stay in the file until their segments are deleted or the log is closed, because the
    log start offset may be lower again after a crash.

    Attributes:
        is_flushed: whether the file is on the disk.
    """

    def __init__(self, disk: OnlineDisk, directory: str, entries: Epochs) -> None:
        self.entries = entries
        self._written_entries = entries
        self._disk = disk
        self.path = join(directory, names.LEADER_EPOCH_CHECKPOINT)
        self.is_flushed = True

    @property
    def latest(self) -> int:
        """The latest epoch; -1 if there are no entries."""
        return get_latest_epoch(self.entries)

    def assign(self, leader_epoch: int, start_offset: int) -> None:
        """Add an epoch that starts at ``start_offset``, unless it exists."""
        new = EpochStart(leader_epoch, start_offset)
        self._write_file(checkpoints.assign_epoch(self._written_entries, new))
        self.entries = checkpoints.assign_epoch(self.entries, new)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at or after ``end_offset``."""
        self._write_file(tuple(entry for entry in self._written_entries if entry.start_offset < end_offset))
        self.entries = tuple(entry for entry in self.entries if entry.start_offset < end_offset)

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or before ``start_offset``, in memory only."""
        self.entries = _truncate_epochs_below(self.entries, start_offset)

    def truncate_file_from_start(self, base_offset: int) -> None:
        """Remove the epochs that end at or before the first segment, and update the checkpoint file."""
        self._write_file(_truncate_epochs_below(self._written_entries, base_offset))

    def clear(self) -> None:
        """Remove all epochs."""
        self._write_file(())
        self.entries = ()

    def write(self) -> None:
        """Write the current epochs to ``leader-epoch-checkpoint``."""
        self._write_file(self.entries)

    def flush(self) -> None:
        """Flush the file to the disk."""
        if not self.is_flushed:
            self._disk.flush_file(self.path)
            self.is_flushed = True

    def end_offset_for(self, leader_epoch: int, *, log_end_offset: int) -> EpochEnd:
        """Return the largest epoch up to ``leader_epoch`` and its end offset, as OffsetsForLeaderEpoch does."""
        epoch_end = (
            None if leader_epoch == UNDEFINED_OFFSET else end_of_epoch(self.entries, leader_epoch, log_end_offset)
        )
        return EpochEnd(*(epoch_end or (UNDEFINED_OFFSET, UNDEFINED_OFFSET)))

    def find_epoch(self, offset: int) -> int:
        """Return the leader epoch of ``offset``; -1 if unknown."""
        return next(
            (entry.leader_epoch for entry in reversed(self.entries) if entry.start_offset <= offset), UNDEFINED_OFFSET
        )

    def _write_file(self, entries: Epochs) -> None:
        if entries == self._written_entries:
            return
        if self._written_entries:
            replace_file(self._disk, self.path, write_leader_epochs(entries))
            self.is_flushed = True
        else:
            self.is_flushed = False  # nothing is lost: each partition writes its first epoch at its first append
            overwrite(self._disk, self.path, write_leader_epochs(entries))
        self._written_entries = entries


def _truncate_epochs_below(entries: Epochs, start_offset: int) -> Epochs:
    end = entries[-1].start_offset + 1 if entries else 0
    return checkpoints.truncate_epochs(entries, start_offset=start_offset, end_offset=end)


# ---------------------------------------------------------------------------------------------------------------------
# The segments of a log by base offset (LogSegments).


class LogSegments:
    """The segments of a log by base offset. An open log has at least one; the last one is active."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> LogSegment:
        """The active segment, which is the last one."""
        return self._segments[-1]

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def bases(self) -> tuple[int, ...]:
        """The base offsets, ascending."""
        return tuple(self._bases)

    @property
    def size_bytes(self) -> int:
        """Total size of the segments, in bytes."""
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Add a segment at the end.

        Raises:
            LogDirError: the segment's base offset is not above those of the other segments.
        """
        if self._bases and segment.base_offset <= self._bases[-1]:
            raise LogDirError(
                f"segment {segment.base_offset} follows segment {self._bases[-1]}; base offsets must increase",
                file=segment.path,
            )
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segment: LogSegment) -> None:
        """Remove a segment from the list."""
        segment_number = self._segments.index(segment)
        del self._segments[segment_number], self._bases[segment_number]

    def replace(self, old: Iterable[LogSegment], segment: LogSegment) -> None:
        """Replace adjacent segments with one that has the base offset of the first."""
        replaced_ids = set(map(id, old))
        other_segments = [other for other in self._segments if id(other) not in replaced_ids]
        self._segments = sorted([*other_segments, segment], key=lambda other: other.base_offset)
        self._bases = [other.base_offset for other in self._segments]

    def list_segments_from(self, offset: int) -> list[LogSegment]:
        """Return the segment that contains ``offset`` and all later ones; all segments if it is below the first."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def list_segments_above(self, offset: int) -> list[LogSegment]:
        """Return the segments that start above ``offset``."""
        return self._segments[bisect_right(self._bases, offset) :]

    def next_base(self, segment: LogSegment) -> int | None:
        """Return the base offset of the next segment; None for the last segment."""
        segment_number = bisect_left(self._bases, segment.base_offset) + 1
        return self._bases[segment_number] if segment_number < len(self._bases) else None


# ---------------------------------------------------------------------------------------------------------------------
# The producer snapshots of a log on its disk (the files of ProducerStateManager).

_SNAPSHOT_KIND = "snapshot"


class ProducerSnapshots:
    """The producer snapshots of one partition: at each base offset, and at the end of a closed log.

    Attributes:
        offsets: offsets of the existing snapshots, ascending.
        last: offset of the latest snapshot that was taken or loaded. No snapshot is taken at or below this offset.
        unflushed_files: paths of snapshots that may not be on the disk. A damaged snapshot is detected by its CRC and
            not used.
    """

    def __init__(self, disk: OnlineDisk, directory: str, offsets: Iterable[int]) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = sorted(offsets)
        self.last = self.offsets[-1] if self.offsets else 0
        self.unflushed_files: list[str] = []

    def snapshot_path(self, offset: int) -> str:
        """Return the path of the snapshot at ``offset``."""
        return join(self._directory, name_segment_file(offset, _SNAPSHOT_KIND))

    def take_snapshot(self, offset: int, producers: Iterable[ProducerEntry], *, active_base: int) -> None:
        """Write a snapshot at ``offset``, unless it is not above the latest one; ``flush`` makes it durable.

        The file of a snapshot inside the active segment is reused: it is from an earlier shutdown and not needed.
        """
        if offset <= self.last:
            return
        path = self.snapshot_path(offset)
        if self.offsets and self.offsets[-1] > active_base:
            self._disk.rename(self.snapshot_path(self.offsets[-1]), path)
            self._forget_unflushed(self.offsets[-1])
        self.unflushed_files.append(path)
        overwrite(self._disk, path, write_producer_snapshot(sort_in_file_order(producers)))
        self.offsets = sorted({*self.offsets, offset})
        self.last = offset

    def flush(self) -> None:
        """Flush all snapshots to the disk."""
        for path in self.unflushed_files:
            self._disk.flush_file(path)
        self.unflushed_files.clear()

    def mark_deleted(self, offset: int) -> list[str]:
        """Rename the snapshot at ``offset`` to ``.deleted``. Return its new path, or an empty list if there is none."""
        if offset not in self.offsets:
            return []
        path = self._forget_unflushed(offset)
        self._disk.rename(path, path + DELETED_SUFFIX)
        return [path + DELETED_SUFFIX]

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Delete the snapshots at or below the log start and above the log end, before producers are reloaded."""
        for offset in [
            snapshot_offset
            for snapshot_offset in self.offsets
            if snapshot_offset > end_offset or snapshot_offset <= start_offset
        ]:
            self.remove(offset)

    def remove_unfinished(self, offset: int) -> None:
        """Delete the partial file of a snapshot that could not be taken."""
        path = self.snapshot_path(offset)
        if offset not in self.offsets and self._disk.stat(path) is not None:
            self._disk.delete(path)
        self.unflushed_files = [unflushed_file for unflushed_file in self.unflushed_files if unflushed_file != path]

    def remove(self, offset: int) -> None:
        """Delete the snapshot at ``offset``."""
        self._disk.delete(self._forget_unflushed(offset))

    def _forget_unflushed(self, offset: int) -> str:
        path = self.snapshot_path(offset)
        self.offsets.remove(offset)
        self.unflushed_files = [unflushed_file for unflushed_file in self.unflushed_files if unflushed_file != path]
        return path


# ---------------------------------------------------------------------------------------------------------------------


class DeletedFile(NamedTuple):
    """A file that was renamed to ``.deleted``, and the time of its deletion."""

    path: str
    due_ms: int


@dataclass(slots=True, kw_only=True)
class LogState:
    """The state of an open partition log, which all modules of this folder change.

    Attributes:
        log_start_offset: first offset that is served.
        log_end_offset: offset of the next record.
        recovery_point: offset below which all records are on the disk.
        last_flush_ms: time of the last flush, for ``flush.ms``.
        topic_id: topic id in ``partition.metadata``; None if the file is missing.
        high_watermark: offset up to which consumers may read, set by the owner of the log.
        bytes_lost: number of bytes that recovery truncated or set aside, because they are not a whole batch or follow
            such bytes.
        whole_until: ``.log`` path and position of the first lost byte; None if no bytes were lost.
        torn: segments in which a reader reached an incomplete batch: end position of the whole batches, by path.
        has_files: whether the directory exists; the first append creates it (``flushing.prepare_active_segment``).
        is_linked: whether the directory is on the disk, with the file names that it had when the log was opened.
        linked_base: base offset of the active segment, if its file name is known to be on the disk.
    """

    disk: OnlineDisk
    directory: str
    topic_partition: TopicPartition
    settings: LogSettings
    segments: LogSegments
    epochs: LeaderEpochs
    producers: Producers
    snapshots: ProducerSnapshots
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    last_flush_ms: int
    topic_id: str | None = None
    high_watermark: int = 0
    deleted_files: list[DeletedFile] = field(default_factory=list)
    bytes_lost: int = 0
    torn: dict[str, int] = field(default_factory=dict)
    whole_until: tuple[str, int] | None = None
    is_closed: bool = False
    has_files: bool = True
    is_linked: bool = True
    linked_base: int = -1
    _append: tuple[LogSettings, int, str, AppendSettings] | None = None

    def __post_init__(self) -> None:
        self.high_watermark = max(self.high_watermark, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The end offset of a ``read_committed`` read.

        This is the start of the first transaction that is open or whose marker is not replicated, at most the high
        watermark.
        """
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def get_append_settings(self, leader_epoch: int, origin: str) -> AppendSettings:
        """Return the settings with which an append is validated; successive appends get the same object."""
        cached = self._append
        if cached is None or cached[0] is not self.settings or cached[1:3] != (leader_epoch, origin):
            append_settings = to_append_settings(self.settings, leader_epoch, origin)
            self._append = cached = self.settings, leader_epoch, origin, append_settings
        return cached[3]

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, limited to the log's offsets, and return it."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.remove_replicated(self.high_watermark)
        return self.high_watermark

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset to ``offset``; return False if it is not below ``offset``.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark.
        """
        if offset > self.high_watermark:
            reason = f"log start offset {offset} is above the high watermark {self.high_watermark}"
            raise OffsetOutOfRangeError(f"{self.topic_partition}: {reason}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True
