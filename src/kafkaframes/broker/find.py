"""Find the partition that a request means, or the error code that says why it cannot be had."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.broker.access import CLUSTER_NAME, denied
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Partition, Topic
from kafkaframes.errors import ErrorCode

NO_EPOCH = -1


class KnownTopic(NamedTuple):
    """A topic, or why there is none: ``code`` is for each of its partitions."""

    topic: Topic | None
    code: int


def find_topic(
    request: Request,
    broker: BrokerState,
    name: str,
    topic_id: UUID = NO_UUID,
    *,
    by_id: bool = False,
    right: str = "TOPIC",
) -> KnownTopic:
    """Find a topic by name or id, if the client has the right, to it or to the cluster, that the API declares."""
    topic = broker.topics_by_id.get(topic_id) if by_id else broker.topics.get(name)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if by_id and topic is None:
        return KnownTopic(None, unknown)
    resource = CLUSTER_NAME if right == "CLUSTER" else topic.name if topic else name
    code = denied(request, broker.access, right, resource)
    if code != ErrorCode.NONE:
        return KnownTopic(None, code)
    return KnownTopic(topic, ErrorCode.NONE if topic is not None else unknown)


def led_here(
    request: Request,
    topic: Topic,
    index: int,
    *,
    current_leader_epoch: int = NO_EPOCH,
    or_follower: bool = False,
) -> tuple[Partition | None, int]:
    """Return a partition of a topic that the node of this connection leads, or None and an error code.

    With ``or_follower`` any node that has a replica will do (KIP-392).
    """
    partition = topic.partition(index)
    if partition is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node_id = request.session.node_id
    if partition.leader_id != node_id and not (or_follower and node_id in partition.replicas):
        return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    code = epoch_code(partition, current_leader_epoch)
    return (None, code) if code else (partition, ErrorCode.NONE)


def epoch_code(partition: Partition, current_leader_epoch: int) -> int:
    """Return the error of a client whose idea of the leader epoch is another (KIP-320)."""
    if current_leader_epoch in (NO_EPOCH, partition.leader_epoch):
        return ErrorCode.NONE
    fenced = current_leader_epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH


def current_leader(request: Request, partition: Partition) -> Any:
    """Return who leads a partition, for the tagged fields of Produce and Fetch (KIP-951)."""
    return request.response.LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.leader_epoch)


def endpoints_of(request: Request, broker: BrokerState, node_ids: set[int]) -> list[Any]:
    """Return the addresses of nodes, for the tagged fields of Produce and Fetch (KIP-951)."""
    rows = []
    for node_id in sorted(node_ids & set(broker.nodes.ids)):
        node = broker.nodes.by_id[node_id]
        at = broker.nodes.endpoint(node, request.session.listener)
        rows.append(request.response.NodeEndpoint(node_id=node_id, host=at.host, port=at.port, rack=node.rack))
    return rows
