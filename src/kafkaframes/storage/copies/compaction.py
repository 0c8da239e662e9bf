"""Find out up to where the copies of a partition were compacted, and how much of that part each copy covers.

Holes from compaction are not damage, and they differ from copy to copy. These facts tell them from loss: the cleaner's
checkpoint names the partition; batches hold fewer records than offsets, or have a delete horizon; the topic is one of
Kafka's own compacted ones. A segment of format 0 or 1 with holes counts as compacted where no checkpoint of the cleaner
is at hand to say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafkaframes.storage.copies.blocks import Blocks, Copy, Rows
from kafkaframes.storage.copies.cover import Inspector
from kafkaframes.storage.files.names import TopicPartition

COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
NO_LIMIT = 2**63 - 1
_TRIED = 4  # number of thinned batches whose checksum is verified before they count as evidence


def is_compacted(name: TopicPartition, copies: Sequence[Copy], usable: Sequence[Blocks], inspector: Inspector) -> bool:
    """Say whether holes in these copies are the cleaner's work."""
    known = any(copy.clean_offset is not None and copy.clean_offset >= 0 for copy in copies)
    if known or name.topic in COMPACTED_TOPICS:
        return True
    for index, blocks in enumerate(usable):
        rows = np.flatnonzero(blocks.thinned)[:_TRIED]
        if rows.size and bool(inspector.valid(index, blocks.take(rows)).any()):
            return True
    return all(copy.clean_offset is None for copy in copies) and any(map(_has_old_holes, usable))


def _has_old_holes(blocks: Blocks) -> bool:
    return bool((blocks.magic[holes(blocks, within=True)] < 2).any())


def holes(blocks: Blocks, *, within: bool) -> Rows:
    """Return the blocks before which offsets are missing; ``within``: in the middle of a segment."""
    is_hole = blocks.reach[1:] > blocks.last[:-1] + 1
    if within:
        is_hole &= blocks.segment[1:] == blocks.segment[:-1]
    rows: Rows = np.flatnonzero(is_hole) + 1
    return rows


def cleaned(copy: Copy, blocks: Blocks) -> int:
    """Return up to where a copy was compacted: no offset at or above was removed from it.

    The cleaner's checkpoint may be older than the segments, so what the batches show counts beside it.
    """
    known = copy.clean_offset is not None and copy.clean_offset >= 0
    last_hole = holes(blocks, within=known)[-1:]
    thinned = np.flatnonzero(blocks.thinned)[-1:]
    shown: list[int] = [0, *blocks.first[last_hole].tolist(), *(blocks.last[thinned] + 1).tolist()]
    end = int(blocks.last[-1]) + 1 if len(blocks) else 0
    return min(max([*shown, copy.clean_offset or 0]), end)


def coverage(copy: Copy, blocks: Blocks, clean: int) -> tuple[bool, bool, int]:
    """Return how well a copy covers the offsets below ``clean``; a larger tuple is better.

    Returns:
        Whether it reaches ``clean``; whether nothing in there is broken; minus its first offset.
    """
    reaches = bool(len(blocks)) and int(blocks.last[-1]) + 1 >= clean
    broken = any(not one.is_tail and copy.segments[one.segment].base_offset < clean for one in copy.broken)
    misplaced = bool((copy.misplaced.first < clean).any())
    start = int(blocks.reach[0]) if len(blocks) else NO_LIMIT
    return reaches, not (broken or misplaced), -start
