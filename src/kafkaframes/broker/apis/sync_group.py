"""SyncGroup: the leader brings the assignment, every member gets its part.

A rebalance in between ends the wait with REBALANCE_IN_PROGRESS. Who has joined and does not send it within the
rebalance timeout is out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Later, Right
from kafkaframes.broker.apis._groups import GROUP, elsewhere
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.classic import SyncResult
from kafkaframes.coordination.groups.rebalance import Sync
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import SyncGroupRequest, SyncGroupResponse

    Request: TypeAlias = RequestOf[SyncGroupRequest, SyncGroupResponse]

_FIRST_WITH_NAMES = 5


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer when the assignment is there, or at once if the member is refused."""
    body = request.body
    later = Later()

    def reply(result: SyncResult) -> None:
        later.complete(
            request.response(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    code = elsewhere(request, broker, GROUP, body.group_id)
    if (
        code == ErrorCode.NONE
        and request.version >= _FIRST_WITH_NAMES
        and None in (body.protocol_type, body.protocol_name)
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code != ErrorCode.NONE:
        reply(SyncResult(code))
        return later
    sync = Sync(
        body.group_id,
        body.generation_id,
        body.member_id,
        body.group_instance_id,
        {one.member_id: one.assignment for one in body.assignments},
        body.protocol_type,
        body.protocol_name,
    )
    broker.groups.sync(sync, reply)
    return later


API = Api(
    name="SyncGroup",
    handle=handle,
    tier="T1",
    behaviour="Answers with the member's assignment once the leader has sent it and it is in the log.",
    notes={
        "v3+": "static members",
        "v5+": "the protocol's type and name must be in it, and are checked",
    },
    rights=(Right("READ", "GROUP", "group_id"),),
)
