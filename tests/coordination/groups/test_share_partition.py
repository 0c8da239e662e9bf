"""A share partition's state: acquired, acknowledged and released records, as in Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordination.groups.support import frozen_clock

from kafkaframes.coordination.groups.share_in_flight import StateBatch
from kafkaframes.coordination.groups.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgedRun,
    OffsetRange,
    ShareFetch,
    ShareLimits,
    SharePartition,
)
from kafkaframes.errors import ErrorCode, RefusedError


def partition(start: int = 0, **limits: Any) -> SharePartition:
    return SharePartition(frozen_clock(), start, lambda: None, limits=ShareLimits(**limits))


def acquire(
    acquired_partition: SharePartition, member: str, *batches: tuple[int, int], max_records: int = 100, **changes: Any
) -> Any:
    fetch = ShareFetch(member, acquired_partition.next_fetch_offset, max_records, **changes)
    return acquired_partition.acquire(fetch, [OffsetRange(*batch) for batch in batches])


def acknowledge(acquired_partition: SharePartition, member: str, first: int, last: int, *types: int) -> None:
    acquired_partition.acknowledge_records(member, [AcknowledgedRun(first, last, types)])


def acknowledgement_error(acquired_partition: SharePartition, member: str, *batches: AcknowledgedRun) -> int:
    with pytest.raises(RefusedError) as caught:
        acquired_partition.acknowledge_records(member, batches)
    return caught.value.code


@pytest.fixture
def acquired_partition():
    shared_partition = partition(10)
    assert acquire(shared_partition, "m", (10, 14)) == [(10, 14, 1)]
    return shared_partition


def test_whole_batches_are_acquired_beyond_the_record_limit():
    shared_partition = partition()
    assert acquire(shared_partition, "m", (0, 9), (10, 19), max_records=4) == [(0, 9, 1)]
    assert acquire(shared_partition, "m", (10, 19), (20, 29), (30, 39), max_records=15) == [(10, 29, 1)]
    assert acquire(shared_partition, "m", (30, 39), (40, 49), batch_size=10) == [(30, 39, 1), (40, 49, 1)]


def test_record_limit_mode_splits_a_batch():
    shared_partition = partition()
    assert acquire(shared_partition, "m", (0, 9), max_records=4, record_limit=True) == [(0, 3, 1)]
    assert (shared_partition.next_fetch_offset, shared_partition.end) == (4, 10)
    assert acquire(shared_partition, "n", (0, 9), max_records=4, record_limit=True) == [(4, 7, 1)]
    assert acquire(shared_partition, "o", (0, 9), (10, 19), max_records=4, record_limit=True) == [
        (8, 9, 1),
        (10, 11, 1),
    ]


def test_a_record_is_acquired_by_one_member_at_a_time(acquired_partition):
    assert acquire(acquired_partition, "n", (10, 14), (15, 16)) == [(15, 16, 1)]
    assert acquire(acquired_partition, "n", (10, 14)) == []
    assert acquired_partition.next_fetch_offset == 17


def test_accepted_records_advance_the_start_offset(acquired_partition):
    acknowledge(acquired_partition, "m", 11, 11, ACCEPT)
    assert (acquired_partition.start, acquired_partition.finished_count) == (10, 1)
    acknowledge(acquired_partition, "m", 10, 10, GAP)
    assert (acquired_partition.start, acquired_partition.finished_count) == (12, 0)
    acknowledge(acquired_partition, "m", 12, 14, RELEASE, REJECT, ACCEPT)
    assert (acquired_partition.start, acquired_partition.next_fetch_offset) == (12, 12)
    assert acquire(acquired_partition, "n", (10, 14)) == [(12, 12, 2)]
    acknowledge(acquired_partition, "n", 12, 12, ACCEPT)
    assert (acquired_partition.start, acquired_partition.end) == (15, 15)


def test_acknowledgements_of_records_that_are_not_acquired_are_rejected(acquired_partition):
    wrong, early = ErrorCode.INVALID_RECORD_STATE, AcknowledgedRun(10, 11, [ACCEPT])
    assert acknowledgement_error(acquired_partition, "n", early) == wrong
    # the same record twice
    assert acknowledgement_error(acquired_partition, "m", early, AcknowledgedRun(11, 12, [ACCEPT])) == wrong
    assert (
        acknowledgement_error(acquired_partition, "m", early, AcknowledgedRun(14, 15, [ACCEPT]))
        == ErrorCode.INVALID_REQUEST
    )
    assert (
        acknowledgement_error(acquired_partition, "m", AcknowledgedRun(20, 25, [ACCEPT])) == ErrorCode.INVALID_REQUEST
    )
    assert (acquired_partition.start, acquired_partition.finished_count) == (10, 0)
    acknowledge(acquired_partition, "m", 10, 14, ACCEPT)
    acknowledge(acquired_partition, "m", 10, 14, ACCEPT)  # all of these offsets are below the start offset
    assert acknowledgement_error(acquired_partition, "m", AcknowledgedRun(15, 15, [ACCEPT])) == wrong


def test_a_lock_times_out_and_can_be_renewed(acquired_partition):
    acquired_partition.clock.advance(20)
    acknowledge(acquired_partition, "m", 14, 14, RENEW)
    acquired_partition.clock.advance(11)
    assert acquire(acquired_partition, "n", (10, 14)) == [(10, 13, 2)]
    acquired_partition.clock.advance(20)
    assert acquire(acquired_partition, "o", (10, 14)) == [(14, 14, 2)]
    acquired_partition.limits = ShareLimits(may_renew=False)
    assert (
        acknowledgement_error(acquired_partition, "o", AcknowledgedRun(14, 14, [RENEW]))
        == ErrorCode.INVALID_RECORD_STATE
    )


def test_records_with_many_deliveries_are_acquired_in_smaller_groups_and_finally_alone():
    shared_partition = partition(max_deliveries=5)
    deliveries = []
    for _ in range(5):
        deliveries.append(acquire(shared_partition, "m", (0, 7), (8, 15)))
        shared_partition.clock.advance(31)
    # After three deliveries only half of a batch is acquired, and nothing after it.
    assert deliveries == [[(0, 15, 1)], [(0, 15, 2)], [(0, 15, 3)], [(0, 7, 4)], [(0, 0, 5)]]
    assert shared_partition.start == 1  # the last delivery
    assert acquire(shared_partition, "m", (0, 7), (8, 15)) == [(1, 1, 5)]


def test_the_end_of_a_session_releases_records_and_counts_their_delivery(acquired_partition):
    acquired_partition.release_all("n")
    assert acquire(acquired_partition, "n", (10, 14)) == []
    acquired_partition.release_all("m")
    assert acquire(acquired_partition, "n", (10, 14)) == [(10, 14, 2)]


def test_the_number_of_acquired_records_is_limited():
    shared_partition = partition(max_in_flight=10)
    assert acquire(shared_partition, "m", (0, 4), (5, 14)) == [(0, 14, 1)]  # a whole batch
    assert not shared_partition.may_acquire
    acknowledge(shared_partition, "m", 3, 4, RELEASE)
    assert shared_partition.may_acquire
    assert acquire(shared_partition, "n", (0, 4), (5, 14), (15, 20)) == [(3, 4, 2)]
    acknowledge(shared_partition, "m", 0, 2, ACCEPT)
    acknowledge(shared_partition, "n", 3, 4, ACCEPT)
    assert not shared_partition.may_acquire  # the offsets 5 to 14 are acquired
    acknowledge(shared_partition, "m", 5, 9, ACCEPT)
    assert acquire(shared_partition, "n", (15, 20), (21, 30)) == [(15, 20, 1)]


def test_aborted_and_missing_records_are_skipped(acquired_partition):
    assert acquire(acquired_partition, "n", (15, 19)) == [(15, 19, 1)]
    acquired_partition.archive_acquired_records([OffsetRange(16, 17)])
    acknowledge(acquired_partition, "m", 10, 14, ACCEPT)
    acknowledge(acquired_partition, "n", 15, 15, ACCEPT)
    assert acquired_partition.start == 18
    acquired_partition.move_start(30)
    assert (acquired_partition.start, acquired_partition.end, acquired_partition.next_fetch_offset) == (30, 30, 30)
    acknowledge(acquired_partition, "n", 18, 19, ACCEPT)  # the acknowledgement is too late, but not an error
    assert acquire(acquired_partition, "m", (30, 31)) == [(30, 31, 1)]


def test_acquired_records_are_available_after_a_restart(acquired_partition):
    acknowledge(acquired_partition, "m", 10, 12, ACCEPT, RELEASE, ACCEPT)
    assert acquired_partition.build_batches() == [(11, 11, 0, 1), (12, 12, 2, 1)]
    acquire(acquired_partition, "n", (10, 14))
    assert acquired_partition.build_batches() == [(11, 11, 0, 1), (12, 12, 2, 1)]
    again = partition(11)
    again.restore_batches([StateBatch(12, 12, 2, 1), StateBatch(15, 16, 0, 3), StateBatch(11, 11, 0, 1)])
    assert (again.start, again.end, again.next_fetch_offset) == (11, 17, 11)
    assert acquire(again, "o", (10, 14), (15, 16)) == [(11, 11, 2), (13, 14, 1)]
