"""The handler of Fetch, which reads records of partitions, with fetch sessions and long polls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.state.changes import Steps, finish_steps, run_once
from kafkaframes.broker.state.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartition,
    FetchSession,
    Key,
    record_changes,
)
from kafkaframes.broker.state.partitions import (
    MAX_COPIED_RECORD_BYTES,
    MAX_FETCH_MEMORY_BYTES,
    NO_EPOCH,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchLimits,
    FetchWait,
    PartitionRead,
    build_endpoint_rows,
    choose_isolation,
    describe_leader,
    find_led_partition,
    find_topic,
    get_max_magic,
    read_partition,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.store_reads import NotReadYetError, StoreRead, run_when_read
from kafkaframes.broker.state.topics import Partition, Topic
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import Message
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _Fetch: TypeAlias = TypedRequest[kafka.FetchRequest, kafka.FetchResponse]

_FIRST_VERSION_WITH_MAX_BYTES = 3
_FIRST_VERSION_WITH_SESSIONS = 7
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_RACK = 11
_FIRST_VERSION_WITH_LEADER = 12
_FIRST_VERSION_WITH_ENDPOINTS = 16
_PARTITIONS_PER_TURN = 500  # largest number of partitions that are read before other requests are answered
_CONCURRENT_READS = 16  # largest number of partitions of a store that are read concurrently
# Kafka detects these errors before it reads. Their rows are last in the response, in this order, and have an empty
# list of aborted transactions instead of null.
_SORT_ORDER_BY_ERROR: dict[int, int] = {
    ErrorCode.UNKNOWN_TOPIC_ID: 1,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 2,
}
_ERRORS_BEFORE_READING = frozenset(_SORT_ORDER_BY_ERROR)


class PendingFetch:
    """A Fetch request whose partitions are read again until the response has enough bytes or the wait ends."""

    def __init__(
        self,
        request: _Fetch,
        broker: BrokerState,
        session: FetchSession | None,
        requested_partitions: OrderedDict[Key, FetchedPartition],
    ) -> None:
        body, version = request.body, request.version
        self._request = request
        self._broker = broker
        self._session = session
        self._requested_partitions = requested_partitions
        self._is_incremental = session is not None and body.session_epoch > INITIAL_EPOCH
        self._has_isolation = body.isolation_level in (READ_UNCOMMITTED, READ_COMMITTED)
        has_limit = version >= _FIRST_VERSION_WITH_MAX_BYTES
        max_bytes = min(body.max_bytes if has_limit else MAX_INT32, broker.settings.get_number("fetch.max.bytes"))
        max_bytes = int(min(max_bytes, broker.quotas.get_max_response_bytes(request)))
        replica = max(body.replica_id, body.replica_state.replica_id)
        self._needs = "TOPIC" if replica < 0 else "CLUSTER"
        self._may_follow = replica < 0 and version >= _FIRST_VERSION_WITH_RACK and broker.nodes.has_racks
        isolation = choose_isolation(body.isolation_level, replica)
        stretch_bytes = MAX_COPIED_RECORD_BYTES if request.session.sends_files else None
        self._limits = FetchLimits(max_bytes, has_limit, isolation, get_max_magic(version), stretch_bytes)
        self._min_bytes = min(body.min_bytes, max_bytes)
        self.partitions: list[Partition] = []
        types = request.response  # rows share the default structs, which are therefore replaced instead of modified
        self._no_divergence, self._no_leader = types.EpochEndOffset(), types.LeaderIdAndEpoch()
        self._no_snapshot = types.SnapshotId()

    def try_to_answer(self, must_answer: bool) -> Message | None:
        """Read all partitions. Return the response, or None if it has too few bytes and need not be sent yet.

        Args:
            must_answer: whether a response with too few bytes is returned instead of None.
        """
        return finish_steps(self.try_to_answer_in_steps(must_answer))

    def try_to_answer_in_steps(self, must_answer: bool) -> Steps[Message | None]:
        """Read all partitions, several in each step, and return the same result as :meth:`try_to_answer`."""
        rows, size, must_answer_now = yield from self._read_all()
        if not self._has_isolation and any(row.error_code not in _ERRORS_BEFORE_READING for _, _, row in rows):
            return self._build_failure_response()
        if not (must_answer or must_answer_now or size >= self._min_bytes):
            return None
        return (yield from self._build_response(rows))

    def _build_failure_response(self) -> Message:
        """Return the response to an internal error, as in Kafka. Remove a session that this request has created."""
        if self._session is not None and not self._is_incremental:
            self._broker.fetch_sessions.end(self._session.session_id)
        return _build_internal_error_response(self._request)

    def _read_all(self) -> Steps[tuple[list[tuple[Key, FetchedPartition, Any]], int, bool]]:
        """Read all partitions of the request. Return the rows, their size, and whether to respond at once."""
        rows, size, held_bytes, must_answer_now = [], 0, 0, False
        missing_reads: list[StoreRead] = []
        self.partitions = []
        topics: dict[tuple[str, Any], tuple[Topic | None, int]] = {}
        for number, key in enumerate(list(self._requested_partitions), start=1):
            if number % _PARTITIONS_PER_TURN == 0:
                yield
            requested_partition = self._requested_partitions.get(key)
            if requested_partition is None:  # another request of the session has removed the partition in the meantime
                continue
            name, topic_id, index = key
            if (name, topic_id) not in topics:
                topics[name, topic_id] = find_topic(
                    self._request,
                    self._broker,
                    name,
                    topic_id,
                    by_id=self._request.version >= _FIRST_VERSION_WITH_TOPIC_IDS,
                    right=self._needs,
                )
            topic, code = topics[name, topic_id]
            if topic is not None:
                requested_partition.name = topic.name
            elif code == ErrorCode.UNKNOWN_TOPIC_ID and requested_partition.name:
                code = self._find_deletion_error(requested_partition.name)
            try:
                read_result, partition = self._read_partition(
                    topic, code, index, requested_partition.fields, size=size, held_bytes=held_bytes
                )
            except NotReadYetError as not_read:
                missing_reads += not_read.reads
                if len(missing_reads) >= _CONCURRENT_READS:
                    break
                continue
            size += len(read_result.records)
            held_bytes += read_result.held_bytes
            must_answer_now = (
                must_answer_now
                or held_bytes >= MAX_FETCH_MEMORY_BYTES
                or read_result.error_code != ErrorCode.NONE
                or read_result.diverging is not None
                or read_result.preferred_replica >= 0
            )
            rows.append((key, requested_partition, self._build_partition_row(index, read_result, partition)))
        if missing_reads:
            raise NotReadYetError(*missing_reads)
        return rows, size, must_answer_now

    def _find_deletion_error(self, name: str) -> int:
        """Return the error code for a session's deleted topic. The name may belong to a new topic with another id."""
        topic, code = find_topic(self._request, self._broker, name, right=self._needs)
        return ErrorCode.INCONSISTENT_TOPIC_ID if topic is not None else code

    def _read_partition(
        self, topic: Topic | None, code: int, index: int, fields: Any, *, size: int, held_bytes: int
    ) -> tuple[PartitionRead, Partition | None]:
        if topic is None:
            return PartitionRead(code), None
        unverified_partition = topic.partition(index)
        partition, code = find_led_partition(
            self._request,
            topic,
            index,
            current_leader_epoch=max(fields.current_leader_epoch, NO_EPOCH),
            or_follower=self._may_follow,
        )
        if partition is None:
            return PartitionRead(code), unverified_partition
        self.partitions.append(partition)
        limits = self._limits.get_remaining_limits(size, held_bytes)
        if limits.max_bytes < 0 and len(self.partitions) > 1:
            # As in Kafka, only the first partition can fail because of a negative limit: later partitions have the
            # limit 0.
            limits = limits._replace(max_bytes=0)
        read_result = read_partition(self._broker, partition, fields, limits, first=not size)
        preferred_replica = (
            self._choose_read_replica(partition)
            if self._may_follow and read_result.error_code == ErrorCode.NONE
            else None
        )
        if preferred_replica is not None:
            read_result = read_result._replace(records=b"", aborted=None, preferred_replica=preferred_replica)
        return read_result, partition

    def _choose_read_replica(self, partition: Partition) -> int | None:
        """Return the preferred read replica of a partition that this node leads; None otherwise."""
        if partition.leader_id != self._request.session.node_id:
            return None
        return self._broker.nodes.choose_read_replica(partition, self._request.body.rack_id)

    def _build_partition_row(
        self, index: int, read_result: PartitionRead, partition: Partition | None
    ) -> kafka.FetchResponse.PartitionData:
        types = self._request.response
        row = types.PartitionData(
            partition_index=index,
            error_code=read_result.error_code,
            high_watermark=read_result.high_watermark,
            last_stable_offset=read_result.last_stable_offset,
            log_start_offset=read_result.log_start_offset,
            aborted_transactions=[] if read_result.error_code in _ERRORS_BEFORE_READING else None,
            preferred_read_replica=read_result.preferred_replica,
            records=read_result.records,
            diverging_epoch=self._no_divergence,
            current_leader=self._no_leader,
            snapshot_id=self._no_snapshot,
        )
        if self._request.body.isolation_level == READ_COMMITTED and read_result.aborted is not None:
            row.aborted_transactions = [
                types.AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
                for transaction in read_result.aborted
            ]
        if read_result.diverging is not None:
            row.diverging_epoch = types.EpochEndOffset(
                epoch=read_result.diverging[0], end_offset=read_result.diverging[1]
            )
        if partition is not None and self._reports_leader(read_result.error_code):
            row.current_leader = describe_leader(self._request, partition)
        return row

    def _reports_leader(self, code: int) -> bool:
        """Return whether a response with this error code also reports the current leader (KIP-951)."""
        leader_errors = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH
        return self._request.version >= _FIRST_VERSION_WITH_LEADER and code in leader_errors

    def _build_response(self, rows: list[tuple[Key, FetchedPartition, Any]]) -> Steps[Message]:
        session = self._session
        rows.sort(key=lambda row: _SORT_ORDER_BY_ERROR.get(row[2].error_code, 0))
        changed_rows = []
        for number, (key, requested_partition, row) in enumerate(rows, start=1):
            if number % _PARTITIONS_PER_TURN == 0:
                yield
            has_changed = self._session is not None and record_changes(requested_partition, row)
            if has_changed or not self._is_incremental:
                changed_rows.append((key, requested_partition, row))
        if _has_row_after_unknown_id(changed_rows):
            return self._build_failure_response()
        if session is not None:
            for key, _, row in changed_rows:  # the next fetch starts with the partitions that had no records this time
                if row.records and key in session.partitions:
                    session.partitions.move_to_end(key)
        leaders = {row.current_leader.leader_id for _, _, row in changed_rows if row.current_leader.leader_id >= 0}
        endpoints = []
        if leaders and self._request.version >= _FIRST_VERSION_WITH_ENDPOINTS:
            endpoints = build_endpoint_rows(self._request, self._broker, leaders)
        return self._request.response(
            session_id=0 if session is None else session.session_id,
            responses=list(self._group_by_topic(changed_rows)),
            node_endpoints=endpoints,
        )

    def _group_by_topic(self, changed_rows: list[tuple[Key, FetchedPartition, Any]]) -> Iterator[Any]:
        """Group consecutive rows of a topic. As in Kafka, a topic is repeated if its rows are not consecutive."""
        last: tuple[str, Any] | None = None
        rows: list[Any] = []
        for (name, topic_id, _), _, row in changed_rows:
            if last is None or name != last[0] or (topic_id is not last[1] and topic_id != last[1]):
                if rows:
                    yield self._build_topic_row(last, rows)
                last, rows = (name, topic_id), []
            rows.append(row)
        if rows:
            yield self._build_topic_row(last, rows)

    def _build_topic_row(
        self, key: tuple[str, Any] | None, rows: list[Any]
    ) -> kafka.FetchResponse.FetchableTopicResponse:
        name, topic_id = key or ("", NIL_UUID)
        return self._request.response.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=rows)


@Api(
    name="Fetch",
    tier="T0",
    behaviour="Returns whole batches, starting with the one that contains the offset; long polls; sessions;"
    " down-conversion.",
    notes={
        "v0-v1": "format 0; newer formats are converted down if message.downconversion.enable is true",
        "v2-v3": "format 1; newer formats are converted down if message.downconversion.enable is true",
        "v0-v2": "the response is truncated at its size limit, even inside a batch",
        "v3+": "the first batch is complete, regardless of its size",
        "v4+": "read_committed is supported, and the response lists aborted transactions",
        "v5+": "log start offsets",
        "v7+": "sessions (KIP-227)",
        "v9+": "leader epochs are checked",
        "v11+": "if nodes have racks, a consumer with a rack is sent to a node of that rack (KIP-392)",
        "v12+": "diverging epochs",
        "v13+": "topics by id",
        "v16+": "the response contains the addresses of current leaders (KIP-951)",
    },
    gaps=("a request with a replica id may read the whole log, because brokers do not follow each other",),
    rights=(
        RequiredPermission("READ", "TOPIC", each="each topic, for a consumer"),
        RequiredPermission(
            "CLUSTER_ACTION", "CLUSTER", each="every topic, for a follower", denied=ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ),
    ),
)
def _handle_fetch(request: _Fetch, broker: BrokerState) -> Answer:
    """If an older format cannot represent any of the batches that were read (control batches at the end of a segment),
    reading continues after them. Kafka 3.9 returns twelve bytes without a batch (``LazyDownConversionRecords``), so
    that an old consumer never advances.
    """
    session_size = broker.fetch_sessions.count_partitions(request.body.session_id)
    if broker.store is None and (request.may_be_long or session_size > _PARTITIONS_PER_TURN):
        request.has_long_answer = True
        return broker.changes.run_concurrently(_answer_in_steps(request, broker))
    return finish_steps(_answer_in_steps(request, broker))


def _answer_in_steps(request: _Fetch, broker: BrokerState) -> Steps[Answer]:
    """Answer the request in steps of several partitions. The next attempt reads records appended in between."""
    body = request.body
    session, code = yield from _find_session(request, broker)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    requested_partitions = (
        session.partitions if session is not None else (yield from _read_partitions_in_steps(request))
    )
    fetch = PendingFetch(request, broker, session, requested_partitions)
    must_answer = body.max_wait_ms <= 0 or not requested_partitions

    def attempt_read(is_last: bool) -> Steps[Answer]:
        """Read the partitions again; ``is_last`` means that the response must be sent now."""
        if is_last and broker.store is not None:
            return run_once(lambda: run_when_read(broker, lambda: fetch.try_to_answer(True)))
        return fetch.try_to_answer_in_steps(is_last)

    def wait() -> Answer:
        return FetchWait(broker, fetch.partitions, body.max_wait_ms, attempt_read).response

    if broker.store is not None:
        return run_when_read(broker, lambda: fetch.try_to_answer(must_answer) or wait())
    return (yield from fetch.try_to_answer_in_steps(must_answer)) or wait()


def _build_internal_error_response(request: _Fetch) -> Message:
    """Return the response with UNKNOWN_SERVER_ERROR; in versions with topic names, also for each partition."""
    code, types = ErrorCode.UNKNOWN_SERVER_ERROR, request.response
    topics = request.body.topics if request.version < _FIRST_VERSION_WITH_TOPIC_IDS else []
    row = types.PartitionData
    rows = [
        types.FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                row(
                    partition_index=partition.partition,
                    error_code=code,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]
    return request.response(error_code=code, session_id=request.body.session_id, responses=rows)


def _has_row_after_unknown_id(rows: list[tuple[Key, FetchedPartition, Any]]) -> bool:
    """Return whether a row follows a row with the nil topic id.

    Kafka fails in this case, because it compares the names of both rows' topics.
    """
    return any(row.error_code == ErrorCode.UNKNOWN_TOPIC_ID and key[1] == NIL_UUID for key, _, row in rows[:-1])


def _read_partitions_in_steps(request: _Fetch) -> Steps[OrderedDict[Key, FetchedPartition]]:
    """Return the partitions in the request body."""
    requested_partitions: OrderedDict[Key, FetchedPartition] = OrderedDict()
    for topic in request.body.topics:
        for number, partition in enumerate(topic.partitions, start=1):
            requested_partitions[topic.topic, topic.topic_id, partition.partition] = FetchedPartition(partition)
            if number % _PARTITIONS_PER_TURN == 0:
                yield
    return requested_partitions


def _find_session(request: _Fetch, broker: BrokerState) -> Steps[tuple[FetchSession | None, int]]:
    """Return the request's session (None without one) and an error code."""
    body, by_id = request.body, request.version >= _FIRST_VERSION_WITH_TOPIC_IDS
    if request.version < _FIRST_VERSION_WITH_SESSIONS or body.session_epoch == FINAL_EPOCH:
        if body.session_id:
            broker.fetch_sessions.end(body.session_id)
        return None, ErrorCode.NONE
    requested_partitions = yield from _read_partitions_in_steps(request)
    if body.session_epoch == INITIAL_EPOCH:
        broker.fetch_sessions.end(body.session_id)
        return broker.fetch_sessions.begin(
            requested_partitions, uses_ids=by_id, principal=request.session.principal
        ), ErrorCode.NONE
    session, code = broker.fetch_sessions.find(body.session_id, body.session_epoch, uses_ids=by_id)
    if session is None:
        return None, code
    for number, (key, partition) in enumerate(requested_partitions.items(), start=1):
        if number % _PARTITIONS_PER_TURN == 0:
            yield
        known_partition = session.partitions.get(key)
        if known_partition is None:
            session.partitions[key] = partition
        else:
            known_partition.fields = partition.fields
    for topic in body.forgotten_topics_data:
        for index in topic.partitions:
            session.partitions.pop((topic.topic, topic.topic_id, index), None)
    return broker.fetch_sessions.drop_if_empty(session), ErrorCode.NONE
