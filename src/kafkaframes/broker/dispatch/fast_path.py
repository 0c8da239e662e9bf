"""The fast path, which answers an ordinary Produce or Fetch directly from its frame, with few objects.

For all other requests, the fast path returns ``None``, and ``dispatch.py`` answers. The responses of both paths are
identical, byte for byte. ``tests/broker/test_short.py`` compares the two paths at every version, with valid, invalid
and random requests. The fast path is only used without hooks (journal, request log), and with the catalog's messages.

``fast_produce.py`` contains the fast path of Produce, and this module contains the fast path of Fetch. A Fetch is
ordinary if it has no fetch session (KIP-227), this node leads all of its partitions, all offsets exist, and there are
enough bytes for an immediate response. The general path of a Fetch is ``apis/fetch.py``. A Fetch has no side effects,
so that the general path can restart it at any point.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.broker.apis.produce import TopicOutcomes, build_response
from kafkaframes.broker.dispatch import fast_produce
from kafkaframes.broker.dispatch.dispatch import Buffers, Dispatcher, join_short_parts
from kafkaframes.broker.dispatch.fast_produce import RequestCache
from kafkaframes.broker.dispatch.fast_reading import (
    FAST_PATH_READ_ERRORS,
    Cursor,
    GeneralPathRequiredError,
    encode_array_length,
    encode_text,
    reject_duplicates,
)
from kafkaframes.broker.requests.api import Answer, DeferredResponse
from kafkaframes.broker.requests.request import Request, Session
from kafkaframes.broker.state.changes import Waiting
from kafkaframes.broker.state.partitions import (
    MAX_COPIED_RECORD_BYTES,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchLimits,
    PartitionRead,
    check_leader_epoch,
    choose_isolation,
    read_partition,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Topic
from kafkaframes.errors import DecodeError, ErrorCode
from kafkaframes.protocol.api_keys import FETCH, PRODUCE
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import peek_request, read_request_header
from kafkaframes.wire.primitives import DeferredBytes

_FIRST_FETCH_VERSION = 4  # earlier versions require older record formats
_FIRST_FLEXIBLE_FETCH_VERSION = 12
_FIRST_VERSION_WITH_LOG_START = 5
_FIRST_VERSION_WITH_SESSIONS = 7
_FIRST_VERSION_WITH_LEADER_EPOCH = 9
_FIRST_VERSION_WITH_RACK = 11
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITHOUT_REPLICA_ID = 15
_CONSUMER_REPLICA_ID = -1
_NO_SESSION_ID_AND_EPOCH = (0, -1)
_LIMITS, _SESSION, _INT32 = struct.Struct(">iiib"), struct.Struct(">ii"), struct.Struct(">i")
# A partition in a request: number, current leader epoch, fetch offset, last fetched epoch, log start offset and maximum
# bytes. Fields that the version lacks are omitted.
_PARTITION_4, _PARTITION_5 = struct.Struct(">iqi"), struct.Struct(">iqqi")
_PARTITION_9, _PARTITION_12 = struct.Struct(">iiqqi"), struct.Struct(">iiqiqi")
# A partition of a response: number, error code, high watermark, last stable offset, log start offset.
_ROW_4, _ROW_5 = struct.Struct(">ihqq"), struct.Struct(">ihqqq")
_NO_PREFERRED_REPLICA = _NULL_ARRAY = struct.pack(">i", -1)
_THROTTLE, _THROTTLE_ERROR_SESSION, _NO_TAGGED_FIELDS = bytes(4), bytes(10), b"\x00"
# An empty or null list of aborted transactions. The key is whether the version is flexible, and whether the list is
# requested.
_EMPTY_ABORTED_LISTS = {
    (False, True): bytes(4),
    (False, False): _NULL_ARRAY,
    (True, True): b"\x01",
    (True, False): b"\x00",
}


class RequestedPartition(NamedTuple):
    """A partition of a request, with the fields of FetchPartition."""

    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


def _read_fetch(cursor: Cursor, version: int, session: Session, broker: BrokerState) -> list[bytes | DeferredBytes]:
    """Return the body of the response to an ordinary request.

    Raise one of ``fast_reading.FAST_PATH_READ_ERRORS`` for all other requests.
    """
    if version < _FIRST_VERSION_WITHOUT_REPLICA_ID and cursor.read_numbers(_INT32)[0] != _CONSUMER_REPLICA_ID:
        raise GeneralPathRequiredError
    max_wait_ms, min_bytes, max_bytes, isolation = cursor.read_numbers(_LIMITS)
    if max_bytes < 0 or isolation not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise GeneralPathRequiredError
    if version >= _FIRST_VERSION_WITH_SESSIONS and cursor.read_numbers(_SESSION) != _NO_SESSION_ID_AND_EPOCH:
        raise GeneralPathRequiredError
    response_max_bytes = min(max_bytes, broker.settings.get_number("fetch.max.bytes"))
    stretch_bytes = MAX_COPIED_RECORD_BYTES if session.sends_files else None
    answer = _FetchResponse(
        version,
        session,
        broker,
        FetchLimits(response_max_bytes, True, choose_isolation(isolation), stretch_bytes=stretch_bytes),
    )
    answer.read_topics(cursor)
    if max_wait_ms > 0 and answer.size < min(min_bytes, response_max_bytes):
        raise GeneralPathRequiredError
    return answer.parts


class _FetchResponse:
    """A response under construction: the parts of its body, and the size of its records in bytes."""

    def __init__(self, version: int, session: Session, broker: BrokerState, limits: FetchLimits) -> None:
        self._version = version
        self._is_flexible = version >= _FIRST_FLEXIBLE_FETCH_VERSION
        self._session = session
        self._broker = broker
        self._limits = limits
        self.size = self._held_bytes = 0
        self.parts: list[bytes | DeferredBytes] = []

    def read_topics(self, cursor: Cursor) -> None:
        """Parse the topics of a request and the fields after them, and read the requested partitions."""
        append = self.parts.append
        append(_THROTTLE_ERROR_SESSION if self._version >= _FIRST_VERSION_WITH_SESSIONS else _THROTTLE)
        count = cursor.read_count()
        append(encode_array_length(count, is_flexible=self._is_flexible))
        topics = [self._read_topic(cursor) for _ in range(count)]
        reject_duplicates(topics)
        if self._version >= _FIRST_VERSION_WITH_SESSIONS:
            cursor.skip_empty_array()  # forgotten topics
        if self._version >= _FIRST_VERSION_WITH_RACK:
            rack, _ = cursor.read_text()
            if rack and self._broker.nodes.has_racks:
                raise GeneralPathRequiredError
        cursor.skip_empty_tags()
        if self._is_flexible:
            append(_NO_TAGGED_FIELDS)

    def _read_topic(self, cursor: Cursor) -> str:
        """Parse a topic, read its partitions, and return its name."""
        topic, raw = self._find_topic(cursor)
        count = cursor.read_count()
        self.parts += (raw, encode_array_length(count, is_flexible=self._is_flexible))
        reject_duplicates([self._read_next_partition(cursor, topic) for _ in range(count)])
        cursor.skip_empty_tags()
        if self._is_flexible:
            self.parts.append(_NO_TAGGED_FIELDS)
        return topic.name

    def _find_topic(self, cursor: Cursor) -> tuple[Topic, bytes]:
        """Return the next topic, and the bytes that identify it in the response."""
        broker = self._broker
        if self._version >= _FIRST_VERSION_WITH_TOPIC_IDS:
            raw = cursor.read_uuid()
            topic = broker.topics_by_id.get(UUID(bytes=raw))
        else:
            name, raw = cursor.read_text()
            topic = broker.topics.get(name)
            raw = encode_text(raw, is_flexible=self._is_flexible)
        if topic is None or not broker.access.allows(self._session, "READ", "TOPIC", topic.name):
            raise GeneralPathRequiredError
        return topic, raw

    def _read_next_partition(self, cursor: Cursor, topic: Topic) -> int:
        """Parse the next partition, add its row to the response, and return its number."""
        request_partition = _parse_partition(cursor, self._version)
        cursor.skip_empty_tags()
        partition = topic.partition(request_partition.partition)
        if partition is None or partition.leader_id != self._session.node_id:
            raise GeneralPathRequiredError
        if check_leader_epoch(partition, request_partition.current_leader_epoch):
            raise GeneralPathRequiredError
        limits_left = self._limits.get_remaining_limits(self.size, self._held_bytes)
        read_result = read_partition(self._broker, partition, request_partition, limits_left, first=not self.size)
        if read_result.error_code != ErrorCode.NONE or read_result.aborted or read_result.diverging is not None:
            raise GeneralPathRequiredError
        self.size += len(read_result.records)
        self._held_bytes += read_result.held_bytes
        self._encode_row(request_partition.partition, read_result)
        return request_partition.partition

    def _encode_row(self, index: int, read_result: PartitionRead) -> None:
        """Append the row of a partition without an error."""
        version, is_flexible = self._version, self._is_flexible
        head = index, ErrorCode.NONE, read_result.high_watermark, read_result.last_stable_offset
        row = (
            _ROW_4.pack(*head)
            if version < _FIRST_VERSION_WITH_LOG_START
            else _ROW_5.pack(*head, read_result.log_start_offset)
        )
        row += _EMPTY_ABORTED_LISTS[
            is_flexible, read_result.aborted is not None
        ]  # empty, or null if it is not requested
        if version >= _FIRST_VERSION_WITH_RACK:
            row += _NO_PREFERRED_REPLICA
        self.parts += (
            row + encode_array_length(len(read_result.records), is_flexible=is_flexible),
            read_result.records,
        )
        if is_flexible:
            self.parts.append(_NO_TAGGED_FIELDS)


def _parse_partition(cursor: Cursor, version: int) -> RequestedPartition:
    """Parse a partition of a Fetch request at the cursor."""
    if version >= _FIRST_FLEXIBLE_FETCH_VERSION:
        index, epoch, offset, last, _, partition_max_bytes = cursor.read_numbers(_PARTITION_12)
        return RequestedPartition(index, offset, partition_max_bytes, epoch, last)
    if version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
        index, epoch, offset, _, partition_max_bytes = cursor.read_numbers(_PARTITION_9)
        return RequestedPartition(index, offset, partition_max_bytes, epoch)
    if version >= _FIRST_VERSION_WITH_LOG_START:
        index, offset, _, partition_max_bytes = cursor.read_numbers(_PARTITION_5)
        return RequestedPartition(index, offset, partition_max_bytes)
    index, offset, partition_max_bytes = cursor.read_numbers(_PARTITION_4)
    return RequestedPartition(index, offset, partition_max_bytes)


_SIZE_AND_CORRELATION_ID: Final = struct.Struct(">ii")
_NO_API_VERSIONS: Final = (1, 0)  # lowest and highest version: an empty range
_MAX_SMALL_RESPONSE_BYTES: Final = 4096  # a response below this size has neither a long buffer nor a file range


class UnfinishedResponse(NamedTuple):
    """A request that is handled in steps, and its response."""

    request: Request
    answer: Answer


class FastPath:
    """A fast path for ordinary Produce and Fetch requests, which parses frames and encodes responses directly."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._broker = dispatcher.broker
        ranges = {key: api.range for key, api in dispatcher.apis.items()}
        low, high = ranges.get(FETCH, _NO_API_VERSIONS)
        self._repeats = RequestCache(self._broker)
        self._ranges = {PRODUCE: ranges.get(PRODUCE, _NO_API_VERSIONS), FETCH: (max(low, _FIRST_FETCH_VERSION), high)}

    def __call__(self, frame: memoryview, session: Session) -> Buffers | UnfinishedResponse | None:
        """Return the response frame in parts; None if the request is not ordinary."""
        try:
            head = key, version, correlation_id = peek_request(frame)
        except DecodeError:
            return None
        if key not in self._ranges or not session.is_authenticated or session.login.answer_raw is not None:
            return None
        if self._broker.quotas.limits:
            return None
        if session.expires_ms is not None and self._broker.clock.monotonic_ms >= session.expires_ms:
            return None
        low, high = self._ranges[key]
        if not low <= version <= high:
            return None
        if key == PRODUCE and session.records_at:
            again = self._answer_repeated(frame, correlation_id, session)
            if again is not None:
                return again
        return self._answer_parsed(frame, head, session)

    def _answer_parsed(
        self, frame: memoryview, head: tuple[int, int, int], session: Session
    ) -> Buffers | UnfinishedResponse | None:
        """Parse a request and answer it; return None if it requires the general path."""
        key, version, correlation_id = head
        is_flexible = version >= (
            fast_produce.FIRST_FLEXIBLE_VERSION if key == PRODUCE else _FIRST_FLEXIBLE_FETCH_VERSION
        )
        # Indexing a memoryview takes twice as long as indexing bytes.
        request_bytes = frame.tobytes() if len(frame) < _MAX_SMALL_RESPONSE_BYTES else frame
        try:
            header, start = read_request_header(request_bytes, 1 + is_flexible)
            if header.unknown_tags:
                return None
            cursor = Cursor(request_bytes, start, is_flexible=is_flexible)
            if key == FETCH:
                parts = _read_fetch(cursor, version, session, self._broker)
            else:
                requested_topics, acks = fast_produce.read_request(cursor, version, session, self._broker)
                cursor.skip_empty_tags()
        except FAST_PATH_READ_ERRORS:
            return None
        if key == PRODUCE:
            self._repeats.add(frame, cursor, requested_topics, acks, version, session)
            steps = fast_produce.append_in_steps(requested_topics, acks, self._broker, len(frame))
            try:
                waits_for = next(steps)
            except StopIteration as steps_end:
                topic_results = steps_end.value
            else:
                return self._answer_in_turns(frame, session, steps, waits_for)
            if not fast_produce.has_no_errors(topic_results):
                return self._answer_with_errors(frame, session, topic_results)
            parts = list(fast_produce.write_response(topic_results, version))
        size = 4 + is_flexible + sum(map(len, parts))
        response_start = _SIZE_AND_CORRELATION_ID.pack(size, correlation_id) + _NO_TAGGED_FIELDS[: int(is_flexible)]
        if size < _MAX_SMALL_RESPONSE_BYTES:
            small: list[Any] = parts
            return [response_start + b"".join(small)]
        return join_short_parts((response_start, *parts))

    def _answer_repeated(self, frame: memoryview, correlation_id: int, session: Session) -> Buffers | None:
        """Answer a Produce that is in the cache; return None for all other requests."""
        try:
            repeat = self._repeats.append_cached(frame, session)
        except FAST_PATH_READ_ERRORS:
            return None
        if repeat is None:
            return None
        cached_request, outcome = repeat
        if outcome.error_code == ErrorCode.NONE:
            return [cached_request.answer(correlation_id, outcome)]
        return self._answer_with_errors(frame, session, [cached_request.build_result(outcome)])

    def _answer_with_errors(
        self, frame: memoryview, session: Session, topic_results: list[fast_produce.CompletedTopic]
    ) -> Buffers:
        """Return the response to a request with rejected records."""
        request = self._dispatcher.decode_request(frame.tobytes(), session)
        return self._dispatcher.encode(request, self._build_error_response(request, topic_results))

    def _build_error_response(self, request: Request, topic_results: list[fast_produce.CompletedTopic]) -> Message:
        rows = [
            TopicOutcomes(topic.topic.name, topic.topic.topic_id, topic.topic.topic, topic.list_outcomes_by_index())
            for topic in topic_results
        ]
        return build_response(request, self._broker, rows)

    def _answer_in_turns(
        self,
        frame: memoryview,
        session: Session,
        steps: Waiting[list[fast_produce.CompletedTopic]],
        waits_for: DeferredResponse | None,
    ) -> UnfinishedResponse:
        """Run the remaining steps of a long Produce, and let other requests run in between."""
        request = self._dispatcher.decode_request(frame.tobytes(), session)

        def answer_in_steps() -> Waiting[Answer]:
            yield waits_for
            return self._build_error_response(request, (yield from steps))

        return UnfinishedResponse(request, self._broker.changes.run_concurrently(answer_in_steps()))
