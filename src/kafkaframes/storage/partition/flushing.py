"""Flush a log to the disk, and roll it, which flushes the old segment before the next one is made."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import StorageError
from kafkaframes.storage.files.disk import DiskFile
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.state import LogState


def flush(state: LogState, *, now_ms: int) -> None:
    """Flush everything to the disk; afterwards the recovery point is the log end offset.

    Raises:
        StorageError: the disk fails. The recovery point stays.
    """
    segments = state.segments.from_floor(state.recovery_point)
    for segment in segments:
        segment.flush()
    if segments[-1].base_offset >= state.recovery_point:
        state.disk.sync_directory(state.directory)
    state.recovery_point = state.log_end_offset
    state.last_flush_ms = now_ms


def flush_if_due(state: LogState, *, now_ms: int) -> None:
    """Flush if ``flush.ms`` has passed.

    Raises:
        StorageError: the disk fails.
    """
    if state.log_end_offset > state.recovery_point and now_ms - state.last_flush_ms >= state.settings.flush_ms:
        flush(state, now_ms=now_ms)


def roll(state: LogState, expected_offset: int = 0, *, now_ms: int) -> int:
    """Close the active segment and begin the next one; return its base offset (UnifiedLog.roll).

    The old one is on the disk, with a snapshot of the producers, before the new one is made. An empty segment is not
    rolled.

    Raises:
        StorageError: the disk fails.
    """
    base = max(expected_offset, state.log_end_offset)
    old = state.segments.active
    if base == old.base_offset:
        return base
    segment = LogSegment(state.disk, state.directory, base, size_bytes=0, now_ms=now_ms)
    try:
        old.close()
        flush(state, now_ms=now_ms)
        state.snapshots.take(base, state.producers.entries())
        segment.activate(state.settings, is_new=True)
    except StorageError:  # a segment that is closed, and still the active one, is rolled by the next append
        state.disk.back_online(lambda: _remove_unfinished(state, segment))
        raise
    old.release()
    state.segments.add(segment)
    return base


def _remove_unfinished(state: LogState, segment: LogSegment) -> None:
    segment.release()
    for path in segment.files:
        state.disk.delete(path)
    state.snapshots.remove_unfinished(segment.base_offset)


class Flush(NamedTuple):
    """A flush that can run in another thread; afterwards everything below ``offset`` is on the disk."""

    offset: int
    file: DiskFile

    def run(self) -> None:
        """Wait for the disk; callable from any thread, once.

        Raises:
            StorageError: the disk fails.
        """
        try:
            self.file.fsync()
        finally:
            self.file.close()


def begin(state: LogState) -> Flush:
    """Begin as ``PartitionLog.begin_flush`` says."""
    return Flush(state.log_end_offset, state.disk.open_apart(state.segments.active.path))


def finish(state: LogState, offset: int, *, now_ms: int) -> None:
    """Take note as ``PartitionLog.finish_flush`` says."""
    state.recovery_point = max(state.recovery_point, min(offset, state.log_end_offset))
    state.last_flush_ms = now_ms
