"""Consumer groups (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import all_denied, viewer_of
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import (
    GROUP,
    HIDDEN_TOPICS,
    authorized_operations,
    client_host,
    elsewhere,
    error_of,
    refused,
    topics_of,
)
from kafkaframes.broker.changes import ROWS_OF_A_TURN, Steps
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.consumer import NOTHING, Assigned, ConsumerGroup, ConsumerMember, by_topic
from kafkaframes.coordination.groups.consumer_protocol import Beat
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ConsumerGroupHeartbeat: TypeAlias = RequestOf[
        kafka.ConsumerGroupHeartbeatRequest, kafka.ConsumerGroupHeartbeatResponse
    ]
    _ConsumerGroupDescribe: TypeAlias = RequestOf[
        kafka.ConsumerGroupDescribeRequest, kafka.ConsumerGroupDescribeResponse
    ]

_FIRST_WITH_CLIENT_IDS = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


@Api(
    name="ConsumerGroupHeartbeat",
    tier="T5",
    behaviour="Joining, leaving, subscribing and reconciling in one request; assignors uniform and range.",
    notes={
        "v0": "the coordinator gives a new member its id",
        "v1+": (
            "the client does (KIP-1082); patterns for topics in RE2's language, resolved at once, where Kafka "
            "does it a moment later"
        ),
    },
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right(
            "DESCRIBE",
            "TOPIC",
            each="the topics that are subscribed to by name; all or none; not before Kafka 4.0",
            first_release=(4,),
        ),
    ),
)
def _consumer_group_heartbeat(request: _ConsumerGroupHeartbeat, broker: BrokerState) -> Answer:
    """A partition goes to its new owner after the old one has said that it gave it up. A classic group of the same name
    becomes a consumer group, and the other way round.
    """
    body = request.body
    code = all_denied(request, broker.access, "TOPIC", body.subscribed_topic_names or ())
    code = code or elsewhere(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    beat = Beat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topics=body.subscribed_topic_names,
        regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned=_owned(body.topic_partitions),
        client_id=request.client_id or "",
        client_host=client_host(request),
        owns_rows=bool(body.topic_partitions),
        viewer=viewer_of(request.session, broker.access),
    )
    try:
        answer = broker.groups.consumer_heartbeat(beat, may_lack_id=request.version < _FIRST_WITH_CLIENT_IDS)
    except KafkaframesError as error:
        reason = error.reason if isinstance(error, RefusedError) else None
        return request.response(error_code=error_of(error), error_message=reason)
    return request.response(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=None if answer.assignment is None else _assignment(request, answer.assignment),
    )


def _owned(rows: list[kafka.ConsumerGroupHeartbeatRequest.TopicPartitions] | None) -> frozenset[Any] | None:
    return None if rows is None else frozenset((row.topic_id, index) for row in rows for index in row.partitions)


def _assignment(request: _ConsumerGroupHeartbeat, assigned: Any) -> kafka.ConsumerGroupHeartbeatResponse.Assignment:
    types = request.response
    rows = [types.TopicPartitions(topic_id=one, partitions=indexes) for one, indexes in by_topic(assigned).items()]
    return types.Assignment(topic_partitions=rows)


@Api(
    name="ConsumerGroupDescribe",
    tier="T5",
    behaviour="Epochs, members, current assignments and targets of consumer groups.",
    notes={"v1+": "the protocol of each member"},
    rights=(
        Right("DESCRIBE", "GROUP", each="each group"),
        Right("DESCRIBE", "TOPIC", each="the topics of a group; all or none; not before Kafka 4.0", first_release=(4,)),
    ),
)
def _consumer_group_describe(request: _ConsumerGroupDescribe, broker: BrokerState) -> Answer:
    def answering() -> Steps[Answer]:
        rows = []
        for number, name in enumerate(request.body.group_ids, 1):
            rows.append((yield from _described(request, broker, name)))
            if number % ROWS_OF_A_TURN == 0:
                yield
        return request.response(groups=rows)

    return broker.changes.beside(answering())


def _described(
    request: _ConsumerGroupDescribe, broker: BrokerState, name: str
) -> Steps[kafka.ConsumerGroupDescribeResponse.DescribedGroup]:
    types = request.response
    code = refused(request, broker, GROUP, name)
    if code == ErrorCode.NONE and not name:
        code = ErrorCode.INVALID_GROUP_ID
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code)
    try:
        group: ConsumerGroup = broker.groups.consumer_group(name)
    except RefusedError as error:
        return types.DescribedGroup(group_id=name, error_code=error.code, error_message=error.reason)
    members = []
    for number, member in enumerate(tuple(group.members.values()), 1):
        members.append(_member(request, broker, group, member))
        if number % ROWS_OF_A_TURN == 0:
            yield
    code = all_denied(request, broker.access, "TOPIC", topics_of(broker, members))
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code, error_message=HIDDEN_TOPICS)
    return types.DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=members,
        authorized_operations=authorized_operations(request, broker, name),
    )


def _member(
    request: _ConsumerGroupDescribe, broker: BrokerState, group: ConsumerGroup, member: ConsumerMember
) -> kafka.ConsumerGroupDescribeResponse.Member:
    types = request.response

    def assignment(partitions: Assigned) -> kafka.ConsumerGroupDescribeResponse.Assignment:
        return types.Assignment(
            topic_partitions=[
                types.TopicPartitions(
                    topic_id=topic_id, topic_name=broker.topics_by_id[topic_id].name, partitions=indexes
                )
                for topic_id, indexes in by_topic(partitions).items()
                if topic_id in broker.topics_by_id
            ]
        )

    return types.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=assignment(member.assigned),
        target_assignment=assignment(group.targets.get(member.member_id, NOTHING)),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )
