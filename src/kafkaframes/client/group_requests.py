"""What a consumer's state machine asks of brokers, and the answers, as plain values that no version of Kafka changes.

``consumer_task`` sends them as messages; the schedules of ``tests/soak/consumer_schedules.py`` answer them without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kafkaframes.client.assignors import Member
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.client.offsets import EpochQuery

TopicPartitionsById = tuple[tuple[UUID, tuple[int, ...]], ...]


class JoinGroup(NamedTuple):
    """A JoinGroup: ``owned`` are the partitions that the member keeps while it joins (KIP-429)."""

    member_id: str
    generation: int
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]


class JoinGroupAnswer(NamedTuple):
    """The answer to a JoinGroup.

    Attributes:
        member_id: of this member; with a negative generation it must join again under this id (KIP-394).
        protocol: the name of the assignor that the coordinator has chosen.
        members: all members if this one is the leader, else None.
        skips_assignment: the leader must not assign partitions: it is a static member that returned (KIP-814).
    """

    member_id: str
    generation: int
    protocol: str = ""
    members: Mapping[str, Member] | None = None
    skips_assignment: bool = False


class SyncGroup(NamedTuple):
    """A SyncGroup; ``assignment`` is the leader's, by member id, None from the other members."""

    member_id: str
    generation: int
    protocol: str
    assignment: Mapping[str, Sequence[TopicPartition]] | None


class Heartbeat(NamedTuple):
    """A heartbeat of the classic protocol."""

    member_id: str
    generation: int


class LeaveGroup(NamedTuple):
    """A member that leaves its classic group."""

    member_id: str


class ConsumerHeartbeat(NamedTuple):
    """A heartbeat of the consumer protocol (KIP-848).

    Attributes:
        epoch: 0 to join, -1 to leave, -2 for a static member that will return.
        is_full: whether it carries all that the coordinator should know, and not only what has changed.
        topics: subscribed names, None if they have not changed.
        owned: owned partitions by topic id, None if they have not changed.
    """

    member_id: str
    epoch: int
    is_full: bool = False
    topics: tuple[str, ...] | None = None
    owned: TopicPartitionsById | None = None


class ConsumerHeartbeatAnswer(NamedTuple):
    """The answer to a ConsumerHeartbeat; ``assignment`` is None if it has not changed."""

    member_id: str
    epoch: int
    interval_s: float
    assignment: TopicPartitionsById | None


class FetchMetadata(NamedTuple):
    """A Metadata request for these topics, for all if None."""

    topics: frozenset[str] | None


class FetchCommitted(NamedTuple):
    """An OffsetFetch. The numbers are versions of positions: an answer to an older one is ignored."""

    versions: Mapping[TopicPartition, int]


class ListOffsets(NamedTuple):
    """A ListOffsets to one leader: the timestamp to look for, by partition."""

    node: Broker
    versions: Mapping[TopicPartition, int]
    timestamps: Mapping[TopicPartition, int]


class FetchEpochEnds(NamedTuple):
    """An OffsetForLeaderEpoch to one leader (KIP-320)."""

    node: Broker
    versions: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, EpochQuery]


class FetchRecords(NamedTuple):
    """A Fetch from one node."""

    node: Broker
    versions: Mapping[TopicPartition, int]


GroupRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerHeartbeat
PositionRequest = FetchCommitted | ListOffsets | FetchEpochEnds | FetchRecords
Request = GroupRequest | PositionRequest | FetchMetadata
