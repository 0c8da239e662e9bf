"""ListTransactions: the transactional ids of this node (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import LEFT_OUT, Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.patterns import matching
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.coordination.transactions.state import BY_NAME
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ListTransactionsRequest, ListTransactionsResponse

    Request: TypeAlias = RequestOf[ListTransactionsRequest, ListTransactionsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """List what passes the filters."""
    body, types = request.body, request.response
    unknown = [name for name in body.state_filters if name not in BY_NAME]
    known = [name for name in body.state_filters if name in BY_NAME]
    pattern = body.transactional_id_pattern
    try:
        among = matching(pattern, broker.transactions.transactions) if pattern else None
    except RefusedError:
        return request.response(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = []
    if known or not unknown:
        found = broker.transactions.listed(
            states=known, producer_ids=body.producer_id_filters, longer_than_ms=body.duration_filter, among=among
        )
    rows = [
        types.TransactionState(
            transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.shown
        )
        for one in found
        if refused(request, broker, TRANSACTION, one.transactional_id) == ErrorCode.NONE
    ]
    return request.response(unknown_state_filters=unknown, transaction_states=rows)


API = Api(
    name="ListTransactions",
    handle=handle,
    tier="T2",
    behaviour=(
        "Transactional ids by state, producer id, duration and pattern; states that Kafka does not have are "
        "answered, and match nothing."
    ),
    notes={
        "v1+": "by duration (KIP-994)",
        "v2+": "by a pattern for the id (KIP-1152), which must match it whole",
    },
    rights=(Right("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id", denied=LEFT_OUT),),
)
