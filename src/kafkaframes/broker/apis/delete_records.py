"""DeleteRecords: move the start of logs up (KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.find import find_topic, led_here
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DeleteRecordsRequest, DeleteRecordsResponse

    Request: TypeAlias = RequestOf[DeleteRecordsRequest, DeleteRecordsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Move the starts."""
    topics = []
    for asked in request.body.topics:
        if not asked.partitions:
            continue  # Kafka answers partition by partition
        found = find_topic(request, broker, asked.name)
        rows = [_row(request, broker, found.topic, found.code, one) for one in asked.partitions]
        topics.append(request.response.DeleteRecordsTopicResult(name=asked.name, partitions=rows))
    broker.logs.checkpoint_start_offsets()
    return request.response(topics=topics)


def _row(
    request: Request,
    broker: BrokerState,
    topic: Topic | None,
    code: int,
    asked: DeleteRecordsRequest.DeleteRecordsPartition,
) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    low, partition = -1, None
    if topic is not None and topic.is_internal:
        code, topic = ErrorCode.INVALID_TOPIC_EXCEPTION, None
    if topic is not None:
        partition, code = led_here(request, topic, asked.partition_index)
    if partition is not None:
        code, low = _delete(broker, partition.log, asked.offset)
        partition.notify()
    return request.response.DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=low, error_code=code
    )


def _delete(broker: BrokerState, log: Any, offset: int) -> tuple[int, int]:
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION, -1
    if "delete" not in log.settings.policies:
        return ErrorCode.POLICY_VIOLATION, -1
    try:
        return ErrorCode.NONE, log.delete_records(offset)
    except KafkaframesError as error:
        return code_of(error), -1


API = Api(
    name="DeleteRecords",
    handle=handle,
    tier="T3",
    behaviour=(
        "The log's start moves up, for good; -1 is the high watermark. A topic that is only compacted is "
        "refused, as in Kafka."
    ),
    rights=(Right("DELETE", "TOPIC", each="each topic"),),
)
