"""AlterConfigs: replace all settings of a resource (KIP-133)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.config_changes import alter_resources, replaced
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AlterConfigsRequest, AlterConfigsResponse

    Request: TypeAlias = RequestOf[AlterConfigsRequest, AlterConfigsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change each resource, for itself."""
    return alter_resources(request, broker, replaced)


API = Api(
    name="AlterConfigs",
    handle=handle,
    tier="T3",
    behaviour="Replaces all settings of a resource; what is not named goes back to its default.",
    rights=(
        Right("ALTER_CONFIGS", "TOPIC", each="each topic"),
        Right("ALTER_CONFIGS", "GROUP", each="each group"),
        Right("ALTER_CONFIGS", "CLUSTER", each="each broker, and client metrics"),
    ),
)
