"""A partition's leader epochs while a log is loaded, cut and led (Kafka's LeaderEpochFileCache, KIP-101).

Values in, values out: entries ascend in epoch and in offset. The file is ``checkpoints.read_leader_epochs``.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkaframes.storage.files.checkpoints import EpochStart

Epochs = tuple[EpochStart, ...]


def assign(epochs: Epochs, new: EpochStart) -> Epochs:
    """Add an epoch that writes from ``new.start_offset`` on; entries that contradict it are removed.

    >>> assign((EpochStart(0, 0), EpochStart(3, 10)), EpochStart(4, 10))
    (EpochStart(leader_epoch=0, start_offset=0), EpochStart(leader_epoch=4, start_offset=10))
    """
    if new.leader_epoch < 0 or new.start_offset < 0:
        return epochs
    if epochs and epochs[-1].leader_epoch == new.leader_epoch and epochs[-1].start_offset <= new.start_offset:
        return epochs
    kept = list(epochs)
    while kept and (kept[-1].leader_epoch >= new.leader_epoch or kept[-1].start_offset >= new.start_offset):
        kept.pop()
    return (*kept, new)


def loaded(epochs: Epochs) -> Epochs:
    """Load the entries of a file as a broker does: one by one, each replacing those that contradict it."""
    added: Epochs = ()
    for entry in epochs:
        added = assign(added, entry)
    return added


def recovered(epochs: Epochs, added: Iterable[EpochStart]) -> Epochs:
    """Add the epochs of a recovered segment's batches that are above the latest known one."""
    for entry in added:
        if not epochs or entry.leader_epoch > epochs[-1].leader_epoch:
            epochs = assign(epochs, entry)
    return epochs


def truncated(epochs: Epochs, *, start_offset: int, end_offset: int) -> Epochs:
    """Drop what begins at or after the log's end, and what ended before its start.

    >>> truncated((EpochStart(0, 0), EpochStart(2, 40), EpochStart(3, 90)), start_offset=50, end_offset=90)
    (EpochStart(leader_epoch=2, start_offset=50),)
    """
    kept = [entry for entry in epochs if entry.start_offset < end_offset]
    before = [entry for entry in kept if entry.start_offset <= start_offset]
    first = [EpochStart(before[-1].leader_epoch, start_offset)] if before else []
    return (*first, *kept[len(before) :])
