"""Sticky assignment: partitions are distributed evenly, and as many partitions as possible stay with their members.

The assignor uniform of consumer groups (KIP-848) and the client's sticky assignors (KIP-54) use it. It guarantees that

- no partition could be given to another subscriber that has at least two partitions fewer,
- no partition has moved from a member that has fewer partitions than the partition's new member, and
- with equal subscriptions, no assignment that is as even moves fewer partitions.

With different subscriptions, the number of moves is not always the smallest possible number, which Kafka's assignors do
not guarantee either.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar
from uuid import UUID

Topic = TypeVar("Topic", str, UUID)  # a topic's name or id
_LoadEntry = tuple[int, int, str]  # a member's number of partitions, its number and its id


def assign_sticky(
    subscriptions: Mapping[str, frozenset[Topic]], owners: Mapping[tuple[Topic, int], str], counts: Mapping[Topic, int]
) -> dict[tuple[Topic, int], str]:
    """Return the member id of each partition of the subscribed topics.

    Args:
        subscriptions: existing topics of each member's subscription, by member id. If members have equally many
            partitions, the first member gets the next partition.
        owners: member id by partition, before the assignment. Each member is subscribed to the topics of its
            partitions, and the partitions exist.
        counts: number of partitions, by topic.
    """
    subscriber_counts = Counter(topic for topics in subscriptions.values() for topic in topics)
    partitions = [(topic, index) for topic in subscriber_counts for index in range(counts[topic])]
    partitions.sort(key=lambda partition: (subscriber_counts[partition[0]], partition))
    assignment = dict(owners)
    loads = dict.fromkeys(subscriptions, 0)
    for member_id in assignment.values():
        loads[member_id] += 1
    members_by_load = _MembersByLoad(subscriptions, loads)
    for partition in partitions:
        if partition not in assignment:
            assignment[partition] = members_by_load.find_least_loaded(partition[0])
            loads[assignment[partition]] += 1
    while _balance_once(members_by_load, owners, assignment, loads):
        members_by_load = _MembersByLoad(subscriptions, loads)
    return assignment


def _balance_once(
    members_by_load: _MembersByLoad[Topic],
    owners: Mapping[tuple[Topic, int], str],
    assignment: dict[tuple[Topic, int], str],
    loads: dict[str, int],
) -> bool:
    """Check each partition for a better member, and return whether a partition has moved.

    The member with the most partitions always gives away the next partition, so that no member gives away too many
    partitions and gets others back later. A member first gives away partitions that it did not own before the
    assignment. Each move makes the numbers of partitions more even, or returns a partition to its old member without
    making the numbers less even.
    """
    numbers = {member_id: number for number, member_id in enumerate(loads)}
    unchecked_partitions: dict[str, list[tuple[Topic, int]]] = {member_id: [] for member_id in loads}
    for partition in sorted(
        assignment, key=lambda partition: (owners.get(partition) != assignment[partition], partition)
    ):
        unchecked_partitions[assignment[partition]].append(partition)
    sources = [(-loads[member_id], number, member_id) for member_id, number in numbers.items()]
    heapify(sources)
    has_moved = False
    while sources:
        negative_load, _, source = heappop(sources)
        if -negative_load != loads[source]:
            continue  # another entry has the current load
        while unchecked_partitions[source]:
            partition = unchecked_partitions[source].pop()
            old_owner, target = owners.get(partition, source), members_by_load.find_least_loaded(partition[0])
            if loads[old_owner] < loads[source]:
                target = old_owner
            elif loads[target] + 1 >= loads[source]:
                continue
            assignment[partition] = target
            unchecked_partitions[target].append(partition)
            loads[source] -= 1
            loads[target] += 1
            for member_id in (source, target):
                heappush(sources, (-loads[member_id], numbers[member_id], member_id))
            has_moved = True
            break
    return has_moved


class _MembersByLoad(Generic[Topic]):
    """The subscribers of each topic by their number of partitions, for groups with thousands of members.

    The search may overlook a member that has lost partitions since the object was created, but not a member that has
    received partitions.
    """

    def __init__(self, subscriptions: Mapping[str, frozenset[Topic]], loads: Mapping[str, int]) -> None:
        self._loads = loads
        subscribers: defaultdict[Topic, list[_LoadEntry]] = defaultdict(list)
        for number, (member_id, topics) in enumerate(subscriptions.items()):
            entry = loads[member_id], number, member_id
            for topic in topics:
                subscribers[topic].append(entry)
        heaps: dict[tuple[_LoadEntry, ...], list[_LoadEntry]] = {}
        # Topics with the same subscribers share a heap.
        self._heaps: dict[Topic, list[_LoadEntry]] = {
            topic: heaps.setdefault(tuple(entries), entries) for topic, entries in subscribers.items()
        }
        for heap in heaps.values():
            heapify(heap)

    def find_least_loaded(self, topic: Topic) -> str:
        """Return the topic's subscriber with the fewest partitions; if several have equally many, the first of them."""
        heap = self._heaps[topic]
        while heap[0][0] != self._loads[heap[0][2]]:
            _, number, member_id = heap[0]
            heapreplace(heap, (self._loads[member_id], number, member_id))
        return heap[0][2]
