"""The server side assignors of consumer groups: ``uniform`` and ``range`` (KIP-848). Pure functions.

Both are sticky: who has a partition keeps it as long as the assignment stays balanced.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import islice
from types import MappingProxyType
from typing import Final
from uuid import UUID

from kafkaframes.coordination.groups.consumer import NOTHING, Assignment, Partition

Subscriptions = Mapping[str, frozenset[UUID]]  # topics by member
Counts = Mapping[UUID, int]  # partitions by topic
Assignor = Callable[[Subscriptions, Mapping[str, Assignment], Counts], dict[str, Assignment]]


def uniform(subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts) -> dict[str, Assignment]:
    """Spread all partitions evenly: with equal subscriptions no two members differ by more than one.

    Args:
        subscriptions: the topics of each member that there are.
        current: the target that each member has.
        counts: how many partitions each topic has.
    """
    if len(set(subscriptions.values())) == 1:
        return _uniform_of_equals(subscriptions, current, counts)
    return _uniform_of_others(subscriptions, current, counts)


def _uniform_of_equals(
    subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts
) -> dict[str, Assignment]:
    topics = next(iter(subscriptions.values()))
    everything = _partitions(topics, counts)
    least, extra = divmod(len(everything), len(subscriptions))
    kept: dict[str, set[Partition]] = {}
    quotas_left: dict[str, int] = {}
    taken: set[Partition] = set()
    for number, member_id in enumerate(subscriptions):
        quota = least + (number < extra)
        mine = [
            partition
            for partition in sorted(current.get(member_id, NOTHING))
            if partition[0] in topics and partition[1] < counts[partition[0]]
        ]
        kept[member_id] = set(mine[:quota]) - taken
        taken |= kept[member_id]
        quotas_left[member_id] = quota - len(kept[member_id])
    free = iter([partition for partition in everything if partition not in taken])
    for member_id, count in quotas_left.items():
        kept[member_id].update(islice(free, count))
    return {member_id: frozenset(mine) for member_id, mine in kept.items()}


def _uniform_of_others(
    subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts
) -> dict[str, Assignment]:
    """Keep what is held, give what is free to who has least, then level out what can be moved."""
    topics = frozenset[UUID]().union(*subscriptions.values())
    subscriber_counts = Counter(topic for mine in subscriptions.values() for topic in mine)
    owner: dict[Partition, str] = {}
    for member_id, mine in subscriptions.items():
        for partition in current.get(member_id, NOTHING):
            if partition[0] in mine and partition[1] < counts[partition[0]]:
                owner.setdefault(partition, member_id)
    held = dict.fromkeys(subscriptions, 0)
    for member_id in owner.values():
        held[member_id] += 1
    everything = sorted(_partitions(topics, counts), key=lambda partition: (subscriber_counts[partition[0]], partition))
    poorest = _Poorest(subscriptions, held)
    for partition in everything:
        if partition not in owner:
            owner[partition] = poorest.reader_of(partition[0])
            held[owner[partition]] += 1
    _level(everything, owner, held, subscriptions)
    assigned: dict[str, set[Partition]] = {member_id: set() for member_id in subscriptions}
    for partition, member_id in owner.items():
        assigned[member_id].add(partition)
    return {member_id: frozenset(mine) for member_id, mine in assigned.items()}


def _level(
    everything: Sequence[Partition],
    owner: dict[Partition, str],
    held: dict[str, int],
    subscriptions: Subscriptions,
) -> None:
    """Move partitions to readers that have at least two less, until there is none; every move makes the sum smaller."""
    moved = True
    while moved:
        moved, poorest = False, _Poorest(subscriptions, held)
        for partition in everything:
            reader = poorest.reader_of(partition[0])
            if held[owner[partition]] > held[reader] + 1:
                held[owner[partition]] -= 1
                held[reader] += 1
                owner[partition] = reader
                moved = True


class _Poorest:
    """Says which reader of a topic holds least, without looking at all: a group may have thousands.

    A reader that has lost partitions since this was made may be passed over; one that has got some is not.
    """

    def __init__(self, subscriptions: Subscriptions, held: Mapping[str, int]) -> None:
        self._held = held
        self._heaps: defaultdict[UUID, list[tuple[int, int, str]]] = defaultdict(list)
        for number, (member_id, mine) in enumerate(subscriptions.items()):
            for topic in mine:
                self._heaps[topic].append((held[member_id], number, member_id))
        for heap in self._heaps.values():
            heapify(heap)

    def reader_of(self, topic: UUID) -> str:
        """Return the reader, the first of those that hold equally few."""
        heap = self._heaps[topic]
        while heap[0][0] != self._held[heap[0][2]]:
            _, number, member_id = heap[0]
            heapreplace(heap, (self._held[member_id], number, member_id))
        return heap[0][2]


def range_(subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts) -> dict[str, Assignment]:
    """Give each reader of a topic a run of its partitions; the same members get the same numbers of every topic."""
    assigned: dict[str, set[Partition]] = {member_id: set() for member_id in subscriptions}
    topics = frozenset[UUID]().union(*subscriptions.values()) if subscriptions else frozenset[UUID]()
    for topic in sorted(topics):
        subscriber_counts = [member_id for member_id, mine in subscriptions.items() if topic in mine]
        for member_id, indexes in _range_of_topic(topic, subscriber_counts, current, counts[topic]).items():
            assigned[member_id].update((topic, index) for index in indexes)
    return {member_id: frozenset(mine) for member_id, mine in assigned.items()}


def _range_of_topic(
    topic: UUID, subscriber_counts: Sequence[str], current: Mapping[str, Assignment], count: int
) -> dict[str, list[int]]:
    least, extra = divmod(count, len(subscriber_counts))
    assigned: dict[str, list[int]] = {}
    missing: list[tuple[str, int]] = []
    taken: set[int] = set()
    for member_id in subscriber_counts:
        mine = sorted(index for at, index in current.get(member_id, NOTHING) if at == topic and index < count)
        mine = [index for index in mine if index not in taken]
        keeps = least
        if len(mine) > least and extra:
            keeps, extra = least + 1, extra - 1
        else:
            missing.append((member_id, least - len(mine)))
        assigned[member_id] = mine[:keeps]
        taken.update(mine[:keeps])
    free = iter([index for index in range(count) if index not in taken])
    for member_id, count_missing in missing:
        if extra:
            count_missing, extra = count_missing + 1, extra - 1
        assigned[member_id] += islice(free, max(count_missing, 0))
    return assigned


def _partitions(topics: frozenset[UUID], counts: Counts) -> list[Partition]:
    return [(topic, index) for topic in sorted(topics) for index in range(counts[topic])]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": uniform, "range": range_})
