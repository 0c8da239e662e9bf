"""Transactions of a partition: how many ended how, how long they took, which are still open.

A transaction counts once in each partition that it wrote to: nothing in a partition names the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kafkaframes.jobs.report.histograms import Sizes
from kafkaframes.jobs.report.measure import IN_TRANSACTIONS, Measured
from kafkaframes.records.layout import CONTROL
from kafkaframes.records.scan import Ints

_PRODUCER, _EPOCH, _OFFSET, _FIRST, _LAST, _ATTRIBUTES = range(len(IN_TRANSACTIONS))


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has no marker.

    Attributes:
        since: the timestamp of its first batch, in milliseconds; -1 for none.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    since: int


@dataclass(slots=True)
class Transactions:
    """What became of transactions.

    Attributes:
        empty_markers: markers of transactions of which this log has no data (they wrote elsewhere, or were cleaned).
        durations: milliseconds between the first batch and the marker.
    """

    committed: int = 0
    aborted: int = 0
    empty_markers: int = 0
    durations: Sizes = field(default_factory=Sizes)
    open: list[OpenTransaction] = field(default_factory=list)

    @property
    def count(self) -> int:
        """All of them."""
        return self.committed + self.aborted + len(self.open)


def transactions_of(segments: Iterable[Measured]) -> Transactions:
    """Follow the segments of a partition in their order."""
    found, durations = Transactions(), []
    begun: dict[int, OpenTransaction] = {}
    for facts, measured in segments:
        kinds = {offset: kind for offset, _, kind in facts.markers}
        for row in _turns(measured.transactional).T.tolist():
            producer, offset = row[_PRODUCER], row[_OFFSET]
            if not row[_ATTRIBUTES] & CONTROL:
                begun.setdefault(producer, OpenTransaction(producer, row[_EPOCH], offset, row[_FIRST]))
            elif offset in kinds:
                first = begun.pop(producer, None)
                if first is None:
                    found.empty_markers += 1
                    continue
                found.committed += kinds[offset] == "COMMIT"
                found.aborted += kinds[offset] == "ABORT"
                if 0 <= first.since <= row[_LAST]:
                    durations.append(row[_LAST] - first.since)
    found.durations.add(np.asarray(durations, np.int64))
    found.open = sorted(begun.values(), key=lambda one: one.first_offset)
    return found


def _turns(table: Ints) -> Ints:
    """Leave out the batches that only continue a transaction: where there are millions, most do."""
    order = np.argsort(table[_PRODUCER], kind="stable")
    control = (table[_ATTRIBUTES, order] & CONTROL) != 0
    starts = np.diff(table[_PRODUCER, order], prepend=np.iinfo(np.int64).min) != 0
    kept: Ints = table[:, np.sort(order[control | starts | np.concatenate(([False], control[:-1]))])]
    return kept
