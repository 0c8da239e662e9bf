"""From paths to segments, flattened for planning; and where a large segment can be cut.

The ``.index`` shows where batches start at no cost: each of its entries is (relative offset, position of a batch). But
an index may be stale or foreign, so an entry counts only if a plausible batch header stands at its position and another
one, or the end of the file, where that batch ends. If no entry near a position holds, the headers are walked from the
last position that is known; a store that is read over a network is not walked, and the segment stays whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.scan.log.planning import NO_START, Segment
from kafkaframes.storage.files.directory import LogDirectory, Partition
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.filesystem import FileSystem, LocalFileSystem, ReadAt, has_magic, plain_path, split
from kafkaframes.storage.files.indexes import read_offset_index
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.segment_reader import BatchHeader, HeaderWalk
from kafkaframes.storage.log.discover import discover, filesystem_for


@dataclass(frozen=True, slots=True)
class Log:
    """One topic partition, who answers for its files, and the log directory it was found in."""

    filesystem: FileSystem
    partition: Partition
    log_directory: LogDirectory | None = None


@dataclass(frozen=True, slots=True)
class DiscoveredLogs:
    """What lies under the paths of a ``load()``.

    Attributes:
        segments: that can be read.
        by_directory: the partitions that they belong to.
        whole: False where the paths name files, so that the partitions' other segments are not known.
    """

    segments: list[Segment]
    by_directory: dict[str, Log]
    whole: bool


def discover_logs(paths: tuple[str, ...], *, storage: Mapping[str, Any] | None = None) -> DiscoveredLogs:
    """Return every live segment under the paths, and the partitions.

    Renamed directories (``-delete``, ``-future``, ``-stray``) and temporary files are left out, unless the path
    leads to the file itself.

    Raises:
        LogDirError: a path does not exist, cannot be read or holds nothing of Kafka's.
    """
    named = {plain_path(path).rstrip("/") for path in paths if not has_magic(path)}
    segments: list[Segment] = []
    by_directory: dict[str, Log] = {}
    for directory in discover(paths, options=storage):
        for partition in directory.partitions:
            by_directory[partition.directory] = Log(directory.filesystem, partition, directory)
            segments += segments_of(partition, named)
    return DiscoveredLogs(segments, by_directory, whole=not any(_names_a_file(path) for path in paths))


def _names_a_file(path: str) -> bool:
    name = split(plain_path(path))[1]
    return FileName.parse(name) is not None or ".log" in name or ".checkpoint" in name


def segments_of(partition: Partition, named: set[str]) -> Iterator[Segment]:
    """Yield the live segments of a partition, and those of any kind whose paths were ``named``."""
    is_named = partition.directory in named
    for segment in (*partition.segments, *partition.kraft_snapshots):
        file_named = segment.path in named
        if not (file_named or (segment.log.name.kind == "log" and (partition.is_live or is_named))):
            continue
        yield Segment(
            path=segment.path,
            size_bytes=segment.size_bytes,
            base_offset=segment.base_offset,
            topic=partition.topic,
            partition=partition.partition,
            directory=partition.directory,
            index_path=segment.index.path if segment.index else None,
            named=is_named or file_named,
            log_start_offset=_start(partition, segment),
            stored=segment,
            source=partition.log_directory,
        )


def _start(partition: Partition, segment: StoredFiles) -> int:
    """Return the log start offset where it cuts this segment; a temporary file or a snapshot has none."""
    is_log = segment.log.name.kind == "log" and not segment.log.name.temporary
    start = partition.log_start_offset
    return start if is_log and start > segment.base_offset else NO_START


_TRIES = 3  # entries of the index that are looked at for one wanted place
_WALKED_BYTES = 1 << 10  # read at once where headers are walked: they lie far apart in a segment that is worth cutting


def find_boundaries(
    segment: Segment, requested: Sequence[int], *, storage: Mapping[str, Any] | None = None
) -> list[int]:
    """Return for each requested position the start of a batch at or after it; positions with none are left out.

    The file may shrink or vanish meanwhile: then there are fewer, and the reader of the segment reports it.
    """
    filesystem = filesystem_for(segment.path, options=storage)
    try:
        with filesystem.open(segment.path) as read_at:
            result = _from_index(filesystem, segment, requested, read_at)
            missing = [position for position, boundary in zip(requested, result, strict=True) if boundary is None]
            if missing and isinstance(filesystem, LocalFileSystem):
                result += _walk(read_at, segment, missing)
    except LogDirError:
        return []
    return sorted({boundary for boundary in result if boundary is not None})


def is_batch_start(read_at: ReadAt, position: int, segment: Segment) -> bool:
    """Say whether a plausible batch starts at ``position`` and another one, or the end of the file, follows it."""
    walk = HeaderWalk(read_at, size_bytes=segment.size_bytes, position=position, window_bytes=BATCH_V2.size)
    headers = list(islice(walk, 2))
    if not headers or not all(_is_plausible(header, segment) for header in headers):
        return False
    return len(headers) == 2 or headers[0].end == segment.size_bytes


def _is_plausible(header: BatchHeader, segment: Segment) -> bool:
    return header.base_offset >= segment.base_offset and 0 <= header.magic <= 2


def _from_index(
    filesystem: FileSystem, segment: Segment, requested: Sequence[int], read_at: ReadAt
) -> list[int | None]:
    if segment.index_path is None:
        return [None] * len(requested)
    index = read_offset_index(filesystem.read(segment.index_path), base_offset=segment.base_offset, strict=False)
    positions = sorted(position for position in index.positions.tolist() if position > 0)
    result: list[int | None] = []
    for target in requested:
        first = bisect_left(positions, target)
        candidates = positions[first : first + _TRIES]
        result.append(next((p for p in candidates if is_batch_start(read_at, p, segment)), None))
    return result


def _walk(read_at: ReadAt, segment: Segment, requested: Iterable[int]) -> Iterator[int]:
    """Yield the first batch at or after each requested position, from header to header; none behind damage."""
    headers = iter(HeaderWalk(read_at, size_bytes=segment.size_bytes, window_bytes=_WALKED_BYTES))
    header = next(headers, None)
    for position in sorted(requested):
        while header is not None and header.position < position:
            header = next(headers, None)
        if header is None:
            return
        yield header.position
