"""Prove that a key is gone: every record of every file that has any is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kafkaframes.jobs.convert.batches import damaged_batches
from kafkaframes.jobs.convert.job import Log, Source, one_log
from kafkaframes.jobs.job import Runner, run_here
from kafkaframes.records.decode import in_turn
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import as_array
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.discover import discover


@dataclass(frozen=True, slots=True)
class SearchTask:
    """One file to search for records with a key; picklable."""

    filesystem: FileSystem
    path: str
    size_bytes: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a key is gone.

    Attributes:
        files: how many files with records were read, from first to last byte.
        records: file, offset of each record that has the key.
        unread: file, position, reason: what could not be read, so that nothing is proven.
    """

    files: int
    records: tuple[tuple[str, int], ...]
    unread: tuple[tuple[str, int, str], ...]

    @property
    def is_gone(self) -> bool:
        """Whether every file was read and none has a record with the key, a tombstone included."""
        return not self.records and not self.unread


def prove_gone(path: Source, key: bytes, *, run: Runner = run_here, storage: Mapping[str, Any] | None = None) -> Proof:
    """Read every record below ``path`` and look for a key: segments, snapshots, temporary and renamed ones, too.

    Of several log directories every one is read, whether they are copies of each other or not.

    Raises:
        LogDirError: there is nothing, or it cannot be read.
    """
    listed = [
        (log.filesystem, info)
        for log in _every_log(path, storage)
        for info in _walk(log.filesystem, _top(log))
        if _has_records(info)
    ]
    tasks = [SearchTask(filesystem, info.path, info.size_bytes, key) for filesystem, info in listed]
    answers = list(run(search, tasks))
    return Proof(
        len(tasks),
        tuple(one for records, _ in answers for one in records),
        tuple(one for _, bad in answers for one in bad),
    )


def _every_log(path: Source, storage: Mapping[str, Any] | None) -> Iterator[Log]:
    for source in [path] if isinstance(path, str) else path:
        directories = discover(source, options=storage)
        if len(directories) == 1:
            yield one_log(source, half_done=True, storage=storage)
        else:
            yield from (Log(directory.path, "directory", directory) for directory in directories)


def _top(log: Log) -> str:
    return log.path if log.kind != "segment" else log.directory.partitions[0].directory


def _walk(filesystem: FileSystem, directory: str) -> Iterator[FileInfo]:
    for info in filesystem.list_directory(directory):
        if info.is_directory:
            yield from _walk(filesystem, info.path)
        else:
            yield info


def _has_records(info: FileInfo) -> bool:
    parsed = FileName.parse(info.name)
    return info.name.endswith(".checkpoint") or (parsed is not None and parsed.kind in ("log", "checkpoint"))


def search(task: SearchTask) -> tuple[list[tuple[str, int]], list[tuple[str, int, str]]]:
    """Return the records of a file that have the key, and what could not be read."""
    records: list[tuple[str, int]] = []
    unread: list[tuple[str, int, str]] = []
    with task.filesystem.open(task.path) as read_at:
        for window in scan_segment(read_at, size_bytes=task.size_bytes, whole=True, file=task.path):
            positions = window.batches.column("position")
            for decoded in in_turn(as_array(window.data), window.in_data()):
                records += [(task.path, offset) for offset in _offsets_of(decoded, task.key)]
                bad = damaged_batches(decoded)
                unread += [(task.path, int(positions[decoded.first + batch]), reason) for batch, reason in bad.items()]
            end = window.batches.end
            if not end.goes_on and end.position < task.size_bytes:
                unread.append((task.path, end.position, end.reason))
    return records, unread


def _offsets_of(decoded: Decoded, key: bytes) -> list[int]:
    index = decoded.index
    candidates = np.flatnonzero(index.key_size == len(key))
    if not len(key):
        return [int(offset) for offset in index.offsets[candidates]]
    key_bytes = np.frombuffer(key, np.uint8)
    for at in (0, len(key) - 1, len(key) // 2):  # most differ here, so little is gathered below
        candidates = candidates[decoded.sections.buf[index.key_at[candidates] + at] == key_bytes[at]]
    positions = index.key_at[candidates].tolist()
    buf = decoded.sections.buf
    same = [buf[position : position + len(key)].tobytes() == key for position in positions]
    return [int(offset) for offset, is_same in zip(index.offsets[candidates], same, strict=True) if is_same]
