"""WriteTxnMarkers: markers are written into partitions, whatever the coordinator knows (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import GROUP_OFFSETS
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import WriteTxnMarkersRequest, WriteTxnMarkersResponse

    Request: TypeAlias = RequestOf[WriteTxnMarkersRequest, WriteTxnMarkersResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Write every marker into every partition that it names."""
    return _answer(request, lambda marker, topic, index: _written(broker, marker, topic, index))


def _refuse(request: Request, code: int) -> Answer:
    return _answer(request, lambda *_: code)


def _answer(request: Request, code_of: Callable[[Any, str, int], int]) -> Answer:
    types = request.response
    results = []
    for marker in request.body.markers:
        topics = []
        for topic in marker.topics:
            rows = [
                types.WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=code_of(marker, topic.name, index)
                )
                for index in topic.partition_indexes
            ]
            topics.append(types.WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
        results.append(types.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return request.response(markers=results)


def _written(broker: BrokerState, marker: Any, topic: str, index: int) -> int:
    partition = broker.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        broker.internal.write_marker(
            partition,
            commit=marker.transaction_result,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
        )
    except KafkaframesError as error:
        return code_of(error)
    if topic == GROUP_OFFSETS:
        broker.groups.end_transaction(index, marker.producer_id, commit=marker.transaction_result)
    return ErrorCode.NONE


API = Api(
    name="WriteTxnMarkers",
    handle=handle,
    tier="T2",
    behaviour="Writes markers into partitions: how an administrator ends a transaction that hangs.",
    notes={
        "v2+": "the version of the transaction, which changes nothing here",
    },
    rights=(Right("ALTER", "CLUSTER", or_cluster="CLUSTER_ACTION"),),
    refuse=_refuse,
)
