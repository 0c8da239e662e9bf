"""The indexes of a segment made again from its batches, byte for byte as Kafka's recovery makes them.

``LogSegment.recover`` walks the batches one by one: both indexes get an entry when more than ``index.interval.bytes``
lie between the current batch and the one of the last entry; at the end the time index gets the largest timestamp.
``build_indexes`` is that rule on columns; ``rebuild_indexes`` reads a segment and adds its aborted transactions,
producers and leader epochs. Nothing is written here; that is left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.records.layout import BATCH_COLUMNS, CONTROL, TRANSACTIONAL
from kafkaframes.records.scan import Batches
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.indexes import NO_TIMESTAMP, OffsetIndex, TimeIndex
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.files.segment_reader import SegmentReader
from kafkaframes.storage.files.txn_index import AbortedTransaction
from kafkaframes.storage.log.producer_state import ProducerStates
from kafkaframes.storage.log.transactions import Marker, OpenTransactions, markers_of

Ints = npt.NDArray[np.int64]
INDEX_INTERVAL_BYTES = 4096  # the default of index.interval.bytes
INDEXED = ("position", "last_offset", "max_timestamp")  # what the indexes are made of


@dataclass(frozen=True, slots=True)
class RebuiltIndexes:
    """The three indexes of one segment.

    Attributes:
        next_offset: the offset after its last batch; the base offset of an empty segment.
        producers_end: the offset after its last batch of format 2, up to which producers are known; the base offset
            without one.
        epochs: the leader epochs that are above all earlier ones of this segment, and where each begins.
    """

    offset_index: OffsetIndex
    time_index: TimeIndex
    aborted: tuple[AbortedTransaction, ...]
    next_offset: int
    producers_end: int
    epochs: tuple[EpochStart, ...] = ()


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
        base_offset: of the segment's name.
        positions, last_offsets, max_timestamps: of its batches, in order: bytes, offsets, milliseconds.
        interval_bytes: ``index.interval.bytes``.
    """
    entries = _entries(positions, interval_bytes)
    largest = np.maximum.accumulate(np.maximum(max_timestamps, NO_TIMESTAMP))
    return (
        OffsetIndex(base_offset, last_offsets[entries], positions[entries]),
        _time_index(base_offset, entries, last_offsets, largest),
    )


def _entries(positions: Ints, interval_bytes: int) -> Ints:
    """Return the batches before which an entry is due."""
    entries: list[int] = []
    nexts: list[int] = np.searchsorted(positions, positions + interval_bytes, side="right").tolist()
    at = int(np.searchsorted(positions, interval_bytes, side="right"))
    while at < len(nexts):
        entries.append(at)
        at = nexts[at]
    return np.array(entries, np.int64)


def _time_index(base_offset: int, entries: Ints, last_offsets: Ints, largest: Ints) -> TimeIndex:
    """A timestamp that is not larger than the last entry's is not added."""
    if not len(largest):
        return TimeIndex(base_offset, np.empty(0, np.int64), np.empty(0, np.int64))
    rows = np.concatenate((entries, [len(largest) - 1]))
    before = np.concatenate(([NO_TIMESTAMP], largest[rows[:-1]]))
    rows = rows[largest[rows] > before]
    reached_at = np.searchsorted(largest, largest[rows], side="left")
    return TimeIndex(base_offset, largest[rows], last_offsets[reached_at])


def rebuild_indexes(
    filesystem: FileSystem,
    segment: Segment,
    *,
    index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    follow: OpenTransactions | None = None,
    producers: ProducerStates | None = None,
    headers: Iterable[Batches] | None = None,
) -> RebuiltIndexes:
    """Make the indexes of a segment whose batches are known to be whole.

    Args:
        filesystem, segment: from the discovery; cut off at its last good batch, as ``recovery/plan.py`` finds it.
        index_interval_bytes: the topic's ``index.interval.bytes``.
        follow: the transactions that are open where the segment begins; updated, for the next segment.
        producers: the producers' states, updated in the same way.
        headers: of its batches, if they have been read already.

    Raises:
        LogDirError: the segment cannot be read.
    """
    open_transactions = OpenTransactions() if follow is None else follow
    states = ProducerStates() if producers is None else producers
    parts: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in INDEXED}
    epochs: list[EpochStart] = []
    producers_end = segment.base_offset
    aborted: list[AbortedTransaction] = []
    with filesystem.open(segment.path) as read_at:
        reader = SegmentReader(filesystem, segment, read_at, use_indexes=False)
        windows = scan_segment(read_at, size_bytes=segment.size_bytes, file=segment.path)
        read = (window.batches for window in windows)
        for batches in read if headers is None else headers:
            for name in INDEXED:
                parts[name].append(batches.column(name).copy())
            of_format_2 = np.flatnonzero(batches.is_v2)
            if len(of_format_2):
                producers_end = int(batches.column("last_offset")[of_format_2[-1]]) + 1
            epochs += _new_epochs(batches, epochs[-1].leader_epoch if epochs else -1)
            for header, markers in with_producers(reader, batches):
                states.see(header, markers)
                aborted += _ended(open_transactions, header, markers)
    positions, last_offsets, stamps = (np.concatenate(parts[name]) for name in INDEXED)
    indexes = build_indexes(segment.base_offset, positions, last_offsets, stamps, interval_bytes=index_interval_bytes)
    next_offset = int(last_offsets[-1]) + 1 if len(last_offsets) else segment.base_offset
    return RebuiltIndexes(*indexes, tuple(aborted), next_offset, producers_end, tuple(epochs))


def with_producers(reader: SegmentReader, batches: Batches) -> Iterator[tuple[BatchHeader, tuple[Marker, ...]]]:
    """Yield the batches that change the state of producers and transactions, with the markers of control batches.

    With transactional batches or markers these are all batches that have a producer id; otherwise the last one of each
    producer, in the order in which the producers first appear.
    """
    rows = np.flatnonzero(batches.is_v2 & (batches.column("producer_id") >= 0))
    if not len(rows):
        return
    if not (batches.column("attributes")[rows] & (TRANSACTIONAL | CONTROL)).any():
        rows = rows[_last_of_each(batches.column("producer_id")[rows])]
    columns = [batches.column(name)[rows].tolist() for name in BATCH_COLUMNS]
    for values in zip(*columns, strict=True):
        header = BatchHeader(*values)
        yield header, tuple(markers_of(reader, header)) if header.is_control else ()


def _last_of_each(ids: Ints) -> Ints:
    """Return where each id comes last, by where it comes first: the order in which Kafka's map sees new ones."""
    _, first = np.unique(ids, return_index=True)
    _, from_end = np.unique(ids[::-1], return_index=True)
    last: Ints = (len(ids) - 1 - from_end)[np.argsort(first)]
    return last


def _ended(
    open_transactions: OpenTransactions, header: BatchHeader, markers: tuple[Marker, ...]
) -> Iterator[AbortedTransaction]:
    if not header.is_control:
        open_transactions.data(header)
    for marker in markers:
        ended = open_transactions.end(marker)
        if ended is not None:
            yield ended


def _new_epochs(batches: Batches, latest: int) -> Iterator[EpochStart]:
    epochs = np.where(batches.is_v2, batches.column("leader_epoch"), -1)
    before = np.maximum.accumulate(np.concatenate(([latest], epochs)))[:-1]
    for row in np.flatnonzero(epochs > before).tolist():
        yield EpochStart(int(epochs[row]), int(batches.column("base_offset")[row]))
