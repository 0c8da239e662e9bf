"""Flush a log to the disk, roll it, which flushes the old segment before the next one is made, and close it."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import StorageError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.disk import DiskFile, OnlineDisk
from kafkaframes.storage.files.filesystem import join, split
from kafkaframes.storage.partition.making import prepare
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.state import LogState


def flush(state: LogState, *, now_ms: int) -> None:
    """Flush everything to the disk; afterwards the recovery point is the log end offset.

    Raises:
        StorageError: the disk fails. The recovery point stays.
    """
    state.last_flush_ms = now_ms
    if not state.has_files:
        return
    segments = state.segments.from_floor(state.recovery_point)
    for segment in segments:
        segment.flush()
    state.epochs.flush()
    state.snapshots.flush()
    files, directories = _unlinked(state)
    for path in files:
        state.disk.flush_file(path)
    if segments[-1].base_offset >= state.recovery_point:
        directories = directories or [state.directory]
    for path in directories:
        state.disk.sync_directory(path)
    finish(state, state.log_end_offset, now_ms=now_ms)


def _unlinked(state: LogState) -> tuple[list[str], list[str]]:
    """Return the files and directories that the first flush of a new log has to flush, too: none for others."""
    if state.is_linked:
        return [], []
    files = [] if state.topic_id is None else [join(state.directory, names.PARTITION_METADATA)]
    return files, [state.directory, split(state.directory)[0]]


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
    prepare(state, now_ms=now_ms)
    segment = LogSegment(state.disk, state.directory, base, size_bytes=0, now_ms=now_ms)
    try:
        old.close()
        flush(state, now_ms=now_ms)
        state.snapshots.take(base, state.producers.entries(), active_base=old.base_offset)
        state.snapshots.flush()
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
    disk: OnlineDisk
    files: list[DiskFile]
    directories: list[str]

    def run(self) -> None:
        """Wait for the disk; callable from any thread, once.

        Raises:
            StorageError: the disk fails.
        """
        try:
            for file in self.files:
                file.fsync()
            for path in self.directories:
                self.disk.sync_directory(path)
        finally:
            for file in self.files:
                file.close()


def begin(state: LogState) -> Flush:
    """Begin as ``PartitionLog.begin_flush`` says."""
    files, directories = _unlinked(state)
    opened = [state.disk.open_apart(path) for path in (state.segments.active.path, *files)]
    return Flush(state.log_end_offset, state.disk, opened, directories)


def finish(state: LogState, offset: int, *, now_ms: int) -> None:
    """Take note as ``PartitionLog.finish_flush`` says."""
    state.recovery_point = max(state.recovery_point, min(offset, state.log_end_offset))
    state.last_flush_ms = now_ms
    state.is_linked = True


class Unflushed(NamedTuple):
    """What has to be flushed before a log counts as stopped cleanly: files, then directories, by path."""

    files: list[str]
    directories: list[str]


def begin_close(state: LogState) -> Unflushed:
    """End the appends, and write what the next opening reads; the caller flushes it, and closes the files.

    Raises:
        StorageError: the disk fails.
    """
    if not state.has_files:
        return Unflushed([], [])
    active = state.segments.active
    is_changed = active.is_active or not state.is_linked or state.recovery_point < state.log_end_offset
    active.close()
    segments = state.segments.from_floor(state.recovery_point) if is_changed else ()
    files = [path for segment in segments for path in segment.filled_files]
    state.snapshots.take(state.log_end_offset, state.producers.entries(), active_base=active.base_offset)
    files += state.snapshots.unflushed
    state.epochs.write()
    files += [] if state.epochs.is_flushed else [state.epochs.path]
    unlinked, directories = _unlinked(state)
    return Unflushed([*files, *unlinked], directories or ([state.directory] if files else []))
