"""ListConfigResources: which resources have settings (KIP-714, KIP-1142)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ListConfigResourcesRequest, ListConfigResourcesResponse

    Request: TypeAlias = RequestOf[ListConfigResourcesRequest, ListConfigResourcesResponse]

_ALL = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)


def handle(request: Request, broker: BrokerState) -> Answer:
    """List the resources of the types that are asked for."""
    kinds = set(request.body.resource_types or _ALL) if request.version else {CLIENT_METRICS}
    if not kinds.issubset(_ALL):
        return request.response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    nodes = [str(node_id) for node_id in broker.nodes.by_id]
    stored = broker.metadata.entities
    names: dict[int, Any] = {
        TOPIC: broker.topics,
        BROKER: nodes,
        BROKER_LOGGER: nodes,
        CLIENT_METRICS: stored.get("client_metrics", {}),
        GROUP: stored.get("group_configs", {}),
    }
    return request.response(
        config_resources=[
            request.response.ConfigResource(resource_name=name, resource_type=kind)
            for kind in _ALL
            if kind in kinds
            for name in names[kind]
        ]
    )


API = Api(
    name="ListConfigResources",
    handle=handle,
    tier="T3",
    behaviour="Topics, brokers, client metrics and groups that have settings.",
    notes={
        "v0": "client metrics only",
        "v1+": "the types of the request, or all",
    },
    rights=(Right("DESCRIBE_CONFIGS", "CLUSTER"),),
)
