"""Decoded windows and the state of transactions, which both passes of a cleaning round (map, then filter) use.

``CleanedTransactions`` decides which transactional batches and markers a round may discard (Kafka's
CleanedTransactionMetadata). Batches must be passed in the order of offsets. Data of an aborted transaction is discarded
at once. A marker may be discarded if no batch of its transaction precedes it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import numpy as np

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.records import decode
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import parse_control_type as type_of_key
from kafkaframes.records.layout import CONTROL, MESSAGE_V0, OVERHEAD_BYTES, TRANSACTIONAL
from kafkaframes.records.memory import Recycler
from kafkaframes.records.reasons import TORN
from kafkaframes.records.scan import Flags, as_array
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.files.scan import SegmentWindow, scan_segment

_MAGIC_POSITION = MESSAGE_V0.position_of("magic") - OVERHEAD_BYTES


def make_batch_header(window: DecodedBatches, batch: int) -> BatchHeader:
    """Return one batch's header, with its position in the file."""
    return BatchHeader(*window.batches.table[:, batch].tolist())._replace(position=window.position(batch))


def find_transactional_batches(window: DecodedBatches) -> list[int]:
    """Return the indexes of the transactional batches and of all control batches."""
    rows: list[int] = np.flatnonzero(window.batches.mask_flag(TRANSACTIONAL | CONTROL)).tolist()
    return rows


def control_type(window: DecodedBatches, batch: int) -> str | None:
    """Return the type of a control batch's first record; ``None`` for an empty batch."""
    first = int(window.starts[batch])
    if first == int(window.starts[batch + 1]):
        return None
    key_position, size = int(window.index.key_at[first]), int(window.index.key_size[first])
    try:
        return type_of_key(None if size < 0 else window.sections.buf[key_position : key_position + size].tobytes())
    except CorruptRecordError as error:
        raise _make_damage_error(window, batch, error.reason) from error


def mask_mixed_formats(window: DecodedBatches) -> Flags:
    """Return which message sets contain an inner message with a different format (KAFKA-4298)."""
    magics, owners = window.batches.column("magic"), window.owners
    foreign = np.zeros(len(window.batches), np.bool_)
    inner = np.flatnonzero(window.batches.is_wrapper[owners])
    inner_magics = window.sections.buf[window.index.headers_at[inner] + _MAGIC_POSITION].astype(np.int8)
    foreign[owners[inner[inner_magics != magics[owners[inner]]]]] = True
    return foreign


def _make_damage_error(window: DecodedBatches, batch: int, reason: str) -> LogDirError:
    header = make_batch_header(window, batch)
    return LogDirError(
        f"{reason}, in the batch of offsets {header.base_offset} to {header.last_offset}: nothing was cleaned",
        position=header.position,
        file=window.file,
    )


def _reject_damaged_batches(window: DecodedBatches) -> None:
    """Raise an error if a batch cannot be read completely. The log must be repaired first."""
    damaged_rows = np.flatnonzero(~window.crc_ok)
    if len(damaged_rows):
        raise _make_damage_error(window, int(damaged_rows[0]), "the CRC does not match")
    for batch, problem in window.problems.items():
        raise _make_damage_error(window, batch, problem.reason)


def read_windows(
    filesystem: FileSystem, segment: Segment, *, memory: Recycler, start: int = 0, end: int | None = None
) -> Iterator[DecodedBatches]:
    """Decode a segment, or a part of one, window by window.

    Args:
        memory: pool of buffers; the buffers of a window are reused for the next one.
        start: position of the first batch.
        end: position after the last batch; None for the end of the segment.

    Raises:
        LogDirError: the segment cannot be read, a batch is damaged, or other bytes follow the last batch.
    """
    size = segment.size_bytes if end is None else end
    with filesystem.open(segment.path) as read_at:
        for window in scan_segment(read_at, size_bytes=size, position=start, includes_data=True, file=segment.path):
            for part in _open_batches(window, segment.path, memory):
                _reject_damaged_batches(part)
                yield part
            stop = window.batches.end
            if stop.is_corrupt or (stop.status == TORN and stop.position < size):
                raise LogDirError(f"{stop.reason}: nothing was cleaned", position=stop.position, file=segment.path)


def _open_batches(window: SegmentWindow, file: str, memory: Recycler) -> Iterator[DecodedBatches]:
    """Open a window's batches, as many at a time as the memory budget allows."""
    if not len(window.batches):
        return iter(())
    data, batches = as_array(window.data), window.batches_in_data()
    return decode.decode_steps(data, batches, allocate=memory.new_array, base=window.start, file=file)


ABORT, COMMIT = "ABORT", "COMMIT"


class CleanedTransactions:
    """The state of transactions while the cleaner reads a log from start to end (CleanedTransactionMetadata).

    Attributes:
        kept_transactions: aborted transactions whose marker is retained, because some of their data is retained; the
            content of the new transaction index.
    """

    def __init__(self) -> None:
        self.kept_transactions: list[AbortedTransaction] = []
        self._ahead: list[tuple[int, int, AbortedTransaction]] = []
        self._aborted_producers: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed_producers: set[int] = set()

    def add_aborted_transactions(self, aborted_transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions that follow in the log. Adding a transaction again has no effect."""
        for transaction in aborted_transactions:
            heapq.heappush(self._ahead, (transaction.first_offset, transaction.last_offset, transaction))

    def snapshot(self, end_offset: int) -> CleanedTransactions:
        """Return a copy of the state, with the added transactions that start before an offset."""
        copy = CleanedTransactions()
        copy._ahead = [transaction for transaction in self._ahead if transaction[0] < end_offset]
        heapq.heapify(copy._ahead)
        copy._aborted_producers = dict(self._aborted_producers)
        copy._aborted_with_data = set(self._aborted_with_data)
        copy._committed_producers = set(self._committed_producers)
        return copy

    def _start_transactions_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            transaction = heapq.heappop(self._ahead)[2]
            self._aborted_producers.setdefault(transaction.producer_id, transaction)

    def process_data(self, header: BatchHeader) -> bool:
        """Process a data batch; return whether it belongs to an aborted transaction."""
        self._start_transactions_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted_producers:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed_producers.add(header.producer_id)
        return False

    def process_control(self, header: BatchHeader, kind: str | None) -> bool:
        """Process a control batch; return whether it may be discarded.

        ``kind`` is the type of the batch's record; None if the batch is empty.
        """
        self._start_transactions_up_to(header.last_offset)
        producer_id = header.producer_id
        if kind is None:
            return True
        if kind == ABORT:
            transaction = self._aborted_producers.pop(producer_id, None)
            had_data = producer_id in self._aborted_with_data
            self._aborted_with_data.discard(producer_id)
            if transaction is not None and had_data:
                self.kept_transactions.append(transaction)
                return False
            return True
        if kind == COMMIT:
            had_data = producer_id in self._committed_producers
            self._committed_producers.discard(producer_id)
            return not had_data
        return False
