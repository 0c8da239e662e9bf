"""Looks up topics: names, partitions, ids and offsets, without groups and records.

Consumers inherit them. A program that only plans reads, such as a planner process of Spark, uses ``TopicLookupClient``,
which imports neither decoders nor group protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kafkaframes.client import offsets
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.loop import LoopThread
from kafkaframes.client.metadata import (
    PartitionLike,
    PartitionMapping,
    TopicPartition,
    to_partition_mapping,
    to_partitions,
)
from kafkaframes.client.offsets import EARLIEST, LATEST, OffsetAndTimestamp
from kafkaframes.client.settings import ConsumerSettings, merge_options
from kafkaframes.client.sync_methods import SyncClient, sync_method


class AsyncTopicLookupClient:
    """Looks topics up in one cluster.

    Args:
        settings: consumer settings with the bootstrap servers. The isolation level determines the end offset of a
            partition.
    """

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self._cluster = ClusterClient(settings)

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    async def partitions_for(self, *topics: str) -> list[TopicPartition]:
        """List the partitions of topics, topic by topic.

        Args:
            topics: topic names.

        Raises:
            BrokerError: a topic does not exist or may not be described.
        """
        partitions: list[TopicPartition] = []
        for topic in topics:
            await self._cluster.ensure_topic(topic)
            # The partitions are read here, because the next look-up may remove the cached metadata.
            partitions += self._cluster.cluster.partitions_of(topic)
        return partitions

    async def topics(self) -> list[str]:
        """List the topics that this client may describe, without internal topics."""
        await self._cluster.retry_step(self._cluster.refresh_metadata)
        return sorted(entry.name for entry in self._cluster.cluster.topics.values() if not entry.is_internal)

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, UUID]:
        """Return the current ids of topics (KIP-516).

        Args:
            topics: topic names.

        Returns:
            The id of each topic that exists and has one; brokers have topic ids since Kafka 2.8.
        """
        names = frozenset(topics)
        await self._cluster.retry_step(lambda: self._cluster.refresh_metadata(names))
        id_by_name = ((name, self._cluster.cluster.topic_id(name)) for name in sorted(names))
        return {name: topic_id for name, topic_id in id_by_name if topic_id.int}

    async def current_topic_id(self, topic: str) -> UUID:
        """Return the id of a topic (KIP-516). A broker is asked only if the client does not know the id.

        Fetch requests with topic ids (Kafka 3.1 and later) fail if the topic was recreated, and the client then
        requests the new id. An id that is the same before and after a fetch is the id of the fetched records' topic.

        Args:
            topic: topic name.

        Returns:
            The topic id, or the nil UUID if brokers have no topic ids (before Kafka 2.8).
        """
        if not (topic_id := self._cluster.cluster.topic_id(topic)).int:
            topic_id = (await self.topic_ids([topic])).get(topic, topic_id)
        return topic_id

    async def offsets_for_times(self, times_ms: PartitionMapping[int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the first record at or after a time, for each partition.

        Args:
            times_ms: for each partition, a time in milliseconds since 1970.

        Returns:
            Offset, timestamp and leader epoch of the record; the offset is -1 if no such record exists.

        Raises:
            BrokerError: a partition does not exist or may not be read.
        """
        return await offsets.list_offsets(self._cluster, to_partition_mapping(times_ms))

    async def beginning_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition.

        Args:
            partitions: partitions of any topics, whether assigned or not.

        Raises:
            BrokerError: a partition does not exist or may not be read.
        """
        return await offsets.list_boundary_offsets(self._cluster, to_partitions(partitions), EARLIEST)

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark, or with read_committed the last stable offset.

        Args:
            partitions: partitions of any topics, whether assigned or not.

        Raises:
            BrokerError: a partition does not exist or may not be read.
        """
        partition_list, read_committed = to_partitions(partitions), self.settings.reads_committed
        return await offsets.list_boundary_offsets(self._cluster, partition_list, LATEST, read_committed=read_committed)


class TopicLookupClient(SyncClient):
    """Looks topics up in one cluster; see ``AsyncTopicLookupClient``."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        """Connect when the first method is called.

        Args:
            properties: settings of a consumer, under Kafka's names.
        """
        self._twin = AsyncTopicLookupClient(ConsumerSettings.from_options(merge_options(None, properties)))
        self._loop = LoopThread(self._name, closing=self._twin.close)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._loop.end_loop(self._twin.close)

    partitions_for = sync_method(AsyncTopicLookupClient.partitions_for)
    topics = sync_method(AsyncTopicLookupClient.topics)
    topic_ids = sync_method(AsyncTopicLookupClient.topic_ids)
    offsets_for_times = sync_method(AsyncTopicLookupClient.offsets_for_times)
    beginning_offsets = sync_method(AsyncTopicLookupClient.beginning_offsets)
    end_offsets = sync_method(AsyncTopicLookupClient.end_offsets)
