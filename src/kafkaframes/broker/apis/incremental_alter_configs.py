"""IncrementalAlterConfigs: change single settings (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.config_changes import alter_resources, altered
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

    Request: TypeAlias = RequestOf[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change each resource, for itself."""
    return alter_resources(request, broker, altered)


API = Api(
    name="IncrementalAlterConfigs",
    handle=handle,
    tier="T3",
    behaviour="SET, DELETE, APPEND and SUBTRACT of single settings.",
    rights=(
        Right("ALTER_CONFIGS", "TOPIC", each="each topic"),
        Right("ALTER_CONFIGS", "GROUP", each="each group"),
        Right("ALTER_CONFIGS", "CLUSTER", each="each broker, its loggers, and client metrics"),
    ),
)
