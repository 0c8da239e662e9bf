"""AddPartitionsToTxn: partitions become part of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import TRANSACTION, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

    Request: TypeAlias = RequestOf[AddPartitionsToTxnRequest, AddPartitionsToTxnResponse]

_FIRST_WITH_FENCED = 2
_FIRST_WITH_MANY = 4
_Codes = dict[TopicPartition, int]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Add the partitions of each transaction."""
    body, types = request.body, request.response
    if request.version < _FIRST_WITH_MANY:
        return _answer_client(request, broker)

    def row(
        one: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction,
    ) -> AddPartitionsToTxnResponse.AddPartitionsToTxnResult:
        producer = one.transactional_id, one.producer_id, one.producer_epoch
        add = _verified if one.verify_only else _added
        codes = {where: _why_not(request, broker, where) for where in _partitions(one.topics)}
        results = _rows(request, one.topics, add(request, broker, producer, codes))
        return types.AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results)

    def answer(rows: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]) -> Answer:
        return request.response(results_by_transaction=rows)

    return broker.changes.rows(body.transactions, row, answer)


def _answer_client(request: Request, broker: BrokerState) -> Answer:
    """Add the partitions of one transaction, which may be many: they are looked at in turns, and added at once."""
    body = request.body
    producer = body.v3_and_below_transactional_id, body.v3_and_below_producer_id, body.v3_and_below_producer_epoch
    topics = body.v3_and_below_topics

    def answer(rows: list[tuple[TopicPartition, int]]) -> Answer:
        codes = _added(request, broker, producer, dict(rows))
        return request.response(results_by_topic_v3_and_below=_rows(request, topics, codes))

    return broker.changes.rows(_partitions(topics), lambda where: (where, _why_not(request, broker, where)), answer)


def _partitions(topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _added(
    request: Request,
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


def _verified(request: Request, broker: BrokerState, producer: tuple[str, int, int], codes: _Codes) -> _Codes:
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


def _why_not(request: Request, broker: BrokerState, where: TopicPartition) -> int:
    is_client = request.version < _FIRST_WITH_MANY
    if is_client and broker.is_internal(where.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    code = denied(request, broker.access, "TOPIC", where.topic) if is_client else ErrorCode.NONE
    there = broker.partition(where.topic, where.partition) is not None
    return code or (ErrorCode.NONE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _rows(
    request: Request, topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic], codes: _Codes
) -> list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]:
    """Return the answer's topics; what was not attempted comes after what was refused, as in Kafka's answers."""
    types, not_tried = request.response, ErrorCode.OPERATION_NOT_ATTEMPTED
    found = []
    for topic in topics:
        if not topic.partitions:
            continue  # Kafka answers partition by partition
        places = [TopicPartition(topic.name, index) for index in topic.partitions]
        places.sort(key=lambda where: codes[where] == not_tried)
        rows = [
            types.AddPartitionsToTxnPartitionResult(partition_index=where.partition, partition_error_code=codes[where])
            for where in places
        ]
        found.append(types.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows))
    return found


def _refuse(request: Request, code: int) -> Answer:
    if request.version >= _FIRST_WITH_MANY:
        return request.response(error_code=code)
    topics = request.body.v3_and_below_topics
    codes = dict.fromkeys(_partitions(topics), code)
    return request.response(results_by_topic_v3_and_below=_rows(request, topics, codes))


API = Api(
    name="AddPartitionsToTxn",
    handle=handle,
    tier="T2",
    behaviour=(
        "Partitions are part of the transaction, in the log, before the answer; all or none are: others are "
        "OPERATION_NOT_ATTEMPTED."
    ),
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
    refuse=_refuse,
)
