"""Handlers for consumer groups (KIP-848) and share groups (KIP-932): ConsumerGroupHeartbeat, ConsumerGroupDescribe,
ShareGroupHeartbeat, ShareGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from kafkaframes.broker.apis._share import is_member_id
from kafkaframes.broker.apis.groups import (
    GROUP,
    build_error_response,
    check_rights,
    find_coordinator_error,
    format_client_host,
    list_authorized_operations,
)
from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import Request, TypedRequest
from kafkaframes.broker.security.access import check_denied, create_member_identity, find_first_denied_code
from kafkaframes.broker.state.changes import ROWS_PER_TURN, Steps, create_rows_in_steps
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.coordination.groups.consumer import (
    NO_PARTITIONS,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    group_by_topic,
)
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatRequest, HeartbeatResult
from kafkaframes.coordination.groups.share import ShareGroup, ShareMember
from kafkaframes.coordination.groups.share_protocol import ShareHeartbeatRequest
from kafkaframes.coordination.groups.streams import StreamsGroup, StreamsMember
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ConsumerHeartbeat: TypeAlias = TypedRequest[
        kafka.ConsumerGroupHeartbeatRequest, kafka.ConsumerGroupHeartbeatResponse
    ]
    _ConsumerDescribe: TypeAlias = TypedRequest[kafka.ConsumerGroupDescribeRequest, kafka.ConsumerGroupDescribeResponse]
    _ShareHeartbeat: TypeAlias = TypedRequest[kafka.ShareGroupHeartbeatRequest, kafka.ShareGroupHeartbeatResponse]
    _ShareDescribe: TypeAlias = TypedRequest[kafka.ShareGroupDescribeRequest, kafka.ShareGroupDescribeResponse]
    _MemberRow: TypeAlias = kafka.ConsumerGroupDescribeResponse.Member | kafka.ShareGroupDescribeResponse.Member

_GroupT = TypeVar("_GroupT", ConsumerGroup, ShareGroup, StreamsGroup)

_FIRST_VERSION_WITH_CLIENT_MEMBER_IDS = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
_HIDDEN_TOPICS_MESSAGE: Final = "The group reads topics that the client may not describe."


# ---------------------------------------------------------------------------------------------------- heartbeats


@Api(
    name="ConsumerGroupHeartbeat",
    tier="T5",
    group_type="consumer",
    behaviour="Lets members join, leave, subscribe and reconcile with one request. Assignors: uniform and range.",
    notes={
        "v0": "the coordinator assigns the member id",
        "v1+": (
            "the client chooses the member id (KIP-1082); topic patterns in RE2 syntax, resolved after "
            "the response to the heartbeat"
        ),
    },
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission(
            "DESCRIBE",
            "TOPIC",
            each="all topics that are subscribed to by name; from Kafka 4.0 on",
            first_release=(4,),
        ),
    ),
)
def _handle_consumer_group_heartbeat(request: _ConsumerHeartbeat, broker: BrokerState) -> Answer:
    """A partition is assigned to its new member after the old member has confirmed the revocation.

    A classic group with the same name is converted to a consumer group. The reverse conversion is also supported.
    """
    body = request.body
    code = find_first_denied_code(request, broker.access, "TOPIC", body.subscribed_topic_names or ())
    code = code or find_coordinator_error(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    rows = body.topic_partitions
    heartbeat = HeartbeatRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topics=body.subscribed_topic_names,
        regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned_partitions=None
        if rows is None
        else frozenset((row.topic_id, index) for row in rows for index in row.partitions),
        client_id=request.client_id or "",
        client_host=format_client_host(request),
        has_owned_rows=bool(rows),
        viewer=create_member_identity(request.session, broker.access),
    )
    may_omit_member_id = request.version < _FIRST_VERSION_WITH_CLIENT_MEMBER_IDS
    return _build_heartbeat_response(
        request, lambda: broker.groups.handle_consumer_heartbeat(heartbeat, may_omit_member_id=may_omit_member_id)
    )


@Api(
    name="ShareGroupHeartbeat",
    tier="T6",
    group_type="share",
    versions=(1, 1),
    behaviour="Manages members of share groups; every partition has a reader, and every member has a partition.",
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("DESCRIBE", "TOPIC", each="all subscribed topics"),
    ),
)
def _handle_share_group_heartbeat(request: _ShareHeartbeat, broker: BrokerState) -> Answer:
    """Version 0 was Kafka 4.0's early access, which Kafka has withdrawn."""
    body = request.body
    if not is_member_id(body.member_id):
        return request.response(error_code=ErrorCode.INVALID_REQUEST)

    def build_response(codes: list[int]) -> Answer:
        code = next(filter(None, codes), ErrorCode.NONE) or find_coordinator_error(
            request, broker, GROUP, body.group_id
        )
        if code != ErrorCode.NONE:
            return request.response(error_code=code)
        heartbeat = ShareHeartbeatRequest(
            group_id=body.group_id,
            member_id=body.member_id,
            epoch=body.member_epoch,
            rack_id=body.rack_id,
            topics=body.subscribed_topic_names,
            client_id=request.client_id or "",
            client_host=format_client_host(request),
        )
        return _build_heartbeat_response(request, lambda: broker.groups.handle_share_heartbeat(heartbeat))

    names = body.subscribed_topic_names or ()
    return broker.changes.answer_rows(
        names, lambda name: check_denied(request, broker.access, "TOPIC", name), build_response
    )


def _build_heartbeat_response(request: Request, send_heartbeat: Callable[[], HeartbeatResult]) -> Answer:
    """Return the response to a heartbeat: the member's epoch, and its assignment if that has changed."""
    types = request.response
    try:
        result = send_heartbeat()
    except KafkaframesError as error:
        return build_error_response(request, error)
    assignment = None
    if result.assignment is not None:
        rows = group_by_topic(result.assignment).items()
        partitions = [types.TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in rows]
        assignment = types.Assignment(topic_partitions=partitions)
    answer: Answer = types(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        assignment=assignment,
    )
    return answer


# ---------------------------------------------------------------------------------------------------- descriptions


def refuse_descriptions(request: Request, code: int) -> Answer:
    """Return a response with the error code in a row for each group."""
    row = request.response.DescribedGroup
    answer: Answer = request.response(groups=[row(group_id=name, error_code=code) for name in request.body.group_ids])
    return answer


@Api(
    name="ConsumerGroupDescribe",
    tier="T5",
    group_type="consumer",
    refuse=refuse_descriptions,
    behaviour="Returns epochs, members, current and target assignments of consumer groups.",
    notes={"v1+": "the response contains each member's protocol"},
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE", "TOPIC", each="all topics of a group; from Kafka 4.0 on", first_release=(4,)),
    ),
)
def _handle_consumer_group_describe(request: _ConsumerDescribe, broker: BrokerState) -> Answer:
    def list_members(group: ConsumerGroup) -> Iterator[_MemberRow]:
        for member in tuple(group.members.values()):
            yield request.response.Member(
                **_build_subscriber_fields(request, broker, member),
                instance_id=member.instance_id,
                subscribed_topic_regex=member.regex or "",
                target_assignment=_build_assignment(
                    request, broker, group.targets.get(member.member_id, NO_PARTITIONS)
                ),
                member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
            )

    return describe_groups(request, broker, ConsumerGroup, list_members, _list_member_topics)


@Api(
    name="ShareGroupDescribe",
    tier="T6",
    group_type="share",
    refuse=refuse_descriptions,
    versions=(1, 1),
    behaviour="Returns members and assignments of share groups.",
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE", "TOPIC", each="all topics of a group"),
    ),
)
def _handle_share_group_describe(request: _ShareDescribe, broker: BrokerState) -> Answer:
    """Version 0 was Kafka 4.0's early access, which Kafka has withdrawn."""

    def list_members(group: ShareGroup) -> Iterator[_MemberRow]:
        for member in tuple(group.members.values()):
            yield request.response.Member(**_build_subscriber_fields(request, broker, member))

    return describe_groups(request, broker, ShareGroup, list_members, _list_member_topics)


def describe_groups(
    request: Request,
    broker: BrokerState,
    kind: type[_GroupT],
    members_of: Callable[[_GroupT], Iterator[Any]],
    topics_of: Callable[[BrokerState, _GroupT, list[Any]], Iterable[str]],
    build_type_fields: Callable[[_GroupT], Mapping[str, Any]] = lambda group: {},
) -> Answer:
    """Describe each group of a request, in steps if there are many groups or members.

    Args:
        topics_of: function that returns the topics in a description, given a group and the rows of its members.
        build_type_fields: function that returns the fields that only groups of this type have.
    """
    row = request.response.DescribedGroup

    def describe_group(name: str) -> Steps[Any]:
        """Return the response row of a group by its name."""
        code = check_rights(request, broker, GROUP, name) or (ErrorCode.NONE if name else ErrorCode.INVALID_GROUP_ID)
        if code != ErrorCode.NONE:
            return row(group_id=name, error_code=code)
        try:
            group = broker.groups.find_group(name, kind)
        except RefusedError as error:
            return row(group_id=name, error_code=error.code, error_message=error.reason)
        members = yield from create_rows_in_steps(members_of(group), lambda member: member)
        code = find_first_denied_code(request, broker.access, "TOPIC", topics_of(broker, group, members))
        if code != ErrorCode.NONE:
            return row(group_id=name, error_code=code, error_message=_HIDDEN_TOPICS_MESSAGE)
        return row(
            group_id=name,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=group.assignor,
            members=members,
            authorized_operations=list_authorized_operations(request, broker, name),
            **build_type_fields(group),
        )

    def answer_in_steps() -> Steps[Answer]:
        """Describe all requested groups, and return the response."""
        rows = []
        for number, name in enumerate(request.body.group_ids, 1):
            rows.append((yield from describe_group(name)))
            if number % ROWS_PER_TURN == 0:
                yield
        answer: Answer = request.response(groups=rows)
        return answer

    return broker.changes.run_concurrently(answer_in_steps())


def build_member_fields(member: ConsumerMember | ShareMember | StreamsMember) -> dict[str, Any]:
    """Return the fields of a member that are common to descriptions of all group types."""
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }


def _build_subscriber_fields(
    request: Request, broker: BrokerState, member: ConsumerMember | ShareMember
) -> dict[str, Any]:
    """Return the fields that rows of consumer group members and of share group members have in common."""
    return build_member_fields(member) | {
        "subscribed_topic_names": list(member.topics),
        "assignment": _build_assignment(request, broker, member.assignment | _list_pending_revocations(member)),
    }


def _list_pending_revocations(member: ConsumerMember | ShareMember) -> Assignment:
    """Return the partitions that a member still has and must revoke."""
    return member.revoking if isinstance(member, ConsumerMember) else NO_PARTITIONS


def _build_assignment(request: Request, broker: BrokerState, assignment: Assignment) -> Any:
    row, topics = request.response.TopicPartitions, broker.topics_by_id
    rows = [
        row(topic_id=topic_id, topic_name=topics[topic_id].name, partitions=indexes)
        for topic_id, indexes in group_by_topic(assignment).items()
        if topic_id in topics
    ]
    return request.response.Assignment(topic_partitions=rows)


def _list_member_topics(broker: BrokerState, _: ConsumerGroup | ShareGroup, members: list[_MemberRow]) -> set[str]:
    """Return the existing topics that the members have, are assigned, or subscribe to."""
    names = {name for member in members for name in member.subscribed_topic_names if name in broker.topics}
    for member in members:
        for assignment in (member.assignment, getattr(member, "target_assignment", member.assignment)):
            names.update(row.topic_name for row in assignment.topic_partitions)
    return names
