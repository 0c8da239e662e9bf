"""OffsetDelete: committed offsets are forgotten (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import OffsetDeleteRequest, OffsetDeleteResponse

    Request: TypeAlias = RequestOf[OffsetDeleteRequest, OffsetDeleteResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Write tombstones for them."""
    body = request.body
    code = elsewhere(request, broker, GROUP, body.group_id)
    if code == ErrorCode.NONE and not body.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    requested = [TopicPartition(topic.name, row.partition_index) for topic in body.topics for row in topic.partitions]
    return broker.changes.rows(
        dict.fromkeys(requested),
        lambda where: (where, _why_not(request, broker, where.topic, where.partition)),
        lambda rows: _deleted(request, broker, dict(rows)),
    )


def _deleted(request: Request, broker: BrokerState, codes: dict[TopicPartition, int]) -> Answer:
    types, topics = request.response, []
    there = {where: None for where, code in codes.items() if code == ErrorCode.NONE}
    try:
        codes |= broker.groups.commits.delete(request.body.group_id, list(there))
    except KafkaframesError as error:
        return request.response(error_code=error_of(error))
    for topic in request.body.topics:
        if not topic.partitions and topic.name in broker.topics:
            continue  # Kafka answers partition by partition, and an unknown topic as a whole
        places = [TopicPartition(topic.name, row.partition_index) for row in topic.partitions]
        places.sort(key=there.__contains__)  # those that are refused come first, as in Kafka's answers
        rows = [
            types.OffsetDeleteResponsePartition(partition_index=where.partition, error_code=codes[where])
            for where in places
        ]
        topics.append(types.OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    return request.response(topics=topics)


def _why_not(request: Request, broker: BrokerState, topic: str, index: int) -> int:
    code = denied(request, broker.access, "TOPIC", topic)
    return code or (
        ErrorCode.NONE if broker.partition(topic, index) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


API = Api(
    name="OffsetDelete",
    handle=handle,
    tier="T1",
    behaviour=(
        "Forgets committed offsets of topics that no member reads (else GROUP_SUBSCRIBED_TO_TOPIC); a group "
        "of other members than consumers must be empty."
    ),
    rights=(
        Right("DELETE", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
)
