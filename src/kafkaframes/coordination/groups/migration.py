"""A classic group with members becomes a consumer group, and the other way round (KIP-848, "Online migration").

Upgrade: the first heartbeat of a member that speaks the consumer protocol converts the group; its other members keep
speaking the classic one until they are restarted. Downgrade: the last of those that speak the consumer protocol leaves.
Nobody loses what it has by either. Facts: ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from kafkaframes.coordination.groups.classic import CONSUMER, ClassicGroup, ClassicMember, GroupState
from kafkaframes.coordination.groups.consumer import Assigned, ClassicFacts, ConsumerGroup, ConsumerMember
from kafkaframes.coordination.groups.embedded import read_assignment, read_subscription, write_assignment
from kafkaframes.storage.files.names import TopicPartition


class Topics(Protocol):
    """The topics of the broker."""

    def names(self) -> Iterable[str]:
        """Return all names."""

    def find(self, name: str) -> tuple[UUID, int] | None:
        """Return a topic's id and how many partitions it has."""


def consumer_group_of(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    """Return the consumer group that a classic group with members becomes; the classic group stays as it is.

    Raises:
        DecodeError: a member's subscription or assignment is none of a consumer.
    """
    made = ConsumerGroup(group.group_id, epoch=group.generation, assignment_epoch=group.generation)
    for member in group.members.values():
        subscription = read_subscription(member.metadata(group.protocol_name or member.protocols[0][0]))
        assigned = with_ids(read_assignment(member.assignment), topics)
        made.targets[member.member_id] = assigned
        made.put(
            ConsumerMember(
                member.member_id,
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                topics=tuple(sorted(set(subscription.topics))),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=assigned,
                classic=ClassicFacts(member.session_timeout_ms, member.protocols),
            )
        )
    return made


def classic_group_of(group: ConsumerGroup, leaving: frozenset[str], topics: Topics, now_ms: int) -> ClassicGroup:
    """Return the classic group that a consumer group becomes without some members; it is Stable."""
    made = ClassicGroup(group.group_id, state=GroupState.STABLE, since_ms=now_ms, generation=group.epoch)
    names = names_by_id(topics)
    for member in group.members.values():
        if member.member_id in leaving or member.classic is None:
            continue
        made.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER,
                member.classic.protocols,
                assignment=assignment_of(member, group.targets.get(member.member_id, member.assigned), names),
            )
        )
    made.protocol_name = made.select_protocol()
    made.subscribed_topics = made.compute_subscribed_topics()
    return made


def assignment_of(member: ConsumerMember, assigned: Assigned, names: Mapping[UUID, str]) -> bytes:
    """Return an assignment in the words of the classic protocol that a member speaks."""
    assert member.classic is not None
    version = read_subscription(member.classic.protocols[0][1]).version
    return write_assignment((TopicPartition(names[one], index) for one, index in assigned if one in names), version)


def with_ids(partitions: Iterable[TopicPartition], topics: Topics) -> Assigned:
    """Return partitions with the ids of their topics; those of topics that are gone are left out."""
    return frozenset(
        (known[0], partition.partition)
        for partition in partitions
        if (known := topics.find(partition.topic)) is not None
    )


def names_by_id(topics: Topics) -> dict[UUID, str]:
    """Return the name of each topic."""
    return {known[0]: name for name in topics.names() if (known := topics.find(name)) is not None}
