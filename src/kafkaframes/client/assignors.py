"""The assignors of a classic group's leader: range, round robin and sticky.

Each function takes the members by member id and the topics' partition counts, and returns the partitions of every
member. Range and round robin return the same assignment as Kafka's assignors. The sticky assignors give the same
guarantees as ``kafkaframes.coordination.groups.sticky``, but may choose a different one of several equally good
assignments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.coordination.groups import sticky

_Partition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription, as the group leader receives it.

    Attributes:
        topics: names of the subscribed topics.
        owned_partitions: partitions that the member owned in ``generation``, according to the member's subscription.
        instance_id: id of a static member (KIP-345). Static members keep their place in the order after a restart.
    """

    topics: frozenset[str]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1
    instance_id: str | None = None


Members = Mapping[str, MemberSubscription]
Counts = Mapping[str, int]


def assign_range(members: Members, counts: Counts) -> Assignment:
    """Assign a range of each topic's partitions to each subscribed member.

    If the number of partitions is not divisible, the first members get one partition more.

    >>> assignment = assign_range({name: MemberSubscription(frozenset("t")) for name in "ab"}, {"t": 3})
    >>> {name: [entry.partition for entry in partitions] for name, partitions in assignment.items()}
    {'a': [0, 1], 'b': [2]}
    """
    result: Assignment = {name: [] for name in members}
    for topic in sorted(counts):
        subscribers = [name for name in _sort_members(members) if topic in members[name].topics]
        if not subscribers:
            continue
        share, extra_count = divmod(counts[topic], len(subscribers))
        first = 0
        for index, name in enumerate(subscribers):
            end = first + share + (index < extra_count)
            result[name] += [TopicPartition(topic, number) for number in range(first, end)]
            first = end
    return result


def assign_round_robin(members: Members, counts: Counts) -> Assignment:
    """Assign all partitions in turn, and skip members that are not subscribed to the topic."""
    result: Assignment = {name: [] for name in members}
    member_names = _sort_members(members)
    index = 0
    for partition in _list_partitions(counts):
        if not any(partition.topic in member.topics for member in members.values()):
            continue
        while partition.topic not in members[member_names[index % len(member_names)]].topics:
            index += 1
        result[member_names[index % len(member_names)]].append(partition)
        index += 1
    return result


def assign_sticky(members: Members, counts: Counts) -> Assignment:
    """Keep the partitions of members as far as a balanced assignment allows (KIP-54)."""
    owners, _ = _collect_owners(members, counts)
    return _list_partitions_by_member(members, _assign_sticky(members, counts, owners))


def assign_cooperative_sticky(members: Members, counts: Counts) -> Assignment:
    """Assign partitions as ``assign_sticky`` does.

    A partition that moves is unassigned until its old member gives it up (KIP-429).

    A partition that two members of the same generation own is unassigned until both have given it up.
    """
    owners, disputed_partitions = _collect_owners(members, counts)
    assignment = {
        partition: name
        for partition, name in _assign_sticky(members, counts, owners).items()
        if owners.get(partition, name) == name and partition not in disputed_partitions
    }
    return _list_partitions_by_member(members, assignment)


ASSIGNORS: Final[Mapping[str, Callable[[Members, Counts], Assignment]]] = MappingProxyType(
    {
        "range": assign_range,
        "roundrobin": assign_round_robin,
        "sticky": assign_sticky,
        "cooperative-sticky": assign_cooperative_sticky,
    }
)
COOPERATIVE_ASSIGNORS: Final = frozenset({"cooperative-sticky"})


def _sort_members(members: Members) -> list[str]:
    return sorted(members, key=lambda name: (members[name].instance_id is None, members[name].instance_id or name))


def _list_partitions(counts: Counts) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]


def _assign_sticky(members: Members, counts: Counts, owners: Mapping[_Partition, str]) -> dict[_Partition, str]:
    topics = frozenset(counts)
    return sticky.assign_sticky(
        {name: members[name].topics & topics for name in _sort_members(members)}, owners, counts
    )


def _list_partitions_by_member(members: Members, assignment: Mapping[_Partition, str]) -> Assignment:
    """Return the sorted partitions of each member."""
    result: Assignment = {name: [] for name in members}
    for topic, partition in sorted(assignment):
        result[assignment[topic, partition]].append(TopicPartition(topic, partition))
    return result


def _collect_owners(members: Members, counts: Counts) -> tuple[dict[_Partition, str], set[_Partition]]:
    """Return the owner of each partition according to the newest generation, and the partitions in dispute.

    If two members of that generation report that they own a partition, it is in dispute and has no owner, as in Kafka.
    """
    owners: dict[_Partition, str] = {}
    disputed_partitions: set[_Partition] = set()
    for name in sorted(members, key=lambda name: -members[name].generation):
        member = members[name]
        for entry in frozenset(member.owned_partitions):
            partition = entry.topic, entry.partition
            if entry.topic not in member.topics or not 0 <= entry.partition < counts.get(entry.topic, 0):
                continue
            owner = owners.setdefault(partition, name)
            if owner != name and members[owner].generation == member.generation:
                disputed_partitions.add(partition)
    return {key: name for key, name in owners.items() if key not in disputed_partitions}, disputed_partitions
