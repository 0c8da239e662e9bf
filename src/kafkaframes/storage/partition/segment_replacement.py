"""Replace segments with the compacted segment that the cleaner wrote (LocalLog.replaceSegments).

The new files are complete and flushed as ``.cleaned``. First the new files are renamed to ``.swap``, then the old files
to ``.deleted``, and finally the new files to their final names. Recovery decides by these suffixes: after a crash
before the first rename it keeps the old log, and after a later crash the new log. Readers of an old segment can
continue to read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import SEGMENT_KINDS, name_segment_file
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.state import DeletedFile, LogState

CLEANED, SWAP = ".cleaned", ".swap"


def cleaned_file_path(directory: str, base_offset: int, kind: str) -> str:
    """Return the path of a compacted segment's file before it replaces the old segments."""
    return join(directory, name_segment_file(base_offset, kind)) + CLEANED


def remove_cleaned(state: LogState) -> None:
    """Delete the files of unfinished compacted segments.

    Raises:
        StorageError: the disk fails.
    """
    for file in state.disk.list_directory(state.directory):
        if file.name.endswith(CLEANED):
            state.disk.delete(file.path)


def replace_segments(state: LogState, old: Sequence[LogSegment], *, now_ms: int) -> None:
    """Replace adjacent closed segments with the ``.cleaned`` segment that has the base offset of the first.

    Raises:
        StorageError: the disk fails; the next opening completes the replacement or undoes it.
    """
    base = old[0].base_offset
    paths = [join(state.directory, name_segment_file(base, kind)) for kind in SEGMENT_KINDS]
    there = [path for path in paths if state.disk.stat(path + CLEANED) is not None]
    for path in there:
        state.disk.rename(path + CLEANED, path + SWAP)
    state.disk.sync_directory(state.directory)
    due_ms = now_ms + state.settings.file_delete_delay_ms
    for segment in old:
        deleted_files = segment.mark_deleted()
        if segment.base_offset != base:
            deleted_files += state.snapshots.mark_deleted(segment.base_offset)
        state.deleted_files += [DeletedFile(path, due_ms) for path in deleted_files]
    for path in there:
        state.disk.rename(path + SWAP, path)
    state.disk.sync_directory(state.directory)
    info = state.disk.stat(there[0])
    size_bytes = 0 if info is None else info.size_bytes
    new_segment = LogSegment(state.disk, state.directory, base, size_bytes=size_bytes, now_ms=now_ms)
    state.segments.replace(old, new_segment)
