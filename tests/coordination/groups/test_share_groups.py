"""Share groups (KIP-932): members, acquired and released records, locks, stored state."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.coordination.groups.support import GROUP_SETTINGS, GroupBench

from kafkaframes.coordination.groups.consumer_protocol import HeartbeatResult
from kafkaframes.coordination.groups.records import share_records
from kafkaframes.coordination.groups.share import assign_share_partitions
from kafkaframes.coordination.groups.share_protocol import ShareHeartbeatRequest
from kafkaframes.errors import ErrorCode, RefusedError


@pytest.fixture
def bench():
    bench = GroupBench()
    bench.topics.add("orders", 2)
    return bench


def send_heartbeat(bench: GroupBench, name: str = "m", epoch: int = 0, **changes: Any) -> HeartbeatResult:
    fields: dict[str, Any] = {} if epoch else {"topics": ["orders"]}
    return bench.coordinator.handle_share_heartbeat(ShareHeartbeatRequest("g", name, epoch, **fields | changes))


def error_code_of(call: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **options)
    return caught.value.code


def two_partitions():
    return {(UUID(int=1), 0), (UUID(int=1), 1)}


def test_members_join_share_and_leave(bench):
    assert (send_heartbeat(bench).epoch, send_heartbeat(bench, epoch=2)) == (
        2,
        HeartbeatResult("m", 3, 5_000, frozenset(two_partitions())),
    )
    assert send_heartbeat(bench, "n").epoch == 4
    assert send_heartbeat(bench, "o").epoch == 5  # more members than partitions: some partitions have several members
    shares = [send_heartbeat(bench, name, bench.group().members[name].epoch) for name in "mno"]
    assert all(len(bench.group().members[share.member_id].assignment) == 1 for share in shares)
    assert send_heartbeat(bench, "n", -1) == HeartbeatResult("n", -1)
    assert (bench.group().state_name, bench.group().type) == ("Stable", "share")
    bench.restart()
    assert sorted(bench.group().members) == ["m", "o"]
    bench.clock.advance(46)
    assert bench.group().state_name == "Empty"
    bench.coordinator.delete_group("g")
    bench.restart()
    assert bench.coordinator.groups == {}


def test_topic_changes_do_not_bump_the_epoch_within_the_assignment_interval(bench, monkeypatch):
    """As in Kafka 4.3.1's ShareGroupHeartbeatRequestTest.testPartitionAssignmentWithChangingTopics, the epoch is 5
    instead of 6.
    """
    monkeypatch.setitem(GROUP_SETTINGS, "share.assignment.interval.ms", 1_000)
    bench.topics.add("items", 1)
    epoch = send_heartbeat(bench, topics=["orders", "items"]).epoch
    bench.clock.advance(1)
    heartbeat = send_heartbeat(bench, epoch=epoch)
    items = {(UUID(int=2), 0)}
    assert heartbeat.assignment == two_partitions() | items
    del bench.topics.topics_by_name["orders"]
    answer = send_heartbeat(bench, epoch=heartbeat.epoch)
    assert (answer.epoch, answer.assignment) == (heartbeat.epoch, items)
    assert send_heartbeat(bench, epoch=heartbeat.epoch) == answer._replace(assignment=None)
    bench.restart()
    assert bench.group().members["m"].assignment == items
    bench.clock.advance(1)
    assert send_heartbeat(bench, epoch=heartbeat.epoch).epoch == heartbeat.epoch + 1
    fewer = send_heartbeat(bench, epoch=heartbeat.epoch + 1, topics=["orders"])
    assert (fewer.epoch, fewer.assignment) == (heartbeat.epoch + 1, frozenset())


def test_a_member_without_a_stored_assignment_owns_nothing(bench):
    send_heartbeat(bench)
    send_heartbeat(bench, epoch=2)
    assert bench.group().members["m"].assignment
    current = share_records.build_member_tombstones("g", "m")[:1]
    bench.coordinator.write("g", current)
    bench.restart()
    member = bench.group().members["m"]
    assert (member.topics, member.epoch, member.assignment) == (("orders",), 0, frozenset())


def test_invalid_heartbeats_are_rejected(bench):
    assert error_code_of(send_heartbeat, bench, "m", 1) == ErrorCode.GROUP_ID_NOT_FOUND
    for changes in ({"topics": None}, {"rack_id": ""}):
        assert error_code_of(send_heartbeat, bench, **changes) == ErrorCode.INVALID_REQUEST
    assert error_code_of(send_heartbeat, bench, "") == ErrorCode.INVALID_REQUEST
    assert error_code_of(send_heartbeat, bench, "m", -2) == ErrorCode.INVALID_REQUEST
    send_heartbeat(bench)
    assert error_code_of(send_heartbeat, bench, "m", 9) == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_code_of(send_heartbeat, bench, "n", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert error_code_of(bench.coordinator.delete_group, "g") == ErrorCode.NON_EMPTY_GROUP


@given(st.lists(st.frozensets(st.sampled_from([UUID(int=1), UUID(int=2)]), min_size=1), min_size=1, max_size=6))
def test_each_partition_has_a_member_and_each_member_a_partition(subscriptions):
    members = {f"m{number}": topics for number, topics in enumerate(subscriptions)}
    partitions = {UUID(int=1): [0, 1, 2], UUID(int=2): [1, 4]}
    assignment = assign_share_partitions(members, partitions)
    assert all(assignment.values())
    subscribed_partitions = {
        (topic, index) for topics in subscriptions for topic in topics for index in partitions[topic]
    }
    assert set().union(*assignment.values()) == subscribed_partitions
    assert all(
        one[0] in members[name] for name, assigned_partitions in assignment.items() for one in assigned_partitions
    )
