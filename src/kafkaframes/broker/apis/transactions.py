"""Handlers for transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn; and for administrators
(KIP-664): ListTransactions, DescribeTransactions, WriteTxnMarkers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.apis.groups import (
    TRANSACTION,
    check_rights,
    find_coordinator_error,
    find_transaction_error,
    get_error_code,
)
from kafkaframes.broker.requests.api import OMIT_FROM_RESPONSE, Answer, Api, RequiredPermission
from kafkaframes.broker.requests.failures import build_failure_response
from kafkaframes.broker.requests.request import Request, TypedRequest
from kafkaframes.broker.security.access import check_denied, is_allowed
from kafkaframes.broker.state.changes import Steps
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import GROUP_OFFSETS
from kafkaframes.coordination.groups.ports import ProducerIdentity
from kafkaframes.coordination.groups.subscriptions import match_names
from kafkaframes.coordination.transactions.coordinator import MARKERS_PER_STEP
from kafkaframes.coordination.transactions.state import STATES_BY_NAME
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError, to_error_code
from kafkaframes.storage.files.names import TopicPartition, group_by_topic

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _InitProducerId: TypeAlias = TypedRequest[kafka.InitProducerIdRequest, kafka.InitProducerIdResponse]
    _AddPartitionsToTxn: TypeAlias = TypedRequest[kafka.AddPartitionsToTxnRequest, kafka.AddPartitionsToTxnResponse]
    _AddOffsetsToTxn: TypeAlias = TypedRequest[kafka.AddOffsetsToTxnRequest, kafka.AddOffsetsToTxnResponse]
    _EndTxn: TypeAlias = TypedRequest[kafka.EndTxnRequest, kafka.EndTxnResponse]
    _ListTransactions: TypeAlias = TypedRequest[kafka.ListTransactionsRequest, kafka.ListTransactionsResponse]
    _DescribeTransactions: TypeAlias = TypedRequest[
        kafka.DescribeTransactionsRequest, kafka.DescribeTransactionsResponse
    ]
    _WriteTxnMarkers: TypeAlias = TypedRequest[kafka.WriteTxnMarkersRequest, kafka.WriteTxnMarkersResponse]


_FIRST_INIT_VERSION_WITH_PRODUCER_FENCED = 4
_NO_PRODUCER_ID = -1
_FIRST_VERSION_WITH_PRODUCER_FENCED = 2
_FIRST_VERSION_WITH_SEVERAL_TRANSACTIONS = 4
_Codes = dict[TopicPartition, int]
_FIRST_VERSION_WITH_EPOCH_BUMP = 5


def _refuse_id(request: _InitProducerId, code: int) -> Answer:
    return request.response(error_code=code, producer_id=_NO_PRODUCER_ID, producer_epoch=_NO_PRODUCER_ID)


@Api(
    name="InitProducerId",
    tier="T2",
    versions=(0, 5),
    behaviour="Assigns unique ids from blocks that are reserved on the disk; epochs fence older producers "
    "of a transactional id.",
    notes={
        "v3+": "a producer can request the next epoch of its producer id (KIP-360)",
        "v4+": "a fenced producer gets PRODUCER_FENCED; older versions return INVALID_PRODUCER_EPOCH",
    },
    gaps=("version 6 (two-phase commit) is not stable in Kafka",),
    rights=(
        RequiredPermission("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        RequiredPermission(
            "IDEMPOTENT_WRITE", "CLUSTER", each="a request without a transactional id; WRITE on any TOPIC is enough"
        ),
    ),
    refuse=_refuse_id,
)
def _init_producer_id(request: _InitProducerId, broker: BrokerState) -> Answer:
    """Answer InitProducerId. An ongoing transaction of the transactional id is aborted first.

    As in Kafka, the response is CONCURRENT_TRANSACTIONS until the abort is complete, and the client retries.
    """
    body = request.body
    code = _check_request(request, broker)
    if code == ErrorCode.NONE:
        has_id = body.producer_id != _NO_PRODUCER_ID
        expected_producer = ProducerIdentity(body.producer_id, body.producer_epoch) if has_id else None
        try:
            producer = broker.transactions.init_producer_id(
                body.transactional_id, body.transaction_timeout_ms, expected_producer
            )
            return request.response(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
        except KafkaframesError as error:
            code = get_error_code(error)
    return _refuse_id(request, _adapt_code_to_version(request, code, since=_FIRST_INIT_VERSION_WITH_PRODUCER_FENCED))


def _adapt_code_to_version(request: Request, code: int, *, since: int = _FIRST_VERSION_WITH_PRODUCER_FENCED) -> int:
    """Return an error code that the request's version knows: in older versions, PRODUCER_FENCED is replaced."""
    is_too_new = code == ErrorCode.PRODUCER_FENCED and request.version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_too_new else code


def _check_request(request: _InitProducerId, broker: BrokerState) -> int:
    """Return the error code of an InitProducerId request; 0 if it is valid."""
    body = request.body
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION
    if body.transactional_id is not None:
        code = find_coordinator_error(request, broker, TRANSACTION, body.transactional_id)
        if code != ErrorCode.NONE:
            return code
    elif not broker.access.may_write_idempotently(request.session):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (body.producer_id == _NO_PRODUCER_ID) != (body.producer_epoch == _NO_PRODUCER_ID):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _reject_partitions(request: _AddPartitionsToTxn, code: int) -> Answer:
    """Return a response that rejects all partitions with the same error code."""
    if request.version >= _FIRST_VERSION_WITH_SEVERAL_TRANSACTIONS:
        return request.response(error_code=code)
    topics = request.body.v3_and_below_topics
    codes = dict.fromkeys(_partitions(topics), code)
    return request.response(results_by_topic_v3_and_below=_build_topic_rows(request, topics, codes))


@Api(
    name="AddPartitionsToTxn",
    tier="T2",
    behaviour="Adds partitions to the transaction, in the log, before the response. If one fails, none is "
    "added, and the others are OPERATION_NOT_ATTEMPTED.",
    notes={
        "v0-v3": "a client adds partitions to one transaction",
        "v2+": "a fenced producer gets PRODUCER_FENCED; older versions return INVALID_PRODUCER_EPOCH",
        "v4+": "several transactions, between brokers; verify_only checks whether the partitions are already"
        " part of a transaction",
    },
    rights=(
        RequiredPermission("WRITE", "TRANSACTIONAL_ID", "v3_and_below_transactional_id", last_version=3),
        RequiredPermission("CLUSTER_ACTION", "CLUSTER", first_version=4),
        RequiredPermission("WRITE", "TOPIC", each="each topic", last_version=3),
    ),
    refuse=_reject_partitions,
)
def _add_partitions_to_txn(request: _AddPartitionsToTxn, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    if request.version < _FIRST_VERSION_WITH_SEVERAL_TRANSACTIONS:
        return _answer_single_transaction(request, broker)

    def build_row(
        transaction: kafka.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
    ) -> kafka.AddPartitionsToTxnResponse.AddPartitionsToTxnResult:
        producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
        add = _verify_partitions if transaction.verify_only else _add_partitions
        codes = {
            topic_partition: _find_partition_error(request, broker, topic_partition)
            for topic_partition in _partitions(transaction.topics)
        }
        results = _build_topic_rows(request, transaction.topics, add(request, broker, producer, codes))
        return types.AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)

    return broker.changes.answer_rows(
        body.transactions, build_row, lambda rows: request.response(results_by_transaction=rows)
    )


def _answer_single_transaction(request: _AddPartitionsToTxn, broker: BrokerState) -> Answer:
    """Add a client's partitions to one transaction: check them in steps, and then add all of them, or none."""
    body = request.body
    producer = body.v3_and_below_transactional_id, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
    topics = body.v3_and_below_topics

    def build_response(rows: list[tuple[TopicPartition, int]]) -> Answer:
        codes = _add_partitions(request, broker, producer, dict(rows))
        return request.response(results_by_topic_v3_and_below=_build_topic_rows(request, topics, codes))

    return broker.changes.answer_rows(
        _partitions(topics), lambda where: (where, _find_partition_error(request, broker, where)), build_response
    )


def _partitions(topics: list[kafka.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _add_partitions(
    request: _AddPartitionsToTxn, broker: BrokerState, producer: tuple[str, int, int], codes: _Codes
) -> _Codes:
    code = find_transaction_error(request, broker, TRANSACTION, producer[0])
    if code == ErrorCode.NONE:
        if any(codes.values()):
            return _mark_not_attempted(codes)
        try:
            broker.transactions.add_partitions(*producer, list(codes))
        except KafkaframesError as error:
            code = get_error_code(error)
    return dict.fromkeys(codes, _adapt_code_to_version(request, code))


def _verify_partitions(
    request: _AddPartitionsToTxn, broker: BrokerState, producer: tuple[str, int, int], codes: _Codes
) -> _Codes:
    """Return an error code for each partition: whether it is in the producer's transaction (KIP-890)."""
    if any(codes.values()):
        return _mark_not_attempted(codes)
    for topic_partition in codes:
        codes[topic_partition] = find_coordinator_error(request, broker, TRANSACTION, producer[0])
        try:
            if codes[topic_partition] == ErrorCode.NONE:
                broker.transactions.verify_partition(*producer, topic_partition)
        except KafkaframesError as error:
            codes[topic_partition] = get_error_code(error)
    return codes


def _mark_not_attempted(codes: _Codes) -> _Codes:
    """Return the error codes of a rejected request: OPERATION_NOT_ATTEMPTED for partitions without an error."""
    return {topic_partition: code or ErrorCode.OPERATION_NOT_ATTEMPTED for topic_partition, code in codes.items()}


def _find_partition_error(request: _AddPartitionsToTxn, broker: BrokerState, topic_partition: TopicPartition) -> int:
    """Return the error code of a partition that is to be added to a transaction."""
    is_client = request.version < _FIRST_VERSION_WITH_SEVERAL_TRANSACTIONS
    if is_client and broker.is_internal(topic_partition.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    code = check_denied(request, broker.access, "TOPIC", topic_partition.topic) if is_client else ErrorCode.NONE
    is_served = broker.partition(topic_partition.topic, topic_partition.partition) is not None
    return code or (ErrorCode.NONE if is_served else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _build_topic_rows(
    request: _AddPartitionsToTxn, topics: list[kafka.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic], codes: _Codes
) -> list[kafka.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    """Return the response's topic rows; as in Kafka, partitions with errors precede those that were not attempted."""
    types, unattempted_partitions = request.response, ErrorCode.OPERATION_NOT_ATTEMPTED
    rows_of_topics = []
    for topic in topics:
        if not topic.partitions:
            continue  # as in Kafka, a topic without partitions is omitted from the response
        partitions = [TopicPartition(topic.name, index) for index in topic.partitions]
        partitions.sort(key=lambda where: codes[where] == unattempted_partitions)
        rows = [
            types.AddPartitionsToTxnPartitionResult(
                partition_index=topic_partition.partition, partition_error_code=codes[topic_partition]
            )
            for topic_partition in partitions
        ]
        rows_of_topics.append(types.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows))
    return rows_of_topics


@Api(
    name="AddOffsetsToTxn",
    tier="T2",
    behaviour="Adds the group's partition of __consumer_offsets to the transaction.",
    notes={
        "v2+": "a fenced producer gets PRODUCER_FENCED; older versions return INVALID_PRODUCER_EPOCH",
    },
    rights=(
        RequiredPermission("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        RequiredPermission("READ", "GROUP", "group_id"),
    ),
)
def _add_offsets_to_txn(request: _AddOffsetsToTxn, broker: BrokerState) -> Answer:
    body = request.body
    code = find_transaction_error(request, broker, TRANSACTION, body.transactional_id)
    if code == ErrorCode.NONE:
        try:
            offsets_topic_partition = find_offsets_partition(broker, body.group_id)
            broker.transactions.add_partitions(
                body.transactional_id, body.producer_id, body.producer_epoch, [offsets_topic_partition]
            )
        except KafkaframesError as error:
            code = get_error_code(error)
    return request.response(error_code=_adapt_code_to_version(request, code))


def find_offsets_partition(broker: BrokerState, group_id: str) -> TopicPartition:
    """Return the ``__consumer_offsets`` partition of a group."""
    return TopicPartition(GROUP_OFFSETS, broker.groups.commits.build_transaction_key(group_id, -1)[0])


@Api(
    name="EndTxn",
    tier="T2",
    behaviour="Writes the decision to __transaction_state before the markers. The markers are in every "
    "partition before the response, unless there are 50 partitions or more; in Kafka they follow "
    "the response. A repeated request gets the same response.",
    notes={
        "v2+": "a fenced producer gets PRODUCER_FENCED; older versions return INVALID_PRODUCER_EPOCH",
        "v5+": "every end increases the epoch and returns it (KIP-890); an abort of an empty transaction succeeds",
    },
    rights=(RequiredPermission("WRITE", "TRANSACTIONAL_ID", "transactional_id"),),
)
def _end_txn(request: _EndTxn, broker: BrokerState) -> Answer:
    body = request.body
    bumps_epoch = request.version >= _FIRST_VERSION_WITH_EPOCH_BUMP
    code = find_coordinator_error(request, broker, TRANSACTION, body.transactional_id)
    if code == ErrorCode.NONE:
        try:
            next_producer = broker.transactions.end_transaction(
                body.transactional_id,
                body.producer_id,
                body.producer_epoch,
                commit=body.committed,
                version=2 if bumps_epoch else 0,
            )
        except KafkaframesError as error:
            code = get_error_code(error)
        else:
            if bumps_epoch:
                return request.response(
                    producer_id=next_producer.producer_id, producer_epoch=next_producer.producer_epoch
                )
    return request.response(error_code=_adapt_code_to_version(request, code))


@Api(
    name="ListTransactions",
    tier="T2",
    behaviour="Lists transactional ids by state, producer id, duration and pattern. Unknown states are "
    "returned in the response and match nothing.",
    notes={
        "v1+": "by duration (KIP-994)",
        "v2+": "a pattern must match the whole id (KIP-1152)",
    },
    rights=(
        RequiredPermission("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id", denied=OMIT_FROM_RESPONSE),
    ),
)
def _list_transactions(request: _ListTransactions, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    unknown = [name for name in body.state_filters if name not in STATES_BY_NAME]
    known_states = [name for name in body.state_filters if name in STATES_BY_NAME]
    pattern = body.transactional_id_pattern
    try:
        matching_ids = match_names(pattern, broker.transactions.transactions) if pattern else None
    except RefusedError:
        return request.response(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    transactions = []
    if known_states or not unknown:
        transactions = broker.transactions.list_transactions(
            states=known_states,
            producer_ids=body.producer_id_filters,
            longer_than_ms=body.duration_filter,
            transactional_ids=matching_ids,
        )
    rows = [
        types.TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.kafka_name,
        )
        for transaction in transactions
        if check_rights(request, broker, TRANSACTION, transaction.transactional_id) == ErrorCode.NONE
    ]
    return request.response(unknown_state_filters=unknown, transaction_states=rows)


@Api(
    name="DescribeTransactions",
    tier="T2",
    behaviour="Returns state, producer, timeout and partitions of transactional ids.",
    rights=(
        RequiredPermission("DESCRIBE", "TRANSACTIONAL_ID", each="each transactional id"),
        RequiredPermission("DESCRIBE", "TOPIC", each="each topic of a transaction", denied=OMIT_FROM_RESPONSE),
    ),
)
def _describe_transactions(request: _DescribeTransactions, broker: BrokerState) -> Answer:
    return broker.changes.answer_rows(
        request.body.transactional_ids,
        partial(_describe_transaction, request, broker),
        lambda rows: request.response(transaction_states=rows),
    )


def _describe_transaction(
    request: _DescribeTransactions, broker: BrokerState, name: str
) -> kafka.DescribeTransactionsResponse.TransactionState:
    types = request.response
    code = check_rights(request, broker, TRANSACTION, name)
    if code != ErrorCode.NONE:
        return types.TransactionState(transactional_id=name, error_code=code)
    try:
        transaction = broker.transactions.describe_transaction(name)
    except KafkaframesError as error:
        return types.TransactionState(transactional_id=name, error_code=get_error_code(error))
    may_see = {
        topic_partition.topic: is_allowed(request, broker.access, "TOPIC", topic_partition.topic)
        for topic_partition in transaction.partitions
    }
    visible_partitions = group_by_topic(
        topic_partition for topic_partition in sorted(transaction.partitions) if may_see[topic_partition.topic]
    )
    return types.TransactionState(
        transactional_id=name,
        transaction_state=transaction.state.kafka_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[types.TopicData(topic=topic, partitions=indexes) for topic, indexes in visible_partitions.items()],
    )


@Api(
    name="WriteTxnMarkers",
    tier="T2",
    behaviour="Writes markers to partitions, so that an administrator can end a hanging transaction.",
    notes={
        "v2+": "the request has a transaction version, which is ignored here",
    },
    rights=(RequiredPermission("ALTER", "CLUSTER", or_cluster="CLUSTER_ACTION"),),
    refuse=build_failure_response,
)
def _write_txn_markers(request: _WriteTxnMarkers, broker: BrokerState) -> Answer:
    return broker.changes.run(_write_markers_in_steps(request, broker))


def _write_markers_in_steps(request: _WriteTxnMarkers, broker: BrokerState) -> Steps[Answer]:
    types, results, marker_count = request.response, [], 0
    for marker in request.body.markers:
        topics = []
        for topic in marker.topics:
            rows = []
            for index in topic.partition_indexes:
                code = _write_marker(broker, marker, topic.name, index)
                rows.append(types.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
                marker_count += 1
                if marker_count % MARKERS_PER_STEP == 0:
                    yield
            topics.append(types.WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
        results.append(types.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return request.response(markers=results)


def _write_marker(broker: BrokerState, marker: Any, topic: str, index: int) -> int:
    """Write a transaction marker to a partition, and return the error code."""
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
        return to_error_code(error)
    if topic == GROUP_OFFSETS:
        broker.groups.end_transaction(index, marker.producer_id, commit=marker.transaction_result)
    return ErrorCode.NONE
