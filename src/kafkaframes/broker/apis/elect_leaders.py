"""ElectLeaders: let the preferred replicas lead (KIP-183, KIP-460)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ElectLeadersRequest, ElectLeadersResponse

    Request: TypeAlias = RequestOf[ElectLeadersRequest, ElectLeadersResponse]

_PREFERRED, _UNCLEAN = 0, 1


def handle(request: Request, broker: BrokerState) -> Answer:
    """Say for each partition why no election is needed, or that there is nobody to elect."""
    body = request.body
    if body.topic_partitions == []:  # Kafka's QuorumController.electLeaders looks at nothing else then
        return request.response()
    if body.election_type not in (_PREFERRED, _UNCLEAN):
        return _refuse(request, ErrorCode.INVALID_REQUEST)
    results = []
    if body.topic_partitions is None:  # Kafka names every topic, and no partition that needed no election
        every = [request.response.ReplicaElectionResult(topic=name) for name in broker.topics]
        return request.response(replica_election_results=every)
    for asked in body.topic_partitions:
        rows: list[Any] = [_row(request, broker, asked.topic, index) for index in asked.partitions]
        results.append(request.response.ReplicaElectionResult(topic=asked.topic, partition_result=rows))
    return request.response(replica_election_results=results)


def _row(request: Request, broker: BrokerState, topic: str, index: int) -> ElectLeadersResponse.PartitionResult:
    partition = broker.partition(topic, index)
    code, message = ErrorCode.ELECTION_NOT_NEEDED, "the replica leads already"
    if partition is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
    elif partition.leader_id not in broker.nodes.ids:
        is_preferred, message = request.body.election_type == _PREFERRED, "the node is down"
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if is_preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return request.response.PartitionResult(partition_id=index, error_code=code, error_message=message)


def _refuse(request: Request, code: int) -> Answer:
    """Refuse every partition; version 0 has no error beside them."""
    types = request.response
    rows = [
        types.ReplicaElectionResult(
            topic=asked.topic,
            partition_result=[types.PartitionResult(partition_id=index, error_code=code) for index in asked.partitions],
        )
        for asked in request.body.topic_partitions or ()
    ]
    return request.response(error_code=code if request.version else ErrorCode.NONE, replica_election_results=rows)


API = Api(
    name="ElectLeaders",
    handle=handle,
    tier="T3",
    behaviour="Each partition has one replica: no election is needed, or its node is down.",
    notes={
        "v0": "preferred elections only",
        "v1+": "unclean ones, and an error of its own",
    },
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
