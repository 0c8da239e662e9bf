"""How partitions are shared out: complete, fair, and as little moved as fairness allows."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.client.assignors import ASSIGNORS, Member, assign_cooperative_sticky, assign_sticky
from kafkaframes.client.metadata import TopicPartition

TOPICS = ("a", "b", "c")
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 7))
MEMBERS = st.dictionaries(
    st.text("xyz", min_size=1, max_size=3),
    st.builds(
        Member,
        st.frozensets(st.sampled_from(TOPICS)),
        st.lists(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 8)), max_size=6).map(tuple),
        st.integers(-1, 3),
    ),
    min_size=1,
    max_size=5,
)


@given(st.sampled_from(sorted(set(ASSIGNORS) - {"cooperative-sticky"})), MEMBERS, COUNTS)
def test_each_partition_that_somebody_wants_goes_to_one_who_wants_it(name, members, counts):
    assignment = ASSIGNORS[name](members, counts)
    given_out = [partition for partitions in assignment.values() for partition in partitions]
    wanted_partitions = {
        TopicPartition(topic, number)
        for topic, count in counts.items()
        if any(topic in member.topics for member in members.values())
        for number in range(count)
    }
    assert sorted(map(str, given_out)) == sorted(map(str, wanted_partitions))
    assert all(
        partition.topic in members[member].topics
        for member, partitions in assignment.items()
        for partition in partitions
    )


@given(st.integers(1, 6), st.integers(0, 20), st.randoms(use_true_random=False))
def test_sticky_is_even_and_a_second_time_moves_nothing(count, partitions, random):
    owned_partitions = {f"m{place}": [] for place in range(count)}
    for one in range(partitions):
        owned_partitions[random.choice(sorted(owned_partitions))].append(TopicPartition("a", one))
    members = {name: Member(frozenset("a"), tuple(all_), 1) for name, all_ in owned_partitions.items()}
    assignment = assign_sticky(members, {"a": partitions})
    sizes = [len(one) for one in assignment.values()]
    assert max(sizes) - min(sizes) <= 1
    moved_count = sum(one not in members[name].owned_partitions for name, all_ in assignment.items() for one in all_)
    share = partitions // count
    assert moved_count <= sum(max(len(all_) - share, 0) for all_ in owned_partitions.values())
    again = {name: Member(frozenset("a"), tuple(all_), 2) for name, all_ in assignment.items()}
    assert assign_sticky(again, {"a": partitions}) == assignment


def test_of_two_that_claim_a_partition_the_newer_generation_keeps_it():
    place = TopicPartition("a", 0)
    members = {"old": Member(frozenset("a"), (place,), 1), "new": Member(frozenset("a"), (place,), 2)}
    assert assign_sticky(members, {"a": 1}) == {"old": [], "new": [place]}


def test_cooperative_lets_a_partition_go_before_another_gets_it():
    both = (TopicPartition("a", 0), TopicPartition("a", 1))
    members = {"m1": Member(frozenset("a"), both, 1), "m2": Member(frozenset("a"))}
    first = assign_cooperative_sticky(members, {"a": 2})
    assert sorted(map(len, first.values())) == [0, 1]
    let_go = {"m1": Member(frozenset("a"), tuple(first["m1"]), 2), "m2": Member(frozenset("a"), (), 2)}
    assert [len(one) for one in assign_cooperative_sticky(let_go, {"a": 2}).values()] == [1, 1]
