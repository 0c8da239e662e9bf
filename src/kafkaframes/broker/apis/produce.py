"""Produce: append records to partitions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kafkaframes.broker import produce
from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, CloseConnection, Right
from kafkaframes.broker.changes import Waiting
from kafkaframes.broker.find import current_leader, endpoints_of, find_topic, led_here
from kafkaframes.broker.produce import Outcome, Produced, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition, Topic
from kafkaframes.errors import AppendRefusedError, ErrorCode, code_of
from kafkaframes.protocol.messages import Message
from kafkaframes.records.append.settings import KEEP
from kafkaframes.records.limits import ContentBudget

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _Produce: TypeAlias = RequestOf[kafka.ProduceRequest, kafka.ProduceResponse]

_FIRST_BY_ID = 13
_FIRST_WITH_LEADER = 10
_FIRST_IMPLICIT = 12
_FIRST_ABORTABLE = 11
_ACKS = (-1, 0, 1)


class _Topic(NamedTuple):
    """What a request has for one topic; its partitions can come again, be it in another row of the topic."""

    name: str
    topic_id: UUID
    partitions: dict[int, list[Produced]]


class TopicOutcomes(NamedTuple):
    """What became of one topic's records: name and id as they were asked for, the topic, if there is one, and an
    outcome for each partition's number.
    """

    name: str
    topic_id: UUID
    topic: Topic | None
    partitions: list[tuple[int, Outcome]]


@Api(
    name="Produce",
    tier="T0",
    behaviour="Formats 0, 1 and 2, in place wherever KIP-31 lets it, else converted to the topic's format.",
    notes={
        "v0-v1": "message sets of format 0",
        "v2": "message sets of format 1",
        "v3+": "exactly one batch of format 2 for a partition",
        "v7+": "zstd",
        "v8+": "errors of single records (KIP-467)",
        "v10+": "the current leader (KIP-951)",
        "v12+": "a transaction's partition is added by the append (KIP-890)",
        "v13+": "topics by id",
    },
    gaps=(
        "records without one whole message (v0-v2) are CORRUPT_MESSAGE: Kafka 3.9 writes nothing and answers no error",
        "null records are refused: Kafka 3.9 never answers them",
    ),
    rights=(
        Right("WRITE", "TRANSACTIONAL_ID", each="the request, if a batch is of a transaction"),
        Right("WRITE", "TOPIC", each="each topic"),
    ),
)
def _produce(request: _Produce, broker: BrokerState) -> Answer:
    """acks 0: nothing is answered, and an error closes the connection. acks 1 and -1 are the same on one node."""
    return broker.changes.beside(_answering(request, broker))


def _answering(request: _Produce, broker: BrokerState) -> Waiting[Answer]:
    body = request.body
    topics = _topics(request)
    refusal = _refusal(request, broker, topics)
    turns, done = produce.Turns(len(request.data)), []
    for requested in topics:
        if refusal != ErrorCode.NONE:
            outcomes = [(index, Outcome(refusal)) for index in requested.partitions]
            done.append(TopicOutcomes(requested.name, requested.topic_id, None, outcomes))
            continue
        known = find_topic(
            request,
            broker,
            requested.name,
            requested.topic_id,
            by_id=request.version >= _FIRST_BY_ID,
        )
        outcomes = []
        for index, sent in requested.partitions.items():
            append = partial(_outcome, request, broker, known.topic, known.code, index, sent, content=turns.content)
            outcome = yield from produce.opening(broker, turns.content, append)
            outcomes.append((index, outcome))
            if turns.is_due(sent[-1].records):
                yield None
        done.append(TopicOutcomes(requested.name, requested.topic_id, known.topic, outcomes))
    if body.acks == 0:
        codes = (outcome.error_code for topic_done in done for _, outcome in topic_done.partitions)
        failed = next((code for code in codes if code != ErrorCode.NONE), None)
        if failed is not None:
            raise CloseConnection(f"Produce with acks 0 failed with error {failed}")
        return None
    return respond(request, broker, done)


def _topics(request: _Produce) -> list[_Topic]:
    """Return the topics, each once; without partitions a topic is not there: Kafka answers partition by partition."""
    topics: dict[tuple[str, UUID], _Topic] = {}
    for row_of_topic in request.body.topic_data:
        topic = topics.setdefault(
            (row_of_topic.name, row_of_topic.topic_id), _Topic(row_of_topic.name, row_of_topic.topic_id, {})
        )
        for row in row_of_topic.partition_data:
            topic.partitions.setdefault(row.index, []).append(produce.produced(row.records))
    return [topic for topic in topics.values() if topic.partitions]


def respond(request: _Produce, broker: BrokerState, done: list[TopicOutcomes]) -> Message:
    """Return the answer that tells the outcomes."""
    leaders: set[int] = set()
    rows = [
        request.response.TopicProduceResponse(
            name=one.name,
            topic_id=one.topic_id,
            partition_responses=[
                _row(request, index, outcome, one.topic, leaders) for index, outcome in one.partitions
            ],
        )
        for one in done
    ]
    endpoints = endpoints_of(request, broker, leaders) if leaders and request.version >= _FIRST_WITH_LEADER else []
    return request.response(responses=rows, node_endpoints=endpoints)


def _outcome(
    request: _Produce,
    broker: BrokerState,
    topic: Topic | None,
    code: int,
    index: int,
    sent: list[Produced],
    *,
    content: ContentBudget,
) -> Outcome:
    """Append the last records of a partition that have the version's form; the last that have not are answered."""
    if topic is None:
        return Outcome(code)
    partition, code = led_here(request, topic, index)
    if partition is None:
        return Outcome(code)
    outcome = Outcome()
    checked = [(records, produce.check_form(request.version, records)) for records in sent]
    for records in [records for records, wrong in checked if wrong is None][-1:]:
        outcome = _append(request, broker, topic, partition, records, content=content)
    return next((wrong for _, wrong in reversed(checked) if wrong is not None), outcome)


def _append(
    request: _Produce,
    broker: BrokerState,
    topic: Topic,
    partition: Partition,
    sent: Produced,
    *,
    content: ContentBudget,
) -> Outcome:
    body = request.body
    code = _transaction_code(request, broker, topic.name, partition, sent)
    if code != ErrorCode.NONE:
        return Outcome(code)
    if body.acks not in _ACKS:
        return refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is -1, 0 or 1, not {body.acks}")
    if topic.is_internal and not _may_write_internal(request):
        return refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is internal")
    return produce.append(broker, partition, sent, acks=body.acks, content=content)


def _may_write_internal(request: _Produce) -> bool:
    return request.client_id == "__admin_client"  # Kafka's AuthHelper: tools that write internal topics


def _refusal(request: _Produce, broker: BrokerState, sent: list[_Topic]) -> int:
    """Return why a request with a batch of a transaction is refused whole: nobody's id, or another's.

    Copies need no id: a mirror writes batches of transactions that others have coordinated, into topics that keep
    offsets (``kafkaframes.on.noncontiguous=keep``).
    """
    topics = [topic for topic in sent if any(one.is_transactional for of in topic.partitions.values() for one in of)]
    transactional_id = request.body.transactional_id
    if transactional_id is not None and topics:
        return denied(request, broker.access, "TRANSACTIONAL_ID", transactional_id)
    if all(_takes_copies(broker, topic.name) for topic in topics):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _takes_copies(broker: BrokerState, name: str) -> bool:
    topic = broker.topics.get(name)
    return topic is not None and all(partition.log.settings.on_noncontiguous == KEEP for partition in topic.partitions)


def _transaction_code(request: _Produce, broker: BrokerState, name: str, partition: Partition, sent: Produced) -> int:
    """Ask the coordinator about a batch with which a transaction begins in a partition (KIP-890); others pass."""
    transactional_id = request.body.transactional_id
    if transactional_id is None or sent.header is None or not sent.is_transactional or sent.header.producer_id < 0:
        return ErrorCode.NONE
    may_add = request.version >= _FIRST_IMPLICIT
    try:
        if not partition.log.producers.begin_verification(sent.header, from_zero=may_add, now_ms=broker.clock.now_ms):
            return ErrorCode.NONE
    except AppendRefusedError as error:
        return code_of(error)
    return broker.transactions.admit_produce(
        transactional_id,
        sent.header.producer_id,
        sent.header.producer_epoch,
        name,
        partition.index,
        may_add=may_add,
        knows_abortable=request.version >= _FIRST_ABORTABLE,
    )


def _row(
    request: _Produce, index: int, outcome: Outcome, topic: Topic | None, leaders: set[int]
) -> kafka.ProduceResponse.PartitionProduceResponse:
    types = request.response
    row = types.PartitionProduceResponse(
        index=index,
        error_code=outcome.error_code,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
        record_errors=[
            types.BatchIndexAndErrorMessage(batch_index=one.batch_index, batch_index_error_message=one.reason)
            for one in outcome.record_errors
        ],
        error_message=outcome.error_message,
    )
    if outcome.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and topic is not None:
        partition = topic.partition(index)
        if partition is not None and request.version >= _FIRST_WITH_LEADER:
            row.current_leader = current_leader(request, partition)
            leaders.add(partition.leader_id)
    return row
