"""One partition as a share group reads it: which records are free, given out, done (KIP-932, SharePartition).

Every record between the start offset and the end of what was fetched has a state and a count of deliveries. A record
that is given out comes back when its lock times out; one that came back too often is put away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from kafkaframes.coordination.groups.ports import Clock
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode

_Value = TypeVar("_Value")
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class RecordState(IntEnum):
    """States of a record; the numbers are those of its stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


_DONE: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


@dataclass(slots=True)
class _InFlight:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member_id: str = ""
    lock: object = None


class Acquired(NamedTuple):
    """A run of records that a member was given."""

    first: int
    last: int
    deliveries: int


class Batch(NamedTuple):
    """A run of records in the stored state."""

    first: int
    last: int
    state: int
    deliveries: int


@dataclass(slots=True, eq=False)
class SharePartition:
    """The state of one partition in one share group.

    Attributes:
        start: everything below is done.
        end: everything from here on was never given out.
        lock_ms: for how long a record is given out (``group.share.record.lock.duration.ms``).
        most_deliveries: how often a record is given out at most (``group.share.delivery.count.limit``).
        most_in_flight: how many records are between start and end (``group.share.partition.max.record.locks``).
        changed: told when the state is to be stored, and when records have become free.
    """

    clock: Clock
    start: int
    changed: Callable[[], None]
    lock_ms: int = 30_000
    most_deliveries: int = 5
    most_in_flight: int = 2_000
    end: int = -1
    _records: dict[int, _InFlight] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end = max(self.end, self.start)

    # ---------------------------------------------------------------------------------------------- giving out

    @property
    def next_fetch_offset(self) -> int:
        """The first record that is free."""
        for offset in range(self.start, self.end):
            if self._at(offset).state is RecordState.AVAILABLE:
                return offset
        return self.end

    @property
    def is_full(self) -> bool:
        """Whether nothing new can be given out until something is done."""
        return self.end - self.start >= self.most_in_flight and self.next_fetch_offset >= self.end

    def _at(self, offset: int) -> _InFlight:
        return self._records.setdefault(offset, _InFlight())

    def acquire(self, member_id: str, offsets: Iterable[int], most: int) -> list[Acquired]:
        """Give free records among ``offsets`` to a member, ``most`` at most; they are locked for it."""
        token, taken = object(), list[int]()
        for offset in offsets:
            if len(taken) >= most or offset - self.start >= self.most_in_flight:
                break
            if offset < self.start:
                continue
            one = self._at(offset)
            if one.state is RecordState.AVAILABLE:
                one.state, one.member_id, one.lock = RecordState.ACQUIRED, member_id, token
                one.count += 1
                taken.append(offset)
            self.end = max(self.end, offset + 1)
        if taken:
            self.clock.call_later(self.lock_ms, lambda: self._unlock(token, taken))
        return [Acquired(*run) for run in _runs((offset, self._at(offset).count) for offset in taken)]

    def skip(self, offsets: Iterable[int]) -> None:
        """Put away offsets that have no record for a consumer: markers, and what compaction has removed."""
        for offset in offsets:
            if offset >= self.start and self._at(offset).state is RecordState.AVAILABLE:
                self._at(offset).state = RecordState.ARCHIVED
                self.end = max(self.end, offset + 1)
        self._advance()

    # ---------------------------------------------------------------------------------------------- taking back

    def acknowledge(self, member_id: str, first: int, last: int, types: Sequence[int]) -> None:
        """Take a member's word for records that it was given, all or none of them.

        Args:
            first, last: offsets, both included.
            types: for each of them, or one for all.

        Raises:
            RefusedError: INVALID_REQUEST or INVALID_RECORD_STATE.
        """
        count = last - first + 1
        if count < 1 or count > self.most_in_flight or len(types) not in (1, count):
            raise RefusedError(ErrorCode.INVALID_REQUEST)
        if any(one not in range(5) for one in types):
            raise RefusedError(ErrorCode.INVALID_REQUEST)
        for offset in range(first, last + 1):
            one = self._records.get(offset)
            if one is None or one.state is not RecordState.ACQUIRED or one.member_id != member_id:
                raise RefusedError(ErrorCode.INVALID_RECORD_STATE)
        renewed = []
        for offset in range(first, last + 1):
            kind = types[0] if len(types) == 1 else types[offset - first]
            if kind == RENEW:
                renewed.append(offset)
            else:
                self._settle(self._at(offset), kind)
        if renewed:
            token = object()
            for offset in renewed:
                self._at(offset).lock = token
            self.clock.call_later(self.lock_ms, lambda: self._unlock(token, renewed))
        self._advance()
        self.changed()

    def _settle(self, one: _InFlight, kind: int) -> None:
        one.lock, one.member_id = None, ""
        if kind == ACCEPT:
            one.state = RecordState.ACKNOWLEDGED
        elif kind == RELEASE and one.count < self.most_deliveries:
            one.state = RecordState.AVAILABLE
        else:
            one.state = RecordState.ARCHIVED

    def _unlock(self, token: object, offsets: Iterable[int]) -> None:
        """Take back what was not acknowledged in time."""
        mine = [one for offset in offsets if (one := self._records.get(offset)) is not None and one.lock is token]
        for one in mine:
            self._settle(one, RELEASE)
        if mine:
            self._advance()
            self.changed()

    def release_all(self, member_id: str) -> None:
        """Take back everything that a member has, as if it had not been delivered: its session ends."""
        mine = [one for one in self._records.values() if one.member_id == member_id]
        for one in mine:
            one.count -= 1
            self._settle(one, RELEASE)
        if mine:
            self.changed()

    def move_start(self, offset: int) -> None:
        """Put away what lies below ``offset``: the log does not have it any more."""
        if offset > self.start:
            for old in [one for one in self._records if one < offset]:
                del self._records[old]
            self.start, self.end = offset, max(self.end, offset)

    def _advance(self) -> None:
        while (one := self._records.get(self.start)) is not None and one.state in _DONE:
            del self._records[self.start]
            self.start += 1
        self.end = max(self.end, self.start)

    # ---------------------------------------------------------------------------------------------- stored state

    def batches(self) -> list[Batch]:
        """Return the state to be stored: what is given out counts as free."""
        states = (
            (offset, (RecordState.AVAILABLE if one.state is RecordState.ACQUIRED else one.state, one.count))
            for offset, one in sorted(self._records.items())
            if one.count or one.state in _DONE
        )
        return [Batch(first, last, int(state), count) for first, last, (state, count) in _runs(states)]

    def restore(self, batches: Iterable[Batch]) -> None:
        """Take the stored state over."""
        for batch in batches:
            for offset in range(max(batch.first, self.start), batch.last + 1):
                self._records[offset] = _InFlight(RecordState(batch.state), batch.deliveries)
            self.end = max(self.end, batch.last + 1)
        self._advance()

    @property
    def done_ahead(self) -> int:
        """How many records above the start are done."""
        return sum(one.state in _DONE for one in self._records.values())


def _runs(values: Iterable[tuple[int, _Value]]) -> Iterator[tuple[int, int, _Value]]:
    """Yield runs of neighbouring offsets with the same value: first, last, value."""
    run: tuple[int, int, _Value] | None = None
    for offset, value in values:
        if run is not None and offset == run[1] + 1 and value == run[2]:
            run = run[0], offset, value
            continue
        if run is not None:
            yield run
        run = offset, offset, value
    if run is not None:
        yield run
