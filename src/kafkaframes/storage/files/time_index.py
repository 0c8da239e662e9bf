"""``N.timeindex``: the largest timestamp of everything up to an offset (Kafka's TimeIndex, KIP-33).

An entry is 12 bytes: a timestamp in milliseconds, int64, and an offset, int32 from the base offset in the name.
Timestamps increase strictly, offsets do not fall. Segments without timestamps (format 0) have an empty one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files._entries import Int64s, check_increasing, padded, relative_offsets, split_entries

ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    """One entry: milliseconds since 1970 and an absolute offset."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """The entries of one time index.

    Attributes:
        base_offset: the segment's.
        timestamps: milliseconds since 1970, int64.
        offsets: absolute offsets, int64.
    """

    base_offset: int
    timestamps: Int64s
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.timestamps)

    def __getitem__(self, index: int) -> TimestampOffset:
        return TimestampOffset(int(self.timestamps[index]), int(self.offsets[index]))

    def lookup(self, target: int) -> TimestampOffset:
        """Return the last entry with a timestamp at or before ``target``; (-1, base offset) where there is none."""
        at = int(np.searchsorted(self.timestamps, target, side="right")) - 1
        return self[at] if at >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)


def read_time_index(raw: bytes, *, base_offset: int, file: str | None = None, strict: bool = True) -> TimeIndex:
    """Read a time index file; its zero tail is left out.

    Args:
        raw: the file's bytes.
        base_offset: from the file's name.
        file: named in errors.
        strict: refuse a size that is not whole entries, and entries that do not increase. Otherwise the entries come as
            they are.

    Raises:
        LogDirError: strict, and the bytes are no such index; ``position`` is where the bad entry begins.
    """
    entries = split_entries(raw, ENTRY, file=file, strict=strict)
    timestamps = entries["timestamp"].astype(np.int64)
    relative = entries["relative_offset"].astype(np.int64)
    if strict:
        check_increasing(timestamps, "timestamp", ENTRY.itemsize, file=file, least=0)
        _check_offsets(relative, file)
    return TimeIndex(base_offset, timestamps, relative + base_offset)


def _check_offsets(relative: Int64s, file: str | None) -> None:
    """Refuse falling offsets; equal ones are legal: one batch, two maxima seen at two appends."""
    wrong = np.flatnonzero((relative < 0) | (np.diff(relative, prepend=relative[:1]) < 0))
    if len(wrong):
        at = int(wrong[0])
        reason = f"relative offset {int(relative[at])} is negative or falls"
        raise LogDirError(reason, position=at * ENTRY.itemsize, file=file)


def write_time_index(index: TimeIndex, *, size_bytes: int | None = None) -> bytes:
    """Write a time index file, with a zero tail up to ``size_bytes`` if that is given.

    Raises:
        LogDirError: an offset does not fit into int32.
    """
    entries = np.empty(len(index), ENTRY)
    entries["timestamp"] = index.timestamps
    entries["relative_offset"] = relative_offsets(index.offsets, index.base_offset)
    return padded(entries.tobytes(), size_bytes)
