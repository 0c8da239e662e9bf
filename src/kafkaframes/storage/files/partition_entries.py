"""From the listing of a partition's directory to a ``Partition``: its files by offset and kind, its small files read.

The listing need not be a directory's: a view of objects in a store, or of several copies, is listed in the same way.
A small text file that is corrupt does not hide the segments: it stands in ``problems``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.directory import LogFile, Partition, Segment
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, split
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition

_Parsed = TypeVar("_Parsed")
SMALL_FILE_BYTES = 64 << 20  # more than any checkpoint of any broker


def read_small(
    filesystem: FileSystem, entry: FileInfo | None, parse: Callable[..., _Parsed], problems: list[LogDirError]
) -> _Parsed | None:
    """Read a small listed file. A malformed one is added to ``problems``; a disk or store that fails raises."""
    if entry is None:
        return None
    try:
        raw = filesystem.read(entry.path, length=SMALL_FILE_BYTES)
    except LogDirError:
        if filesystem.stat(entry.path) is None:  # a broker replaces these files while it runs
            return None
        raise
    try:
        return parse(raw, file=entry.path)
    except LogDirError as error:
        problems.append(error)
        return None


def partition_of_entries(
    filesystem: FileSystem,
    path: str,
    entries: Iterable[FileInfo],
    log_directory: str,
    offsets: Mapping[str, Mapping[TopicPartition, int]],
) -> Partition:
    """Return the partition whose directory holds ``entries``; its name is the path's last step.

    Args:
        filesystem: reads the small files among them.
        path, entries: the directory, and what was listed there.
        log_directory: the directory above it.
        offsets: the broker's checkpoints, by file name.
    """
    name = DirectoryName.parse(split(path)[1]) or DirectoryName(TopicPartition(split(path)[1], 0))
    files = {entry.name: entry for entry in entries if not entry.is_directory}
    parsed = [
        LogFile(file_name, entry.path, entry.size_bytes, entry.mtime_ms)
        for entry in files.values()
        if (file_name := FileName.parse(entry.name)) is not None
    ]
    final = {(file.name.offset, file.name.kind): file for file in parsed if not file.name.temporary}
    bases = sorted(offset for offset, kind in final if kind == "log")
    problems: list[LogDirError] = []
    epochs = files.get(names.LEADER_EPOCH_CHECKPOINT)
    return Partition(
        topic_partition=name.topic_partition,
        directory=path,
        log_directory=log_directory,
        state=name.state,
        segments=tuple(_segment(final, base) for base in bases),
        kraft_snapshots=tuple(Segment(file) for file in parsed if _is_final(file, "checkpoint")),
        producer_snapshots=tuple(file for file in parsed if _is_final(file, "snapshot")),
        temporary=tuple(file for file in parsed if file.name.temporary),
        orphans=tuple(
            file
            for (offset, kind), file in final.items()
            if kind in names.SEGMENT_KINDS and (offset, "log") not in final
        ),
        leader_epochs=read_small(filesystem, epochs, checkpoints.read_leader_epochs, problems),
        metadata=read_small(
            filesystem, files.get(names.PARTITION_METADATA), checkpoints.read_partition_metadata, problems
        ),
        checkpointed={
            file: values[name.topic_partition]
            for file, values in offsets.items()
            if not name.state and name.topic_partition in values
        },
        problems=tuple(problems),
    )


def _is_final(file: LogFile, kind: str) -> bool:
    return file.name.kind == kind and not file.name.temporary


def _segment(files: Mapping[tuple[int, str], LogFile], base: int) -> Segment:
    return Segment(
        files[base, "log"],
        index=files.get((base, "index")),
        time_index=files.get((base, "timeindex")),
        txn_index=files.get((base, "txnindex")),
        snapshot=files.get((base, "snapshot")),
    )
