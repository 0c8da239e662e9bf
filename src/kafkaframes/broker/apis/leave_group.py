"""LeaveGroup: members leave a group, or are removed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.rebalance import Leaving
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import LeaveGroupRequest, LeaveGroupResponse

    Request: TypeAlias = RequestOf[LeaveGroupRequest, LeaveGroupResponse]

_FIRST_WITH_MANY = 3


def handle(request: Request, broker: BrokerState) -> Answer:
    """Let them go."""
    body = request.body
    code = elsewhere(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    has_many = request.version >= _FIRST_WITH_MANY
    leaving = (
        [Leaving(one.member_id, one.group_instance_id) for one in body.members]
        if has_many
        else [Leaving(body.member_id)]
    )
    try:
        codes = broker.groups.leave(body.group_id, leaving)
    except KafkaframesError as error:
        return request.response(error_code=error_of(error))
    if not has_many:
        return request.response(error_code=codes[0])
    rows = [
        request.response.MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=code)
        for one, code in zip(leaving, codes, strict=True)
    ]
    return request.response(members=rows)


API = Api(
    name="LeaveGroup",
    handle=handle,
    tier="T1",
    behaviour="Removes members; the others are told by their next heartbeat.",
    notes={
        "v0-v2": "one member; its error is the request's",
        "v3+": "many, with an error each; static ones by their instance id (KIP-345)",
        "v5+": "the reason is not kept",
    },
    rights=(Right("READ", "GROUP", "group_id"),),
)
