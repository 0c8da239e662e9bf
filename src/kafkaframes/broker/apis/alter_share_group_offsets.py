"""AlterShareGroupOffsets: a share group without members continues at other offsets (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import error_of
from kafkaframes.broker.apis._share import without_members
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse

    Request: TypeAlias = RequestOf[AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Set the start offsets."""
    body, types = request.body, request.response
    if not body.group_id:
        return request.response(error_code=ErrorCode.INVALID_GROUP_ID)
    code, reason = ErrorCode.NONE, None
    is_there = body.group_id in broker.groups.groups
    if is_there or any(topic.partitions and topic.topic_name in broker.topics for topic in body.topics):
        broker.groups.make_share_group(body.group_id)
        code, reason = without_members(request, broker)
    if code != ErrorCode.NONE:
        return request.response(error_code=code, error_message=reason)
    topics = []
    for asked in body.topics:
        if not asked.partitions and asked.topic_name not in broker.topics:
            continue  # Kafka answers partition by partition, and a known topic as a whole
        refusal = denied(request, broker.access, "TOPIC", asked.topic_name)
        topic = None if refusal else broker.topics.get(asked.topic_name)
        rows = [
            types.AlterShareGroupOffsetsResponsePartition(
                partition_index=row.partition_index, error_code=refusal or _altered(request, broker, topic, row)
            )
            for row in asked.partitions
        ]
        topic_id = NO_UUID if topic is None else topic.topic_id
        topics.append(
            types.AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=rows)
        )
    return request.response(responses=topics)


def _altered(
    request: Request,
    broker: BrokerState,
    topic: Topic | None,
    row: AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition,
) -> int:
    if topic is None or topic.partition(row.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        key = ShareKey(request.body.group_id, topic.topic_id, row.partition_index)
        broker.share_groups.states.reset(key, row.start_offset)
    except KafkaframesError as error:
        return error_of(error)
    return ErrorCode.NONE


API = Api(
    name="AlterShareGroupOffsets",
    handle=handle,
    tier="T6",
    behaviour="Sets the start offsets of a share group without members.",
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
)
