"""Look-ups at partition leaders: offsets by time, log ends, ends of leader epochs, and gaps (KIP-79, KIP-207, KIP-320).

A log can end after its last batch, because compaction can remove every batch of its last segments. A consumer at such
an offset waits for records that do not exist. A response without records does not prove a gap: a broker omits records
if another partition has used the space, or if a tiered store is slow (KIP-405).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.fetch_session import (
    FIRST_TOPIC_ID_VERSION,
    NO_SESSION_EPOCH,
    NO_SESSION_ID,
    FetchFields,
    SessionFields,
    write_partitions,
)
from kafkaframes.client.metadata import Node, TopicPartition, group_by_topic
from kafkaframes.client.response_rows import iterate_partition_rows, require_rows
from kafkaframes.errors import LEADER_MOVED_CODES, BrokerError, to_broker_error
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.wire.primitives import NIL_UUID

LATEST: Final = -1
"""Timestamp that ``list_offsets`` resolves to the end offset of a partition."""
EARLIEST: Final = -2
"""Timestamp that ``list_offsets`` resolves to the log start offset of a partition."""
MAX_TIMESTAMP: Final = -3
"""Timestamp that ``list_offsets`` resolves to the offset of the record with the largest timestamp."""
EARLIEST_LOCAL: Final = -4
"""Timestamp that ``list_offsets`` resolves to the first offset on the leader's own disk (KIP-405)."""
_LIST_OFFSETS_ISOLATION_VERSION, _FETCH_ISOLATION_VERSION = 2, 4  # first versions with transactions (KIP-98)
_OFFSET_LIST_VERSION: Final = 0  # version of ListOffsets with a list of offsets in its response
# First version of ListOffsets with EARLIEST_LOCAL; older brokers have no tiered storage.
_LOCAL_OFFSET_VERSION: Final = 8
_LIST_OFFSETS, _EPOCH_ENDS = 2, 23  # API keys
_EPOCH_END_VERSION: Final = 3  # first version of OffsetForLeaderEpoch that requires only DESCRIBE
_RANGE_CHECK_FETCH_BYTES: Final = 1 << 20  # largest response of the fetch in ``is_range_empty``


class EpochQuery(NamedTuple):
    """A partition of an OffsetForLeaderEpoch request: the current leader epoch, and the epoch to look up."""

    current_epoch: int
    epoch: int


class EpochEnd(NamedTuple):
    """The end of an epoch in a leader's log; -1 for each field if the leader does not know it."""

    epoch: int
    end_offset: int


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time.

    Attributes:
        offset: offset of the record; -1 if no such record exists.
        timestamp_ms: timestamp of the record, in milliseconds since 1970; -1 if unknown.
        leader_epoch: leader epoch of the record; -1 if unknown.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: ClusterClient, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first offset at or after a time, for each partition.

    Args:
        cluster: client of the cluster. Requests to several leaders are sent concurrently.
        timestamps: milliseconds since 1970, or ``LATEST``, ``EARLIEST``, ``MAX_TIMESTAMP``, or ``EARLIEST_LOCAL`` (the
            first offset that is not only in a tiered store).
        read_committed: whether ``LATEST`` is the last stable offset.

    Raises:
        BrokerError: a partition does not exist, may not be read, or has had no leader for too long.
    """
    result: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def look_up_once() -> None:
        missing = [entry for entry in timestamps if entry not in result]
        for partition in missing:
            await cluster.find_leader(partition)
        groups = {leader: group for leader, group in cluster.cluster.group_by_leader(missing) if leader is not None}
        requests = [
            _send_list_offsets(cluster, leader, {entry: timestamps[entry] for entry in group}, read_committed)
            for leader, group in groups.items()
        ]
        errors = []
        all_answers = [await requests[0]] if len(requests) == 1 else await asyncio.gather(*requests)
        require_rows(
            [entry for group in groups.values() for entry in group],
            {partition for answers in all_answers for partition in answers},
            "offsets",
        )
        for answers in all_answers:
            for partition, answer in answers.items():
                if isinstance(answer, OffsetAndTimestamp):
                    result[partition] = answer
                else:
                    if answer in LEADER_MOVED_CODES:
                        cluster.cluster.expire(partition.topic)
                    errors.append(to_broker_error(answer, f"offsets of {partition}"))
        if errors:
            raise errors[0]

    if timestamps:
        await cluster.retry_step(look_up_once)
    return {entry: result[entry] for entry in timestamps}


async def list_offsets_at_leader(
    cluster: ClusterClient, leader: Node, timestamps: Mapping[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | BrokerError]:
    """Send one ListOffsets request to a leader, and return each partition's offset or the leader's error.

    Raises:
        NetworkError, BrokerError: raised by ``Connection.request``.
    """
    answers = await _send_list_offsets(cluster, leader, timestamps, read_committed)
    return {
        entry: to_broker_error(answer, f"offsets of {entry}") if isinstance(answer, int) else answer
        for entry, answer in answers.items()
    }


async def fetch_epoch_ends(
    cluster: ClusterClient, leader: Node, queries: Mapping[TopicPartition, EpochQuery]
) -> dict[TopicPartition, EpochEnd | Exception | None]:
    """Request the end offsets of leader epochs from a leader (KIP-320).

    Return None for all partitions if the leader does not support version 3 of OffsetForLeaderEpoch.

    Raises:
        NetworkError, BrokerError: raised by ``Connection.request``.
    """
    connection = await cluster.get_connection(leader)
    if connection.ranges.get(_EPOCH_ENDS, Versions.NONE).highest < _EPOCH_END_VERSION:
        return dict.fromkeys(queries)
    cls = cluster.settings.message_class("OffsetForLeaderEpochRequest")
    topics = group_by_topic(
        queries,
        lambda entry: cls.OffsetForLeaderPartition(
            partition=entry.partition,
            current_leader_epoch=queries[entry].current_epoch,
            leader_epoch=queries[entry].epoch,
        ),
    )
    body = cls(
        replica_id=-1, topics=[cls.OffsetForLeaderTopic(topic=name, partitions=rows) for name, rows in topics.items()]
    )
    response = await connection.request(body, version=connection.select_version(body, min_version=_EPOCH_END_VERSION))
    results: dict[TopicPartition, EpochEnd | Exception | None] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.topic, entry.partition)
            results[partition] = (
                to_broker_error(entry.error_code, f"the end of an epoch of {partition}")
                if entry.error_code
                else EpochEnd(entry.leader_epoch, entry.end_offset)
            )
    return results


async def _send_list_offsets(
    cluster: ClusterClient, leader: Node, timestamps: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | int]:
    """Send one ListOffsets request to a leader, and return each partition's offset or error code."""
    connection = await cluster.get_connection(leader)
    cls = cluster.settings.message_class("ListOffsetsRequest")
    body = cls(replica_id=-1)
    min_version = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}.get(min(timestamps.values()), 0)
    version = connection.select_version(body, min_version=min_version)
    # Brokers before 0.11 have no transactions, so all their records are committed.
    body.isolation_level = int(read_committed and version >= _LIST_OFFSETS_ISOLATION_VERSION)
    old_fields = {"max_num_offsets": 1} if version == _OFFSET_LIST_VERSION else {}
    topics = group_by_topic(
        timestamps,
        lambda entry: cls.ListOffsetsPartition(
            partition_index=entry.partition, timestamp=timestamps[entry], **old_fields
        ),
    )
    body.topics = [cls.ListOffsetsTopic(name=name, partitions=rows) for name, rows in topics.items()]
    response = await connection.request(body, version=version)
    return {partition: _to_offset(entry, version) for partition, entry in iterate_partition_rows(response.topics)}


def _to_offset(entry: Any, version: int) -> OffsetAndTimestamp | int:
    """Return a partition's offset in a ListOffsets response, or its error code."""
    if entry.error_code:
        return int(entry.error_code)
    if version == _OFFSET_LIST_VERSION:
        return OffsetAndTimestamp(entry.old_style_offsets[0] if entry.old_style_offsets else -1, -1, -1)
    return OffsetAndTimestamp(entry.offset, entry.timestamp, entry.leader_epoch)


async def list_boundary_offsets(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], timestamp: int, *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Return the earliest or the latest offset of each partition."""
    result = await list_offsets(cluster, dict.fromkeys(partitions, timestamp), read_committed=read_committed)
    return {partition: entry.offset for partition, entry in result.items()}


async def is_range_empty(
    cluster: ClusterClient, partition: TopicPartition, first: int, end: int, *, read_committed: bool = False
) -> bool:
    """Return whether a log certainly has no batch with offsets from ``first`` (inclusive) to ``end`` (exclusive).

    The request has only this partition, so the leader must return a batch if the log has one. If the offsets may be in
    a tiered store, whose records may arrive later, the result is False.

    Args:
        cluster: client of the cluster.
        partition: partition to check.
        first, end: range of offsets; the end is exclusive.
        read_committed: whether ``end`` is a last stable offset, not a high watermark.

    Raises:
        BrokerError: the leader rejects the request, or the partition has no leader.
        NetworkError: the leader cannot be reached.
    """
    leader = await cluster.find_leader(partition)
    connection = await cluster.get_connection(leader)
    if connection.ranges.get(_LIST_OFFSETS, Versions.NONE).highest >= _LOCAL_OFFSET_VERSION:
        local = await list_boundary_offsets(cluster, [partition], EARLIEST_LOCAL)
        if local[partition] > first:
            return False
    cls = cluster.settings.message_class("FetchRequest")
    body = cls(max_wait_ms=0, min_bytes=0, max_bytes=_RANGE_CHECK_FETCH_BYTES, isolation_level=int(read_committed))
    topic_id = cluster.cluster.topic_id(partition.topic)
    version = connection.select_version(body, max_version=FIRST_TOPIC_ID_VERSION - 1 if topic_id == NIL_UUID else None)
    partition_fields = {partition: FetchFields(first, _RANGE_CHECK_FETCH_BYTES, -1, topic_id)}
    write_partitions(body, SessionFields(NO_SESSION_ID, NO_SESSION_EPOCH, [partition], {}), partition_fields, version)
    response = await connection.request(body, version=version)
    answers = [entry for topic in response.responses for entry in topic.partitions]
    number = response.error_code or (answers[0].error_code if answers else 0)
    if number:
        raise to_broker_error(number, f"fetch of {partition}")
    if len(answers) != 1 or answers[0].records:  # the response of a throttling broker has no partition
        return False
    has_stable_offset = read_committed and version >= _FETCH_ISOLATION_VERSION
    log_end: int = answers[0].last_stable_offset if has_stable_offset else answers[0].high_watermark
    return log_end >= end
