"""Read copies: the headers for a merge, and the batches that replace damaged ones while a log is read.

The headers of a local segment are read in steps of some hundred kilobytes into one buffer; the content of large batches
is skipped. A segment in a store is one block without headers if its leader epochs are known and the partition is not
compacted. The offsets of such a block range from the segment's base offset to that of the next segment.

A damaged batch is replaced by the same batch of another copy while a log is read. The replacing batch must have the
same checksum, size, format and last offset. The replacement therefore has the original bytes, and it does not matter
whether the rest of the log is compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.records.batch import read_batches
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.reasons import FAIL, KEEP, TORN
from kafkaframes.records.scan import (
    FILE,
    BatchHeaders,
    BatchSource,
    Bytes,
    Chunk,
    Chunks,
    Flags,
    MemorySource,
    as_array,
    check_crcs,
    scan_all,
    split_into_runs,
)
from kafkaframes.storage.copies.blocks import (
    NO_BLOCKS,
    UNKNOWN_CRC,
    BlockTable,
    BrokenPosition,
    PartitionCopy,
    concatenate_blocks,
    determine_lineage,
    make_scanned_blocks,
    make_segment_block,
    select_ordered_blocks,
)
from kafkaframes.storage.copies.cover import COMPACTED_TOPICS
from kafkaframes.storage.files import names
from kafkaframes.storage.files.checkpoints import NO_EPOCH, get_latest_epoch
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem, LocalFileSystem
from kafkaframes.storage.files.segment_file import open_segment_file
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.open_segment import DamagedRange, OpenSegment, StoredSegment, open_planned_segment

HEADER_WINDOW_BYTES = 256 << 10  # size of the reads when only batch headers are needed
LATEST_MAGIC = 2
CHECKSUM_READ_BYTES = 4 << 20  # size of the reads when checksums are verified
_COMPARED_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers", "control")


@dataclass(frozen=True, slots=True)
class CopySource:
    """A partition directory and the log directory that contains it."""

    log_directory: LogDirectory
    partition: Partition

    @property
    def filesystem(self) -> FileSystem:
        """The file system of the partition's files."""
        return self.log_directory.filesystem


@contextmanager
def open_source(filesystem: FileSystem, segment: Segment) -> Iterator[BatchSource]:
    """Open a segment as a source of batches, up to its listed size.

    Raises:
        LogDirError: the segment cannot be read.
    """
    if isinstance(filesystem, LocalFileSystem):
        with open_segment_file(segment.path) as file:
            yield file
    else:
        with filesystem.open(segment.path) as read_at:
            yield StoredSegment(segment.path, segment.size_bytes, read_at)


def read_copy(source: CopySource, *, scan: bool = False) -> PartitionCopy:
    """Read the headers of one copy; with ``scan``, also those of segments in a store.

    Raises:
        LogDirError: a segment cannot be read.
    """
    partition = source.partition
    segments = tuple(segment for segment in partition.segments if not segment.log.name.temporary)
    is_scanned = scan or isinstance(source.filesystem, LocalFileSystem) or _must_scan(source)
    parts: list[BlockTable] = []
    broken_segments: list[BrokenPosition] = []
    for index, segment in enumerate(segments):
        if is_scanned:
            blocks, too_early = _scan_segment(source.filesystem, index, segment, is_last=index == len(segments) - 1)
            broken_segments += too_early
        else:
            blocks = _make_unread_block(source, segments, index)
        parts.append(blocks)
    ordered_blocks, misplaced_blocks = select_ordered_blocks(concatenate_blocks(parts))
    lineage, fits = determine_lineage(partition.leader_epochs, ordered_blocks)
    ends = [int(ordered_blocks.last[-1]) + 1] if len(ordered_blocks) else [partition.log_start_offset]
    return PartitionCopy(
        directory=partition.directory,
        source=partition.log_directory,
        segments=segments,
        blocks=ordered_blocks,
        checkpoint=partition.leader_epochs,
        lineage=lineage,
        end=max([*ends, *(last_segment.base_offset for last_segment in segments[-1:])]),
        high_watermark=partition.high_watermark,
        start_offset=partition.checkpointed_offsets.get(names.LOG_START_CHECKPOINT),
        clean_offset=_read_clean_offset(source),
        topic_id=partition.metadata.topic_id if partition.metadata else None,
        broken_segments=tuple(broken_segments),
        misplaced_blocks=misplaced_blocks,
        is_scanned=is_scanned,
        checkpoint_fits=fits,
    )


def _read_clean_offset(source: CopySource) -> int | None:
    if names.CLEANER_CHECKPOINT not in source.log_directory.offset_checkpoints:
        return None
    return source.partition.checkpointed_offsets.get(names.CLEANER_CHECKPOINT, -1)


def _must_scan(source: CopySource) -> bool:
    """Return whether the merge needs the headers of a copy in a store."""
    is_compacted = source.partition.topic in COMPACTED_TOPICS or (_read_clean_offset(source) or -1) >= 0
    return is_compacted or not source.partition.leader_epochs


def _make_unread_block(source: CopySource, segments: Sequence[Segment], index: int) -> BlockTable:
    """Return a segment as one block; the end of the last segment is looked up with its index."""
    segment = segments[index]
    if segment.end_offset is not None:
        end = segment.end_offset + 1
    elif index + 1 < len(segments):
        end = segments[index + 1].base_offset
    else:
        with open_segment(source.filesystem, segment) as reader:
            end = reader.next_offset
    if end <= segment.base_offset or segment.size_bytes == 0:
        return NO_BLOCKS
    lineage = tuple(entry for entry in source.partition.leader_epochs or () if entry.start_offset < end)
    has_one_epoch = (
        not lineage or lineage[-1].start_offset <= segment.base_offset
    )  # a segment with other offsets has several leader epochs
    epoch = get_latest_epoch(lineage) if has_one_epoch else NO_EPOCH
    return make_segment_block(index, segment.size_bytes, segment.base_offset, end - 1, epoch)


def _scan_segment(
    filesystem: FileSystem, index: int, segment: Segment, *, is_last: bool
) -> tuple[BlockTable, list[BrokenPosition]]:
    """Return the blocks of a segment, and the positions at which its batches end before the file does."""
    buffer = np.empty(0, np.int64)

    def allocate(size: int, dtype: npt.DTypeLike) -> npt.NDArray[np.int64]:
        nonlocal buffer
        if buffer.size < size:
            buffer = np.empty(size, dtype)
        return buffer[:size]

    tables: list[BatchHeaders] = []
    broken_segments: list[BrokenPosition] = []

    def lose(gap: DamagedRange) -> None:
        broken_segments.append(BrokenPosition(index, gap.start, str(gap.damage), damage=gap.damage))

    end = None
    with open_source(filesystem, segment) as source:
        for run in OpenSegment(filesystem, segment.path, source).read_runs(on_damage=KEEP, on_gap=lose):
            chunks = Chunks(source, rules=FILE, start=run.start, chunk_bytes=HEADER_WINDOW_BYTES, includes_data=False,
                            allocate=allocate, end=segment.size_bytes)  # fmt: skip
            for chunk in chunks:
                table = chunk.batches.table.copy()
                table[0] += chunk.base
                tables.append(BatchHeaders(table, chunk.batches.end))
            end = run.end = chunks.end
    if (
        end is not None
        and end.position < segment.size_bytes
        and not any(broken_segment.position == end.position for broken_segment in broken_segments)
    ):
        broken_segments.append(BrokenPosition(index, end.position, end.reason, is_last and end.status == TORN))
    return make_scanned_blocks(index, segment.base_offset, tables), broken_segments


class FileInspector:
    """An implementation of ``cover.BlockInspector`` that reads the files of the copies."""

    def __init__(self, sources: Sequence[CopySource], copies: Sequence[PartitionCopy]) -> None:
        self._sources = sources
        self._copies = copies

    def mask_valid(self, copy: int, blocks: BlockTable) -> Flags:
        """Return which blocks have a valid checksum and a valid magic, which the checksum does not cover.

        A whole segment is valid if its headers are not read.
        """
        is_valid: Flags = blocks.crc == UNKNOWN_CRC
        for rows in _group_adjacent_blocks(blocks):
            if blocks.crc[rows[0]] == UNKNOWN_CRC:
                continue
            raw = self._read_blocks(copy, blocks.take(rows))
            batches = scan_all(raw, rules=FILE)
            valid_positions = batches.column("position")[check_crcs(raw, batches) == 1] + blocks.position[rows[0]]
            is_valid[rows] = np.isin(blocks.position[rows], valid_positions) & (blocks.magic[rows] <= LATEST_MAGIC)
        return is_valid

    def read_first_offset(self, copy: int, block: BlockTable) -> int:
        """Return the first offset of a block; its last offset if the block is unreadable."""
        for batch in read_batches(self._read_blocks(copy, block), rules=FILE):
            if batch.records:
                return batch.records[0].offset
        return int(block.last[0])

    def have_same_records(self, copy: int, blocks: BlockTable, other: int, other_blocks: BlockTable) -> bool:
        """Return whether blocks of two copies have the same records, possibly in different formats or batches."""
        try:
            return bool(self._read_records(copy, blocks).equals(self._read_records(other, other_blocks)))
        except CorruptRecordError:
            return False

    def _read_records(self, copy: int, blocks: BlockTable) -> pa.Table:
        raw = b"".join(self._read_blocks(copy, blocks.take(rows)) for rows in _group_adjacent_blocks(blocks))
        reader = RecordReader(
            MemorySource(as_array(raw)), ReadOptions(columns=_COMPARED_COLUMNS, on_damage=FAIL, rules=FILE)
        )
        return pa.Table.from_batches(list(reader), schema=reader.schema).combine_chunks()

    def _read_blocks(self, copy: int, blocks: BlockTable) -> bytes:
        segment = self._copies[copy].segments[int(blocks.segment[0])]
        start, end = int(blocks.position[0]), int(blocks.ends[-1])
        return self._sources[copy].filesystem.read(segment.path, position=start, length=end - start)


def _group_adjacent_blocks(blocks: BlockTable) -> Iterator[npt.NDArray[np.intp]]:
    """Group adjacent blocks of one segment, so that one read covers several blocks."""
    apart = (blocks.segment[1:] != blocks.segment[:-1]) | (blocks.position[1:] != blocks.ends[:-1])
    for run in np.split(np.arange(len(blocks)), np.flatnonzero(apart) + 1):
        for first, stop in split_into_runs(blocks.size[run], CHECKSUM_READ_BYTES):
            yield run[first:stop]


def group_by_partition(sources: Iterable[CopySource]) -> dict[names.TopicPartition, list[CopySource]]:
    """Group the directories by topic partition, in their order."""
    sources_by_partition: dict[names.TopicPartition, list[CopySource]] = {}
    for source in sources:
        sources_by_partition.setdefault(source.partition.topic_partition, []).append(source)
    return sources_by_partition


_HEADER_FIELDS = ("last_offset", "crc", "size", "magic")


class AlternateRange(NamedTuple):
    """A byte range of another copy's segment file, with batches that can replace damaged ones. ``end`` is exclusive."""

    path: str
    start: int
    end: int


@dataclass(slots=True)
class BatchHealer:
    """A function that replaces damaged batches of a segment file (``records.columns.ReadOptions.heal``)."""

    path: str
    alternates: Sequence[AlternateRange]
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    healed_ranges: list[str] = field(default_factory=list)

    def __call__(self, chunk: Chunk, bad: npt.NDArray[np.bool_]) -> Chunk | None:
        """Return a chunk in which batches of other copies replace damaged ones; None if no copy has these batches."""
        data: Bytes | None = None
        for row in np.flatnonzero(bad).tolist():
            undamaged_batch = self._find_undamaged(chunk.batches, row)
            if undamaged_batch is not None:
                data = chunk.data.copy() if data is None else data
                position = int(chunk.batches.column("position")[row])
                data[position : position + undamaged_batch[0].size] = undamaged_batch[0]
                offset = int(chunk.batches.column("base_offset")[row])
                location = f"the batch of offset {offset} at byte {position + chunk.base} of {self.path} is damaged"
                self.healed_ranges.append(f"{location}; it is read from {undamaged_batch[1]}")
        return None if data is None else _replace_bytes(chunk, data)

    def _find_undamaged(self, batches: BatchHeaders, row: int) -> tuple[Bytes, str] | None:
        expected_header = tuple(int(batches.column(name)[row]) for name in _HEADER_FIELDS)
        for alternate in self.alternates:
            try:
                for position, *header in _map_headers_by_last_offset(alternate, tuple(self.options.items())).get(
                    expected_header[0], ()
                ):
                    if tuple(header) == expected_header[1:]:
                        raw = _read_range(alternate.path, position, expected_header[2], self.options)
                        batch = scan_all(raw, rules=FILE)
                        if len(batch) == 1 and check_crcs(raw, batch)[0] == 1:
                            return raw, f"{alternate.path}, byte {position}"
            except LogDirError:
                continue  # this copy cannot be read; the damage is reported as usual
        return None


def _replace_bytes(chunk: Chunk, data: Bytes) -> Chunk:
    """Return a chunk with replaced bytes: its batches keep their positions, and their headers are read again."""
    table = chunk.batches.table.copy()
    for column in range(table.shape[1]):
        start, size = int(table[0, column]), int(table[1, column])
        table[:, column] = scan_all(data[start : start + size], rules=FILE).table[:, 0]
        table[0, column] = start
    return chunk._replace(data=data, batches=BatchHeaders(table, chunk.batches.end))


@lru_cache(maxsize=8)
def _read_headers(alternate: AlternateRange, options: tuple[tuple[str, Any], ...]) -> dict[int, list[tuple[int, ...]]]:
    headers: dict[int, list[tuple[int, ...]]] = {}
    with open_planned_segment(alternate.path, alternate.end, options=dict(options)) as segment:
        walk = Chunks(
            segment.source,
            rules=FILE,
            start=alternate.start,
            end=alternate.end,
            chunk_bytes=HEADER_WINDOW_BYTES,
            includes_data=False,
        )
        for chunk in walk:
            columns = [chunk.batches.column(name).tolist() for name in _HEADER_FIELDS]
            positions = (chunk.batches.column("position") + chunk.base).tolist()
            for last, position, *header in zip(columns[0], positions, *columns[1:], strict=True):
                headers.setdefault(last, []).append((position, *header))
    return headers


def _map_headers_by_last_offset(
    alternate: AlternateRange, options: tuple[tuple[str, Any], ...]
) -> dict[int, list[tuple[int, ...]]]:
    """Return the position, checksum, size and magic of the batches in an ``AlternateRange``, by last offset."""
    try:
        return _read_headers(alternate, options)
    except TypeError:  # options that hold mappings cannot be a key of the cache
        return _read_headers.__wrapped__(alternate, options)


def _read_range(path: str, position: int, length: int, options: Mapping[str, Any]) -> Bytes:
    with open_planned_segment(path, position + length, options=options) as segment:
        return as_array(segment.source.read(position, length)).copy()
