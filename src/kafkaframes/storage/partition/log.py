"""The log of one partition, with all operations that a broker needs, without threads or a clock (UnifiedLog).

The caller passes the time (``now_ms``) and calls ``tick`` for the work that Kafka schedules: flushing by time,
retention and deletion of files. A rolled segment is flushed before the next one is created. A crash can therefore only
lose records that were appended after the last roll. ``loading.open_log`` opens a log and recovers it if necessary.

A log is not thread-safe. A log has one owner, as a partition has one leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaframes.errors import OffsetOutOfRangeError
from kafkaframes.storage.partition import appending, fetch, flushing, retention, segment_replacement
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.settings import LogSettings
from kafkaframes.storage.partition.state import LogState


@dataclass(slots=True, kw_only=True)
class PartitionLog(LogState):
    """The log of one topic partition: its state and the operations on it."""

    append_as_leader = appending.append_as_leader
    append_as_follower = appending.append_as_follower
    read = fetch.read_for_fetch
    find_offset_for_timestamp = fetch.find_offset_for_timestamp
    roll = flushing.roll
    flush = flushing.flush
    flush_if_due = flushing.flush_if_due
    begin_flush = flushing.begin_flush
    finish_flush = flushing.finish_flush
    begin_close = flushing.begin_close
    delete_old_segments = retention.delete_old_segments
    remove_deleted_files = retention.remove_deleted_files
    truncate_to = retention.truncate_to
    truncate_fully_and_start_at = retention.truncate_fully_and_start_at

    @property
    def size_bytes(self) -> int:
        """Total size of all batches, in bytes."""
        return self.segments.size_bytes

    @property
    def segment_bases(self) -> tuple[int, ...]:
        """The base offsets of the segments."""
        return self.segments.bases

    def segment_times(self) -> list[tuple[int, int]]:
        """Return (base offset, last modification time in milliseconds) of each segment, for ListOffsets version 0."""
        return [(segment.base_offset, segment.read_modification_time()) for segment in self.segments]

    def configure(self, settings: LogSettings) -> None:
        """Change the settings. Existing segments keep the size of their indexes."""
        self.settings = settings

    def tick(self, now_ms: int) -> None:
        """Run the work that is due: flush by time, apply retention, delete files and expire producers.

        Raises:
            StorageError: the disk fails.
        """
        self.flush_if_due(now_ms=now_ms)
        self.delete_old_segments(now_ms=now_ms)
        self.remove_deleted_files(now_ms=now_ms)
        self.producers.drop_expired(now_ms)

    def follow_clock_step(self, step_ms: int) -> None:
        """Shift the due times of deletions and flushes by a step of the wall clock."""
        self.last_flush_ms += step_ms
        self.deleted_files = [file._replace(due_ms=file.due_ms + step_ms) for file in self.deleted_files]

    def close(self, *, now_ms: int) -> None:
        """Close the log cleanly: flush it, write a producer snapshot, and trim and close the files.

        Raises:
            StorageError: the disk fails; the next opening recovers the log.
        """
        if not self.is_closed:
            self.disk.flush_all(*self.begin_close())
            self.finish_close(now_ms=now_ms)

    def finish_close(self, *, now_ms: int) -> None:
        """Record that everything is on the disk, and close the files."""
        self.finish_flush(self.log_end_offset, now_ms=now_ms)
        self.abandon()

    def release(self) -> None:
        """Close the files. The next access opens the files again."""
        for segment in self.segments:
            segment.release()

    def abandon(self) -> None:
        """Close the files without flushing, as an unclean shutdown does."""
        self.release()
        self.is_closed = True

    def delete_records(self, offset: int) -> int:
        """Delete the records below ``offset`` (-1: the high watermark), like DeleteRecords; return the low watermark.

        Raises:
            OffsetOutOfRangeError: the offset is negative or above the high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0:
            raise OffsetOutOfRangeError(f"{self.topic_partition}: {offset} is not a valid offset")
        self.maybe_increment_log_start_offset(target)
        return self.log_start_offset

    def replace_segments(self, old: Sequence[LogSegment], *, now_ms: int) -> bool:
        """Replace closed segments with a compacted one (see ``retention``); return False if they no longer exist.

        Raises:
            StorageError: the disk fails; the next opening completes the replacement or undoes it.
        """
        inactive_ids = {id(segment) for segment in self.segments if segment is not self.segments.active}
        if self.is_closed or not all(id(segment) in inactive_ids for segment in old):
            return False
        segment_replacement.replace_segments(self, old, now_ms=now_ms)
        return True
