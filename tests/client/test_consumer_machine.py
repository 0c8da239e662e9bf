"""The consumer's state machine without I/O: single cases, random schedules, and mutants that these find."""

import os
from uuid import UUID

import pytest
from tests.soak import consumer_mutants
from tests.soak.consumer_schedules import explore_range, settings_of

from kafkaframes.client.assignors import Member
from kafkaframes.client.consumer_machine import CallbackKind, ConsumerMachine
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    FetchMetadata,
    FetchRecords,
    JoinGroup,
    JoinGroupAnswer,
    ListOffsets,
    SyncGroup,
)
from kafkaframes.client.metadata import Broker, Cluster, PartitionMetadata, TopicMetadata, TopicPartition
from kafkaframes.client.offsets import OffsetAndTimestamp
from kafkaframes.client.positions import Ownership, Step
from kafkaframes.errors import ErrorCode, NetworkError

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
SCHEDULES = 160 if os.environ.get("KAFKAFRAMES_PROFILE", "quick") == "quick" else 4_000


def put_topic(cluster: Cluster, size: int, *, topic_id: int = 7, epoch: int = 0) -> None:
    partitions = {number: PartitionMetadata(number, 1, epoch, (), (), ErrorCode.NONE) for number in range(size)}
    cluster.topics["t"] = TopicMetadata("t", UUID(int=topic_id), False, partitions, ErrorCode.NONE)


def machine_of(kind: str, instance: str | None = None) -> ConsumerMachine:
    cluster = Cluster(brokers={1: Broker(1, "a", 1)})
    put_topic(cluster, 2)
    machine = ConsumerMachine(
        settings_of(kind, "earliest", instance), cluster, backoff_s=lambda _: 0.1, new_id=lambda: "me", now_ms=lambda: 0
    )
    machine.subscribe(["t"], None, 0.0)
    machine.polled(0.0)
    return machine


def answer(machine: ConsumerMachine, kind: type, value: object, now: float = 0.0) -> object:
    """Answer the request of a kind that is due; return the request."""
    (request,) = [one for one in machine.requests(now) if isinstance(one, kind)]
    machine.answered(request, value, now)
    return request


def join(machine: ConsumerMachine, partitions: list[TopicPartition], now: float = 0.0) -> None:
    answer(machine, JoinGroup, JoinGroupAnswer("me", 1, "cooperative-sticky"), now)
    answer(machine, SyncGroup, partitions, now)


def take_over(machine: ConsumerMachine, now: float = 0.0) -> None:
    for state in machine.positions.states.values():
        if not state.has_offset:
            state.move(Step.FETCH, 0)
    callback = machine.next_callback()
    assert callback is not None
    assert callback.kind is CallbackKind.ASSIGN
    machine.callback_begun(callback)
    machine.callback_returned(callback, now)


@pytest.mark.parametrize("first", range(0, SCHEDULES, 40))
def test_random_schedules_keep_the_laws(first):
    _, wrong = explore_range(first, 40)
    assert wrong == []


@pytest.mark.parametrize(
    "name",
    [
        "keeps an id that the coordinator does not know",
        "ignores its assignment",
        "a seek keeps buffered records",
        "sends no heartbeats",
        "a failed fetch keeps its node busy",
    ],
)
def test_schedules_find_a_broken_rule(name):
    assert consumer_mutants.first_wrong(name, 300) is not None


def test_every_mutant_fits_the_module():
    for name in consumer_mutants.MUTANTS:
        consumer_mutants.mutant(name)


def test_a_partition_that_is_given_up_while_the_member_joins_makes_it_join_again():
    """The JoinGroup has claimed it, so the leader gives it to no other member."""
    machine = machine_of("cooperative")
    join(machine, [ONE, TWO])
    take_over(machine)
    machine.set_target({ONE: UUID(int=0)})
    machine.member.subscription_changed(1.0)
    claim = next(one for one in machine.requests(1.0) if isinstance(one, JoinGroup))
    assert claim.owned == (ONE, TWO)
    callback = machine.next_callback()
    assert callback == (CallbackKind.REVOKE, (TWO,))
    machine.callback_begun(callback)
    machine.callback_returned(callback, 1.0)
    machine.answered(claim, JoinGroupAnswer("me", 2, "cooperative-sticky"), 1.0)
    again = next(one for one in machine.requests(1.0) if isinstance(one, JoinGroup))
    assert again.owned == (ONE,)


def test_partitions_that_a_join_does_not_claim_are_not_taken_over_meanwhile():
    """The leader may give them to another member at once."""
    machine = machine_of("cooperative")
    join(machine, [ONE, TWO])
    for state in machine.positions.states.values():
        state.move(Step.FETCH, 0)
    machine.member.subscription_changed(1.0)
    assert [one.owned for one in machine.requests(1.0) if isinstance(one, JoinGroup)] == [()]
    assert machine.next_callback() is None


def test_partitions_that_a_heartbeat_does_not_report_are_not_taken_over_meanwhile():
    """The coordinator may give them to another member at once. If its response is lost, a later one is needed."""
    machine = machine_of("consumer")
    topic_id = UUID(int=7)
    first = ConsumerHeartbeatAnswer("me", 1, 1.0, ((topic_id, (0, 1)),))
    answer(machine, ConsumerHeartbeat, first)
    for state in machine.positions.states.values():
        state.move(Step.FETCH, 0)
    (lost,) = [one for one in machine.requests(1.0) if isinstance(one, ConsumerHeartbeat)]
    machine.failed(lost, NetworkError("lost"), 1.0)
    (report,) = [one for one in machine.requests(2.0) if isinstance(one, ConsumerHeartbeat)]
    assert report.owned == ()
    assert machine.next_callback() is None
    machine.failed(report, NetworkError("lost"), 2.0)
    assert machine.next_callback() is None
    answer(machine, ConsumerHeartbeat, ConsumerHeartbeatAnswer("me", 2, 1.0, ((topic_id, (0,)),)), 3.0)
    assert machine.next_callback() == (CallbackKind.ASSIGN, (ONE,))


def test_an_eager_member_joins_only_when_on_revoke_has_returned():
    machine = machine_of("range")
    join(machine, [ONE, TWO])
    take_over(machine)
    machine.member.subscription_changed(1.0)
    assert not [one for one in machine.requests(1.0) if isinstance(one, JoinGroup)]
    callback = machine.next_callback()
    machine.callback_begun(callback)
    assert not [one for one in machine.requests(1.0) if isinstance(one, JoinGroup)]
    machine.callback_returned(callback, 1.0)
    assert [one.owned for one in machine.requests(1.0) if isinstance(one, JoinGroup)] == [()]


def test_a_static_leader_that_returns_looks_after_the_topics_without_assigning():
    """KIP-814: the coordinator keeps the assignment; a topic that grows makes the leader join again."""
    machine = machine_of("range", "a")
    members = {"me": Member(frozenset({"t"}))}
    request = next(one for one in machine.requests(0.0) if isinstance(one, JoinGroup))
    machine.answered(request, JoinGroupAnswer("me", 1, "range", members, skips_assignment=True), 0.0)
    answer(machine, FetchMetadata, None)
    assert answer(machine, SyncGroup, [ONE, TWO]).assignment == {}
    take_over(machine)
    put_topic(machine.cluster, 3)
    machine.metadata_updated(1.0)
    assert machine.next_callback() == (CallbackKind.REVOKE, (ONE, TWO))


@pytest.mark.parametrize(
    ("size", "others", "joins"),
    [(2, 0, False), (2, 1, False), (1, 1, True), (0, 1, True), (3, 0, True), (3, 1, False)],
)
def test_a_static_leader_that_returns_joins_again_if_its_assignment_is_outdated(size, others, joins):
    """Topics changed in its absence (KIP-814). What it cannot know is whether the others own the new partition."""
    machine = machine_of("default", "a")
    put_topic(machine.cluster, size)
    members = {name: Member(frozenset({"t"})) for name in ("me", "other")[: 1 + others]}
    request = next(one for one in machine.requests(0.0) if isinstance(one, JoinGroup))
    machine.answered(request, JoinGroupAnswer("me", 1, "cooperative-sticky", members, skips_assignment=True), 0.0)
    answer(machine, FetchMetadata, None)
    answer(machine, SyncGroup, [ONE, TWO])
    assert any(isinstance(one, JoinGroup) for one in machine.requests(1.0)) is joins


def test_a_topic_that_was_recreated_is_read_from_its_start():
    """The old offset may be in the new log, too; the new leader's epoch is lower than the old one's."""
    machine = machine_of("range")
    put_topic(machine.cluster, 2, epoch=5)
    join(machine, [ONE])
    take_over(machine)
    machine.positions.seek(ONE, 40)
    assert [one for one in machine.requests(1.0) if isinstance(one, FetchRecords)]
    put_topic(machine.cluster, 2, topic_id=8, epoch=0)
    answer(machine, ListOffsets, {ONE: OffsetAndTimestamp(0, -1, 0)}, 2.0)
    assert machine.positions.states[ONE].position == 0
    assert machine.positions.states[ONE].ownership is Ownership.OWNED
