"""ShareGroupDescribe: share groups with their members (KIP-932).

Version 0 was Kafka 4.0's early access, which Kafka has withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import all_denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, HIDDEN_TOPICS, NOT_ASKED, refused, topics_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.consumer import by_topic
from kafkaframes.coordination.groups.share import ShareGroup, ShareMember
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ShareGroupDescribeRequest, ShareGroupDescribeResponse

    Request: TypeAlias = RequestOf[ShareGroupDescribeRequest, ShareGroupDescribeResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe each group."""

    def answer(rows: list[ShareGroupDescribeResponse.DescribedGroup]) -> Answer:
        return request.response(groups=rows)

    return broker.changes.rows(request.body.group_ids, lambda name: _described(request, broker, name), answer)


def _described(request: Request, broker: BrokerState, name: str) -> ShareGroupDescribeResponse.DescribedGroup:
    types = request.response
    code = refused(request, broker, GROUP, name) or (ErrorCode.NONE if name else ErrorCode.INVALID_GROUP_ID)
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code)
    try:
        group: ShareGroup = broker.groups.share_group(name)
    except RefusedError as error:
        return types.DescribedGroup(group_id=name, error_code=error.code, error_message=error.reason)
    members = [_member(request, broker, one) for one in group.members.values()]
    code = all_denied(request, broker.access, "TOPIC", topics_of(broker, members))
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code, error_message=HIDDEN_TOPICS)
    may = broker.access.operations(request.session, "GROUP", name)
    return types.DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name="simple",
        members=members,
        authorized_operations=may if request.body.include_authorized_operations else NOT_ASKED,
    )


def _member(request: Request, broker: BrokerState, member: ShareMember) -> ShareGroupDescribeResponse.Member:
    types = request.response
    rows = [
        types.TopicPartitions(topic_id=topic_id, topic_name=broker.topics_by_id[topic_id].name, partitions=indexes)
        for topic_id, indexes in by_topic(member.assigned).items()
        if topic_id in broker.topics_by_id
    ]
    return types.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=types.Assignment(topic_partitions=rows),
    )


API = Api(
    name="ShareGroupDescribe",
    handle=handle,
    tier="T6",
    versions=(1, 1),
    behaviour="Members and assignments of share groups.",
    rights=(
        Right("DESCRIBE", "GROUP", each="each group"),
        Right("DESCRIBE", "TOPIC", each="the topics of a group; all or none"),
    ),
)
