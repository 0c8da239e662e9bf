"""The files of a cleaned partition: indexes of a new segment, and what a round does not touch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kafkaframes.records.layout import COLUMN
from kafkaframes.records.scan import FILE, Ints, as_array, scan_all
from kafkaframes.storage.cleaner.settings import CleanerSettings
from kafkaframes.storage.files import names
from kafkaframes.storage.files.atomic import copy_file, new_file
from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.indexes import write_offset_index, write_time_index
from kafkaframes.storage.files.txn_index import AbortedTransaction, write_txn_index
from kafkaframes.storage.log.overflow import MOST_OFFSETS
from kafkaframes.storage.log.rebuild import INDEXED, build_indexes


class OverflowingError(Exception):
    """The remaining offsets of a segment do not fit an index: it must be split first, as Kafka does."""


def reaches_too_far(base: int, columns: Ints) -> bool:
    """Say whether a batch of a new segment has an offset that does not fit its index."""
    return int(columns[INDEXED.index("last_offset")].max(initial=base)) - base > MOST_OFFSETS


def indexed_columns(path: Path) -> Ints:
    """Return the header fields from which indexes are made: a row for each of ``INDEXED``, a column a batch."""
    table = scan_file(path)
    columns: Ints = np.stack([table[COLUMN[name]] for name in INDEXED])
    return columns


def write_indexes(
    path: Path, base: int, columns: Ints, settings: CleanerSettings, kept: Sequence[AbortedTransaction]
) -> None:
    """Write the indexes beside a segment, of its ``indexed_columns`` and the aborted transactions that it keeps.

    Raises:
        OverflowingError: its offsets reach too far.
        LogDirError: they cannot be written.
    """
    if reaches_too_far(base, columns):
        raise OverflowingError(base)
    offset_index, time_index = build_indexes(base, *columns, interval_bytes=settings.index_interval_bytes)
    made = {".index": write_offset_index(offset_index), ".timeindex": write_time_index(time_index)}
    if kept:
        made[".txnindex"] = write_txn_index(kept)
    for suffix, content in made.items():
        with new_file(path.with_suffix(suffix)) as out:
            out.write(content)


def scan_file(path: Path) -> Ints:
    """Return the headers of a file's batches as a table. The file is mapped, because only this job writes it."""
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else as_array(b"")
    return scan_all(data, rules=FILE).table


def copy_rest(
    filesystem: FileSystem, partition: Partition, directory: Path, *, gone: set[int], rewritten: set[int]
) -> None:
    """Copy the files that the round does not change: later segments, small files, and snapshots that are not stray.
    They are flushed like the files that the round writes.

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
        copy_file(filesystem, info.path, directory / info.name, mtime_ms=info.mtime_ms)


def _stays(name: names.FileName, cleaned: set[int], snapshots: set[int]) -> bool:
    if name.temporary:
        return False
    if name.kind in names.SEGMENT_KINDS:
        return name.offset not in cleaned
    return name.kind != "snapshot" or name.offset in snapshots
