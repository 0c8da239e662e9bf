"""The log of one partition, with everything that a broker does to it, without threads or a clock (UnifiedLog).

The caller passes the time (``now_ms``) and calls ``tick`` for everything that Kafka does by schedule: flushing by time,
retention, deletion of files that are due. A rolled segment is flushed before the next one is made, so that
a crash can only cost what was appended since; the log is opened by ``loading.open_log``, which recovers it.

Not thread-safe: one owner, as a partition has one leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaframes.errors import OffsetOutOfRangeError
from kafkaframes.records.append.settings import Raw
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.files.segment_reader import BatchHeader, first_header
from kafkaframes.storage.log.lookup import TimedOffset
from kafkaframes.storage.partition import appending, fetch, flushing, retention
from kafkaframes.storage.partition.appending import LogAppendInfo
from kafkaframes.storage.partition.fetch import FetchData
from kafkaframes.storage.partition.producers import CLIENT, Producers
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.settings import LogSettings
from kafkaframes.storage.partition.state import LeaderEpochs, LogState


@dataclass(slots=True)
class PartitionLog:
    """The log of one topic partition.

    Attributes:
        state: its segments, offsets, producers and epochs; for the modules of this package.
    """

    state: LogState

    # ---------------------------------------------------------------------------------------------- what it is

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition that the log is of."""
        return self.state.topic_partition

    @property
    def directory(self) -> str:
        """The path of the partition's directory."""
        return self.state.directory

    @property
    def settings(self) -> LogSettings:
        """The settings of the log; ``configure`` changes them."""
        return self.state.settings

    @property
    def topic_id(self) -> str | None:
        """The topic's id as ``partition.metadata`` has it; None where there is none."""
        return self.state.topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that is served."""
        return self.state.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the disk."""
        return self.state.recovery_point

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read; ``update_high_watermark`` moves it."""
        return self.state.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where ``read_committed`` ends: the first open transaction, or one whose marker is not replicated; at most the
        high watermark.
        """
        return self.state.last_stable_offset

    @property
    def is_closed(self) -> bool:
        """Whether it was closed or abandoned; appends are refused afterwards."""
        return self.state.is_closed

    @property
    def size_bytes(self) -> int:
        """The bytes of all batches."""
        return self.state.segments.size_bytes

    @property
    def segment_bases(self) -> tuple[int, ...]:
        """The base offsets of the segments."""
        return self.state.segments.bases

    @property
    def has_files(self) -> bool:
        """Whether its directory is there: the first append makes it."""
        return self.state.has_files

    def segment_times(self) -> list[tuple[int, int]]:
        """Return (base offset, last modification in milliseconds) of each segment, as ListOffsets 0 asks for."""
        return [(one.base_offset, one.modified_ms()) for one in self.state.segments]

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The leader epochs, which also answer OffsetsForLeaderEpoch."""
        return self.state.epochs

    @property
    def producers(self) -> Producers:
        """The state of producers and transactions."""
        return self.state.producers

    def configure(self, settings: LogSettings) -> None:
        """Change the settings; segments that exist keep the size of their indexes."""
        self.state.settings = settings

    # ---------------------------------------------------------------------------------------------- appending

    def append_as_leader(
        self,
        records: Raw,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: str = CLIENT,
        header: BatchHeader | None = None,
    ) -> LogAppendInfo:
        """Append a producer's records: checked, with the next offsets (KIP-31).

        Args:
            records: of one partition of a produce request; a bytearray is the log's from now on, which writes offsets
                into it, while bytes are copied.
            leader_epoch: of this leader; written into batches of format 2.
            now_ms: the clock.
            origin: ``CLIENT``, or ``COORDINATOR`` for a coordinator's records and markers.
            header: what ``first_header`` returns of the records, if that was read already.

        Returns:
            The offsets; for a duplicate of one of the producer's last five batches, the offsets of the original.

        Raises:
            AppendRefusedError: with Kafka's exception and error code; nothing has changed.
            StorageError: the disk failed, and the log directory is offline.
        """
        sent = header or first_header(records)
        return appending.append_as_leader(
            self.state, records, sent, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin
        )

    def append_as_follower(self, records: bytes, *, now_ms: int, leader_epoch: int | None = None) -> LogAppendInfo:
        """Append a leader's batches unchanged, with their own offsets.

        Args:
            records: of one partition of a fetch response.
            now_ms: the clock.
            leader_epoch: of the leader that was fetched from; batches of a later one are left out (KAFKA-18723).

        Raises:
            AppendRefusedError: damage, or offsets that do not follow.
            StorageError: the disk failed, and the log directory is offline.
        """
        return appending.append_as_follower(self.state, records, now_ms=now_ms, leader_epoch=leader_epoch)

    def roll(self, expected_offset: int = 0, *, now_ms: int) -> int:
        """Close the active segment and begin the next one; return its base offset.

        The old one is on the disk, with a snapshot of the producers, before the new one is made. An empty segment is
        not rolled.

        Raises:
            StorageError: the disk fails.
        """
        return flushing.roll(self.state, expected_offset, now_ms=now_ms)

    # ---------------------------------------------------------------------------------------------- flushing

    def flush(self, *, now_ms: int) -> None:
        """Flush everything to the disk; afterwards the recovery point is the log end offset.

        Raises:
            StorageError: the disk fails. The recovery point stays.
        """
        flushing.flush(self.state, now_ms=now_ms)

    def begin_flush(self) -> flushing.Flush:
        """Return a flush of everything appended so far; call its ``run`` in any thread, then ``finish_flush``.

        It flushes batches only: a recovery rebuilds missing index entries. Rolled segments are on the disk already.

        Raises:
            StorageError: the disk fails.
        """
        return flushing.begin(self.state)

    def finish_flush(self, offset: int, *, now_ms: int) -> None:
        """Set the recovery point to ``offset``, up to which a flush has completed."""
        flushing.finish(self.state, offset, now_ms=now_ms)

    def flush_if_due(self, *, now_ms: int) -> None:
        """Flush if ``flush.ms`` has passed.

        Raises:
            StorageError: the disk fails.
        """
        flushing.flush_if_due(self.state, now_ms=now_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due: flush by time, retention, deletion of files, expiry of producers.

        Raises:
            StorageError: the disk fails.
        """
        self.flush_if_due(now_ms=now_ms)
        self.delete_old_segments(now_ms=now_ms)
        self.remove_deleted_files(now_ms=now_ms)
        self.producers.drop_expired(now_ms)

    def close(self, *, now_ms: int) -> None:
        """Stop cleanly: flush, write a producer snapshot, trim the files and close them.

        Raises:
            StorageError: the disk fails; the next opening recovers the log.
        """
        if not self.is_closed:
            self.state.disk.flush_all(*self.begin_close())
            self.finish_close(now_ms=now_ms)

    def begin_close(self) -> flushing.Unflushed:
        """End the appends; return what has to be flushed before ``finish_close``, in any thread.

        Raises:
            StorageError: the disk fails.
        """
        return flushing.begin_close(self.state)

    def finish_close(self, *, now_ms: int) -> None:
        """Take note that everything is on the disk, and close the files."""
        self.finish_flush(self.log_end_offset, now_ms=now_ms)
        self.abandon()

    def release(self) -> None:
        """Close the files; they are opened again when they are used."""
        for segment in self.state.segments:
            segment.release()

    def abandon(self) -> None:
        """Close the files without flushing; the log counts as not stopped cleanly."""
        self.release()
        self.state.is_closed = True

    # ---------------------------------------------------------------------------------------------- watermarks

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log's bounds; return it."""
        return self.state.update_high_watermark(offset)

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset up to ``offset``; return False if it is not below it.

        Raises:
            OffsetOutOfRangeError: it lies above the high watermark.
        """
        return self.state.maybe_increment_log_start_offset(offset)

    def delete_records(self, offset: int) -> int:
        """Delete the records below ``offset`` (-1: the high watermark), as DeleteRecords; return the low watermark.

        Raises:
            OffsetOutOfRangeError: the offset lies below 0 or above the high watermark.
        """
        target = self.high_watermark if offset == -1 else offset
        if target < 0:
            raise OffsetOutOfRangeError(f"{self.topic_partition}: no offset {offset}")
        self.maybe_increment_log_start_offset(target)
        return self.log_start_offset

    # ---------------------------------------------------------------------------------------------- cutting

    def delete_old_segments(self, *, now_ms: int) -> int:
        """Apply retention by time, size and log start offset; return how many segments were deleted.

        Raises:
            StorageError: the disk fails.
        """
        return retention.delete_old_segments(self.state, now_ms=now_ms)

    def replace_segments(self, old: Sequence[LogSegment], *, now_ms: int) -> bool:
        """Replace closed segments by a cleaned one (see ``swapping``); return False if they are not there any more.

        Raises:
            StorageError: the disk fails; the next opening completes the replacement or undoes it.
        """
        there = {id(one) for one in self.state.segments if one is not self.state.segments.active}
        if self.is_closed or not all(id(one) in there for one in old):
            return False
        retention.replace_segments(self.state, old, now_ms=now_ms)
        return True

    def remove_deleted_files(self, *, now_ms: int) -> int:
        """Delete the ``.deleted`` files that are older than ``file.delete.delay.ms``; return how many.

        Raises:
            StorageError: the disk fails.
        """
        return retention.remove_deleted_files(self.state, now_ms=now_ms)

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Truncate the log to ``offset``; return False if it does not reach beyond it.

        Raises:
            OptionError: the offset is negative.
            StorageError: the disk fails.
        """
        return retention.truncate_to(self.state, offset, now_ms=now_ms)

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Delete all records; the empty log continues at ``offset``.

        Raises:
            StorageError: the disk fails.
        """
        retention.truncate_fully_and_start_at(self.state, offset, now_ms=now_ms)

    # ---------------------------------------------------------------------------------------------- reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        isolation: str = fetch.HIGH_WATERMARK,
        min_one_message: bool = True,
        stretch_bytes: int | None = None,
    ) -> FetchData:
        """Return the batches from the one that holds ``offset`` on, as the answer to a fetch.

        Args:
            offset: from the log start offset to the log end offset.
            max_bytes: of the answer; with ``min_one_message`` the first batch is returned whole even if it is larger.
            isolation: ``fetch.LOG_END`` (a follower), ``HIGH_WATERMARK`` or ``TXN_COMMITTED``.
            min_one_message: see ``max_bytes``.
            stretch_bytes: if the records have at least this many bytes, they are returned as a ``Stretch`` of the file
                instead of being read, provided that files have descriptors. None: never.

        Raises:
            OffsetOutOfRangeError: the offset is outside the log.
            LogDirError: a segment cannot be read.
        """
        return fetch.read(
            self.state,
            offset,
            max_bytes=max_bytes,
            isolation=isolation,
            min_one_message=min_one_message,
            stretch_bytes=stretch_bytes,
        )

    def offset_for_timestamp(self, timestamp_ms: int) -> TimedOffset | None:
        """Answer ListOffsets by time: the first record at or after it, or one of Kafka's special times (-1, -2, -3).

        Raises:
            LogDirError: a segment cannot be read.
        """
        return fetch.offset_for_timestamp(self.state, timestamp_ms)
