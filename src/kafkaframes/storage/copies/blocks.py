"""The content of one copy of a partition as columns: a row for each *block*, the smallest unit that is chosen.

A block is a batch whose header was read, or a whole segment where headers are not read (a store; then its checksum is
unknown). Rows are in the order of the files. A block whose offsets or leader epoch do not fit between its neighbours
(neither is covered by a batch's CRC) is *misplaced* and never used.
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
from kafkaframes.records.scan import Batches, Flags, Ints
from kafkaframes.storage.files.checkpoints import NO_EPOCH, Epochs, EpochStart, end_of_epoch, last_epoch
from kafkaframes.storage.files.directory import Segment

# ---------------------------------------------------------------------------------------------------------------------
# The leader epochs of a copy, and the offset at which its history leaves that of another copy (KIP-101).
#
# A *lineage* is a tuple of ``EpochStart``, ascending in epoch and in offset: a leader epoch writes from its start up to
# the next one's. Two copies whose lineages agree up to an offset hold the same records up to there, because one epoch
# has one leader. The offset where they stop agreeing is found as a follower finds it before it fetches: it asks the
# leader where its latest epoch ended, and truncates (OffsetsForLeaderEpoch, AbstractFetcherThread; KIP-101, KIP-279).
# Pure functions.


def epoch_at(lineage: Epochs, offset: int) -> int:
    """Return the epoch that wrote ``offset``; the first one also counts for what lies below its start.

    Retention and DeleteRecords move the first entry's start up with the log start offset.

    >>> from kafkaframes.storage.files.checkpoints import EpochStart
    >>> epoch_at((EpochStart(0, 0), EpochStart(3, 10)), 9)
    0
    """
    index = bisect_right(lineage, offset, key=lambda start: start.start_offset) - 1
    return lineage[max(index, 0)].leader_epoch if lineage else NO_EPOCH


def truncation_offset(copy: Epochs, copy_end: int, leader: Epochs, leader_end: int) -> int | None:
    """Return where a copy would be truncated before it followed ``leader``: what lies below is common history.

    Args:
        leader, leader_end: those of the copy whose history counts.

    Returns:
        At most ``copy_end``; None where the lineages cannot answer (one of them is empty, or ``copy`` is the later).

    >>> from kafkaframes.storage.files.checkpoints import EpochStart
    >>> old, new = (EpochStart(0, 0), EpochStart(1, 40)), (EpochStart(0, 0), EpochStart(2, 30))
    >>> truncation_offset(old, 55, new, 60)      # epoch 1 never was: common is what epoch 0 wrote, up to 30
    30
    """
    requested, end = last_epoch(copy), copy_end
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
        # the copy does not know the epoch of the answer: ask again, with the one it has below that


# ---------------------------------------------------------------------------------------------------------------------

UNKNOWN_CRC = -1
_DIGESTED = ("attributes", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count")
Rows = npt.NDArray[np.intp]
COLUMNS = (
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
class Blocks:
    """The blocks of one copy; one row of ``table`` for each of ``COLUMNS``, one column a block.

    Attributes (of a block):
        segment: its place among the copy's segments.
        position, size: bytes in the ``.log``.
        first, last: offsets. A compressed message of format 0 or 1 says its last offset only, which stands for both.
        reach: the lowest offset that it can hold: ``first``, or for such a message the offset after the previous block.
        epoch: the leader epoch; -1 if the format has none or an old cleaner removed it.
        crc: the checksum in the header; -1 where it was not read.
        fields: a digest of the header's other fields: a damaged one differs from its copies in it, or in the records.
        smooth: 1 if no offsets are missing between it and its two neighbours in the files.
        thinned: 1 if it was compacted: it has fewer records than offsets, or a delete horizon.
    """

    table: Ints

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def __getattr__(self, name: str) -> Ints:
        try:
            row: Ints = self.table[COLUMNS.index(name)]
        except ValueError:
            raise AttributeError(name) from None
        return row

    def take(self, rows: Rows | Flags | slice) -> Blocks:
        """Return some of the blocks."""
        return Blocks(self.table[:, rows])

    @property
    def ends(self) -> Ints:
        """The byte after each block."""
        ends: Ints = self.position + self.size
        return ends


NO_BLOCKS = Blocks(np.empty((len(COLUMNS), 0), np.int64))


@dataclass(frozen=True, slots=True)
class Broken:
    """A place in a segment at which its batches end before its bytes do.

    Attributes:
        is_tail: these bytes are what a crash or preallocation leaves at the end of the last segment.
        damage: the chunk of a tiered segment that cannot be read, after which batches may follow; otherwise None.
    """

    segment: int
    position: int
    reason: str
    is_tail: bool = False
    damage: DamagedChunkError | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a topic partition.

    Attributes:
        directory: of the partition, and ``source``, the log directory it lies in.
        checkpoint: its leader epoch checkpoint; None where there is none.
        end: the offset after the last block, at least the last segment's base offset.
        high_watermark: of the log directory's checkpoint; None without.
        start_offset: the log start offset where the checkpoint says one (DeleteRecords, tiered storage); else None.
        clean_offset: the partition's offset in the cleaner's checkpoint; -1 if that does not name the partition,
            None if there is no such file.
        checkpoint_fits: False where the leader epoch checkpoint contradicts the batches.
    """

    directory: str
    source: str = ""
    segments: tuple[Segment, ...] = ()
    blocks: Blocks = NO_BLOCKS
    checkpoint: Epochs | None = None
    lineage: Epochs = ()
    end: int = 0
    high_watermark: int | None = None
    start_offset: int | None = None
    clean_offset: int | None = None
    topic_id: str | None = None
    broken: tuple[Broken, ...] = ()
    misplaced: Blocks = NO_BLOCKS
    is_scanned: bool = True
    checkpoint_fits: bool = True

    @property
    def start(self) -> int:
        """The first offset: of the first block, or of the first segment's name."""
        return int(self.blocks.reach[0]) if len(self.blocks) else self.end

    def offsets_lost_at(self, broken: Broken) -> tuple[int, int | None]:
        """Return the offsets between the batches before and behind a broken place; the end is None at the log's end."""
        position = self.blocks.segment * (1 << 40) + self.blocks.position
        after = int(np.searchsorted(position, broken.segment * (1 << 40) + broken.position))
        first = self.segments[broken.segment].base_offset if after == 0 else int(self.blocks.last[after - 1]) + 1
        return first, int(self.blocks.reach[after]) if after < len(self.blocks) else None


def blocks_of_scan(segment: int, base_offset: int, tables: Sequence[Batches]) -> Blocks:
    """Return the blocks of one segment from the headers of its batches.

    Args:
        tables: consecutive; positions are those in the file.
    """
    if not tables:
        return NO_BLOCKS
    table = np.concatenate([one.table for one in tables], axis=1) if len(tables) > 1 else tables[0].table
    batches = Batches(table, tables[-1].end)
    first, last = batches.column("base_offset"), batches.column("last_offset")
    is_v2 = batches.is_v2
    thinned = (is_v2 & (batches.column("count") < last - first + 1)) | batches.flag(DELETE_HORIZON)
    before = np.concatenate(([base_offset], last[:-1] + 1))
    reach = np.where(batches.is_wrapper, np.minimum(before, last), first)
    made = np.empty((len(COLUMNS), len(batches)), np.int64)
    rows: tuple[Ints | int, ...] = (segment, batches.column("position"), batches.column("size"), first, last, reach)
    epochs = np.where(is_v2, batches.column("leader_epoch"), NO_EPOCH)
    others: tuple[Ints | int, ...] = (
        epochs,
        batches.column("crc"),
        batches.column("magic"),
        thinned.astype(np.int64),
        1,
        _digest(batches),
    )
    for column, row in enumerate((*rows, *others)):
        made[column] = row
    return Blocks(made)


def _digest(batches: Batches) -> Ints:
    made = np.zeros(len(batches), np.int64)
    for name in _DIGESTED:
        made *= 6_364_136_223_846_793_005  # wraps around
        made += batches.column(name)
    return made


def block_of_segment(segment: int, size_bytes: int, first: int, last: int, epoch: int) -> Blocks:
    """Return a whole segment as one block, its headers unread."""
    return Blocks(np.array([[segment, 0, size_bytes, first, last, first, epoch, UNKNOWN_CRC, 2, 0, 1, 0]], np.int64).T)


def joined(parts: Iterable[Blocks]) -> Blocks:
    """Return blocks one after the other."""
    tables = [part.table for part in parts if len(part)]
    return Blocks(np.concatenate(tables, axis=1)) if tables else NO_BLOCKS


def ascending(lows: Ints, highs: Ints) -> Flags:
    """Return the largest set of spans of which each lies above the one before it, as flags.

    One number that is far too high contradicts everything after it, one that is far too low everything before it; the
    smaller of the two sets is left out.

    >>> ascending(np.array([0, 10, 9000, 30, 40]), np.array([9, 19, 9009, 39, 49])).tolist()
    [True, True, False, True, True]
    """
    backward = highs < lows
    if not backward.any() and (len(lows) < 2 or bool((lows[1:] > highs[:-1]).all())):
        return np.ones(len(lows), np.bool_)
    return _largest_ascending(lows, highs, backward)


def _largest_ascending(lows: Ints, highs: Ints, wrong: Flags) -> Flags:
    too_high, too_low = wrong.copy(), wrong.copy()
    too_high[:-1] |= highs[:-1] >= np.minimum.accumulate(lows[::-1])[::-1][1:]
    too_low[1:] |= lows[1:] <= np.maximum.accumulate(highs)[:-1]
    fits: Flags = ~(too_high if too_high.sum() <= too_low.sum() else too_low)
    return fits


def in_order(blocks: Blocks) -> tuple[Blocks, Blocks]:
    """Return the blocks that fit between their neighbours in offset and epoch, and those that do not.

    Sets which of the blocks are ``smooth``.
    """
    goes_on = blocks.reach[1:] == blocks.last[:-1] + 1
    blocks.smooth[1:] &= goes_on
    blocks.smooth[:-1] &= goes_on
    fits = ascending(blocks.first, blocks.last)
    known = np.flatnonzero(fits & (blocks.epoch >= 0))
    epochs = blocks.epoch[known]
    if len(epochs) > 1 and bool((epochs[1:] < epochs[:-1]).any()):
        fits[known] = _largest_ascending(epochs, epochs - 1, np.zeros(len(epochs), np.bool_))  # they may be equal
    return (blocks, NO_BLOCKS) if fits.all() else (blocks.take(fits), blocks.take(~fits))


def epochs_in(blocks: Blocks) -> Epochs:
    """Return the epochs that the headers have, each with the first offset it is seen at."""
    known = np.flatnonzero(blocks.epoch >= 0)
    epochs = blocks.epoch[known]
    starts = np.flatnonzero(np.concatenate(([True], epochs[1:] != epochs[:-1]))) if len(epochs) else known
    return tuple(
        EpochStart(int(epoch), int(offset))
        for epoch, offset in zip(epochs[starts], blocks.first[known[starts]], strict=True)
    )


def lineage_of(checkpoint: Epochs | None, blocks: Blocks) -> tuple[Epochs, bool]:
    """Return the lineage of a copy, and whether its leader epoch checkpoint fits the batches.

    The checkpoint knows more than the headers (epochs that wrote nothing, or whose records are gone), so it is used
    unless a batch contradicts it; epochs later than its last are added from the headers. If it is missing, out of
    order or contradicted, only the headers are used.
    """
    seen = epochs_in(blocks)
    if checkpoint is None:
        return seen, True
    is_ordered = all(
        a.leader_epoch < b.leader_epoch and a.start_offset <= b.start_offset for a, b in pairwise(checkpoint)
    )
    if not is_ordered or not _agree(checkpoint, seen, blocks):
        return seen, False
    newest = checkpoint[-1].leader_epoch if checkpoint else NO_EPOCH
    return (*checkpoint, *(one for one in seen if one.leader_epoch > newest)), True


def _agree(checkpoint: Epochs, seen: Epochs, blocks: Blocks) -> bool:
    """Say whether each run of batches of one epoch lies where the checkpoint has that epoch."""
    if not checkpoint:
        return True
    newest = checkpoint[-1].leader_epoch
    lasts = [epoch.start_offset for epoch in seen[1:]]
    known = np.flatnonzero(blocks.epoch >= 0)
    if seen:
        lasts.append(int(blocks.last[known[-1]]) + 1)
    for epoch, end in zip(seen, lasts, strict=True):
        if epoch.leader_epoch > newest:
            return True
        inside = blocks.last[known[np.searchsorted(blocks.first[known], end) - 1]]
        for offset in (epoch.start_offset, int(inside)):
            before_first = offset < checkpoint[0].start_offset and epoch.leader_epoch <= checkpoint[0].leader_epoch
            if not before_first and epoch_at(checkpoint, offset) != epoch.leader_epoch:
                return False
    return True
