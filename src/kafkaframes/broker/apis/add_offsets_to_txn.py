"""AddOffsetsToTxn: a group's offsets become part of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import GROUP_OFFSETS
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

    Request: TypeAlias = RequestOf[AddOffsetsToTxnRequest, AddOffsetsToTxnResponse]

_FIRST_WITH_FENCED = 2


def handle(request: Request, broker: BrokerState) -> Answer:
    """Add the group's partition."""
    body = request.body
    code = elsewhere(request, broker, TRANSACTION, body.transactional_id)
    if code == ErrorCode.NONE:
        try:
            where = offsets_partition(broker, body.group_id)
            broker.transactions.add_partitions(body.transactional_id, body.producer_id, body.producer_epoch, [where])
        except KafkaframesError as error:
            code = error_of(error)
    if code == ErrorCode.PRODUCER_FENCED and request.version < _FIRST_WITH_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return request.response(error_code=code)


def offsets_partition(broker: BrokerState, group_id: str) -> TopicPartition:
    """Return the partition of ``__consumer_offsets`` that holds a group."""
    return TopicPartition(GROUP_OFFSETS, broker.groups.commits.transaction_of(group_id, -1)[0])


API = Api(
    name="AddOffsetsToTxn",
    handle=handle,
    tier="T2",
    behaviour="Adds the partition of __consumer_offsets that holds the group.",
    notes={
        "v2+": "PRODUCER_FENCED, where older versions say INVALID_PRODUCER_EPOCH",
    },
    rights=(
        Right("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        Right("READ", "GROUP", "group_id"),
    ),
)
