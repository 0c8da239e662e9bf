"""Read and write offset indexes (``N.index``) and time indexes (``N.timeindex``).

An entry of an offset index (Kafka's OffsetIndex) has 8 bytes: an int32 offset relative to the base offset in the file
name, and an int32 position. The offset is the last offset of a batch. The position is that of the same batch or of an
earlier batch: before KAFKA-806, an append of several batches added one entry with the last offset of all batches and
the position of the first. Offsets and positions increase strictly.

An entry of a time index (TimeIndex, KIP-33) has 12 bytes: an int64 timestamp in milliseconds since 1970, and an int32
offset relative to the base offset. Timestamps increase strictly, and offsets do not decrease. The time index of a
segment without timestamps (format 0) is empty.

Offset and time index files may end with a preallocated tail of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.wire.integers import MAX_INT32

Int64s = npt.NDArray[np.int64]
OFFSET_ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
NO_TIMESTAMP = -1


# -------------------------------------------------------------------------------- offset index


class OffsetPosition(NamedTuple):
    """An entry of an offset index: an absolute offset and a position in the ``.log`` file, in bytes."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetIndex:
    """The entries of an offset index."""

    base_offset: int
    offsets: Int64s
    positions: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: int) -> OffsetPosition:
        return OffsetPosition(int(self.offsets[index]), int(self.positions[index]))

    def lookup(self, target: int) -> OffsetPosition:
        """Return the last entry at or before ``target``; the segment's start if no entry matches.

        >>> read_offset_index(bytes.fromhex("0000000a00001000 0000001900002000"), base_offset=100).lookup(124)
        OffsetPosition(offset=110, position=4096)
        """
        entry_number = int(np.searchsorted(self.offsets, target, side="right")) - 1
        return self[entry_number] if entry_number >= 0 else OffsetPosition(self.base_offset, 0)


def read_offset_index(raw: bytes, *, base_offset: int, file: str | None = None, strict: bool = True) -> OffsetIndex:
    """Read the entries of an offset index, without the zeros at its end.

    Args:
        strict: whether to reject an index that Kafka's own check rejects or that look-ups cannot use, because its size
            is not a multiple of the entry size or its values do not increase. If False, all entries are returned.

    Raises:
        LogDirError: ``strict`` is true and the index is malformed; ``position`` is the start of the invalid entry.
    """
    entries = _split_entries(raw, OFFSET_ENTRY, file=file, strict=strict)
    relative = entries["relative_offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    if strict:
        _check_increasing(relative, "relative offset", OFFSET_ENTRY.itemsize, file=file, min_value=0)
        _check_increasing(positions, "position", OFFSET_ENTRY.itemsize, file=file, min_value=0)
    return OffsetIndex(base_offset, relative + base_offset, positions)


def write_offset_index(index: OffsetIndex) -> bytes:
    """Return the content of an offset index, without zeros at its end.

    Raises:
        LogDirError: an offset or a position does not fit into int32.
    """
    if len(index) and (index.positions.min() < 0 or index.positions.max() > MAX_INT32):
        raise LogDirError("a position does not fit into the 31 bits of an index")
    entries = np.empty(len(index), OFFSET_ENTRY)
    entries["relative_offset"] = _compute_relative_offsets(index.offsets, index.base_offset)
    entries["position"] = index.positions
    return entries.tobytes()


# ---------------------------------------------------------------------------------- time index


class TimestampOffset(NamedTuple):
    """An entry of a time index: a timestamp in milliseconds since 1970, and an absolute offset."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """The entries of a time index."""

    base_offset: int
    timestamps: Int64s
    offsets: Int64s

    def __len__(self) -> int:
        return len(self.timestamps)

    def __getitem__(self, index: int) -> TimestampOffset:
        return TimestampOffset(int(self.timestamps[index]), int(self.offsets[index]))

    def lookup(self, target: int) -> TimestampOffset:
        """Return the last entry with a timestamp at or before ``target``; (-1, base offset) if no entry matches."""
        entry_number = int(np.searchsorted(self.timestamps, target, side="right")) - 1
        return self[entry_number] if entry_number >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)


def read_time_index(raw: bytes, *, base_offset: int, file: str | None = None, strict: bool = True) -> TimeIndex:
    """Read the entries of a time index, without the zeros at its end.

    Args:
        strict: whether to reject a size that is not a multiple of the entry size, timestamps that do not increase, and
            offsets that decrease. If False, all entries are returned.

    Raises:
        LogDirError: ``strict`` is true and the index is malformed; ``position`` is the start of the invalid entry.
    """
    entries = _split_entries(raw, TIME_ENTRY, file=file, strict=strict)
    timestamps = entries["timestamp"].astype(np.int64)
    relative = entries["relative_offset"].astype(np.int64)
    if strict:
        _check_increasing(timestamps, "timestamp", TIME_ENTRY.itemsize, file=file, min_value=0)
        _check_offsets(relative, file)
    return TimeIndex(base_offset, timestamps, relative + base_offset)


def _check_offsets(relative_offsets: Int64s, file: str | None) -> None:
    """Reject decreasing offsets. Equal offsets are valid: two appends may each add an entry for one batch."""
    invalid_entries = np.flatnonzero(
        (relative_offsets < 0) | (np.diff(relative_offsets, prepend=relative_offsets[:1]) < 0)
    )
    if len(invalid_entries):
        entry_number = int(invalid_entries[0])
        reason = f"relative offset {int(relative_offsets[entry_number])} is negative or below the previous one"
        raise LogDirError(reason, position=entry_number * TIME_ENTRY.itemsize, file=file)


def write_time_index(index: TimeIndex) -> bytes:
    """Return the content of a time index, without zeros at its end.

    Raises:
        LogDirError: an offset does not fit into int32.
    """
    entries = np.empty(len(index), TIME_ENTRY)
    entries["timestamp"] = index.timestamps
    entries["relative_offset"] = _compute_relative_offsets(index.offsets, index.base_offset)
    return entries.tobytes()


# ---------------------------------------------------------------------------------------- both


def write_indexes(offset_index: OffsetIndex, time_index: TimeIndex) -> dict[str, bytes]:
    """Return the content of both files, by file kind.

    Raises:
        LogDirError: an offset or a position does not fit into int32.
    """
    return {"index": write_offset_index(offset_index), "timeindex": write_time_index(time_index)}


def _split_entries(raw: bytes, entry: np.dtype[Any], *, file: str | None, strict: bool) -> npt.NDArray[Any]:
    """Return the entries before the zeros at the end, as a view of ``raw``.

    Brokers map an index at its full size and trim it when the segment is rolled or the log is closed. After an unclean
    shutdown, the zeros remain. A single entry of zeros is valid (with timestamp 0); several such entries are a
    preallocated tail.
    """
    partial_bytes = len(raw) % entry.itemsize
    if partial_bytes and strict:
        reason = f"{len(raw)} bytes are not a multiple of the entry size, {entry.itemsize}"
        raise LogDirError(reason, position=len(raw) - partial_bytes, file=file)
    count = len(raw) // entry.itemsize
    entries = np.frombuffer(raw, entry, count)
    bytes_used = count * entry.itemsize
    if count <= 1 or raw[bytes_used - 1] or entries[-1].tobytes().strip(b"\0"):
        return entries
    last = np.frombuffer(raw, np.uint8, bytes_used).nonzero()[0]
    return entries[: int(last[-1]) // entry.itemsize + 1 if len(last) else 0]


def _check_increasing(values: Int64s, description: str, width: int, *, file: str | None, min_value: int) -> None:
    """Reject an index with values that do not increase strictly, or start below ``min_value``."""
    if len(values) == 0:
        return
    if values[0] < min_value:
        raise LogDirError(f"{description} {int(values[0])} is below {min_value}", position=0, file=file)
    decreasing_entries = np.flatnonzero(values[1:] <= values[:-1])
    if len(decreasing_entries):
        entry_number = int(decreasing_entries[0]) + 1
        reason = (
            f"{description} {int(values[entry_number])} follows {int(values[entry_number - 1])}; entries must increase"
        )
        raise LogDirError(reason, position=entry_number * width, file=file)


def _compute_relative_offsets(offsets: Int64s, base_offset: int) -> npt.NDArray[np.int32]:
    """Return the offsets as an index stores them: int32, relative to the segment's base offset."""
    relative = offsets - base_offset
    if len(relative) and (relative.min() < 0 or relative.max() > MAX_INT32):
        raise LogDirError(f"an offset is too far from the segment's base offset {base_offset} for an index")
    return relative.astype(np.int32)
