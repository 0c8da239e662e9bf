"""Find where a large segment can be cut: places where a batch starts. No pyspark.

The ``.index`` tells such places for nothing: each of its entries is (relative offset, position of a batch). But an
index may be stale or foreign, so an entry counts only if a plausible batch header stands at its position and another
one, or the end of the file, where that batch ends. If no entry near a wanted place holds, the headers are walked from
the last place that is known; a store that is asked over a network is not walked, and the segment stays whole.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.files.filesystem import FileSystem, LocalFileSystem
from kafkaframes.log.where import filesystem_for
from kafkaframes.spark.planning import Segment

# The part that all three message formats share: base offset, size of the rest, leader epoch or CRC, magic.
_HEADER = struct.Struct(">qiib")
_BEFORE_SIZE = 12  # bytes of offset and size, which the size does not count
_SMALLEST_SIZE = 14  # LegacyRecord.RECORD_OVERHEAD_V0: less is not a batch
_INDEX_ENTRY = struct.Struct(">ii")
_TRIES = 3  # entries of the index that are looked at for one wanted place

ReadAt = Callable[[int, int], bytes]


def find_boundaries(segment: Segment, wanted: Sequence[int], *, storage: Mapping[str, Any] | None = None) -> list[int]:
    """Return for each wanted position the start of a batch at or after it; positions with none are left out.

    The file may shrink or vanish meanwhile: then there are fewer, and whoever reads the segment will say so.
    """

    filesystem = filesystem_for(segment.path, options=storage)
    try:
        with filesystem.open(segment.path) as read_at:
            found = _from_index(filesystem, segment, wanted, read_at)
        missing = [place for place, boundary in zip(wanted, found, strict=True) if boundary is None]
        if missing and isinstance(filesystem, LocalFileSystem):
            return sorted({b for b in found if b is not None} | set(_walk(segment.path, missing)))
    except LogDirError:
        return []
    return sorted({boundary for boundary in found if boundary is not None})


def is_batch_start(read_at: ReadAt, position: int, segment: Segment) -> bool:
    """Say whether a plausible batch starts at ``position`` and another one, or the end of the file, follows it."""
    size = _plausible_size(read_at(position, _HEADER.size), segment)
    if size is None:
        return False
    following = position + size
    if following >= segment.size_bytes:
        return following == segment.size_bytes
    return _plausible_size(read_at(following, _HEADER.size), segment) is not None


def _plausible_size(header: bytes, segment: Segment) -> int | None:
    """Return the bytes of the batch whose header this could be, else None."""
    if len(header) < _HEADER.size:
        return None
    offset, size, _, magic = _HEADER.unpack(header)
    if offset < segment.base_offset or not 0 <= magic <= 2 or size < _SMALLEST_SIZE:
        return None
    return int(_BEFORE_SIZE + size)


def _from_index(filesystem: FileSystem, segment: Segment, wanted: Sequence[int], read_at: ReadAt) -> list[int | None]:
    if segment.index_path is None:
        return [None] * len(wanted)
    raw = filesystem.read(segment.index_path)
    whole = len(raw) - len(raw) % _INDEX_ENTRY.size
    positions = sorted(position for _, position in _INDEX_ENTRY.iter_unpack(raw[:whole]) if position > 0)
    found: list[int | None] = []
    for place in wanted:
        first = bisect_left(positions, place)
        candidates = positions[first : first + _TRIES]
        found.append(next((p for p in candidates if is_batch_start(read_at, p, segment)), None))
    return found


def _walk(path: str, wanted: Sequence[int]) -> list[int]:
    """Step from header to header through a local file, to the first batch at or after each wanted position.

    The file is not mapped: one that is cut meanwhile would kill the process.
    """
    found: list[int] = []
    try:
        with open(path, "rb", buffering=0) as file:
            position, end = 0, os.fstat(file.fileno()).st_size - _HEADER.size
            for place in wanted:
                while position < place and position <= end:
                    header = os.pread(file.fileno(), _HEADER.size, position)
                    if len(header) < _HEADER.size:
                        return found
                    size = _HEADER.unpack(header)[1]
                    if size < _SMALLEST_SIZE:
                        return found  # damage: what lies behind is not known to be a batch
                    position += _BEFORE_SIZE + size
                if position > end:
                    return found
                found.append(position)
    except OSError as error:
        raise LogDirError(f"cannot be read: {error}", file=path) from error
    return found
