"""Runs of records that a share group has fetched and not finished, each record with a state and a count of deliveries.

A run is what was acquired together. It has one delivery for all its records as long as all had the same fate; then
each record has its own (InFlightBatch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

_Value = TypeVar("_Value")


class RecordState(IntEnum):
    """States of a record; the numbers are those of its stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


_NEW: Final = (RecordState.AVAILABLE, 0)
DONE: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


@dataclass(slots=True, eq=False)
class Delivery:
    """The state of a record, or of all records of a run.

    Attributes:
        count: of deliveries, with the one that is under way.
        lock: what was acquired together has the same; None where nothing is acquired.
        stored: the state and the count of deliveries that are stored: what was acknowledged or taken back. A delivery
            that is under way is not, nor what is archived because no consumer may see it.
    """

    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member_id: str = ""
    lock: object = None
    stored: tuple[RecordState, int] = _NEW

    def acquire(self, member_id: str, lock: object) -> None:
        """Deliver once more."""
        self.state, self.member_id, self.lock = RecordState.ACQUIRED, member_id, lock
        self.count += 1

    def archive(self) -> None:
        """Leave it out: it is in no log, or no consumer may see it."""
        self.state, self.member_id, self.lock = RecordState.ARCHIVED, "", None

    def settle(self, state: RecordState) -> None:
        """Leave the member."""
        self.state, self.member_id, self.lock = state, "", None
        self.stored = state, self.count


class Batch(NamedTuple):
    """A run of records in the stored state."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(slots=True, eq=False)
class InFlight:
    """A run of records.

    Attributes:
        first, last: offsets, both included.
        shared: the delivery of all of them; None once they differ.
        single: the deliveries by offset, once they differ.
    """

    first: int
    last: int
    shared: Delivery | None = field(default_factory=Delivery)
    single: dict[int, Delivery] = field(default_factory=dict)

    def split(self) -> None:
        """Give each record a delivery of its own."""
        if self.shared is not None:
            self.single = {offset: replace(self.shared) for offset in range(self.first, self.last + 1)}
            self.shared = None

    def is_within(self, first: int, last: int) -> bool:
        """Whether all its records are in a range of offsets, both ends included."""
        return first <= self.first and self.last <= last

    def within(self, first: int, last: int) -> Iterator[tuple[int, Delivery]]:
        """Yield the records of a range, of a run that is split."""
        for offset in range(max(self.first, first), min(self.last, last) + 1):
            yield offset, self.single[offset]

    def runs(self) -> Iterator[tuple[int, int, Delivery]]:
        """Yield the deliveries: first and last offset, and the delivery."""
        if self.shared is not None:
            yield self.first, self.last, self.shared
        else:
            yield from ((offset, offset, delivery) for offset, delivery in self.single.items())

    def count(self, states: frozenset[RecordState], start: int) -> int:
        """Return how many records from ``start`` on are in one of these states."""
        return sum(
            max(last - max(first, start) + 1, 0) for first, last, delivery in self.runs() if delivery.state in states
        )


def runs_of(values: Iterable[tuple[int, int, _Value]]) -> Iterator[tuple[int, int, _Value]]:
    """Join neighbouring runs of offsets with the same value: first, last, value.

    >>> list(runs_of([(0, 4, "a"), (5, 5, "a"), (6, 6, "b"), (8, 8, "b")]))
    [(0, 5, 'a'), (6, 6, 'b'), (8, 8, 'b')]
    """
    run: tuple[int, int, _Value] | None = None
    for first, last, value in values:
        if run is not None and first == run[1] + 1 and value == run[2]:
            run = run[0], last, value
            continue
        if run is not None:
            yield run
        run = first, last, value
    if run is not None:
        yield run
