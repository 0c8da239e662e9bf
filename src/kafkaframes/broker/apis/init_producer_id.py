"""InitProducerId: a producer gets its id and epoch.

An open transaction is aborted first, which is answered CONCURRENT_TRANSACTIONS as in Kafka: the client sends it
again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.transactions.coordinator import ProducerIdentity
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import InitProducerIdRequest, InitProducerIdResponse

    Request: TypeAlias = RequestOf[InitProducerIdRequest, InitProducerIdResponse]

_FIRST_WITH_FENCED = 4
_NONE = -1


def handle(request: Request, broker: BrokerState) -> Answer:
    """Give the producer its id and epoch."""
    body = request.body
    code = _why_not(request, broker)
    if code == ErrorCode.NONE:
        has_id = body.producer_id != _NONE
        expected = ProducerIdentity(body.producer_id, body.producer_epoch) if has_id else None
        try:
            given = broker.transactions.init_producer_id(body.transactional_id, body.transaction_timeout_ms, expected)
            return request.response(producer_id=given.producer_id, producer_epoch=given.producer_epoch)
        except KafkaframesError as error:
            code = error_of(error)
    if code == ErrorCode.PRODUCER_FENCED and request.version < _FIRST_WITH_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return _refuse(request, code)


def _why_not(request: Request, broker: BrokerState) -> int:
    body = request.body
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION
    if body.transactional_id is not None:
        code = elsewhere(request, broker, TRANSACTION, body.transactional_id)
        if code != ErrorCode.NONE:
            return code
    elif not broker.access.may_write_idempotently(request.session):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (body.producer_id == _NONE) != (body.producer_epoch == _NONE):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _refuse(request: Request, code: int) -> Answer:
    return request.response(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


API = Api(
    name="InitProducerId",
    handle=handle,
    tier="T2",
    versions=(0, 5),
    behaviour=(
        "Ids from blocks that are set aside on the disk, none twice; epochs fence older producers of a "
        "transactional id."
    ),
    notes={
        "v3+": "the next epoch for the same producer (KIP-360)",
        "v4+": "PRODUCER_FENCED, where older versions say INVALID_PRODUCER_EPOCH",
    },
    gaps=("version 6 (two-phase commit) is not stable in Kafka",),
    rights=(
        Right("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        Right("IDEMPOTENT_WRITE", "CLUSTER", each="without a transactional id; to WRITE to any TOPIC is enough"),
    ),
    refuse=_refuse,
)
