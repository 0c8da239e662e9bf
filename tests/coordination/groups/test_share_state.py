"""The stored state of share partitions survives a restart, and later records override earlier ones."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.coordination.groups.support import ListLog, frozen_clock

from kafkaframes.coordination.groups.share_in_flight import StateBatch
from kafkaframes.coordination.groups.share_partition import ACCEPT, RELEASE, AcknowledgedRun, OffsetRange, ShareFetch
from kafkaframes.coordination.groups.share_state import ShareKey, ShareStates, _overlay_batch
from kafkaframes.errors import RefusedError

SHARE_KEY = ShareKey("g", UUID(int=1), 0)


def states(log: ListLog) -> ShareStates:
    states = ShareStates(frozen_clock(), log, lambda key: None)
    states.load_states(list(log.rows))
    return states


def test_the_state_survives_a_restart():
    log = ListLog()
    first = states(log)
    with pytest.raises(RefusedError, match="does not read"):
        first.open_partition(SHARE_KEY, lambda: 5)
    first.initialize_state(SHARE_KEY, 3)
    assert states(log).stored_states[SHARE_KEY] == (-1, (), -1, 0, 3)
    shared_partition = first.open_partition(SHARE_KEY, lambda: 5)
    shared_partition.acquire(ShareFetch("m", 5, 100), [OffsetRange(5, 11)])
    assert first.stored_states[SHARE_KEY].start == -1  # nothing was acknowledged
    shared_partition.acknowledge_records("m", [AcknowledgedRun(5, 6, [ACCEPT]), AcknowledgedRun(8, 9, [ACCEPT])])
    assert states(log).stored_states[SHARE_KEY][:3] == (5, (StateBatch(5, 6, 2, 1), StateBatch(8, 9, 2, 1)), 4)
    shared_partition.acknowledge_records("m", [AcknowledgedRun(10, 10, [RELEASE])])
    again = states(log)
    recovered_partition = again.open_partition(SHARE_KEY, lambda: 99)
    assert (recovered_partition.start, recovered_partition.end, recovered_partition.finished_count) == (7, 11, 2)
    assert recovered_partition.acquire(ShareFetch("n", 7, 100), [OffsetRange(7, 11)]) == [
        (7, 7, 1),
        (10, 10, 2),
        (11, 11, 1),
    ]
    again.reset_offset(SHARE_KEY, 50, 4)
    assert again.open_partition(SHARE_KEY, lambda: 99).start == 50
    again.delete_state(SHARE_KEY)
    last = states(ListLog(rows=[*log.rows, log.rows[0]._replace(key=b"\x00\x63")]))
    assert (last.stored_states, last.undecodable_count) == ({}, 1)


def test_later_stored_batches_override_earlier_overlapping_ones():
    old = (StateBatch(0, 9, 0, 1), StateBatch(10, 19, 0, 2))
    new = StateBatch(5, 12, 2, 3)
    assert _overlay_batch(old, new) == (StateBatch(0, 4, 0, 1), new, StateBatch(13, 19, 0, 2))
    assert _overlay_batch((StateBatch(0, 9, 0, 1),), StateBatch(3, 4, 2, 1)) == (
        StateBatch(0, 2, 0, 1),
        StateBatch(3, 4, 2, 1),
        StateBatch(5, 9, 0, 1),
    )
