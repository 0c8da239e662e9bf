"""The fast path: answers an ordinary Produce or Fetch directly from its frame, with few objects.

It returns ``None`` for all other requests, which ``dispatch.py`` answers. Both give the same responses, byte for byte.
``tests/broker/test_short.py`` compares them at every version, with valid, invalid and random requests. The fast path is
only used without hooks (journal, request log), and with the catalog's messages.

Ordinary Produce requests are in ``fast_produce.py``, ordinary Fetch requests in this module. A Fetch is ordinary if it
has no fetch session (KIP-227), this node leads all of its partitions, all offsets exist, and there are enough bytes for
an immediate response. The general path is ``apis/fetch.py``. A Fetch changes nothing, so that the general path can
start again at any point.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.broker.apis.produce import TopicOutcomes, respond
from kafkaframes.broker.dispatch import fast_produce
from kafkaframes.broker.dispatch.dispatch import Buffers, Dispatcher, together
from kafkaframes.broker.dispatch.fast_produce import Repeats
from kafkaframes.broker.dispatch.fast_reading import (
    UNUSUAL,
    Cursor,
    UnusualError,
    all_different,
    array_start,
    text_bytes,
)
from kafkaframes.broker.requests.api import Answer, Later
from kafkaframes.broker.requests.request import Request, Session
from kafkaframes.broker.state.changes import Waiting
from kafkaframes.broker.state.partitions import (
    MAX_COPIED_BYTES,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Limits,
    Read,
    epoch_code,
    isolation_of,
    read_partition,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Topic
from kafkaframes.errors import DecodeError, ErrorCode
from kafkaframes.protocol.api_keys import FETCH, PRODUCE
from kafkaframes.protocol.messages import Message
from kafkaframes.protocol.messages.headers import peek_request, read_request_header
from kafkaframes.wire.primitives import Part

_FIRST_FETCH_VERSION = 4  # before it, records come in older formats
_FIRST_FLEXIBLE_FETCH_VERSION = 12
_FIRST_VERSION_WITH_LOG_START = 5
_FIRST_VERSION_WITH_SESSIONS = 7
_FIRST_VERSION_WITH_LEADER_EPOCH = 9
_FIRST_VERSION_WITH_RACK = 11
_FIRST_VERSION_BY_TOPIC_ID = 13
_FIRST_VERSION_WITHOUT_REPLICA_ID = 15
_CONSUMER_REPLICA_ID = -1
_NO_SESSION = (0, -1)
_LIMITS, _SESSION, _INT32 = struct.Struct(">iiib"), struct.Struct(">ii"), struct.Struct(">i")
# Of one partition: its number, the leader epoch, the offset, the epoch of the last record, the log's start, the most
# bytes; as far as a version has them.
_PARTITION_4, _PARTITION_5 = struct.Struct(">iqi"), struct.Struct(">iqqi")
_PARTITION_9, _PARTITION_12 = struct.Struct(">iiqqi"), struct.Struct(">iiqiqi")
# Of an answer: number, error code, high watermark, last stable offset, start.
_ROW_4, _ROW_5 = struct.Struct(">ihqq"), struct.Struct(">ihqqq")
_NO_REPLICA = _NULL_ARRAY = struct.pack(">i", -1)
_THROTTLE, _THROTTLE_ERROR_SESSION, _NO_TAGGED_FIELDS = bytes(4), bytes(10), b"\x00"
# The list of aborted transactions, by whether the version is flexible and the list is asked for: empty or null.
_EMPTY_ABORTED_LISTS = {
    (False, True): bytes(4),
    (False, False): _NULL_ARRAY,
    (True, True): b"\x01",
    (True, False): b"\x00",
}


class RequestedPartition(NamedTuple):
    """One partition of a request; the fields are FetchPartition's."""

    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


def _read_fetch(cursor: Cursor, version: int, session: Session, broker: BrokerState) -> list[bytes | Part]:
    """Return the body of the answer to an ordinary request; one of ``fast_reading.UNUSUAL`` for any other."""
    if version < _FIRST_VERSION_WITHOUT_REPLICA_ID and cursor.numbers(_INT32)[0] != _CONSUMER_REPLICA_ID:
        raise UnusualError
    max_wait_ms, min_bytes, max_bytes, isolation = cursor.numbers(_LIMITS)
    if max_bytes < 0 or isolation not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise UnusualError
    if version >= _FIRST_VERSION_WITH_SESSIONS and cursor.numbers(_SESSION) != _NO_SESSION:
        raise UnusualError
    most = min(max_bytes, broker.settings.number("fetch.max.bytes"))
    stretch_bytes = MAX_COPIED_BYTES if session.sends_files else None
    answer = _Answer(version, session, broker, Limits(most, True, isolation_of(isolation), stretch_bytes=stretch_bytes))
    answer.read(cursor)
    if max_wait_ms > 0 and answer.size < min(min_bytes, most):
        raise UnusualError
    return answer.parts


class _Answer:
    """An answer while it grows: ``size`` bytes of records, and the parts of its body."""

    def __init__(self, version: int, session: Session, broker: BrokerState, limits: Limits) -> None:
        self._version = version
        self._is_flexible = version >= _FIRST_FLEXIBLE_FETCH_VERSION
        self._session = session
        self._broker = broker
        self._limits = limits
        self.size = self._held_bytes = 0
        self.parts: list[bytes | Part] = []

    def read(self, cursor: Cursor) -> None:
        """Read a request from its topics on, and the partitions that it asks for."""
        append = self.parts.append
        append(_THROTTLE_ERROR_SESSION if self._version >= _FIRST_VERSION_WITH_SESSIONS else _THROTTLE)
        count = cursor.count()
        append(array_start(count, is_flexible=self._is_flexible))
        topics = [self._topic(cursor) for _ in range(count)]
        all_different(topics)
        if self._version >= _FIRST_VERSION_WITH_SESSIONS:
            cursor.no_elements()  # forgotten topics
        if self._version >= _FIRST_VERSION_WITH_RACK:
            rack, _ = cursor.text()
            if rack and self._broker.nodes.has_racks:
                raise UnusualError
        cursor.no_tags()
        if self._is_flexible:
            append(_NO_TAGGED_FIELDS)

    def _topic(self, cursor: Cursor) -> str:
        """Read a topic and its partitions; return its name."""
        topic, raw = self._find(cursor)
        count = cursor.count()
        self.parts += (raw, array_start(count, is_flexible=self._is_flexible))
        all_different([self._partition(cursor, topic) for _ in range(count)])
        cursor.no_tags()
        if self._is_flexible:
            self.parts.append(_NO_TAGGED_FIELDS)
        return topic.name

    def _find(self, cursor: Cursor) -> tuple[Topic, bytes]:
        """Return the next topic, and what stands for it in the answer."""
        broker = self._broker
        if self._version >= _FIRST_VERSION_BY_TOPIC_ID:
            raw = cursor.uuid()
            topic = broker.topics_by_id.get(UUID(bytes=raw))
        else:
            name, raw = cursor.text()
            topic = broker.topics.get(name)
            raw = text_bytes(raw, is_flexible=self._is_flexible)
        if topic is None or not broker.access.allows(self._session, "READ", "TOPIC", topic.name):
            raise UnusualError
        return topic, raw

    def _partition(self, cursor: Cursor, topic: Topic) -> int:
        """Read the next partition, and write its row; return its number."""
        request_partition = _read_partition(cursor, self._version)
        cursor.no_tags()
        partition = topic.partition(request_partition.partition)
        if partition is None or partition.leader_id != self._session.node_id:
            raise UnusualError
        if epoch_code(partition, request_partition.current_leader_epoch):
            raise UnusualError
        limits_left = self._limits.limits_after(self.size, self._held_bytes)
        read = read_partition(self._broker, partition, request_partition, limits_left, first=not self.size)
        if read.error_code != ErrorCode.NONE or read.aborted or read.diverging is not None:
            raise UnusualError
        self.size += len(read.records)
        self._held_bytes += read.held_bytes
        self._row(request_partition.partition, read)
        return request_partition.partition

    def _row(self, index: int, read: Read) -> None:
        version, is_flexible = self._version, self._is_flexible
        head = index, ErrorCode.NONE, read.high_watermark, read.last_stable_offset
        row = (
            _ROW_4.pack(*head) if version < _FIRST_VERSION_WITH_LOG_START else _ROW_5.pack(*head, read.log_start_offset)
        )
        row += _EMPTY_ABORTED_LISTS[is_flexible, read.aborted is not None]  # none there, or not asked for
        if version >= _FIRST_VERSION_WITH_RACK:
            row += _NO_REPLICA
        self.parts += (row + array_start(len(read.records), is_flexible=is_flexible), read.records)
        if is_flexible:
            self.parts.append(_NO_TAGGED_FIELDS)


def _read_partition(cursor: Cursor, version: int) -> RequestedPartition:
    if version >= _FIRST_FLEXIBLE_FETCH_VERSION:
        index, epoch, offset, last, _, most = cursor.numbers(_PARTITION_12)
        return RequestedPartition(index, offset, most, epoch, last)
    if version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
        index, epoch, offset, _, most = cursor.numbers(_PARTITION_9)
        return RequestedPartition(index, offset, most, epoch)
    if version >= _FIRST_VERSION_WITH_LOG_START:
        index, offset, _, most = cursor.numbers(_PARTITION_5)
        return RequestedPartition(index, offset, most)
    index, offset, most = cursor.numbers(_PARTITION_4)
    return RequestedPartition(index, offset, most)


_SIZE_AND_ID: Final = struct.Struct(">ii")
_NO_RANGE: Final = (1, 0)
_NO_TAGS: Final = b"\x00"
_MAX_SMALL_RESPONSE_BYTES: Final = 4096  # so small an answer has no part that is long or in a file


class Unfinished(NamedTuple):
    """A request that is being answered in turns, and its answer."""

    request: Request
    answer: Answer


class FastPath:
    """Answers ordinary frames of one broker."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._broker = dispatcher.broker
        ranges = {key: api.range for key, api in dispatcher.apis.items()}
        low, high = ranges.get(FETCH, _NO_RANGE)
        self._repeats = Repeats(self._broker)
        self._ranges = {PRODUCE: ranges.get(PRODUCE, _NO_RANGE), FETCH: (max(low, _FIRST_FETCH_VERSION), high)}

    def __call__(self, frame: memoryview, session: Session) -> Buffers | Unfinished | None:
        """Return the answer's frame in parts; None where the request is not ordinary."""
        try:
            head = key, version, correlation_id = peek_request(frame)
        except DecodeError:
            return None
        if key not in self._ranges or not session.is_authenticated or "raw" in session.memory:
            return None
        if self._broker.quotas.limits:
            return None
        if session.expires_ms is not None and self._broker.clock.monotonic_ms >= session.expires_ms:
            return None
        low, high = self._ranges[key]
        if not low <= version <= high:
            return None
        if key == PRODUCE and session.records_at:
            again = self._again(frame, correlation_id, session)
            if again is not None:
                return again
        return self._in_full(frame, head, session)

    def _in_full(self, frame: memoryview, head: tuple[int, int, int], session: Session) -> Buffers | Unfinished | None:
        """Answer what is read word by word."""
        key, version, correlation_id = head
        is_flexible = version >= (
            fast_produce.FIRST_FLEXIBLE_VERSION if key == PRODUCE else _FIRST_FLEXIBLE_FETCH_VERSION
        )
        handy = (
            frame.tobytes() if len(frame) < _MAX_SMALL_RESPONSE_BYTES else frame
        )  # a byte of a view costs twice that of bytes
        try:
            header, start = read_request_header(handy, 1 + is_flexible)
            if header.unknown_tags:
                return None
            cursor = Cursor(handy, start, is_flexible=is_flexible)
            if key == FETCH:
                parts = _read_fetch(cursor, version, session, self._broker)
            else:
                requested_topics, acks = fast_produce.read(cursor, version, session, self._broker)
                cursor.no_tags()
        except UNUSUAL:
            return None
        if key == PRODUCE:
            self._repeats.keep(frame, cursor, requested_topics, acks, version, session)
            steps = fast_produce.appending(requested_topics, acks, self._broker, len(frame))
            try:
                waits_for = next(steps)
            except StopIteration as steps_end:
                topics_done = steps_end.value
            else:
                return self._in_turns(frame, session, steps, waits_for)
            if not fast_produce.is_ordinary(topics_done):
                return self._explain(frame, session, topics_done)
            parts = list(fast_produce.write(topics_done, version))
        size = 4 + is_flexible + sum(map(len, parts))
        begin = _SIZE_AND_ID.pack(size, correlation_id) + _NO_TAGS[: int(is_flexible)]
        if size < _MAX_SMALL_RESPONSE_BYTES:
            small: list[Any] = parts
            return [begin + b"".join(small)]
        return together((begin, *parts))

    def _again(self, frame: memoryview, correlation_id: int, session: Session) -> Buffers | None:
        """Answer a Produce in words that came before."""
        try:
            repeat = self._repeats.take(frame, session)
        except UNUSUAL:
            return None
        if repeat is None:
            return None
        known_request, outcome = repeat
        if outcome.error_code == ErrorCode.NONE:
            return [known_request.answer(correlation_id, outcome)]
        return self._explain(frame, session, [known_request.result_of(outcome)])

    def _explain(self, frame: memoryview, session: Session, topics_done: list[fast_produce.CompletedTopic]) -> Buffers:
        """Write the answer to a request of which something was refused."""
        request = self._dispatcher.request_of(frame.tobytes(), session)
        return self._dispatcher.encode(request, self._response(request, topics_done))

    def _response(self, request: Request, topics_done: list[fast_produce.CompletedTopic]) -> Message:
        rows = [
            TopicOutcomes(one.requested.name, one.requested.topic_id, one.requested.topic, one.by_index())
            for one in topics_done
        ]
        return respond(request, self._broker, rows)

    def _in_turns(
        self,
        frame: memoryview,
        session: Session,
        steps: Waiting[list[fast_produce.CompletedTopic]],
        waits_for: Later | None,
    ) -> Unfinished:
        """Take the steps of a Produce that is long, after the first, with turns for others between them."""
        request = self._dispatcher.request_of(frame.tobytes(), session)

        def answering() -> Waiting[Answer]:
            yield waits_for
            return self._response(request, (yield from steps))

        return Unfinished(request, self._broker.changes.beside(answering()))
