"""A log's transactions as a ``read_committed`` consumer sees them: aborted, open, and the last stable offset (KIP-98).

The functions read batch headers and the records of transaction markers. The markers decide which transactions are
aborted. A ``.txnindex`` is only compared with the markers, because after a crash or an incomplete copy it can be empty,
truncated, or from another log. A broker that recovers the segment also rebuilds the index from the markers. Tiered
segments are the exception: to read their headers, whole segments would have to be fetched. The transaction indexes of
these segments are therefore used, and a finding reports this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.records.batch import Record, read_batches
from kafkaframes.records.scan import FILE, BatchHeaders, Bytes, Flags
from kafkaframes.storage.files.directory import LogFile, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.headers import BatchHeader, list_scanned_headers
from kafkaframes.storage.files.producer_files import (
    AbortedTransaction,
    ProducerEntry,
    read_producer_snapshot,
    read_txn_index,
    write_txn_index,
)
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.log.notes import HiddenRecords
from kafkaframes.wire.integers import MAX_INT64

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")
_NO_MARKER = MAX_INT64  # offset that stands for a missing marker


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """A transaction marker: the control record that commits or aborts a producer's transaction.

    Attributes:
        kind: ``ABORT`` or ``COMMIT``; other control records are not markers.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    kind: str
    coordinator_epoch: int


Seen = tuple[BatchHeader, tuple[TransactionMarker, ...]]


@dataclass(frozen=True)
class TransactionState:
    """The transactions of one partition: aborted ones, open ones, and the log end offset.

    Attributes:
        aborted_transactions: aborted transactions, by marker offset.
        open: first offset of each transaction without a marker, by producer id.
        log_end_offset: offset of the next record.
        findings: transaction indexes that differ from the markers, and tiered segments with indexes that were used.
        has_producers: whether an idempotent or transactional producer wrote any batch.
        unreadable: error in the first segment that cannot be read, at which the state ends; None if it is complete.
    """

    aborted_transactions: tuple[AbortedTransaction, ...] = ()
    open: dict[int, int] = field(default_factory=dict)
    log_end_offset: int = 0
    findings: tuple[Finding, ...] = ()
    has_producers: bool = False
    unreadable: LogDirError | None = None

    @property
    def last_stable_offset(self) -> int:
        """The end of a ``read_committed`` read: the first offset of an open transaction, or else the log end offset."""
        return min((*self.open.values(), self.log_end_offset))

    def end_offset_for(self, isolation: str) -> int:
        """Return the consumer's ``endOffsets`` value for an isolation level."""
        return self.last_stable_offset if isolation == "read_committed" else self.log_end_offset

    def mask_aborted_batches(self, batches: BatchHeaders) -> Flags:
        """Return which batches a ``read_committed`` consumer skips; False for markers, which are not data."""
        is_aborted = np.zeros(len(batches), np.bool_)
        base_offsets, producer_ids = batches.column("base_offset"), batches.column("producer_id")
        is_data = batches.is_transactional & ~batches.is_control
        for producer_id, (firsts, lasts) in self._ranges_by_producer.items():
            rows = np.flatnonzero(is_data & (producer_ids == producer_id))
            transaction_rows = np.searchsorted(firsts, base_offsets[rows], side="right") - 1
            is_aborted[rows] = (transaction_rows >= 0) & (
                base_offsets[rows] < np.asarray(lasts)[np.maximum(transaction_rows, 0)]
            )
        return is_aborted

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch belongs to an aborted transaction."""
        if not header.is_transactional or header.is_control or header.producer_id not in self._ranges_by_producer:
            return False
        firsts, lasts = self._ranges_by_producer[header.producer_id]
        index = bisect_right(firsts, header.base_offset) - 1
        return index >= 0 and header.base_offset < lasts[index]

    @cached_property
    def _ranges_by_producer(self) -> dict[int, tuple[list[int], list[int]]]:
        """First and last offsets of the aborted transactions of each producer, which do not overlap."""
        ranges: dict[int, tuple[list[int], list[int]]] = {}
        for transaction in sorted(self.aborted_transactions, key=lambda transaction: transaction.first_offset):
            firsts, lasts = ranges.setdefault(transaction.producer_id, ([], []))
            firsts.append(transaction.first_offset)
            lasts.append(transaction.last_offset)
        return ranges


class OpenTransactions:
    """The open transactions of a partition, updated batch by batch: data starts a transaction, a marker ends it.

    Attributes:
        first_offsets: first offset of each open transaction, by producer id.
    """

    def __init__(self, log_start_offset: int = 0) -> None:
        """Create the state without open transactions.

        Args:
            log_start_offset: offset at which a broker starts to read the log when it builds transaction indexes. A
                batch that ends before this offset does not start an aborted transaction, but keeps a transaction open.
        """
        self.first_offsets: dict[int, int] = {}
        self._log_start_offset = log_start_offset
        # First offset of each open transaction, if batches that end before the log start offset are not counted.
        self._first_offsets_in_log: dict[int, int] = {}

    def process_data(self, producer_id: int, base_offset: int, last_offset: int) -> None:
        """Process a batch of transactional data, which may start a transaction."""
        self.first_offsets.setdefault(producer_id, base_offset)
        if last_offset >= self._log_start_offset:
            self._first_offsets_in_log.setdefault(producer_id, base_offset)

    def process_batch(self, header: BatchHeader, markers: Iterable[TransactionMarker]) -> list[AbortedTransaction]:
        """Process a batch, whose data may start a transaction; return the transactions that its markers abort."""
        if header.is_transactional and header.has_producer and not header.is_control:
            self.process_data(header.producer_id, header.base_offset, header.last_offset)
        return [transaction for transaction in map(self.process_marker, markers) if transaction is not None]

    def process_marker(self, marker: TransactionMarker) -> AbortedTransaction | None:
        """Process a marker; return the transaction that it aborts.

        Without data, the marker does not end a transaction.
        """
        self.first_offsets.pop(marker.producer_id, None)
        first = self._first_offsets_in_log.pop(marker.producer_id, None)
        if first is None or marker.kind != "ABORT":
            return None
        stable = min(self._first_offsets_in_log.values(), default=marker.offset + 1)
        return AbortedTransaction(marker.producer_id, first, marker.offset, stable)


def read_transactions(
    filesystem: FileSystem, partition: Partition, *, use_indexes: bool = True, stop_at_unreadable: bool = False
) -> TransactionState:
    """Read the transactions of a partition.

    Args:
        use_indexes: whether the indexes of tiered segments are used; otherwise the segments are fetched to read their
            markers.
        stop_at_unreadable: whether the state before the first local segment that cannot be read is returned, instead
            of an error.

    Raises:
        LogDirError: a segment cannot be read.
    """
    unreadable: LogDirError | None = None
    open_transactions = OpenTransactions(partition.log_start_offset)
    aborted_transactions: list[AbortedTransaction] = []
    findings: list[Finding] = []
    end, has_producers = partition.log_start_offset, False
    markers_before: dict[int, int] = {}
    tiered_count = (
        _read_tiered_transactions(filesystem, partition, open_transactions, aborted_transactions, findings)
        if use_indexes
        else 0
    )
    if tiered_count:
        end = max(end, (partition.segments[tiered_count - 1].end_offset or 0) + 1)
    for segment in partition.segments[tiered_count:]:
        index = _IndexComparison(filesystem, segment)
        try:
            with open_segment(filesystem, segment) as reader:
                for header in reader.walk_producer_headers():
                    if header.is_transactional:
                        aborted_transactions += index.process_batch(reader, header, open_transactions, markers_before)
                    end = max(end, header.last_offset + 1)
                    has_producers = has_producers or header.has_producer
        except LogDirError as error:
            if not stop_at_unreadable:
                raise
            unreadable, end = error, segment.base_offset
            break
        findings += index.list_findings()
    # The base offset of an empty last segment can be above the end of the last batch.
    if partition.segments and unreadable is None:
        end = max(end, partition.segments[-1].base_offset)
    aborted_transactions.sort(key=lambda transaction: transaction.last_offset)
    return TransactionState(
        tuple(aborted_transactions),
        dict(open_transactions.first_offsets),
        end,
        tuple(findings),
        has_producers,
        unreadable,
    )


class _IndexComparison:
    """A comparison of a segment's ``.txnindex`` with the markers in the segment."""

    def __init__(self, filesystem: FileSystem, segment: Segment) -> None:
        problems: list[LogDirError] = []
        self._segment = segment
        self._index_entries = _read_index(filesystem, segment, problems)
        self._problem = problems[0] if problems else None
        self._by_marker = {
            (transaction.producer_id, transaction.last_offset): transaction for transaction in self._index_entries or ()
        }
        self._unconfirmed_entries = set(self._by_marker)
        self._missing_count = self._aborted_count = 0

    def process_batch(
        self,
        reader: SegmentReader,
        header: BatchHeader,
        open_transactions: OpenTransactions,
        markers_before: dict[int, int],
    ) -> Iterator[AbortedTransaction]:
        """Process a transactional batch, and yield the transactions that its markers abort.

        Args:
            reader: reader of the segment.
            header: header of the batch.
            open_transactions: state before the batch; the call updates it.
            markers_before: as for ``resolve_marker``.
        """
        open_transactions.process_batch(header, ())
        for marker in self.read_markers(reader, header) if header.is_control else ():
            transaction = self.resolve_marker(marker, open_transactions.process_marker(marker), markers_before)
            if transaction is not None:
                yield transaction

    def read_markers(self, reader: SegmentReader, header: BatchHeader) -> list[TransactionMarker]:
        """Return a control batch's markers. If a marker's record is damaged, the index entry replaces it."""
        markers = list(read_markers(reader, header))
        key = (header.producer_id, header.base_offset)
        if not markers and key in self._by_marker:
            markers = [TransactionMarker(header.base_offset, header.producer_id, header.producer_epoch, "ABORT", -1)]
        self._unconfirmed_entries -= {
            (marker.producer_id, marker.offset) for marker in markers if marker.kind == "ABORT"
        }
        return markers

    def resolve_marker(
        self, marker: TransactionMarker, transaction: AbortedTransaction | None, markers_before: dict[int, int]
    ) -> AbortedTransaction | None:
        """Return the transaction that a marker aborts; None if the marker does not abort one.

        An index entry that a marker confirms is more complete than the batches, because the cleaner may have removed
        the first batches of the transaction, or all of them.

        Args:
            transaction: transaction according to the batches; None if the log has no data of it.
            markers_before: offset of each producer's previous marker, by producer id; the call updates it.
        """
        previous_marker_offset = markers_before.get(marker.producer_id, -1)
        markers_before[marker.producer_id] = marker.offset
        if marker.kind != "ABORT":
            return None
        entry = self._by_marker.get((marker.producer_id, marker.offset))
        if transaction is not None:
            self._aborted_count += 1
            self._missing_count += entry is None or entry.first_offset > transaction.first_offset
        first = marker.offset if transaction is None else transaction.first_offset
        return entry if entry is not None and previous_marker_offset < entry.first_offset <= first else transaction

    def list_findings(self) -> Iterator[Finding]:
        """Yield the differences between the index and the markers, after all markers of the segment are processed."""
        file = _index_path(self._segment)
        if self._problem is not None:
            message = f"{self._problem.reason}; aborted transactions are found from their markers"
            yield Finding(Severity.WARNING, "txnindex-corrupt", message, file, self._problem.position)
            return
        if self._missing_count and self._index_entries is None:
            message = (
                f"{self._aborted_count} aborted transactions, but the transaction index is missing; their markers "
                "are used"
            )
            yield Finding(Severity.WARNING, "txnindex-missing", message, file)
        elif self._missing_count:
            message = (
                f"{self._missing_count} of {self._aborted_count} aborted transactions are not listed; their markers "
                "are used"
            )
            yield Finding(Severity.WARNING, "txnindex-mismatch", message, file)
        if self._unconfirmed_entries:
            message = f"{len(self._unconfirmed_entries)} listed transactions have no ABORT marker and are ignored"
            yield Finding(Severity.WARNING, "txnindex-mismatch", message, file)


_TXN_INDEX_CHECKS = frozenset(("txnindex-corrupt", "txnindex-missing", "txnindex-mismatch"))


def rebuild_txn_indexes(
    partition: Partition, aborted_transactions: Iterable[AbortedTransaction], findings: Iterable[Finding]
) -> Mapping[int, bytes]:
    """Return the transaction indexes that a broker would build from the markers, for segments whose index differs.

    Args:
        aborted_transactions: aborted transactions of the partition, from ``read_transactions``.
        findings: findings of ``read_transactions``, which identify the segments.

    Returns:
        The content of each index, by base offset. The content is empty if the segment has no ABORT marker.
    """
    files = {finding.file for finding in findings if finding.check in _TXN_INDEX_CHECKS}
    nexts = [*(segment.base_offset for segment in partition.segments[1:]), MAX_INT64]
    transactions = list(aborted_transactions) if files else []
    return {
        segment.base_offset: write_txn_index(
            [transaction for transaction in transactions if segment.base_offset <= transaction.last_offset < next_base]
        )
        for segment, next_base in zip(partition.segments, nexts, strict=False)
        if _index_path(segment) in files
    }


def _index_path(segment: Segment) -> str:
    """Return the path of a segment's transaction index; the segment's own path if the index is missing."""
    return segment.path if segment.txn_index is None else segment.txn_index.path


def find_hidden_records(
    filesystem: FileSystem, partition: Partition, state: TransactionState, *, start: int = 0, end: int | None = None
) -> HiddenRecords | None:
    """Count the records that an open transaction hides from ``read_committed``; None if there are none.

    Args:
        start, end: first offset of the read, and offset after its last record; end=None is the log end offset.

    Raises:
        LogDirError: a segment cannot be read.
    """
    if not state.open:
        return None
    producer_id, first = min(state.open.items(), key=lambda item: item[1])
    begin, end = max(start, first), state.log_end_offset if end is None else min(end, state.log_end_offset)
    records: int | None = 0
    nexts = [*(segment.base_offset for segment in partition.segments[1:]), state.log_end_offset]
    for segment, next_base in zip(partition.segments, nexts, strict=True):
        if next_base <= begin or segment.base_offset >= end or records is None:
            continue
        if segment.end_offset is not None:
            records = None
            continue
        with open_segment(filesystem, segment) as reader:
            records += _count_data_records(reader, state, begin, end)
    if records == 0 or begin >= end:
        return None
    name = partition.topic_partition
    return HiddenRecords(name.topic, name.partition, producer_id, first, end, records, partition.directory)


def _count_data_records(reader: SegmentReader, state: TransactionState, first: int, end: int) -> int:
    count = 0
    for header in reader.walk_headers(reader.find_start_before(first)):
        if header.last_offset < first or header.is_control or state.is_aborted(header):
            continue
        if header.base_offset >= end and header.magic >= 2:
            break
        if header.magic >= 2 and first <= header.base_offset and header.last_offset < end:
            count += max(header.record_count, 0)
        else:
            count += sum(first <= record.offset < end for record in reader.read_records(header))
    return count


def collect_fetched_transactions(
    data: bytes | memoryview | Bytes, batches: BatchHeaders, aborted_transactions: Sequence[tuple[int, int]]
) -> TransactionState:
    """Return the transactions of a Fetch response, from its list of aborted ones and the markers among its batches.

    Args:
        aborted_transactions: producer id and first offset of each aborted transaction (``abortedTransactions``). A
            transaction without a marker in ``data`` continues after it.
    """
    headers = list_scanned_headers(batches.select(batches.is_control)) if aborted_transactions else []
    aborts = [marker for header in headers for marker in parse_markers(data, header) if marker.kind == "ABORT"]
    transactions = []
    for producer_id, first in aborted_transactions:
        ends = (marker.offset for marker in aborts if marker.producer_id == producer_id and marker.offset >= first)
        transactions.append(AbortedTransaction(producer_id, first, min(ends, default=_NO_MARKER), -1))
    last = batches.column("last_offset")
    end = int(last[-1]) + 1 if len(last) else 0
    return TransactionState(tuple(sorted(transactions, key=lambda marker: marker.last_offset)), log_end_offset=end)


def _read_tiered_transactions(
    filesystem: FileSystem,
    partition: Partition,
    open_transactions: OpenTransactions,
    aborted_transactions: list[AbortedTransaction],
    findings: list[Finding],
) -> int:
    """Collect the transactions of the leading tiered segments from index and snapshot files; return the segment count.

    The listing shows whether a tiered segment has a transaction index. The producer snapshot at the segment's end
    contains the transactions that are open at this offset. To read the headers of a tiered segment, the whole segment
    would have to be fetched.
    """
    count = next(
        (
            number
            for number, segment in enumerate(partition.segments)
            if segment.end_offset is None or segment.index is None
        ),
        len(partition.segments),
    )
    if not count:
        return 0
    end_offset = (partition.segments[count - 1].end_offset or 0) + 1
    snapshot = next((file for file in partition.producer_snapshots if file.name.offset == end_offset), None)
    problems: list[LogDirError] = []
    indexes = [_read_index(filesystem, segment, problems) for segment in partition.segments[:count]]
    producers = () if snapshot is None else _read_producers(filesystem, snapshot, problems)
    findings += [
        Finding(Severity.WARNING, "txnindex-corrupt", problem.reason, problem.file or "") for problem in problems
    ]
    if problems or snapshot is None:
        return 0
    # A dict, because overlapping segments share entries.
    aborted_transactions += {transaction: None for index in indexes for transaction in index or ()}
    for producer in producers:
        if producer.current_txn_first_offset >= 0:
            open_transactions.process_data(producer.producer_id, producer.current_txn_first_offset, end_offset - 1)
    if producers or any(indexes):
        message = (
            f"aborted transactions of {count_text(count, 'tiered segment')} of {partition.topic_partition} are "
            "read from the transaction indexes; the markers were not fetched"
        )
        findings.append(Finding(Severity.NOTE, "txnindex-only", message, partition.directory))
    return count


def _read_producers(
    filesystem: FileSystem, snapshot: LogFile, problems: list[LogDirError]
) -> tuple[ProducerEntry, ...]:
    try:
        return read_producer_snapshot(filesystem.read(snapshot.path), file=snapshot.path)
    except LogDirError as problem:
        problems.append(problem)
        return ()


def iterate_producer_batches(
    headers: Iterable[BatchHeader], markers: Callable[[BatchHeader], Iterable[TransactionMarker]]
) -> Iterator[Seen]:
    """Yield the batches that have a producer, with the markers of control batches."""
    for header in headers:
        if header.magic >= 2 and header.has_producer:
            yield header, tuple(markers(header)) if header.is_control else ()


def iterate_producer_batches_from(reader: SegmentReader, offset: int) -> Iterator[Seen]:
    """Yield the batches of a segment that have a producer, starting with the batch that contains an offset."""
    headers = reader.walk_producer_headers(reader.find_start_before(offset))
    return iterate_producer_batches(
        (header for header in headers if header.last_offset >= offset), partial(read_markers, reader)
    )


def read_markers(reader: SegmentReader, header: BatchHeader) -> Iterator[TransactionMarker]:
    """Yield the transaction markers of a control batch, without unreadable records."""
    return _select_markers(reader.read_records(header), header)


def parse_markers(data: bytes | bytearray | memoryview | Bytes, header: BatchHeader) -> Iterator[TransactionMarker]:
    """Yield the transaction markers of a control batch in ``data``, at the position of its header."""
    for batch in read_batches(bytes(data[header.position : header.end]), rules=FILE):
        yield from _select_markers(batch.records, header)


def _select_markers(records: Iterable[Record], header: BatchHeader) -> Iterator[TransactionMarker]:
    """Yield the transaction markers among the records of a control batch."""
    for record in records:
        try:
            kind, epoch = record.control_type, record.coordinator_epoch
        except CorruptRecordError:
            continue
        if kind is not None and epoch is not None:
            yield TransactionMarker(record.offset, header.producer_id, header.producer_epoch, kind, epoch)


def _read_index(
    filesystem: FileSystem, segment: Segment, problems: list[LogDirError]
) -> list[AbortedTransaction] | None:
    """Return the entries of a transaction index; None if it is missing or malformed.

    The error of a malformed index is added to ``problems``.
    """
    file = segment.txn_index
    if file is None:
        return None
    try:
        raw = filesystem.read(file.path)
        return list(read_txn_index(raw, base_offset=segment.base_offset, file=file.path))
    except LogDirError as problem:
        problems.append(problem)
        return None
