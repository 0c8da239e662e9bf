"""Look-ups of offsets at the leaders: by time, the log's ends, and the epochs of leaders (KIP-79, KIP-207, KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.errors import LEADER_MOVED, broker_error

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
_OLD: Final = 0  # the version that answers with a list of offsets


class OffsetAndTimestamp(NamedTuple):
    """An answer: ``offset`` is -1 where there is none; the others are -1 where the broker does not tell."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return for each partition the first offset whose record has the given time or a later one.

    Args:
        cluster: whom to ask; leaders are asked side by side.
        wanted: milliseconds since 1970, or ``LATEST``, ``EARLIEST``, ``MAX_TIMESTAMP``, ``EARLIEST_LOCAL`` (the
            first that is not only in a tiered store).
        read_committed: whether the latest is the last stable offset.

    Raises:
        BrokerError: a partition does not exist, may not be read, or nobody leads it for too long.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}

    async def step() -> None:
        missing = [one for one in wanted if one not in found]
        for partition in missing:
            await cluster.leader_of(partition)
        asks = [
            _ask(cluster, leader, {one: wanted[one] for one in partitions}, read_committed)
            for leader, partitions in cluster.cluster.by_leader(missing)
            if leader is not None
        ]
        errors = []
        for answers in await asyncio.gather(*asks):
            for partition, answer in answers.items():
                if isinstance(answer, OffsetAndTimestamp):
                    found[partition] = answer
                else:
                    if answer in LEADER_MOVED:
                        cluster.cluster.topics.pop(partition.topic, None)
                    errors.append(broker_error(answer, f"offsets of {partition}"))
        if errors:
            raise errors[0]

    if wanted:
        await cluster.retried(step)
    return {one: found[one] for one in wanted}


async def _ask(
    cluster: ClusterClient, leader: Broker, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, OffsetAndTimestamp | int]:
    """Ask one leader; an int is an error code."""
    connection = await cluster.connection(leader)
    cls = cluster.settings.message("ListOffsetsRequest")
    body = cls(replica_id=-1, isolation_level=int(read_committed))
    least = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}.get(min(wanted.values()), 0)
    at = connection.version_of(body, least=least)
    topics: dict[str, list[Any]] = {}
    for partition, timestamp in wanted.items():
        one = cls.ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
        if at == _OLD:
            one.max_num_offsets = 1
        topics.setdefault(partition.topic, []).append(one)
    body.topics = [cls.ListOffsetsTopic(name=name, partitions=all_) for name, all_ in topics.items()]
    response = await connection.request(body, version=at)
    return {
        TopicPartition(topic.name, one.partition_index): _answer(one, at)
        for topic in response.topics
        for one in topic.partitions
    }


def _answer(one: Any, version: int) -> OffsetAndTimestamp | int:
    if one.error_code:
        return int(one.error_code)
    if version == _OLD:
        return OffsetAndTimestamp(one.old_style_offsets[0] if one.old_style_offsets else -1, -1, -1)
    return OffsetAndTimestamp(one.offset, one.timestamp, one.leader_epoch)


async def ends(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], which: int, *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """Return the earliest or the latest offset of each partition."""
    found = await list_offsets(cluster, dict.fromkeys(partitions, which), read_committed=read_committed)
    return {partition: one.offset for partition, one in found.items()}
