"""Replace segments by the cleaned segment that was made of them (LocalLog.replaceSegments).

The new files are complete and flushed as ``.cleaned``. They are renamed to ``.swap``, the old ones to ``.deleted``, and
then the new ones to their final names. After a crash recovery keeps the old log before the first step and the new one
after it, which the suffixes tell. Readers of an old segment can continue.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.names import segment_file_name
from kafkaframes.storage.partition.segment import LogSegment
from kafkaframes.storage.partition.state import Deleted, LogState

CLEANED, SWAP = ".cleaned", ".swap"
KINDS = ("log", "index", "timeindex", "txnindex")


def path_of(directory: str, base_offset: int, kind: str) -> str:
    """Return the path of a cleaned segment's file, before it takes its place."""
    return join(directory, segment_file_name(base_offset, kind)) + CLEANED


def remove_cleaned(state: LogState) -> None:
    """Delete the files of cleaned segments that are not finished.

    Raises:
        StorageError: the disk fails.
    """
    for file in state.disk.list_directory(state.directory):
        if file.name.endswith(CLEANED):
            state.disk.delete(file.path)


def replace_segments(state: LogState, old: Sequence[LogSegment], *, now_ms: int) -> None:
    """Replace neighbouring closed segments by the ``.cleaned`` segment that has the first one's base offset.

    Raises:
        StorageError: the disk fails; the next opening completes the replacement or undoes it.
    """
    base = old[0].base_offset
    paths = [join(state.directory, segment_file_name(base, kind)) for kind in KINDS]
    there = [path for path in paths if state.disk.stat(path + CLEANED) is not None]
    for path in there:
        state.disk.rename(path + CLEANED, path + SWAP)
    state.disk.sync_directory(state.directory)
    due_ms = now_ms + state.settings.file_delete_delay_ms
    for segment in old:
        removed = segment.mark_deleted()
        if segment.base_offset != base:
            removed += state.snapshots.mark_deleted(segment.base_offset)
        state.deleted += [Deleted(path, due_ms) for path in removed]
    for path in there:
        state.disk.rename(path + SWAP, path)
    state.disk.sync_directory(state.directory)
    info = state.disk.stat(there[0])
    size_bytes = 0 if info is None else info.size_bytes
    made = LogSegment(state.disk, state.directory, base, size_bytes=size_bytes, now_ms=now_ms)
    state.segments.replace(old, made)
