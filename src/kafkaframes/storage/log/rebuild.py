"""Rebuild the indexes and producer snapshots of segments from their batches, byte for byte as Kafka does.

``LogSegment.recover`` reads the batches in order. The offset index and the time index get an entry when the distance
between the current batch and the batch of the last entry exceeds ``index.interval.bytes``. At the end of the segment,
the time index gets an entry with the largest timestamp. ``build_indexes`` applies these index rules to columns.
``rebuild_indexes`` reads a segment and also returns its aborted transactions, producers and leader epochs.

``ProducerStateLoader`` determines the producer snapshots of a partition after Kafka has loaded it (KIP-98). The class
implements Kafka's ProducerStateManager and UnifiedLog.rebuildProducerState on snapshots in memory. Kafka deletes a
snapshot that is corrupt, stray, or after the recovered offset. The loader takes a snapshot after each recovered
segment, at the last two segments and at the log end.

This module returns contents and writes no files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import BATCH_COLUMNS, CONTROL, TRANSACTIONAL
from kafkaframes.records.scan import BatchHeaders, Ints
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.indexes import NO_TIMESTAMP, OffsetIndex, TimeIndex, write_indexes
from kafkaframes.storage.files.producer_files import (
    AbortedTransaction,
    ProducerEntry,
    read_producer_snapshot,
    write_producer_snapshot,
    write_txn_index,
)
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.files.segment_reader import SegmentReader
from kafkaframes.storage.log.producers import DEFAULT_EXPIRATION_MS, Producers
from kafkaframes.storage.log.transactions import OpenTransactions, Seen, iterate_producer_batches, read_markers

INDEX_INTERVAL_BYTES = 4096  # the default of index.interval.bytes
INDEXED_COLUMNS = ("position", "last_offset", "max_timestamp")  # the columns from which indexes are built


@dataclass(frozen=True, slots=True)
class RebuiltIndexes:
    """The offset, time and transaction indexes of one segment, and the state after its last batch.

    Attributes:
        next_offset: offset after the last batch; for an empty segment, its base offset.
        producers_end: offset after the last batch of format 2, up to which the producer states are complete; the base
            offset if no batch has format 2.
        epochs: start of each leader epoch that is above all earlier epochs of the segment.
    """

    offset_index: OffsetIndex
    time_index: TimeIndex
    aborted_transactions: tuple[AbortedTransaction, ...]
    next_offset: int
    producers_end: int
    epochs: tuple[EpochStart, ...] = ()

    @property
    def files(self) -> dict[str, bytes]:
        """The content of the three files, by file kind. Without aborted transactions, the ``txnindex`` is empty."""
        return write_indexes(self.offset_index, self.time_index) | {
            "txnindex": write_txn_index(self.aborted_transactions)
        }


def build_indexes(
    base_offset: int,
    positions: Ints,
    last_offsets: Ints,
    max_timestamps: Ints,
    *,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
) -> tuple[OffsetIndex, TimeIndex]:
    """Return the offset index and the time index of a segment.

    Args:
        positions, last_offsets, max_timestamps: columns of the segment's batches, in order; positions in bytes,
            timestamps in milliseconds since 1970.
    """
    entries = _select_index_entries(positions, interval_bytes)
    largest = np.maximum.accumulate(np.maximum(max_timestamps, NO_TIMESTAMP))
    return (
        OffsetIndex(base_offset, last_offsets[entries], positions[entries]),
        _build_time_index(base_offset, entries, last_offsets, largest),
    )


def _select_index_entries(positions: Ints, interval_bytes: int) -> Ints:
    entries: list[int] = []
    nexts: list[int] = np.searchsorted(positions, positions + interval_bytes, side="right").tolist()
    row = int(np.searchsorted(positions, interval_bytes, side="right"))
    while row < len(nexts):
        entries.append(row)
        row = nexts[row]
    return np.array(entries, np.int64)


def _build_time_index(base_offset: int, entries: Ints, last_offsets: Ints, largest: Ints) -> TimeIndex:
    """Build a time index. An entry whose timestamp is not above that of the previous entry is omitted."""
    if not len(largest):
        return TimeIndex(base_offset, np.empty(0, np.int64), np.empty(0, np.int64))
    rows = np.concatenate((entries, [len(largest) - 1]))
    previous_largest = np.concatenate(([NO_TIMESTAMP], largest[rows[:-1]]))
    rows = rows[largest[rows] > previous_largest]
    reached_at = np.searchsorted(largest, largest[rows], side="left")
    return TimeIndex(base_offset, largest[rows], last_offsets[reached_at])


def rebuild_indexes(
    filesystem: FileSystem,
    segment: Segment,
    *,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    follow: OpenTransactions | None = None,
    producers: Producers | None = None,
    headers: Iterable[BatchHeaders] | None = None,
) -> RebuiltIndexes:
    """Rebuild the indexes of a segment of whole batches.

    Args:
        filesystem, segment: discovered segment, truncated after its last valid batch (see ``recovery/plan.py``).
        follow: transactions that are open at the start of the segment; the call updates them to those open at its end.
        producers: producer states at the start of the segment; the call updates them to the states at its end.
        headers: headers of the batches, if they are already read; None reads them.

    Raises:
        LogDirError: the segment cannot be read.
    """
    open_transactions = OpenTransactions() if follow is None else follow
    producers = Producers() if producers is None else producers
    parts: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in INDEXED_COLUMNS}
    epochs: list[EpochStart] = []
    producers_end = segment.base_offset
    aborted_transactions: list[AbortedTransaction] = []
    with filesystem.open(segment.path) as read_at:
        reader = SegmentReader(filesystem, segment, read_at, use_indexes=False)
        windows = scan_segment(read_at, size_bytes=segment.size_bytes, file=segment.path)
        read = (window.batches for window in windows)
        for batches in read if headers is None else headers:
            for name in INDEXED_COLUMNS:
                parts[name].append(batches.column(name).copy())
            of_format_2 = np.flatnonzero(batches.is_v2)
            if len(of_format_2):
                producers_end = int(batches.column("last_offset")[of_format_2[-1]]) + 1
            epochs += _find_new_epochs(batches, epochs[-1].leader_epoch if epochs else -1)
            for header, markers in select_producer_batches(reader, batches):
                producers.process_batch(header, markers)
                aborted_transactions += open_transactions.process_batch(header, markers)
    positions, last_offsets, stamps = (np.concatenate(parts[name]) for name in INDEXED_COLUMNS)
    indexes = build_indexes(segment.base_offset, positions, last_offsets, stamps, interval_bytes=index_interval_bytes)
    next_offset = int(last_offsets[-1]) + 1 if len(last_offsets) else segment.base_offset
    return RebuiltIndexes(*indexes, tuple(aborted_transactions), next_offset, producers_end, tuple(epochs))


def select_producer_batches(reader: SegmentReader, batches: BatchHeaders) -> Iterator[Seen]:
    """Yield the batches that change the state of producers and transactions, with the markers of control batches.

    If any batch is transactional or has markers, all batches with a producer id are yielded. In all other segments,
    only the last batch of each producer is yielded, in the order in which the producers first appear.
    """
    rows = np.flatnonzero(batches.is_v2 & (batches.column("producer_id") >= 0))
    if not len(rows):
        return
    if not (batches.column("attributes")[rows] & (TRANSACTIONAL | CONTROL)).any():
        rows = rows[_find_last_indexes(batches.column("producer_id")[rows])]
    columns = [batches.column(name)[rows].tolist() for name in BATCH_COLUMNS]
    yield from iterate_producer_batches(
        (BatchHeader(*values) for values in zip(*columns, strict=True)), partial(read_markers, reader)
    )


def _find_last_indexes(ids: Ints) -> Ints:
    """Return the last index of each id, in order of first appearance: the order in which Kafka's map adds new ids."""
    _, first = np.unique(ids, return_index=True)
    _, from_end = np.unique(ids[::-1], return_index=True)
    last: Ints = (len(ids) - 1 - from_end)[np.argsort(first)]
    return last


def _find_new_epochs(batches: BatchHeaders, latest: int) -> Iterator[EpochStart]:
    epochs = np.where(batches.is_v2, batches.column("leader_epoch"), -1)
    previous_epochs = np.maximum.accumulate(np.concatenate(([latest], epochs)))[:-1]
    for row in np.flatnonzero(epochs > previous_epochs).tolist():
        yield EpochStart(int(epochs[row]), int(batches.column("base_offset")[row]))


_MIN_JAVA_BUCKETS = 16  # buckets of an empty HashMap in Java
_JAVA_LOAD_FACTOR = 0.75  # entries per bucket above which Java's HashMap grows
Replay = Callable[[int, int], Iterator[Seen]]


@dataclass(slots=True)
class StoredSnapshots:
    """The snapshots of one partition, and the settings of their retention.

    Attributes:
        snapshots: content of each snapshot, by offset.
        now_ms: time of loading, milliseconds since 1970; producers expire after ``expiration_ms`` without a batch.
        record_format: record format of the topic; below 2 (``message.format.version`` before 4.0), snapshots are empty.
    """

    snapshots: dict[int, bytes]
    now_ms: int
    expiration_ms: int = DEFAULT_EXPIRATION_MS
    record_format: int = 2

    def remove_stray_snapshots(self, bases: Iterable[int]) -> None:
        """Remove snapshots that belong to no segment, except the last one if it is after every segment."""
        base_offsets = set(bases)
        strays = sorted(offset for offset in self.snapshots if offset not in base_offsets)
        keep_last = bool(strays) and strays[-1] >= max(base_offsets, default=strays[-1])
        for offset in strays[:-1] if keep_last else strays:
            del self.snapshots[offset]


@dataclass(slots=True)
class ProducerStateLoader:
    """A loader of producer states, which reads and takes snapshots as Kafka's ProducerStateManager does.

    Kafka creates a manager for each recovered segment and one for the log.

    Attributes:
        stored_snapshots: snapshots, shared by all managers of a partition.
        producers: producer states.
        map_end: offset up to which ``producers`` is complete.
        last_snapshot: offset of the latest snapshot that was loaded or taken.
    """

    stored_snapshots: StoredSnapshots
    producers: Producers = field(default_factory=Producers)
    map_end: int = 0
    last_snapshot: int = 0

    def take_snapshot(self) -> None:
        """Take a snapshot at ``map_end``, unless the latest snapshot already has this offset."""
        if self.map_end > self.last_snapshot:
            self.stored_snapshots.snapshots[self.map_end] = write_producer_snapshot(
                sort_in_file_order(self.producers.entries())
            )
            self.last_snapshot = self.map_end

    def rebuild(
        self, bases: Sequence[int], *, start_offset: int, end_offset: int, is_clean: bool, replay: Replay
    ) -> None:
        """Update the producer states up to ``end_offset``, and take the same snapshots as Kafka.

        Args:
            bases: base offsets of the existing segments, ascending.
            end_offset: offset after the last batch to use.
            is_clean: whether the broker shut down cleanly; then a log without snapshots is not replayed, because an
                old broker wrote it.
            replay: function of a base offset and a start offset that yields the segment's batches with a producer.
        """
        snapshot_offsets = [*bases[-2:], end_offset]
        if self.stored_snapshots.record_format < 2 or (not self.stored_snapshots.snapshots and is_clean):
            for offset in snapshot_offsets:
                self.map_end = offset
                self.take_snapshot()
            return
        is_empty = not self.producers.states and self.map_end >= end_offset
        self._reload_snapshot(start_offset, end_offset)
        if end_offset > self.map_end and not is_empty:
            self._replay_segments(bases, snapshot_offsets, start_offset, end_offset, replay)
        self.map_end = end_offset
        self.take_snapshot()

    def _replay_segments(
        self, bases: Sequence[int], snapshot_offsets: list[int], start_offset: int, end_offset: int, replay: Replay
    ) -> None:
        holds_end = max((base for base in bases if base <= end_offset), default=None)
        for base in _select_bases(bases, self.map_end, end_offset):
            self.map_end = max(base, self.map_end, start_offset)
            if base in snapshot_offsets:
                self.take_snapshot()
            for header, markers in replay(base, self.map_end):
                if base == holds_end and header.last_offset >= end_offset:
                    break
                self.producers.process_batch(header, markers)

    def _reload_snapshot(self, start_offset: int, end_offset: int) -> None:
        for offset in [
            snapshot_offset
            for snapshot_offset in self.stored_snapshots.snapshots
            if snapshot_offset > end_offset or snapshot_offset <= start_offset
        ]:
            del self.stored_snapshots.snapshots[offset]
        if end_offset != self.map_end:
            self.producers = Producers()
            self.last_snapshot = self.map_end = self._load_snapshot(start_offset)
        else:
            self.map_end = max(self.map_end, start_offset)
            self.last_snapshot = max(self.stored_snapshots.snapshots, default=start_offset)

    def _load_snapshot(self, start_offset: int) -> int:
        for offset in sorted(self.stored_snapshots.snapshots, reverse=True):
            try:
                entries = read_producer_snapshot(self.stored_snapshots.snapshots[offset])
            except LogDirError:  # like Kafka, delete the damaged snapshot and try the one before it
                del self.stored_snapshots.snapshots[offset]
                continue
            self.producers = Producers.from_entries(entries, expiration_ms=self.stored_snapshots.expiration_ms)
            self.producers.drop_expired(self.stored_snapshots.now_ms)
            return offset
        return start_offset


def _select_bases(bases: Sequence[int], start: int, end: int) -> list[int]:
    """Return the base offsets of the segments that may have offsets from ``start`` up to ``end``."""
    first = max(bisect_right(bases, start) - 1, 0)
    return [base for base in bases[first:] if base < end]


def make_replay(filesystem: FileSystem, segments: dict[int, Segment]) -> Replay:
    """Return the function with which ``ProducerStateLoader.rebuild`` reads batches."""

    def replay(base: int, from_offset: int) -> Iterator[Seen]:
        segment = segments.get(base)
        if segment is None:  # truncation has left nothing of this swap file
            return
        with filesystem.open(segment.path) as read_at:
            reader = SegmentReader(filesystem, segment, read_at, use_indexes=False)
            for window in scan_segment(read_at, size_bytes=segment.size_bytes, file=segment.path):
                for header, markers in select_producer_batches(reader, window.batches):
                    if header.last_offset >= from_offset:
                        yield header, markers

    return replay


def sort_in_file_order(entries: Iterable[ProducerEntry]) -> list[ProducerEntry]:
    """Sort producers in the iteration order of Kafka's Java HashMap: by bucket, then by insertion."""
    listed = list(entries)
    buckets = _MIN_JAVA_BUCKETS
    while len(listed) > buckets * _JAVA_LOAD_FACTOR:
        buckets *= 2
    return sorted(listed, key=lambda entry: _hash_bucket(entry.producer_id, buckets))


def _hash_bucket(producer_id: int, buckets: int) -> int:
    hash_value = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
    return (hash_value ^ (hash_value >> 16)) & (buckets - 1)
