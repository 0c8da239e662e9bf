"""ShareAcknowledge: a member of a share group says what became of records (KIP-932).

Version 0 was Kafka 4.0's early access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis import _share
from kafkaframes.broker.apis._share import FINAL, INITIAL
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ShareAcknowledgeRequest, ShareAcknowledgeResponse

    Request: TypeAlias = RequestOf[ShareAcknowledgeRequest, ShareAcknowledgeResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Take the member's word, partition by partition."""
    types, epoch = request.response, request.body.share_session_epoch
    code = _share.refusal(request) or (ErrorCode.INVALID_SHARE_SESSION_EPOCH if epoch == INITIAL else ErrorCode.NONE)
    if code == ErrorCode.NONE:
        code, _ = _share.enter(request, broker)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    rows: dict[UUID, list[ShareAcknowledgeResponse.PartitionData]] = {}
    for word in _share.words_of(request, broker):
        row = types.PartitionData(partition_index=word.place[1], error_code=_share.acknowledge(request, broker, word))
        rows.setdefault(word.place[0], []).append(row)
    if epoch == FINAL:
        _share.end(request, broker)
    return request.response(
        acquisition_lock_timeout_ms=_share.lock_ms(request, broker),
        responses=[
            types.ShareAcknowledgeTopicResponse(topic_id=topic, partitions=some) for topic, some in rows.items()
        ],
        node_endpoints=_share.leaders(request, broker, rows.items()),
    )


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
