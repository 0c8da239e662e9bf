"""What a ``read_committed`` consumer receives: aborted and open transactions, the last stable offset (KIP-98).

Headers alone are read, and the one record of each marker. Where a segment has its ``.txnindex`` the aborted
transactions are the index's; where it is missing or corrupt they are found from the markers, with the same result.
Kafka writes that file only for aborted transactions, so a missing one is normal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.records.batch import Record, read_values
from kafkaframes.records.scan import FILE, Batches, Bytes, Flags
from kafkaframes.storage.files.directory import LogFile, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader, headers_from
from kafkaframes.storage.files.producer_files import (
    AbortedTransaction,
    ProducerEntry,
    read_producer_snapshot,
    read_txn_index,
)
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment

ISOLATIONS = ("read_uncommitted", "read_committed")
_NO_MARKER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction marker: the control record that commits or aborts a producer's transaction.

    Attributes:
        kind: ``ABORT`` or ``COMMIT``; other control records are not markers.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    kind: str
    coordinator_epoch: int


Seen = tuple[BatchHeader, tuple[Marker, ...]]


@dataclass(frozen=True)
class TransactionState:
    """The transactions of one partition.

    Attributes:
        aborted: by the offset of their markers.
        open: producer id to the first offset of the transaction that has no marker yet.
        problems: transaction indexes that were not used, with the reason.
        has_producers: whether any batch was written by an idempotent or transactional producer.
    """

    aborted: tuple[AbortedTransaction, ...] = ()
    open: dict[int, int] = field(default_factory=dict)
    log_end_offset: int = 0
    problems: tuple[LogDirError, ...] = ()
    has_producers: bool = False

    @property
    def last_stable_offset(self) -> int:
        """Where ``read_committed`` ends: the first offset of any open transaction, else the log's end."""
        return min((*self.open.values(), self.log_end_offset))

    def end_offset(self, isolation: str) -> int:
        """Return what ``endOffsets`` answers under an isolation level."""
        return self.last_stable_offset if isolation == "read_committed" else self.log_end_offset

    def aborted_batches(self, batches: Batches) -> Flags:
        """Return which batches a ``read_committed`` consumer leaves out; False for markers, which are not data."""
        is_aborted = np.zeros(len(batches), np.bool_)
        base_offsets, producer_ids = batches.column("base_offset"), batches.column("producer_id")
        is_data = batches.is_transactional & ~batches.is_control
        for producer_id, (firsts, lasts) in self._by_producer.items():
            rows = np.flatnonzero(is_data & (producer_ids == producer_id))
            before = np.searchsorted(firsts, base_offsets[rows], side="right") - 1
            is_aborted[rows] = (before >= 0) & (base_offsets[rows] < np.asarray(lasts)[np.maximum(before, 0)])
        return is_aborted

    def is_aborted(self, header: BatchHeader) -> bool:
        """Say whether a batch's records belong to an aborted transaction."""
        if not header.is_transactional or header.is_control or header.producer_id not in self._by_producer:
            return False
        firsts, lasts = self._by_producer[header.producer_id]
        index = bisect_right(firsts, header.base_offset) - 1
        return index >= 0 and header.base_offset < lasts[index]

    @cached_property
    def _by_producer(self) -> dict[int, tuple[list[int], list[int]]]:
        """First and last offsets of each producer's aborted transactions; a producer's do not overlap."""
        ranges: dict[int, tuple[list[int], list[int]]] = {}
        for transaction in sorted(self.aborted, key=lambda transaction: transaction.first_offset):
            firsts, lasts = ranges.setdefault(transaction.producer_id, ([], []))
            firsts.append(transaction.first_offset)
            lasts.append(transaction.last_offset)
        return ranges


class OpenTransactions:
    """The open transactions of a partition, updated batch by batch: data opens one, a marker ends it."""

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}

    def see(self, header: BatchHeader, markers: Iterable[Marker]) -> list[AbortedTransaction]:
        """Process a batch: data may open a transaction; return those that the markers of a control batch abort."""
        if header.is_transactional and header.has_producer and not header.is_control:
            self.first_offsets.setdefault(header.producer_id, header.base_offset)
        return [aborted for aborted in map(self.end, markers) if aborted is not None]

    def end(self, marker: Marker) -> AbortedTransaction | None:
        """Process a marker; return the transaction that it aborts. A marker without data ends no transaction."""
        first = self.first_offsets.pop(marker.producer_id, None)
        if first is None or marker.kind != "ABORT":
            return None
        stable = min(self.first_offsets.values(), default=marker.offset + 1)
        return AbortedTransaction(marker.producer_id, first, marker.offset, stable)


def transactions_of(filesystem: FileSystem, partition: Partition, *, use_indexes: bool = True) -> TransactionState:
    """Read the transactions of a partition.

    Args:
        use_indexes: False finds everything from the markers.

    Raises:
        LogDirError: a segment cannot be read.
    """
    follow = OpenTransactions()
    aborted: list[AbortedTransaction] = []
    problems: list[LogDirError] = []
    end, has_producers = partition.log_start_offset, False
    settled = _settled(filesystem, partition, follow, aborted) if use_indexes else 0
    if settled:
        end = max(end, (partition.segments[settled - 1].end_offset or 0) + 1)
    for segment in partition.segments[settled:]:
        transactions: list[AbortedTransaction] = []
        with open_segment(filesystem, segment) as reader:
            for header in reader.producer_headers():
                if header.is_transactional:
                    transactions += follow.see(header, markers_of(reader, header) if header.is_control else ())
                end = max(end, header.last_offset + 1)
                has_producers = has_producers or header.has_producer
        indexed = _indexed(filesystem, segment, problems) if use_indexes else None
        aborted += transactions if indexed is None else indexed
    if partition.segments:  # an empty last segment begins at the log end offset, which may be above the last batch
        end = max(end, partition.segments[-1].base_offset)
    aborted.sort(key=lambda transaction: transaction.last_offset)
    return TransactionState(tuple(aborted), dict(follow.first_offsets), end, tuple(problems), has_producers)


def transactions_of_fetched(
    data: bytes | memoryview | Bytes, batches: Batches, aborted: Sequence[tuple[int, int]]
) -> TransactionState:
    """Return the transactions of a Fetch answer, which names the aborted ones and has their markers among its batches.

    Args:
        aborted: producer id and first offset of each aborted transaction (``abortedTransactions``). A
            transaction without marker in ``data`` continues after it.
    """
    headers = headers_from(batches.chosen(batches.is_control)) if aborted else []
    aborts = [marker for header in headers for marker in markers_in(data, header) if marker.kind == "ABORT"]
    transactions = []
    for producer_id, first in aborted:
        ends = (marker.offset for marker in aborts if marker.producer_id == producer_id and marker.offset >= first)
        transactions.append(AbortedTransaction(producer_id, first, min(ends, default=_NO_MARKER), -1))
    last = batches.column("last_offset")
    end = int(last[-1]) + 1 if len(last) else 0
    return TransactionState(tuple(sorted(transactions, key=lambda marker: marker.last_offset)), log_end_offset=end)


def _settled(
    filesystem: FileSystem, partition: Partition, follow: OpenTransactions, aborted: list[AbortedTransaction]
) -> int:
    """Collect the transactions of leading segments from index and snapshot files alone; return how many segments.

    For a tiered segment it is known whether it has a transaction index, and the producer snapshot at its end names the
    transactions that are open there. Walking its headers would mean to fetch all of it.
    """
    count = next(
        (number for number, one in enumerate(partition.segments) if one.end_offset is None or one.index is None),
        len(partition.segments),
    )
    if not count:
        return 0
    behind = (partition.segments[count - 1].end_offset or 0) + 1
    snapshot = next((file for file in partition.producer_snapshots if file.name.offset == behind), None)
    problems: list[LogDirError] = []
    indexes = [_indexed(filesystem, segment, problems) for segment in partition.segments[:count]]
    producers = () if snapshot is None else _producers(filesystem, snapshot, problems)
    if problems or snapshot is None:
        return 0
    aborted += {one: None for indexed in indexes for one in indexed or ()}  # segments that overlap both name some
    follow.first_offsets |= {
        one.producer_id: one.current_txn_first_offset for one in producers if one.current_txn_first_offset >= 0
    }
    return count


def _producers(filesystem: FileSystem, snapshot: LogFile, problems: list[LogDirError]) -> tuple[ProducerEntry, ...]:
    try:
        return read_producer_snapshot(filesystem.read(snapshot.path), file=snapshot.path)
    except LogDirError as problem:
        problems.append(problem)
        return ()


def seen_of(headers: Iterable[BatchHeader], markers: Callable[[BatchHeader], Iterable[Marker]]) -> Iterator[Seen]:
    """Yield the batches that have a producer, with the markers of control batches."""
    for header in headers:
        if header.magic >= 2 and header.has_producer:
            yield header, tuple(markers(header)) if header.is_control else ()


def seen_from(reader: SegmentReader, offset: int) -> Iterator[Seen]:
    """Yield the batches of a segment that have a producer, from the one that holds an offset on."""
    headers = reader.producer_headers(reader.start_before(offset))
    return seen_of((header for header in headers if header.last_offset >= offset), partial(markers_of, reader))


def markers_of(reader: SegmentReader, header: BatchHeader) -> Iterator[Marker]:
    """Yield the transaction markers of a control batch; records that cannot be read are left out."""
    return _markers_among(reader.records(header), header)


def markers_in(data: bytes | bytearray | memoryview | Bytes, header: BatchHeader) -> Iterator[Marker]:
    """Yield the transaction markers of a control batch that lies in ``data``, where its header says."""
    for batch in read_values(bytes(data[header.position : header.end]), rules=FILE):
        yield from _markers_among(batch.records, header)


def _markers_among(records: Iterable[Record], header: BatchHeader) -> Iterator[Marker]:
    """Yield the transaction markers among the records of a control batch."""
    for record in records:
        try:
            kind, epoch = record.control_type, record.coordinator_epoch
        except CorruptRecordError:
            continue
        if kind is not None and epoch is not None:
            yield Marker(record.offset, header.producer_id, header.producer_epoch, kind, epoch)


def _indexed(filesystem: FileSystem, segment: Segment, problems: list[LogDirError]) -> list[AbortedTransaction] | None:
    file = segment.txn_index
    if file is None:
        return None
    try:
        raw = filesystem.read(file.path)
        return list(read_txn_index(raw, base_offset=segment.base_offset, file=file.path))
    except LogDirError as problem:
        problems.append(problem)
        return None
