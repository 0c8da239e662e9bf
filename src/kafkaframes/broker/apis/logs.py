"""Handlers that query partition logs and delete records: ListOffsets, OffsetForLeaderEpoch, DeleteRecords,
DescribeProducers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.state.changes import ROWS_PER_TURN, Steps, finish_steps
from kafkaframes.broker.state.partitions import (
    NO_EPOCH,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TopicLookup,
    find_led_partition,
    find_topic,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.store_reads import run_when_read
from kafkaframes.broker.state.topics import Partition, Topic
from kafkaframes.errors import ErrorCode, KafkaframesError, to_error_code
from kafkaframes.protocol.messages import Message
from kafkaframes.storage.files.names import is_topic_name
from kafkaframes.storage.log.lookup import NO_OFFSET
from kafkaframes.storage.partition.fetch import EARLIEST, LATEST, MAX_TIMESTAMP

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ListOffsets: TypeAlias = TypedRequest[kafka.ListOffsetsRequest, kafka.ListOffsetsResponse]
    _OffsetForLeaderEpoch: TypeAlias = TypedRequest[
        kafka.OffsetForLeaderEpochRequest, kafka.OffsetForLeaderEpochResponse
    ]
    _DeleteRecords: TypeAlias = TypedRequest[kafka.DeleteRecordsRequest, kafka.DeleteRecordsResponse]
    _DescribeProducers: TypeAlias = TypedRequest[kafka.DescribeProducersRequest, kafka.DescribeProducersResponse]

EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
_FIRST_VERSION_BY_SPECIAL_TIMESTAMP = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_FIRST_VERSION_WITH_EPOCH = 4


@Api(
    name="ListOffsets",
    tier="T0",
    behaviour="Looks up offsets by timestamp, and all special offsets. A timestamp after the last record "
    "gives offset -1 without an error.",
    notes={
        "v0": "returns base offsets of segments, latest first, up to max_num_offsets",
        "v2+": "read_committed ends at the last stable offset",
        "v4+": "leader epochs are checked and returned",
        "v7+": "-3 is the largest timestamp (KIP-734)",
        "v8+": "-4 is the earliest local offset, here the log start offset",
        "v9+": "-5 is the latest tiered offset",
        "v11+": "-6 is the earliest pending upload",
    },
    gaps=("tiered storage is not supported: -5 and -6 return offset -1",),
    rights=(RequiredPermission("DESCRIBE", "TOPIC", each="each topic"),),
)
def _list_offsets(request: _ListOffsets, broker: BrokerState) -> Answer:
    if broker.store is not None:
        return run_when_read(broker, lambda: finish_steps(_look_up_in_steps(request, broker)))
    return broker.changes.run_concurrently(_look_up_in_steps(request, broker))


def _look_up_in_steps(request: _ListOffsets, broker: BrokerState) -> Steps[Answer]:
    """Look up the requested offsets, and return the response."""
    if request.body.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refuse_offsets(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    times = Counter((topic.name, row.partition_index) for topic in request.body.topics for row in topic.partitions)
    rows: dict[str, dict[int, Any]] = {}  # as in Kafka, topics without partitions are omitted from the response
    row_count = 0
    for topic in request.body.topics:
        if not topic.partitions:
            continue
        lookup = find_topic(request, broker, topic.name)
        rows_of_topic = rows.setdefault(topic.name, {})
        for row in topic.partitions:
            is_repeated = times[topic.name, row.partition_index] > 1
            rows_of_topic[row.partition_index] = _answer_partition(
                request, broker, lookup, row, is_repeated=is_repeated
            )
            row_count += 1
            if row_count % ROWS_PER_TURN == 0:
                yield
                lookup = find_topic(request, broker, topic.name)  # the topic may have been deleted in the meantime
    topic_type = request.response.ListOffsetsTopicResponse
    return request.response(
        topics=[topic_type(name=name, partitions=list(topic_rows.values())) for name, topic_rows in rows.items()]
    )


def _answer_partition(
    request: _ListOffsets,
    broker: BrokerState,
    lookup: TopicLookup,
    row: kafka.ListOffsetsRequest.ListOffsetsPartition,
    *,
    is_repeated: bool,
) -> kafka.ListOffsetsResponse.ListOffsetsPartitionResponse:
    """Return the response row for a partition of a ListOffsets request."""
    partition, code = None, lookup.code
    if is_repeated and code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        code = ErrorCode.INVALID_REQUEST
    elif not _is_supported_timestamp(row.timestamp, request.version):
        code = ErrorCode.UNSUPPORTED_VERSION
    elif lookup.topic is not None:
        epoch = row.current_leader_epoch
        partition, code = find_led_partition(request, lookup.topic, row.partition_index, current_leader_epoch=epoch)
    return _build_offset_row(request, row, partition, code, broker.clock.now_ms)


def _refuse_offsets(request: _ListOffsets, code: int) -> Message:
    """Return a response with the same error for each partition."""
    types = request.response
    rows = [
        types.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                types.ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in request.body.topics
    ]
    return request.response(topics=rows)


def _is_supported_timestamp(timestamp: int, version: int) -> bool:
    """Return whether a timestamp is nonnegative or a special value that the version supports."""
    return timestamp >= 0 or version >= _FIRST_VERSION_BY_SPECIAL_TIMESTAMP.get(timestamp, version + 1)


def _build_offset_row(
    request: _ListOffsets,
    request_row: kafka.ListOffsetsRequest.ListOffsetsPartition,
    partition: Partition | None,
    code: int,
    now_ms: int,
) -> kafka.ListOffsetsResponse.ListOffsetsPartitionResponse:
    row = request.response.ListOffsetsPartitionResponse(partition_index=request_row.partition_index, error_code=code)
    if partition is None:
        return row
    try:
        if request.version == 0:
            row.old_style_offsets = _list_segment_offsets(
                partition, request_row.timestamp, request_row.max_num_offsets, now_ms
            )
        else:
            _look_up_offset(request, row, partition, request_row.timestamp)
            if request.version < _FIRST_VERSION_WITH_EPOCH:
                row.leader_epoch = NO_EPOCH
    except KafkaframesError as error:
        row.error_code = to_error_code(error)
    return row


def _look_up_offset(
    request: _ListOffsets,
    row: kafka.ListOffsetsResponse.ListOffsetsPartitionResponse,
    partition: Partition,
    timestamp: int,
) -> None:
    """Fill a response row with the offset, timestamp and epoch for a timestamp in a partition."""
    log = partition.log
    if timestamp == LATEST:
        is_committed = request.body.isolation_level == READ_COMMITTED
        row.offset = log.last_stable_offset if is_committed else log.high_watermark
        row.leader_epoch = partition.leader_epoch
    elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        row.offset, row.leader_epoch = NO_OFFSET, NO_EPOCH
    else:
        time = EARLIEST if timestamp == EARLIEST_LOCAL else timestamp
        record = log.find_offset_for_timestamp(time)
        if record is None or record.offset >= _find_result_end_offset(request, partition):
            return
        row.offset, row.timestamp = record.offset, record.timestamp
        row.leader_epoch = record.leader_epoch if log.epochs.entries else partition.leader_epoch
        if time >= 0 or time == MAX_TIMESTAMP:
            row.leader_epoch = log.epochs.find_epoch(record.offset)


def _find_result_end_offset(request: _ListOffsets, partition: Partition) -> int:
    """Return the exclusive upper bound for offsets found by timestamp, which is at least log start offset + 1."""
    log = partition.log
    if request.body.isolation_level == READ_COMMITTED:
        return max(log.last_stable_offset, log.log_start_offset + 1)
    return max(log.high_watermark, log.log_start_offset + 1)


def _list_segment_offsets(partition: Partition, timestamp: int, max_offsets: int, now_ms: int) -> list[int]:
    """Return segment base offsets, latest first, like brokers before 0.10.1 (UnifiedLog.legacyFetchOffsetsBefore).

    If the last segment has records, the log end offset is included, with the current time.
    """
    log = partition.log
    starts = [(max(base, log.log_start_offset), modified_ms) for base, modified_ms in log.segment_times()]
    if log.log_end_offset > starts[-1][0]:
        starts.append((log.log_end_offset, now_ms))
    if timestamp == EARLIEST:
        starts = starts[:1]
    elif timestamp != LATEST:
        starts = [start for start in starts if start[1] <= timestamp]
    offsets = [min(offset, log.high_watermark) for offset, _ in reversed(starts)]
    return list(dict.fromkeys(sorted(offsets, reverse=True)))[: max(max_offsets, 0)]


@Api(
    name="OffsetForLeaderEpoch",
    tier="T2",
    behaviour="Returns the largest epoch up to that of the request, and its end offset, from the log's own "
    "epochs; -1 and -1 if it is unknown.",
    notes={"v2+": "the client's leader epoch is checked"},
    rights=(RequiredPermission("DESCRIBE", "TOPIC", each="each topic", or_cluster="CLUSTER_ACTION"),),
)
def _handle_offset_for_leader_epoch(request: _OffsetForLeaderEpoch, broker: BrokerState) -> Answer:
    topics = []
    for topic in request.body.topics:
        lookup = find_topic(request, broker, topic.topic)
        rows = [_build_epoch_row(request, lookup.topic, lookup.code, row) for row in topic.partitions]
        topics.append(request.response.OffsetForLeaderTopicResult(topic=topic.topic, partitions=rows))
    return request.response(topics=topics)


def _build_epoch_row(
    request: _OffsetForLeaderEpoch,
    topic: Topic | None,
    code: int,
    request_row: kafka.OffsetForLeaderEpochRequest.OffsetForLeaderPartition,
) -> kafka.OffsetForLeaderEpochResponse.EpochEndOffset:
    partition = None
    if topic is not None:
        partition, code = find_led_partition(
            request, topic, request_row.partition, current_leader_epoch=request_row.current_leader_epoch
        )
    row = request.response.EpochEndOffset(error_code=code, partition=request_row.partition)
    if partition is not None:
        end = partition.find_epoch_end_offset(request_row.leader_epoch)
        row.error_code, row.leader_epoch, row.end_offset = ErrorCode.NONE, end.leader_epoch, end.end_offset
    return row


@Api(
    name="DeleteRecords",
    tier="T3",
    behaviour="Raises the log start offset permanently; -1 is the high watermark. A topic that is only "
    "compacted is rejected, as in Kafka.",
    rights=(RequiredPermission("DELETE", "TOPIC", each="each topic"),),
)
def _delete_records(request: _DeleteRecords, broker: BrokerState) -> Answer:
    return broker.changes.run(_delete_records_in_steps(request, broker))


def _delete_records_in_steps(request: _DeleteRecords, broker: BrokerState) -> Steps[Answer]:
    by_topic: dict[str, dict[int, kafka.DeleteRecordsRequest.DeleteRecordsPartition]] = {}
    topics, row_count = [], 0
    for topic in request.body.topics:  # if a partition is repeated, the last entry is used
        by_topic.setdefault(topic.name, {}).update({row.partition_index: row for row in topic.partitions})
    for name, partitions in by_topic.items():
        if not partitions:
            continue  # as in Kafka, a topic without partitions is omitted from the response
        lookup, rows = find_topic(request, broker, name), []
        for row in partitions.values():
            rows.append(_delete_partition_records(request, broker, lookup.topic, lookup.code, row))
            row_count += 1
            if row_count % ROWS_PER_TURN == 0:
                yield
        topics.append(request.response.DeleteRecordsTopicResult(name=name, partitions=rows))
    broker.logs.checkpoint_start_offsets()
    return request.response(topics=topics)


def _delete_partition_records(
    request: _DeleteRecords,
    broker: BrokerState,
    topic: Topic | None,
    code: int,
    request_row: kafka.DeleteRecordsRequest.DeleteRecordsPartition,
) -> kafka.DeleteRecordsResponse.DeleteRecordsPartitionResult:
    """Delete the records of a partition below an offset, and return the response row."""
    low, partition = -1, None
    if topic is not None:
        partition, code = find_led_partition(request, topic, request_row.partition_index)
    if partition is not None and topic is not None and topic.is_internal:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition is not None:
        code, low = _delete_log_records(broker, partition.log, request_row.offset)
        partition.notify()
    return request.response.DeleteRecordsPartitionResult(
        partition_index=request_row.partition_index, low_watermark=low, error_code=code
    )


def _delete_log_records(broker: BrokerState, log: Any, offset: int) -> tuple[int, int]:
    """Delete a log's records below an offset, and return the error code and the new log start offset."""
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION, -1
    if "delete" not in log.settings.policies:
        return ErrorCode.POLICY_VIOLATION, -1
    try:
        return ErrorCode.NONE, log.delete_records(offset)
    except KafkaframesError as error:
        return to_error_code(error), -1


@Api(
    name="DescribeProducers",
    tier="T2",
    behaviour="Returns id, epoch, last sequence and open transaction of each producer, from the log.",
    rights=(RequiredPermission("READ", "TOPIC", each="each topic"),),
)
def _describe_producers(request: _DescribeProducers, broker: BrokerState) -> Answer:
    def build_topic_row(
        topic: kafka.DescribeProducersRequest.TopicRequest,
    ) -> kafka.DescribeProducersResponse.TopicResponse:
        lookup = find_topic(request, broker, topic.name)
        code = lookup.code
        if lookup.topic is None and not is_topic_name(topic.name):
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
        rows = [_build_producers_row(request, lookup.topic, code, index) for index in topic.partition_indexes]
        return request.response.TopicResponse(name=topic.name, partitions=rows)

    return broker.changes.answer_rows(request.body.topics, build_topic_row, lambda rows: request.response(topics=rows))


def _build_producers_row(
    request: _DescribeProducers, topic: Topic | None, code: int, index: int
) -> kafka.DescribeProducersResponse.PartitionResponse:
    types = request.response
    partition = None
    if topic is not None:
        partition = topic.partition(index)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.NONE
    # Followers answer, too, because they have a replica of the log.
    if partition is not None and request.session.node_id not in partition.replicas:
        partition, code = None, ErrorCode.NOT_LEADER_OR_FOLLOWER
    row = types.PartitionResponse(partition_index=index, error_code=code)
    if partition is not None:
        row.error_code = ErrorCode.NONE
        row.active_producers = [
            types.ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_first_offset,
            )
            for producer in partition.log.producers.entries()
        ]
    return row
