"""Clean one partition once, from its directory into a new directory. The source directory is only read.

A round has two passes. The first pass reads the dirty part and finds the last offset of each key. The second pass
filters all records up to the end offset of the map. The new directory is complete or absent: it is written under a
temporary name and renamed at the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.layout import COLUMN_INDEX
from kafkaframes.records.memory import Recycler
from kafkaframes.records.scan import FILE, Ints, as_array, scan_all
from kafkaframes.storage.cleaner.filter import BatchFilter, CleaningStatistics
from kafkaframes.storage.cleaner.latest import LatestRecords, walk_dirty_part
from kafkaframes.storage.cleaner.plan import CleanerSettings, CleaningPlan, group_segments
from kafkaframes.storage.cleaner.plan import plan_round as plan_round
from kafkaframes.storage.cleaner.walk import CleanedTransactions, read_windows
from kafkaframes.storage.files import indexes, names
from kafkaframes.storage.files.atomic import copy_file, new_file, write_directory
from kafkaframes.storage.files.directory import Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.producer_files import AbortedTransaction, write_txn_index
from kafkaframes.storage.log.overflow import split_partition
from kafkaframes.storage.log.rebuild import INDEXED_COLUMNS, build_indexes
from kafkaframes.storage.log.swaps import list_segment_files
from kafkaframes.wire.integers import MAX_INT32

# ---------------------------------------------------------------------------------------------------------------------
# The files of a cleaned partition: indexes of new segments, and copies of unchanged files.


class SegmentOffsetOverflowError(Exception):
    """The retained offsets of a segment do not fit an index. As in Kafka, the segment must be split first."""


def overflows_index(base: int, columns: Ints) -> bool:
    """Return whether a batch of a new segment has an offset that does not fit its index."""
    return int(columns[INDEXED_COLUMNS.index("last_offset")].max(initial=base)) - base > MAX_INT32


def read_indexed_columns(path: Path) -> Ints:
    """Return the header fields from which indexes are built.

    The result has a row for each of ``INDEXED_COLUMNS`` and a column for each batch.

    The file is memory-mapped, because only this job writes it.
    """
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else as_array(b"")
    table = scan_all(data, rules=FILE).table
    columns: Ints = np.stack([table[COLUMN_INDEX[name]] for name in INDEXED_COLUMNS])
    return columns


def write_indexes(
    path: Path, base: int, columns: Ints, settings: CleanerSettings, aborted_transactions: Sequence[AbortedTransaction]
) -> None:
    """Write a segment's indexes from its ``read_indexed_columns`` and the aborted transactions that it retains.

    Raises:
        SegmentOffsetOverflowError: an offset does not fit an index.
        LogDirError: an index cannot be written.
    """
    if overflows_index(base, columns):
        raise SegmentOffsetOverflowError(base)
    index_files = indexes.write_indexes(*build_indexes(base, *columns, interval_bytes=settings.index_interval_bytes))
    if aborted_transactions:
        index_files["txnindex"] = write_txn_index(aborted_transactions)
    for kind, content in index_files.items():
        with new_file(path.with_suffix(f".{kind}")) as out:
            out.write(content)


def copy_unchanged_files(
    filesystem: FileSystem,
    plan: CleaningPlan,
    directory: Path,
    *,
    deleted_bases: Collection[int] = (),
    rewritten_bases: Collection[int] = (),
) -> None:
    """Copy the files that the cleaning does not change: other segments, small files, and snapshots that are not stray.

    Segments of finished swap files are copied under their final names. A transaction index that differs from the
    markers is rebuilt from the markers. The copies are flushed like the files that the round writes.

    A producer snapshot without a segment at its offset is stray, unless it is the one at the log end. A broker removes
    stray snapshots when it starts (``ProducerStateManager.removeStraySnapshots``).

    Args:
        deleted_bases: base offsets of the segments that the round merged into earlier ones.
        rewritten_bases: base offsets of the segments that the round wrote.
    """
    partition = plan.partition
    for segment in partition.segments:
        if segment.base_offset not in deleted_bases and segment.base_offset not in rewritten_bases:
            _copy_segment(filesystem, segment, directory, plan.txn_indexes.get(segment.base_offset))
    bases = {segment.base_offset for segment in partition.segments}.difference(deleted_bases)
    last = max((file.name.offset for file in partition.producer_snapshots), default=-1)
    offsets = bases | ({last} if last > max(bases, default=-1) else set())
    snapshots = {file.path for file in partition.producer_snapshots if file.name.offset in offsets}
    for info in filesystem.list_directory(partition.directory):
        file_name = names.FileName.parse(info.name)
        if not info.is_directory and (file_name is None or file_name.kind == "checkpoint" or info.path in snapshots):
            copy_file(filesystem, info.path, directory / info.name, mtime_ms=info.mtime_ms)


def _copy_segment(filesystem: FileSystem, segment: Segment, directory: Path, txn_index: bytes | None) -> None:
    """Copy a segment and its indexes.

    Args:
        txn_index: content of the transaction index; None to copy the existing one.
    """
    for file in list_segment_files(segment):
        if file.name.kind != "txnindex" or txn_index is None:
            copy_file(filesystem, file.path, directory / str(file.name), mtime_ms=file.mtime_ms)
    if txn_index:
        name = names.name_segment_file(segment.base_offset, "txnindex")
        with new_file(directory / name, mtime_ms=segment.log.mtime_ms) as out:
            out.write(txn_index)


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """The result of one cleaning of a partition: the merged segments and the statistics.

    Attributes:
        end_offset: first dirty offset of the next round, for the cleaner's checkpoint.
        groups: base offsets of the merged segments, by the base offset of the new segment.
    """

    plan: CleaningPlan
    end_offset: int
    groups: dict[int, tuple[int, ...]]
    tally: CleaningStatistics
    directory: Path


def clean_partition(
    filesystem: FileSystem,
    partition: Partition,
    settings: CleanerSettings,
    destination: Path,
    *,
    map_bytes: int | None = None,
) -> CleaningResult | None:
    """Clean a partition into ``destination``, which must not exist; return None if there is nothing to clean.

    Args:
        map_bytes: memory limit of the map of keys; None for no limit.

    Raises:
        LogDirError: a file cannot be read or is damaged, or ``destination`` exists. No new file remains.
        MapFullError: the keys need more memory than ``map_bytes``. Nothing is written.
    """
    plan = plan_round(filesystem, partition, settings)
    if plan.is_empty:
        return None
    if destination.exists():
        raise LogDirError("exists already", file=str(destination))
    latest = walk_dirty_part(filesystem, plan, map_bytes=map_bytes)
    try:
        with write_directory(destination) as directory:
            result = _write_segments(filesystem, plan, settings, latest, directory)
    except SegmentOffsetOverflowError:  # as in Kafka: split the segment and start the round again
        return clean_partition(
            *_split_overflowing_segments(filesystem, partition), settings, destination, map_bytes=map_bytes
        )
    end, groups, tally = result
    return CleaningResult(plan, end, groups, tally, destination)


def _split_overflowing_segments(filesystem: FileSystem, partition: Partition) -> tuple[FileSystem, Partition]:
    view, split_log = split_partition(filesystem, partition)
    if split_log is partition:
        raise LogDirError(
            "the offsets are too far from the base offset for an index, and decrease, so the segment cannot be split",
            file=partition.directory,
        )
    return view, split_log


def _write_segments(
    filesystem: FileSystem, plan: CleaningPlan, settings: CleanerSettings, latest: LatestRecords, directory: Path
) -> tuple[int, dict[int, tuple[int, ...]], CleaningStatistics]:
    end_offset = plan.first_uncleanable_offset
    segments = plan.list_segments_between(0, end_offset)
    transactions = CleanedTransactions()
    filter_ = BatchFilter(plan.producers, settings, latest, transactions, end_offset=end_offset)
    groups: dict[int, tuple[int, ...]] = {}
    for group in group_segments(segments, settings, plan.first_uncleanable_offset):
        transactions.kept_transactions = []
        base = group[0].base_offset
        groups[base] = tuple(segment.base_offset for segment in group)
        path = directory / names.name_segment_file(base, "log")
        with new_file(path, mtime_ms=group[-1].log.mtime_ms) as out:
            out.writelines(
                read_kept_batches(filesystem, make_segment_sources(plan, group, settings), filter_, transactions)
            )
        filter_.tally.bytes_written += path.stat().st_size
        write_indexes(path, base, read_indexed_columns(path), settings, transactions.kept_transactions)
    cleaned_bases = {base for bases in groups.values() for base in bases}
    copy_unchanged_files(
        filesystem, plan, directory, deleted_bases=cleaned_bases - groups.keys(), rewritten_bases=groups.keys()
    )
    return end_offset, groups, filter_.tally


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment to clean, or a part of one, with the state that depends on the rest of the partition.

    Attributes:
        aborted_transactions: aborted transactions that overlap the segment's offsets; they become known at the start of
            the segment.
        is_dirty: whether the segment is in the dirty part, which the first pass reads.
        retain_old_deletes: whether tombstones without a delete horizon are retained.
        start: position of the part's first batch.
        end: end position of the part; None for the end of the segment.
        first_offset: first offset of the part, above all offsets of earlier parts; None for a whole segment.
    """

    segment: Segment
    aborted_transactions: tuple[AbortedTransaction, ...]
    is_dirty: bool
    retain_old_deletes: bool
    start: int = 0
    end: int | None = None
    first_offset: int | None = None

    @property
    def size_bytes(self) -> int:
        """Number of bytes to read."""
        return (self.segment.size_bytes if self.end is None else self.end) - self.start

    @property
    def base_offset(self) -> int:
        """The base offset of the segment, or the first offset of the part."""
        return self.segment.base_offset if self.first_offset is None else self.first_offset

    def read_windows(self, filesystem: FileSystem, memory: Recycler) -> Iterator[DecodedBatches]:
        """Decode the segment, window by window."""
        return read_windows(filesystem, self.segment, memory=memory, start=self.start, end=self.end)


def make_segment_sources(
    plan: CleaningPlan, segments: Sequence[Segment], settings: CleanerSettings
) -> list[SourceSegment]:
    """Return adjacent segments as the sources from which the cleaner writes the new segments."""
    horizon = _find_tombstone_horizon(plan, settings)
    bases = [segment.base_offset for segment in plan.partition.segments]
    sources = []
    for segment in segments:
        next_index = bisect_right(bases, segment.base_offset)
        next_base = bases[next_index] if next_index < len(bases) else plan.log_end_offset
        aborted_transactions = tuple(plan.list_aborted_transactions(segment.base_offset, next_base))
        is_dirty = next_base > plan.first_dirty_offset
        sources.append(SourceSegment(segment, aborted_transactions, is_dirty, (segment.log.mtime_ms or 0) > horizon))
    return sources


def read_kept_batches(
    filesystem: FileSystem, sources: Sequence[SourceSegment], filter_: BatchFilter, transactions: CleanedTransactions
) -> Iterator[bytes | memoryview]:
    """Yield the retained bytes of the segments in order."""
    memory = Recycler()
    for source in sources:
        transactions.add_aborted_transactions(source.aborted_transactions)
        for window in source.read_windows(filesystem, memory):
            yield from filter_.filter_window(window, retain_old_deletes=source.retain_old_deletes)


def preview_partition(
    filesystem: FileSystem, partition: Partition, settings: CleanerSettings, *, map_bytes: int | None = None
) -> tuple[CleaningPlan, CleaningStatistics | None]:
    """Compute the result of a cleaning without writing. The statistics are None if there is nothing to clean.

    Raises:
        LogDirError, MapFullError: same as ``clean_partition``.
    """
    plan = plan_round(filesystem, partition, settings)
    if plan.is_empty:
        return plan, None
    latest = walk_dirty_part(filesystem, plan, map_bytes=map_bytes)
    transactions = CleanedTransactions()
    end_offset = plan.first_uncleanable_offset
    filter_ = BatchFilter(plan.producers, settings, latest, transactions, end_offset=end_offset)
    segments = plan.list_segments_between(0, end_offset)
    for chunk in read_kept_batches(filesystem, make_segment_sources(plan, segments, settings), filter_, transactions):
        filter_.tally.bytes_written += len(chunk)
    return plan, filter_.tally


def _find_tombstone_horizon(plan: CleaningPlan, settings: CleanerSettings) -> int:
    """Return a modification time. Segments that are not newer may lose their old tombstones.

    It is the modification time of the last clean segment minus ``delete.retention.ms``.
    """
    clean = plan.list_segments_between(0, plan.first_dirty_offset)
    return (clean[-1].log.mtime_ms or 0) - settings.delete_retention_ms if clean else 0
