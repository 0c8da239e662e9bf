"""DescribeProducers: what each partition knows of its producers (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.find import find_topic, led_here
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode
from kafkaframes.storage.files.names import is_topic

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeProducersRequest, DescribeProducersResponse

    Request: TypeAlias = RequestOf[DescribeProducersRequest, DescribeProducersResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer from the logs."""

    def topic_row(asked: DescribeProducersRequest.TopicRequest) -> DescribeProducersResponse.TopicResponse:
        found = find_topic(request, broker, asked.name)
        code = found.code
        if found.topic is None and not is_topic(asked.name):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        rows = [_row(request, found.topic, code, index) for index in asked.partition_indexes]
        return request.response.TopicResponse(name=asked.name, partitions=rows)

    def answer(rows: list[DescribeProducersResponse.TopicResponse]) -> Answer:
        return request.response(topics=rows)

    return broker.changes.rows(request.body.topics, topic_row, answer)


def _row(request: Request, topic: Topic | None, code: int, index: int) -> DescribeProducersResponse.PartitionResponse:
    types = request.response
    partition = None
    if topic is not None:
        partition, code = led_here(request, topic, index)
    row = types.PartitionResponse(partition_index=index, error_code=code)
    if partition is not None:
        row.error_code = ErrorCode.NONE
        row.active_producers = [
            types.ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.timestamp,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=one.current_txn_first_offset,
            )
            for one in partition.log.producers.entries()
        ]
    return row


API = Api(
    name="DescribeProducers",
    handle=handle,
    tier="T2",
    behaviour="Id, epoch, last sequence and open transaction of each producer, from the log.",
    rights=(Right("READ", "TOPIC", each="each topic"),),
)
