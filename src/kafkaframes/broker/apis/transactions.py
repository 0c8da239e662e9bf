"""Transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import GROUP_OFFSETS
from kafkaframes.coordination.transactions.coordinator import ProducerIdentity
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _InitProducerId: TypeAlias = RequestOf[kafka.InitProducerIdRequest, kafka.InitProducerIdResponse]
    _AddPartitionsToTxn: TypeAlias = RequestOf[kafka.AddPartitionsToTxnRequest, kafka.AddPartitionsToTxnResponse]
    _AddOffsetsToTxn: TypeAlias = RequestOf[kafka.AddOffsetsToTxnRequest, kafka.AddOffsetsToTxnResponse]
    _EndTxn: TypeAlias = RequestOf[kafka.EndTxnRequest, kafka.EndTxnResponse]

_FIRST_INIT_WITH_FENCED = 4
_NONE = -1
_FIRST_WITH_FENCED = 2
_FIRST_WITH_MANY = 4
_Codes = dict[TopicPartition, int]
_FIRST_WITH_BUMP = 5


def _refuse_id(request: _InitProducerId, code: int) -> Answer:
    return request.response(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


@Api(
    name="InitProducerId",
    tier="T2",
    versions=(0, 5),
    behaviour="Ids from blocks that are set aside on the disk, none twice; epochs fence older producers of a "
    "transactional id.",
    notes={
        "v3+": "the next epoch for the same producer (KIP-360)",
        "v4+": "PRODUCER_FENCED, where older versions say INVALID_PRODUCER_EPOCH",
    },
    gaps=("version 6 (two-phase commit) is not stable in Kafka",),
    rights=(
        Right("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        Right("IDEMPOTENT_WRITE", "CLUSTER", each="without a transactional id; to WRITE to any TOPIC is enough"),
    ),
    refuse=_refuse_id,
)
def _init_producer_id(request: _InitProducerId, broker: BrokerState) -> Answer:
    """An open transaction is aborted first, which is answered CONCURRENT_TRANSACTIONS as in Kafka: the client sends it
    again.
    """
    body = request.body
    code = _refusal(request, broker)
    if code == ErrorCode.NONE:
        has_id = body.producer_id != _NONE
        expected = ProducerIdentity(body.producer_id, body.producer_epoch) if has_id else None
        try:
            producer = broker.transactions.init_producer_id(
                body.transactional_id, body.transaction_timeout_ms, expected
            )
            return request.response(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
        except KafkaframesError as error:
            code = error_of(error)
    if code == ErrorCode.PRODUCER_FENCED and request.version < _FIRST_INIT_WITH_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return _refuse_id(request, code)


def _refusal(request: _InitProducerId, broker: BrokerState) -> int:
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


def _refuse_partitions(request: _AddPartitionsToTxn, code: int) -> Answer:
    if request.version >= _FIRST_WITH_MANY:
        return request.response(error_code=code)
    topics = request.body.v3_and_below_topics
    codes = dict.fromkeys(_partitions(topics), code)
    return request.response(results_by_topic_v3_and_below=_rows(request, topics, codes))


@Api(
    name="AddPartitionsToTxn",
    tier="T2",
    behaviour="Partitions are part of the transaction, in the log, before the answer; all or none are: others are "
    "OPERATION_NOT_ATTEMPTED.",
    notes={
        "v0-v3": "one transaction, from a client",
        "v2+": "PRODUCER_FENCED, where older versions say INVALID_PRODUCER_EPOCH",
        "v4+": "many, between brokers; verify_only asks whether the partitions are part of it already",
    },
    rights=(
        Right("WRITE", "TRANSACTIONAL_ID", "v3_and_below_transactional_id", until=3),
        Right("CLUSTER_ACTION", "CLUSTER", since=4),
        Right("WRITE", "TOPIC", each="each topic", until=3),
    ),
    refuse=_refuse_partitions,
)
def _add_partitions_to_txn(request: _AddPartitionsToTxn, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    if request.version < _FIRST_WITH_MANY:
        return _answer_client(request, broker)

    def row(
        transaction: kafka.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
    ) -> kafka.AddPartitionsToTxnResponse.AddPartitionsToTxnResult:
        producer = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
        add = _verified if transaction.verify_only else _added
        codes = {where: _partition_refusal(request, broker, where) for where in _partitions(transaction.topics)}
        results = _rows(request, transaction.topics, add(request, broker, producer, codes))
        return types.AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)

    return broker.changes.rows(body.transactions, row, lambda rows: request.response(results_by_transaction=rows))


def _answer_client(request: _AddPartitionsToTxn, broker: BrokerState) -> Answer:
    """Add the partitions of one transaction, which may be many: they are looked at in turns, and added at once."""
    body = request.body
    producer = body.v3_and_below_transactional_id, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
    topics = body.v3_and_below_topics

    def answer(rows: list[tuple[TopicPartition, int]]) -> Answer:
        codes = _added(request, broker, producer, dict(rows))
        return request.response(results_by_topic_v3_and_below=_rows(request, topics, codes))

    return broker.changes.rows(
        _partitions(topics), lambda where: (where, _partition_refusal(request, broker, where)), answer
    )


def _partitions(topics: list[kafka.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _added(
    request: _AddPartitionsToTxn,
    broker: BrokerState,
    producer: tuple[str, int, int],
    codes: _Codes,
) -> _Codes:
    code = elsewhere(request, broker, TRANSACTION, producer[0])
    if code == ErrorCode.NONE:
        if any(codes.values()):
            return _not_attempted(codes)
        try:
            broker.transactions.add_partitions(*producer, list(codes))
        except KafkaframesError as error:
            code = error_of(error)
    if code == ErrorCode.PRODUCER_FENCED and request.version < _FIRST_WITH_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return dict.fromkeys(codes, code)


def _verified(
    request: _AddPartitionsToTxn, broker: BrokerState, producer: tuple[str, int, int], codes: _Codes
) -> _Codes:
    if any(codes.values()):
        return _not_attempted(codes)
    for where in codes:
        codes[where] = elsewhere(request, broker, TRANSACTION, producer[0])
        try:
            if codes[where] == ErrorCode.NONE:
                broker.transactions.verify_partition(*producer, where)
        except KafkaframesError as error:
            codes[where] = error_of(error)
    return codes


def _not_attempted(codes: _Codes) -> _Codes:
    """Return why partitions cannot be added, of which one cannot: the others are not attempted."""
    return {where: code or ErrorCode.OPERATION_NOT_ATTEMPTED for where, code in codes.items()}


def _partition_refusal(request: _AddPartitionsToTxn, broker: BrokerState, where: TopicPartition) -> int:
    is_client = request.version < _FIRST_WITH_MANY
    if is_client and broker.is_internal(where.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    code = denied(request, broker.access, "TOPIC", where.topic) if is_client else ErrorCode.NONE
    there = broker.partition(where.topic, where.partition) is not None
    return code or (ErrorCode.NONE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _rows(
    request: _AddPartitionsToTxn, topics: list[kafka.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic], codes: _Codes
) -> list[kafka.AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    """Return the answer's topics; what was not attempted comes after what was refused, as in Kafka's answers."""
    types, not_tried = request.response, ErrorCode.OPERATION_NOT_ATTEMPTED
    rows_of_topics = []
    for topic in topics:
        if not topic.partitions:
            continue  # Kafka answers partition by partition
        partitions = [TopicPartition(topic.name, index) for index in topic.partitions]
        partitions.sort(key=lambda where: codes[where] == not_tried)
        rows = [
            types.AddPartitionsToTxnPartitionResult(partition_index=where.partition, partition_error_code=codes[where])
            for where in partitions
        ]
        rows_of_topics.append(types.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows))
    return rows_of_topics


@Api(
    name="AddOffsetsToTxn",
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
def _add_offsets_to_txn(request: _AddOffsetsToTxn, broker: BrokerState) -> Answer:
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


@Api(
    name="EndTxn",
    tier="T2",
    behaviour="The decision is in __transaction_state before the markers, and these are in every partition before "
    "the answer, unless there are 50 partitions or more; in Kafka they follow it. A repetition of the same end is "
    "answered again.",
    notes={
        "v2+": "PRODUCER_FENCED, where older versions say INVALID_PRODUCER_EPOCH",
        "v5+": "the epoch grows with every end (KIP-890), and is answered; an abort of nothing is fine",
    },
    rights=(Right("WRITE", "TRANSACTIONAL_ID", "transactional_id"),),
)
def _end_txn(request: _EndTxn, broker: BrokerState) -> Answer:
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
