"""Heartbeat: a member says that it is there, and hears whether it must join again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, elsewhere
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import HeartbeatRequest, HeartbeatResponse

    Request: TypeAlias = RequestOf[HeartbeatRequest, HeartbeatResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Begin the member's session timeout anew."""
    body = request.body
    code = elsewhere(request, broker, GROUP, body.group_id)
    if code == ErrorCode.NONE:
        code = broker.groups.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    return request.response(error_code=code)


API = Api(
    name="Heartbeat",
    handle=handle,
    tier="T1",
    behaviour="Begins the member's session timeout anew; REBALANCE_IN_PROGRESS while the group waits for joins.",
    notes={"v3+": "static members"},
    rights=(Right("READ", "GROUP", "group_id"),),
)
