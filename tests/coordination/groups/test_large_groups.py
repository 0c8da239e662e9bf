"""In large consumer groups, a heartbeat's cost is proportional to its changes, and its result equals the
reference's.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.coordination.groups.reference_groups import ReferenceConsumerGroups
from tests.coordination.groups.support import GroupBench

from kafkaframes.coordination.groups.consumer import NO_PARTITIONS
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatRequest
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.errors import KafkaframesError

TOPIC_NAMES = ("orders", "orders-eu", "payments", "later")
PATTERNS = ("orders.*", ".*", "pay.*")


@dataclass
class TopicVisibility:
    """The topics that each principal may describe; they change while the members are active."""

    version: int = 0
    hidden_topics: dict[str, set[str]] = field(default_factory=dict)

    def hide(self, viewer: str, names: set[str]) -> None:
        self.hidden_topics[viewer] = names
        self.version += 1


@dataclass(frozen=True)
class GroupUser:
    name: str
    rights: TopicVisibility = field(compare=False, hash=False)

    @property
    def version(self) -> int:
        return self.rights.version

    def may_see(self, topic: str) -> bool:
        return topic not in self.rights.hidden_topics.get(self.name, ())


class PairedCoordinators:
    """Two coordinators that get the same requests, from members that behave roughly as Kafka's consumer does."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topic_count = 0
        self.benches = [GroupBench(), GroupBench()]
        self.rights = TopicVisibility()
        self.users = [GroupUser("alice", self.rights), GroupUser("bob", self.rights)]
        for name in TOPIC_NAMES[:3]:
            self.each(lambda bench, name=name: bench.topics.add(name, 3))
        self.use_reference()

    def use_reference(self) -> None:
        coordinator = self.benches[1].coordinator
        groups = coordinator.consumer
        reference = ReferenceConsumerGroups(
            groups.clock, groups.settings, groups.write, groups.topics, groups.setting, groups.on_leave
        )
        coordinator.consumer = coordinator.classic_members.groups = reference

    def each(self, call: Any) -> list[Any]:
        results = []
        for bench in self.benches:
            try:
                results.append(call(bench))
            except KafkaframesError as error:
                results.append((type(error), str(error)))
        return results

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        fields = {"viewer": self.random.choice(self.users), **fields}
        answers = self.each(
            lambda bench: bench.coordinator.handle_consumer_heartbeat(HeartbeatRequest("g", member_id, epoch, **fields))
        )
        assert answers[0] == answers[1]
        return answers[0]

    def step(self) -> None:
        random, members = self.random, list(self.benches[0].coordinator.groups["g"].members.values())
        kind = random.choices(("join", "beat", "beats", "leave", "topics", "rights", "disk"), (3, 6, 3, 2, 1, 1, 0.3))[
            0
        ]
        member = random.choice(members) if members else None
        if kind == "join" or member is None:
            self.join(random.choice(("a", "b", "c", "d", "e", "f")))
        elif kind == "beat":
            fields = random.choice(
                (
                    {},
                    {"owned_partitions": member.assignment},
                    {"owned_partitions": member.assignment},
                    self.subscription(),
                )
            )
            self.beat(member.member_id, member.epoch, **fields)
        elif kind == "beats":
            for one in members:
                self.beat(one.member_id, one.epoch, owned_partitions=one.assignment)
        elif kind == "leave":
            is_static = member.instance_id is not None
            self.beat(member.member_id, random.choice((-1, -2)) if is_static else -1, instance_id=member.instance_id)
        elif kind == "topics":
            self.change_topics()
        elif kind == "rights":
            self.rights.hide(random.choice(("alice", "bob")), set(random.sample(TOPIC_NAMES, random.randint(0, 2))))
        else:
            self.each(lambda bench: setattr(bench.log, "is_broken", True))
            self.join("broken")
            self.each(lambda bench: setattr(bench.log, "is_broken", False))

    def subscription(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"topics": self.random.sample(TOPIC_NAMES, self.random.randint(0, 3))}
        return fields | {"regex": self.random.choice((*PATTERNS, "", ""))}

    def join(self, member_id: str) -> None:
        fields = {"rebalance_timeout_ms": 60_000, "owned_partitions": NO_PARTITIONS, **self.subscription()}
        fields["assignor"] = self.random.choice((None, None, "uniform", "range"))
        if self.random.random() < 0.3:
            fields["instance_id"] = f"static-{self.random.randint(0, 2)}"
        self.beat(member_id, 0, **fields)

    def change_topics(self) -> None:
        name, count = self.random.choice(TOPIC_NAMES), self.random.randint(0, 6)
        for bench in self.benches:
            topic_id, old_count = bench.topics.topics_by_name.pop(name, (UUID(int=100 + self.topic_count), 0))
            if count:
                bench.topics.topics_by_name[name] = topic_id, max(count, old_count)
        self.topic_count += 1

    def check(self) -> None:
        group, reference = (bench.coordinator.groups.get("g") for bench in self.benches)
        for name in ("epoch", "assignment_epoch", "metadata_hash", "members", "targets", "regexes", "visible"):
            assert getattr(group, name) == getattr(reference, name), name
        assert list(group.members) == list(reference.members)
        assert group._owner_counts == Counter(
            partition for member in group.members.values() for partition in member.assignment | member.revoking
        )
        for topic in TOPIC_NAMES:
            assert group.is_subscribed_to(topic) == any(
                topic in reference.find_pattern_topics(member).union(member.topics)
                for member in reference.members.values()
            )
        written_rows = [sorted(bench.log.rows, key=repr) for bench in self.benches]
        assert written_rows[0] == written_rows[1]


@pytest.mark.parametrize("seed", range(25))
def test_cached_results_do_not_change_responses(seed):
    pair = PairedCoordinators(seed)
    pair.join("a")
    for number in range(120):
        pair.step()
        pair.check()
        if number % 40 == 39:
            pair.each(GroupBench.restart)
            pair.use_reference()
            pair.check()


def count_calls(call: Any) -> int:
    """Return the number of Python and C functions that run during a call."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


def heartbeat(bench: GroupBench, member_id: str, epoch: int = 0, **fields: Any) -> Any:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "owned_partitions": NO_PARTITIONS, "topics": ["orders"], **fields}
    return bench.coordinator.handle_consumer_heartbeat(HeartbeatRequest("g", member_id, epoch, **fields))


def create_group(count: int, **fields: Any) -> GroupBench:
    """Return a group with ``count`` members that own their target assignments."""
    bench = GroupBench()
    bench.topics.add("orders", 2_000)
    for number in range(count):
        heartbeat(bench, f"m{number}", **fields)
    for _ in range(3):
        bench.clock.advance(1)
        for member in list(bench.group().members.values()):
            heartbeat(bench, member.member_id, member.epoch, owned_partitions=member.assignment)
    assert bench.group().state_name == "Stable"
    return bench


SUBSCRIPTIONS = [{"topics": ["orders"]}, {"topics": [], "regex": "ord.*"}]


@pytest.mark.parametrize("fields", SUBSCRIPTIONS, ids=["names", "pattern"])
def test_a_heartbeat_of_a_large_group_costs_as_much_as_one_of_a_small_group(fields):
    costs = []
    for count in (200, 800):
        bench = create_group(count, **fields)
        one = bench.group().members["m7"]
        costs.append(
            count_calls(lambda bench=bench, one=one: heartbeat(bench, "m7", one.epoch, owned_partitions=one.assignment))
        )
    assert costs[1] <= costs[0] + 10 < 300


@pytest.mark.parametrize("fields", SUBSCRIPTIONS, ids=["names", "pattern"])
def test_simultaneous_joins_cost_in_proportion_to_their_number(fields):
    costs = []
    for count in (400, 800):
        bench = GroupBench()
        bench.topics.add("orders", 500)
        early = [heartbeat(bench, f"first-{number}", **fields) for number in range(150)]
        assert early[-1].assignment == NO_PARTITIONS
        joins = [partial(heartbeat, bench, f"m{number}", **fields) for number in range(count)]
        costs.append(count_calls(lambda joins=joins: [join() for join in joins]))
    assert costs[1] <= 2.1 * costs[0]


def test_a_large_group_is_reassigned_once_per_interval():
    bench = create_group(100)
    epoch = bench.group().epoch
    heartbeat(bench, "one-more")
    # the last assignment is older than the interval
    assert bench.group().assignment_epoch == bench.group().epoch == epoch + 1
    late = heartbeat(bench, "late")
    assert (late.epoch, late.assignment, bench.group().state_name) == (epoch + 1, NO_PARTITIONS, "Assigning")
    assert heartbeat(bench, "late", late.epoch).assignment is None
    bench.clock.advance(1)
    assert heartbeat(bench, "m1", epoch).epoch in (epoch, epoch + 2)
    assert bench.group().assignment_epoch == epoch + 2
    assert len(bench.group().targets["late"]) == 2_000 // 102
    heartbeat(bench, "late", late.epoch)
    assert bench.group().members["late"].state is MemberState.UNRELEASED_PARTITIONS
