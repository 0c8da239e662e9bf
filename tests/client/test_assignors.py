"""The client's assignors: each partition is assigned once, evenly, and partitions move only if necessary."""

from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaframes.client.assignors import ASSIGNORS, MemberSubscription, assign_cooperative_sticky, assign_sticky
from kafkaframes.client.metadata import TopicPartition

TOPICS = ("a", "b", "c")
PARTITION_COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
MEMBERS = st.dictionaries(
    st.text("xyz", min_size=1, max_size=3),
    st.builds(
        MemberSubscription,
        st.frozensets(st.sampled_from(TOPICS)),
        st.lists(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8)), max_size=6).map(tuple),
        st.integers(-1, 3),
    ),
    min_size=1,
    max_size=5,
)


@given(st.sampled_from(sorted(set(ASSIGNORS) - {"cooperative-sticky"})), MEMBERS, PARTITION_COUNTS)
def test_each_subscribed_partition_is_assigned_to_one_subscriber(name, members, counts):
    assignment = ASSIGNORS[name](members, counts)
    assigned_partitions = [partition for partitions in assignment.values() for partition in partitions]
    wanted_partitions = {
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if any(topic in member.topics for member in members.values())
        for number in range(count)
    }
    assert sorted(map(str, assigned_partitions)) == sorted(map(str, wanted_partitions))
    assert all(
        partition.topic in members[member].topics
        for member, partitions in assignment.items()
        for partition in partitions
    )


def _sticky_moves(sizes: list[int]) -> int:
    """Return how many partitions ``assign_sticky`` moves in a group whose members own ``sizes`` partitions."""
    partitions = iter([TopicPartition("a", number) for number in range(sum(sizes))])
    owned_partitions = {f"m{number}": tuple(islice(partitions, size)) for number, size in enumerate(sizes)}
    members = {name: MemberSubscription(frozenset("a"), own, 1) for name, own in owned_partitions.items()}
    assignment = assign_sticky(members, {"a": sum(sizes)})
    new_sizes = [len(own) for own in assignment.values()]
    assert max(new_sizes) - min(new_sizes) <= 1
    next_members = {name: MemberSubscription(frozenset("a"), tuple(own), 2) for name, own in assignment.items()}
    assert assign_sticky(next_members, {"a": sum(sizes)}) == assignment
    return sum(partition not in owned_partitions[name] for name, own in assignment.items() for partition in own)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
@example([9, 8, 1])  # previously 6 moves: the largest member gave up four partitions and got one back
@example([3, 9, 6])
def test_sticky_moves_only_what_exceeds_an_even_share(sizes):
    share, extra = divmod(sum(sizes), len(sizes))
    quotas = [share + (number < extra) for number in range(len(sizes))]
    excess = sum(max(size - quota, 0) for size, quota in zip(sorted(sizes, reverse=True), quotas, strict=True))
    assert _sticky_moves(sizes) == excess


@given(MEMBERS, PARTITION_COUNTS)
def test_sticky_moves_no_partition_from_a_member_with_fewer(members, counts):
    """Kafka's definition: no partition could return to its owner, or move to a member with two partitions fewer."""
    assignment = assign_sticky(members, counts)
    sizes = {name: len(partitions) for name, partitions in assignment.items()}
    for name, partitions in assignment.items():
        for partition in partitions:
            subscribers = [other for other in members if partition.topic in members[other].topics]
            assert sizes[name] <= min(sizes[other] for other in subscribers) + 1
            owners = [other for other in subscribers if partition in members[other].owned_partitions]
            if len(owners) == 1:
                assert owners == [name] or sizes[owners[0]] >= sizes[name]


def test_a_large_group_is_balanced_within_seconds():
    """299 members join one that owns 6,000 partitions of 100 topics."""
    topics = {f"t{number}": 60 for number in range(100)}
    everything = tuple(TopicPartition(topic, number) for topic in topics for number in range(60))
    members = {f"m{number}": MemberSubscription(frozenset(topics)) for number in range(299)}
    assignment = assign_sticky(members | {"old": MemberSubscription(frozenset(topics), everything, 1)}, topics)
    assert {len(partitions) for partitions in assignment.values()} == {20}


@pytest.mark.parametrize("assign", [assign_sticky, assign_cooperative_sticky])
def test_a_partition_owned_by_two_members_is_revoked_from_both(assign):
    """Both members may be reading the partition.

    As in Kafka, neither keeps the partition. Cooperative members revoke it before one of them gets it.
    """
    disputed = TopicPartition("a", 0)
    partitions = {name: (disputed, TopicPartition("a", number)) for number, name in enumerate(("m1", "m2"), 1)}
    members = {
        name: MemberSubscription(frozenset("a"), member_partitions, 3) for name, member_partitions in partitions.items()
    }
    assignment = assign(members, {"a": 3})
    assert sum(disputed in member_partitions for member_partitions in assignment.values()) == (assign is assign_sticky)
    free = {
        name: MemberSubscription(
            frozenset("a"), tuple(partition for partition in member_partitions if partition != disputed), 4
        )
        for name, member_partitions in partitions.items()
    }
    assert sum(disputed in member_partitions for member_partitions in assign(free, {"a": 3}).values()) == 1


def test_a_partition_claimed_twice_stays_with_the_newer_generation():
    place = TopicPartition("a", 0)
    members = {
        "old": MemberSubscription(frozenset("a"), (place,), 1),
        "new": MemberSubscription(frozenset("a"), (place,), 2),
    }
    assert assign_sticky(members, {"a": 1}) == {"old": [], "new": [place]}


def test_cooperative_revokes_a_partition_before_another_member_gets_it():
    both = (TopicPartition("a", 0), TopicPartition("a", 1))
    members = {"m1": MemberSubscription(frozenset("a"), both, 1), "m2": MemberSubscription(frozenset("a"))}
    first = assign_cooperative_sticky(members, {"a": 2})
    assert sorted(map(len, first.values())) == [0, 1]
    let_go = {
        "m1": MemberSubscription(frozenset("a"), tuple(first["m1"]), 2),
        "m2": MemberSubscription(frozenset("a"), (), 2),
    }
    assert [len(one) for one in assign_cooperative_sticky(let_go, {"a": 2}).values()] == [1, 1]
