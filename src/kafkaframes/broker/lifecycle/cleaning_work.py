"""Compact closed segments of an open log into new files next to the old files.

The log itself is not changed, so that a compaction can run in a thread while records are appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kafkaframes.broker.lifecycle.cleaning_round import CleaningRange
from kafkaframes.errors import LogDirError
from kafkaframes.storage.cleaner.filter import BatchFilter
from kafkaframes.storage.cleaner.latest import walk_dirty_part
from kafkaframes.storage.cleaner.plan import CleanerSettings, CleaningPlan, group_segments
from kafkaframes.storage.cleaner.round import make_segment_sources, overflows_index, read_kept_batches
from kafkaframes.storage.cleaner.walk import CleanedTransactions
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.disk import OnlineDisk
from kafkaframes.storage.files.indexes import write_indexes
from kafkaframes.storage.files.producer_files import AbortedTransaction, write_txn_index
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.producer_state import KEEPS_FORMATS, REWRITES_OLD
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.rebuild import INDEXED_COLUMNS, build_indexes
from kafkaframes.storage.partition.segment_replacement import cleaned_file_path

_WRITE_CHUNK_BYTES = 1 << 20  # smallest size of a write to a compacted segment, except for the last
_LATEST_FORMAT = 2


class _CompactionCancelledError(Exception):
    """Raised in a compaction that was cancelled."""


def write_compacted(cleaning_range: CleaningRange, is_stopped: Callable[[], bool]) -> list[dict[int, tuple[int, ...]]]:
    """Write the compacted segments next to the old segments. The log itself is not changed.

    Returns:
        Base offsets of the replaced segments, by the base offset of the new segment; empty if the compaction was
        cancelled.

    Raises:
        LogDirError: a file is damaged, or a new segment's range exceeds the limits of an index.
        StorageError: the disk fails.
    """
    try:
        return [_write_compacted_segments(cleaning_range, is_stopped)]
    except _CompactionCancelledError:
        return []


def _write_compacted_segments(
    cleaning_range: CleaningRange, is_stopped: Callable[[], bool]
) -> dict[int, tuple[int, ...]]:
    plan, settings, disk = _build_plan(cleaning_range), _build_settings(cleaning_range), cleaning_range.log.disk
    latest = walk_dirty_part(disk, plan)
    transactions = CleanedTransactions()
    filter_ = BatchFilter(plan.producers, settings, latest, transactions, end_offset=plan.first_uncleanable_offset)
    groups: dict[int, tuple[int, ...]] = {}
    segments = plan.list_segments_between(0, plan.first_uncleanable_offset)
    for group in group_segments(segments, settings, plan.first_uncleanable_offset):
        transactions.kept_transactions = []
        base = group[0].base_offset
        chunks = read_kept_batches(disk, make_segment_sources(plan, group, settings), filter_, transactions)
        _write_file(disk, cleaned_file_path(plan.partition.directory, base, "log"), chunks, is_stopped)
        _write_indexes(disk, plan.partition.directory, base, settings, transactions.kept_transactions)
        _copy_modification_time(disk, plan.partition.directory, base, group[-1])
        groups[base] = tuple(segment.base_offset for segment in group)
    return groups


def _build_plan(cleaning_range: CleaningRange) -> CleaningPlan:
    """Return the cleaner's plan for a range of a log."""
    producers = Producers.from_entries(cleaning_range.producers)
    start, high_watermark = cleaning_range.dirty, cleaning_range.high_watermark
    return CleaningPlan(
        cleaning_range.partition,
        start,
        cleaning_range.end,
        "",
        cleaning_range.log_end_offset,
        high_watermark,
        cleaning_range.aborted,
        producers,
    )


def _build_settings(cleaning_range: CleaningRange) -> CleanerSettings:
    """Return the cleaner's settings for a range of a log."""
    settings = cleaning_range.log.settings
    return CleanerSettings(
        now_ms=cleaning_range.now_ms,
        broker_release=REWRITES_OLD if settings.record_format >= _LATEST_FORMAT else KEEPS_FORMATS,
        delete_retention_ms=cleaning_range.delete_retention_ms,
        segment_bytes=settings.segment_bytes,
        index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        first_dirty_offset=cleaning_range.dirty,
        high_watermark=cleaning_range.high_watermark,
    )


def _write_file(
    disk: OnlineDisk, path: str, chunks: Iterable[bytes | memoryview], is_stopped: Callable[[], bool] = lambda: False
) -> None:
    """Write a file of chunks, and flush it."""
    file = disk.open_unpooled(path)
    try:
        file.truncate(0)
        position, waiting = 0, bytearray()
        for chunk in chunks:
            if is_stopped():
                raise _CompactionCancelledError
            waiting += chunk
            if len(waiting) >= _WRITE_CHUNK_BYTES:
                file.write(position, bytes(waiting))
                position, waiting = position + len(waiting), bytearray()
        file.write(position, bytes(waiting))
        file.fsync()
    finally:
        file.close()


def _copy_modification_time(disk: OnlineDisk, directory: str, base: int, last: Segment) -> None:
    """Set the modification time of a compacted segment to that of its last source segment (Cleaner.cleanSegments).

    For old record formats, the modification time decides how long tombstones are retained. Without timestamps, the
    modification time also decides when a segment is deleted.
    """
    if last.log.mtime_ms is not None:
        for kind in ("log", "index", "timeindex"):
            disk.set_modified(cleaned_file_path(directory, base, kind), last.log.mtime_ms)


def _write_indexes(
    disk: OnlineDisk, directory: str, base: int, settings: CleanerSettings, kept_transactions: list[AbortedTransaction]
) -> None:
    path = cleaned_file_path(directory, base, "log")
    file = disk.stat(path)
    size_bytes = 0 if file is None else file.size_bytes
    tables = [np.empty((len(INDEXED_COLUMNS), 0), np.int64)]
    with disk.open(path) as read_at:
        for window in scan_segment(read_at, size_bytes=size_bytes, position=0, includes_data=True, file=path):
            tables.append(np.stack([window.batches.column(name) for name in INDEXED_COLUMNS]))
    columns = np.concatenate(tables, axis=1)
    if overflows_index(base, columns):
        raise LogDirError("the segment's offsets are too far above its base offset; a restart splits it", file=path)
    offset_index, time_index = build_indexes(base, *columns, interval_bytes=settings.index_interval_bytes)
    index_files = write_indexes(offset_index, time_index)
    if kept_transactions:
        index_files["txnindex"] = write_txn_index(kept_transactions)
    for kind, content in index_files.items():
        _write_file(disk, cleaned_file_path(directory, base, kind), [content])
