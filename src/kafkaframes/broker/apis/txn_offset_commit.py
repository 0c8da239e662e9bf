"""TxnOffsetCommit: offsets that count when their transaction commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, OffsetRows, elsewhere, error_of, refused_offsets
from kafkaframes.broker.apis.add_offsets_to_txn import offsets_partition
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.commits import Producer
from kafkaframes.coordination.groups.membership import Committer
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import TxnOffsetCommitRequest, TxnOffsetCommitResponse

    Request: TypeAlias = RequestOf[TxnOffsetCommitRequest, TxnOffsetCommitResponse]

_FIRST_ABORTABLE = 4
_FIRST_WITH_IMPLICIT_ADD = 5
_FIRST_WITH_IDS = 6
_NOT_THE_CLIENT_S = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
_NOT_ADDED = {ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}


def handle(request: Request, broker: BrokerState) -> Answer:
    """Stage the offsets."""
    rows = OffsetRows(request, broker, by_id_since=_FIRST_WITH_IDS)
    return rows.answered(lambda: _answer(request, broker, rows))


def _answer(request: Request, broker: BrokerState, rows: OffsetRows) -> Answer:
    body, types = request.body, request.response
    done: dict[TopicPartition, int] | int
    done = elsewhere(request, broker, GROUP, body.group_id)
    if done == ErrorCode.NONE and not body.group_id:
        done = ErrorCode.INVALID_GROUP_ID
    if done == ErrorCode.NONE and rows.offsets:
        done = _staged(request, broker, rows)
    return request.response(
        topics=rows.answer(types.TxnOffsetCommitResponseTopic, types.TxnOffsetCommitResponsePartition, done)
    )


def _staged(request: Request, broker: BrokerState, rows: OffsetRows) -> dict[TopicPartition, int] | int:
    body = request.body
    producer = Producer(body.producer_id, body.producer_epoch)
    where = offsets_partition(broker, body.group_id)
    try:
        if request.version >= _FIRST_WITH_IMPLICIT_ADD:
            broker.transactions.add_partitions(body.transactional_id, *producer, [where], version=2)
        else:
            broker.transactions.verify_partition(body.transactional_id, *producer, where)
    except KafkaframesError as error:
        code = _NOT_THE_CLIENT_S.get(error_of(error), error_of(error))
        return code if request.version >= _FIRST_ABORTABLE else _NOT_ADDED.get(code, code)
    who = Committer(body.group_id, body.member_id, body.group_instance_id, body.generation_id_or_member_epoch)
    try:
        return broker.groups.commits.commit_in_transaction(who, rows.offsets, producer)
    except KafkaframesError as error:
        return error_of(error)


def _refuse(request: Request, code: int) -> Answer:
    types = request.response
    made = refused_offsets(request, types.TxnOffsetCommitResponseTopic, types.TxnOffsetCommitResponsePartition, code)
    return request.response(topics=made)


API = Api(
    name="TxnOffsetCommit",
    handle=handle,
    tier="T2",
    behaviour=(
        "Stages offsets in the transaction; until its marker is written, OffsetFetch with require_stable "
        "answers UNSTABLE_OFFSET_COMMIT."
    ),
    notes={
        "v0-v4": (
            "AddOffsetsToTxn must have added the group: else v4 hears TRANSACTION_ABORTABLE, the others "
            "INVALID_TXN_STATE"
        ),
        "v2+": "leader epochs",
        "v3+": "member, generation and instance id are checked (KIP-447)",
        "v5+": "adds the group itself (KIP-890)",
        "v6+": "topic ids",
    },
    rights=(
        Right("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        Right("READ", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
    refuse=_refuse,
)
