"""Transactions as an administrator sees them (KIP-664): ListTransactions, DescribeTransactions, WriteTxnMarkers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import may
from kafkaframes.broker.api import LEFT_OUT, Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, by_topic, error_of, refused
from kafkaframes.broker.changes import Steps
from kafkaframes.broker.failures import failed
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import GROUP_OFFSETS
from kafkaframes.coordination.groups.patterns import matching
from kafkaframes.coordination.transactions.coordinator import MARKERS_OF_A_TURN
from kafkaframes.coordination.transactions.state import BY_NAME
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError, code_of

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ListTransactions: TypeAlias = RequestOf[kafka.ListTransactionsRequest, kafka.ListTransactionsResponse]
    _DescribeTransactions: TypeAlias = RequestOf[kafka.DescribeTransactionsRequest, kafka.DescribeTransactionsResponse]
    _WriteTxnMarkers: TypeAlias = RequestOf[kafka.WriteTxnMarkersRequest, kafka.WriteTxnMarkersResponse]


@Api(
    name="ListTransactions",
    tier="T2",
    behaviour="Transactional ids by state, producer id, duration and pattern; states that Kafka does not have are "
    "answered, and match nothing.",
    notes={
        "v1+": "by duration (KIP-994)",
        "v2+": "by a pattern for the id (KIP-1152), which must match it whole",
    },
    rights=(Right("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id", denied=LEFT_OUT),),
)
def _list_transactions(request: _ListTransactions, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    unknown = [name for name in body.state_filters if name not in BY_NAME]
    known = [name for name in body.state_filters if name in BY_NAME]
    pattern = body.transactional_id_pattern
    try:
        among = matching(pattern, broker.transactions.transactions) if pattern else None
    except RefusedError:
        return request.response(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    listed = []
    if known or not unknown:
        listed = broker.transactions.listed(
            states=known, producer_ids=body.producer_id_filters, longer_than_ms=body.duration_filter, among=among
        )
    rows = [
        types.TransactionState(
            transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.shown
        )
        for one in listed
        if refused(request, broker, TRANSACTION, one.transactional_id) == ErrorCode.NONE
    ]
    return request.response(unknown_state_filters=unknown, transaction_states=rows)


@Api(
    name="DescribeTransactions",
    tier="T2",
    behaviour="State, producer, timeout and partitions of transactional ids.",
    rights=(
        Right("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id"),
        Right("DESCRIBE", "TOPIC", each="each topic of a transaction", denied=LEFT_OUT),
    ),
)
def _describe_transactions(request: _DescribeTransactions, broker: BrokerState) -> Answer:
    return broker.changes.rows(
        request.body.transactional_ids,
        partial(_described, request, broker),
        lambda rows: request.response(transaction_states=rows),
    )


def _described(
    request: _DescribeTransactions, broker: BrokerState, name: str
) -> kafka.DescribeTransactionsResponse.TransactionState:
    types = request.response
    code = refused(request, broker, TRANSACTION, name)
    if code != ErrorCode.NONE:
        return types.TransactionState(transactional_id=name, error_code=code)
    try:
        transaction = broker.transactions.describe(name)
    except KafkaframesError as error:
        return types.TransactionState(transactional_id=name, error_code=error_of(error))
    may_see = {where.topic: may(request, broker.access, "TOPIC", where.topic) for where in transaction.partitions}
    seen = by_topic(where for where in sorted(transaction.partitions) if may_see[where.topic])
    return types.TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.shown,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[types.TopicData(topic=topic, partitions=indexes) for topic, indexes in seen],
    )


@Api(
    name="WriteTxnMarkers",
    tier="T2",
    behaviour="Writes markers into partitions: how an administrator ends a transaction that hangs.",
    notes={
        "v2+": "the version of the transaction, which changes nothing here",
    },
    rights=(Right("ALTER", "CLUSTER", or_cluster="CLUSTER_ACTION"),),
    refuse=failed,
)
def _write_txn_markers(request: _WriteTxnMarkers, broker: BrokerState) -> Answer:
    return broker.changes.run(_writing(request, broker))


def _writing(request: _WriteTxnMarkers, broker: BrokerState) -> Steps[Answer]:
    types, results, written = request.response, [], 0
    for marker in request.body.markers:
        topics = []
        for topic in marker.topics:
            rows = []
            for index in topic.partition_indexes:
                code = _written(broker, marker, topic.name, index)
                rows.append(types.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                written += 1
                if written % MARKERS_OF_A_TURN == 0:
                    yield
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
