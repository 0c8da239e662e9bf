"""DescribeGroups: classic groups with their members."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, NOT_ASKED, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.classic import GroupState
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeGroupsRequest, DescribeGroupsResponse

    Request: TypeAlias = RequestOf[DescribeGroupsRequest, DescribeGroupsResponse]

_FIRST_WITH_ERROR = 6
_DEAD = "Dead"


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe each group."""

    def answer(rows: list[DescribeGroupsResponse.DescribedGroup]) -> Answer:
        return request.response(groups=rows)

    return broker.changes.rows(request.body.groups, lambda name: _described(request, broker, name), answer)


def _described(request: Request, broker: BrokerState, name: str) -> DescribeGroupsResponse.DescribedGroup:
    types = request.response
    code = refused(request, broker, GROUP, name)
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code)
    try:
        group = broker.groups.classic_group(name)
    except RefusedError as error:
        if request.version < _FIRST_WITH_ERROR:
            return types.DescribedGroup(
                group_id=name, group_state=_DEAD, authorized_operations=_may(request, broker, name)
            )
        return types.DescribedGroup(group_id=name, group_state=_DEAD, error_code=error.code, error_message=error.reason)
    is_stable = group.state is GroupState.STABLE
    return types.DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        protocol_type=group.protocol_type_name,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        authorized_operations=_may(request, broker, name),
        members=[
            types.DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata(group.protocol_name) if is_stable else b"",
                member_assignment=one.assignment if is_stable else b"",
            )
            for one in group.members.values()
        ],
    )


def _may(request: Request, broker: BrokerState, name: str) -> int:
    if not request.body.include_authorized_operations:
        return NOT_ASKED
    return broker.access.operations(request.session, "GROUP", name)


API = Api(
    name="DescribeGroups",
    handle=handle,
    tier="T1",
    behaviour="State and members of classic groups; subscriptions and assignments while the group is stable.",
    notes={
        "v0-v5": "a group that there is not is Dead, without an error",
        "v3+": "authorized operations",
        "v4+": "instance ids",
        "v6+": "GROUP_ID_NOT_FOUND, with a message",
    },
    rights=(Right("DESCRIBE", "GROUP", each="each group"),),
)
