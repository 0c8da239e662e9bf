"""DescribeTransactions: what the coordinator knows of transactional ids (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import may
from kafkaframes.broker.api import LEFT_OUT, Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, by_topic, error_of, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeTransactionsRequest, DescribeTransactionsResponse

    Request: TypeAlias = RequestOf[DescribeTransactionsRequest, DescribeTransactionsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe each transactional id."""

    def answer(rows: list[DescribeTransactionsResponse.TransactionState]) -> Answer:
        return request.response(transaction_states=rows)

    return broker.changes.rows(request.body.transactional_ids, lambda name: _described(request, broker, name), answer)


def _described(request: Request, broker: BrokerState, name: str) -> DescribeTransactionsResponse.TransactionState:
    types = request.response
    code = refused(request, broker, TRANSACTION, name)
    if code != ErrorCode.NONE:
        return types.TransactionState(transactional_id=name, error_code=code)
    try:
        one = broker.transactions.describe(name)
    except KafkaframesError as error:
        return types.TransactionState(transactional_id=name, error_code=error_of(error))
    may_see = {where.topic: may(request, broker.access, "TOPIC", where.topic) for where in one.partitions}
    seen = by_topic(where for where in sorted(one.partitions) if may_see[where.topic])
    return types.TransactionState(
        transactional_id=name,
        transaction_state=one.state.shown,
        transaction_timeout_ms=one.timeout_ms,
        transaction_start_time_ms=one.start_ms,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        topics=[types.TopicData(topic=topic, partitions=indexes) for topic, indexes in seen],
    )


API = Api(
    name="DescribeTransactions",
    handle=handle,
    tier="T2",
    behaviour="State, producer, timeout and partitions of transactional ids.",
    rights=(
        Right("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id"),
        Right("DESCRIBE", "TOPIC", each="each topic of a transaction", denied=LEFT_OUT),
    ),
)
