"""Copies of one partition in several directories: which one is measured, and where the others differ from it.

Batches are told apart by offsets and CRC. What is outside the CRC (the leader epoch) is compared beside it. Nothing is
decided here about which history is right; see ``replicas=merge`` for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.log.directory import LogDirectory, Partition, partitions_of
from kafkaframes.log.names import TopicPartition
from kafkaframes.log.summary import glance
from kafkaframes.records.scan import Ints
from kafkaframes.report.measure import SIGNATURE

_BASE, _LAST, _CRC, _EPOCH, _SIZE = range(len(SIGNATURE))
SAME, SOUND, BEHIND, DAMAGED, CLEANED = "same", "sound", "behind", "damaged", "cleaned"
DIFFERS, OTHER_TOPIC = "differs", "other topic"
Placed = tuple[LogDirectory, Partition]


@dataclass(slots=True)
class CopyReport:
    """One copy beside the one that was measured.

    Attributes:
        verdict: ``same``; ``sound`` (the same, without the errors of the measured one); ``behind`` (equal as far as
            it goes); ``damaged`` (its headers are the same, but it has errors); ``cleaned`` (of a compacted topic:
            cleaned at another time); ``differs``; or ``other topic`` (another topic id under the same name).
        start_offset, end_offset: of its batches; the end is exclusive.
        is_measured: whether the report's numbers are this copy's.
        only_here, only_there: batches of the offsets that both have, which one of them lacks.
        other_epochs: batches that are equal but for the leader epoch.
        first_difference: the first offset at which the batches differ; -1 for none.
        errors: findings of that severity.
    """

    topic: str
    partition: int
    directory: str
    verdict: str
    is_measured: bool
    topic_id: str | None
    start_offset: int
    end_offset: int
    size_bytes: int
    batches: int
    only_here: int = 0
    only_there: int = 0
    other_epochs: int = 0
    first_difference: int = -1
    errors: int = 0


def copies_of(directories: Iterable[LogDirectory]) -> dict[TopicPartition, list[Placed]]:
    """Return every live copy of each partition, the one to measure first: it reaches furthest, and has most bytes."""
    found: dict[TopicPartition, list[Placed]] = {}
    for directory, partition in partitions_of(directories):
        found.setdefault(partition.topic_partition, []).append((directory, partition))
    for placed in found.values():
        if len(placed) > 1:
            placed.sort(key=_reach, reverse=True)
    return found


def _reach(placed: Placed) -> tuple[int, int]:
    directory, partition = placed
    last = max((glance(directory.filesystem, one).last_offset for one in partition.segments[-2:]), default=-1)
    return last, partition.size_bytes


def compare(
    copies: Sequence[tuple[Partition, Ints]], *, errors: Mapping[str, int], is_compacted: bool
) -> list[CopyReport]:
    """Compare copies with the first of them.

    Args:
        copies: each with the signatures of its batches, in the order of ``copies_of``.
        errors: how many findings of that severity there are, by directory.
        is_compacted: batches may differ because brokers clean on their own.
    """
    (first, reference), *_ = copies
    found = [_compared(first, reference, one, table, errors.get(one.directory, 0)) for one, table in copies]
    for one in found:
        if is_compacted and one.verdict == DIFFERS:
            one.verdict = CLEANED
        if found[0].errors and one.verdict == SAME:
            one.verdict = SOUND
    return found


def _compared(first: Partition, reference: Ints, one: Partition, table: Ints, errors: int) -> CopyReport:
    report = CopyReport(
        topic=one.topic,
        partition=one.partition,
        directory=one.directory,
        verdict=SAME,
        is_measured=one is first,
        topic_id=one.metadata.topic_id if one.metadata else None,
        start_offset=int(table[_BASE].min()) if table.size else one.log_start_offset,
        end_offset=int(table[_LAST].max()) + 1 if table.size else one.log_start_offset,
        size_bytes=one.size_bytes,
        batches=table.shape[1],
        errors=errors,
    )
    theirs = first.metadata.topic_id if first.metadata else None
    if report.topic_id and theirs and report.topic_id != theirs:
        report.verdict = OTHER_TOPIC
        return report
    _note_differences(report, _between(reference, table), _between(table, reference))
    if report.first_difference >= 0:
        report.verdict = DIFFERS
    elif errors:
        report.verdict = DAMAGED
    elif reference.size and report.end_offset <= int(reference[_LAST].max()):
        report.verdict = BEHIND
    return report


def _between(table: Ints, other: Ints) -> Ints:
    """Return the batches within the offsets that both have."""
    if not table.size or not other.size:
        return table[:, :0]
    kept: Ints = table[:, (table[_LAST] >= other[_BASE].min()) & (table[_BASE] <= other[_LAST].max())]
    return kept


def _note_differences(report: CopyReport, there: Ints, here: Ints) -> None:
    """Batches count as equal by offsets and CRC; those that both have are compared by leader epoch."""
    theirs, ours = _identities(there), _identities(here)
    only_here, only_there = ~np.isin(ours, theirs), ~np.isin(theirs, ours)
    report.only_here, report.only_there = int(only_here.sum()), int(only_there.sum())
    differing = [*here[_BASE, only_here].tolist(), *there[_BASE, only_there].tolist()]
    epochs = dict(zip(theirs.tolist(), there[_EPOCH].tolist(), strict=True))
    common = zip(ours[~only_here].tolist(), here[_EPOCH, ~only_here].tolist(), strict=True)
    report.other_epochs = sum(epochs[identity] != epoch for identity, epoch in common)
    report.first_difference = min(differing, default=-1)


def _identities(table: Ints) -> npt.NDArray[np.void]:
    rows = np.ascontiguousarray(table[[_BASE, _LAST, _CRC]].T)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * 3))).reshape(-1)
