"""Remove records from a log: retention at its start, truncation at its end (UnifiedLog, LocalLog).

Files are renamed to ``.deleted`` first and deleted later, so that open readers can finish. A crash leaves no gap in the
log: at the start the oldest segment is removed first, and at the end the newest. The directory is flushed before new
records are written.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, takewhile

from kafkaframes.errors import LogDirError, OptionError, StorageError
from kafkaframes.storage.files.producer_files import ProducerEntry, read_producer_snapshot
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.transactions import iterate_producer_batches_from
from kafkaframes.storage.partition.flushing import prepare_active_segment, roll
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.settings import UNLIMITED
from kafkaframes.storage.partition.state import DeletedFile, LogState


def delete_old_segments(state: LogState, *, now_ms: int) -> int:
    """Delete the segments that exceed retention by time or size, or end below the log start offset; oldest first.

    Returns:
        Number of deleted segments (UnifiedLog.deleteOldSegments).

    Raises:
        StorageError: the disk fails.
    """
    deletable = _find_segments_below_start(state)
    if "delete" in state.settings.policies:
        deletable = max(deletable, _find_segments_above_size(state), _find_segments_too_old(state, now_ms), key=len)
    if not deletable:
        return 0
    if len(deletable) == len(state.segments):  # a log has at least one segment
        roll(state, now_ms=now_ms)
        deletable = [segment for segment in deletable if segment is not state.segments.active]
    first_kept = state.segments.list_segments_above(deletable[-1].base_offset)[0]
    state.maybe_increment_log_start_offset(first_kept.base_offset)
    _remove_segments(state, deletable, now_ms)
    state.disk.sync_directory(state.directory)
    try:
        state.epochs.truncate_file_from_start(first_kept.base_offset)
    except StorageError:  # surplus epochs in the file are harmless
        if not state.disk.bring_online():
            raise
    return len(deletable)


def _list_deletion_candidates(state: LogState) -> Iterable[tuple[LogSegment, int]]:
    """Yield (segment, next base offset) of all segments below the high watermark, except an empty last segment."""
    for segment in state.segments:
        next_base = state.segments.next_base(segment)
        end = state.log_end_offset if next_base is None else next_base
        if end > state.high_watermark or (next_base is None and segment.size_bytes == 0):
            return
        yield segment, end


def _find_segments_below_start(state: LogState) -> list[LogSegment]:
    def is_below(candidate: tuple[LogSegment, int]) -> bool:
        return candidate[0] is not state.segments.active and candidate[1] <= state.log_start_offset

    return [segment for segment, _ in takewhile(is_below, _list_deletion_candidates(state))]


def _find_segments_above_size(state: LogState) -> list[LogSegment]:
    max_bytes = state.settings.retention_bytes
    if max_bytes < 0:
        return []
    excess_bytes, segments = (
        state.segments.size_bytes - max_bytes,
        [segment for segment, _ in _list_deletion_candidates(state)],
    )
    freed_bytes = accumulate(segment.size_bytes for segment in segments)
    return [segment for segment, size in zip(segments, freed_bytes, strict=True) if size <= excess_bytes]


def _find_segments_too_old(state: LogState, now_ms: int) -> list[LogSegment]:
    max_age_ms = state.settings.retention_ms
    if max_age_ms == UNLIMITED:
        return []
    segments = (segment for segment, _ in _list_deletion_candidates(state))
    return list(takewhile(lambda segment: now_ms - segment.largest_timestamp > max_age_ms, segments))


def _remove_segments(state: LogState, segments: Iterable[LogSegment], now_ms: int) -> None:
    due_ms = now_ms + state.settings.file_delete_delay_ms
    for segment in segments:
        paths = segment.mark_deleted()
        paths += state.snapshots.mark_deleted(segment.base_offset)
        state.segments.remove(segment)
        state.deleted_files += [DeletedFile(path, due_ms) for path in paths]


def remove_deleted_files(state: LogState, *, now_ms: int) -> int:
    """Delete the ``.deleted`` files whose ``file.delete.delay.ms`` has passed; return their number.

    Raises:
        StorageError: the disk fails.
    """
    due_files = [file for file in state.deleted_files if file.due_ms <= now_ms]
    for file in due_files:
        if state.disk.stat(file.path) is not None:
            state.disk.delete(file.path)
        state.deleted_files.remove(file)
    return len(due_files)


def truncate_to(state: LogState, offset: int, *, now_ms: int) -> bool:
    """Truncate the log to ``offset``; return False if it ends at or below ``offset`` (UnifiedLog.truncateTo).

    Raises:
        OptionError: the offset is negative.
        StorageError: the disk fails.
    """
    if offset < 0:
        raise OptionError(f"{state.topic_partition}: cannot be truncated to offset {offset}")
    if offset >= state.log_end_offset:
        state.epochs.truncate_from_end(offset)
        return False
    if state.segments.first.base_offset > offset:
        truncate_fully_and_start_at(state, offset, now_ms=now_ms)
        return True
    state.recovery_point = min(state.recovery_point, offset)
    state.linked_base = -1  # a new segment may get the base offset of a segment that is removed here
    segments = state.segments.list_segments_above(offset)
    if segments:  # deleted before the segment below them is truncated, so that a crash leaves no gap
        _remove_segments(state, reversed(segments), now_ms)
        state.disk.sync_directory(state.directory)
    active = state.segments.active
    active.activate(state.settings)
    active.truncate_to(offset, now_ms=now_ms)
    active.flush()
    state.disk.sync_directory(state.directory)
    state.log_end_offset = offset
    state.log_start_offset = min(offset, state.log_start_offset)
    state.epochs.truncate_from_end(offset)
    reload_producers(state, now_ms=now_ms)
    if state.high_watermark >= offset:
        state.update_high_watermark(offset)
    return True


def truncate_fully_and_start_at(state: LogState, offset: int, *, now_ms: int) -> None:
    """Delete all records and continue at ``offset`` (UnifiedLog.truncateFullyAndStartAt).

    Raises:
        StorageError: the disk fails.
    """
    prepare_active_segment(state, now_ms=now_ms)
    for snapshot in tuple(state.snapshots.offsets):
        state.snapshots.remove(snapshot)
    state.snapshots.last = 0
    state.recovery_point = min(state.recovery_point, offset)
    state.linked_base = -1  # a new segment may get the base offset of a segment that is removed here
    segments = list(state.segments)
    _remove_segments(state, reversed(segments), now_ms)
    state.disk.sync_directory(state.directory)
    segment = LogSegment(state.disk, state.directory, offset, size_bytes=0, now_ms=now_ms)
    segment.activate(state.settings, is_new=True)
    state.segments.add(segment)
    state.disk.sync_directory(state.directory)
    state.epochs.clear()
    state.producers = Producers(expiration_ms=state.settings.producer_id_expiration_ms)
    state.log_start_offset = state.log_end_offset = offset
    state.update_high_watermark(offset)


def reload_producers(state: LogState, *, now_ms: int) -> None:
    """Rebuild the producer state at the new log end, from the last snapshot below it and the batches after that."""
    state.snapshots.remove_outside(state.log_start_offset, state.log_end_offset)
    entries: tuple[ProducerEntry, ...] = ()
    snapshot_offset = state.log_start_offset
    for offset in reversed(tuple(state.snapshots.offsets)):
        path = state.snapshots.snapshot_path(offset)
        try:
            entries, snapshot_offset = read_producer_snapshot(state.disk.read(path), file=path), offset
            break
        except LogDirError:  # fall back to the previous snapshot, as opening a log does
            state.snapshots.remove(offset)
    producers = Producers.from_entries(entries, expiration_ms=state.settings.producer_id_expiration_ms)
    producers.drop_expired(now_ms)
    for segment in state.segments.list_segments_from(snapshot_offset) if snapshot_offset < state.log_end_offset else ():
        for header, markers in iterate_producer_batches_from(segment.reader(), snapshot_offset):
            producers.process_batch(header, markers)
    producers.remove_replicated(state.high_watermark)
    state.producers, state.snapshots.last = producers, snapshot_offset
    state.snapshots.take_snapshot(
        state.log_end_offset, producers.entries(), active_base=state.segments.active.base_offset
    )
