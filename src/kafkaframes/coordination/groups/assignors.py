"""The server-side assignors of consumer groups, ``uniform`` and ``range`` (KIP-848), as pure functions.

Both assignors are sticky: a member keeps its partitions as long as the assignment stays balanced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final
from uuid import UUID

from kafkaframes.coordination.groups.consumer import NO_PARTITIONS, Assignment, Partition
from kafkaframes.coordination.groups.sticky import assign_sticky

Subscriptions = Mapping[str, frozenset[UUID]]  # topic ids by member id
Counts = Mapping[UUID, int]  # number of partitions by topic id
Assignor = Callable[[Subscriptions, Mapping[str, Assignment], Counts], dict[str, Assignment]]


def assign_uniform(
    subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts
) -> dict[str, Assignment]:
    """Distribute all partitions evenly.

    If all members have the same subscription, their partition counts differ by at most one.

    Args:
        subscriptions: existing topics of each member's subscription, by member id.
        current: current target assignment, by member id.
        counts: number of partitions, by topic id.
    """
    if len(set(subscriptions.values())) == 1:
        return _assign_equal_subscriptions(subscriptions, current, counts)
    return _assign_different_subscriptions(subscriptions, current, counts)


def _assign_equal_subscriptions(
    subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts
) -> dict[str, Assignment]:
    topics = next(iter(subscriptions.values()))
    partitions = _list_partitions(topics, counts)
    min_quota, extra = divmod(len(partitions), len(subscriptions))
    assignments: dict[str, set[Partition]] = {}
    quotas_left: dict[str, int] = {}
    assigned_partitions: set[Partition] = set()
    current_partitions = {
        member_id: sorted(
            partition
            for partition in current.get(member_id, NO_PARTITIONS)
            if partition[0] in topics and partition[1] < counts[partition[0]]
        )
        for member_id in subscriptions
    }
    # The members with the most partitions get one more than the rest. Kafka's assignor gives the additional ones to
    # the first members, and moves partitions that could have stayed.
    by_load = sorted(subscriptions, key=lambda member_id: -len(current_partitions[member_id]))
    for number, member_id in enumerate(by_load):
        quota = min_quota + (number < extra)
        remaining_partitions = [
            partition for partition in current_partitions[member_id] if partition not in assigned_partitions
        ]
        assignments[member_id] = set(remaining_partitions[:quota])
        assigned_partitions |= assignments[member_id]
        quotas_left[member_id] = quota - len(assignments[member_id])
    free = iter([partition for partition in partitions if partition not in assigned_partitions])
    for member_id, count in quotas_left.items():
        assignments[member_id].update(islice(free, count))
    return {member_id: frozenset(member_partitions) for member_id, member_partitions in assignments.items()}


def _assign_different_subscriptions(
    subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts
) -> dict[str, Assignment]:
    owners: dict[Partition, str] = {}
    for member_id, topic_ids in subscriptions.items():
        for partition in current.get(member_id, NO_PARTITIONS):
            if partition[0] in topic_ids and partition[1] < counts[partition[0]]:
                owners.setdefault(partition, member_id)
    assignments: dict[str, set[Partition]] = {member_id: set() for member_id in subscriptions}
    for partition, member_id in assign_sticky(subscriptions, owners, counts).items():
        assignments[member_id].add(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in assignments.items()}


def assign_range(
    subscriptions: Subscriptions, current: Mapping[str, Assignment], counts: Counts
) -> dict[str, Assignment]:
    """Give each subscriber of a topic a contiguous range of partitions, in the same member order for every topic."""
    assignments: dict[str, set[Partition]] = {member_id: set() for member_id in subscriptions}
    topics = frozenset[UUID]().union(*subscriptions.values()) if subscriptions else frozenset[UUID]()
    for topic in sorted(topics):
        subscribers = [member_id for member_id, topic_ids in subscriptions.items() if topic in topic_ids]
        for member_id, indexes in _assign_range(topic, subscribers, current, counts[topic]).items():
            assignments[member_id].update((topic, index) for index in indexes)
    return {member_id: frozenset(partitions) for member_id, partitions in assignments.items()}


def _assign_range(
    topic: UUID, subscribers: Sequence[str], current: Mapping[str, Assignment], count: int
) -> dict[str, list[int]]:
    min_quota, extra = divmod(count, len(subscribers))
    indexes_by_member: dict[str, list[int]] = {}
    missing: list[tuple[str, int]] = []
    assigned_indexes: set[int] = set()
    for member_id in subscribers:
        member_indexes = sorted(
            index for topic_id, index in current.get(member_id, NO_PARTITIONS) if topic_id == topic and index < count
        )
        member_indexes = [index for index in member_indexes if index not in assigned_indexes]
        quota = min_quota
        if len(member_indexes) > min_quota and extra:
            quota, extra = min_quota + 1, extra - 1
        else:
            missing.append((member_id, min_quota - len(member_indexes)))
        indexes_by_member[member_id] = member_indexes[:quota]
        assigned_indexes.update(member_indexes[:quota])
    free = iter([index for index in range(count) if index not in assigned_indexes])
    for member_id, count_missing in missing:
        if extra:
            count_missing, extra = count_missing + 1, extra - 1
        indexes_by_member[member_id] += islice(free, max(count_missing, 0))
    return indexes_by_member


def _list_partitions(topics: frozenset[UUID], counts: Counts) -> list[Partition]:
    return [(topic, index) for topic in sorted(topics) for index in range(counts[topic])]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
