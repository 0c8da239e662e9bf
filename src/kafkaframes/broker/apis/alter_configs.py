"""AlterConfigs (33): replace all settings of a resource (KIP-133); what is not named goes back to its default.

Versions 0 to 2.

Gaps: none known.
"""

from __future__ import annotations

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.configs import Change, change
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import OptionError


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change each resource, for itself."""
    rows = []
    for asked in request.body.resources:
        code, message = change(
            request,
            broker,
            asked.resource_type,
            asked.resource_name,
            _replaced({one.name: one.value for one in asked.configs}),
            validate_only=request.body.validate_only,
        )
        rows.append(
            request.types.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )
    return request.response(responses=rows)


def _replaced(given: dict[str, str | None]) -> Change:
    def make(old: dict[str, str]) -> dict[str, str]:
        nulls = [name for name, value in given.items() if value is None]
        if nulls:
            raise OptionError(f"no value for {', '.join(nulls)}")
        return {name: value for name, value in given.items() if value is not None}

    return make


API = Api(
    name="AlterConfigs",
    handle=handle,
    tier="T3",
    behaviour="Replaces all settings of a resource; what is not named goes back to its default.",
)
