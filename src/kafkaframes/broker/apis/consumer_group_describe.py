"""ConsumerGroupDescribe: consumer groups with their members (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import all_denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, HIDDEN_TOPICS, NOT_ASKED, refused, topics_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.consumer import NOTHING, Assigned, ConsumerGroup, ConsumerMember, by_topic
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

    Request: TypeAlias = RequestOf[ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse]

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe each group."""

    def answer(rows: list[ConsumerGroupDescribeResponse.DescribedGroup]) -> Answer:
        return request.response(groups=rows)

    return broker.changes.rows(request.body.group_ids, lambda name: _described(request, broker, name), answer)


def _described(request: Request, broker: BrokerState, name: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
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
    members = [_member(request, broker, group, one) for one in group.members.values()]
    code = all_denied(request, broker.access, "TOPIC", topics_of(broker, members))
    if code != ErrorCode.NONE:
        return types.DescribedGroup(group_id=name, error_code=code, error_message=HIDDEN_TOPICS)
    may = broker.access.operations(request.session, "GROUP", name)
    return types.DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=members,
        authorized_operations=may if request.body.include_authorized_operations else NOT_ASKED,
    )


def _member(
    request: Request, broker: BrokerState, group: ConsumerGroup, member: ConsumerMember
) -> ConsumerGroupDescribeResponse.Member:
    types = request.response

    def assignment(partitions: Assigned) -> ConsumerGroupDescribeResponse.Assignment:
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


API = Api(
    name="ConsumerGroupDescribe",
    handle=handle,
    tier="T5",
    behaviour="Epochs, members, current assignments and targets of consumer groups.",
    notes={"v1+": "the protocol of each member"},
    rights=(
        Right("DESCRIBE", "GROUP", each="each group"),
        Right("DESCRIBE", "TOPIC", each="the topics of a group; all or none"),
    ),
)
