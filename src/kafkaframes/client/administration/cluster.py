"""Cluster: brokers, features (KIP-584), the quorum of controllers (KIP-595, KIP-853), configuration resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes._version import __version__
from kafkaframes.client.administration.base import (
    AdminRequests,
    error_of,
    name_of,
    number_of,
    raise_for_code,
    require_success,
)
from kafkaframes.client.metadata import Broker
from kafkaframes.errors import BrokerError, ErrorCode, broker_error

UPGRADE_TYPES: Final = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
CONFIG_RESOURCES: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
_METADATA_TOPIC: Final = "__cluster_metadata"


class VersionRange(NamedTuple):
    """Levels of a feature, both bounds included."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a cluster.

    Attributes:
        finalized: levels that the whole cluster uses, by feature (``metadata.version``, ``kraft.version``, ...).
        supported: levels that the broker that was asked supports.
        epoch: epoch of the finalized features; None if the broker has none.
    """

    finalized: Mapping[str, VersionRange]
    supported: Mapping[str, VersionRange]
    epoch: int | None


class FeatureUpdate(NamedTuple):
    """A change of a feature's finalized level.

    Attributes:
        level: new level; 0 removes the feature.
        upgrade_type: ``upgrade``, ``safe_downgrade`` or ``unsafe_downgrade`` (which may lose metadata).
    """

    level: int
    upgrade_type: str = "upgrade"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer of the controllers' quorum.

    Attributes:
        directory_id: None before Kafka 3.9.
        log_end_offset: end of its copy of the metadata log; -1 if the leader does not know it.
        last_fetch_timestamp_ms, last_caught_up_timestamp_ms: since 1970; None if the leader does not know them.
    """

    node_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


class Endpoint(NamedTuple):
    """An address of a controller: the listener's name, host and port."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The controllers' quorum.

    Attributes:
        leader_id: node id of the active controller.
        high_watermark: high watermark of the metadata log.
        nodes: addresses of the voters by node id; empty before Kafka 3.9.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[Endpoint, ...]]


class BrokerNode(NamedTuple):
    """A broker of the cluster; ``is_fenced`` is False before Kafka 4.0, which does not report fenced brokers."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ConfigResource(NamedTuple):
    """A resource that has a configuration: its kind (a key of ``CONFIG_RESOURCES``) and its name."""

    kind: str
    name: str


class ClusterMethods(AdminRequests):
    """Methods on brokers, features, the quorum and configuration resources."""

    async def list_brokers(self, *, include_fenced: bool = False) -> list[BrokerNode]:
        """Return the brokers of the cluster, by node id.

        Args:
            include_fenced: also return brokers that are registered but fenced (KIP-1073, Kafka 4.0 and later).
        """
        body = self.settings.message("DescribeClusterRequest")(include_fenced_brokers=include_fenced)
        answer = await self._ask_any(body, "cluster")
        nodes = [BrokerNode(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in answer.brokers]
        return sorted(nodes)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a broker from a KRaft cluster; it must have been stopped.

        Raises:
            BrokerError: no broker of this id is registered; the principal may not alter the cluster.
        """
        body = self.settings.message("UnregisterBrokerRequest")(broker_id=broker_id)
        await self._ask_any(body, f"broker {broker_id}")

    async def describe_features(self, *, broker_id: int | None = None) -> Features:
        """Return the features that a cluster has finalized, and those that a broker supports.

        Args:
            broker_id: broker to ask; None is any.
        """
        body = self.settings.message("ApiVersionsRequest")(
            client_software_name="kafkaframes", client_software_version=__version__
        )

        async def step() -> Any:
            broker: Broker | None = None if broker_id is None else await self._broker(broker_id)
            answer = await self._cluster.request(broker, body)
            raise_for_code(answer, "features")
            return answer

        answer = await self._cluster.retried(step)
        finalized = {
            row.name: VersionRange(row.min_version_level, row.max_version_level) for row in answer.finalized_features
        }
        supported = {row.name: VersionRange(row.min_version, row.max_version) for row in answer.supported_features}
        epoch = answer.finalized_features_epoch
        return Features(finalized, supported, None if epoch < 0 else epoch)

    async def update_features(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change the finalized levels of features; all changes are applied, or none.

        Args:
            updates: by feature.
            validate_only: check the changes without applying them (Kafka 3.3 and later).

        Raises:
            OptionError: an unknown upgrade type.
            BrokerError: a level is not supported by all nodes, or the change is a downgrade and says ``upgrade``.
        """
        cls = self.settings.message("UpdateFeaturesRequest")
        rows = []
        for name, update in updates.items():
            number = number_of("upgrade type", update.upgrade_type, UPGRADE_TYPES)
            rows.append(
                cls.FeatureUpdateKey(
                    feature=name,
                    max_version_level=update.level,
                    upgrade_type=number,
                    allow_downgrade=update.upgrade_type != "upgrade",
                )
            )
        body = cls(timeout_ms=self.settings.request_timeout_ms, feature_updates=rows, validate_only=validate_only)
        answer = await self._ask_controller(body, "features")
        require_success({row.feature: error_of(row, f"feature {row.feature}") for row in answer.results or ()})

    async def describe_quorum(self) -> QuorumInfo:
        """Return leader, voters and observers of the controllers' quorum.

        Raises:
            BrokerError: the cluster has no KRaft quorum; the principal may not describe the cluster.
        """
        cls = self.settings.message("DescribeQuorumRequest")
        topic = cls.TopicData(topic_name=_METADATA_TOPIC, partitions=[cls.PartitionData(partition_index=0)])
        answer = await self._ask_any(cls(topics=[topic]), "quorum")
        rows = [row for entry in answer.topics for row in entry.partitions]
        if len(rows) != 1:
            raise BrokerError(f"quorum: the response has {len(rows)} partitions, expected 1", ErrorCode.NONE)
        if (error := error_of(rows[0], "quorum")) is not None:
            raise error
        nodes = {
            node.node_id: tuple(Endpoint(entry.name, entry.host, entry.port) for entry in node.listeners)
            for node in answer.nodes or ()
        }
        voters, observers = (tuple(map(_quorum_replica, some)) for some in (rows[0].current_voters, rows[0].observers))
        return QuorumInfo(rows[0].leader_id, rows[0].leader_epoch, rows[0].high_watermark, voters, observers, nodes)

    async def add_raft_voter(
        self, voter_id: int, directory_id: UUID, endpoints: Iterable[Endpoint], *, cluster_id: str | None = None
    ) -> None:
        """Add a controller to the quorum's voters (KIP-853).

        Args:
            voter_id: node id.
            directory_id: id of its metadata directory, from ``meta.properties``.
            endpoints: addresses that other controllers reach it at.
            cluster_id: if given, brokers reject the request if theirs differs.

        Raises:
            BrokerError: the voter exists already, or ``kraft.version`` is 0.
        """
        cls = self.settings.message("AddRaftVoterRequest")
        body = cls(
            cluster_id=cluster_id,
            timeout_ms=self.settings.request_timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[cls.Listener(name=entry.name, host=entry.host, port=entry.port) for entry in endpoints],
        )
        await self._ask_any(body, f"voter {voter_id}")

    async def remove_raft_voter(self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Remove a controller from the quorum's voters (KIP-853).

        Raises:
            BrokerError: there is no such voter, it is the last one, or ``kraft.version`` is 0.
        """
        body = self.settings.message("RemoveRaftVoterRequest")(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
        )
        await self._ask_any(body, f"voter {voter_id}")

    async def list_config_resources(self, kinds: Iterable[str] = ()) -> list[ConfigResource]:
        """Return the resources that have a configuration (KIP-1142; ``client-metrics`` alone: KIP-1000).

        Args:
            kinds: keys of ``CONFIG_RESOURCES``; empty is every kind that the brokers support.

        Raises:
            OptionError: an unknown kind.
            BrokerError: brokers before Kafka 4.1 list only ``client-metrics`` (UNSUPPORTED_VERSION).
        """
        requested = list(kinds)
        numbers = [number_of("kind", kind, CONFIG_RESOURCES) for kind in requested]
        cls = self.settings.message("ListConfigResourcesRequest")
        body = cls(resource_types=numbers)
        connection = await self._cluster.retried(self._cluster.any_connection)
        if connection.version_of(body) == 0:
            body.resource_types = []  # version 0 lists client metrics subscriptions alone
        if connection.version_of(body) == 0 and requested not in ([], ["client-metrics"]):
            raise broker_error(ErrorCode.UNSUPPORTED_VERSION, f"configuration resources of kind {', '.join(requested)}")
        answer = await self._ask_any(body, "configuration resources")
        rows = [
            ConfigResource(name_of(r.resource_type, CONFIG_RESOURCES), r.resource_name) for r in answer.config_resources
        ]
        return sorted(rows)


def _quorum_replica(row: Any) -> QuorumReplica:
    times = (None if time < 0 else time for time in (row.last_fetch_timestamp, row.last_caught_up_timestamp))
    return QuorumReplica(
        row.replica_id, row.replica_directory_id if row.replica_directory_id.int else None, row.log_end_offset, *times
    )
