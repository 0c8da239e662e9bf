"""Replicas: leader elections (KIP-460), reassignments (KIP-455), log directories (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, error_of, number_of, require_success
from kafkaframes.client.metadata import TopicPartition, by_topic
from kafkaframes.errors import BrokerError, ErrorCode, OptionError, broker_error

ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}
_WITH_FACTOR_CHANGE: Final = 1  # AlterPartitionReassignments' first version that can forbid another number of replicas


class PartitionReassignment(NamedTuple):
    """A reassignment that is under way: node ids of all replicas, and of those that it adds and removes."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class Replica(NamedTuple):
    """A partition's replica on one broker."""

    topic: str
    partition: int
    broker_id: int


class ReplicaInfo(NamedTuple):
    """A replica in a log directory.

    Attributes:
        size_bytes: size of the log's segments.
        offset_lag: how far its log end offset is behind the high watermark, or for a future replica behind the
            current one, in offsets.
        is_future: whether the replica is being moved to this directory and will replace the current one.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A broker's log directory.

    Attributes:
        error: None if the directory is online.
        replicas: the replicas in it.
        total_bytes, usable_bytes: size and free space of its volume; None before Kafka 3.3.
        is_cordoned: whether new replicas are kept out of it (Kafka 4.4 and later).
    """

    error: BrokerError | None
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


class ReplicaMethods(AdminRequests):
    """Methods on leaders and replicas."""

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, election_type: str = "preferred"
    ) -> dict[TopicPartition, bool]:
        """Elect leaders; return for each partition whether its leader changed.

        Args:
            partitions: None is every partition that needs an election.
            election_type: ``preferred`` makes the first replica the leader; ``unclean`` may lose records and only
                applies to a partition without a leader.

        Returns:
            False for a partition whose leader is already the right one (ELECTION_NOT_NEEDED).

        Raises:
            BrokerError: an election failed: the replica is not available, or the principal may not alter the cluster.
        """
        number = number_of("election type", election_type, ELECTION_TYPES)
        cls = self.settings.message("ElectLeadersRequest")
        topics = None
        if partitions is not None:
            topics = [
                cls.TopicPartitions(topic=name, partitions=numbers)
                for name, numbers in by_topic(partitions, lambda entry: entry.partition).items()
            ]
        body = cls(election_type=number, topic_partitions=topics, timeout_ms=self.settings.request_timeout_ms)
        answer = await self._ask_controller(
            body,
            "leader election",
            lambda answer: (row for topic in answer.replica_election_results for row in topic.partition_result),
        )
        results: dict[TopicPartition, bool | BrokerError] = {}
        for topic in answer.replica_election_results:
            self._cluster.cluster.topics.pop(topic.topic, None)
            for row in topic.partition_result:
                partition = TopicPartition(topic.topic, row.partition_id)
                is_needed = row.error_code != ErrorCode.ELECTION_NOT_NEEDED
                error = error_of(row, f"election of {partition}") if is_needed else None
                results[partition] = is_needed if error is None else error
        return require_success(results)

    async def alter_partition_reassignments(
        self,
        assignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        """Start to move partitions to other brokers, or cancel that.

        Args:
            assignments: for each partition the node ids of its replicas, the preferred leader first; None cancels a
                reassignment that is under way.
            allow_replication_factor_change: whether the number of replicas may change (False: KIP-860, Kafka 4.1 and
                later).

        Raises:
            BrokerError: a partition does not exist, a broker is unknown, or there is nothing to cancel
                (NO_REASSIGNMENT_IN_PROGRESS).
        """
        cls = self.settings.message("AlterPartitionReassignmentsRequest")
        body = cls(
            timeout_ms=self.settings.request_timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
        )
        if not allow_replication_factor_change:
            connection = await self._cluster.retried(self._cluster.any_connection)
            if connection.version_of(body) < _WITH_FACTOR_CHANGE:
                raise OptionError("allow_replication_factor_change=False needs brokers of Kafka 4.1 or later (KIP-860)")

        def row_of(entry: TopicPartition) -> Any:
            replicas = assignments[entry]
            return cls.ReassignablePartition(
                partition_index=entry.partition, replicas=None if replicas is None else list(replicas)
            )

        body.topics = [
            cls.ReassignableTopic(name=name, partitions=rows) for name, rows in by_topic(assignments, row_of).items()
        ]
        answer = await self._ask_controller(
            body, "reassignments", lambda answer: (row for topic in answer.responses for row in topic.partitions)
        )
        require_success(
            {
                partition: error_of(row, f"reassignment of {partition}")
                for topic in answer.responses
                for row in topic.partitions
                for partition in [TopicPartition(topic.name, row.partition_index)]
            }
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments that are under way, of these partitions or (None) of all.

        Raises:
            BrokerError: the principal may not describe the cluster.
        """
        cls = self.settings.message("ListPartitionReassignmentsRequest")
        body = cls(timeout_ms=self.settings.request_timeout_ms)
        if partitions is not None:
            body.topics = [
                cls.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in by_topic(partitions, lambda entry: entry.partition).items()
            ]
        answer = await self._ask_controller(body, "reassignments")
        return {
            TopicPartition(topic.name, row.partition_index): PartitionReassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    async def describe_log_dirs(
        self, broker_ids: Iterable[int] | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers by path, with the replicas in them.

        Args:
            broker_ids: None is every broker.

        Raises:
            BrokerError: a broker does not exist, or the principal may not describe the cluster.
        """
        return require_success(await self._for_each(await self._broker_ids(broker_ids), self._log_dirs))

    async def _log_dirs(self, broker_id: int) -> dict[str, LogDirDescription]:
        body = self.settings.message("DescribeLogDirsRequest")(topics=None)
        answer = await self._ask_broker(broker_id, body, f"log directories of broker {broker_id}")
        if not answer.results and not getattr(answer, "error_code", 0):
            # before version 3 a broker answers an unauthorized request with an empty list
            connection = await self._cluster.connection(await self._broker(broker_id))
            if connection.version_of(body) < 3:
                raise broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"log directories of broker {broker_id}")
        return {row.log_dir: _log_dir(row) for row in answer.results}

    async def describe_replica_log_dirs(self, replicas: Iterable[Replica]) -> dict[Replica, dict[str, ReplicaInfo]]:
        """Return the log directories that hold replicas, by path: two while a replica is being moved, else one.

        Raises:
            BrokerError: a broker does not exist, or the principal may not describe the cluster.
        """
        requested = list(replicas)
        directories = await self.describe_log_dirs(dict.fromkeys(entry.broker_id for entry in requested))
        return {
            replica: {
                path: description.replicas[partition]
                for path, description in directories[replica.broker_id].items()
                if partition in description.replicas
            }
            for replica in requested
            for partition in [TopicPartition(replica.topic, replica.partition)]
        }

    async def alter_replica_log_dirs(self, paths: Mapping[Replica, str]) -> None:
        """Start to move replicas to other log directories of their brokers.

        Args:
            paths: for each replica the absolute path of a log directory of its broker.

        Raises:
            BrokerError: a broker does not exist, has no directory of that path (LOG_DIR_NOT_FOUND) or has no such
                replica.
        """
        cls = self.settings.message("AlterReplicaLogDirsRequest")
        results: dict[Replica, BrokerError | None] = {}
        for broker_id in dict.fromkeys(replica.broker_id for replica in paths):
            of_broker = {replica: path for replica, path in paths.items() if replica.broker_id == broker_id}
            body = cls()
            for path in dict.fromkeys(of_broker.values()):
                partitions = [
                    TopicPartition(entry.topic, entry.partition) for entry, to in of_broker.items() if to == path
                ]
                topics = [
                    cls.AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in by_topic(partitions, lambda entry: entry.partition).items()
                ]
                body.dirs.append(cls.AlterReplicaLogDir(path=path, topics=topics))
            try:
                answer = await self._ask_broker(broker_id, body, f"log directories of broker {broker_id}")
            except BrokerError as error:
                results |= dict.fromkeys(of_broker, error)
                continue
            for topic in answer.results:
                for row in topic.partitions:
                    replica = Replica(topic.topic_name, row.partition_index, broker_id)
                    results[replica] = error_of(row, f"replica {replica}")
        require_success(results)


def _log_dir(row: Any) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, entry.partition_index): ReplicaInfo(
            entry.partition_size, entry.offset_lag, entry.is_future_key
        )
        for topic in row.topics
        for entry in topic.partitions
    }
    total, usable = (None if size < 0 else size for size in (row.total_bytes, row.usable_bytes))
    return LogDirDescription(error_of(row, f"log directory {row.log_dir}"), replicas, total, usable, row.is_cordoned)
