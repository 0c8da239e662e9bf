"""The requests and responses of a consumer's state machine, independent of protocol versions.

``consumer_task`` sends the requests to brokers. The schedules of ``tests/soak/consumer_schedules.py`` simulate the
responses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kafkaframes.client.assignors import MemberSubscription
from kafkaframes.client.metadata import Node, TopicPartition
from kafkaframes.client.offsets import EpochQuery

TopicPartitionsById = tuple[tuple[UUID, tuple[int, ...]], ...]


class JoinGroup(NamedTuple):
    """A JoinGroup request.

    Attributes:
        owned_partitions: partitions that the member keeps while it joins (KIP-429).
    """

    member_id: str
    generation: int
    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...]


class JoinGroupResponse(NamedTuple):
    """A JoinGroup response.

    Attributes:
        member_id: id of this member. If the generation is negative, the member must join again with this id (KIP-394).
        protocol: name of the assignor that the coordinator has selected.
        members: all members if this member is the leader, otherwise None.
        skips_assignment: whether the leader must not assign partitions, because the leader is a returning static member
            (KIP-814).
    """

    member_id: str
    generation: int
    protocol: str = ""
    members: Mapping[str, MemberSubscription] | None = None
    skips_assignment: bool = False


class SyncGroup(NamedTuple):
    """A SyncGroup request.

    Attributes:
        assignment: partitions by member id if this member is the leader, otherwise None.
    """

    member_id: str
    generation: int
    protocol: str
    assignment: Mapping[str, Sequence[TopicPartition]] | None


class Heartbeat(NamedTuple):
    """A Heartbeat request of the classic protocol."""

    member_id: str
    generation: int


class LeaveGroup(NamedTuple):
    """A LeaveGroup request of the classic protocol."""

    member_id: str


class ConsumerHeartbeat(NamedTuple):
    """A ConsumerGroupHeartbeat request (KIP-848).

    Attributes:
        epoch: member epoch; 0 joins, -1 leaves, and -2 leaves temporarily (static members).
        is_full: whether the request has all fields, not only the changed ones.
        topics: names of the subscribed topics; None if unchanged.
        owned_partitions: owned partitions by topic id; None if unchanged.
    """

    member_id: str
    epoch: int
    is_full: bool = False
    topics: tuple[str, ...] | None = None
    owned_partitions: TopicPartitionsById | None = None


class ConsumerHeartbeatResponse(NamedTuple):
    """A ConsumerGroupHeartbeat response.

    Attributes:
        interval_s: heartbeat interval, in seconds.
        assignment: assigned partitions by topic id; None if unchanged.
    """

    member_id: str
    epoch: int
    interval_s: float
    assignment: TopicPartitionsById | None


class FetchMetadata(NamedTuple):
    """A Metadata request for ``topics``, or for all topics if ``topics`` is None."""

    topics: frozenset[str] | None


class FetchCommittedOffsets(NamedTuple):
    """An OffsetFetch request.

    Attributes:
        versions: versions of the positions. If a position changes, the response to an older version is ignored.
    """

    versions: Mapping[TopicPartition, int]


class ListOffsets(NamedTuple):
    """A ListOffsets request to one leader.

    Attributes:
        timestamps: timestamps to look up, by partition.
    """

    node: Node
    versions: Mapping[TopicPartition, int]
    timestamps: Mapping[TopicPartition, int]


class FetchEpochEnds(NamedTuple):
    """An OffsetForLeaderEpoch request to one leader (KIP-320)."""

    node: Node
    versions: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, EpochQuery]


class FetchRecords(NamedTuple):
    """A Fetch request to one node."""

    node: Node
    versions: Mapping[TopicPartition, int]


GroupRequest = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerHeartbeat
PositionRequest = FetchCommittedOffsets | ListOffsets | FetchEpochEnds | FetchRecords
Request = GroupRequest | PositionRequest | FetchMetadata
