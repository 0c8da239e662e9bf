"""AlterConfigs (33): replace all settings of a resource (KIP-133); what is not named goes back to its default.

Versions 0 to 2.

Gaps: none known.
"""

from __future__ import annotations

from typing import Any

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.configs import Change, alter_resources
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import OptionError


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change each resource, for itself."""
    return alter_resources(request, broker, _replaced)


def _replaced(rows: list[Any]) -> Change:
    given = {one.name: one.value for one in rows}

    def make(old: dict[str, str]) -> dict[str, str]:
        nulls = [name for name, value in given.items() if value is None]
        if nulls:
            raise OptionError(f"no value for {', '.join(nulls)}")
        return given

    return make


API = Api(
    name="AlterConfigs",
    handle=handle,
    tier="T3",
    behaviour="Replaces all settings of a resource; what is not named goes back to its default.",
    rights=(
        Right("ALTER_CONFIGS", "TOPIC", each="each topic"),
        Right("ALTER_CONFIGS", "GROUP", each="each group"),
        Right("ALTER_CONFIGS", "CLUSTER", each="each broker, its loggers, and client metrics"),
    ),
)
