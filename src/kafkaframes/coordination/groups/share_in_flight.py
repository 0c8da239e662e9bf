"""In-flight records of a share group, each with a state and a delivery count (InFlightBatch in Kafka).

A run is a range of records that were acquired together. All records of a run share one delivery while they have the
same state. Once their states differ, each record has a delivery of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

_Value = TypeVar("_Value")


class RecordState(IntEnum):
    """States of a record, with the numbers of the stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


_INITIAL_STATE: Final = (RecordState.AVAILABLE, 0)
FINISHED_STATES: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


@dataclass(slots=True, eq=False)
class DeliveryState:
    """The state of a record, or of all records of a run.

    Attributes:
        count: number of deliveries, including the current one.
        lock: identity of the lock, shared by the records that were acquired together; None if the records are not
            acquired.
        stored_state: state and delivery count that are stored, as of the last acknowledgement or release. A delivery in
            progress is not stored. Archiving a record that consumers must not read is not stored either.
    """

    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member_id: str = ""
    lock: object = None
    stored_state: tuple[RecordState, int] = _INITIAL_STATE

    def acquire(self, member_id: str, lock: object) -> None:
        """Start a delivery to a member."""
        self.state, self.member_id, self.lock = RecordState.ACQUIRED, member_id, lock
        self.count += 1

    def archive(self) -> None:
        """Archive a record that has been removed from the log, or that consumers must not read."""
        self.state, self.member_id, self.lock = RecordState.ARCHIVED, "", None

    def end_delivery(self, state: RecordState) -> None:
        """End the delivery with a state, which is then stored."""
        self.state, self.member_id, self.lock = state, "", None
        self.stored_state = state, self.count


class StateBatch(NamedTuple):
    """A run of records in the stored state."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(slots=True, eq=False)
class InFlightRun:
    """A range of in-flight records that were acquired together.

    Attributes:
        first, last: offsets, both included.
        shared_delivery: delivery of all records; None after ``separate_records``.
        deliveries_by_offset: deliveries by offset after ``separate_records``.
    """

    first: int
    last: int
    shared_delivery: DeliveryState | None = field(default_factory=DeliveryState)
    deliveries_by_offset: dict[int, DeliveryState] = field(default_factory=dict)

    def separate_records(self) -> None:
        """Give each record its own delivery."""
        if self.shared_delivery is not None:
            self.deliveries_by_offset = {
                offset: replace(self.shared_delivery) for offset in range(self.first, self.last + 1)
            }
            self.shared_delivery = None

    def is_within(self, first: int, last: int) -> bool:
        """Return whether all records are in a range of offsets, both ends included."""
        return first <= self.first and self.last <= last

    def iterate_deliveries(self, first: int, last: int) -> Iterator[tuple[int, DeliveryState]]:
        """Yield (offset, delivery) for the records in a range. ``separate_records`` has been called before."""
        for offset in range(max(self.first, first), min(self.last, last) + 1):
            yield offset, self.deliveries_by_offset[offset]

    def iterate_runs(self) -> Iterator[tuple[int, int, DeliveryState]]:
        """Yield (first offset, last offset, delivery)."""
        if self.shared_delivery is not None:
            yield self.first, self.last, self.shared_delivery
        else:
            yield from ((offset, offset, delivery) for offset, delivery in self.deliveries_by_offset.items())

    def count_records(self, states: frozenset[RecordState], start: int) -> int:
        """Return the number of records at or after ``start`` in one of the states."""
        return sum(
            max(last - max(first, start) + 1, 0)
            for first, last, delivery in self.iterate_runs()
            if delivery.state in states
        )


def merge_runs(values: Iterable[tuple[int, int, _Value]]) -> Iterator[tuple[int, int, _Value]]:
    """Merge adjacent runs of offsets that have the same value. Yield (first, last, value).

    >>> list(merge_runs([(0, 4, "a"), (5, 5, "a"), (6, 6, "b"), (8, 8, "b")]))
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
