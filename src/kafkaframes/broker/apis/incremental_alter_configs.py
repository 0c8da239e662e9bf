"""IncrementalAlterConfigs (44): change single settings: SET, DELETE, APPEND, SUBTRACT (KIP-339).

Versions 0 and 1.

Gaps: none known.
"""

from __future__ import annotations

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.configs import altered, change
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState


def handle(request: Request, broker: BrokerState) -> Answer:
    """Change each resource, for itself."""
    rows = []
    for asked in request.body.resources:
        code, message = change(
            request,
            broker,
            asked.resource_type,
            asked.resource_name,
            altered(asked.configs),
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


API = Api(
    name="IncrementalAlterConfigs",
    handle=handle,
    tier="T3",
    behaviour="SET, DELETE, APPEND and SUBTRACT of single settings.",
)
