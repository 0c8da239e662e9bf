"""AlterShareGroupOffsets: a share group without members continues at other offsets (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.coordination.groups.share import ShareGroup
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse

    Request: TypeAlias = RequestOf[AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse]
    Row: TypeAlias = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def handle(request: Request, broker: BrokerState) -> Answer:
    """Set the start offsets."""
    body = request.body
    if not body.group_id:
        return request.response(error_code=ErrorCode.INVALID_GROUP_ID)
    code, reason, rows = elsewhere(request, broker, GROUP, body.group_id), None, []
    if code == ErrorCode.NONE:
        try:
            rows = list(_altered(request, broker))
        except KafkaframesError as error:
            code, reason = error_of(error), str(error)
    if code != ErrorCode.NONE:
        return request.response(error_code=code, error_message=reason)
    return request.response(responses=rows)


def _altered(
    request: Request, broker: BrokerState
) -> Iterator[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]:
    """Set what can be set; yield the topics of the answer.

    Raises:
        KafkaframesError: the group has members, is no share group, or the log did not take it.
    """
    types, asked = request.response, request.body.topics
    refusals = {topic.topic_name: _refusal(request, broker, topic.topic_name) for topic in asked}
    known = [(broker.topics[topic.topic_name], topic.partitions) for topic in asked if not refusals[topic.topic_name]]
    group = broker.groups.change_share_group(request.body.group_id, may_make=True)
    if known:
        _set(broker, group, known)
    for topic in asked:
        refusal = refusals[topic.topic_name]
        if refusal and not topic.partitions:
            continue  # Kafka answers partition by partition, and a known topic as a whole
        found = None if refusal else broker.topics[topic.topic_name]
        rows = [
            types.AlterShareGroupOffsetsResponsePartition(
                partition_index=row.partition_index,
                error_code=refusal or (ErrorCode.NONE if found and found.partition(row.partition_index) else _UNKNOWN),
            )
            for row in topic.partitions
        ]
        yield types.AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=found.topic_id if found else NO_UUID, partitions=rows
        )


def _refusal(request: Request, broker: BrokerState, name: str) -> int:
    return denied(request, broker.access, "TOPIC", name) or (ErrorCode.NONE if name in broker.topics else _UNKNOWN)


def _set(broker: BrokerState, group: ShareGroup, topics: list[tuple[Topic, list[Row]]]) -> None:
    states = broker.share_groups.states
    read = dict(group.initialized)
    if any(row.partition_index < 0 for _, rows in topics for row in rows):
        broker.groups.read_share_topics(group, read)
        raise RefusedError(ErrorCode.INVALID_REQUEST, "A partition is negative.")  # Kafka fails: UNKNOWN_SERVER_ERROR
    for topic, rows in topics:
        there = [row for row in rows if topic.partition(row.partition_index) is not None]
        for row in there:
            key = ShareKey(group.group_id, topic.topic_id, row.partition_index)
            states.reset(key, row.start_offset, group.epoch)
        indexes = {row.partition_index for row in there}.union(read.get(topic.topic_id, ("", ()))[1])
        if indexes:
            read[topic.topic_id] = topic.name, frozenset(indexes)
    broker.groups.read_share_topics(group, read)


API = Api(
    name="AlterShareGroupOffsets",
    handle=handle,
    tier="T6",
    behaviour="Sets the start offsets of a share group without members; a group that is not there is made.",
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
)
