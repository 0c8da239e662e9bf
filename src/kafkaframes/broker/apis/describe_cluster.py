"""DescribeCluster: the nodes, the controller and the cluster's id (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import CLUSTER_NAME
from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeClusterRequest, DescribeClusterResponse

    Request: TypeAlias = RequestOf[DescribeClusterRequest, DescribeClusterResponse]

_BROKERS, _CONTROLLERS = 1, 2


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with the nodes that are up."""
    body, nodes = request.body, broker.nodes
    if body.endpoint_type not in (_BROKERS, _CONTROLLERS):
        return request.response(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    if body.endpoint_type == _CONTROLLERS:  # Kafka's brokers do not tell those either
        return request.response(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    rows = []
    for node_id in nodes.ids:
        node = nodes.by_id[node_id]
        at = nodes.endpoint(node, request.session.listener)
        rows.append(
            request.response.DescribeClusterBroker(broker_id=node_id, host=at.host, port=at.port, rack=node.rack)
        )
    answer = request.response(cluster_id=broker.cluster_id, controller_id=nodes.controller_id, brokers=rows)
    if body.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = broker.access.operations(request.session, "CLUSTER", CLUSTER_NAME)
    return answer


API = Api(
    name="DescribeCluster",
    handle=handle,
    tier="T3",
    behaviour="The nodes that are up, the controller, the cluster's id.",
    notes={"v1+": "controllers are refused, as brokers do", "v2+": "there are no fenced brokers"},
)
