"""How a log gets shorter: retention at its beginning, truncation at its end (UnifiedLog, LocalLog).

Files are renamed to ``.deleted`` first and deleted later, so that who has them open reads on. Each order is chosen so
that a crash leaves no hole: at the beginning the oldest segment goes first, at the end the newest; and the directory
is flushed before anything new is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.files.headers import BatchHeader
from kafkaframes.files.producer_snapshot import ProducerEntry, read_producer_snapshot
from kafkaframes.log.transactions import markers_of
from kafkaframes.partition.producers import Producers
from kafkaframes.partition.segment import LogSegment
from kafkaframes.partition.settings import UNLIMITED

if TYPE_CHECKING:
    from kafkaframes.partition.log import PartitionLog


class Deleted(NamedTuple):
    """A file that waits for its deletion."""

    path: str
    due_ms: int


def delete_old_segments(log: PartitionLog, *, now_ms: int) -> int:
    """Delete the segments that retention lets go, oldest first (UnifiedLog.deleteOldSegments)."""
    deletable = _below_start(log)
    if "delete" in log.settings.policies:
        deletable = max(deletable, _too_large(log), _too_old(log, now_ms), key=len)
    if not deletable:
        return 0
    if len(deletable) == len(log.parts.segments):  # a log has at least one segment
        log.roll(now_ms=now_ms)
        deletable = [one for one in deletable if one is not log.parts.segments.active]
    first_kept = log.parts.segments.above(deletable[-1].base_offset)[0]
    log.maybe_increment_log_start_offset(first_kept.base_offset)
    _remove(log, deletable, now_ms)
    log.parts.disk.sync_directory(log.directory)
    log.parts.epochs.segments_begin_at(first_kept.base_offset)
    return len(deletable)


def _candidates(log: PartitionLog) -> Iterable[tuple[LogSegment, int]]:
    """Yield the segments that lie below the high watermark with where the next begins, but for an empty last one."""
    for segment in log.parts.segments:
        after = log.parts.segments.next_base(segment)
        end = log.log_end_offset if after is None else after
        if end > log.high_watermark or (after is None and segment.size_bytes == 0):
            return
        yield segment, end


def _below_start(log: PartitionLog) -> list[LogSegment]:
    active = log.parts.segments.active
    found = []
    for segment, end in _candidates(log):
        if segment is active or end > log.log_start_offset:
            break
        found.append(segment)
    return found


def _too_large(log: PartitionLog) -> list[LogSegment]:
    over = log.size_bytes - log.settings.retention_bytes
    found: list[LogSegment] = []
    if log.settings.retention_bytes == UNLIMITED:
        return found
    for segment, _ in _candidates(log):
        over -= segment.size_bytes
        if over < 0:
            break
        found.append(segment)
    return found


def _too_old(log: PartitionLog, now_ms: int) -> list[LogSegment]:
    found: list[LogSegment] = []
    if log.settings.retention_ms == UNLIMITED:
        return found
    for segment, _ in _candidates(log):
        if now_ms - segment.largest_timestamp <= log.settings.retention_ms:
            break
        found.append(segment)
    return found


def _remove(log: PartitionLog, doomed: Iterable[LogSegment], now_ms: int) -> None:
    due_ms = now_ms + log.settings.file_delete_delay_ms
    for segment in doomed:
        paths = segment.mark_deleted()
        paths += log.parts.snapshots.mark_deleted(segment.base_offset)
        log.parts.segments.remove(segment)
        log.deleted += [Deleted(path, due_ms) for path in paths]


def remove_deleted_files(log: PartitionLog, *, now_ms: int) -> int:
    """Delete the files whose time has come."""
    due = [one for one in log.deleted if one.due_ms <= now_ms]
    for one in due:
        if log.parts.disk.stat(one.path) is not None:
            log.parts.disk.delete(one.path)
        log.deleted.remove(one)
    return len(due)


def truncate_to(log: PartitionLog, offset: int, *, now_ms: int) -> bool:
    """Cut the log's end off (UnifiedLog.truncateTo)."""
    parts = log.parts
    if offset < 0:
        raise OptionError(f"{log.topic_partition}: cannot be cut at offset {offset}")
    if offset >= log.log_end_offset:
        parts.epochs.truncate_from_end(offset)
        return False
    if parts.segments.first.base_offset > offset:
        truncate_fully_and_start_at(log, offset, now_ms=now_ms)
        return True
    parts.recovery_point = min(log.recovery_point, offset)
    doomed = parts.segments.above(offset)
    if doomed:  # gone for good before the one below them is cut: there would be a hole
        _remove(log, reversed(doomed), now_ms)
        parts.disk.sync_directory(log.directory)
    active = parts.segments.active
    active.activate(parts.settings)
    active.truncate_to(offset, now_ms=now_ms)
    active.flush()
    parts.disk.sync_directory(log.directory)
    parts.log_end_offset = offset
    parts.log_start_offset = min(offset, log.log_start_offset)
    parts.epochs.truncate_from_end(offset)
    reload_producers(log, now_ms=now_ms)
    if log.high_watermark >= offset:
        log.update_high_watermark(offset)
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: int, *, now_ms: int) -> None:
    """Drop everything (UnifiedLog.truncateFullyAndStartAt)."""
    parts = log.parts
    for snapshot in tuple(parts.snapshots.offsets):
        parts.snapshots.remove(snapshot)
    parts.snapshots.last = 0
    parts.recovery_point = min(log.recovery_point, offset)
    segments = list(parts.segments)
    _remove(log, reversed(segments), now_ms)
    parts.disk.sync_directory(log.directory)
    segment = LogSegment(parts.disk, log.directory, offset, size_bytes=0, now_ms=now_ms)
    segment.activate(parts.settings, is_new=True)
    parts.segments.add(segment)
    parts.disk.sync_directory(log.directory)
    parts.epochs.clear()
    parts.producers = Producers(expiration_ms=parts.settings.producer_id_expiration_ms)
    parts.log_start_offset = parts.log_end_offset = offset
    log.update_high_watermark(offset)


def reload_producers(log: PartitionLog, *, now_ms: int) -> None:
    """Bring the producers back to the log's new end: the last snapshot below it, and the batches since."""
    parts = log.parts
    parts.snapshots.remove_outside(log.log_start_offset, log.log_end_offset)
    entries: tuple[ProducerEntry, ...] = ()
    at = log.log_start_offset
    for offset in reversed(tuple(parts.snapshots.offsets)):
        path = parts.snapshots.path_of(offset)
        try:
            entries, at = read_producer_snapshot(parts.disk.read(path), file=path), offset
            break
        except LogDirError:  # as at a start: the one before it will do
            parts.snapshots.remove(offset)
    producers = Producers.of_entries(entries, expiration_ms=parts.settings.producer_id_expiration_ms)
    producers.drop_expired(now_ms)
    for segment in parts.segments.from_floor(at):
        _replay(segment, at, producers)
    producers.replicated_to(log.high_watermark)
    parts.producers, parts.snapshots.last = producers, at
    parts.snapshots.take(log.log_end_offset, producers.entries())


def _replay(segment: LogSegment, from_offset: int, producers: Producers) -> None:
    def is_new(header: BatchHeader) -> bool:
        return header.last_offset >= from_offset and header.magic >= 2 and header.has_producer

    with segment.reader() as reader:
        for header in reader.producer_headers(reader.start_before(from_offset)):
            if is_new(header):
                producers.see(header, tuple(markers_of(reader, header)) if header.is_control else ())
