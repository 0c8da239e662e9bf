"""DescribeTopicPartitions: topics and partitions, page by page (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import denied, may
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode
from kafkaframes.storage.files.names import is_topic

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

    Request: TypeAlias = RequestOf[DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse]

_MOST_ROWS = 2_000


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with a page."""
    body, types = request.body, request.response
    requested = {one.name for one in body.topics}
    names = sorted(requested or _visible(request, broker))
    start = 0
    if body.cursor is not None:
        names = [name for name in names if name >= body.cursor.topic_name]
        start = body.cursor.partition_index
    is_elsewhere = body.cursor is not None and body.topics and body.cursor.topic_name not in names
    if start < 0 or is_elsewhere or "" in requested:
        row = types.DescribeTopicPartitionsResponseTopic
        return request.response(
            topics=[row(name=one.name, error_code=ErrorCode.INVALID_REQUEST) for one in body.topics]
        )
    left = min(max(body.response_partition_limit, 1), _MOST_ROWS)
    topics, cursor = [], None
    for name in names:
        first = start if body.cursor is not None and name == body.cursor.topic_name else 0
        row, taken, after = _topic(request, broker, name, first, left)
        if left <= 0 and row.partitions == []:
            cursor = types.Cursor(topic_name=name, partition_index=0)
            break
        topics.append(row)
        left -= taken
        if after is not None:
            cursor = types.Cursor(topic_name=name, partition_index=after)
            break
    return request.response(topics=topics, next_cursor=cursor)


def _visible(request: Request, broker: BrokerState) -> list[str]:
    return [name for name in broker.topics if may(request, broker.access, "TOPIC", name)]


def _topic(request: Request, broker: BrokerState, name: str, first: int, most: int) -> tuple[Any, int, int | None]:
    """Return a topic's row, how many partitions it has, and where its next page begins."""
    row = request.response.DescribeTopicPartitionsResponseTopic(name=name)
    row.error_code = denied(request, broker.access, "TOPIC", name)
    if row.error_code != ErrorCode.NONE:
        return row, 0, None
    if name:
        row.topic_authorized_operations = broker.access.operations(request.session, "TOPIC", name)
    topic = broker.topics.get(name)
    if topic is None:
        is_wrong = name and not is_topic(name)
        row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row, 0, None
    row.topic_id, row.is_internal = topic.topic_id, topic.is_internal
    last = min(_int32(first + most), len(topic.partitions))
    row.partitions = [_partition(request, broker, topic, index) for index in range(first, last)]
    return row, len(row.partitions), last if last < len(topic.partitions) else None


def _int32(value: int) -> int:
    """Return a sum as Kafka has it: a page that begins near 2^31 ends at a negative number, and is empty."""
    return (value + 2**31) % 2**32 - 2**31


def _partition(
    request: Request, broker: BrokerState, topic: Topic, index: int
) -> DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    one = topic.partitions[index]
    is_led = one.leader_id in broker.nodes.ids
    replicas = [one.leader_id]
    return request.response.DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=one.leader_id if is_led else -1,
        leader_epoch=one.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=replicas if is_led else [],
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=[] if is_led else replicas,
    )


API = Api(
    name="DescribeTopicPartitions",
    handle=handle,
    tier="T3",
    behaviour=(
        "Topics by name, page by page: all of them where the request names none; a cursor says where the next"
        " page begins."
    ),
    rights=(Right("DESCRIBE", "TOPIC", each="each topic; where all are requested, it is left out"),),
)
