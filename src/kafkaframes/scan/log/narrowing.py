"""Narrow a segment to the batches of an offset range, so that no other bytes are read."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.records.reasons import END
from kafkaframes.scan.ranges import NO_END, NO_START
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.indexes import read_offset_index
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.tiered.names import ViewPath

log = logging.getLogger("kafkaframes.scan")


class OffsetRange(NamedTuple):
    """A range of offsets of a partition; ``end_offset`` is exclusive."""

    first_offset: int = NO_START
    end_offset: int = NO_END

    @property
    def is_limited(self) -> bool:
        """Whether the range excludes any offset."""
        return self != ALL_OFFSETS

    @property
    def is_empty(self) -> bool:
        """Whether no offset is in the range."""
        return self.first_offset >= self.end_offset


ALL_OFFSETS = OffsetRange()


def is_tiered(path: str) -> bool:
    """Return whether a path of a segment or partition belongs to a tiered store."""
    return ViewPath.parse(path) is not None


def select_segments_in_range(segments: tuple[Segment, ...], offsets: OffsetRange) -> tuple[Segment, ...]:
    """Return the segments that may have offsets in a range.

    The last offset of a segment is only known to be less than the base offset of the next one.
    """
    if offsets.is_empty or not segments:
        return ()
    bases = [segment.base_offset for segment in segments[1:]]
    return tuple(
        segment
        for segment, next_base in zip(segments, (*bases, NO_END), strict=True)
        if next_base > offsets.first_offset and segment.base_offset < offsets.end_offset
    )


def narrow_segment(
    filesystem: FileSystem, segment: Segment, offsets: OffsetRange, *, start: int = 0, end: int | None = None
) -> tuple[int, int]:
    """Return the byte range of the batches that have offsets in a range, found by reading batch headers.

    The byte range may be empty.

    Args:
        filesystem: File system of the segment.
        segment: The segment.
        offsets: Range of offsets.
        start: Smallest start position of the result.
        end: Largest end position of the result. If None, it is the end of the file.

    Raises:
        LogDirError: The segment cannot be read.
    """
    limit = segment.size_bytes if end is None else end
    first_position, end_position = start, limit
    with open_segment(filesystem, segment) as reader:
        if offsets.first_offset != NO_START:
            _, first_position = _find_batch_reaching(reader, offsets.first_offset, start)
        if offsets.end_offset != NO_END:
            last, _ = _find_batch_reaching(reader, offsets.end_offset, limit)
            if last is not None:  # the header of a compressed message set (format 0 or 1) has only its last offset
                is_outside = last.magic >= 2 and last.base_offset >= offsets.end_offset
                end_position = last.position if is_outside else last.end
    first_position, end_position = max(first_position, start), max(min(end_position, limit), start)
    return min(first_position, end_position), end_position


def narrow_tiered_segment(
    filesystem: FileSystem, segment: Segment, offsets: OffsetRange, *, start: int, end: int
) -> tuple[int, int]:
    """Return the byte range of a tiered segment by its index, because reading batch headers would fetch chunks.

    Records at or above an index entry's offset are at or after its position (OffsetIndex). Records at or below the
    offset are before the position of the next entry. The result may have batches that are outside of the range.
    """
    if segment.index is None:
        return start, end
    if segment.end_offset is not None and offsets.first_offset > segment.end_offset:
        return start, start
    try:
        raw = filesystem.read(segment.index.path)
        index = read_offset_index(raw, base_offset=segment.base_offset, file=segment.index.path)
    except LogDirError as problem:
        log.warning("%s; the segment is read without it", problem)
        return start, end
    first_position, end_position = start, end
    if offsets.first_offset != NO_START:
        first_position = max(start, index.lookup(offsets.first_offset).position)
    if offsets.end_offset != NO_END:
        following = int(np.searchsorted(index.offsets, offsets.end_offset - 1)) + 1
        end_position = int(index.positions[following]) if following < len(index) else end
    return min(first_position, end_position), min(end_position, end)


def _find_batch_reaching(reader: SegmentReader, offset: int, otherwise: int) -> tuple[BatchHeader | None, int]:
    """Return the first batch with a last offset of at least ``offset``, and its position.

    Without such a batch, the position is the file size if the whole file was read, otherwise ``otherwise``.
    """
    walk = reader.walk_headers(reader.find_start_before(offset))
    for header in walk:
        if header.last_offset >= offset:
            return header, header.position
    return None, reader.segment.size_bytes if walk.status == END else otherwise
