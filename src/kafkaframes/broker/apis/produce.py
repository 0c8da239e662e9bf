"""The handler of Produce, which validates and appends the records of a request, and builds its response."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from uuid import UUID

from kafkaframes.broker.requests.api import Answer, Api, CloseConnection, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import check_denied
from kafkaframes.broker.state.changes import Waiting
from kafkaframes.broker.state.partitions import build_endpoint_rows, describe_leader, find_led_partition, find_topic
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Partition, Topic
from kafkaframes.errors import AppendRefusedError, ErrorCode, KafkaframesError, RecordRefusal, to_error_code
from kafkaframes.protocol.messages import Message
from kafkaframes.records.append.results import Raw
from kafkaframes.records.append.settings import KEEP
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, TRANSACTIONAL
from kafkaframes.records.limits import CONTENT_BUDGET, ContentBudget, ContentNotReadyError
from kafkaframes.storage.files.headers import BatchHeader, read_first_header

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _Produce: TypeAlias = TypedRequest[kafka.ProduceRequest, kafka.ProduceResponse]


_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_LEADER = 10
_FIRST_VERSION_WITH_IMPLICIT_PARTITIONS = 12
_FIRST_VERSION_WITH_ABORTABLE_ERROR = 11
_VALID_ACKS = (-1, 0, 1)


class _TopicRecords(NamedTuple):
    """The records of a topic in a request, which may list a partition several times, also in several topic rows."""

    name: str
    topic_id: UUID
    partitions: dict[int, list[SentRecords]]


class TopicOutcomes(NamedTuple):
    """The results for a topic.

    The requested name and id, the topic (None if it does not exist), and an outcome for each partition number.
    """

    name: str
    topic_id: UUID
    topic: Topic | None
    partitions: list[tuple[int, AppendOutcome]]


@Api(
    name="Produce",
    tier="T0",
    behaviour="Appends formats 0, 1 and 2 in place if KIP-31 allows it; otherwise converts them to the topic's format.",
    notes={
        "v0-v1": "message sets of format 0",
        "v2": "message sets of format 1",
        "v3+": "exactly one batch of format 2 per partition",
        "v7+": "zstd",
        "v8+": "the response lists errors of single records (KIP-467)",
        "v10+": "the response contains the current leader (KIP-951)",
        "v12+": "the append adds the partition to the transaction (KIP-890)",
        "v13+": "topics by id",
    },
    gaps=(
        "records without a complete message (v0-v2) are rejected with CORRUPT_MESSAGE; Kafka 3.9 writes nothing and "
        "returns no error",
        "null records are rejected; Kafka 3.9 never responds to them",
    ),
    rights=(
        RequiredPermission("WRITE", "TRANSACTIONAL_ID", each="the request, if a batch is transactional"),
        RequiredPermission("WRITE", "TOPIC", each="each topic"),
    ),
)
def _handle_produce(request: _Produce, broker: BrokerState) -> Answer:
    """With acks 0 there is no response, and an error closes the connection. Acks 1 and -1 are equivalent here."""
    return broker.changes.run_concurrently(_answer_in_steps(request, broker))


def _answer_in_steps(request: _Produce, broker: BrokerState) -> Waiting[Answer]:
    """Append the records of a Produce request, and return the response."""
    body = request.body
    topics = _merge_topic_rows(request)
    refusal = _find_request_error(request, broker, topics)
    turns, topic_outcomes = AppendScheduler(len(request.data)), []
    for requested_topic in topics:
        if refusal != ErrorCode.NONE:
            outcomes = [(index, AppendOutcome(refusal)) for index in requested_topic.partitions]
            topic_outcomes.append(TopicOutcomes(requested_topic.name, requested_topic.topic_id, None, outcomes))
            continue
        lookup = find_topic(
            request,
            broker,
            requested_topic.name,
            requested_topic.topic_id,
            by_id=request.version >= _FIRST_VERSION_WITH_TOPIC_IDS,
        )
        outcomes = []
        for index, sent_records in requested_topic.partitions.items():
            attempt = partial(
                _append_partition,
                request,
                broker,
                lookup.topic,
                lookup.code,
                index,
                sent_records,
                content=turns.content,
            )
            outcome = yield from append_when_decompressed(broker, turns.content, attempt)
            outcomes.append((index, outcome))
            if turns.count_append(sent_records[-1].records):
                yield None
        topic_outcomes.append(TopicOutcomes(requested_topic.name, requested_topic.topic_id, lookup.topic, outcomes))
    if body.acks == 0:
        codes = (outcome.error_code for topic_done in topic_outcomes for _, outcome in topic_done.partitions)
        error_code = next((code for code in codes if code != ErrorCode.NONE), None)
        if error_code is not None:
            raise CloseConnection(f"Produce with acks 0 failed with error {error_code}")
        return None
    return build_response(request, broker, topic_outcomes)


def _merge_topic_rows(request: _Produce) -> list[_TopicRecords]:
    """Return the requested topics without duplicates. As in Kafka, the response omits topics without partitions."""
    topics: dict[tuple[str, UUID], _TopicRecords] = {}
    for row_of_topic in request.body.topic_data:
        topic = topics.setdefault(
            (row_of_topic.name, row_of_topic.topic_id), _TopicRecords(row_of_topic.name, row_of_topic.topic_id, {})
        )
        for row in row_of_topic.partition_data:
            topic.partitions.setdefault(row.index, []).append(read_sent_records(row.records))
    return [topic for topic in topics.values() if topic.partitions]


def build_response(request: _Produce, broker: BrokerState, outcomes: list[TopicOutcomes]) -> Message:
    """Return the response with the results of all topics."""
    leaders: set[int] = set()
    rows = [
        request.response.TopicProduceResponse(
            name=topic_outcome.name,
            topic_id=topic_outcome.topic_id,
            partition_responses=[
                _build_partition_row(request, index, outcome, topic_outcome.topic, leaders)
                for index, outcome in topic_outcome.partitions
            ],
        )
        for topic_outcome in outcomes
    ]
    endpoints = (
        build_endpoint_rows(request, broker, leaders)
        if leaders and request.version >= _FIRST_VERSION_WITH_LEADER
        else []
    )
    return request.response(responses=rows, node_endpoints=endpoints)


def _append_partition(
    request: _Produce,
    broker: BrokerState,
    topic: Topic | None,
    code: int,
    index: int,
    sent_records: list[SentRecords],
    *,
    content: ContentBudget,
) -> AppendOutcome:
    """Append the records of a partition.

    If a request lists the partition several times, the last valid record set is appended. If a record set is invalid,
    the response contains the error for the last invalid record set.
    """
    if topic is None:
        return AppendOutcome(code)
    partition, code = find_led_partition(request, topic, index)
    if partition is None:
        return AppendOutcome(code)
    outcome = AppendOutcome()
    checked_records = [(records, check_record_format(request.version, records)) for records in sent_records]
    for records in [records for records, error in checked_records if error is None][-1:]:
        outcome = _append_records(request, broker, topic, partition, records, content=content)
    return next((error for _, error in reversed(checked_records) if error is not None), outcome)


def _append_records(
    request: _Produce,
    broker: BrokerState,
    topic: Topic,
    partition: Partition,
    sent_records: SentRecords,
    *,
    content: ContentBudget,
) -> AppendOutcome:
    """Append a partition's record sets, after the checks of transactions and record formats."""
    body = request.body
    code = _verify_transaction(request, broker, topic.name, partition, sent_records)
    if code != ErrorCode.NONE:
        return AppendOutcome(code)
    if body.acks not in _VALID_ACKS:
        return build_error_outcome(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {body.acks}; expected -1, 0 or 1")
    if topic.is_internal and not _may_write_internal(request):
        return build_error_outcome(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is internal")
    return append_to_partition(broker, partition, sent_records, acks=body.acks, content=content)


def _may_write_internal(request: _Produce) -> bool:
    """Return whether the client may write to internal topics."""
    # Kafka's AuthHelper allows this client id to write to internal topics.
    return request.client_id == "__admin_client"


def _find_request_error(request: _Produce, broker: BrokerState, topics: list[_TopicRecords]) -> int:
    """Return the error if transactional batches lack a transactional id, or the client lacks permission for the id.

    Mirrored batches need no transactional id: a mirror copies batches of other clients' transactions to topics that
    keep offsets (``kafkaframes.on.noncontiguous=keep``).
    """
    transactional_topics = [
        topic
        for topic in topics
        if any(record_set.is_transactional for record_sets in topic.partitions.values() for record_set in record_sets)
    ]
    transactional_id = request.body.transactional_id
    if transactional_id is not None and transactional_topics:
        return check_denied(request, broker.access, "TRANSACTIONAL_ID", transactional_id)
    if all(_accepts_repeated_records(broker, topic.name) for topic in transactional_topics):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _accepts_repeated_records(broker: BrokerState, name: str) -> bool:
    """Return whether all logs of a topic keep batches at their own offsets (``on_noncontiguous``)."""
    topic = broker.topics.get(name)
    return topic is not None and all(partition.log.settings.on_noncontiguous == KEEP for partition in topic.partitions)


def _verify_transaction(
    request: _Produce, broker: BrokerState, name: str, partition: Partition, sent_records: SentRecords
) -> int:
    """Verify a transaction's first batch in a partition with the coordinator (KIP-890); return the error code or 0."""
    transactional_id = request.body.transactional_id
    if (
        transactional_id is None
        or sent_records.header is None
        or not sent_records.is_transactional
        or sent_records.header.producer_id < 0
    ):
        return ErrorCode.NONE
    may_add = request.version >= _FIRST_VERSION_WITH_IMPLICIT_PARTITIONS
    try:
        if not partition.log.producers.begin_verification(
            sent_records.header, from_zero=may_add, now_ms=broker.clock.now_ms
        ):
            return ErrorCode.NONE
    except AppendRefusedError as error:
        return to_error_code(error)
    return broker.transactions.check_produce(
        transactional_id,
        sent_records.header.producer_id,
        sent_records.header.producer_epoch,
        name,
        partition.index,
        may_add=may_add,
        knows_abortable=request.version >= _FIRST_VERSION_WITH_ABORTABLE_ERROR,
    )


def _build_partition_row(
    request: _Produce, index: int, outcome: AppendOutcome, topic: Topic | None, leaders: set[int]
) -> kafka.ProduceResponse.PartitionProduceResponse:
    types = request.response
    row = types.PartitionProduceResponse(
        index=index,
        error_code=outcome.error_code,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time_ms,
        log_start_offset=outcome.log_start_offset,
        record_errors=[
            types.BatchIndexAndErrorMessage(
                batch_index=record_error.batch_index, batch_index_error_message=record_error.reason
            )
            for record_error in outcome.record_errors
        ],
        error_message=outcome.error_message,
    )
    if outcome.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and topic is not None:
        partition = topic.partition(index)
        if partition is not None and request.version >= _FIRST_VERSION_WITH_LEADER:
            row.current_leader = describe_leader(request, partition)
            leaders.add(partition.leader_id)
    return row


ACKS_ALL = -1
# Largest numbers of compressed and decompressed bytes that are appended before other requests are answered.
_TURN_BYTES = 1 << 20
_TURN_DECOMPRESSED_BYTES = 8 << 20
_TURN_APPENDS = 50  # a partition's first append creates its files, which takes 0.5 ms, or more on a busy disk
_FIRST_VERSION_WITH_FORMAT_2 = 3
_FIRST_VERSION_WITH_ZSTD = 7

# Responses with these errors have no log start offset (ReplicaManager.appendToLocalLog).
_ERRORS_WITHOUT_LOG_START = frozenset(
    {"CorruptRecordException", "RecordTooLargeException", "RecordBatchTooLargeException"}
)


class AppendOutcome(NamedTuple):
    """The result of an append to a partition, with the partition fields of ProduceResponse."""

    error_code: int = ErrorCode.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[RecordRefusal, ...] = ()
    error_message: str | None = None


def build_error_outcome(code: ErrorCode, message: str) -> AppendOutcome:
    """Return an outcome with an error code and its message."""
    return AppendOutcome(code, error_message=message)


class SentRecords(NamedTuple):
    """The records of a partition in a request, with the header of their first batch.

    Attributes:
        records: encoded records. If the records are a bytearray, the log takes ownership and writes offsets into it.
        header: header of the first batch in format 2, else None. Fields that a truncated batch lacks are -1.
    """

    records: Raw
    header: BatchHeader | None

    @property
    def is_transactional(self) -> bool:
        """Whether the first batch is transactional."""
        records, header = self
        return header is not None and len(records) >= BATCH_V2.size and bool(header.attributes & TRANSACTIONAL)


def read_sent_records(records: Raw | None) -> SentRecords:
    """Return records with the header of their first batch. Null records are treated as empty."""
    records = records or b""
    return SentRecords(records, read_first_header(records))


def check_record_format(version: int, sent_records: SentRecords) -> AppendOutcome | None:
    """Return the error for a record format that the version does not allow; None if the format is allowed.

    See Kafka's ProduceRequest.validateRecords.
    """
    if version < _FIRST_VERSION_WITH_FORMAT_2:
        return None
    records, header = sent_records
    if header is None:
        if len(records) < BYTES_TO_MAGIC:
            return build_error_outcome(
                ErrorCode.INVALID_RECORD,
                f"Produce {version} requires exactly one batch for a partition; the request has none",
            )
        return build_error_outcome(
            ErrorCode.INVALID_RECORD, f"Produce {version} requires format 2, not {records[BYTES_TO_MAGIC - 1]}"
        )
    if header.size > len(records):
        return build_error_outcome(ErrorCode.INVALID_RECORD, "the batch is shorter than its size field")
    if version < _FIRST_VERSION_WITH_ZSTD and header.codec == Codec.ZSTD:
        return build_error_outcome(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd requires Produce {_FIRST_VERSION_WITH_ZSTD} or later, not {version}",
        )
    if header.size < len(records):
        return build_error_outcome(
            ErrorCode.INVALID_RECORD,
            f"Produce {version} requires exactly one batch for a partition; the request has several",
        )
    return None


class AppendScheduler:
    """Limits the decompressed bytes of a request's appends, and lets other requests run between them."""

    __slots__ = ("_appended_bytes", "_appends", "_seen_bytes", "content")

    def __init__(self, request_bytes: int) -> None:
        self.content = ContentBudget(request_bytes, opens_apart=True)
        self._appended_bytes = self._seen_bytes = self._appends = 0

    def count_append(self, records: Raw) -> bool:
        """Count an append; return whether other requests should get a turn now."""
        self._appended_bytes += len(records)
        self._appends += 1
        is_due = (
            self._appends >= _TURN_APPENDS
            or self._appended_bytes >= _TURN_BYTES
            or self.content.spent_bytes - self._seen_bytes >= _TURN_DECOMPRESSED_BYTES
        )
        if is_due:
            self._appended_bytes, self._appends, self._seen_bytes = 0, 0, self.content.spent_bytes
        return is_due


def append_when_decompressed(
    broker: BrokerState, content: ContentBudget, append: Callable[[], AppendOutcome]
) -> Waiting[AppendOutcome]:
    """Call ``append``. If a batch is slow to decompress, decompress it in a thread, and repeat the call."""
    while True:
        try:
            outcome = append()
        except ContentNotReadyError as needed_content:
            content.open_contents[needed_content.name] = yield from broker.changes.run_in_thread(needed_content.work)
        else:
            content.open_contents.clear()
            return outcome


def append_to_partition(
    broker: BrokerState,
    partition: Partition,
    sent_records: SentRecords,
    *,
    acks: int,
    content: ContentBudget | None = None,
) -> AppendOutcome:
    """Append records to a partition that this node leads.

    Args:
        content: remaining limit on the request's decompressed bytes; if None, only the general limits apply.

    Raises:
        ContentNotReadyError: a batch must be decompressed in a thread first (``append_when_decompressed``); nothing has
            changed.
    """
    token = CONTENT_BUDGET.set(content)
    try:
        return _append_to_log(broker, partition, sent_records, acks=acks)
    finally:
        CONTENT_BUDGET.reset(token)


def _append_to_log(broker: BrokerState, partition: Partition, sent_records: SentRecords, *, acks: int) -> AppendOutcome:
    """Append a record set to a partition's log, and return the outcome."""
    if broker.is_read_only:
        return build_error_outcome(ErrorCode.POLICY_VIOLATION, "the broker serves a directory read-only")
    log = partition.log
    if log.is_closed:
        return build_error_outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is deleted")
    if acks == ACKS_ALL and partition.is_under_min_isr:
        count = len(partition.in_sync)
        reason = f"min.insync.replicas is {partition.min_insync_replicas}, but only {count} replicas are in sync"
        return build_error_outcome(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    if broker.logs.is_offline:
        return build_error_outcome(ErrorCode.KAFKA_STORAGE_ERROR, str(broker.logs.disk.failure))
    try:
        info = log.append_as_leader(
            sent_records.records,
            header=sent_records.header,
            leader_epoch=partition.leader_epoch,
            now_ms=broker.clock.now_ms,
        )
    except AppendRefusedError as error:
        return AppendOutcome(
            to_error_code(error),
            log_start_offset=-1 if error.exception in _ERRORS_WITHOUT_LOG_START else log.log_start_offset,
            record_errors=error.record_errors,
            error_message=error.reason,
        )
    except KafkaframesError as error:
        return AppendOutcome(to_error_code(error), error_message=str(error))
    if not info.is_duplicate:
        log.update_high_watermark(log.log_end_offset)
        # Mirrored batches keep their leader epochs.
        partition.leader_epoch = max(partition.leader_epoch, info.last_leader_epoch)
        broker.note_append(partition)
        if info.recompressed_bytes:
            broker.counters["recompressed_bytes"] += info.recompressed_bytes
    return AppendOutcome(ErrorCode.NONE, info.first_offset, info.append_time_ms, log.log_start_offset)
