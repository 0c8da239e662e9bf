"""Search for a key in every record of every file, to prove that no record has the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.convert.damage import find_damaged_batches
from kafkaframes.jobs.convert.job import Source, SourceLog, open_source_log
from kafkaframes.jobs.job import (
    Runner,
    run_here,
)
from kafkaframes.records.decode import decode_steps
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.scan import as_array
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.discover import discover


@dataclass(frozen=True, slots=True)
class KeySearchTask:
    """One file to search for records with a key. Tasks are picklable."""

    filesystem: FileSystem
    path: str
    size_bytes: int
    key: bytes


@dataclass(frozen=True, slots=True)
class KeySearchResult:
    """The result of a search for a key: the records with the key, and the data that could not be read.

    Attributes:
        files: number of files with records that were read completely.
        records: (file, offset) of each record with the key.
        unread: (file, position, reason) of unreadable data, which prevents a proof.
    """

    files: int
    records: tuple[tuple[str, int], ...]
    unread: tuple[tuple[str, int, str], ...]

    @property
    def is_gone(self) -> bool:
        """Whether all files were read completely, and none has a record with the key. Tombstones count as records."""
        return not self.records and not self.unread

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence as JSON values."""
        return {"gone": self.is_gone, "files": self.files, "found": self.records, "unread": self.unread}

    @property
    def lines(self) -> list[str]:
        """The evidence as text: the records, the unreadable data, and the verdict."""
        records = [f"the key is in {file}, offset {offset}" for file, offset in self.records]
        unread = [f"unreadable: {file}, byte {position}: {reason}" for file, position, reason in self.unread]
        verdict = "proven gone: no record has the key" if self.is_gone else "NOT proven gone"
        files = f"{count_text(self.files, 'file')} {verb_text(self.files, 'was', 'were')} read"
        return [*records, *unread, f"{verdict}; {files}"]


def search_for_key(
    path: Source, key: bytes, *, run: Runner = run_here, storage: Mapping[str, Any] | None = None
) -> KeySearchResult:
    """Search for a key in every record below ``path``, including snapshots, temporary files and renamed segments.

    If there are several log directories, all are read, even if they are copies of each other.

    Raises:
        LogDirError: no log exists at the path, or a log cannot be read.
    """
    files = [
        (log.filesystem, info)
        for log in _list_all_logs(path, storage)
        for info in _list_files_recursively(
            log.filesystem, log.directory.partitions[0].directory if log.kind == "segment" else log.path
        )
        if _may_have_records(info)
    ]
    tasks = [KeySearchTask(filesystem, info.path, info.size_bytes, key) for filesystem, info in files]
    answers = list(run(search_file, tasks))
    records = tuple(record for part, _ in answers for record in part)
    return KeySearchResult(len(tasks), records, tuple(record for _, unread_parts in answers for record in unread_parts))


def _list_all_logs(path: Source, storage: Mapping[str, Any] | None) -> Iterator[SourceLog]:
    """Yield the log directories, partitions and segments at a path, or at several."""
    for source in [path] if isinstance(path, str) else path:
        directories = discover(source, options=storage)
        if len(directories) == 1:
            yield open_source_log(source, storage=storage)
        else:
            yield from (SourceLog(directory.path, "directory", directory) for directory in directories)


def _list_files_recursively(filesystem: FileSystem, directory: str) -> Iterator[FileInfo]:
    """Yield all files below a directory."""
    for info in filesystem.list_directory(directory):
        if info.is_directory:
            yield from _list_files_recursively(filesystem, info.path)
        else:
            yield info


def _may_have_records(info: FileInfo) -> bool:
    """Return whether a file is a segment or a KRaft snapshot, by its name."""
    file_name = FileName.parse(info.name)
    return info.name.endswith(".checkpoint") or (file_name is not None and file_name.kind in ("log", "checkpoint"))


def search_file(task: KeySearchTask) -> tuple[list[tuple[str, int]], list[tuple[str, int, str]]]:
    """Return the records of a file that have the key, and the unreadable positions."""
    records: list[tuple[str, int]] = []
    unread: list[tuple[str, int, str]] = []
    with task.filesystem.open(task.path) as read_at:
        for window in scan_segment(read_at, size_bytes=task.size_bytes, includes_data=True, file=task.path):
            positions = window.batches.column("position")
            for records_of_file in decode_steps(as_array(window.data), window.batches_in_data()):
                records += [(task.path, offset) for offset in _find_offsets_of_key(records_of_file, task.key)]
                damaged_batches = find_damaged_batches(records_of_file)
                unread += [
                    (task.path, int(positions[records_of_file.first + batch]), reason)
                    for batch, reason in damaged_batches.items()
                ]
            end = window.batches.end
            if not end.can_continue and end.position < task.size_bytes:
                unread.append((task.path, end.position, end.reason))
    return records, unread


def _find_offsets_of_key(records_of_file: DecodedBatches, key: bytes) -> list[int]:
    """Return the offsets of the records with this key."""
    index = records_of_file.index
    candidates = np.flatnonzero(index.key_size == len(key))
    if not len(key):
        return [int(offset) for offset in index.offsets[candidates]]
    key_bytes = np.frombuffer(key, np.uint8)
    for position_in_key in (
        0,
        len(key) - 1,
        len(key) // 2,
    ):  # most keys differ in one of these bytes, so few keys are compared in full
        candidates = candidates[
            records_of_file.sections.buf[index.key_at[candidates] + position_in_key] == key_bytes[position_in_key]
        ]
    positions = index.key_at[candidates].tolist()
    buf = records_of_file.sections.buf
    has_key = [buf[position : position + len(key)].tobytes() == key for position in positions]
    return [int(offset) for offset, is_same in zip(index.offsets[candidates], has_key, strict=True) if is_same]
