"""A client's metadata of a cluster: brokers, topics and partition leaders, updated from responses without I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from uuid import UUID

from kafkaframes.errors import ErrorCode, OptionError
from kafkaframes.storage.files.names import TopicPartition, group_by_topic
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

__all__ = [
    "Cluster",
    "Node",
    "PartitionLike",
    "PartitionMapping",
    "PartitionMetadata",
    "TopicMetadata",
    "TopicPartition",
    "group_by_topic",
    "list_partitions_with_leader",
    "to_partition",
    "to_partition_mapping",
    "to_partitions",
]

Value = TypeVar("Value")
PartitionLike = TopicPartition | tuple[str, int]  # a partition, as the clients' methods accept it
PartitionMapping = Mapping[TopicPartition, Value] | Mapping[tuple[str, int], Value]  # Mapping is invariant in its keys


def to_partition(partition: object) -> TopicPartition:
    """Return the partition that a caller of a client specifies.

    Raises:
        OptionError: the value is neither a ``TopicPartition`` nor a pair of a topic name and a partition number.
    """
    if isinstance(partition, TopicPartition):
        return partition
    match partition:
        case (str(topic), int(number)) if not isinstance(number, bool):
            return TopicPartition(topic, number)
    raise OptionError(f"{partition!r} is not a partition; use TopicPartition(topic, number) or (topic, number)")


def to_partitions(partitions: Iterable[object]) -> list[TopicPartition]:
    """Return the partitions that a caller of a client specifies.

    Raises:
        OptionError: a value is not a partition, or a single partition is passed instead of a list.
    """
    if isinstance(partitions, (str, TopicPartition)) or not isinstance(partitions, Iterable):
        raise OptionError(f"{partitions!r} is not a list of partitions; use [TopicPartition(topic, number), ...]")
    return [to_partition(entry) for entry in partitions]


def to_partition_mapping(values: PartitionMapping[Value]) -> dict[TopicPartition, Value]:
    """Return the values that a caller of a client specifies, by partition.

    Raises:
        OptionError: a key is not a partition, or the values are not a mapping.
    """
    if not isinstance(values, Mapping):
        raise OptionError(f"{values!r} is not a dict of partitions; use {{TopicPartition(topic, number): value}}")
    return {to_partition(entry): value for entry, value in values.items()}


class Node(NamedTuple):
    """The address of a broker.

    Attributes:
        node_id: node id of the broker.
        host: host name or address.
        port: port number.
        rack: rack of the broker; None if it has none.
    """

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The metadata of a partition.

    Attributes:
        index: partition number.
        leader: node id of the leader; -1 if the partition has no leader.
        leader_epoch: epoch of the leader; -1 if unknown.
        replicas: node ids of all replicas, the preferred leader first.
        isr: node ids of the in-sync replicas.
        error: Kafka's error code for the partition.
    """

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: ErrorCode


OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of a topic.

    Attributes:
        name: topic name.
        topic_id: id of the topic (KIP-516); the nil UUID before Kafka 2.8.
        is_internal: whether the topic is internal, such as ``__consumer_offsets``.
        partitions: partitions by number.
        error: Kafka's error code for the topic.
    """

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    error: ErrorCode


def list_partitions_with_leader(topic: TopicMetadata) -> list[int]:
    """Return the numbers of the partitions that have a leader, sorted."""
    return [number for number in sorted(topic.partitions) if topic.partitions[number].leader >= 0]


class TopicUpdate(NamedTuple):
    """A topic of a Metadata response, and the cached metadata with which it was compared."""

    topic: TopicMetadata
    previous: TopicMetadata | None


@dataclass(slots=True)
class Cluster:
    """The metadata of a cluster, as brokers last reported it.

    Attributes:
        cluster_id: id of the cluster; None before Kafka 0.10.1.
        controller: node id of the controller; -1 if unknown.
        brokers: brokers by node id.
        topics: topics by name.
        updated_at: time of the last response, in seconds of a monotonic clock; None before the first response.
        expired_topics: names of topics with outdated metadata. The partitions of these topics have no leaders until the
            metadata is refreshed.
        refreshed_at: time of the last response with each topic, in seconds of a monotonic clock.
    """

    cluster_id: str | None = None
    controller: int = -1
    brokers: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    updated_at: float | None = None  # seconds of the caller's clock
    expired_topics: set[str] = field(default_factory=set)
    refreshed_at: dict[str, float] = field(default_factory=dict)

    def read_topics(
        self, response: kafka.MetadataResponse, requested_topics: Collection[str] | None = None
    ) -> list[TopicUpdate]:
        """Read the topics of a Metadata response for ``update`` without changing the metadata.

        Any thread may call this method.

        Args:
            response: body of the response.
            requested_topics: names of the requested topics, as for ``update``.
        """
        return [
            self._keep_newer_partitions(_to_topic_metadata(topic))
            for topic in response.topics
            if topic.name is not None and (requested_topics is None or topic.name in requested_topics)
        ]

    def _keep_newer_partitions(self, new_topic: TopicMetadata) -> TopicUpdate:
        """Keep cached partitions that have a newer leader epoch than those in the response (KIP-320)."""
        cached_topic = self.topics.get(new_topic.name)
        if cached_topic is not None and cached_topic.topic_id == new_topic.topic_id:
            for index, cached_partition in cached_topic.partitions.items():
                new_partition = new_topic.partitions.get(index)
                if new_partition is not None and 0 <= new_partition.leader_epoch < cached_partition.leader_epoch:
                    new_topic.partitions[index] = cached_partition
        return TopicUpdate(new_topic, cached_topic)

    def update(
        self,
        response: kafka.MetadataResponse,
        *,
        now: float,
        has_all_topics: bool,
        requested_topics: Collection[str] | None = None,
        topics: Iterable[TopicUpdate] | None = None,
    ) -> None:
        """Update the metadata from a Metadata response.

        Args:
            response: body of the response.
            now: current time, in seconds of the caller's clock.
            has_all_topics: whether all topics were requested; topics that are not in the response are then removed.
            requested_topics: names of the requested topics. Other topics are ignored, because a faulty or hostile
                server could send any number of topics. None accepts all topics.
            topics: result of ``read_topics``; None to read the topics now.
        """
        self.brokers = {
            entry.node_id: Node(entry.node_id, entry.host, entry.port, entry.rack) for entry in response.brokers
        }
        self.cluster_id = response.cluster_id
        self.controller = response.controller_id
        if has_all_topics:
            listed_names = {topic.name for topic in response.topics}
            self.topics = {name: topic for name, topic in self.topics.items() if name in listed_names}
            self.expired_topics.clear()
        for entry in self.read_topics(response, requested_topics) if topics is None else topics:
            name = entry.topic.name
            is_current = entry.previous is self.topics.get(name)
            self.topics[name] = entry.topic if is_current else self._keep_newer_partitions(entry.topic).topic
            self.expired_topics.discard(name)
            self.refreshed_at[name] = now
        self.updated_at = now

    def expire(self, topic: str) -> None:
        """Mark the metadata of a topic as outdated.

        Args:
            topic: topic name.
        """
        self.expired_topics.add(topic)

    def mark_unreachable(self, node_id: int) -> None:
        """Expire the metadata that names an unreachable broker as controller or leader.

        The next request that needs the controller or such a leader refreshes the metadata first.

        Args:
            node_id: node id of the broker.
        """
        if node_id == self.controller:
            self.updated_at = None
        self.expired_topics.update(
            name
            for name, topic in self.topics.items()
            if any(partition.leader == node_id for partition in topic.partitions.values())
        )

    def leader(self, partition: TopicPartition) -> Node | None:
        """Return the leader of a partition; None if it is unknown.

        Args:
            partition: any partition.
        """
        result = None if partition.topic in self.expired_topics else self.partition(partition)
        return None if result is None else self.brokers.get(result.leader)

    def partition(self, partition: TopicPartition) -> PartitionMetadata | None:
        """Return the metadata of a partition; None if it is unknown.

        Args:
            partition: any partition.
        """
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)

    def topic_id(self, topic: str) -> UUID:
        """Return the id of a topic; the nil UUID if it is unknown.

        Args:
            topic: topic name.
        """
        result = None if topic in self.expired_topics else self.topics.get(topic)
        return NIL_UUID if result is None else result.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of a topic; None if it is unknown.

        Args:
            topic_id: id of the topic.
        """
        return next((entry.name for entry in self.topics.values() if entry.topic_id == topic_id), None)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic in order; an empty list if they are unknown.

        Args:
            topic: topic name.
        """
        result = self.topics.get(topic)
        return [] if result is None else [TopicPartition(topic, index) for index in sorted(result.partitions)]

    def group_by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> Iterator[tuple[Node | None, list[TopicPartition]]]:
        """Group partitions by their leaders. The leader is None for partitions with an unknown leader.

        Args:
            partitions: partitions to group.
        """
        groups: dict[Node | None, list[TopicPartition]] = {}
        for partition in partitions:
            groups.setdefault(self.leader(partition), []).append(partition)
        yield from groups.items()


_NO_ERROR: Final = ErrorCode.NONE  # the attribute lookup takes a third of the time of reading a partition


def _to_topic_metadata(topic: Any) -> TopicMetadata:
    partitions = {
        entry.partition_index: PartitionMetadata(
            entry.partition_index,
            entry.leader_id,
            entry.leader_epoch,
            tuple(entry.replica_nodes),
            tuple(entry.isr_nodes),
            _NO_ERROR if not entry.error_code else ErrorCode(entry.error_code),
        )
        for entry in topic.partitions
    }
    is_internal = topic.is_internal or topic.name == OFFSETS_TOPIC  # Metadata 0 (Kafka 0.9) lacks the flag
    return TopicMetadata(topic.name, topic.topic_id, is_internal, partitions, ErrorCode(topic.error_code))
