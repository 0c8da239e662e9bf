"""The content of one copy of a partition as columns, with one row for each *block*, the smallest unit of a merge.

A block is a batch, or a whole segment whose headers are not read (in a store; its checksum is unknown). Rows are in
file order. A block is *misplaced*, and never used, if its offsets or leader epoch do not fit between its neighbours. A
batch's CRC does not cover its base offset and leader epoch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import DamagedChunkError
from kafkaframes.records.layout import DELETE_HORIZON
from kafkaframes.records.scan import BatchHeaders, Flags, Ints
from kafkaframes.storage.files.checkpoints import NO_EPOCH, Epochs, EpochStart, end_of_epoch, get_latest_epoch
from kafkaframes.storage.files.directory import Segment

# ---------------------------------------------------------------------------------------------------------------------
# The leader epochs of a copy, and the offset at which its history diverges from that of another copy (KIP-101).
#
# A *lineage* is a tuple of ``EpochStart`` in ascending order of epoch and offset. A leader epoch lasts from its start
# to the start of the next. Two copies whose lineages agree up to an offset have the same records up to it, because an
# epoch has one leader. The point of divergence is found as by a follower before it fetches: it requests the end of its
# latest epoch from the leader, and truncates (OffsetsForLeaderEpoch, AbstractFetcherThread; KIP-101, KIP-279).
# The functions are pure.


def find_epoch(lineage: Epochs, offset: int) -> int:
    """Return the leader epoch of ``offset``; below the first entry, the first epoch.

    Retention and DeleteRecords raise the first entry's start together with the log start offset.

    >>> from kafkaframes.storage.files.checkpoints import EpochStart
    >>> find_epoch((EpochStart(0, 0), EpochStart(3, 10)), 9)
    0
    """
    index = bisect_right(lineage, offset, key=lambda start: start.start_offset) - 1
    return lineage[max(index, 0)].leader_epoch if lineage else NO_EPOCH


def find_truncation_offset(copy: Epochs, copy_end: int, leader: Epochs, leader_end: int) -> int | None:
    """Return the offset to which a copy is truncated as a follower of ``leader``: the end of their common history.

    Args:
        leader, leader_end: lineage and log end offset of the copy with the authoritative history.

    Returns:
        At most ``copy_end``; None if the lineages do not decide (one of them is empty, or ``copy`` is the later one).

    >>> from kafkaframes.storage.files.checkpoints import EpochStart
    >>> old, new = (EpochStart(0, 0), EpochStart(1, 40)), (EpochStart(0, 0), EpochStart(2, 30))
    >>> find_truncation_offset(old, 55, new, 60)      # the leader never had epoch 1: epoch 0 is common, up to 30
    30
    """
    requested, end = get_latest_epoch(copy), copy_end
    if requested == NO_EPOCH:
        return None
    while True:
        answer = end_of_epoch(leader, requested, leader_end)
        if answer is None:
            return None
        epoch, leader_offset = answer
        requested, own_end = end_of_epoch(copy, epoch, copy_end) or (epoch, copy_end)
        end = min(end, own_end)
        if requested == epoch:
            return min(end, leader_offset)
        # The copy lacks the returned epoch, so repeat the look-up with its latest epoch below it.


# ---------------------------------------------------------------------------------------------------------------------

UNKNOWN_CRC = -1  # the CRC of a block whose headers were not read
_DIGEST_FIELDS = (
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "count",
)
Rows = npt.NDArray[np.intp]
BLOCK_COLUMNS = (
    "segment",
    "position",
    "size",
    "first",
    "last",
    "reach",
    "epoch",
    "crc",
    "magic",
    "thinned",
    "smooth",
    "fields",
)


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The blocks of one copy: ``table`` has one row for each of ``BLOCK_COLUMNS``, and one column for each block.

    Attributes (of a block):
        segment: index of the segment in the copy.
        position, size: position in the ``.log`` file and size, in bytes.
        first, last: offsets. A compressed message of format 0 or 1 specifies only its last offset, which is used as
            ``first`` and ``last``.
        reach: lowest offset that the block can contain: ``first``, or for a compressed message of format 0 or 1 the end
            of the previous block.
        epoch: leader epoch; -1 if the format has none or an old cleaner removed it.
        crc: checksum in the header; -1 if it was not read.
        fields: digest of the other header fields; a damaged block differs from its copies in this or in the records.
        smooth: 1 if no offsets are missing between the block and its two neighbours in the files, otherwise 0.
        thinned: 1 if the block was compacted, because it has fewer records than offsets or a delete horizon; otherwise
            0.
    """

    table: Ints

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __getattr__(self, name: str) -> Ints:
        try:
            row: Ints = self.table[BLOCK_COLUMNS.index(name)]
        except ValueError:
            raise AttributeError(name) from None
        return row

    def take(self, rows: Rows | Flags | slice) -> BlockTable:
        """Return the selected blocks."""
        return BlockTable(self.table[:, rows])

    @property
    def ends(self) -> Ints:
        """The position after each block, in bytes."""
        ends: Ints = self.position + self.size
        return ends


NO_BLOCKS = BlockTable(np.empty((len(BLOCK_COLUMNS), 0), np.int64))


@dataclass(frozen=True, slots=True)
class BrokenPosition:
    """A position in a segment at which the batches end before the end of the file.

    Attributes:
        is_tail: whether the remaining bytes are a tail that a crash or preallocation leaves in the last segment.
        damage: unreadable chunk of a tiered segment, after which batches may follow; None for other segments.
    """

    segment: int
    position: int
    reason: str
    is_tail: bool = False
    damage: DamagedChunkError | None = None


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """One copy of a topic partition.

    Attributes:
        directory: path of the partition's directory.
        source: path of the log directory that contains it.
        checkpoint: content of the leader epoch checkpoint; None if missing.
        end: offset after the last block, not below the last segment's base offset.
        high_watermark: high watermark in the log directory's checkpoint; None if missing.
        start_offset: log start offset in the checkpoint (DeleteRecords, tiered storage); None if missing.
        clean_offset: the partition's offset in the cleaner's checkpoint; -1 if the file lacks the partition, None if
            the file does not exist.
        checkpoint_fits: False if the leader epoch checkpoint contradicts the batches.
    """

    directory: str
    source: str = ""
    segments: tuple[Segment, ...] = ()
    blocks: BlockTable = NO_BLOCKS
    checkpoint: Epochs | None = None
    lineage: Epochs = ()
    end: int = 0
    high_watermark: int | None = None
    start_offset: int | None = None
    clean_offset: int | None = None
    topic_id: str | None = None
    broken_segments: tuple[BrokenPosition, ...] = ()
    misplaced_blocks: BlockTable = NO_BLOCKS
    is_scanned: bool = True
    checkpoint_fits: bool = True

    @property
    def start(self) -> int:
        """The first offset of the first block, or the base offset of the first segment."""
        return int(self.blocks.reach[0]) if len(self.blocks) else self.end

    def find_lost_offsets(self, broken_segment: BrokenPosition) -> tuple[int, int | None]:
        """Return the missing offsets at a broken position; the end is None if no batch follows."""
        position = self.blocks.segment * (1 << 40) + self.blocks.position
        next_row = int(np.searchsorted(position, broken_segment.segment * (1 << 40) + broken_segment.position))
        first = (
            self.segments[broken_segment.segment].base_offset
            if next_row == 0
            else int(self.blocks.last[next_row - 1]) + 1
        )
        return first, int(self.blocks.reach[next_row]) if next_row < len(self.blocks) else None


def make_scanned_blocks(segment: int, base_offset: int, tables: Sequence[BatchHeaders]) -> BlockTable:
    """Return the blocks of one segment from the headers of its batches.

    Args:
        tables: consecutive batches, with their positions in the file.
    """
    if not tables:
        return NO_BLOCKS
    table = np.concatenate([chunk.table for chunk in tables], axis=1) if len(tables) > 1 else tables[0].table
    batches = BatchHeaders(table, tables[-1].end)
    first, last = batches.column("base_offset"), batches.column("last_offset")
    is_v2 = batches.is_v2
    is_thinned = (is_v2 & (batches.column("count") < last - first + 1)) | batches.mask_flag(DELETE_HORIZON)
    previous_end = np.concatenate(([base_offset], last[:-1] + 1))
    reach = np.where(batches.is_wrapper, np.minimum(previous_end, last), first)
    columns = np.empty((len(BLOCK_COLUMNS), len(batches)), np.int64)
    rows: tuple[Ints | int, ...] = (segment, batches.column("position"), batches.column("size"), first, last, reach)
    epochs = np.where(is_v2, batches.column("leader_epoch"), NO_EPOCH)
    others: tuple[Ints | int, ...] = (
        epochs,
        batches.column("crc"),
        batches.column("magic"),
        is_thinned.astype(np.int64),
        1,
        _digest_headers(batches),
    )
    for column, row in enumerate((*rows, *others)):
        columns[column] = row
    return BlockTable(columns)


def _digest_headers(batches: BatchHeaders) -> Ints:
    digests = np.zeros(len(batches), np.int64)
    for name in _DIGEST_FIELDS:
        digests *= 6_364_136_223_846_793_005  # wraps around
        digests += batches.column(name)
    return digests


def make_segment_block(segment: int, size_bytes: int, first: int, last: int, epoch: int) -> BlockTable:
    """Return a block for a whole segment without reading its headers."""
    return BlockTable(
        np.array([[segment, 0, size_bytes, first, last, first, epoch, UNKNOWN_CRC, 2, 0, 1, 0]], np.int64).T
    )


def concatenate_blocks(parts: Iterable[BlockTable]) -> BlockTable:
    """Concatenate blocks."""
    tables = [part.table for part in parts if len(part)]
    return BlockTable(np.concatenate(tables, axis=1)) if tables else NO_BLOCKS


def mask_ascending_spans(lows: Ints, highs: Ints) -> Flags:
    """Return flags of the largest set of spans in which each span is above the one before it.

    A number that is far too high contradicts all spans after it, and one that is far too low all spans before it.
    Either the spans that are too high or those that are too low are rejected, whichever are fewer.

    >>> mask_ascending_spans(np.array([0, 10, 9000, 30, 40]), np.array([9, 19, 9009, 39, 49])).tolist()
    [True, True, False, True, True]
    """
    backward = highs < lows
    if not backward.any() and (len(lows) < 2 or bool((lows[1:] > highs[:-1]).all())):
        return np.ones(len(lows), np.bool_)
    return _find_largest_ascending(lows, highs, backward)


def _find_largest_ascending(lows: Ints, highs: Ints, misplaced: Flags) -> Flags:
    too_high, too_low = misplaced.copy(), misplaced.copy()
    too_high[:-1] |= highs[:-1] >= np.minimum.accumulate(lows[::-1])[::-1][1:]
    too_low[1:] |= lows[1:] <= np.maximum.accumulate(highs)[:-1]
    fits: Flags = ~(too_high if too_high.sum() <= too_low.sum() else too_low)
    return fits


def select_ordered_blocks(blocks: BlockTable) -> tuple[BlockTable, BlockTable]:
    """Return the blocks whose offsets and epochs fit between those of their neighbours, and the other blocks.

    The function also sets the ``smooth`` flags.
    """
    goes_on = blocks.reach[1:] == blocks.last[:-1] + 1
    blocks.smooth[1:] &= goes_on
    blocks.smooth[:-1] &= goes_on
    fits = mask_ascending_spans(blocks.first, blocks.last)
    rows = np.flatnonzero(fits & (blocks.epoch >= 0))
    epochs = blocks.epoch[rows]
    if len(epochs) > 1 and bool((epochs[1:] < epochs[:-1]).any()):
        # Neighbours may have equal epochs.
        fits[rows] = _find_largest_ascending(epochs, epochs - 1, np.zeros(len(epochs), np.bool_))
    return (blocks, NO_BLOCKS) if fits.all() else (blocks.take(fits), blocks.take(~fits))


def list_epochs(blocks: BlockTable) -> Epochs:
    """Return the leader epochs in the headers, each with its first offset."""
    rows = np.flatnonzero(blocks.epoch >= 0)
    epochs = blocks.epoch[rows]
    starts = np.flatnonzero(np.concatenate(([True], epochs[1:] != epochs[:-1]))) if len(epochs) else rows
    return tuple(
        EpochStart(int(epoch), int(offset))
        for epoch, offset in zip(epochs[starts], blocks.first[rows[starts]], strict=True)
    )


def determine_lineage(checkpoint: Epochs | None, blocks: BlockTable) -> tuple[Epochs, bool]:
    """Return the lineage of a copy, and whether its leader epoch checkpoint matches the batches.

    The checkpoint is more complete than the headers, because some epochs have no records, or none any more. The
    checkpoint is therefore used unless a batch contradicts it, and epochs after its last entry are added from the
    headers. If the checkpoint is missing, out of order or contradicted by a batch, only the headers are used.
    """
    epochs = list_epochs(blocks)
    if checkpoint is None:
        return epochs, True
    is_ordered = all(
        first_entry.leader_epoch < second_entry.leader_epoch and first_entry.start_offset <= second_entry.start_offset
        for first_entry, second_entry in pairwise(checkpoint)
    )
    if not is_ordered or not _epochs_match(checkpoint, epochs, blocks):
        return epochs, False
    newest = checkpoint[-1].leader_epoch if checkpoint else NO_EPOCH
    return (*checkpoint, *(entry for entry in epochs if entry.leader_epoch > newest)), True


def _epochs_match(checkpoint: Epochs, epochs: Epochs, blocks: BlockTable) -> bool:
    """Return whether the offsets of each epoch's batches match the checkpoint."""
    if not checkpoint:
        return True
    newest = checkpoint[-1].leader_epoch
    lasts = [epoch.start_offset for epoch in epochs[1:]]
    rows = np.flatnonzero(blocks.epoch >= 0)
    if epochs:
        lasts.append(int(blocks.last[rows[-1]]) + 1)
    for epoch, end in zip(epochs, lasts, strict=True):
        if epoch.leader_epoch > newest:
            return True
        inside = blocks.last[rows[np.searchsorted(blocks.first[rows], end) - 1]]
        for offset in (epoch.start_offset, int(inside)):
            before_first = offset < checkpoint[0].start_offset and epoch.leader_epoch <= checkpoint[0].leader_epoch
            if not before_first and find_epoch(checkpoint, offset) != epoch.leader_epoch:
                return False
    return True
