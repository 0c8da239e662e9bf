"""ShareAcknowledge: a member of a share group says what became of records (KIP-932).

Version 0 was Kafka 4.0's early access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis import _share
from kafkaframes.broker.apis._groups import GROUP, elsewhere
from kafkaframes.broker.apis._share import FINAL
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ShareAcknowledgeRequest, ShareAcknowledgeResponse

    Request: TypeAlias = RequestOf[ShareAcknowledgeRequest, ShareAcknowledgeResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Take the member's word, partition by partition."""
    body, types = request.body, request.response
    code = elsewhere(request, broker, GROUP, body.group_id or "")
    if code == ErrorCode.NONE and (body.group_id is None or not _share.is_member_id(body.member_id)):
        code = ErrorCode.INVALID_REQUEST
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    code, session = _share.enter(request, broker, may_begin=False)
    if session is None:
        return request.response(error_code=code)
    topics = []
    for topic in body.topics:
        rows = [
            types.PartitionData(
                partition_index=row.partition_index,
                error_code=_share.acknowledge(
                    request, broker, (topic.topic_id, row.partition_index), row.acknowledgement_batches
                ),
            )
            for row in topic.partitions
        ]
        topics.append(types.ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=rows))
    if body.share_session_epoch == FINAL:
        _share.end(request, broker)
    return request.response(responses=topics, acquisition_lock_timeout_ms=broker.share_groups.lock_ms)


API = Api(
    name="ShareAcknowledge",
    handle=handle,
    tier="T6",
    versions=(1, 2),
    behaviour="Each run of records is accepted, released, rejected or a gap, whole or not at all.",
    notes={
        "v2+": "renewing locks (KIP-1222)",
    },
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
)
