"""IncrementalAlterConfigs (44): change single settings: SET, DELETE, APPEND, SUBTRACT (KIP-339).

Versions 0 and 1.

Gaps: none known.
"""

from __future__ import annotations

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.config_changes import alter_resources, altered
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState


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
