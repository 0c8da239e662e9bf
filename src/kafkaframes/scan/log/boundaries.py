"""Find where a large segment can be cut: places where a batch starts. No pyspark.

The ``.index`` shows such places at no cost: each of its entries is (relative offset, position of a batch). But an
index may be stale or foreign, so an entry counts only if a plausible batch header stands at its position and another
one, or the end of the file, where that batch ends. If no entry near a wanted place holds, the headers are walked from
the last place that is known; a store that is asked over a network is not walked, and the segment stays whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.log.planning import Segment
from kafkaframes.storage.files.filesystem import FileSystem, LocalFileSystem, ReadAt
from kafkaframes.storage.files.headers import BatchHeader, HeaderWalk
from kafkaframes.storage.files.offset_index import read_offset_index
from kafkaframes.storage.log.where import filesystem_for

_TRIES = 3  # entries of the index that are looked at for one wanted place
_WALKED_BYTES = 1 << 10  # read at once where headers are walked: they lie far apart in a segment that is worth cutting


def find_boundaries(segment: Segment, wanted: Sequence[int], *, storage: Mapping[str, Any] | None = None) -> list[int]:
    """Return for each wanted position the start of a batch at or after it; positions with none are left out.

    The file may shrink or vanish meanwhile: then there are fewer, and the reader of the segment reports it.
    """
    filesystem = filesystem_for(segment.path, options=storage)
    try:
        with filesystem.open(segment.path) as read_at:
            found = _from_index(filesystem, segment, wanted, read_at)
            missing = [place for place, boundary in zip(wanted, found, strict=True) if boundary is None]
            if missing and isinstance(filesystem, LocalFileSystem):
                found += _walk(read_at, segment, missing)
    except LogDirError:
        return []
    return sorted({boundary for boundary in found if boundary is not None})


def is_batch_start(read_at: ReadAt, position: int, segment: Segment) -> bool:
    """Say whether a plausible batch starts at ``position`` and another one, or the end of the file, follows it."""
    walk = HeaderWalk(read_at, size_bytes=segment.size_bytes, position=position, window_bytes=BATCH_V2.size)
    headers = list(islice(walk, 2))
    if not headers or not all(_is_plausible(header, segment) for header in headers):
        return False
    return len(headers) == 2 or headers[0].end == segment.size_bytes


def _is_plausible(header: BatchHeader, segment: Segment) -> bool:
    return header.base_offset >= segment.base_offset and 0 <= header.magic <= 2


def _from_index(filesystem: FileSystem, segment: Segment, wanted: Sequence[int], read_at: ReadAt) -> list[int | None]:
    if segment.index_path is None:
        return [None] * len(wanted)
    index = read_offset_index(filesystem.read(segment.index_path), base_offset=segment.base_offset, strict=False)
    positions = sorted(position for position in index.positions.tolist() if position > 0)
    found: list[int | None] = []
    for place in wanted:
        first = bisect_left(positions, place)
        candidates = positions[first : first + _TRIES]
        found.append(next((p for p in candidates if is_batch_start(read_at, p, segment)), None))
    return found


def _walk(read_at: ReadAt, segment: Segment, wanted: Iterable[int]) -> Iterator[int]:
    """Yield the first batch at or after each wanted position, from header to header; none behind damage."""
    headers = iter(HeaderWalk(read_at, size_bytes=segment.size_bytes, window_bytes=_WALKED_BYTES))
    header = next(headers, None)
    for place in sorted(wanted):
        while header is not None and header.position < place:
            header = next(headers, None)
        if header is None:
            return
        yield header.position
