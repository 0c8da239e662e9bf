"""The leader epochs of a copy, and the offset at which its history leaves that of another copy (KIP-101).

A *lineage* is a tuple of ``EpochStart``, ascending in epoch and in offset: a leader epoch writes from its start up to
the next one's. Two copies whose lineages agree up to an offset hold the same records up to there, because one epoch has
one leader. The offset where they stop agreeing is found as a follower finds it before it fetches: it asks the leader
where its latest epoch ended, and truncates (OffsetsForLeaderEpoch, AbstractFetcherThread; KIP-101, KIP-279).
Pure functions.
"""

from __future__ import annotations

from bisect import bisect_right

from kafkaframes.storage.files.leader_epochs import Epochs

NO_EPOCH = -1


def last_epoch(lineage: Epochs) -> int:
    """Return the latest epoch, -1 of an empty lineage."""
    return lineage[-1].leader_epoch if lineage else NO_EPOCH


def epoch_at(lineage: Epochs, offset: int) -> int:
    """Return the epoch that wrote ``offset``; the first one also counts for what lies below its start.

    Retention and DeleteRecords move the first entry's start up with the log start offset.

    >>> from kafkaframes.storage.files.checkpoints import EpochStart
    >>> epoch_at((EpochStart(0, 0), EpochStart(3, 10)), 9)
    0
    """
    index = bisect_right(lineage, offset, key=lambda start: start.start_offset) - 1
    return lineage[max(index, 0)].leader_epoch if lineage else NO_EPOCH


def end_of_epoch(lineage: Epochs, epoch: int, log_end_offset: int) -> tuple[int, int] | None:
    """Return the largest epoch at or below ``epoch`` and the offset it ends before, as a leader answers a follower.

    Where every epoch of the leader is above the one asked for, the answer is that epoch itself, ended by the first.

    Returns:
        None if the leader cannot answer: it has no epochs, or only earlier ones.

    >>> from kafkaframes.storage.files.checkpoints import EpochStart
    >>> end_of_epoch((EpochStart(0, 0), EpochStart(3, 10)), 2, 50)
    (0, 10)
    >>> end_of_epoch((EpochStart(0, 0), EpochStart(3, 10)), 3, 50)
    (3, 50)
    """
    if not lineage or epoch > lineage[-1].leader_epoch:
        return None
    if epoch == lineage[-1].leader_epoch:
        return epoch, log_end_offset
    index = bisect_right(lineage, epoch, key=lambda start: start.leader_epoch)
    return lineage[max(index - 1, 0)].leader_epoch if index else epoch, lineage[index].start_offset


def truncation_offset(copy: Epochs, copy_end: int, leader: Epochs, leader_end: int) -> int | None:
    """Return where a copy would be truncated before it followed ``leader``: what lies below is common history.

    Args:
        copy, copy_end: lineage and log end offset of the copy.
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
