"""The fast path of an ordinary Produce, with few objects for its request and response.

A Produce is ordinary if it has no transaction, acks is 1 or all, this node leads all of its partitions, and the batches
have the form that the version requires. All conditions are checked before the first append. The general path of a
Produce is ``apis/produce.py``, which also builds the response if the log rejects records.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import NamedTuple
from uuid import UUID

from kafkaframes.broker.apis import produce
from kafkaframes.broker.apis.produce import AppendOutcome, SentRecords
from kafkaframes.broker.dispatch.fast_reading import (
    Cursor,
    GeneralPathRequiredError,
    encode_array_length,
    encode_text,
    reject_duplicates,
)
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.state.changes import Waiting
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Partition, Topic
from kafkaframes.errors import ErrorCode
from kafkaframes.records.limits import ContentBudget, ContentNotReadyError
from kafkaframes.wire.primitives import NIL_UUID

FIRST_FLEXIBLE_VERSION = 9
_FIRST_VERSION_WITH_TRANSACTIONS = 3
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_ACKS_AND_TIMEOUT, _INDEX = struct.Struct(">hi"), struct.Struct(">i")
_FAST_PATH_ACKS = (1, -1)
_THROTTLE, _THROTTLE_AND_TAGS = bytes(4), bytes(5)
# A partition's row in a response: index, error code, base offset, log append time and log start offset. Fields that the
# version lacks are omitted. Empty record errors and a null error message follow.
_ROW_0, _ROW_2, _ROW_5 = struct.Struct(">ihq"), struct.Struct(">ihqq"), struct.Struct(">ihqqq")
_NO_ERRORS, _NO_ERRORS_AND_TAGS = struct.pack(">ih", 0, -1), b"\x01\x00\x00"


class RequestedTopic(NamedTuple):
    """A topic of a request: its name or id, the bytes that encode it, and the records of each partition."""

    name: str
    topic_id: UUID
    raw: bytes
    topic: Topic
    partitions: list[tuple[Partition, SentRecords]]


class CompletedTopic(NamedTuple):
    """The results of a topic: an outcome for each requested partition."""

    topic: RequestedTopic
    outcomes: list[AppendOutcome]

    def list_outcomes_by_index(self) -> list[tuple[int, AppendOutcome]]:
        """Return pairs of partition number and outcome."""
        return [
            (partition.index, outcome)
            for (partition, _), outcome in zip(self.topic.partitions, self.outcomes, strict=True)
        ]


def read_request(
    cursor: Cursor, version: int, session: Session, broker: BrokerState
) -> tuple[list[RequestedTopic], int]:
    """Return the topics of an ordinary request, and its acks. Nothing is appended."""
    if version >= _FIRST_VERSION_WITH_TRANSACTIONS:
        cursor.skip_null_text()
    acks, _ = cursor.read_numbers(_ACKS_AND_TIMEOUT)
    if acks not in _FAST_PATH_ACKS:
        raise GeneralPathRequiredError
    topics = [_read_topic(cursor, version, session, broker) for _ in range(cursor.read_count())]
    reject_duplicates([topic.raw for topic in topics])
    return topics, acks


def _read_topic(cursor: Cursor, version: int, session: Session, broker: BrokerState) -> RequestedTopic:
    """Parse a topic of a Produce request at the cursor."""
    name, topic_id, topic = "", NIL_UUID, None
    if version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        raw = cursor.read_uuid()
        topic_id = UUID(bytes=raw)
        topic = broker.topics_by_id.get(topic_id)
    else:
        name, raw = cursor.read_text()
        topic = broker.topics.get(name)
    if topic is None or topic.is_internal or not may_write(session, topic, broker):
        raise GeneralPathRequiredError
    requested_topic = RequestedTopic(name, topic_id, raw, topic, [])
    for _ in range(cursor.read_count()):
        (index,) = cursor.read_numbers(_INDEX)
        sent_records = produce.read_sent_records(cursor.read_bytes())
        cursor.skip_empty_tags()
        partition = find_led_partition(topic, index, session)
        if partition is None or not is_supported_batch(sent_records, version):
            raise GeneralPathRequiredError
        requested_topic.partitions.append((partition, sent_records))
    reject_duplicates([partition.index for partition, _ in requested_topic.partitions])
    cursor.skip_empty_tags()
    return requested_topic


def find_topic(requested_topic: RequestedTopic, version: int, broker: BrokerState) -> Topic | None:
    """Return the current topic with the name or id of a request; None if it does not exist."""
    return (
        broker.topics_by_id.get(requested_topic.topic_id)
        if version >= _FIRST_VERSION_WITH_TOPIC_IDS
        else broker.topics.get(requested_topic.name)
    )


def may_write(session: Session, topic: Topic, broker: BrokerState) -> bool:
    """Return whether the client may write to a topic."""
    return broker.access.allows(session, "WRITE", "TOPIC", topic.name)


def find_led_partition(topic: Topic, index: int, session: Session) -> Partition | None:
    """Return a partition that this node leads; None if it does not exist or has another leader."""
    partition = topic.partition(index)
    return None if partition is None or partition.leader_id != session.node_id else partition


def is_supported_batch(sent_records: SentRecords, version: int) -> bool:
    """Return whether records have the form that the version requires, and are not transactional."""
    return produce.check_record_format(version, sent_records) is None and not sent_records.is_transactional


def append_in_steps(
    requested_topics: list[RequestedTopic], acks: int, broker: BrokerState, size_bytes: int
) -> Waiting[list[CompletedTopic]]:
    """Append partition by partition, and let other requests run in between.

    An error does not affect other partitions.
    """
    scheduler = produce.AppendScheduler(size_bytes)
    topic_results = [CompletedTopic(topic, []) for topic in requested_topics]
    for topic, outcomes in topic_results:
        for partition, sent_records in topic.partitions:
            append = partial(
                produce.append_to_partition, broker, partition, sent_records, acks=acks, content=scheduler.content
            )
            outcomes.append((yield from produce.append_when_decompressed(broker, scheduler.content, append)))
            if scheduler.count_append(sent_records.records):
                yield None
    return topic_results


def has_no_errors(topic_results: list[CompletedTopic]) -> bool:
    """Return whether all records were appended."""
    return all(outcome.error_code == ErrorCode.NONE for topic in topic_results for outcome in topic.outcomes)


def write_response(topic_results: list[CompletedTopic], version: int) -> list[bytes]:
    """Return the body of a response without errors, in parts."""
    is_flexible = version >= FIRST_FLEXIBLE_VERSION
    parts = [encode_array_length(len(topic_results), is_flexible=is_flexible)]
    for topic in topic_results:
        requested_topic, outcomes = topic
        parts.append(
            requested_topic.raw
            if version >= _FIRST_VERSION_WITH_TOPIC_IDS
            else encode_text(requested_topic.raw, is_flexible=is_flexible)
        )
        parts.append(encode_array_length(len(outcomes), is_flexible=is_flexible))
        parts += [encode_partition_row(index, outcome, version) for index, outcome in topic.list_outcomes_by_index()]
        if is_flexible:
            parts.append(b"\x00")
    if version:
        parts.append(_THROTTLE_AND_TAGS if is_flexible else _THROTTLE)
    return parts


def split_response(topic: CompletedTopic, version: int) -> tuple[bytes, bytes, bytes]:
    """Return the body of a response with one partition: the bytes before its row, the row, and the bytes after it."""
    start, name, count, middle, *suffixes = write_response([topic], version)
    return start + name + count, middle, b"".join(suffixes)


def encode_partition_row(index: int, outcome: AppendOutcome, version: int) -> bytes:
    """Return the response row for a partition after its records were appended."""
    code, offset, time_ms, start = outcome[:4]
    if version >= FIRST_FLEXIBLE_VERSION:
        return _ROW_5.pack(index, code, offset, time_ms, start) + _NO_ERRORS_AND_TAGS
    if version >= 5:
        packed_row = _ROW_5.pack(index, code, offset, time_ms, start)
        return packed_row + _NO_ERRORS if version >= 8 else packed_row
    return _ROW_2.pack(index, code, offset, time_ms) if version >= 2 else _ROW_0.pack(index, code, offset)


MAX_CACHED_REQUESTS = 1024  # the cache is cleared when it is full
MAX_HEAD_BYTES = 512  # largest number of bytes before the records of a cached request
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")
_PLACEHOLDER_OUTCOME = AppendOutcome(base_offset=0, log_start_offset=0)
_NO_RECORDS = produce.read_sent_records(b"")


class CachedRequest(NamedTuple):
    """A parsed request without its records, and the constant parts of its response.

    Attributes:
        topic: requested topic, without records.
        number: partition number of the request's only partition.
        acks: required acknowledgements: 1, or -1 for all in-sync replicas.
        version: API version.
        tail: the bytes of the request after the records.
        size: size of the response, in bytes.
        prefix, suffix: the bytes of the response before and after the partition's row.
    """

    topic: RequestedTopic
    number: int
    acks: int
    version: int
    tail: bytes
    size: int
    prefix: bytes
    suffix: bytes

    @property
    def is_flexible(self) -> bool:
        """Whether the version is flexible, so that lengths are varints."""
        return self.version >= FIRST_FLEXIBLE_VERSION

    def answer(self, correlation_id: int, outcome: AppendOutcome) -> bytes:
        """Return the frame of a response without errors."""
        head = _SIZE_AND_CORRELATION_ID.pack(self.size, correlation_id) + self.prefix
        return head + encode_partition_row(self.number, outcome, self.version) + self.suffix

    def build_result(self, outcome: AppendOutcome) -> CompletedTopic:
        """Return the outcome of the request's only partition as the result for its topic."""
        return CompletedTopic(self.topic, [outcome])


class RequestCache:
    """A cache of parsed Produce requests, by the bytes before their records.

    A producer sends many requests that differ only in their records and correlation id. A request need not be parsed if
    the bytes before its records equal those of an earlier request on any connection. Each request is still checked for
    state that can change, which is the topic's existence, the partition's leader and the client's permission.
    """

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._known_requests: dict[bytes, CachedRequest] = {}

    def add(
        self,
        frame: bytes | memoryview,
        cursor: Cursor,
        requested_topics: list[RequestedTopic],
        acks: int,
        version: int,
        session: Session,
    ) -> None:
        """Add a parsed request to the cache, if it has one partition and no bytes follow it."""
        records_position = cursor.blob_at
        if (
            len(requested_topics) > 1
            or len(requested_topics[0].partitions) > 1
            or records_position > MAX_HEAD_BYTES
            or cursor.position != len(frame)
        ):
            return
        session.records_at, key = records_position, _cache_key(frame, records_position)
        known_request = self._known_requests.get(key)
        # The connection's previous request had other bytes before its records.
        if known_request is not None and known_request.topic.topic is requested_topics[0].topic:
            return
        ((partition, _),) = requested_topics[0].partitions
        index, tail = partition.index, bytes(frame[cursor.blob_end :])
        prefix, mark, suffix = split_response(CompletedTopic(requested_topics[0], [_PLACEHOLDER_OUTCOME]), version)
        if cursor.is_flexible:
            prefix = b"\x00" + prefix  # tagged fields of the response header
        size = 4 + len(prefix) + len(mark) + len(suffix)
        if len(self._known_requests) >= MAX_CACHED_REQUESTS:
            self._known_requests.clear()
        bare_request = requested_topics[0]._replace(partitions=[(partition, _NO_RECORDS)])
        self._known_requests[key] = CachedRequest(bare_request, index, acks, version, tail, size, prefix, suffix)

    def append_cached(self, frame: bytes | memoryview, session: Session) -> tuple[CachedRequest, AppendOutcome] | None:
        """Append the records of a cached request. Return None if the request is not cached, or no longer ordinary."""
        records_position, broker = session.records_at, self._broker
        cached_request = self._known_requests.get(_cache_key(frame, records_position))
        if cached_request is None:
            return None
        cursor = Cursor(frame, records_position, is_flexible=cached_request.is_flexible)
        sent_records = produce.read_sent_records(cursor.read_bytes())
        if frame[cursor.position :] != cached_request.tail or not is_supported_batch(
            sent_records, cached_request.version
        ):
            return None
        requested_topic, topic = cached_request.topic, cached_request.topic.topic
        partition = find_led_partition(topic, cached_request.number, session)
        if partition is None or topic is not find_topic(requested_topic, cached_request.version, broker):
            return None
        if not may_write(session, topic, broker):
            return None
        content = ContentBudget(len(frame), opens_apart=True)
        try:
            return cached_request, produce.append_to_partition(
                broker, partition, sent_records, acks=cached_request.acks, content=content
            )
        except ContentNotReadyError:
            return None


def _cache_key(frame: bytes | memoryview, records_position: int) -> bytes:
    """Return the bytes before the records, without the correlation id, which differs in each request."""
    head = bytes(frame[:records_position])
    return head[:4] + head[8:]
