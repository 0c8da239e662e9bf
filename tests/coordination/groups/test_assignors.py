"""The server-side assignors: each partition has one owner, and assignments are balanced and sticky."""

from __future__ import annotations

from itertools import islice
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaframes.coordination.groups.assignors import ASSIGNORS, assign_range, assign_uniform

A, B = UUID(int=1), UUID(int=2)
TOPICS = [UUID(int=number) for number in range(1, 4)]


@st.composite
def random_groups(draw, *, equal: bool = False):
    counts = {topic: draw(st.integers(1, 6)) for topic in TOPICS}
    names = [f"m{number}" for number in range(draw(st.integers(1, 5)))]
    some = st.frozensets(st.sampled_from(TOPICS), min_size=1)
    shared_topics = draw(some)
    subscriptions = {name: shared_topics if equal else draw(some) for name in names}
    # a member that no longer exists
    everything = [(topic, index) for topic in TOPICS for index in range(counts[topic] + 1)]
    current: dict[str, frozenset] = {}
    for one in everything:
        owner = draw(st.sampled_from([None, *names, "left"]))
        if owner is not None:
            current[owner] = current.get(owner, frozenset()) | {one}
    return subscriptions, current, counts


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=random_groups())
def test_each_partition_has_one_owner_that_subscribes_to_its_topic(assign, group):
    subscriptions, _, counts = group
    assignment = assign(*group)
    assert assignment.keys() == subscriptions.keys()
    assigned_partitions = [partition for partitions in assignment.values() for partition in partitions]
    subscribed_topics = frozenset().union(*subscriptions.values())
    assert sorted(assigned_partitions) == [
        (topic, index) for topic in sorted(subscribed_topics) for index in range(counts[topic])
    ]
    assert all(
        partition[0] in subscriptions[name] for name, partitions in assignment.items() for partition in partitions
    )


@given(group=random_groups(equal=True))
def test_uniform_balances_all_partitions(group):
    sizes = [len(partitions) for partitions in assign_uniform(*group).values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=random_groups())
def test_no_single_move_improves_the_uniform_assignment(group):
    subscriptions, _, _ = group
    assignment = assign_uniform(*group)
    for name, partitions in assignment.items():
        for topic, _ in partitions:
            for other, topics in subscriptions.items():
                if topic in topics:
                    assert len(partitions) <= len(assignment[other]) + 1, (name, other)


@given(group=random_groups())
def test_range_balances_each_topic(group):
    subscriptions, _, _ = group
    assignment = assign_range(*group)
    for topic in frozenset().union(*subscriptions.values()):
        sizes = [
            sum(one[0] == topic for one in assignment[name]) for name in subscriptions if topic in subscriptions[name]
        ]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=random_groups())
def test_a_balanced_assignment_is_not_changed(assign, group):
    subscriptions, _, counts = group
    once = assign(*group)
    assert assign(subscriptions, once, counts) == once


@given(group=random_groups(equal=True), data=st.data())
def test_only_the_partitions_of_a_leaving_member_move(group, data):
    subscriptions, _, counts = group
    once = assign_uniform(*group)
    if len(once) < 2:
        return
    leaver = data.draw(st.sampled_from(sorted(once)))
    remaining_subscriptions = {name: topics for name, topics in subscriptions.items() if name != leaver}
    again = assign_uniform(remaining_subscriptions, once, counts)
    for name in remaining_subscriptions:
        assert len(once[name] - again[name]) == 0


@pytest.mark.parametrize("has_equal_subscriptions", [True, False])
@given(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6))
@example(sizes=[9, 8, 1])
@example(sizes=[0, 3, 4])  # Kafka assigns the additional partition to the first member and moves three
def test_uniform_revokes_only_partitions_above_the_balanced_share(has_equal_subscriptions, sizes):
    partitions = iter([(A, number) for number in range(sum(sizes))])
    current = {f"m{number}": frozenset(islice(partitions, size)) for number, size in enumerate(sizes)}
    subscriptions = {name: frozenset({A}) for name in current}
    if not has_equal_subscriptions:  # the last topic has no partitions
        subscriptions["m0"] = frozenset({A, B})
    assignment = assign_uniform(subscriptions, current, {A: sum(sizes), B: 0})
    share, extra = divmod(sum(sizes), len(sizes))
    quotas = [share + (number < extra) for number in range(len(sizes))]
    excess = sum(max(size - quota, 0) for size, quota in zip(sorted(sizes, reverse=True), quotas, strict=True))
    assert sum(len(assignment[name] - owned_partitions) for name, owned_partitions in current.items()) == excess


def test_range_assigns_the_same_partition_numbers_of_each_topic():
    both = frozenset({A, B})
    assignment = assign_range({"m": both, "n": both}, {}, {A: 4, B: 4})
    assert assignment == {
        "m": frozenset({(A, 0), (A, 1), (B, 0), (B, 1)}),
        "n": frozenset({(A, 2), (A, 3), (B, 2), (B, 3)}),
    }
