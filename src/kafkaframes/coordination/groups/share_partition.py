"""The state of one partition in one share group: available, acquired and finished records (KIP-932, SharePartition).

A fetch acquires whole batches of the log, and therefore possibly more records than the member's maximum, except in
``record_limit`` mode (KIP-1206). When the lock of an acquired record times out, the record becomes available again, or
is archived if its delivery count has reached the limit. Records that have used half of their allowed deliveries are
acquired in smaller runs, and the last allowed delivery contains only one record. One bad record therefore does not
cause other records to be archived.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafkaframes.coordination.groups.ports import Clock
from kafkaframes.coordination.groups.share_in_flight import (
    FINISHED_STATES,
    DeliveryState,
    InFlightRun,
    RecordState,
    StateBatch,
    merge_runs,
)
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.wire.integers import MAX_INT32

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_STATE_BY_ACKNOWLEDGEMENT: Final = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}
_MIN_THROTTLED_DELIVERIES: Final = 2


class OffsetRange(NamedTuple):
    """A range of offsets, both ends included, such as a batch of the log or records to archive."""

    first: int
    last: int


class AcquiredRun(NamedTuple):
    """A run of records that a member has acquired."""

    first: int
    last: int
    deliveries: int


class AcknowledgedRun(NamedTuple):
    """A member's acknowledgement of a run of records; ``types`` has a type per record, or one type for all."""

    first: int
    last: int
    types: Sequence[int]


class ShareLimits(NamedTuple):
    """The limits that a share group's settings impose in a partition.

    Attributes:
        lock_ms: duration of a record lock, in milliseconds (``share.record.lock.duration.ms``).
        max_deliveries: largest delivery count of a record (``share.delivery.count.limit``).
        max_in_flight: largest number of records between start and end (``share.partition.max.record.locks``).
        may_renew: whether members may renew locks (``share.renew.acknowledge.enable``).
    """

    lock_ms: int = 30_000
    max_deliveries: int = 5
    max_in_flight: int = 2_000
    may_renew: bool = True

    @property
    def min_throttled_deliveries(self) -> int:
        """The delivery count from which fewer records are acquired together."""
        return max(_MIN_THROTTLED_DELIVERIES, (self.max_deliveries + 1) // 2)


DEFAULT_SHARE_LIMITS: Final = ShareLimits()


class ShareFetch(NamedTuple):
    """A member's fetch of a partition.

    Attributes:
        offset: the partition's next fetch offset at the time when its log was read.
        max_records: largest number of records to acquire.
        batch_size: number of records above which acquired records are split into several runs. Runs are split only
            between batches of the log.
        record_limit: whether ``max_records`` is a strict limit, so that a run may end in the middle of a batch.
    """

    member_id: str
    offset: int
    max_records: int
    batch_size: int = MAX_INT32
    record_limit: bool = False


@dataclass(slots=True, eq=False)
class SharePartition:
    """The state of one partition in one share group.

    Attributes:
        start: the first offset that is not finished.
        store_state: callback that stores the state.
        on_release: callback that is called when records may have become available.
        end: the first offset that was never acquired.
    """

    clock: Clock
    start: int
    store_state: Callable[[], None]
    on_release: Callable[[], None] = lambda: None
    limits: ShareLimits = DEFAULT_SHARE_LIMITS
    end: int = -1
    _in_flight_runs: list[InFlightRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.end = max(self.end, self.start)

    @property
    def next_fetch_offset(self) -> int:
        """The first available offset."""
        for in_flight_run in self._in_flight_runs:
            for first, last, delivery in in_flight_run.iterate_runs():
                if delivery.state is RecordState.AVAILABLE and last >= self.start:
                    return first
        return self.end

    @property
    def may_acquire(self) -> bool:
        """Whether a fetch can acquire records: the in-flight limit is not reached, or an old record is available."""
        return self.end - self.start < self.limits.max_in_flight or self.next_fetch_offset < self.end

    @property
    def finished_count(self) -> int:
        """The number of finished records at or after the start."""
        return sum(in_flight_run.count_records(FINISHED_STATES, self.start) for in_flight_run in self._in_flight_runs)

    def _find_run(self, offset: int) -> int:
        """Return the index of the last run that begins at or before an offset, or -1."""
        return bisect_right(self._in_flight_runs, offset, key=lambda in_flight_run: in_flight_run.first) - 1

    def _find_runs_between(self, first: int, last: int) -> list[InFlightRun]:
        """Return the runs that have records in a range."""
        index = max(self._find_run(first), 0)
        return [
            in_flight_run
            for in_flight_run in self._in_flight_runs[index:]
            if in_flight_run.last >= first and in_flight_run.first <= last
        ]

    def acquire(self, fetch: ShareFetch, batches: Sequence[OffsetRange]) -> list[AcquiredRun]:
        """Acquire available records of the given log batches for a member and lock them."""
        if fetch.max_records <= 0 or not batches or batches[-1].last < self.start:
            return []
        max_records, last = self._limit_acquisition(fetch, batches[-1].last)
        if max_records <= 0:
            return []
        self._archive_lost_records(fetch.offset, batches[0].first)
        in_flight_runs = self._find_runs_between(batches[0].first, last)
        if not in_flight_runs:
            return self._acquire_new_records(fetch, batches, max(batches[0].first, self.start), last, max_records)
        acquired_runs: list[AcquiredRun] = []
        for in_flight_run in in_flight_runs:
            remaining_count = max_records - sum(run.last - run.first + 1 for run in acquired_runs)
            is_throttled = self._is_throttled(in_flight_run, batches[0].first, last)
            if remaining_count <= 0 or (is_throttled and acquired_runs):
                return acquired_runs
            runs = self._acquire_again(
                fetch, in_flight_run, batches[0].first, last, remaining_count, is_throttled=is_throttled
            )
            acquired_runs += runs
            if is_throttled and runs:
                return acquired_runs
        remaining_count = max_records - sum(run.last - run.first + 1 for run in acquired_runs)
        if remaining_count > 0 and in_flight_runs[-1].last < last:
            acquired_runs += self._acquire_new_records(
                fetch, batches, in_flight_runs[-1].last + 1, last, remaining_count
            )
        return acquired_runs

    def _limit_acquisition(self, fetch: ShareFetch, last: int) -> tuple[int, int]:
        """Return the largest number of records to acquire and the last offset.

        If the in-flight limit is reached, only records before the end can be acquired.
        """
        remaining_count = self.limits.max_in_flight - (self.end - self.start)
        if remaining_count <= 0 and fetch.offset < self.end:
            return min(fetch.max_records, self.end - fetch.offset), min(last, self.end - 1)
        return min(fetch.max_records, remaining_count), last

    def _acquire_new_records(
        self, fetch: ShareFetch, batches: Sequence[OffsetRange], first: int, last: int, max_records: int
    ) -> list[AcquiredRun]:
        """Acquire records for the first time, up to the end of a batch."""
        if not self._in_flight_runs:
            first = max(first, self.end)
        if max_records < last - first + 1:
            limit = first + max_records - 1
            last = next((batch.last for batch in batches if batch.first <= limit <= batch.last), limit)
        if fetch.record_limit:
            in_flight_run = self._add_run(fetch.member_id, first, last)
            if last - first + 1 > max_records:
                in_flight_run.separate_records()
                last = first + max_records - 1
                in_flight_run.deliveries_by_offset |= {
                    offset: DeliveryState() for offset in range(last + 1, in_flight_run.last + 1)
                }
            return [AcquiredRun(first, last, 1)]
        runs = list(_divide_run(batches, first, last, fetch.batch_size))
        for run in runs:
            self._add_run(fetch.member_id, run.first, run.last)
        return [AcquiredRun(run.first, run.last, 1) for run in runs]

    def _add_run(self, member_id: str, first: int, last: int) -> InFlightRun:
        """Add a run of records that a member acquires for the first time."""
        in_flight_run = InFlightRun(first, last)
        in_flight_run.shared_delivery = DeliveryState(
            RecordState.ACQUIRED, 1, member_id, self._create_lock(in_flight_run)
        )
        self._in_flight_runs.insert(self._find_run(first) + 1, in_flight_run)
        if self._in_flight_runs[0] is in_flight_run:
            self.start = first
        self.end = max(self.end, last + 1)
        return in_flight_run

    def _acquire_again(
        self,
        fetch: ShareFetch,
        in_flight_run: InFlightRun,
        first: int,
        last: int,
        max_records: int,
        *,
        is_throttled: bool,
    ) -> list[AcquiredRun]:
        """Acquire the available records of a run: the whole run at once, or its records in the fetched range."""
        is_whole = in_flight_run.is_within(first, last) and not is_throttled
        if fetch.record_limit and in_flight_run.last - in_flight_run.first + 1 > max_records:
            is_whole = False
        if in_flight_run.shared_delivery is not None:
            if in_flight_run.shared_delivery.state is not RecordState.AVAILABLE:
                return []
            if is_whole:
                in_flight_run.shared_delivery.acquire(fetch.member_id, self._create_lock(in_flight_run))
                return [AcquiredRun(in_flight_run.first, in_flight_run.last, in_flight_run.shared_delivery.count)]
            in_flight_run.separate_records()
        acquired_records = list(self._acquire_records(fetch, in_flight_run, first, last, max_records))
        return [AcquiredRun(*run) for run in merge_runs((offset, offset, count) for offset, count in acquired_records)]

    def _acquire_records(
        self, fetch: ShareFetch, in_flight_run: InFlightRun, first: int, last: int, max_records: int
    ) -> Iterator[tuple[int, int]]:
        """Acquire available records of a split run. Yield the records' offsets and delivery counts."""
        limits, lock, acquired_count, quota = self.limits, self._create_lock(in_flight_run), 0, 0
        for offset, delivery in in_flight_run.iterate_deliveries(first, last):
            if delivery.state is not RecordState.AVAILABLE:
                continue
            is_last_time = (
                limits.max_deliveries > _MIN_THROTTLED_DELIVERIES and delivery.count == limits.max_deliveries - 1
            )
            if is_last_time and acquired_count:
                return
            if delivery.count >= limits.min_throttled_deliveries and not quota:
                quota = max(
                    1, len(in_flight_run.deliveries_by_offset) >> (delivery.count - limits.min_throttled_deliveries + 1)
                )
            delivery.acquire(fetch.member_id, lock)
            acquired_count += 1
            yield offset, delivery.count
            if is_last_time or acquired_count == quota or (fetch.record_limit and acquired_count == max_records):
                return

    def _is_throttled(self, in_flight_run: InFlightRun, first: int, last: int) -> bool:
        """Return whether an available record of a run has so many deliveries that smaller runs are acquired."""
        counts = [
            delivery.count
            for begin, end, delivery in in_flight_run.iterate_runs()
            if delivery.state is RecordState.AVAILABLE
            and (in_flight_run.shared_delivery is not None or (begin >= first and end <= last))
        ]
        return max(counts, default=0) >= self.limits.min_throttled_deliveries

    def archive_acquired_records(self, spans: Iterable[OffsetRange]) -> None:
        """Archive acquired records of aborted transactions, which consumers must not read."""
        for span in spans:
            self._archive_records(span.first, span.last, RecordState.ACQUIRED)

    def _archive_lost_records(self, fetch_offset: int, first: int) -> None:
        """Archive available records that the log no longer has, between the fetch offset and the first batch."""
        if fetch_offset < first:
            self._archive_records(fetch_offset, first - 1, RecordState.AVAILABLE)

    def _archive_records(self, first: int, last: int, state: RecordState) -> None:
        for in_flight_run in self._find_runs_between(first, last):
            if not in_flight_run.is_within(first, last):
                in_flight_run.separate_records()
            for begin, end, delivery in in_flight_run.iterate_runs():
                if delivery.state is state and first <= begin and end <= last:
                    delivery.archive()

    def acknowledge_records(self, member_id: str, batches: Iterable[AcknowledgedRun]) -> None:
        """Apply all of a member's acknowledgements of records that it has acquired; if one is invalid, apply none."""
        changes: list[tuple[DeliveryState, int]] = []
        for batch in batches:
            if batch.last >= self.start:
                changes += self._match_acknowledgements(member_id, batch)
        if len({id(delivery) for delivery, _ in changes}) < len(changes):
            raise RefusedError(ErrorCode.INVALID_RECORD_STATE, "A record is acknowledged twice.")
        if not self.limits.may_renew and any(acknowledgement_type == RENEW for _, acknowledgement_type in changes):
            raise RefusedError(ErrorCode.INVALID_RECORD_STATE, "Locks are not renewed in this group.")
        lock = (
            self._create_lock(*self._in_flight_runs)
            if any(acknowledgement_type == RENEW for _, acknowledgement_type in changes)
            else None
        )
        for delivery, acknowledgement_type in changes:
            if acknowledgement_type == RENEW:
                delivery.lock = lock
            else:
                self._end_delivery(delivery, _STATE_BY_ACKNOWLEDGEMENT[acknowledgement_type])
        if any(acknowledgement_type != RENEW for _, acknowledgement_type in changes):
            self._store_state()

    def _match_acknowledgements(self, member_id: str, batch: AcknowledgedRun) -> Iterator[tuple[DeliveryState, int]]:
        """Yield the acknowledged deliveries, each with its acknowledgement type."""
        in_flight_runs = self._find_runs_between(batch.first, batch.last)
        if self._find_run(batch.first) < 0 and batch.first >= self.start:
            raise RefusedError(ErrorCode.INVALID_RECORD_STATE, "The records were not acquired.")
        if not in_flight_runs or in_flight_runs[-1].last < batch.last:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "The last record was not acquired.")
        for in_flight_run in in_flight_runs:
            if in_flight_run.last >= self.start:
                yield from self._match_run(member_id, batch, in_flight_run)

    def _match_run(
        self, member_id: str, batch: AcknowledgedRun, in_flight_run: InFlightRun
    ) -> Iterator[tuple[DeliveryState, int]]:
        """Yield the deliveries of a run that a member acknowledges, each with its acknowledgement type."""
        is_whole = in_flight_run.is_within(max(batch.first, self.start), batch.last) and len(batch.types) == 1
        if in_flight_run.shared_delivery is not None:
            _check_acquired(in_flight_run.shared_delivery, member_id)
            if is_whole:
                yield in_flight_run.shared_delivery, batch.types[0]
                return
            in_flight_run.separate_records()
        for offset, delivery in in_flight_run.iterate_deliveries(max(batch.first, self.start), batch.last):
            _check_acquired(delivery, member_id)
            yield delivery, batch.types[offset - batch.first if len(batch.types) > 1 else 0]

    def _end_delivery(self, delivery: DeliveryState, state: RecordState, *, is_below_start: bool = False) -> None:
        """End a delivery. A record that may not be delivered again is archived instead of becoming available."""
        is_free = state is RecordState.AVAILABLE
        if is_free and (is_below_start or delivery.count >= self.limits.max_deliveries):
            state = RecordState.ARCHIVED
        delivery.end_delivery(state)

    def _create_lock(self, *in_flight_runs: InFlightRun) -> object:
        """Return a new lock for records of the given runs.

        When the lock expires, records that still have this lock are released.
        """
        lock = object()
        self.clock.call_later(
            self.limits.lock_ms, lambda: self._release_records(in_flight_runs, lambda row: row.lock is lock)
        )
        return lock

    def release_all(self, member_id: str) -> None:
        """Release all records of a member at the end of its session; their deliveries still count."""
        self._release_records(self._in_flight_runs, lambda row: row.member_id == member_id)

    def _release_records(self, in_flight_runs: Iterable[InFlightRun], matches: Callable[[DeliveryState], bool]) -> None:
        """Release the acquired records whose delivery matches a condition."""
        is_changed = False
        for in_flight_run in in_flight_runs:
            if (
                in_flight_run.shared_delivery is not None
                and matches(in_flight_run.shared_delivery)
                and in_flight_run.first < self.start <= in_flight_run.last
            ):
                in_flight_run.separate_records()
            for _, last, delivery in in_flight_run.iterate_runs():
                if delivery.state is RecordState.ACQUIRED and matches(delivery):
                    self._end_delivery(delivery, RecordState.AVAILABLE, is_below_start=last < self.start)
                    is_changed = True
        if is_changed:
            self._store_state()

    def move_start(self, offset: int) -> None:
        """Archive the records below ``offset``, which the log no longer has."""
        if offset > self.start:
            self._archive_records(self.start, offset - 1, RecordState.AVAILABLE)
            self.start, self.end = offset, max(self.end, offset)

    def _store_state(self) -> None:
        self.store_state()
        self._advance_start()
        self.on_release()

    def _advance_start(self) -> None:
        """Move the start to the first unfinished record. Kafka stores the new start with the next change."""
        while self._in_flight_runs:
            in_flight_run = self._in_flight_runs[0]
            first_unfinished = next(
                (first for first, _, delivery in in_flight_run.iterate_runs() if delivery.state not in FINISHED_STATES),
                None,
            )
            if first_unfinished is not None:
                self.start = max(self.start, first_unfinished)
                return
            self.start = max(self.start, in_flight_run.last + 1)
            del self._in_flight_runs[0]
        self.end = max(self.end, self.start)

    def build_batches(self) -> list[StateBatch]:
        """Return the batches of the stored state."""
        runs = (
            (max(first, self.start), last, delivery.stored_state)
            for in_flight_run in self._in_flight_runs
            for first, last, delivery in in_flight_run.iterate_runs()
            if last >= self.start and delivery.stored_state != (RecordState.AVAILABLE, 0)
        )
        return [StateBatch(first, last, int(state), count) for first, last, (state, count) in merge_runs(runs)]

    def restore_batches(self, batches: Iterable[StateBatch]) -> None:
        """Restore the stored state. Records between the stored batches were acquired but not acknowledged."""
        for batch in sorted(batches):
            if batch.first > self.end:
                self._in_flight_runs.append(InFlightRun(self.end, batch.first - 1))
            first = max(batch.first, self.end)
            if batch.last >= first:
                state = DeliveryState(RecordState(batch.state), batch.deliveries)
                state.end_delivery(state.state)
                self._in_flight_runs.append(InFlightRun(first, batch.last, state))
                self.end = batch.last + 1
        self._advance_start()


def _check_acquired(delivery: DeliveryState, member_id: str) -> None:
    """Raise INVALID_RECORD_STATE unless the member has acquired the record."""
    if delivery.state is not RecordState.ACQUIRED:
        raise RefusedError(ErrorCode.INVALID_RECORD_STATE, "The record is not acquired.")
    if delivery.member_id != member_id:
        raise RefusedError(ErrorCode.INVALID_RECORD_STATE, "Another member has acquired the record.")


def _divide_run(batches: Sequence[OffsetRange], first: int, last: int, batch_size: int) -> Iterator[OffsetRange]:
    """Split a run at the starts of log batches, once a part has at least ``batch_size`` records."""
    if last - first + 1 > batch_size:
        for batch in batches:
            if batch.first <= last and batch.first - first >= batch_size:
                yield OffsetRange(first, batch.first - 1)
                first = batch.first
    yield OffsetRange(first, last)
