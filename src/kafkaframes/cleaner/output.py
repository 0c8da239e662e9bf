"""The files of a cleaned partition: indexes of a new segment, and what a round does not touch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from kafkaframes.cleaner.settings import CleanerSettings
from kafkaframes.files import names
from kafkaframes.files.directory import LogFile, Partition
from kafkaframes.files.filesystem import FileSystem
from kafkaframes.files.offset_index import write_offset_index
from kafkaframes.files.time_index import write_time_index
from kafkaframes.files.txn_index import AbortedTransaction, write_txn_index
from kafkaframes.log.overflow import MOST_OFFSETS
from kafkaframes.log.rebuild import INDEXED, build_indexes
from kafkaframes.records.layout import PLACE
from kafkaframes.records.scan import FILE, Ints, as_array, scan_all


class OverflowingError(Exception):
    """What is left of a segment reaches further than an index can say: it must be split first, as Kafka does."""


def reaches_too_far(base: int, columns: Ints) -> bool:
    """Say whether a batch of a new segment has an offset that its index cannot have."""
    return int(columns[INDEXED.index("last_offset")].max(initial=base)) - base > MOST_OFFSETS


def indexed_columns(path: Path) -> Ints:
    """Return what the indexes are made of: a row for each of ``INDEXED``, a column a batch."""
    table = scan_file(path)
    columns: Ints = np.stack([table[PLACE[name]] for name in INDEXED])
    return columns


def write_indexes(
    path: Path, base: int, columns: Ints, settings: CleanerSettings, kept: Sequence[AbortedTransaction]
) -> None:
    """Write the indexes beside a segment, of its ``indexed_columns`` and the aborted transactions that it keeps.

    Raises:
        OverflowingError: its offsets reach too far.
    """
    if reaches_too_far(base, columns):
        raise OverflowingError(base)
    offset_index, time_index = build_indexes(base, *columns, interval_bytes=settings.index_interval_bytes)
    path.with_suffix(".index").write_bytes(write_offset_index(offset_index))
    path.with_suffix(".timeindex").write_bytes(write_time_index(time_index))
    if kept:
        path.with_suffix(".txnindex").write_bytes(write_txn_index(kept))


def scan_file(path: Path) -> Ints:
    """Return the headers of a file's batches as a table; the file is mapped, being ours."""
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else as_array(b"")
    return scan_all(data, rules=FILE).table


def keep_mtime(path: Path, last: LogFile) -> None:
    """Give a new segment the time of the last one that went into it."""
    if last.mtime_ms is not None:
        os.utime(path, ns=(last.mtime_ms * 1_000_000,) * 2)


def copy_rest(
    filesystem: FileSystem, partition: Partition, directory: Path, *, gone: set[int], rewritten: set[int]
) -> None:
    """Copy what the round does not touch: later segments, small files, and snapshots but for stray ones.

    A producer snapshot that stands beside no segment is stray, unless it is the one at the log's end; a broker removes
    such files at its next start (``ProducerStateManager.removeStraySnapshots``).
    """
    bases = {segment.base_offset for segment in partition.segments} - gone
    last = max((file.name.offset for file in partition.producer_snapshots), default=-1)
    snapshots = bases | ({last} if last > max(bases, default=-1) else set())
    for info in filesystem.list_directory(partition.directory):
        if info.is_directory:
            continue
        parsed = names.FileName.parse(info.name)
        if parsed is not None and not _stays(parsed, gone | rewritten, snapshots):
            continue
        target = directory / info.name
        with target.open("wb") as out:
            out.writelines(_chunks(filesystem, info.path))
        if info.mtime_ms is not None:
            os.utime(target, ns=(info.mtime_ms * 1_000_000,) * 2)


def _stays(name: names.FileName, cleaned: set[int], snapshots: set[int]) -> bool:
    if name.temporary:
        return False
    if name.kind in names.SEGMENT_KINDS:
        return name.offset not in cleaned
    return name.kind != "snapshot" or name.offset in snapshots


def _chunks(filesystem: FileSystem, path: str, chunk_bytes: int = 4 << 20) -> Iterator[bytes]:
    with filesystem.open(path) as read_at:
        position = 0
        while chunk := read_at(position, chunk_bytes):
            yield chunk
            position += len(chunk)
