"""Create the files of a log, flush them, roll the active segment and close the log.

A new log has no files. The first append creates the directory, so a partition without records only needs memory, and a
partition without a directory is empty. The creation of the files flushes nothing. Until the first flush of a log
a crash may lose any part of it, and recovery starts at its first batch. The first flush also flushes the directories. A
roll flushes the old segment before it creates the next one.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import StorageError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.checkpoints import PartitionMetadata, write_partition_metadata
from kafkaframes.storage.files.disk import DiskFile, OnlineDisk, write_whole_file
from kafkaframes.storage.files.filesystem import join, split_path
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.state import LogState


def prepare_active_segment(state: LogState, *, now_ms: int) -> None:
    """Prepare the active segment for an append: open it, and create the files of a new log.

    Raises:
        StorageError: the disk fails. If only space is missing, the new directory is removed again.
    """
    active = state.segments.active
    if state.has_files:
        active.activate(state.settings)
        return
    active.created_ms = now_ms
    try:
        _create_files(state, active)
    except StorageError:
        active.release()
        state.disk.bring_online(lambda: remove_directory(state.disk, state.directory))
        raise
    state.has_files = True


def _create_files(state: LogState, active: LogSegment) -> None:
    disk, directory = state.disk, state.directory
    disk.make_directory(directory)
    active.activate(state.settings, is_new=True)
    disk.open_file(join(directory, names.LEADER_EPOCH_CHECKPOINT)).close()
    if state.topic_id is not None:
        raw = write_partition_metadata(PartitionMetadata(state.topic_id))
        write_whole_file(disk, join(directory, names.PARTITION_METADATA), raw, is_flushed=False)


def remove_directory(disk: OnlineDisk, path: str) -> None:
    """Delete a directory and its files, if it exists.

    Raises:
        StorageError: the disk fails.
    """
    if disk.stat(path) is not None:
        for file in disk.list_directory(path):
            disk.delete(file.path)
        disk.delete(path)


def flush(state: LogState, *, now_ms: int) -> None:
    """Flush the log to the disk, and set the recovery point to the log end offset.

    Raises:
        StorageError: the disk fails. The recovery point does not change.
    """
    state.last_flush_ms = now_ms
    if not state.has_files:
        return
    segments = state.segments.list_segments_from(state.recovery_point)
    for segment in segments:
        segment.flush()
    state.epochs.flush()
    state.snapshots.flush()
    files, directories = _list_new_files(state)
    for path in files:
        state.disk.flush_file(path)
    if segments[-1].base_offset >= state.recovery_point:
        directories = directories or [state.directory]
    for path in directories:
        state.disk.sync_directory(path)
    finish_flush(state, state.log_end_offset, now_ms=now_ms)


def _list_new_files(state: LogState) -> tuple[list[str], list[str]]:
    """Return the additional files and directories that the first flush of a new log must flush."""
    if state.is_linked:
        return [], []
    files = [] if state.topic_id is None else [join(state.directory, names.PARTITION_METADATA)]
    return files, [state.directory, split_path(state.directory)[0]]


def flush_if_due(state: LogState, *, now_ms: int) -> None:
    """Flush if ``flush.ms`` has passed.

    Raises:
        StorageError: the disk fails.
    """
    if state.log_end_offset > state.recovery_point and now_ms - state.last_flush_ms >= state.settings.flush_ms:
        flush(state, now_ms=now_ms)


def roll(state: LogState, expected_offset: int = 0, *, now_ms: int) -> int:
    """Close the active segment and create the next one; return its base offset (UnifiedLog.roll).

    The old segment and a producer snapshot are on the disk before the new segment is created. An empty segment is not
    rolled.

    Raises:
        StorageError: the disk fails.
    """
    base = max(expected_offset, state.log_end_offset)
    old = state.segments.active
    if base == old.base_offset:
        return base
    prepare_active_segment(state, now_ms=now_ms)
    segment = LogSegment(state.disk, state.directory, base, size_bytes=0, now_ms=now_ms)
    try:
        old.close()
        flush(state, now_ms=now_ms)
        state.snapshots.take_snapshot(base, state.producers.entries(), active_base=old.base_offset)
        state.snapshots.flush()
        segment.activate(state.settings, is_new=True)
    except StorageError:  # the active segment stays closed, and the next append rolls it
        state.disk.bring_online(lambda: _remove_unfinished(state, segment))
        raise
    old.release()
    state.segments.add(segment)
    return base


def _remove_unfinished(state: LogState, segment: LogSegment) -> None:
    segment.release()
    for path in segment.files:
        state.disk.delete(path)
    state.snapshots.remove_unfinished(segment.base_offset)


class PendingFlush(NamedTuple):
    """A flush that can run in another thread. After ``run``, all records below ``offset`` are on the disk."""

    offset: int
    disk: OnlineDisk
    files: list[DiskFile]
    directories: list[str]

    def run(self) -> None:
        """Flush the files, and wait for the disk. This method can be called once, from any thread.

        Raises:
            StorageError: the disk fails.
        """
        try:
            for file in self.files:
                file.fsync()
            for path in self.directories:
                self.disk.sync_directory(path)
        finally:
            self.close()

    def close(self) -> None:
        """Close the files of a flush that has not run."""
        for file in self.files:
            file.close()


def begin_flush(state: LogState) -> PendingFlush:
    """Return a flush of everything appended so far. Call the result's ``run`` in any thread, then ``finish_flush``.

    The flush includes only batches, because a recovery rebuilds missing index entries. Segments that were rolled are
    already on the disk. The file name of the active segment is flushed with its first batches.

    Raises:
        StorageError: the disk fails.
    """
    files, directories = _list_new_files(state)
    if state.segments.active.base_offset != state.linked_base:
        directories = directories or [state.directory]
    flush = PendingFlush(state.log_end_offset, state.disk, [], directories)
    try:
        for path in (state.segments.active.path, *files):
            flush.files.append(state.disk.open_unpooled(path))
    except StorageError:
        flush.close()
        raise
    return flush


def finish_flush(state: LogState, offset: int, *, now_ms: int) -> None:
    """Set the recovery point to ``offset``, the end offset of a completed flush."""
    state.recovery_point = max(state.recovery_point, min(offset, state.log_end_offset))
    state.last_flush_ms = now_ms
    state.is_linked = True
    # A segment with base offset ``offset`` may have been created since: its name is flushed with its first batches.
    segments = state.segments.list_segments_from(max(offset - 1, 0))
    if segments and segments[0].base_offset < offset:
        state.linked_base = segments[0].base_offset


class UnflushedPaths(NamedTuple):
    """Paths of the files and directories that must be flushed, files first, before a clean shutdown is complete."""

    files: list[str]
    directories: list[str]


def begin_close(state: LogState) -> UnflushedPaths:
    """Close the log for appends, and write the files that the next opening reads; the caller flushes and closes them.

    Raises:
        StorageError: the disk fails.
    """
    if not state.has_files:
        return UnflushedPaths([], [])
    active = state.segments.active
    is_changed = active.is_active or not state.is_linked or state.recovery_point < state.log_end_offset
    active.close()
    segments = state.segments.list_segments_from(state.recovery_point) if is_changed else ()
    files = [path for segment in segments for path in segment.filled_files]
    state.snapshots.take_snapshot(state.log_end_offset, state.producers.entries(), active_base=active.base_offset)
    files += state.snapshots.unflushed_files
    state.epochs.write()
    files += [] if state.epochs.is_flushed else [state.epochs.path]
    new_files, directories = _list_new_files(state)
    return UnflushedPaths([*files, *new_files], directories or ([state.directory] if files else []))
