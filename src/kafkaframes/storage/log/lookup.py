"""Look up offsets and timestamps in a partition, with the answers that a broker would give.

The rules are those of UnifiedLog and LogSegment (4.x), compared with brokers from 0.10.2 to 4.3:

* A timestamp is searched in one segment only, which is the first one whose largest timestamp is not before it. For a
  segment without timestamps (format 0), the file's modification time is used. Because of this rule, a matching record
  in a later segment may not be found.
* The answer is the first record at or after the log start offset, including control records, whose timestamp is at or
  after the requested timestamp.

All functions take the file system and partition from ``discover``. With ``use_indexes=False`` the functions read batch
headers instead of indexes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from kafkaframes.storage.files.directory import Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.indexes import TIME_ENTRY, TimestampOffset, read_time_index
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment

NO_EPOCH = -1
NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """The offset and timestamp that a look-up by timestamp found.

    Attributes:
        offset: offset of the record; -1 if no record matches.
        timestamp: timestamp of the record, milliseconds since 1970; -1 if it is not requested or no record matches.
        leader_epoch: leader epoch of the record's batch; -1 if unknown.
    """

    offset: int
    timestamp: int = -1
    leader_epoch: int = NO_EPOCH


def log_end_offset(filesystem: FileSystem, partition: Partition, *, use_indexes: bool = True) -> int:
    """Return the offset of the next record; for an empty partition, the log start offset.

    Raises:
        LogDirError: the last segment cannot be read.
    """
    if not partition.segments:
        return partition.log_start_offset
    with open_segment(filesystem, partition.segments[-1], use_indexes=use_indexes) as reader:
        return max(reader.next_offset, partition.log_start_offset)


def find_offset_for_timestamp(
    filesystem: FileSystem, partition: Partition, timestamp_ms: int, *, use_indexes: bool = True
) -> TimedOffset | None:
    """Return the first record at or after ``timestamp_ms``, like a consumer's ``offsetsForTimes``.

    Returns:
        The record, or None if the searched segment has no match.

    Raises:
        LogDirError: a segment cannot be read.
    """
    for segment in partition.segments:
        if _find_effective_timestamp(filesystem, partition, segment, use_indexes) >= timestamp_ms:
            with open_segment(filesystem, segment, use_indexes=use_indexes) as reader:
                return find_timestamp(reader, timestamp_ms, min_offset=partition.log_start_offset)
    return None


def find_timestamp(reader: SegmentReader, timestamp_ms: int, *, min_offset: int) -> TimedOffset | None:
    """Return the first record of one segment at or after ``timestamp_ms`` and ``min_offset``.

    Raises:
        LogDirError: the segment cannot be read.
    """
    from_offset = max(reader.find_time_entry_before(timestamp_ms).offset, min_offset)
    for header in reader.walk_headers(reader.find_start_before(from_offset)):
        if header.max_timestamp < timestamp_ms or header.last_offset < min_offset:
            continue
        offsets, timestamps = reader.read_offsets_and_timestamps(header)
        rows = np.flatnonzero((timestamps >= timestamp_ms) & (offsets >= min_offset))
        if rows.size:
            return TimedOffset(int(offsets[rows[0]]), int(timestamps[rows[0]]), header.leader_epoch)
    return None


def largest_timestamp(
    filesystem: FileSystem, partition: Partition, segment: Segment, *, use_indexes: bool = True
) -> int:
    """Return the largest timestamp of a segment, milliseconds since 1970; -1 if no record has a timestamp.

    When Kafka closes a segment, it writes the largest timestamp at the end of the time index. If this closing entry
    exists, nothing else is read.

    Raises:
        LogDirError: the segment cannot be read.
    """
    if use_indexes and segment is not partition.segments[-1]:
        closing = _read_closing_entry(filesystem, partition, segment)
        if closing is not None:
            return closing.timestamp
    with open_segment(filesystem, segment, use_indexes=use_indexes) as reader:
        return reader.largest_timestamp


def _read_closing_entry(filesystem: FileSystem, partition: Partition, segment: Segment) -> TimestampOffset | None:
    """Return the last entry of a closed segment's time index; None if the entry is missing or implausible."""
    index = segment.time_index
    if index is None or index.size_bytes == 0 or index.size_bytes % TIME_ENTRY.itemsize:
        return None
    raw = filesystem.read(index.path, position=index.size_bytes - TIME_ENTRY.itemsize)
    if len(raw) != TIME_ENTRY.itemsize or not any(raw):  # an index that was not closed ends in zeros
        return None
    entry = read_time_index(raw, base_offset=segment.base_offset, strict=False)[0]
    later = bisect_right(partition.segments, segment.base_offset, key=lambda other: other.base_offset)
    next_base_offset = partition.segments[later].base_offset
    return entry if segment.base_offset <= entry.offset < next_base_offset and entry.timestamp >= 0 else None


def _find_effective_timestamp(filesystem: FileSystem, partition: Partition, segment: Segment, use_indexes: bool) -> int:
    """Return the largest timestamp, or the file's modification time if no record has a timestamp (LogSegment)."""
    largest = largest_timestamp(filesystem, partition, segment, use_indexes=use_indexes)
    return segment.log.mtime_ms if largest < 0 and segment.log.mtime_ms is not None else largest
