"""Share groups (KIP-932): members, records given out and taken back, locks, stored state."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coordination.groups.support import Bench, ListLog, frozen_clock

from kafkaframes.coordination.groups.consumer_protocol import Beaten
from kafkaframes.coordination.groups.share import assign
from kafkaframes.coordination.groups.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    SharePartition,
)
from kafkaframes.coordination.groups.share_protocol import ShareBeat
from kafkaframes.coordination.groups.share_state import ShareKey, ShareStates
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode

KEY = ShareKey("g", UUID(int=1), 0)


@pytest.fixture
def bench():
    made = Bench()
    made.topics.add("orders", 2)
    return made


def beat(bench: Bench, name: str = "m", epoch: int = 0, **changes: Any) -> Beaten:
    fields: dict[str, Any] = {} if epoch else {"topics": ["orders"]}
    return bench.coordinator.share_heartbeat(ShareBeat("g", name, epoch, **fields | changes))


def code_of(call: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_members_join_share_and_leave(bench):
    assert (beat(bench).epoch, len(beat(bench, epoch=2).assignment or ())) == (2, 0)
    assert beat(bench, "n").epoch == 3
    assert beat(bench, "o").epoch == 4  # more members than partitions: some share
    shares = [beat(bench, name, bench.group().members[name].epoch) for name in "mno"]
    assert all(len(bench.group().members[one.member_id].assigned) == 1 for one in shares)
    assert beat(bench, "n", -1) == Beaten("n", -1)
    assert (bench.group().state_name, bench.group().type) == ("Stable", "share")
    bench.restart()
    assert sorted(bench.group().members) == ["m", "o"]
    bench.clock.advance(46)
    assert bench.group().state_name == "Empty"
    bench.coordinator.delete_group("g")
    bench.restart()
    assert bench.coordinator.groups == {}


def test_wrong_heartbeats_are_refused(bench):
    assert code_of(beat, bench, "m", 1) == ErrorCode.GROUP_ID_NOT_FOUND
    for changes in ({"topics": None}, {"rack_id": ""}):
        assert code_of(beat, bench, **changes) == ErrorCode.INVALID_REQUEST
    assert code_of(beat, bench, "") == ErrorCode.INVALID_REQUEST
    assert code_of(beat, bench, "m", -2) == ErrorCode.INVALID_REQUEST
    beat(bench)
    assert code_of(beat, bench, "m", 9) == ErrorCode.FENCED_MEMBER_EPOCH
    assert code_of(beat, bench, "n", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(bench.coordinator.delete_group, "g") == ErrorCode.NON_EMPTY_GROUP


@given(st.lists(st.frozensets(st.sampled_from([UUID(int=1), UUID(int=2)]), min_size=1), min_size=1, max_size=6))
def test_every_partition_has_a_reader_and_every_reader_a_partition(subscriptions):
    members = {f"m{number}": topics for number, topics in enumerate(subscriptions)}
    counts = {UUID(int=1): 3, UUID(int=2): 2}
    found = assign(members, counts)
    assert all(found.values())
    wanted = {(topic, index) for topics in subscriptions for topic in topics for index in range(counts[topic])}
    assert set().union(*found.values()) == wanted
    assert all(one[0] in members[name] for name, mine in found.items() for one in mine)


# ------------------------------------------------------------------------------------------------------ records


@pytest.fixture
def shared():
    made = SharePartition(frozen_clock(), 10, lambda: None)
    assert made.acquire("m", range(10, 15), 100) == [(10, 14, 1)]
    return made


def test_a_record_is_given_to_one_member_at_a_time(shared):
    assert shared.acquire("n", range(10, 17), 100) == [(15, 16, 1)]
    assert shared.next_fetch_offset == 17
    assert shared.acquire("n", range(17, 30), 2) == [(17, 18, 1)]
    assert shared.next_fetch_offset == 19


def test_what_is_accepted_is_done_and_the_start_follows(shared):
    shared.acknowledge("m", 11, 11, [ACCEPT])
    assert (shared.start, shared.done_ahead) == (10, 1)
    shared.acknowledge("m", 10, 10, [GAP])
    assert (shared.start, shared.done_ahead) == (12, 0)
    shared.acknowledge("m", 12, 14, [RELEASE, REJECT, ACCEPT])
    assert (shared.start, shared.next_fetch_offset) == (12, 12)
    assert shared.acquire("n", range(12, 15), 100) == [(12, 12, 2)]
    shared.acknowledge("n", 12, 12, [ACCEPT])
    assert shared.start == 15


def test_words_for_what_one_does_not_have_are_refused_whole(shared):
    for member, first, last, types in (("n", 10, 10, [1]), ("m", 9, 10, [1]), ("m", 14, 15, [1])):
        assert code_of(shared.acknowledge, member, first, last, types) == ErrorCode.INVALID_RECORD_STATE
    for first, last, types in ((10, 9, [1]), (10, 12, [1, 1]), (10, 10, [7]), (10, 10, []), (0, 2**60, [1])):
        assert code_of(shared.acknowledge, "m", first, last, types) == ErrorCode.INVALID_REQUEST
    assert shared.start == 10
    shared.acknowledge("m", 10, 14, [ACCEPT])
    assert code_of(shared.acknowledge, "m", 10, 14, [ACCEPT]) == ErrorCode.INVALID_RECORD_STATE


def test_a_lock_times_out_and_can_be_renewed(shared):
    shared.clock.advance(20)
    shared.acknowledge("m", 14, 14, [RENEW])
    shared.clock.advance(11)
    assert shared.acquire("n", range(10, 15), 100) == [(10, 13, 2)]
    shared.clock.advance(20)
    assert shared.acquire("o", range(10, 15), 100) == [(14, 14, 2)]


def test_a_record_that_comes_back_too_often_is_put_away(shared):
    for _ in range(5):
        shared.clock.advance(31)
        shared.acquire("m", range(10, 15), 100)
    shared.clock.advance(31)
    assert shared.start == 15


def test_a_session_that_ends_gives_back_as_if_nothing_was_delivered(shared):
    shared.release_all("m")
    assert shared.acquire("n", range(10, 15), 100) == [(10, 14, 1)]


def test_so_many_records_are_out_and_no_more():
    shared = SharePartition(frozen_clock(), 0, lambda: None, most_in_flight=10)
    assert shared.acquire("m", range(100), 50) == [(0, 9, 1)]
    assert shared.is_full
    shared.acknowledge("m", 0, 4, [ACCEPT])
    assert not shared.is_full
    assert shared.acquire("m", range(10, 100), 50) == [(10, 14, 1)]


def test_what_has_no_record_is_skipped_and_what_the_log_lost_is_too(shared):
    shared.skip(range(15, 17))
    assert shared.next_fetch_offset == 17
    shared.acknowledge("m", 10, 14, [ACCEPT])
    assert shared.start == 17
    shared.move_start(30)
    assert (shared.start, shared.end, shared.next_fetch_offset) == (30, 30, 30)


def test_the_state_is_there_after_a_restart():
    log, clock = ListLog(), frozen_clock()
    states = ShareStates(clock, log, lambda one: one.hex, lambda key: None)
    shared = states.open(KEY, lambda: 5)
    shared.acquire("m", range(5, 12), 100)
    shared.acknowledge("m", 5, 6, [ACCEPT])
    shared.acknowledge("m", 8, 9, [ACCEPT])
    shared.acknowledge("m", 10, 10, [RELEASE])
    again = ShareStates(clock, log, lambda one: one.hex, lambda key: None)
    again.load(log.rows)
    assert again.start_of(KEY) == 7
    found = again.open(KEY, lambda: 99)
    assert (found.start, found.end, found.done_ahead) == (7, 12, 2)
    assert found.acquire("n", range(7, 12), 100) == [(7, 7, 2), (10, 11, 2)]
    again.reset(KEY, 50)
    assert again.open(KEY, lambda: 99).start == 50
    again.forget(KEY)
    last = ShareStates(clock, log, lambda one: one.hex, lambda key: None)
    last.load([*log.rows, log.rows[0]._replace(key=b"\x00\x63")])
    assert (last.start_of(KEY), last.unread) == (-1, 1)
