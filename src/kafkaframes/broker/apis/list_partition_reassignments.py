"""ListPartitionReassignments: moves that are under way (KIP-455)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    Request: TypeAlias = RequestOf[ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with none."""
    return request.response(error_message=None)


API = Api(
    name="ListPartitionReassignments",
    handle=handle,
    tier="T3",
    behaviour="Always none: partitions move at once.",
    rights=(Right("DESCRIBE", "CLUSTER"),),
)
