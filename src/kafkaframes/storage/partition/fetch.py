"""Read an open log: batches below a watermark, aborted transactions, and offsets by timestamp (LocalLog.read)."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import OffsetOutOfRangeError, OptionError
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.log.lookup import NO_OFFSET, TimedOffset, find_timestamp
from kafkaframes.storage.partition.segment import BatchWindow, FileRange, LogSegment
from kafkaframes.storage.partition.state import LogState

LOG_END, HIGH_WATERMARK, TXN_COMMITTED = "log_end", "high_watermark", "txn_committed"
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


class FetchData(NamedTuple):
    """The batches that a fetch reads from one partition, and the offsets for its response.

    Attributes:
        records: batches. As in Kafka, the last batch may be incomplete, because the result is limited in size.
        high_watermark: high watermark of the log.
        last_stable_offset: last stable offset of the log.
        log_start_offset: log start offset.
        aborted: transactions with records that a ``read_committed`` consumer skips; None for other isolation levels.
        first_entry_incomplete: whether the first batch is larger than ``max_bytes``.
        file_range: file range that replaces ``records`` in large results, if the caller requested it.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] | None = None
    first_entry_incomplete: bool = False
    file_range: FileRange | None = None


def read_for_fetch(
    state: LogState,
    offset: int,
    *,
    max_bytes: int,
    isolation: str = HIGH_WATERMARK,
    min_one_message: bool = True,
    min_range_bytes: int | None = None,
) -> FetchData:
    """Return batches for a fetch, starting with the one that contains ``offset``.

    Args:
        offset: fetch offset, from the log start offset to the log end offset.
        max_bytes: largest size of the result. With ``min_one_message`` the first batch is returned whole even if it is
            larger than ``max_bytes``.
        isolation: ``LOG_END`` (for a follower), ``HIGH_WATERMARK`` or ``TXN_COMMITTED``.
        min_range_bytes: minimum size of the records for which the result is a ``FileRange`` of the file instead of
            bytes, if the disk's files have descriptors; None always returns bytes.

    Raises:
        OffsetOutOfRangeError: the offset is outside the log.
        LogDirError: a segment cannot be read.
    """
    if not state.log_start_offset <= offset <= state.log_end_offset:
        reason = f"offset {offset} is out of range; expected {state.log_start_offset} to {state.log_end_offset}"
        raise OffsetOutOfRangeError(f"{state.topic_partition}: {reason}")
    stable = state.last_stable_offset
    ends = {LOG_END: state.log_end_offset, HIGH_WATERMARK: state.high_watermark, TXN_COMMITTED: stable}
    if isolation not in ends:
        raise OptionError(f"isolation must be one of {', '.join(ends)}, not {isolation!r}")
    end = ends[isolation]
    records, file_range = b"", None
    aborted_transactions: tuple[AbortedTransaction, ...] | None = () if isolation == TXN_COMMITTED else None
    incomplete = False
    if offset < end:
        segments = state.segments
        for segment in segments.list_segments_from(offset):
            first = segment.find_batch(offset)
            if first is not None:
                limit = max(max_bytes, first.size) if min_one_message else max_bytes
                size = max(min(_find_end_position(state, segment, end) - first.position, limit), 0)
                if isolation == TXN_COMMITTED:
                    aborted_transactions = _list_aborted_transactions(state, segment, offset, first.position + size)
                if min_range_bytes is not None and size >= min_range_bytes:
                    file_range = segment.file_range(first.position, size)
                if file_range is None:
                    records = _read_records(segment, first, size)
                incomplete = limit < first.size
                break
            if (position := segment.find_whole_batches_end(offset)) < segment.size_bytes:
                state.torn[segment.path] = position
    return FetchData(
        records, state.high_watermark, stable, state.log_start_offset, aborted_transactions, incomplete, file_range
    )


def _read_records(segment: LogSegment, first: BatchWindow, size: int) -> bytes:
    records = first.batch_bytes(size)
    return segment.read_at(first.position, size) if records is None else records


def _find_end_position(state: LogState, segment: LogSegment, end: int) -> int:
    """Return the position at which a read of the segment must end: that of the batch at the watermark."""
    if end >= state.log_end_offset:
        return segment.size_bytes
    batch = segment.find_batch(end)
    return segment.size_bytes if batch is None else batch.position


def _find_upper_bound_offset(state: LogState, segment: LogSegment, position: int) -> int:
    """Return an offset that is above all records before ``position`` (LogSegment.fetchUpperBoundOffset)."""
    index = segment.index.entries
    entry_number = int(index.positions.searchsorted(position, side="left"))
    if entry_number < len(index):
        return int(index.offsets[entry_number])
    next_base = state.segments.next_base(segment)
    return state.log_end_offset if next_base is None else next_base


def _list_aborted_transactions(
    state: LogState, segment: LogSegment, offset: int, position: int
) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions from ``offset`` to ``position`` (LocalLog.collectAbortedTransactions)."""
    segments = state.segments.list_segments_from(segment.base_offset)
    if not any(selected.txn_index.aborted_transactions for selected in segments):
        return ()
    upper = _find_upper_bound_offset(state, segment, position)
    aborted_transactions = []
    for selected in segments:
        for transaction in selected.txn_index.aborted_transactions:
            if transaction.last_offset >= offset and transaction.first_offset < upper:
                aborted_transactions.append(transaction)
            if transaction.last_stable_offset >= upper:
                return tuple(aborted_transactions)
    return tuple(aborted_transactions)


def find_offset_for_timestamp(state: LogState, timestamp_ms: int) -> TimedOffset | None:
    """Return the first record at or after a timestamp, or the answer to one of Kafka's special times (-1, -2, -3).

    Raises:
        LogDirError: a segment cannot be read.
    """
    epochs = state.epochs
    if timestamp_ms == LATEST:
        return TimedOffset(state.log_end_offset, leader_epoch=epochs.latest)
    if timestamp_ms == EARLIEST:
        return TimedOffset(state.log_start_offset, leader_epoch=epochs.find_epoch(state.log_start_offset))
    if timestamp_ms == MAX_TIMESTAMP:
        return _find_max_timestamp(state)
    for segment in state.segments:
        if segment.largest_timestamp >= timestamp_ms:
            return find_timestamp(segment.reader(), timestamp_ms, min_offset=state.log_start_offset)
    return None


def _find_max_timestamp(state: LogState) -> TimedOffset:
    """Return the first record with the largest timestamp of the log (KIP-734); offset -1 if there is no record.

    As in Kafka, the record may be below the log start offset. If all timestamps are -1, the result is the first record.
    Messages of format 0 have no timestamp.
    """
    newest_segment = max(
        state.segments, key=lambda segment: segment.max_timestamp_and_offset.timestamp
    )  # the first record of several with the largest timestamp
    reader = newest_segment.reader()
    record = find_timestamp(reader, newest_segment.max_timestamp_and_offset.timestamp, min_offset=0)
    batch = None if record is None else reader.find_batch(record.offset)
    return TimedOffset(NO_OFFSET) if record is None or batch is None or batch.magic == 0 else record
