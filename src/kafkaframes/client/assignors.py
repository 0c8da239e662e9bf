"""The assignors of a classic group's leader: range, round robin and sticky.

Each function takes the members by member id and the topics' partition counts, and returns the partitions of every
member. Range and round robin return the same assignment as Kafka's assignors. The sticky ones guarantee balance and
stickiness, but may choose another of several equal assignments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kafkaframes.client.metadata import TopicPartition

Assignment = dict[str, list[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Member:
    """A member, as the leader knows it.

    Attributes:
        topics: names of the subscribed topics.
        owned_partitions: partitions that the member owned in ``generation``, according to its subscription.
        instance_id: id of a static member (KIP-345). Static members have the same order after a restart.
    """

    topics: frozenset[str]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation: int = -1
    instance_id: str | None = None


Members = Mapping[str, Member]
Counts = Mapping[str, int]


def assign_range(members: Members, counts: Counts) -> Assignment:
    """Assign a range of each topic's partitions to each subscribed member. The first members get one more.

    >>> found = assign_range({"a": Member(frozenset("t")), "b": Member(frozenset("t"))}, {"t": 3})
    >>> {name: [one.partition for one in partitions] for name, partitions in found.items()}
    {'a': [0, 1], 'b': [2]}
    """
    result: Assignment = {name: [] for name in members}
    for topic in sorted(counts):
        subscribers = [name for name in _in_order(members) if topic in members[name].topics]
        if not subscribers:
            continue
        share, more = divmod(counts[topic], len(subscribers))
        first = 0
        for index, name in enumerate(subscribers):
            end = first + share + (index < more)
            result[name] += [TopicPartition(topic, entry) for entry in range(first, end)]
            first = end
    return result


def assign_round_robin(members: Members, counts: Counts) -> Assignment:
    """Assign all partitions in turn, and skip members that are not subscribed to the topic."""
    result: Assignment = {name: [] for name in members}
    order = _in_order(members)
    index = 0
    for partition in _all_partitions(counts):
        if not any(partition.topic in member.topics for member in members.values()):
            continue
        while partition.topic not in members[order[index % len(order)]].topics:
            index += 1
        result[order[index % len(order)]].append(partition)
        index += 1
    return result


def assign_sticky(members: Members, counts: Counts) -> Assignment:
    """Keep the partitions of members as far as a balanced assignment allows (KIP-54)."""
    result = _collect_claims(members, counts)
    owner = {entry: name for name, partitions in result.items() for entry in partitions}
    for partition in _all_partitions(counts):
        if partition not in owner:
            subscribers = [name for name in _in_order(members) if partition.topic in members[name].topics]
            if subscribers:
                name = min(subscribers, key=lambda entry: len(result[entry]))
                result[name].append(partition)
    _balance(members, result)
    return {name: sorted(partitions, key=_sort_key) for name, partitions in result.items()}


def assign_cooperative_sticky(members: Members, counts: Counts) -> Assignment:
    """Assign as ``assign_sticky``. A partition that moves is unassigned until its old member gives it up (KIP-429)."""
    target = assign_sticky(members, counts)
    owner = {entry: name for name, partitions in _collect_claims(members, counts).items() for entry in partitions}
    return {
        name: [entry for entry in partitions if owner.get(entry, name) == name] for name, partitions in target.items()
    }


ASSIGNORS: Final[Mapping[str, Callable[[Members, Counts], Assignment]]] = MappingProxyType(
    {
        "range": assign_range,
        "roundrobin": assign_round_robin,
        "sticky": assign_sticky,
        "cooperative-sticky": assign_cooperative_sticky,
    }
)
COOPERATIVE: Final = frozenset({"cooperative-sticky"})


def _in_order(members: Members) -> list[str]:
    return sorted(members, key=lambda name: (members[name].instance_id is None, members[name].instance_id or name))


def _all_partitions(counts: Counts) -> list[TopicPartition]:
    return [TopicPartition(topic, entry) for topic in sorted(counts) for entry in range(counts[topic])]


def _sort_key(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _collect_claims(members: Members, counts: Counts) -> Assignment:
    """Return the valid claims of the members. If two claim a partition, the newer generation wins."""
    owner: dict[TopicPartition, str] = {}
    for name in sorted(members, key=lambda entry: (-members[entry].generation, entry)):
        for partition in members[name].owned_partitions:
            exists = 0 <= partition.partition < counts.get(partition.topic, 0)
            if exists and partition.topic in members[name].topics:
                owner.setdefault(partition, name)
    result: Assignment = {name: [] for name in members}
    for partition, name in owner.items():
        result[name].append(partition)
    return result


def _balance(members: Members, result: Assignment) -> None:
    """Move partitions from members with many to members with fewer, while that improves the balance."""
    has_moved = True
    while has_moved:
        has_moved = False
        for source in sorted(result, key=lambda name: -len(result[name])):
            for partition in sorted(result[source], key=_sort_key, reverse=True):
                subscribers = [name for name in result if partition.topic in members[name].topics]
                target = min(subscribers, key=lambda name: (len(result[name]), name))
                if len(result[target]) + 1 < len(result[source]):
                    result[source].remove(partition)
                    result[target].append(partition)
                    has_moved = True
