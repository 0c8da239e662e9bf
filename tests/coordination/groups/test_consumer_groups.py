"""Consumer groups (KIP-848): joining, reconciling, leaving, static members, patterns, timeouts, restarts."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest
from tests.coordination.groups.support import GROUP_SETTINGS, GroupBench, NamedTopics

from kafkaframes.coordination.groups.commits import OffsetToCommit
from kafkaframes.coordination.groups.consumer import ConsumerMember
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatRequest, HeartbeatResult
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.coordination.groups.ports import GroupSettings, OffsetClient
from kafkaframes.errors import ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition

NO_PARTITIONS_OWNED = frozenset()


@pytest.fixture
def bench():
    bench = GroupBench()
    bench.topics.add("orders", 4)
    bench.topics.add("payments", 2)
    return bench


def beat(bench: GroupBench, member_id: str = "m", epoch: int = 0, **changes: Any) -> HeartbeatResult:
    fields: dict[str, Any] = {}
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "topics": ["orders"], "owned_partitions": NO_PARTITIONS_OWNED}
    return bench.coordinator.handle_consumer_heartbeat(HeartbeatRequest("g", member_id, epoch, **fields | changes))


def error_code_of(bench: GroupBench, *arguments: Any, **changes: Any) -> int:
    with pytest.raises(RefusedError) as caught:
        beat(bench, *arguments, **changes)
    return caught.value.code


def member(bench: GroupBench, name: str = "m") -> ConsumerMember:
    return bench.group().members[name]


def indexes(answer: HeartbeatResult) -> list[int] | None:
    return None if answer.assignment is None else sorted(index for _, index in answer.assignment)


def test_the_first_member_gets_all_partitions_at_once(bench):
    answer = beat(bench)
    assert (answer.member_id, answer.epoch, answer.interval_ms, indexes(answer)) == ("m", 2, 5_000, [0, 1, 2, 3])
    assert bench.group().state_name == "Stable"
    again = beat(bench, epoch=2)
    assert (again.epoch, again.assignment) == (2, None)


def test_topic_changes_do_not_bump_the_epoch_within_the_assignment_interval(bench, monkeypatch):
    """As in Kafka 4.3.1's CurrentAssignmentBuilder, the target assignment is older than the subscription and the
    topics.
    """
    monkeypatch.setitem(GROUP_SETTINGS, "consumer.assignment.interval.ms", 1_000)
    first = beat(bench, topics=["orders", "payments"])
    orders, payments = ({one for one in first.assignment if one[0] == UUID(int=number)} for number in (1, 2))
    fewer = beat(bench, epoch=first.epoch, topics=["orders"], owned_partitions=first.assignment)
    assert (fewer.epoch, fewer.assignment) == (first.epoch, orders)
    assert (member(bench).state, member(bench).revoking) == (MemberState.UNREVOKED_PARTITIONS, payments)
    beat(bench, epoch=first.epoch, owned_partitions=frozenset(orders))
    assert (member(bench).state, member(bench).assignment) == (MemberState.STABLE, orders)
    del bench.topics.topics_by_name["orders"]
    none = beat(bench, epoch=first.epoch, owned_partitions=NO_PARTITIONS_OWNED)
    assert (none.epoch, none.assignment, member(bench).state) == (first.epoch, NO_PARTITIONS_OWNED, MemberState.STABLE)
    bench.clock.advance(1)
    assert beat(bench, epoch=first.epoch, owned_partitions=NO_PARTITIONS_OWNED).epoch > first.epoch


def test_a_partition_moves_to_its_new_owner_after_its_revocation(bench):
    have = beat(bench).assignment
    second = beat(bench, "n")
    assert (second.epoch, indexes(second)) == (3, [])
    assert member(bench, "n").state is MemberState.UNRELEASED_PARTITIONS
    answer = beat(bench, epoch=2)
    assert (answer.epoch, len(answer.assignment)) == (2, 2)
    assert member(bench).state is MemberState.UNREVOKED_PARTITIONS
    assert beat(bench, "n", 3).assignment is None  # the partition is not revoked yet
    assert beat(bench, epoch=2, owned_partitions=have).assignment is None  # the heartbeat reports the revocation
    assert beat(bench, epoch=2).epoch == 2  # the heartbeat does not report partitions, so it confirms no revocation
    last_answer = beat(bench, epoch=2, owned_partitions=answer.assignment)
    assert last_answer.epoch == 3
    assignment = beat(bench, "n", 3)
    assert assignment.assignment == have - answer.assignment
    assert bench.group().state_name == "Stable"


def test_a_lost_response_is_repeated(bench):
    have = beat(bench).assignment
    beat(bench, "n")
    answer = beat(bench, epoch=2)
    assert beat(bench, epoch=2, owned_partitions=answer.assignment).epoch == 3
    # the member has not received the lost response
    assert beat(bench, epoch=2, owned_partitions=answer.assignment).epoch == 3
    assert error_code_of(bench, "m", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_code_of(bench, "m", 2, owned_partitions=have) == ErrorCode.FENCED_MEMBER_EPOCH
    assert error_code_of(bench, "m", 4) == ErrorCode.FENCED_MEMBER_EPOCH
    full = beat(bench, epoch=3, rebalance_timeout_ms=60_000, topics=["orders"], owned_partitions=answer.assignment)
    assert full.assignment == answer.assignment


def test_the_partitions_of_a_leaving_member_are_assigned_to_the_others(bench):
    beat(bench)
    beat(bench, "n")
    assert beat(bench, "n", -1) == HeartbeatResult("n", -1)
    answer = beat(bench, epoch=2)
    assert answer.epoch == 4
    assert beat(bench, "m", -1) == HeartbeatResult("m", -1)
    assert bench.group().state_name == "Empty"
    assert error_code_of(bench, "m", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_removed(bench):
    beat(bench)
    beat(bench, "n")
    for _ in range(3):
        bench.clock.advance(20)
        beat(bench, epoch=member(bench).epoch, owned_partitions=member(bench).assignment)
    assert list(bench.group().members) == ["m"]
    assert error_code_of(bench, "n", 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(member(bench).assignment) == 4


def test_a_member_that_does_not_revoke_in_time_is_removed(bench):
    have = beat(bench).assignment
    beat(bench, "n")
    for _ in range(3):
        beat(bench, epoch=2, owned_partitions=have)
        beat(bench, "n", 3)
        bench.clock.advance(20)
    assert list(bench.group().members) == ["n"]
    assert len(beat(bench, "n", 3).assignment) == 4


def test_a_changed_subscription_changes_the_assignment(bench):
    beat(bench)
    answer = beat(bench, epoch=2, topics=["orders", "payments"])
    assert (answer.epoch, len(answer.assignment)) == (3, 6)
    fewer = beat(bench, epoch=3, topics=["payments"])
    assert (fewer.epoch, len(fewer.assignment)) == (3, 2)  # first the member revokes the partitions of orders
    assert beat(bench, epoch=3, owned_partitions=fewer.assignment).epoch == 4


def test_new_topics_and_partitions_are_assigned_at_the_next_heartbeat(bench):
    beat(bench, topics=["orders", "later"])
    bench.topics.add("orders", 6)
    assert len(beat(bench, epoch=2).assignment) == 6
    bench.topics.add("later", 1)
    assert len(beat(bench, epoch=3).assignment) == 7
    del bench.topics.topics_by_name["orders"]
    assert len(beat(bench, epoch=4).assignment) == 1


def test_a_pattern_subscribes_to_all_matching_topics(bench):
    assert len(beat(bench, topics=None, regex="orders|pay.*").assignment) == 6
    bench.topics.add("pay-2", 3)
    assert len(beat(bench, epoch=2).assignment) == 9
    bench.restart()
    assert bench.group().regexes == {"orders|pay.*": {"orders", "payments", "pay-2"}}
    assert error_code_of(bench, "n", topics=None, regex="(?=x)") == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(beat(bench, epoch=3, topics=["orders"], regex="").assignment) == 4
    assert bench.group().regexes == {}


def test_a_static_member_returns_to_its_assignment(bench):
    beat(bench, instance_id="a")
    beat(bench, "n", instance_id="b")
    answer = beat(bench, epoch=2, instance_id="a")
    beat(bench, epoch=2, instance_id="a", owned_partitions=answer.assignment)
    assignment = beat(bench, "n", 3, instance_id="b").assignment
    assert error_code_of(bench, "n2", instance_id="b") == ErrorCode.UNRELEASED_INSTANCE_ID
    assert beat(bench, "n", -2, instance_id="b") == HeartbeatResult("n", -2)
    epoch = bench.group().epoch
    rejoin_answer = beat(bench, "n2", instance_id="b")
    assert (rejoin_answer.assignment, rejoin_answer.epoch, bench.group().epoch) == (assignment, epoch, epoch)
    assert error_code_of(bench, "n", 3, instance_id="b") == ErrorCode.FENCED_INSTANCE_ID
    assert "n" not in bench.group().members
    bench.restart()
    assert beat(bench, "n2", epoch, instance_id="b").epoch == epoch


def test_a_static_member_is_removed_after_its_session_timeout(bench):
    beat(bench, instance_id="a")
    beat(bench, "m", -2, instance_id="a")
    assert member(bench).assignment
    bench.clock.advance(46)
    assert bench.group().is_empty


def test_the_assignor_with_most_votes_is_used(bench):
    beat(bench, assignor="range", topics=["orders", "payments"])
    assert bench.group().assignor == "range"
    assert error_code_of(bench, "n", assignor="best") == ErrorCode.UNSUPPORTED_ASSIGNOR


@pytest.mark.parametrize(
    ("name", "epoch", "changes"),
    [
        ("", 0, {}),
        ("m", 0, {"rebalance_timeout_ms": -1}),
        ("m", 0, {"owned_partitions": None}),
        ("m", 0, {"owned_partitions": frozenset({("x", 1)})}),
        ("m", 0, {"topics": None}),
        ("m", 0, {"instance_id": ""}),
        ("m", 0, {"rack_id": ""}),
        ("m", -2, {}),
        ("m", -3, {}),
    ],
)
def test_contradictory_requests_are_rejected(bench, name, epoch, changes):
    assert error_code_of(bench, name, epoch, **changes) == ErrorCode.INVALID_REQUEST


def test_unknown_members_and_groups_are_rejected(bench):
    assert error_code_of(bench, "m", 2) == ErrorCode.GROUP_ID_NOT_FOUND
    beat(bench)
    assert error_code_of(bench, "n", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    full = GroupBench(GroupSettings(consumer_max_size=1))
    beat(full)
    assert error_code_of(full, "n") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert beat(full).epoch == 2  # a member may join again


def test_version_0_assigns_member_ids(bench):
    first = HeartbeatRequest(
        "g", "", 0, rebalance_timeout_ms=1, topics=["orders"], owned_partitions=NO_PARTITIONS_OWNED
    )
    assert bench.coordinator.handle_consumer_heartbeat(first, may_omit_member_id=True).member_id == "uuid0"


def test_the_state_survives_a_restart(bench):
    beat(bench)
    beat(bench, "n", rack_id="r", assignor="range")
    beat(bench, epoch=2)
    before = bench.group()
    bench.restart()
    after = bench.group()
    for name in ("epoch", "assignment_epoch", "members", "targets", "static_members", "metadata_hash", "state_name"):
        assert getattr(after, name) == getattr(before, name), name
    kept_partitions = member(bench).assignment
    assert beat(bench, epoch=2, owned_partitions=kept_partitions).epoch == 3
    bench.clock.advance(50)
    assert bench.group().is_empty


def test_a_failed_append_changes_nothing(bench):
    from kafkaframes.errors import StorageError

    beat(bench)
    before = (bench.group().epoch, dict(bench.group().members), dict(bench.group().targets))
    bench.log.is_broken = True
    with pytest.raises(StorageError):
        beat(bench, "n")
    with pytest.raises(StorageError):
        beat(bench, "m", -1)
    assert (bench.group().epoch, bench.group().members, bench.group().targets) == before


def test_an_empty_group_changes_its_protocol(bench):
    join_answer = bench.member()
    partition = TopicPartition("orders", 0)
    bench.coordinator.commit(OffsetClient("g", join_answer.member_id, None, 1), {partition: OffsetToCommit(5)})
    bench.clock.advance(11)
    assert beat(bench).epoch == 2
    assert bench.coordinator.commits.fetch(OffsetClient("g"), [partition])[partition].offset == 5
    bench.restart()
    assert bench.group().type == "consumer"
    beat(bench, "m", -1)
    bench.member()
    assert bench.group().type == "classic"
    bench.restart()
    assert (bench.group().type, bench.group().generation) == ("classic", 1)


def test_commits_and_fetches_require_the_member_epoch(bench):
    beat(bench)
    partition = TopicPartition("orders", 0)
    client = OffsetClient("g", "m", None, 2)
    assert bench.coordinator.commit(client, {partition: OffsetToCommit(5)}) == {partition: 0}
    assert bench.coordinator.commits.fetch(client, [partition])[partition].offset == 5
    assert bench.coordinator.commits.fetch(OffsetClient("g"), [partition])[partition].offset == 5
    for wrong, code in (
        (client._replace(generation=0), ErrorCode.STALE_MEMBER_EPOCH),
        (client._replace(member_id="x"), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        for call in (
            lambda wrong=wrong: bench.coordinator.commit(wrong, {partition: OffsetToCommit(6)}),
            lambda wrong=wrong: bench.coordinator.commits.fetch(wrong, [partition]),
        ):
            with pytest.raises(RefusedError) as caught:
                call()
            assert caught.value.code == code
    with pytest.raises(RefusedError) as caught:
        bench.coordinator.commit(client._replace(supports_epoch_errors=False), {partition: OffsetToCommit(6)})
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert bench.coordinator.commits.delete("g", [partition]) == {partition: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_a_deleted_group_does_not_return_after_a_restart(bench):
    beat(bench, topics=None, regex="o.*")
    with pytest.raises(RefusedError):
        bench.coordinator.delete_group("g")
    beat(bench, "m", -1)
    bench.coordinator.delete_group("g")
    bench.restart()
    assert bench.coordinator.groups == {}


TOPIC_PARTITION_COUNTS = {"orders": 4, "payments": 3}


class GroupSimulation:
    """Simulated members that join, leave, lose responses and respond late.

    Each member acts only on the responses that it has received.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.bench = GroupBench(topics=NamedTopics())
        for name, count in TOPIC_PARTITION_COUNTS.items():
            self.bench.topics.add(name, count)
        self.players: dict[str, dict[str, Any]] = {}
        self.number = 0

    def add_member(self) -> None:
        self.number += 1
        topics = sorted(self.chance.sample(sorted(TOPIC_PARTITION_COUNTS), self.chance.randint(1, 2)))
        self.players[f"m{self.number}"] = {"epoch": 0, "has": NO_PARTITIONS_OWNED, "told": None, "topics": topics}

    def remove_member(self, name: str) -> None:
        del self.players[name]
        beat(self.bench, name, -1)

    def send_heartbeat(self, name: str, *, loses: bool = False) -> None:
        """Send a heartbeat. If the response is lost and had a new epoch or assignment, remove the member."""
        player = self.players[name]
        changes = {} if player["epoch"] else {"topics": player["topics"]}
        answer = beat(self.bench, name, player["epoch"], owned_partitions=player["has"], **changes)
        if loses and player["epoch"]:
            if answer.assignment is not None or answer.epoch != player["epoch"]:
                self.remove_member(name)
            return
        player["epoch"] = answer.epoch
        if answer.assignment is not None:
            player["told"] = answer.assignment
            if player["has"] <= answer.assignment:  # the member has no partitions to revoke
                self.apply_assignment(name)

    def apply_assignment(self, name: str) -> None:
        player = self.players[name]
        if player["told"] is not None:
            player["has"], player["told"] = player["told"], None

    def step(self) -> None:
        """Do one random action."""
        chance = self.chance.random
        if len(self.players) < 2 or chance() < 0.1:
            self.add_member()
        name = self.chance.choice(sorted(self.players))
        if chance() < 0.05:
            self.bench.restart()
        if len(self.players) > 2 and self.players[name]["epoch"] and chance() < 0.08:
            self.remove_member(name)
            return
        if chance() < 0.7:
            self.apply_assignment(name)
        self.send_heartbeat(name, loses=chance() < 0.2)

    @property
    def owned_partitions(self) -> list[Any]:
        return [one for player in self.players.values() for one in player["has"]]


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_has_two_owners_and_each_has_one_at_the_end(seed):
    simulation = GroupSimulation(seed)
    for _ in range(250):
        simulation.step()
        assert len(simulation.owned_partitions) == len(set(simulation.owned_partitions)), "two members own a partition"
    for _ in range(8):
        for name in simulation.players:
            simulation.apply_assignment(name)
            simulation.send_heartbeat(name)
        assert len(simulation.owned_partitions) == len(set(simulation.owned_partitions)), "two members own a partition"
    subscribed_topics = {topic for player in simulation.players.values() for topic in player["topics"]}
    assert len(simulation.owned_partitions) == sum(TOPIC_PARTITION_COUNTS[name] for name in subscribed_topics)
    assert simulation.bench.group().state_name == "Stable"
