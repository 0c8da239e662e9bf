"""The state of one partition's log: its segments, offsets, producers and epochs, as one value that can change.

``loading`` makes it and ``PartitionLog`` owns it; appending, fetching, flushing and retention are functions of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaframes.errors import OffsetOutOfRangeError
from kafkaframes.records.append.settings import AppendSettings
from kafkaframes.storage.files.disk import OnlineDisk
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition.epochs import LeaderEpochs
from kafkaframes.storage.partition.producers import Producers
from kafkaframes.storage.partition.segments import Segments
from kafkaframes.storage.partition.settings import LogSettings, for_append
from kafkaframes.storage.partition.snapshots import Snapshots


class Deleted(NamedTuple):
    """A file that was renamed to ``.deleted``, and when it is to be deleted."""

    path: str
    due_ms: int


@dataclass(slots=True, kw_only=True)
class LogState:
    """The state of an open log.

    Attributes:
        disk: where its files are.
        directory: of the partition.
        topic_partition: whose log it is.
        settings: of the log; they can be changed while it is open.
        segments, epochs, producers, snapshots: see the modules of those names.
        log_start_offset: the first offset that is served.
        log_end_offset: the offset that the next record gets.
        recovery_point: every offset below it is on the disk.
        last_flush_ms: when the log was flushed last, for ``flush.ms``.
        topic_id: as ``partition.metadata`` has it; None where there is none.
        high_watermark: the offset up to which consumers may read; the log's owner sets it.
        deleted: the files that wait for their deletion.
        bytes_lost: what the recovery cut off or set aside when the log was opened, because it is no whole batch or
            lies behind such.
        whole_until: where that began: a ``.log`` and its first byte that was not kept; None where nothing was cut.
        torn: of segments that a reader has come to the end of, the byte at which their whole batches end before the
            file does, by path: a size there reaches beyond the file.
        is_closed: whether appends are refused.
        has_files: whether its directory is there; the first append makes it (``making``).
        is_linked: whether its directory is on the disk with the names in it.
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
