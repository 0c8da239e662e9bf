"""Admin methods for leader elections (KIP-460), reassignments (KIP-455) and log directories (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, get_row_error, to_protocol_number
from kafkaframes.client.administration.item_requests import BrokerLookup
from kafkaframes.client.metadata import (
    Node,
    PartitionLike,
    PartitionMapping,
    TopicPartition,
    group_by_topic,
    to_partition_mapping,
    to_partitions,
)
from kafkaframes.client.response_rows import iterate_partition_rows, require_success
from kafkaframes.errors import BrokerError, ErrorCode, OptionError, to_broker_error

ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}
_LOG_DIRS_ERROR_VERSION: Final = 3  # first version of DescribeLogDirs with an error code of the whole response
_FACTOR_CHANGE_VERSION: Final = 1  # first version of AlterPartitionReassignments with allow_replication_factor_change


class PartitionReassignment(NamedTuple):
    """An ongoing reassignment of a partition.

    Attributes:
        replicas: node ids of all current replicas, including added and removed ones.
        adding_replicas: node ids of the replicas that are being added.
        removing_replicas: node ids of the replicas that are being removed.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class Replica(NamedTuple):
    """A partition's replica on one broker.

    Attributes:
        topic: topic name.
        partition: partition number.
        broker_id: node id of the broker.
    """

    topic: str
    partition: int
    broker_id: int


class ReplicaInfo(NamedTuple):
    """A replica in a log directory.

    Attributes:
        size_bytes: size of the log's segments, in bytes.
        offset_lag: high watermark minus the log end offset. For a future replica: log end offset of the current replica
            minus its own.
        is_future: whether the replica is being moved to this directory and will replace the current replica.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A broker's log directory.

    Attributes:
        error: reason why the directory is offline; None if it is online.
        replicas: replicas in the directory, by partition.
        total_bytes: size of the volume, in bytes; None before Kafka 3.3.
        usable_bytes: free space of the volume, in bytes; None before Kafka 3.3.
        is_cordoned: whether the broker puts no new replicas into the directory (Kafka 4.4 and later).
    """

    error: BrokerError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class ReplicaMethods(AdminRequests):
    """Admin methods for leaders and replicas."""

    async def elect_leaders(
        self, partitions: Iterable[PartitionLike] | None = None, *, election_type: str = "preferred"
    ) -> dict[TopicPartition, bool]:
        """Elect leaders, and return for each partition whether its leader changed.

        Args:
            partitions: partitions to elect leaders for; None selects every partition that needs an election.
            election_type: ``preferred`` makes the first replica the leader. ``unclean`` may lose records, and applies
                only to partitions without a leader.

        Returns:
            True for a partition with a changed leader, False if no election was needed (ELECTION_NOT_NEEDED).

        Raises:
            BrokerError: a replica is not available, or the principal may not alter the cluster.
        """
        number = to_protocol_number("election type", election_type, ELECTION_TYPES)
        cls = self.settings.message_class("ElectLeadersRequest")
        partition_list = None if partitions is None else to_partitions(partitions)
        topics = None
        if partition_list is not None:
            topics = [
                cls.TopicPartitions(topic=name, partitions=numbers)
                for name, numbers in group_by_topic(partition_list).items()
            ]
        body = cls(election_type=number, topic_partitions=topics, timeout_ms=self.settings.request_timeout_ms)
        response = await self._send_to_controller(
            body,
            "leader election",
            lambda response: (row for topic in response.replica_election_results for row in topic.partition_result),
        )
        results: dict[TopicPartition, bool | BrokerError] = {}
        for topic in response.replica_election_results:
            self._cluster.cluster.topics.pop(topic.topic, None)
            for row in topic.partition_result:
                partition = TopicPartition(topic.topic, row.partition_id)
                is_needed = row.error_code != ErrorCode.ELECTION_NOT_NEEDED
                error = get_row_error(row, f"election of {partition}") if is_needed else None
                results[partition] = is_needed if error is None else error
        return require_success(results, partition_list or ())

    async def alter_partition_reassignments(
        self,
        assignments: PartitionMapping[Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Start to move partitions to other brokers, or cancel reassignments.

        Args:
            assignments: node ids of the replicas for each partition, with the preferred leader first. None cancels the
                ongoing reassignment of the partition.
            allow_replication_factor_change: whether the number of replicas may change. False requires brokers of Kafka
                4.1 or later (KIP-860).

        Raises:
            BrokerError: a partition or a broker does not exist, or a reassignment to cancel does not exist
                (NO_REASSIGNMENT_IN_PROGRESS).
        """
        cls = self.settings.message_class("AlterPartitionReassignmentsRequest")
        body = cls(
            timeout_ms=self.settings.request_timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )
        if not allow_replication_factor_change:
            connection = await self._retry_step(self._cluster.get_any_connection)
            if connection.select_version(body) < _FACTOR_CHANGE_VERSION:
                raise OptionError("allow_replication_factor_change=False needs brokers of Kafka 4.1 or later (KIP-860)")

        replicas_by_partition = to_partition_mapping(assignments)

        def to_row(partition: TopicPartition) -> Any:
            replicas = replicas_by_partition[partition]
            return cls.ReassignablePartition(
                partition_index=partition.partition, replicas=None if replicas is None else list(replicas)
            )

        body.topics = [
            cls.ReassignableTopic(name=name, partitions=rows)
            for name, rows in group_by_topic(replicas_by_partition, to_row).items()
        ]
        response = await self._send_to_controller(
            body, "reassignments", lambda response: (row for topic in response.responses for row in topic.partitions)
        )
        require_success(
            {
                partition: get_row_error(row, f"reassignment of {partition}")
                for partition, row in iterate_partition_rows(response.responses)
            },
            replicas_by_partition,
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the ongoing reassignments of partitions (KIP-455).

        Args:
            partitions: partitions to return; None selects every partition.

        Returns:
            The reassignment of each partition that has one.

        Raises:
            BrokerError: the principal may not describe the cluster.
        """
        cls = self.settings.message_class("ListPartitionReassignmentsRequest")
        body = cls(timeout_ms=self.settings.request_timeout_ms)
        if partitions is not None:
            body.topics = [
                cls.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in group_by_topic(to_partitions(partitions)).items()
            ]
        response = await self._send_to_controller(body, "reassignments")
        return {
            partition: PartitionReassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for partition, row in iterate_partition_rows(response.topics)
        }

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers and their replicas, by broker id and path.

        Args:
            broker_ids: ids of the brokers; None selects every broker.

        Raises:
            BrokerError: a broker does not exist, or the principal may not describe the cluster.
        """
        body = self.settings.message_class("DescribeLogDirsRequest")(topics=None)

        async def describe_at_broker(
            broker: Node, node_ids: list[int]
        ) -> dict[int, dict[str, LogDirDescription] | BrokerError]:
            connection = await self._cluster.get_connection(broker)
            response = await connection.request(body)
            subject = f"log directories of broker {broker.node_id}"
            error = (
                get_row_error(response, subject) if connection.select_version(body) >= _LOG_DIRS_ERROR_VERSION else None
            )
            if not error and not response.results:  # older brokers respond to an unauthorized request in this way
                error = to_broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, subject)
            directories = {row.log_dir: _to_log_dir_description(row) for row in response.results}
            return dict.fromkeys(node_ids, error or directories)

        lookup = BrokerLookup(self._cluster, int)
        return require_success(
            await self._request_items(await self._resolve_broker_ids(broker_ids), lookup, describe_at_broker, ())
        )

    async def describe_replica_log_dirs(self, replicas: Iterable[Replica]) -> dict[Replica, dict[str, ReplicaInfo]]:
        """Return the log directories of replicas, by path. A replica that is being moved has two directories (KIP-113).

        Args:
            replicas: replicas to return.

        Raises:
            BrokerError: a broker does not exist, or the principal may not describe the cluster.
        """
        replicas = list(replicas)
        directories = await self.describe_log_dirs(dict.fromkeys(entry.broker_id for entry in replicas))
        return {
            replica: {
                path: description.replicas[partition]
                for path, description in directories[replica.broker_id].items()
                if partition in description.replicas
            }
            for replica in replicas
            for partition in [TopicPartition(replica.topic, replica.partition)]
        }

    async def alter_replica_log_dirs(self, paths: Mapping[Replica, str]) -> None:
        """Start to move replicas to other log directories on the same broker.

        Args:
            paths: absolute path of a log directory of the broker, for each replica.

        Raises:
            BrokerError: a broker does not exist, lacks the log directory (LOG_DIR_NOT_FOUND), or lacks the replica.
        """
        cls = self.settings.message_class("AlterReplicaLogDirsRequest")

        async def move_at_broker(broker: Node, replicas: list[Replica]) -> dict[Replica, BrokerError | None]:
            body = cls()
            for path in dict.fromkeys(paths[replica] for replica in replicas):
                partitions = [
                    TopicPartition(entry.topic, entry.partition) for entry in replicas if paths[entry] == path
                ]
                topics = [
                    cls.AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in group_by_topic(partitions).items()
                ]
                body.dirs.append(cls.AlterReplicaLogDir(path=path, topics=topics))
            response = await self._cluster.request(broker, body)
            return {
                replica: get_row_error(row, f"replica {replica}")
                for topic in response.results
                for row in topic.partitions
                for replica in [Replica(topic.topic_name, row.partition_index, broker.node_id)]
            }

        lookup = BrokerLookup(self._cluster, lambda replica: int(replica.broker_id))
        require_success(await self._request_items(paths, lookup, move_at_broker, ()))


def _to_log_dir_description(row: Any) -> LogDirDescription:
    replicas = {
        partition: ReplicaInfo(entry.partition_size, entry.offset_lag, entry.is_future_key)
        for partition, entry in iterate_partition_rows(row.topics)
    }
    total, usable = (None if size < 0 else size for size in (row.total_bytes, row.usable_bytes))
    return LogDirDescription(
        get_row_error(row, f"log directory {row.log_dir}"), replicas, total, usable, row.is_cordoned
    )
