"""Handlers that acquire and acknowledge records for share group members (KIP-932): ShareFetch, ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from uuid import UUID

from kafkaframes.broker.apis import _share
from kafkaframes.broker.apis._share import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey
from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.state.changes import Steps, create_rows_in_steps, run_once
from kafkaframes.broker.state.configs import get_group_setting
from kafkaframes.broker.state.partitions import FetchWait
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.store_reads import run_when_read
from kafkaframes.broker.state.topics import Partition
from kafkaframes.coordination.groups.share_partition import AcquiredRun, OffsetRange, ShareFetch, SharePartition
from kafkaframes.coordination.groups.share_state import SessionPartition, ShareKey, ShareSession
from kafkaframes.errors import ErrorCode, KafkaframesError, OffsetOutOfRangeError, to_error_code
from kafkaframes.storage.files.headers import BatchHeader, parse_headers
from kafkaframes.storage.partition.fetch import HIGH_WATERMARK, TXN_COMMITTED, FetchData

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ShareFetch: TypeAlias = TypedRequest[kafka.ShareFetchRequest, kafka.ShareFetchResponse]
    _ShareAcknowledge: TypeAlias = TypedRequest[kafka.ShareAcknowledgeRequest, kafka.ShareAcknowledgeResponse]

_FIRST_VERSION_WITH_RENEWALS: Final = 2
_RECORD_LIMIT_MODE: Final = 1  # ShareAcquireMode


class _PartitionResult(NamedTuple):
    """The result of a partition: error code, records, and acquired offsets."""

    code: int = ErrorCode.NONE
    records: bytes = b""
    acquired: Sequence[AcquiredRun] = ()


class _FetchablePartition(NamedTuple):
    """A partition of the session from which records can be fetched, and the group's state in it."""

    partition: Partition
    state: SharePartition


class _AvailableRecords(NamedTuple):
    """The records that a group can acquire next in a partition, or the error code of the read."""

    offset: int
    data: FetchData | None = None
    code: int = ErrorCode.NONE


@Api(
    name="ShareFetch",
    tier="T6",
    group_type="share",
    versions=(1, 2),
    behaviour="Locks records for a member until it acknowledges them or the lock times out. Records that "
    "time out are delivered to other members, at most share.delivery.count.limit times. Whole "
    "batches are acquired, even if that exceeds MaxRecords.",
    notes={
        "v2+": "the mode record_limit (KIP-1206) and the renewal of locks (KIP-1222) are supported",
    },
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
)
def _handle_share_fetch(request: _ShareFetch, broker: BrokerState) -> Answer:
    """Version 0 is not served; it was early access in Kafka 4.0."""
    body, epoch = request.body, request.body.share_session_epoch
    code = _share.find_request_error(request)
    is_renewal = request.version >= _FIRST_VERSION_WITH_RENEWALS and body.is_renew_ack
    if is_renewal and (body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms):
        code = ErrorCode.INVALID_REQUEST
    has_acknowledgements = any(row.acknowledgement_batches for topic in body.topics for row in topic.partitions)
    if epoch == INITIAL_EPOCH and has_acknowledgements:
        code = ErrorCode.INVALID_REQUEST
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    code, session = (_share.begin_session if epoch == INITIAL_EPOCH else _share.continue_session)(request, broker)
    if session is None:
        return request.response(error_code=code)
    if epoch != FINAL_EPOCH:
        _share.update_session(request, broker, session)
    return broker.changes.run_concurrently(
        _answer_in_steps(
            request, broker, session, has_acknowledgements=has_acknowledgements, only_acknowledges=is_renewal
        )
    )


def _answer_in_steps(
    request: _ShareFetch,
    broker: BrokerState,
    session: ShareSession,
    *,
    has_acknowledgements: bool,
    only_acknowledges: bool,
) -> Steps[Answer]:
    acknowledgements = _share.read_acknowledgements(request, broker) if has_acknowledgements else ()
    acknowledged_rows = yield from create_rows_in_steps(
        acknowledgements, lambda word: (word.key, _share.acknowledge_partition(request, broker, word))
    )
    acknowledged_codes = dict(acknowledged_rows)
    if request.body.share_session_epoch == FINAL_EPOCH:
        answer = _build_response(request, broker, session, {}, acknowledged_codes)
        _share.end_session(request, broker)
        return answer
    if only_acknowledges:
        return _build_response(request, broker, session, {}, acknowledged_codes)
    partitions, rows = dict[PartitionKey, Partition](), dict[PartitionKey, _PartitionResult]()

    def store_partition_or_error(key: PartitionKey, session_partition: SessionPartition) -> None:
        """Store a partition of the session if it can be fetched, else store its error code as the result."""
        partition, code = (
            _share.find_partition(request, broker, key)
            if session_partition.is_known
            else (None, ErrorCode.UNKNOWN_TOPIC_ID)
        )
        if partition is None:
            rows[key] = _PartitionResult(code)
        else:
            partitions[key] = partition

    yield from create_rows_in_steps(list(session.partitions.items()), lambda item: store_partition_or_error(*item))
    return run_when_read(
        broker, lambda: _fetch_partitions(request, broker, session, partitions, rows, acknowledged_codes)
    )


def _fetch_partitions(
    request: _ShareFetch,
    broker: BrokerState,
    session: ShareSession,
    partitions: dict[PartitionKey, Partition],
    rows: dict[PartitionKey, _PartitionResult],
    acknowledged_codes: dict[PartitionKey, int],
) -> Answer:
    body, open_partitions = request.body, dict[PartitionKey, _FetchablePartition]()
    if body.max_records != 0 and body.max_bytes != 0:
        for key in _rotate_keys(list(partitions), body.share_session_epoch):
            try:
                state = _share.get_share_state(broker, body.group_id or "", key, partitions[key])
                open_partitions[key] = _FetchablePartition(partitions[key], state)
            except KafkaframesError as error:
                rows[key] = _PartitionResult(to_error_code(error))

    def attempt_acquire(is_last: bool) -> Answer | None:
        """Return the response with the acquired records, or None if the request must wait for more records."""
        acquired_records = _acquire_records(request, broker, open_partitions, is_last=is_last)
        return (
            None
            if acquired_records is None
            else _build_response(request, broker, session, rows | acquired_records, acknowledged_codes)
        )

    answer = attempt_acquire(not open_partitions or body.max_wait_ms <= 0)
    if answer is not None:
        return answer
    return FetchWait(
        broker,
        [entry.partition for entry in open_partitions.values()],
        body.max_wait_ms,
        lambda is_last: _attempt_in_steps(broker, attempt_acquire, is_last),
    ).response


def _attempt_in_steps(broker: BrokerState, attempt: Callable[[bool], Answer], is_last: bool) -> Steps[Answer]:
    return run_once(lambda: run_when_read(broker, lambda: attempt(True)) if is_last else attempt(False))


def _rotate_keys(keys: list[PartitionKey], epoch: int) -> list[PartitionKey]:
    """Rotate the partitions, so that each fetch of a session starts with a different partition."""
    start = epoch % len(keys) if keys and epoch > 0 else 0
    return keys[start:] + keys[:start]


def _acquire_records(
    request: _ShareFetch,
    broker: BrokerState,
    open_partitions: dict[PartitionKey, _FetchablePartition],
    *,
    is_last: bool,
) -> dict[PartitionKey, _PartitionResult] | None:
    """Acquire records. Return None if there are fewer than ``min_bytes`` and the attempt is not the last."""
    body = request.body
    moved_partitions = [
        key for key, entry in open_partitions.items() if entry.partition.leader_id != request.session.node_id
    ]
    if moved_partitions:  # the leader has moved while the fetch was waiting
        open_partitions = {key: entry for key, entry in open_partitions.items() if key not in moved_partitions}
        rows = _acquire_records(request, broker, open_partitions, is_last=True) or {}
        return rows | {key: _PartitionResult(ErrorCode.NOT_LEADER_OR_FOLLOWER) for key in moved_partitions}
    isolation = TXN_COMMITTED if _is_committed(broker, body.group_id or "") else HIGH_WATERMARK
    # While the fetch was waiting, a state may have been dropped. Locks in it would not exist for other members.
    keys = [
        key
        for key, entry in open_partitions.items()
        if entry.state.may_acquire and broker.share_groups.is_current(ShareKey(body.group_id or "", *key), entry.state)
    ]
    reads: dict[PartitionKey, _AvailableRecords] = {}
    for key in keys:  # all reads precede the acquisitions, because an attempt may be repeated after a read
        is_first = not any(
            available_records.data is not None and available_records.data.records
            for available_records in reads.values()
        )
        reads[key] = _read_partition(
            open_partitions[key], isolation, max(body.max_bytes, 1) // len(keys), is_first=is_first
        )
    size = sum(
        len(available_records.data.records)
        for available_records in reads.values()
        if available_records.data is not None
    )
    is_enough = bool(reads) and size >= min(body.min_bytes, body.max_bytes)
    if not is_last and not is_enough and not any(available_records.code for available_records in reads.values()):
        return None
    rows, max_records = dict[PartitionKey, _PartitionResult](), body.max_records
    for key, available_records in reads.items():
        rows[key] = (
            _PartitionResult(available_records.code)
            if available_records.data is None
            else _acquire_partition_records(request, open_partitions[key].state, available_records, max_records)
        )
        max_records -= sum(run.last - run.first + 1 for run in rows[key].acquired)
    return rows


def _is_committed(broker: BrokerState, group_id: str) -> bool:
    return get_group_setting(broker, group_id, "share.isolation.level") == "read_committed"


def _read_partition(
    open_partition: _FetchablePartition, isolation: str, max_bytes: int, *, is_first: bool
) -> _AvailableRecords:
    """Return a partition's records from the group's next offset."""
    log, offset = open_partition.partition.log, open_partition.state.next_fetch_offset
    try:
        return _AvailableRecords(
            offset, log.read(offset, max_bytes=max_bytes, isolation=isolation, min_one_message=is_first)
        )
    except OffsetOutOfRangeError:  # the log start offset has moved
        open_partition.state.move_start(log.log_start_offset)
        return _AvailableRecords(
            offset, FetchData(b"", log.high_watermark, log.last_stable_offset, log.log_start_offset)
        )
    except KafkaframesError as error:
        return _AvailableRecords(offset, code=to_error_code(error))


def _acquire_partition_records(
    request: _ShareFetch, state: SharePartition, available_records: _AvailableRecords, max_records: int
) -> _PartitionResult:
    """Acquire records that were read; return them with the batches that contain them."""
    assert available_records.data is not None
    body, records = request.body, available_records.data.records
    headers = parse_headers(records) if records else []
    fetch = ShareFetch(
        body.member_id or "",
        available_records.offset,
        max_records,
        max(body.batch_size, 1),
        record_limit=request.version >= _FIRST_VERSION_WITH_RENEWALS and body.share_acquire_mode == _RECORD_LIMIT_MODE,
    )
    spans = list(_iterate_batch_spans(headers, available_records.offset))
    acquired_records = state.acquire(fetch, spans)
    aborted_spans = list(_find_aborted(headers, available_records.data))
    if acquired_records and aborted_spans:
        state.archive_acquired_records(aborted_spans)
        acquired_records = [
            remaining_range for run in acquired_records for remaining_range in _exclude_spans(run, aborted_spans)
        ]
    if not acquired_records:
        return _PartitionResult()
    used_headers = [
        header
        for header, span in zip(headers, spans, strict=True)
        if span.last >= acquired_records[0].first and span.first <= acquired_records[-1].last
    ]
    return _PartitionResult(ErrorCode.NONE, records[used_headers[0].position : used_headers[-1].end], acquired_records)


def _iterate_batch_spans(headers: Sequence[BatchHeader], offset: int) -> Iterator[OffsetRange]:
    """Yield the offset ranges of batches. A compressed batch of an older format only specifies its last offset."""
    for header in headers:
        first = header.base_offset if header.magic > 1 or not header.codec else min(offset, header.last_offset)
        yield OffsetRange(first, header.last_offset)
        offset = header.last_offset + 1


def _find_aborted(headers: Sequence[BatchHeader], data: FetchData) -> Iterator[OffsetRange]:
    """Yield the offset ranges of aborted batches, without the markers, which consumers skip."""
    for header in headers:
        if header.is_transactional and not header.is_control:
            for aborted_transaction in data.aborted or ():
                if aborted_transaction.producer_id == header.producer_id and (
                    aborted_transaction.first_offset <= header.last_offset
                    and header.base_offset <= aborted_transaction.last_offset
                ):
                    yield OffsetRange(header.base_offset, header.last_offset)
                    break


def _exclude_spans(acquired: AcquiredRun, spans: Sequence[OffsetRange]) -> Iterator[AcquiredRun]:
    """Yield the parts of an acquired range that are outside of the spans, which must be in ascending order."""
    first = acquired.first
    for span in spans:
        if span.first > acquired.last:
            break
        if span.last >= first:
            if span.first > first:
                yield AcquiredRun(first, span.first - 1, acquired.deliveries)
            first = span.last + 1
    if first <= acquired.last:
        yield AcquiredRun(first, acquired.last, acquired.deliveries)


def _build_response(
    request: _ShareFetch,
    broker: BrokerState,
    session: ShareSession,
    rows: dict[PartitionKey, _PartitionResult],
    acknowledged_codes: dict[PartitionKey, int],
) -> Answer:
    types = request.response
    if request.body.share_session_epoch != INITIAL_EPOCH:
        rows = {key: row for key, row in rows.items() if session.includes_in_response(key, row.code, bool(row.records))}
    by_topic: dict[UUID, list[kafka.ShareFetchResponse.PartitionData]] = {}
    for key in {**acknowledged_codes, **rows}:
        row = rows.get(key, _PartitionResult())
        partition = types.PartitionData(
            partition_index=key[1],
            error_code=row.code,
            acknowledge_error_code=acknowledged_codes.get(key, ErrorCode.NONE),
            records=row.records,
            acquired_records=[
                types.AcquiredRecords(first_offset=run.first, last_offset=run.last, delivery_count=run.deliveries)
                for run in row.acquired
            ],
        )
        by_topic.setdefault(key[0], []).append(partition)
    answer: Answer = request.response(
        acquisition_lock_timeout_ms=_share.get_lock_ms(request, broker),
        responses=[
            types.ShareFetchableTopicResponse(topic_id=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
        node_endpoints=_share.set_current_leaders(request, broker, by_topic.items()),
    )
    return answer


@Api(
    name="ShareAcknowledge",
    tier="T6",
    group_type="share",
    versions=(1, 2),
    behaviour="Each range of records is accepted, released, rejected or marked as a gap, completely or not at all.",
    notes={
        "v2+": "renewing locks (KIP-1222)",
    },
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
)
def _handle_share_acknowledge(request: _ShareAcknowledge, broker: BrokerState) -> Answer:
    """Version 0 is not served; it was early access in Kafka 4.0."""
    types, epoch = request.response, request.body.share_session_epoch
    code = _share.find_request_error(request) or (
        ErrorCode.INVALID_SHARE_SESSION_EPOCH if epoch == INITIAL_EPOCH else ErrorCode.NONE
    )
    if code == ErrorCode.NONE:
        code, _ = _share.continue_session(request, broker)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    rows: dict[UUID, list[kafka.ShareAcknowledgeResponse.PartitionData]] = {}
    for word in _share.read_acknowledgements(request, broker):
        row = types.PartitionData(
            partition_index=word.key[1], error_code=_share.acknowledge_partition(request, broker, word)
        )
        rows.setdefault(word.key[0], []).append(row)
    if epoch == FINAL_EPOCH:
        _share.end_session(request, broker)
    return request.response(
        acquisition_lock_timeout_ms=_share.get_lock_ms(request, broker),
        responses=[
            types.ShareAcknowledgeTopicResponse(topic_id=topic, partitions=partitions)
            for topic, partitions in rows.items()
        ],
        node_endpoints=_share.set_current_leaders(request, broker, rows.items()),
    )
