"""OffsetForLeaderEpoch: where a leader epoch ends, so that a consumer notices a truncation (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.find import find_topic, led_here
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

    Request: TypeAlias = RequestOf[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer from each log's epochs."""
    topics = []
    for asked in request.body.topics:
        found = find_topic(request, broker, asked.topic)
        rows = [_row(request, found.topic, found.code, one) for one in asked.partitions]
        topics.append(request.response.OffsetForLeaderTopicResult(topic=asked.topic, partitions=rows))
    return request.response(topics=topics)


def _row(
    request: Request, topic: Topic | None, code: int, asked: OffsetForLeaderEpochRequest.OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponse.EpochEndOffset:
    partition = None
    if topic is not None:
        partition, code = led_here(request, topic, asked.partition, current_leader_epoch=asked.current_leader_epoch)
    row = request.response.EpochEndOffset(error_code=code, partition=asked.partition)
    if partition is not None:
        end = partition.end_of_epoch(asked.leader_epoch)
        row.error_code, row.leader_epoch, row.end_offset = ErrorCode.NONE, end.leader_epoch, end.end_offset
    return row


API = Api(
    name="OffsetForLeaderEpoch",
    handle=handle,
    tier="T2",
    behaviour=(
        "The largest epoch up to that of the request, and where it ends, from the log's own epochs; -1 and -1"
        " if it is not known."
    ),
    notes={"v2+": "the client's leader epoch is checked"},
    rights=(Right("DESCRIBE", "TOPIC", each="each topic", or_cluster="CLUSTER_ACTION"),),
)
