"""Handlers for share groups' offsets (KIP-932): DescribeShareGroupOffsets, AlterShareGroupOffsets,
DeleteShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from kafkaframes.broker.apis.groups import GROUP, check_rights, find_coordinator_error, get_error_code
from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import check_denied
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Topic
from kafkaframes.coordination.groups.share import InitializedTopics, ShareGroup
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError, get_reason
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _DescribeShareGroupOffsets: TypeAlias = TypedRequest[
        kafka.DescribeShareGroupOffsetsRequest, kafka.DescribeShareGroupOffsetsResponse
    ]
    _AlterShareGroupOffsets: TypeAlias = TypedRequest[
        kafka.AlterShareGroupOffsetsRequest, kafka.AlterShareGroupOffsetsResponse
    ]
    Row: TypeAlias = kafka.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
    _DeleteShareGroupOffsets: TypeAlias = TypedRequest[
        kafka.DeleteShareGroupOffsetsRequest, kafka.DeleteShareGroupOffsetsResponse
    ]

_UNKNOWN_NUMBER = -1  # value of an unknown offset or count
_UNKNOWN_PARTITION_ERROR: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refuse_groups(request: _DescribeShareGroupOffsets, code: int) -> Answer:
    """Return a response with the error code in a row for each group."""
    row = request.response.DescribeShareGroupOffsetsResponseGroup
    return request.response(groups=[row(group_id=group.group_id, error_code=code) for group in request.body.groups])


@Api(
    name="DescribeShareGroupOffsets",
    tier="T6",
    group_type="share",
    refuse=_refuse_groups,
    behaviour="Returns the stored start offset and lag of share groups; -1 until a record was acknowledged.",
    notes={
        "v1+": "lag (KIP-1226)",
    },
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE", "TOPIC", each="each topic; a request for all topics omits forbidden ones"),
    ),
)
def _describe_share_group_offsets(request: _DescribeShareGroupOffsets, broker: BrokerState) -> Answer:
    return broker.changes.answer_rows(
        request.body.groups,
        partial(_describe_group_offsets, request, broker),
        lambda rows: request.response(groups=rows),
    )


def _describe_group_offsets(
    request: _DescribeShareGroupOffsets,
    broker: BrokerState,
    group: kafka.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup,
) -> kafka.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup:
    row_type = request.response.DescribeShareGroupOffsetsResponseGroup
    code = check_rights(request, broker, GROUP, group.group_id)
    topic_partitions = [topic.partitions for topic in group.topics or () if topic.topic_name in broker.topics]
    if (
        code == ErrorCode.NONE
        and topic_partitions
        and (not group.group_id or any(min(topic_rows, default=-1) < 0 for topic_rows in topic_partitions))
    ):
        code = ErrorCode.INVALID_REQUEST  # Kafka's share coordinator fails with UNKNOWN_SERVER_ERROR
    if code != ErrorCode.NONE:
        return row_type(group_id=group.group_id, error_code=code)
    if group.topics is None:
        requested_topics = _list_all_partitions(request, broker, group.group_id)
    else:
        requested_topics = {topic.topic_name: list(topic.partitions) for topic in group.topics}
    topics = [
        _describe_topic_offsets(request, broker, group.group_id, name, indexes)
        for name, indexes in requested_topics.items()
    ]
    return row_type(group_id=group.group_id, topics=topics)


def _list_all_partitions(
    request: _DescribeShareGroupOffsets, broker: BrokerState, group_id: str
) -> dict[str, list[int]]:
    """Return the partition numbers of all topics in which a share group has offsets."""
    group = broker.groups.groups.get(group_id)
    partitions_by_topic = group.initialized_topics if isinstance(group, ShareGroup) else {}
    return {
        topic.name: sorted(indexes)
        for topic_id, (_, indexes) in partitions_by_topic.items()
        if (topic := broker.topics_by_id.get(topic_id))
        and not check_denied(request, broker.access, "TOPIC", topic.name)
    }


def _describe_topic_offsets(
    request: _DescribeShareGroupOffsets, broker: BrokerState, group_id: str, name: str, indexes: list[int]
) -> kafka.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic:
    types = request.response
    topic = broker.topics.get(name)
    refusal = check_denied(request, broker.access, "TOPIC", name)
    states = broker.share_groups
    rows = []
    for index in indexes:
        row = types.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=_UNKNOWN_NUMBER)
        partition = None if topic is None else topic.partition(index)
        if refusal != ErrorCode.NONE:
            row.error_code = refusal
        elif topic is not None and partition is not None:  # an unknown partition has no offset, which is not an error
            stored_state = states.stored_states.get(ShareKey(group_id, topic.topic_id, index))
            if stored_state is not None:
                row.start_offset = stored_state.start
            if (
                stored_state is not None
                and stored_state.start != _UNKNOWN_NUMBER
                and stored_state.finished_count != _UNKNOWN_NUMBER
            ):
                row.lag = partition.log.high_watermark - stored_state.start - stored_state.finished_count
        rows.append(row)
    topic_id = NIL_UUID if topic is None or refusal else topic.topic_id
    return types.DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=rows)


@Api(
    name="AlterShareGroupOffsets",
    tier="T6",
    group_type="share",
    behaviour="Sets the start offsets of a share group without members; a group that does not exist is created.",
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
)
def _alter_share_group_offsets(request: _AlterShareGroupOffsets, broker: BrokerState) -> Answer:
    body = request.body
    if not body.group_id:
        return request.response(error_code=ErrorCode.INVALID_GROUP_ID)
    code, reason, rows = find_coordinator_error(request, broker, GROUP, body.group_id), None, []
    if code == ErrorCode.NONE:
        try:
            rows = list(_alter_offsets(request, broker))
        except KafkaframesError as error:
            code, reason = get_error_code(error), get_reason(error)
    if code != ErrorCode.NONE:
        return request.response(error_code=code, error_message=reason)
    return request.response(responses=rows)


def _alter_offsets(
    request: _AlterShareGroupOffsets, broker: BrokerState
) -> Iterator[kafka.AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]:
    """Set the valid offsets, and yield the topics of the response.

    Raise a ``RefusedError`` if the group has members or is not a share group.
    """
    types, requested_topics = request.response, request.body.topics
    refusals = {topic.topic_name: _find_topic_error(request, broker, topic.topic_name) for topic in requested_topics}
    topic_partitions = [
        (broker.topics[topic.topic_name], topic.partitions)
        for topic in requested_topics
        if not refusals[topic.topic_name]
    ]
    group = broker.groups.find_share_group_for_offsets(request.body.group_id, may_create=True)
    if topic_partitions:
        _store_offsets(broker, group, topic_partitions)
    for topic in requested_topics:
        refusal = refusals[topic.topic_name]
        if refusal and not topic.partitions:
            continue  # as in Kafka, an unknown topic without partitions is omitted from the response
        known_topic = None if refusal else broker.topics[topic.topic_name]
        rows = [
            types.AlterShareGroupOffsetsResponsePartition(
                partition_index=row.partition_index,
                error_code=refusal
                or (
                    ErrorCode.NONE
                    if known_topic and known_topic.partition(row.partition_index)
                    else _UNKNOWN_PARTITION_ERROR
                ),
            )
            for row in topic.partitions
        ]
        yield types.AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name, topic_id=known_topic.topic_id if known_topic else NIL_UUID, partitions=rows
        )


def _find_topic_error(request: _AlterShareGroupOffsets, broker: BrokerState, name: str) -> int:
    """Return the error code of a topic in an AlterShareGroupOffsets request."""
    return check_denied(request, broker.access, "TOPIC", name) or (
        ErrorCode.NONE if name in broker.topics else _UNKNOWN_PARTITION_ERROR
    )


def _store_offsets(broker: BrokerState, group: ShareGroup, topics: list[tuple[Topic, list[Row]]]) -> None:
    """Store new start offsets of a share group's partitions."""
    states = broker.share_groups
    partitions_by_topic = dict(group.initialized_topics)
    if any(row.partition_index < 0 for _, rows in topics for row in rows):
        broker.groups.store_share_partitions(group, partitions_by_topic)
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, "A partition number is negative."
        )  # Kafka fails: UNKNOWN_SERVER_ERROR
    for topic, rows in topics:
        valid_rows = [row for row in rows if topic.partition(row.partition_index) is not None]
        for row in valid_rows:
            key = ShareKey(group.group_id, topic.topic_id, row.partition_index)
            states.reset_offset(key, row.start_offset, group.epoch)
        indexes = {row.partition_index for row in valid_rows}.union(
            partitions_by_topic.get(topic.topic_id, ("", ()))[1]
        )
        if indexes:
            partitions_by_topic[topic.topic_id] = topic.name, frozenset(indexes)
    broker.groups.store_share_partitions(group, partitions_by_topic)


@Api(
    name="DeleteShareGroupOffsets",
    tier="T6",
    group_type="share",
    behaviour="Deletes the topic offsets of a share group without members.",
    rights=(
        RequiredPermission("DELETE", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
)
def _delete_share_group_offsets(request: _DeleteShareGroupOffsets, broker: BrokerState) -> Answer:
    body = request.body
    code: int = (
        find_coordinator_error(request, broker, GROUP, body.group_id) if body.group_id else ErrorCode.INVALID_GROUP_ID
    )
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    refusals = {
        topic.topic_name: check_denied(request, broker.access, "TOPIC", topic.topic_name) for topic in body.topics
    }
    try:
        group = broker.groups.find_share_group_for_offsets(body.group_id)
        remaining_topics, rows = dict(group.initialized_topics), []
        for name, refusal in refusals.items():
            topic = None if refusal else broker.topics.get(name)
            if refusal or group.has_read:  # Kafka omits the topics of a group that has never read
                rows.append(_forget_topic(request, broker, remaining_topics, name, topic, refusal))
        broker.groups.store_share_partitions(group, remaining_topics)
    except KafkaframesError as error:
        return request.response(error_code=get_error_code(error), error_message=get_reason(error))
    return request.response(responses=rows)


def _forget_topic(
    request: _DeleteShareGroupOffsets,
    broker: BrokerState,
    remaining_topics: InitializedTopics,
    name: str,
    topic: Topic | None,
    refusal: int,
) -> kafka.DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic:
    """Delete a group's state in a topic, and remove the topic from those that the group reads."""
    row_type = request.response.DeleteShareGroupOffsetsResponseTopic
    if topic is None or topic.topic_id not in remaining_topics:
        return row_type(topic_name=name, error_code=refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _, indexes = remaining_topics.pop(topic.topic_id)
    for index in indexes:
        broker.share_groups.delete_state(ShareKey(request.body.group_id, topic.topic_id, index))
    return row_type(topic_name=name, topic_id=topic.topic_id)
