"""JoinGroup: a member enters a classic group, or enters its next generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Later, Right
from kafkaframes.broker.apis._groups import GROUP, client_host, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.classic import JoinResult
from kafkaframes.coordination.groups.rebalance import Join
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import JoinGroupRequest, JoinGroupResponse

    Request: TypeAlias = RequestOf[JoinGroupRequest, JoinGroupResponse]

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_REQUIRED_ID = 4
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_WITH_SKIP = 9


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer when the member's generation begins, or at once if it is refused."""
    body, version = request.body, request.version
    later = Later()

    def reply(result: JoinResult) -> None:
        name = result.protocol_name
        later.complete(
            request.response(
                error_code=result.error,
                generation_id=result.generation,
                protocol_type=result.protocol_type,
                protocol_name="" if name is None and version < _FIRST_WITH_NULL_PROTOCOL else name,
                leader=result.leader,
                skip_assignment=result.skip_assignment,
                member_id=result.member_id,
                members=[
                    request.response.JoinGroupResponseMember(
                        member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
                    )
                    for one in result.members
                ],
            )
        )

    code = elsewhere(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        reply(JoinResult(code, body.member_id))
        return later
    has_timeout = version >= _FIRST_WITH_REBALANCE_TIMEOUT
    join = Join(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=request.client_id or "",
        client_host=client_host(request),
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms if has_timeout else body.session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in body.protocols),
        needs_member_id=version >= _FIRST_WITH_REQUIRED_ID,
        may_skip_assignment=version >= _FIRST_WITH_SKIP,
    )
    try:
        broker.groups.join(join, reply)
    except KafkaframesError as error:
        reply(JoinResult(error_of(error), body.member_id))
    return later


def _refuse(request: Request, code: int) -> Answer:
    name = "" if request.version < _FIRST_WITH_NULL_PROTOCOL else None
    return request.response(error_code=code, generation_id=-1, protocol_name=name)


API = Api(
    name="JoinGroup",
    handle=handle,
    tier="T1",
    behaviour=(
        "Answers when every member has joined, or the rebalance timeout is over. A new group waits "
        "group.initial.rebalance.delay.ms first: 0 here, 3000 in Kafka."
    ),
    notes={
        "v0": "the session timeout is the rebalance timeout",
        "v4+": "MEMBER_ID_REQUIRED, with an id to join with (KIP-394)",
        "v5+": "static members (KIP-345)",
        "v7+": "the protocol's type, and null for a protocol that is not known",
        "v8+": "the reason is not kept",
        "v9+": "a static leader that comes back may skip the assignment (KIP-814)",
    },
    rights=(Right("READ", "GROUP", "group_id"),),
    refuse=_refuse,
)
