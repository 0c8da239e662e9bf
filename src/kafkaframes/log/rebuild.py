"""The indexes of a segment made again from its batches, byte for byte as Kafka's recovery makes them.

Recovery (LogSegment.recover) walks the batches one by one: an entry is added to both indexes when more than
``index.interval.bytes`` lie between the current batch and the one of the last entry; at the end the time index gets the
largest timestamp. Nothing is written here: the caller has the files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkaframes.log.directory import Segment
from kafkaframes.log.filesystem import FileSystem
from kafkaframes.log.headers import BatchHeader
from kafkaframes.log.offset_index import OffsetIndex
from kafkaframes.log.segment_reader import open_segment
from kafkaframes.log.time_index import NO_TIMESTAMP, TimeIndex
from kafkaframes.log.transactions import OpenTransactions, markers_of
from kafkaframes.log.txn_index import AbortedTransaction

INDEX_INTERVAL_BYTES = 4096  # the default of index.interval.bytes


@dataclass(frozen=True, slots=True)
class RebuiltIndexes:
    """The three indexes of one segment.

    Attributes:
        next_offset: the offset after its last batch; the base offset of an empty segment.
    """

    offset_index: OffsetIndex
    time_index: TimeIndex
    aborted: tuple[AbortedTransaction, ...]
    next_offset: int


class _TimeEntries:
    """The time index as it grows: an entry whose timestamp is not larger than the last one's is not added."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.largest = NO_TIMESTAMP
        self.largest_offset = -1

    def see(self, header: BatchHeader) -> None:
        if header.max_timestamp > self.largest:
            self.largest, self.largest_offset = header.max_timestamp, header.last_offset

    def append(self) -> None:
        last = self.entries[-1][0] if self.entries else NO_TIMESTAMP
        if self.largest > last:
            self.entries.append((self.largest, self.largest_offset))


def rebuild_indexes(
    filesystem: FileSystem,
    segment: Segment,
    *,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    follow: OpenTransactions | None = None,
) -> RebuiltIndexes:
    """Make the indexes of a segment whose batches are known to be whole.

    Args:
        filesystem, segment: from the discovery; cut off at its last good batch (``recovery_plan.valid_prefix``).
        index_interval_bytes: the topic's ``index.interval.bytes``.
        follow: the transactions that were open where the segment begins; it goes on from segment to segment.

    Raises:
        LogDirError: the segment cannot be read.
    """
    open_transactions = OpenTransactions() if follow is None else follow
    offsets: list[tuple[int, int]] = []
    times = _TimeEntries()
    aborted: list[AbortedTransaction] = []
    last_entry_position, next_offset = 0, segment.base_offset
    with open_segment(filesystem, segment, use_indexes=False) as reader:
        for header in reader.headers():
            times.see(header)
            if header.position - last_entry_position > index_interval_bytes:
                offsets.append((header.last_offset, header.position))
                times.append()
                last_entry_position = header.position
            next_offset = header.last_offset + 1
            if header.is_control:
                ended = [open_transactions.end(marker) for marker in markers_of(reader, header)]
                aborted += [one for one in ended if one is not None]
            else:
                open_transactions.data(header)
    times.append()
    return RebuiltIndexes(
        _offset_index(segment.base_offset, offsets),
        _time_index(segment.base_offset, times.entries),
        tuple(aborted),
        next_offset,
    )


def _offset_index(base_offset: int, entries: list[tuple[int, int]]) -> OffsetIndex:
    columns = np.array(entries, np.int64).reshape(-1, 2)
    return OffsetIndex(base_offset, columns[:, 0], columns[:, 1])


def _time_index(base_offset: int, entries: list[tuple[int, int]]) -> TimeIndex:
    columns = np.array(entries, np.int64).reshape(-1, 2)
    return TimeIndex(base_offset, columns[:, 0], columns[:, 1])
