"""DescribeQuorum: who keeps the cluster's metadata (KIP-595)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeQuorumRequest, DescribeQuorumResponse

    Request: TypeAlias = RequestOf[DescribeQuorumRequest, DescribeQuorumResponse]

_TOPIC = "__cluster_metadata"
_FIRST_WITH_NODES = 2


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer for the one partition of the metadata topic; any other is unknown."""
    is_right = [(one.topic_name, [row.partition_index for row in one.partitions]) for one in request.body.topics] == [
        (_TOPIC, [0])
    ]
    indexes = [row.partition_index for asked in request.body.topics for row in asked.partitions]
    return broker.changes.rows(
        indexes,
        lambda index: _row(request, broker, index, is_right=is_right),
        lambda rows: _answer(request, broker, rows, is_right=is_right),
    )


def _answer(
    request: Request, broker: BrokerState, rows: list[DescribeQuorumResponse.PartitionData], *, is_right: bool
) -> Answer:
    types, left = request.response, iter(rows)
    topics = [
        types.TopicData(topic_name=asked.topic_name, partitions=list(islice(left, len(asked.partitions))))
        for asked in request.body.topics
    ]
    controller = broker.nodes.controller_id
    node = broker.nodes.by_id.get(controller)
    nodes = []
    if is_right and node is not None and request.version >= _FIRST_WITH_NODES:
        at = broker.nodes.endpoint(node, request.session.listener)
        listener = types.Listener(name=request.session.listener, host=at.host, port=max(at.port, 0))
        nodes = [types.Node(node_id=controller, listeners=[listener])]
    return request.response(error_message=None, topics=topics, nodes=nodes)


def _row(request: Request, broker: BrokerState, index: int, *, is_right: bool) -> DescribeQuorumResponse.PartitionData:
    types = request.response
    if not is_right:
        return types.PartitionData(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
        )
    controller = broker.nodes.controller_id
    voter = types.ReplicaState(replica_id=controller, log_end_offset=0)
    return types.PartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        leader_id=controller,
        leader_epoch=1,
        current_voters=[voter],
    )


API = Api(
    name="DescribeQuorum",
    handle=handle,
    tier="T3",
    behaviour="The first node is the only voter.",
    gaps=("there is no __cluster_metadata log: its end is told as 0",),
    rights=(Right("DESCRIBE", "CLUSTER"),),
)
