"""The state of one partition's log: its segments, offsets, producers and epochs, as one value that can change.

``PartitionLog`` is this with all that is done to it: appending, fetching, flushing and retention are functions of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.errors import LogDirError, OffsetOutOfRangeError
from kafkaframes.records.append.settings import AppendSettings
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import Epochs, EpochStart, end_of_epoch, last_epoch, write_leader_epochs
from kafkaframes.storage.files.disk import OnlineDisk, overwrite, replace_file
from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import TopicPartition, segment_file_name
from kafkaframes.storage.files.producer_files import ProducerEntry, write_producer_snapshot
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.rebuild import in_file_order
from kafkaframes.storage.partition.segment import DELETED, LogSegment
from kafkaframes.storage.partition.settings import LogSettings, for_append

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
        return last_epoch(self.entries)

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
        known = None if leader_epoch == UNDEFINED else end_of_epoch(self.entries, leader_epoch, log_end_offset)
        return EpochEnd(*(known or (UNDEFINED, UNDEFINED)))

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
            self.is_flushed = False  # nothing is lost: each partition writes its first epoch at its first append
            overwrite(self._disk, self.path, write_leader_epochs(entries))
        self._written = entries


def _from(entries: Epochs, start_offset: int) -> Epochs:
    end = entries[-1].start_offset + 1 if entries else 0
    return checkpoints.truncated(entries, start_offset=start_offset, end_offset=end)


# ---------------------------------------------------------------------------------------------------------------------
# The segments of a log by base offset (LogSegments).


class Segments:
    """At least one segment, once the log is open; the last one is active."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(tuple(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> LogSegment:
        """The segment that is appended to: the last one."""
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
        """How many bytes the batches of all segments have."""
        return sum(one.size_bytes for one in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Add a segment behind the others.

        Raises:
            LogDirError: it does not lie behind them.
        """
        if self._bases and segment.base_offset <= self._bases[-1]:
            raise LogDirError(f"a segment {segment.base_offset} follows {self._bases[-1]}", file=segment.path)
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def remove(self, segment: LogSegment) -> None:
        """Take a segment out of the list."""
        at = self._segments.index(segment)
        del self._segments[at], self._bases[at]

    def replace(self, old: Iterable[LogSegment], segment: LogSegment) -> None:
        """Replace neighbouring segments by one that has the base offset of the first."""
        gone = set(map(id, old))
        kept = [other for other in self._segments if id(other) not in gone]
        self._segments = sorted([*kept, segment], key=lambda other: other.base_offset)
        self._bases = [other.base_offset for other in self._segments]

    def from_floor(self, offset: int) -> list[LogSegment]:
        """Return the segment that holds ``offset`` and all later ones; all segments if it lies before the first."""
        return self._segments[max(bisect_right(self._bases, offset) - 1, 0) :]

    def above(self, offset: int) -> list[LogSegment]:
        """Return the segments that begin above ``offset``."""
        return self._segments[bisect_right(self._bases, offset) :]

    def next_base(self, segment: LogSegment) -> int | None:
        """Return where the following segment begins; None behind the last."""
        at = bisect_left(self._bases, segment.base_offset) + 1
        return self._bases[at] if at < len(self._bases) else None


# ---------------------------------------------------------------------------------------------------------------------
# The producer snapshots of a log on its disk (the files of ProducerStateManager).

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


# ---------------------------------------------------------------------------------------------------------------------


class Deleted(NamedTuple):
    """A file that was renamed to ``.deleted``, and when it is to be deleted."""

    path: str
    due_ms: int


@dataclass(slots=True, kw_only=True)
class LogState:
    """The state of an open log.

    Attributes:
        log_start_offset: the first offset that is served.
        log_end_offset: the offset that the next record gets.
        recovery_point: every offset below it is on the disk.
        last_flush_ms: when the log was flushed last, for ``flush.ms``.
        topic_id: as ``partition.metadata`` has it; None where there is none.
        high_watermark: the offset up to which consumers may read; the log's owner sets it.
        bytes_lost: what the recovery cut off or set aside when the log was opened, because it is no whole batch or
            lies behind such.
        whole_until: where that began: a ``.log`` and its first byte that was not kept; None where nothing was cut.
        torn: of segments that a reader has come to the end of, the byte at which their whole batches end before the
            file does, by path: a size there reaches beyond the file.
        has_files: whether its directory is there; the first append makes it (``flushing.prepare``).
        is_linked: whether its directory is on the disk, with the names that were in it when the log was opened.
        linked_base: the base offset of the active segment, if its name is known to be on the disk.
    """

    disk: OnlineDisk
    directory: str
    topic_partition: TopicPartition
    settings: LogSettings
    segments: Segments
    epochs: LeaderEpochs
    producers: Producers
    snapshots: Snapshots
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    last_flush_ms: int
    topic_id: str | None = None
    high_watermark: int = 0
    deleted: list[Deleted] = field(default_factory=list)
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
        """Where ``read_committed`` ends: the first open transaction, or one whose marker is not replicated; at most the
        high watermark.
        """
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def settings_of_append(self, leader_epoch: int, origin: str) -> AppendSettings:
        """Return the validator's settings, without the time; the same object for append after append."""
        known = self._append
        if known is None or known[0] is not self.settings or known[1:3] != (leader_epoch, origin):
            made = for_append(self.settings, leader_epoch, origin)
            self._append = known = self.settings, leader_epoch, origin, made
        return known[3]

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log's bounds; return it."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.replicated_to(self.high_watermark)
        return self.high_watermark

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset up to ``offset``; False where it is there already.

        Raises:
            OffsetOutOfRangeError: it lies above the high watermark.
        """
        if offset > self.high_watermark:
            reason = f"log start offset {offset} above the high watermark {self.high_watermark}"
            raise OffsetOutOfRangeError(f"{self.topic_partition}: {reason}")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        return True
