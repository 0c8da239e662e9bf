"""Read an open log: batches up to a watermark, aborted transactions, offsets by time (LocalLog.read)."""

from __future__ import annotations

from typing import NamedTuple

from kafkaframes.errors import OffsetOutOfRangeError, OptionError
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.log.lookup import NO_OFFSET, TimedOffset, find_timestamp
from kafkaframes.storage.partition.segment import BatchWindow, LogSegment, Stretch
from kafkaframes.storage.partition.state import LogState

LOG_END, HIGH_WATERMARK, TXN_COMMITTED = "log_end", "high_watermark", "txn_committed"
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


class FetchData(NamedTuple):
    """The answer to a fetch.

    Attributes:
        records: batches; as in Kafka the last one may be incomplete, because the answer is cut at its size.
        high_watermark, last_stable_offset, log_start_offset: of the log.
        aborted: the transactions that a ``read_committed`` consumer leaves out; None for other isolations.
        first_entry_incomplete: ``max_bytes`` was less than the first batch.
        stretch: the records as a range of the file instead of ``records``; only on request, for large answers.
    """

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] | None = None
    first_entry_incomplete: bool = False
    stretch: Stretch | None = None


def read(
    state: LogState,
    offset: int,
    *,
    max_bytes: int,
    isolation: str = HIGH_WATERMARK,
    min_one_message: bool = True,
    stretch_bytes: int | None = None,
) -> FetchData:
    """Return the batches from the one that holds ``offset`` on, as the answer to a fetch.

    Args:
        offset: from the log start offset to the log end offset.
        max_bytes: of the answer; with ``min_one_message`` the first batch is returned whole even if it is larger.
        isolation: ``LOG_END`` (a follower), ``HIGH_WATERMARK`` or ``TXN_COMMITTED``.
        stretch_bytes: if the records have at least this many bytes, they are returned as a ``Stretch`` of the file
            instead of being read, provided that files have descriptors. None: never.

    Raises:
        OffsetOutOfRangeError: the offset is outside the log.
        LogDirError: a segment cannot be read.
    """
    if not state.log_start_offset <= offset <= state.log_end_offset:
        reason = f"offset {offset} is not from {state.log_start_offset} to {state.log_end_offset}"
        raise OffsetOutOfRangeError(f"{state.topic_partition}: {reason}")
    stable = state.last_stable_offset
    ends = {LOG_END: state.log_end_offset, HIGH_WATERMARK: state.high_watermark, TXN_COMMITTED: stable}
    if isolation not in ends:
        raise OptionError(f"isolation is one of {', '.join(ends)}, not {isolation!r}")
    end = ends[isolation]
    records, stretch = b"", None
    aborted_transactions: tuple[AbortedTransaction, ...] | None = () if isolation == TXN_COMMITTED else None
    incomplete = False
    if offset < end:
        segments = state.segments
        for segment in segments.from_floor(offset):
            first = segment.find_batch(offset)
            if first is not None:
                limit = max(max_bytes, first.size) if min_one_message else max_bytes
                size = max(min(_end_position(state, segment, end) - first.position, limit), 0)
                if isolation == TXN_COMMITTED:
                    aborted_transactions = _list_aborted_transactions(state, segment, offset, first.position + size)
                if stretch_bytes is not None and size >= stretch_bytes:
                    stretch = segment.stretch(first.position, size)
                if stretch is None:
                    records = _records(segment, first, size)
                incomplete = limit < first.size
                break
            if (position := segment.whole_until(offset)) < segment.size_bytes:
                state.torn[segment.path] = position
    return FetchData(
        records, state.high_watermark, stable, state.log_start_offset, aborted_transactions, incomplete, stretch
    )


def _records(segment: LogSegment, first: BatchWindow, size: int) -> bytes:
    records = first.within(size)
    return segment.read_at(first.position, size) if records is None else records


def _end_position(state: LogState, segment: LogSegment, end: int) -> int:
    """Return the position in a segment up to which may be read: that of the batch at the watermark."""
    if end >= state.log_end_offset:
        return segment.size_bytes
    batch = segment.find_batch(end)
    return segment.size_bytes if batch is None else batch.position


def _upper_bound(state: LogState, segment: LogSegment, position: int) -> int:
    """Return an offset that no record before ``position`` reaches (LogSegment.fetchUpperBoundOffset)."""
    index = segment.index.entries
    at = int(index.positions.searchsorted(position, side="left"))
    if at < len(index):
        return int(index.offsets[at])
    after = state.segments.next_base(segment)
    return state.log_end_offset if after is None else after


def _list_aborted_transactions(
    state: LogState, segment: LogSegment, offset: int, position: int
) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions from ``offset`` to ``position`` (LocalLog.collectAbortedTransactions)."""
    segments = state.segments.from_floor(segment.base_offset)
    if not any(selected.txn_index.aborted for selected in segments):
        return ()
    upper = _upper_bound(state, segment, position)
    aborted_transactions = []
    for selected in segments:
        for transaction in selected.txn_index.aborted:
            if transaction.last_offset >= offset and transaction.first_offset < upper:
                aborted_transactions.append(transaction)
            if transaction.last_stable_offset >= upper:
                return tuple(aborted_transactions)
    return tuple(aborted_transactions)


def offset_for_timestamp(state: LogState, timestamp_ms: int) -> TimedOffset | None:
    """Answer ListOffsets by time: the first record at or after it, or one of Kafka's special times (-1, -2, -3).

    Raises:
        LogDirError: a segment cannot be read.
    """
    epochs = state.epochs
    if timestamp_ms == LATEST:
        return TimedOffset(state.log_end_offset, leader_epoch=epochs.latest)
    if timestamp_ms == EARLIEST:
        return TimedOffset(state.log_start_offset, leader_epoch=epochs.epoch_of(state.log_start_offset))
    if timestamp_ms == MAX_TIMESTAMP:
        return _max_timestamp(state)
    for segment in state.segments:
        if segment.largest_timestamp >= timestamp_ms:
            return find_timestamp(segment.reader(), timestamp_ms, least_offset=state.log_start_offset)
    return None


def _max_timestamp(state: LogState) -> TimedOffset:
    """Return the first record with the largest timestamp of all (KIP-734); offset -1 where there is none.

    As in Kafka it may lie below the log start offset. Where all timestamps are -1 it is the first record; a message of
    format 0 has none.
    """
    where = max(state.segments, key=lambda segment: segment.largest.timestamp)  # of equal ones the first
    reader = where.reader()
    record = find_timestamp(reader, where.largest.timestamp, least_offset=0)
    batch = None if record is None else reader.find_batch(record.offset)
    return TimedOffset(NO_OFFSET) if record is None or batch is None or batch.magic == 0 else record
