"""Make the indexes of a segment from its batches, as Kafka's recovery does (``LogSegment.recover``).

Both indexes get an entry before a batch when more than ``index.interval.bytes`` lie between it and the last entry; the
time index gets one more at the end. The result is a rule of batches alone, so it is the same whoever wrote them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kafkaframes.log.offset_index import OffsetIndex
from kafkaframes.log.time_index import TimeIndex

Ints = npt.NDArray[np.int64]
_NO_TIMESTAMP = -1


def build_indexes(
    base_offset: int,
    positions: Ints,
    last_offsets: Ints,
    max_timestamps: Ints,
    *,
    interval_bytes: int = 4096,
) -> tuple[OffsetIndex, TimeIndex]:
    """Return the offset index and the time index of a segment.

    Args:
        base_offset: of the segment's name.
        positions, last_offsets, max_timestamps: of its batches, in order: bytes, offsets, milliseconds.
        interval_bytes: ``index.interval.bytes``.
    """
    entries = _entries(positions, interval_bytes)
    largest = np.maximum.accumulate(np.maximum(max_timestamps, _NO_TIMESTAMP))
    return (
        OffsetIndex(base_offset, last_offsets[entries], positions[entries]),
        _time_index(base_offset, entries, last_offsets, max_timestamps, largest),
    )


def _entries(positions: Ints, interval_bytes: int) -> Ints:
    """Return the batches before which an entry is due."""
    found: list[int] = []
    last = 0
    while True:
        at = int(np.searchsorted(positions, last + interval_bytes, side="right"))
        if at >= len(positions):
            return np.array(found, np.int64)
        found.append(at)
        last = int(positions[at])


def _time_index(base_offset: int, entries: Ints, last_offsets: Ints, stamps: Ints, largest: Ints) -> TimeIndex:
    if not len(largest):
        return TimeIndex(base_offset, np.empty(0, np.int64), np.empty(0, np.int64))
    asked = np.concatenate((entries, [len(largest) - 1]))
    before = np.concatenate(([_NO_TIMESTAMP], largest[asked[:-1]]))
    asked = asked[largest[asked] > before]
    reached_at = np.searchsorted(largest, largest[asked], side="left")
    return TimeIndex(base_offset, largest[asked], last_offsets[reached_at])
