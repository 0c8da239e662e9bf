"""Find blocks with a wrong offset or leader epoch by comparison with other copies.

The CRC does not cover a batch's base offset and leader epoch, so a batch with a flipped bit there seems valid. If other
batches follow, the block is out of order (``blocks.select_ordered_blocks``). At the end of a log, only a comparison
with another copy reveals the fault:

* Another copy has the same batch (checksum, size) at other offsets, and there its neighbors are adjacent to it, unlike
  in this copy.
* The last batch spans more offsets than it has records, and its checksum is wrong. This batch does not count for the
  end of the log.
* Another copy has the same batch with another leader epoch, which this copy's own checkpoint confirms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from kafkaframes.records.scan import Flags, Ints
from kafkaframes.storage.copies.blocks import (
    UNKNOWN_CRC,
    BlockTable,
    PartitionCopy,
    Rows,
    concatenate_blocks,
    determine_lineage,
    find_epoch,
)
from kafkaframes.storage.copies.cover import BlockInspector


def remove_doubtful_blocks(copies: Sequence[PartitionCopy], inspector: BlockInspector) -> tuple[PartitionCopy, ...]:
    """Return the copies without the blocks that another copy proves to be wrong."""
    doubtful = [_mask_doubtful_end(index, copy.blocks, inspector) for index, copy in enumerate(copies)]
    for first, other in permutations([index for index, copy in enumerate(copies) if copy.is_scanned], 2):
        doubtful[first] |= _mask_epochs_from_checkpoint(copies[first], copies[other].blocks)
        if first < other:
            for row, index in _find_moved_batches(copies[first].blocks, copies[other].blocks):
                goes_on = [
                    _is_followed_by_valid_block(copies, *block, inspector) for block in ((first, row), (other, index))
                ]
                doubtful[first][row] |= goes_on == [False, True]
                doubtful[other][index] |= goes_on == [True, False]
    copies_with_flags = zip(copies, doubtful, strict=True)
    return tuple(_remove_blocks(copy, flags) if flags.any() else copy for copy, flags in copies_with_flags)


def _mask_doubtful_end(index: int, blocks: BlockTable, inspector: BlockInspector) -> Flags:
    """Return which blocks have a doubtful header. Only the last block can have a doubtful header."""
    doubtful: Flags = np.zeros(len(blocks), np.bool_)
    last = blocks.take(slice(-1, None))
    doubtful[-1:] = (last.thinned != 0) & ~inspector.mask_valid(index, last)
    return doubtful


def _find_moved_batches(blocks: BlockTable, other: BlockTable) -> Iterator[tuple[int, int]]:
    """Yield the rows of batches that two copies have at different offsets."""
    rows, other_rows = _find_unmatched(blocks, other), _find_unmatched(other, blocks)
    if rows.size and other_rows.size:
        bodies, body_of = _number_bodies(blocks.take(rows)), _number_bodies(other.take(other_rows))
        _, matches, other_matches = np.intersect1d(bodies, body_of, return_indices=True)
        yield from zip(rows[matches].tolist(), other_rows[other_matches].tolist(), strict=True)


def _find_unmatched(blocks: BlockTable, other: BlockTable) -> Rows:
    """Return the rows of blocks for which the other copy has no identical block at the same offsets."""
    if not len(other):
        return np.arange(len(blocks))
    other_rows = np.minimum(np.searchsorted(other.last, blocks.last), len(other) - 1)
    is_matched = other.last[other_rows] == blocks.last
    for name in ("crc", "size", "first"):
        is_matched &= getattr(other, name)[other_rows] == getattr(blocks, name)
    rows: Rows = np.flatnonzero(~is_matched)
    return rows


def _number_bodies(blocks: BlockTable) -> Ints:
    """Return a number for each block that is equal for equal batches, regardless of their offsets."""
    bodies: Ints = (blocks.crc << 31) | blocks.size
    return bodies


def _is_followed_by_valid_block(
    copies: Sequence[PartitionCopy], index: int, row: int, inspector: BlockInspector
) -> bool:
    """Return whether a valid block starts at the end of the previous one and ends at the start of the next one."""
    blocks = copies[index].blocks
    if not blocks.smooth[row] or not inspector.mask_valid(index, blocks.take(slice(row, row + 1))).all():
        return False
    return all(
        _starts_at_expected_offset(index, blocks, next_row, inspector)
        for next_row in (row, row + 1)
        if next_row < len(blocks)
    )


def _starts_at_expected_offset(index: int, blocks: BlockTable, row: int, inspector: BlockInspector) -> bool:
    """Return whether a block starts where the previous one ends.

    The header of a compressed message of format 0 or 1 does not contain its first offset, so the block is read.
    """
    if blocks.magic[row] >= 2 or blocks.reach[row] == blocks.first[row]:
        return True
    return inspector.read_first_offset(index, blocks.take(slice(row, row + 1))) == int(blocks.reach[row])


def _remove_blocks(copy: PartitionCopy, doubtful: Flags) -> PartitionCopy:
    blocks = copy.blocks.take(~doubtful)
    lineage, fits = determine_lineage(copy.checkpoint, blocks)
    base = copy.segments[-1].base_offset if copy.segments else 0
    end = max(int(blocks.last[-1]) + 1 if len(blocks) else 0, base)
    misplaced_blocks = concatenate_blocks((copy.misplaced_blocks, copy.blocks.take(doubtful)))
    return replace(
        copy, blocks=blocks, lineage=lineage, checkpoint_fits=fits, end=end, misplaced_blocks=misplaced_blocks
    )


def _mask_epochs_from_checkpoint(copy: PartitionCopy, other: BlockTable) -> Flags:
    """Return which blocks have a wrong epoch: the other copy's epoch is the one in this copy's own checkpoint."""
    blocks = copy.blocks
    differs: Flags = np.zeros(len(blocks), np.bool_)
    if not copy.checkpoint or not len(other):
        return differs
    other_rows = np.minimum(np.searchsorted(other.last, blocks.last), len(other) - 1)
    rows = np.flatnonzero((other.last[other_rows] == blocks.last) & (other.epoch[other_rows] != blocks.epoch))
    rows = rows[_mask_identical(blocks, rows, other, other_rows[rows])]
    for row in rows.tolist():
        differs[row] = find_epoch(copy.checkpoint, int(blocks.first[row])) == int(other.epoch[other_rows[row]])
    return differs


def _mask_identical(blocks: BlockTable, rows: Ints, other: BlockTable, other_rows: Ints) -> Flags:
    """Return a mask of the blocks that are the same batch, with equal checksum and size."""
    alike: Flags = (other.crc[other_rows] == blocks.crc[rows]) & (other.size[other_rows] == blocks.size[rows])
    alike &= blocks.crc[rows] != UNKNOWN_CRC
    return alike
