"""Summarize a log. By default, only the first and last batch of each segment are read, which takes about a second.

``summarize_quickly`` reads a few hundred bytes of a segment: its first batch header, the last entry of its offset
index, and the headers from there to the end. Codecs, formats and times are then those of the first and the last batch.
``summarize_all_headers`` reads all headers. ``is_deep`` shows which of the two was used. Neither decompresses records.
Therefore the numbers of compressed messages of formats 0 and 1 are unknown.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODECS, MIN_STATED_BATCH_BYTES, OVERHEAD_BYTES
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt

if TYPE_CHECKING:
    from kafkaframes.storage.files.headers import BatchHeader

_INDEX_ENTRY_BYTES = 8  # size of an offset index entry
MAX_FULLY_READ_BYTES = 16 << 10  # up to this size, all headers are read, which is faster than reading the index
UNKNOWN_VALUE = -1  # value of an unknown offset, timestamp or count


@dataclass(slots=True)
class SegmentSummary:
    """The properties of a segment, or the reason why it could not be read (``problem``).

    Attributes:
        first_offset, last_offset: offsets of the first and last batch; -1 for an empty segment.
        first_timestamp, last_timestamp: smallest and largest timestamp of the batches that were read; -1 if they have
            none.
        batches, records, control_records: numbers that the headers declare; -1 unless all headers were read. A
            compressed message of format 0 or 1 counts as one record.
        codecs, magics: bytes by codec and by format, of the batches that were read.
        tail_bytes: number of bytes after the last whole batch.
    """

    path: str
    base_offset: int
    size_bytes: int
    first_offset: int = UNKNOWN_VALUE
    last_offset: int = UNKNOWN_VALUE
    first_timestamp: int = UNKNOWN_VALUE
    last_timestamp: int = UNKNOWN_VALUE
    batches: int = UNKNOWN_VALUE
    records: int = UNKNOWN_VALUE
    control_records: int = UNKNOWN_VALUE
    codecs: Counter[str] = field(default_factory=Counter)
    magics: Counter[str] = field(default_factory=Counter)
    tail_bytes: int = 0
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the summary as a JSON object."""
        return _add_units(_fields_to_dict(self) | {"codecs": dict(self.codecs), "magics": dict(self.magics)})


@dataclass(slots=True)
class PartitionSummary:
    """The properties of a partition, and the summaries of its segments."""

    topic: str
    partition: int
    directory: str
    state: str
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    topic_id: str | None
    size_bytes: int
    segments: list[SegmentSummary]
    is_deep: bool
    left_over_files: int = 0

    def sum_counts(self, name: str) -> int:
        """Return the sum of a count over all segments; -1 if the count of a segment is unknown."""
        values = [getattr(segment, name) for segment in self.segments]
        return sum(values) if all(value >= 0 for value in values) else UNKNOWN_VALUE

    def sum_by_name(self, name: str) -> Counter[str]:
        """Return the sum of a counter over all segments: bytes by codec or by format."""
        return sum((getattr(segment, name) for segment in self.segments), Counter())

    def as_json(self) -> dict[str, Any]:
        """Return the summary as a JSON object, with its segments."""
        first, last = find_time_range(self.segments)
        count_names = ("batches", "records", "control_records") if self.is_deep else ()
        totals = {name: self.sum_counts(name) for name in count_names}
        times = {"first_timestamp": first, "last_timestamp": last}
        mixes = {"codecs": dict(self.sum_by_name("codecs")), "magics": dict(self.sum_by_name("magics"))}
        segments = {"segments": [segment.as_json() for segment in self.segments]}
        return _add_units(_fields_to_dict(self) | totals | times | mixes) | segments


_NAME_WITH_UNIT_BY_NAME = {
    "first_timestamp": "first_timestamp_ms",
    "last_timestamp": "last_timestamp_ms",
    "codecs": "codec_bytes",
    "magics": "magic_bytes",
}


def _add_units(values: dict[str, Any]) -> dict[str, Any]:
    """Add the units to the names of values, and replace unknown values (-1) with None."""
    return {
        _NAME_WITH_UNIT_BY_NAME.get(name, name): None if value == UNKNOWN_VALUE else value
        for name, value in values.items()
    }


def _fields_to_dict(value: SegmentSummary | PartitionSummary) -> dict[str, Any]:
    """Return the fields of a summary by name."""
    return {entry.name: getattr(value, entry.name) for entry in fields(value)}


def find_time_range(segments: Iterable[SegmentSummary]) -> tuple[int, int]:
    """Return the smallest and the largest timestamp of segments; -1 if they have none."""
    segment_list = list(segments)
    first = min(
        (segment.first_timestamp for segment in segment_list if segment.first_timestamp >= 0), default=UNKNOWN_VALUE
    )
    return first, max((segment.last_timestamp for segment in segment_list), default=UNKNOWN_VALUE)


def summarize_partition(partition: Partition, segments: list[SegmentSummary], *, is_deep: bool) -> PartitionSummary:
    """Return the summary of a partition from the summaries of its segments."""
    start = partition.log_start_offset
    end = max((summary.last_offset + 1 for summary in segments if summary.last_offset >= 0), default=start)
    base_offsets = [segment.base_offset for segment in partition.segments]
    return PartitionSummary(
        topic=partition.topic,
        partition=partition.partition,
        directory=partition.directory,
        state=partition.state,
        log_start_offset=start,
        log_end_offset=max(start, end, *base_offsets),
        high_watermark=partition.high_watermark,
        topic_id=partition.metadata.topic_id if partition.metadata else None,
        size_bytes=partition.size_bytes,
        segments=segments,
        is_deep=is_deep,
        left_over_files=len(partition.temporary) + len(partition.orphans),
    )


def list_tasks(directories: Iterable[LogDirectory]) -> list[tuple[FileSystem, Segment]]:
    """Return all segments of all partitions, in order."""
    return [
        (directory.filesystem, segment)
        for directory in directories
        for partition in directory.partitions
        for segment in partition.segments
    ]


def summarize_quickly(filesystem: FileSystem, segment: Segment) -> SegmentSummary:
    """Summarize a segment from its first and last batch.

    If the segment cannot be read, ``problem`` contains the reason.
    """
    summary = SegmentSummary(segment.path, segment.base_offset, segment.size_bytes)
    if segment.size_bytes <= BYTES_TO_MAGIC:
        summary.tail_bytes = segment.size_bytes
        return summary
    try:
        with filesystem.open(segment.path) as read_at:
            _read_first_and_last(filesystem, segment, read_at, summary)
    except LogDirError as problem:
        summary.problem = str(problem)
    return summary


def _read_first_and_last(filesystem: FileSystem, segment: Segment, read_at: ReadAt, summary: SegmentSummary) -> None:
    """Add the data in a segment's first and last batch headers to its summary."""

    from kafkaframes.storage.files.headers import HeaderWalk

    first = _read_header(read_at, 0, segment.size_bytes)
    if first is None:
        summary.tail_bytes = segment.size_bytes
        return
    is_small = segment.size_bytes <= MAX_FULLY_READ_BYTES
    start = first.end if is_small else _find_last_batch(filesystem, segment, read_at, first)
    tail_walk = HeaderWalk(read_at, size_bytes=segment.size_bytes, position=start, file=segment.path)
    last = next(iter(deque(tail_walk, maxlen=1)), first)
    summary.first_offset, summary.last_offset = first.base_offset, last.last_offset
    outer_batches = (first,) if last is first else (first, last)
    for header in outer_batches:
        _add_codec_and_format(summary, header)
    summary.first_timestamp = min(
        (batch.base_timestamp for batch in outer_batches if batch.base_timestamp >= 0), default=UNKNOWN_VALUE
    )
    summary.last_timestamp = max(batch.max_timestamp for batch in outer_batches)
    summary.tail_bytes = segment.size_bytes - tail_walk.position


def _read_header(read_at: ReadAt, position: int, size_bytes: int) -> BatchHeader | None:
    """Return the batch header at a position; None if no whole batch starts there."""

    from kafkaframes.storage.files.headers import parse_header

    raw = read_at(position, BATCH_V2.size)
    if len(raw) <= BYTES_TO_MAGIC:
        return None
    body = int.from_bytes(raw[8:OVERHEAD_BYTES], "big", signed=True)
    size = body + OVERHEAD_BYTES
    if body < MIN_STATED_BATCH_BYTES or position + size > size_bytes:
        return None
    return parse_header(raw, window_position=0, position=position, size=size)


def _find_last_batch(filesystem: FileSystem, segment: Segment, read_at: ReadAt, first: BatchHeader) -> int:
    """Return a position near the end of the segment at which a batch starts, to read headers from there.

    This is the position in the last entry of the offset index, or that of the second batch if no batch starts there.
    """
    position = _read_last_indexed_position(filesystem, segment)
    if not first.end <= position < segment.size_bytes:
        return first.end
    result = _read_header(read_at, position, segment.size_bytes)
    is_batch_start = result is not None and 0 <= result.magic <= 2 and result.base_offset >= first.base_offset
    return position if is_batch_start else first.end


def _read_last_indexed_position(filesystem: FileSystem, segment: Segment) -> int:
    """Return the position in the last entry of the offset index; -1 if no entry can be read."""
    index = segment.index
    if index is None or index.size_bytes < _INDEX_ENTRY_BYTES or index.size_bytes % _INDEX_ENTRY_BYTES:
        return UNKNOWN_VALUE
    try:
        raw = filesystem.read(index.path, position=index.size_bytes - _INDEX_ENTRY_BYTES)
        if not any(raw):  # the zero tail of an index that was not closed
            raw = filesystem.read(index.path).rstrip(b"\0")
            raw += b"\0" * (-len(raw) % _INDEX_ENTRY_BYTES)
    except LogDirError:
        return UNKNOWN_VALUE
    return int.from_bytes(raw[-4:], "big", signed=True) if len(raw) >= _INDEX_ENTRY_BYTES else UNKNOWN_VALUE


def _add_codec_and_format(summary: SegmentSummary, header: BatchHeader) -> None:
    """Add a batch's size to the sizes of its codec and format."""
    codec = CODECS[header.codec] if header.codec < len(CODECS) else "unknown"
    summary.codecs[codec] += header.size
    summary.magics[f"v{header.magic}"] += header.size


def summarize_all_headers(filesystem: FileSystem, segment: Segment) -> SegmentSummary:
    """Summarize a segment from all its headers. If the segment cannot be read, ``problem`` contains the reason."""
    from kafkaframes.storage.files.scan import (
        scan_segment,
    )  # imports compiled kernels, which ``summarize_quickly`` does not need

    summary = SegmentSummary(
        segment.path, segment.base_offset, segment.size_bytes, batches=0, records=0, control_records=0
    )
    try:
        with filesystem.open(segment.path) as read_at:
            for window in scan_segment(read_at, size_bytes=segment.size_bytes, file=segment.path):
                _add_window(summary, window.batches)
                summary.tail_bytes = segment.size_bytes - window.batches.end.position
    except LogDirError as problem:
        summary.problem = str(problem)
    return summary


def _add_window(summary: SegmentSummary, batches: Any) -> None:
    """Add the data in a window's batch headers to the summary of a segment."""
    if len(batches) == 0:
        return
    if summary.first_offset < 0:
        summary.first_offset = int(batches.column("base_offset")[0])
    summary.last_offset = max(summary.last_offset, int(batches.column("last_offset").max()))
    counts, magics, sizes = batches.column("count"), batches.column("magic"), batches.column("size")
    summary.batches += len(batches)
    is_control = batches.is_control
    summary.records += int(counts[(counts > 0) & ~is_control].sum()) + int((magics < 2).sum())
    summary.control_records += int(counts[(counts > 0) & is_control].sum())
    min_timestamps = batches.column("base_timestamp")
    min_timestamps = min_timestamps[min_timestamps >= 0]
    if len(min_timestamps):
        earlier_timestamps = [summary.first_timestamp] if summary.first_timestamp >= 0 else []
        summary.first_timestamp = (
            min(int(min_timestamps.min()), *earlier_timestamps) if earlier_timestamps else int(min_timestamps.min())
        )
    summary.last_timestamp = max(summary.last_timestamp, int(batches.column("max_timestamp").max()))
    codecs = batches.codecs
    for number, name in enumerate((*CODECS, "unknown")):
        has_codec = codecs == number if name != "unknown" else codecs >= len(CODECS)
        if has_codec.any():
            summary.codecs[name] += int(sizes[has_codec].sum())
    for magic in (0, 1, 2):
        has_codec = magics == magic if magic < 2 else magics >= 2
        if has_codec.any():
            summary.magics[f"v{magic}"] += int(sizes[has_codec].sum())
