"""How a classic group's leader shares partitions out among members: range, round robin, sticky. Pure.

Each function takes the members, by member id, and the partition counts of topics; it returns the partitions of every
member. Results are those of Kafka's assignors of the same names: for range and round robin partition by partition;
the sticky ones promise balance and stickiness, and leave the choice among equals free.
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
    """What the leader knows of a member.

    Attributes:
        topics: that it subscribes to.
        owned: the partitions that it says it has, as of ``generation``.
        instance_id: of a static member (KIP-345); such members are in the same order after a restart.
    """

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    instance_id: str | None = None


Members = Mapping[str, Member]
Counts = Mapping[str, int]


def assign_range(members: Members, counts: Counts) -> Assignment:
    """Give each member of a topic a run of its partitions; the first members get one more.

    >>> found = assign_range({"a": Member(frozenset("t")), "b": Member(frozenset("t"))}, {"t": 3})
    >>> {name: [one.partition for one in partitions] for name, partitions in found.items()}
    {'a': [0, 1], 'b': [2]}
    """
    result: Assignment = {name: [] for name in members}
    for topic in sorted(counts):
        takers = [name for name in _in_order(members) if topic in members[name].topics]
        if not takers:
            continue
        share, more = divmod(counts[topic], len(takers))
        first = 0
        for index, name in enumerate(takers):
            end = first + share + (index < more)
            result[name] += [TopicPartition(topic, entry) for entry in range(first, end)]
            first = end
    return result


def assign_round_robin(members: Members, counts: Counts) -> Assignment:
    """Deal all partitions out one by one, past members that do not subscribe to the topic."""
    result: Assignment = {name: [] for name in members}
    order = _in_order(members)
    index = 0
    for partition in _all(counts):
        if not any(partition.topic in member.topics for member in members.values()):
            continue
        while partition.topic not in members[order[index % len(order)]].topics:
            index += 1
        result[order[index % len(order)]].append(partition)
        index += 1
    return result


def assign_sticky(members: Members, counts: Counts) -> Assignment:
    """Keep what members have as far as a balanced assignment allows (KIP-54)."""
    result = _kept(members, counts)
    owner = {entry: name for name, partitions in result.items() for entry in partitions}
    for partition in _all(counts):
        if partition not in owner:
            takers = [name for name in _in_order(members) if partition.topic in members[name].topics]
            if takers:
                name = min(takers, key=lambda entry: len(result[entry]))
                result[name].append(partition)
    _balance(members, result)
    return {name: sorted(partitions, key=_slot) for name, partitions in result.items()}


def assign_cooperative_sticky(members: Members, counts: Counts) -> Assignment:
    """Share out as ``assign_sticky``; a partition that moves stays free until its old member has let go (KIP-429)."""
    requested = assign_sticky(members, counts)
    owner = {entry: name for name, partitions in _kept(members, counts).items() for entry in partitions}
    return {
        name: [entry for entry in partitions if owner.get(entry, name) == name]
        for name, partitions in requested.items()
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


def _all(counts: Counts) -> list[TopicPartition]:
    return [TopicPartition(topic, entry) for topic in sorted(counts) for entry in range(counts[topic])]


def _slot(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _kept(members: Members, counts: Counts) -> Assignment:
    """Return what each member rightly has: of two that claim a partition, the one of the newer generation."""
    owner: dict[TopicPartition, str] = {}
    for name in sorted(members, key=lambda entry: (-members[entry].generation, entry)):
        for partition in members[name].owned:
            exists = 0 <= partition.partition < counts.get(partition.topic, 0)
            if exists and partition.topic in members[name].topics:
                owner.setdefault(partition, name)
    result: Assignment = {name: [] for name in members}
    for partition, name in owner.items():
        result[name].append(partition)
    return result


def _balance(members: Members, result: Assignment) -> None:
    """Move partitions from the fullest members to emptier ones that may have them, while a move makes it more even."""
    moved = True
    while moved:
        moved = False
        for giver in sorted(result, key=lambda name: -len(result[name])):
            for partition in sorted(result[giver], key=_slot, reverse=True):
                takers = [name for name in result if partition.topic in members[name].topics]
                taker = min(takers, key=lambda name: (len(result[name]), name))
                if len(result[taker]) + 1 < len(result[giver]):
                    result[giver].remove(partition)
                    result[taker].append(partition)
                    moved = True
