"""DeleteGroups: groups without members, and their offsets, go."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, error_of, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DeleteGroupsRequest, DeleteGroupsResponse

    Request: TypeAlias = RequestOf[DeleteGroupsRequest, DeleteGroupsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Delete each group."""
    return request.response(
        results=[_deleted(request, broker, name) for name in dict.fromkeys(request.body.groups_names)]
    )


def _deleted(request: Request, broker: BrokerState, name: str) -> DeleteGroupsResponse.DeletableGroupResult:
    code, reason = refused(request, broker, GROUP, name), None
    if code == ErrorCode.NONE:
        try:
            broker.groups.delete_group(name)
            broker.share_groups.states.forget_all(group_id=name)
        except KafkaframesError as error:
            code, reason = error_of(error), str(error)
    return request.response.DeletableGroupResult(group_id=name, error_code=code, error_message=reason)


API = Api(
    name="DeleteGroups",
    handle=handle,
    tier="T1",
    behaviour="Deletes groups without members, with their offsets.",
    notes={"v3+": "a message beside an error"},
    rights=(Right("DELETE", "GROUP", each="each group"),),
)
