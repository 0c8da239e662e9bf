"""AlterPartitionReassignments: move partitions to other nodes (KIP-455)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )

    Request: TypeAlias = RequestOf[AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Move each partition."""
    return _answer(request, ErrorCode.NONE, lambda topic, one: _move(broker, topic, one.partition_index, one.replicas))


def _refuse(request: Request, code: int) -> Answer:
    return _answer(request, code, lambda *_: (code, None))


def _answer(request: Request, code: int, move: Callable[[str, Any], tuple[int, str | None]]) -> Answer:
    types = request.response
    topics = []
    for asked in request.body.topics:
        moves = [(one.partition_index, *move(asked.name, one)) for one in asked.partitions]
        rows = [
            types.ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=message)
            for index, code, message in moves
        ]
        topics.append(types.ReassignableTopicResponse(name=asked.name, partitions=rows))
    allows = request.body.allow_replication_factor_change or not topics  # without topics Kafka tells the default
    return request.response(
        error_code=code, error_message=None, responses=topics, allow_replication_factor_change=bool(code) or allows
    )


def _move(broker: BrokerState, topic: str, index: int, replicas: list[int] | None) -> tuple[int, str | None]:
    partition = broker.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no move is under way"
    if not replicas or not set(replicas).issubset(broker.nodes.by_id) or len(set(replicas)) < len(replicas):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(replicas)}"
    if partition.leader_id not in replicas:
        broker.move_leader(partition, replicas[0])
    return ErrorCode.NONE, None


API = Api(
    name="AlterPartitionReassignments",
    handle=handle,
    tier="T3",
    behaviour="A partition moves to the first node of the list at once; there is nothing to copy.",
    gaps=("replicas beside the first are nominal", "no move is ever under way, so none can be cancelled"),
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
