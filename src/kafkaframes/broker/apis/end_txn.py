"""EndTxn: a transaction is committed or aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import EndTxnRequest, EndTxnResponse

    Request: TypeAlias = RequestOf[EndTxnRequest, EndTxnResponse]

_FIRST_WITH_FENCED = 2
_FIRST_WITH_BUMP = 5


def handle(request: Request, broker: BrokerState) -> Answer:
    """Decide, write the markers, and say so."""
    body = request.body
    bumps = request.version >= _FIRST_WITH_BUMP
    code = elsewhere(request, broker, TRANSACTION, body.transactional_id)
    if code == ErrorCode.NONE:
        try:
            next_one = broker.transactions.end(
                body.transactional_id,
                body.producer_id,
                body.producer_epoch,
                commit=body.committed,
                version=2 if bumps else 0,
            )
        except KafkaframesError as error:
            code = error_of(error)
        else:
            if bumps:
                return request.response(producer_id=next_one.producer_id, producer_epoch=next_one.producer_epoch)
    if code == ErrorCode.PRODUCER_FENCED and request.version < _FIRST_WITH_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return request.response(error_code=code)


API = Api(
    name="EndTxn",
    handle=handle,
    tier="T2",
    behaviour=(
        "The decision is in __transaction_state before the markers, and these are in every partition before "
        "the answer; in Kafka they follow it. A repetition of the same end is answered again."
    ),
    notes={
        "v2+": "PRODUCER_FENCED, where older versions say INVALID_PRODUCER_EPOCH",
        "v5+": "the epoch grows with every end (KIP-890), and is answered; an abort of nothing is fine",
    },
    rights=(Right("WRITE", "TRANSACTIONAL_ID", "transactional_id"),),
)
