"""Handlers for classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.apis.groups import (
    GROUP,
    check_rights,
    find_coordinator_error,
    format_client_host,
    get_error_code,
    list_authorized_operations,
)
from kafkaframes.broker.requests.api import Answer, Api, DeferredResponse, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.coordination.groups.classic import ClassicGroup, GroupState, JoinResult, SyncResult
from kafkaframes.coordination.groups.rebalance import JoinRequest, LeavingMember, SyncRequest
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _JoinGroup: TypeAlias = TypedRequest[kafka.JoinGroupRequest, kafka.JoinGroupResponse]
    _SyncGroup: TypeAlias = TypedRequest[kafka.SyncGroupRequest, kafka.SyncGroupResponse]
    _Heartbeat: TypeAlias = TypedRequest[kafka.HeartbeatRequest, kafka.HeartbeatResponse]
    _LeaveGroup: TypeAlias = TypedRequest[kafka.LeaveGroupRequest, kafka.LeaveGroupResponse]
    _DescribeGroups: TypeAlias = TypedRequest[kafka.DescribeGroupsRequest, kafka.DescribeGroupsResponse]

_FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
_FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
_FIRST_VERSION_WITH_NULL_PROTOCOL = 7
_FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9
_FIRST_VERSION_WITH_PROTOCOL_NAMES = 5
_FIRST_VERSION_WITH_SEVERAL_MEMBERS = 3
_FIRST_VERSION_WITH_GROUP_ERROR = 6
_DEAD_STATE = "Dead"


def _build_error_response(request: _JoinGroup, code: int) -> Answer:
    name = "" if request.version < _FIRST_VERSION_WITH_NULL_PROTOCOL else None
    return request.response(error_code=code, generation_id=-1, protocol_name=name)


@Api(
    name="JoinGroup",
    tier="T1",
    behaviour="Responds when every member has joined, or the rebalance timeout has passed. A new group "
    "first waits group.initial.rebalance.delay.ms: 0 here, 3000 in Kafka.",
    notes={
        "v0": "the session timeout is the rebalance timeout",
        "v4+": "a join without a member id gets MEMBER_ID_REQUIRED; the response contains the id (KIP-394)",
        "v5+": "static members (KIP-345)",
        "v7+": "the response contains the protocol type, and null for an unknown protocol name",
        "v8+": "the reason for joining is not stored",
        "v9+": "a static leader that rejoins may skip the assignment (KIP-814)",
    },
    rights=(RequiredPermission("READ", "GROUP", "group_id"),),
    refuse=_build_error_response,
)
def _join_group(request: _JoinGroup, broker: BrokerState) -> Answer:
    body, version = request.body, request.version
    response = DeferredResponse()

    def send_response(result: JoinResult) -> None:
        name = result.protocol_name
        response.complete(
            request.response(
                error_code=result.error,
                generation_id=result.generation,
                protocol_type=result.protocol_type,
                protocol_name="" if name is None and version < _FIRST_VERSION_WITH_NULL_PROTOCOL else name,
                leader=result.leader,
                skip_assignment=result.skip_assignment,
                member_id=result.member_id,
                members=[
                    request.response.JoinGroupResponseMember(
                        member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
                    )
                    for member in result.members
                ],
            )
        )

    code = find_coordinator_error(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        send_response(JoinResult(code, body.member_id))
        return response
    has_timeout = version >= _FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    join = JoinRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=request.client_id or "",
        client_host=format_client_host(request),
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms if has_timeout else body.session_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in body.protocols),
        needs_member_id=version >= _FIRST_VERSION_WITH_REQUIRED_MEMBER_ID,
        may_skip_assignment=version >= _FIRST_VERSION_WITH_SKIP_ASSIGNMENT,
    )
    try:
        broker.groups.join(join, send_response)
    except KafkaframesError as error:
        send_response(JoinResult(get_error_code(error), body.member_id))
    return response


@Api(
    name="SyncGroup",
    tier="T1",
    behaviour="Returns the member's assignment when the leader has sent it and it is in the log.",
    notes={
        "v3+": "static members",
        "v5+": "protocol type and name are required and checked",
    },
    rights=(RequiredPermission("READ", "GROUP", "group_id"),),
)
def _sync_group(request: _SyncGroup, broker: BrokerState) -> Answer:
    """A new rebalance ends the wait with REBALANCE_IN_PROGRESS.

    A member that has joined and does not send SyncGroup within the rebalance timeout is removed.
    """
    body = request.body
    response = DeferredResponse()

    def send_response(result: SyncResult) -> None:
        response.complete(
            request.response(
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
            )
        )

    code = find_coordinator_error(request, broker, GROUP, body.group_id)
    if (
        code == ErrorCode.NONE
        and request.version >= _FIRST_VERSION_WITH_PROTOCOL_NAMES
        and None in (body.protocol_type, body.protocol_name)
    ):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if code != ErrorCode.NONE:
        send_response(SyncResult(code))
        return response
    sync = SyncRequest(
        body.group_id,
        body.generation_id,
        body.member_id,
        body.group_instance_id,
        {assignment.member_id: assignment.assignment for assignment in body.assignments},
        body.protocol_type,
        body.protocol_name,
    )
    broker.groups.sync(sync, send_response)
    return response


@Api(
    name="Heartbeat",
    tier="T1",
    behaviour="Restarts the member's session timeout; REBALANCE_IN_PROGRESS while the group waits for joins.",
    notes={"v3+": "static members"},
    rights=(RequiredPermission("READ", "GROUP", "group_id"),),
)
def _handle_heartbeat(request: _Heartbeat, broker: BrokerState) -> Answer:
    body = request.body
    code = find_coordinator_error(request, broker, GROUP, body.group_id)
    if code == ErrorCode.NONE:
        code = broker.groups.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    return request.response(error_code=code)


@Api(
    name="LeaveGroup",
    tier="T1",
    behaviour="Removes members; the next heartbeat informs the remaining ones.",
    notes={
        "v0-v2": "a request removes one member, and its error is that of the response",
        "v3+": "a request removes several members, static ones by instance id, with an error for each (KIP-345)",
        "v5+": "the reason for leaving is not stored",
    },
    rights=(RequiredPermission("READ", "GROUP", "group_id"),),
)
def _leave_group(request: _LeaveGroup, broker: BrokerState) -> Answer:
    body = request.body
    code = find_coordinator_error(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    has_many = request.version >= _FIRST_VERSION_WITH_SEVERAL_MEMBERS
    leaving = (
        [LeavingMember(member.member_id, member.group_instance_id) for member in body.members]
        if has_many
        else [LeavingMember(body.member_id)]
    )
    try:
        codes = broker.groups.leave(body.group_id, leaving)
    except KafkaframesError as error:
        return request.response(error_code=get_error_code(error))
    if not has_many:
        return request.response(error_code=codes[0])
    rows = [
        request.response.MemberResponse(
            member_id=member.member_id, group_instance_id=member.instance_id, error_code=code
        )
        for member, code in zip(leaving, codes, strict=True)
    ]
    return request.response(members=rows)


@Api(
    name="DescribeGroups",
    tier="T1",
    behaviour="Returns state and members of classic groups, and subscriptions while the group is stable.",
    notes={
        "v0-v5": "a group that does not exist has the state Dead, without an error",
        "v3+": "authorized operations",
        "v4+": "instance ids",
        "v6+": "a group that does not exist gets GROUP_ID_NOT_FOUND, with a message",
    },
    rights=(RequiredPermission("DESCRIBE", "GROUP", each="each group"),),
)
def _describe_groups(request: _DescribeGroups, broker: BrokerState) -> Answer:
    return broker.changes.answer_rows(
        request.body.groups, partial(_describe_group, request, broker), lambda rows: request.response(groups=rows)
    )


def _describe_group(
    request: _DescribeGroups, broker: BrokerState, name: str
) -> kafka.DescribeGroupsResponse.DescribedGroup:
    types = request.response
    code = check_rights(request, broker, GROUP, name)
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code)
    try:
        group = broker.groups.find_group(name, ClassicGroup)
    except RefusedError as error:
        if request.version < _FIRST_VERSION_WITH_GROUP_ERROR:
            return types.DescribedGroup(
                group_id=name,
                group_state=_DEAD_STATE,
                authorized_operations=list_authorized_operations(request, broker, name),
            )
        return types.DescribedGroup(
            group_id=name, group_state=_DEAD_STATE, error_code=error.code, error_message=error.reason
        )
    is_stable = group.state is GroupState.STABLE
    return types.DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        protocol_type=group.protocol_type_name,
        protocol_data=(group.protocol_name or "") if is_stable else "",
        authorized_operations=list_authorized_operations(request, broker, name),
        members=[
            types.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.get_metadata(group.protocol_name) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
