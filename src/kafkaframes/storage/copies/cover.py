"""Cover a range of offsets with blocks of several copies: first the preferred copy, then other copies for its gaps.

Each further copy is also compared with the blocks chosen so far. If two copies have blocks for the same offsets and the
headers differ, their checksums (``BlockInspector``) decide, and then their records. If neither checksums nor records
decide, neither block is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from kafkaframes.records.scan import Flags, Ints
from kafkaframes.storage.copies.blocks import UNKNOWN_CRC, BlockTable, PartitionCopy, Rows
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.wire.integers import MAX_INT64

OWNER, ROW, FIRST, LAST, CLIPPED = range(5)
NO_COPY = -1  # owner of undecided offsets


class BlockInspector(Protocol):
    """A reader of block contents, for blocks whose headers do not show which copy is valid."""

    def mask_valid(self, copy: int, blocks: BlockTable) -> Flags:
        """Return which blocks of a copy have a valid checksum; ``copy`` is the copy's index."""
        ...

    def read_first_offset(self, copy: int, block: BlockTable) -> int:
        """Return the first offset of a block whose header does not contain it.

        Return the last offset instead if the block is unreadable.
        """
        ...

    def have_same_records(self, copy: int, blocks: BlockTable, other: int, other_blocks: BlockTable) -> bool:
        """Return whether blocks of two copies have the same records, possibly in different formats or batches."""
        ...


class Conflict(NamedTuple):
    """A conflict: two copies have different blocks for the same offsets.

    Attributes:
        first, end: first offset, and offset after the last one.
        columns: range of chosen blocks, which are columns of ``ChosenBlocks``.
        copy: index of the copy that differs from the chosen blocks.
        rows: blocks of that copy.
        verdict: ``chosen`` or ``copy`` if only that one is valid, ``same`` if the records are equal, ``undecided`` if
            both are valid and differ, ``damaged`` if neither is valid.
    """

    first: int
    end: int
    columns: slice
    copy: int
    rows: Rows
    verdict: str


@dataclass(slots=True)
class ChosenBlocks:
    """The blocks chosen for the merged log: a column per block with OWNER (the copy), ROW, FIRST, LAST, CLIPPED.

    Attributes:
        usable: usable blocks of each copy; ROW is an index into them.
        floors: index of each copy's first block that is compared and may fill gaps.
    """

    usable: list[BlockTable]
    floors: list[int]
    table: Ints = field(default_factory=lambda: np.empty((5, 0), np.int64))

    def __len__(self) -> int:
        return int(self.table.shape[1])

    @property
    def first_offsets(self) -> Ints:
        """The first offset of each chosen block."""
        row: Ints = self.table[FIRST]
        return row

    @property
    def last_offsets(self) -> Ints:
        """The last offset of each chosen block."""
        row: Ints = self.table[LAST]
        return row

    @property
    def end_offset(self) -> int:
        """The offset after the last block; 0 if no block is chosen."""
        return int(self.table[LAST, -1]) + 1 if len(self) else 0

    def column(self, name: str, columns: slice | Rows | None = None) -> Ints:
        """Return a column of the chosen blocks from their owners; -1 if no copy could be chosen."""
        table = self.table if columns is None else self.table[:, columns]
        values = np.full(table.shape[1], -1, np.int64)
        for owner, blocks in enumerate(self.usable):
            is_of_owner = table[OWNER] == owner
            if is_of_owner.any():
                values[is_of_owner] = getattr(blocks, name)[table[ROW, is_of_owner]]
        return values

    def replace(self, columns: slice, new_columns: Ints) -> None:
        """Replace blocks with other blocks."""
        self.table = np.concatenate(
            (self.table[:, : columns.start], new_columns, self.table[:, columns.stop :]), axis=1
        )

    def truncate(self, offset: int) -> None:
        """Remove the blocks that end at or after ``offset``."""
        self.table = self.table[:, self.last_offsets < offset]

    def find_overlaps(self, blocks: BlockTable) -> tuple[Ints, Ints]:
        """Return, for each block, the range (start, exclusive end) of the chosen blocks that overlap it."""
        start = np.searchsorted(self.last_offsets, blocks.first, side="left")
        return start, np.searchsorted(self.first_offsets, blocks.last, side="right")

    def fill_gaps(self, copy: int) -> list[tuple[int, int]]:
        """Add a copy's blocks for missing offsets; return the filled ranges that are before other blocks."""
        blocks = self.usable[copy]
        start, stop = self.find_overlaps(blocks)
        fillable_rows = np.flatnonzero((start >= stop) & self._mask_fillable(copy))
        new_columns = make_block_columns(copy, blocks, fillable_rows)
        clipped_rows = np.flatnonzero((start < stop) & (blocks.crc == UNKNOWN_CRC) & self._mask_fillable(copy))
        if clipped_rows.size:
            parts = [part for row in clipped_rows.tolist() for part in self._yield_unchosen_parts(copy, blocks, row)]
            new_columns = np.concatenate((new_columns, *parts), axis=1)
        if not new_columns.shape[1]:
            return []
        filled_spans = _join_blocks(new_columns[:, new_columns[FIRST] < self.end_offset])
        table = np.concatenate((self.table, new_columns), axis=1)
        self.table = table[:, np.argsort(table[FIRST], kind="stable")]
        return filled_spans

    def _mask_fillable(self, copy: int) -> Flags:
        """Return a mask of a copy's blocks that may fill gaps, which are those from the row in ``floors`` on."""
        may_fill: Flags = np.arange(len(self.usable[copy])) >= self.floors[copy]
        return may_fill

    def _yield_unchosen_parts(self, copy: int, blocks: BlockTable, row: int) -> Iterator[Ints]:
        """Yield the parts of a copy's block with offsets that are in no chosen block."""
        first_offset, end = int(blocks.first[row]), int(blocks.last[row])
        start, stop = (int(limit[0]) for limit in self.find_overlaps(blocks.take(slice(row, row + 1))))
        for column in range(start, stop):
            if first_offset < self.first_offsets[column]:
                yield _column(copy, row, first_offset, int(self.first_offsets[column]) - 1, is_clipped=True)
            first_offset = int(self.last_offsets[column]) + 1
        if first_offset <= end:
            yield _column(copy, row, first_offset, end, is_clipped=True)

    def read_first_offsets(self, copy: int, inspector: BlockInspector) -> None:
        """Read the first offsets of compressed messages (format 0 or 1) that may overlap different chosen messages.

        The header of such a message contains only its last offset. The first offsets of these chosen messages are read
        as well.
        """
        blocks, reach = self.usable[copy], self.column("reach")
        copy_rows = np.flatnonzero(~_mask_members(blocks.last, self.last_offsets) & (blocks.reach < blocks.first))
        copy_rows = copy_rows[
            _mask_ranges_with_values(self.last_offsets, blocks.reach[copy_rows], blocks.last[copy_rows])
        ]
        chosen_rows = np.flatnonzero(
            ~_mask_members(self.last_offsets, blocks.last)
            & (reach < self.first_offsets)
            & (self.table[OWNER] != NO_COPY)
        )
        chosen_rows = chosen_rows[
            _mask_ranges_with_values(blocks.last, reach[chosen_rows], self.last_offsets[chosen_rows])
        ]
        self._update_first_offsets(copy, copy_rows, inspector)
        for owner in np.unique(self.table[OWNER, chosen_rows]).tolist():
            columns = chosen_rows[self.table[OWNER, chosen_rows] == owner]
            self._update_first_offsets(owner, self.table[ROW, columns], inspector)
            self.table[FIRST, columns] = self.usable[owner].first[self.table[ROW, columns]]

    def _update_first_offsets(self, copy: int, rows: Rows | Ints, inspector: BlockInspector) -> None:
        if not rows.size:
            return
        blocks = BlockTable(self.usable[copy].table.copy())
        for row in rows.tolist():
            first = inspector.read_first_offset(copy, blocks.take(slice(row, row + 1)))
            blocks.first[row] = blocks.reach[row] = min(max(first, int(blocks.reach[row])), int(blocks.last[row]))
        self.usable[copy] = blocks

    def find_conflicts(self, copy: int, inspector: BlockInspector) -> list[Conflict]:
        """Compare a copy's blocks with the chosen blocks; return the conflicts, with verdicts from their contents."""
        blocks = self.usable[copy]
        start, stop = self.find_overlaps(blocks)
        differs = (
            (start < stop) & ~self.mask_identical(blocks) & (blocks.crc != UNKNOWN_CRC) & self._mask_fillable(copy)
        )
        conflicts: list[Conflict] = []
        for rows in _group_connected_rows(np.flatnonzero(differs), start, stop):
            columns = slice(int(start[rows[0]]), int(stop[rows[-1]]))
            if (self.table[OWNER, columns] == NO_COPY).any() or (self.column("crc", columns) == UNKNOWN_CRC).any():
                continue
            first = min(int(self.first_offsets[columns.start]), int(blocks.first[rows[0]]))
            end = max(int(self.last_offsets[columns.stop - 1]), int(blocks.last[rows[-1]])) + 1
            verdict = self._judge_conflict(columns, copy, blocks.take(rows), inspector)
            conflict = Conflict(first, end, columns, copy, rows, verdict)
            conflicts[-1:] = self._join_conflicts(conflicts[-1], conflict) if conflicts else [conflict]
        return conflicts

    def _join_conflicts(self, first: Conflict, second: Conflict) -> list[Conflict]:
        """Join two neighbouring conflicts of the same kind."""
        owners = self.table[OWNER, [first.columns.start, second.columns.start]]
        if first.verdict != second.verdict or first.columns.stop != second.columns.start or owners[0] != owners[1]:
            return [first, second]
        columns = slice(first.columns.start, second.columns.stop)
        rows = np.concatenate((first.rows, second.rows))
        return [first._replace(end=second.end, columns=columns, rows=rows)]

    def mask_identical(self, blocks: BlockTable) -> Flags:
        """Return which blocks are identical to the chosen blocks for their offsets."""
        start, stop = self.find_overlaps(blocks)
        is_identical: Flags = np.zeros(len(blocks), np.bool_)
        rows = np.flatnonzero(stop - start == 1)
        columns = start[rows]
        equal = self.last_offsets[columns] == blocks.last[rows]
        for name in ("crc", "size", "magic", "fields"):
            equal &= self.column(name, columns) == getattr(blocks, name)[rows]
        equal &= self.first_offsets[columns] == blocks.first[rows]
        is_identical[rows] = equal
        return is_identical

    def _judge_conflict(self, columns: slice, copy: int, copy_blocks: BlockTable, inspector: BlockInspector) -> str:
        """Return the verdict on two different blocks for the same offsets."""
        is_sound = self.has_valid_checksums(columns, inspector)
        if is_sound != bool(inspector.mask_valid(copy, copy_blocks).all()):
            return "chosen" if is_sound else "copy"
        if not is_sound:
            return "damaged"
        owners = self.table[OWNER, columns]
        owner = int(owners[0])
        chosen_blocks = self.usable[owner].take(self.table[ROW, columns].astype(np.intp))
        has_same_records = bool((owners == owner).all()) and inspector.have_same_records(
            owner, chosen_blocks, copy, copy_blocks
        )
        return "same" if has_same_records else "undecided"

    def has_valid_checksums(self, columns: slice, inspector: BlockInspector) -> bool:
        """Return whether all chosen blocks in a range of columns have a valid checksum."""
        part = self.table[:, columns]
        return all(
            bool(inspector.mask_valid(owner, self.usable[owner].take(part[ROW, part[OWNER] == owner])).all())
            for owner in np.unique(part[OWNER]).tolist()
        )

    def find_gaps(self) -> list[tuple[int, int]]:
        """Return the ranges of offsets between chosen blocks that, according to the headers, no copy has."""
        reach = self.first_offsets.copy()
        has_owner = (self.table[OWNER] != NO_COPY) & (self.table[CLIPPED] == 0)
        reach[has_owner] = self.column("reach")[has_owner]
        gap_columns = np.flatnonzero(reach[1:] > self.last_offsets[:-1] + 1)
        return [(int(self.last_offsets[column]) + 1, int(reach[column + 1])) for column in gap_columns.tolist()]


def make_block_columns(copy: int, blocks: BlockTable, rows: Rows) -> Ints:
    """Return blocks as columns of ``ChosenBlocks``."""
    table = np.empty((5, len(rows)), np.int64)
    table[OWNER], table[CLIPPED] = copy, 0
    table[ROW], table[FIRST], table[LAST] = rows, blocks.first[rows], blocks.last[rows]
    return table


def _column(copy: int, row: int, first: int, last: int, *, is_clipped: bool) -> Ints:
    return np.array([[copy], [row], [first], [last], [int(is_clipped)]], np.int64)


def make_unassigned_column(first: int, end: int) -> Ints:
    """Return a ``ChosenBlocks`` column for offsets for which no copy could be chosen."""
    return _column(NO_COPY, 0, first, end - 1, is_clipped=False)


def _mask_members(values: Ints, ascending: Ints) -> Flags:
    """Return which values are in ``ascending``."""
    is_member: Flags = np.searchsorted(ascending, values, "left") < np.searchsorted(ascending, values, "right")
    return is_member


def _mask_ranges_with_values(values: Ints, lows: Ints, highs: Ints) -> Flags:
    """Return which ranges (exclusive end) contain at least one of ``values``, which are ascending."""
    has_some: Flags = np.searchsorted(values, lows) < np.searchsorted(values, highs)
    return has_some


def _join_blocks(columns: Ints) -> list[tuple[int, int]]:
    """Join neighbouring blocks into ranges of offsets."""
    if not columns.shape[1]:
        return []
    columns = columns[:, np.argsort(columns[FIRST], kind="stable")]
    breaks = np.flatnonzero(columns[FIRST, 1:] > columns[LAST, :-1] + 1) + 1
    return [(int(part[FIRST, 0]), int(part[LAST, -1]) + 1) for part in np.split(columns, breaks, axis=1)]


def _group_connected_rows(rows: Rows, start: Ints, stop: Ints) -> Iterator[Rows]:
    """Group rows of blocks that overlap the same chosen blocks."""
    if not rows.size:
        return
    breaks = np.flatnonzero(start[rows[1:]] >= stop[rows[:-1]]) + 1
    yield from np.split(rows, breaks)


COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
NO_END_OFFSET = MAX_INT64
_VERIFIED_BATCHES = 4  # number of thinned batches with a checksum that is verified before they count as evidence


def is_compacted(
    name: TopicPartition, copies: Sequence[PartitionCopy], usable: Sequence[BlockTable], inspector: BlockInspector
) -> bool:
    """Return whether the log cleaner caused the holes in these copies."""
    has_clean_offset = any(copy.clean_offset is not None and copy.clean_offset >= 0 for copy in copies)
    if has_clean_offset or name.topic in COMPACTED_TOPICS:
        return True
    for index, blocks in enumerate(usable):
        rows = np.flatnonzero(blocks.thinned)[:_VERIFIED_BATCHES]
        if rows.size and bool(inspector.mask_valid(index, blocks.take(rows)).any()):
            return True
    old_holes = any((blocks.magic[find_holes(blocks, within_segments=True)] < 2).any() for blocks in usable)
    return old_holes and all(copy.clean_offset is None for copy in copies)


def find_holes(blocks: BlockTable, *, within_segments: bool) -> Rows:
    """Return the blocks after a hole in the offsets; ``within_segments`` excludes holes between segments."""
    is_hole = blocks.reach[1:] > blocks.last[:-1] + 1
    if within_segments:
        is_hole &= blocks.segment[1:] == blocks.segment[:-1]
    rows: Rows = np.flatnonzero(is_hole) + 1
    return rows


def find_compacted_end(copy: PartitionCopy, blocks: BlockTable) -> int:
    """Return the end of a copy's compacted part: no offset at or above it was removed.

    The cleaner's checkpoint may be older than the segments, so the batches are examined as well.
    """
    has_clean_offset = copy.clean_offset is not None and copy.clean_offset >= 0
    last_hole = find_holes(blocks, within_segments=has_clean_offset)[-1:]
    thinned_rows = np.flatnonzero(blocks.thinned)[-1:]
    ends: list[int] = [0, *blocks.first[last_hole].tolist(), *(blocks.last[thinned_rows] + 1).tolist()]
    end = int(blocks.last[-1]) + 1 if len(blocks) else 0
    return min(max([*ends, copy.clean_offset or 0]), end)


def measure_coverage(copy: PartitionCopy, blocks: BlockTable, clean: int) -> tuple[bool, bool, int]:
    """Return how well a copy covers the offsets below ``clean``; a larger tuple is better.

    Returns: Whether the copy ends at or after ``clean``; whether no batch below ``clean`` is damaged; the negated
        first offset.
    """
    reaches = bool(len(blocks)) and int(blocks.last[-1]) + 1 >= clean
    has_broken_segment = any(
        not segment.is_tail and copy.segments[segment.segment].base_offset < clean for segment in copy.broken_segments
    )
    has_misplaced_block = bool((copy.misplaced_blocks.first < clean).any())
    start = int(blocks.reach[0]) if len(blocks) else NO_END_OFFSET
    return reaches, not (has_broken_segment or has_misplaced_block), -start
