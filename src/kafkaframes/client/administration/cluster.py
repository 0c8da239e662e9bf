"""Admin methods for brokers, features (KIP-584), the controller quorum (KIP-595, KIP-853) and config resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes._version import __version__
from kafkaframes.client.administration.base import (
    AdminRequests,
    get_row_error,
    to_list,
    to_protocol_name,
    to_protocol_number,
)
from kafkaframes.client.response_rows import require_one_row, require_success
from kafkaframes.errors import ErrorCode, OptionError, to_broker_error

UPGRADE_TYPES: Final = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
CONFIG_RESOURCES: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
_UPGRADE_TYPE_VERSION: Final = 1  # first version of UpdateFeatures with upgrade types and validate_only
_METADATA_TOPIC: Final = "__cluster_metadata"


class VersionRange(NamedTuple):
    """A range of feature levels.

    Attributes:
        lowest: lowest level, inclusive.
        highest: highest level, inclusive.
    """

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a cluster.

    Attributes:
        finalized: levels that the whole cluster uses, by feature (``metadata.version``, ``kraft.version``, ...).
        supported: levels that the responding broker supports, by feature.
        epoch: epoch of the finalized features; None if the broker does not report one.
    """

    finalized: Mapping[str, VersionRange]
    supported: Mapping[str, VersionRange]
    epoch: int | None


class FeatureUpdate(NamedTuple):
    """A change to a feature's finalized level.

    Attributes:
        level: new finalized level; 0 removes the feature.
        upgrade_type: ``upgrade``, ``safe_downgrade`` or ``unsafe_downgrade``. An unsafe downgrade may lose metadata.
    """

    level: int
    upgrade_type: str = "upgrade"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer of the controller quorum.

    Attributes:
        node_id: node id of the controller or broker.
        directory_id: id of the node's metadata directory; None before Kafka 3.9.
        log_end_offset: log end offset of the node's copy of the metadata log; -1 if unknown to the leader.
        last_fetch_timestamp_ms: time of the node's last fetch, in milliseconds since 1970; None if unknown to the
            leader.
        last_caught_up_timestamp_ms: last time at which the node had the whole log, in milliseconds since 1970; None if
            unknown to the leader.
    """

    node_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp_ms: int | None
    last_caught_up_timestamp_ms: int | None


class Endpoint(NamedTuple):
    """A listener of a controller.

    Attributes:
        name: name of the listener, such as ``CONTROLLER``.
        host: host name or address.
        port: port number.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The controller quorum.

    Attributes:
        leader_id: node id of the active controller.
        leader_epoch: epoch of the active controller.
        high_watermark: high watermark of the metadata log.
        voters: controllers that vote in elections.
        observers: brokers and other nodes that only replicate the metadata log.
        nodes: listeners of the voters, by node id; empty before Kafka 3.9.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[Endpoint, ...]]


class BrokerNode(NamedTuple):
    """A broker of the cluster.

    Attributes:
        node_id: node id of the broker.
        host: host name or address of the broker's listener.
        port: port of the broker's listener.
        rack: rack of the broker; None if it has none.
        is_fenced: whether the broker is registered but fenced. Brokers before Kafka 4.0 do not report fenced brokers.
    """

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ConfigResource(NamedTuple):
    """A resource that has a configuration.

    Attributes:
        kind: key of ``CONFIG_RESOURCES``.
        name: name of the resource; a broker's node id, as text.
    """

    kind: str
    name: str


class ClusterMethods(AdminRequests):
    """Admin methods for brokers, features, the controller quorum and config resources."""

    async def list_brokers(self, *, include_fenced: bool = False) -> list[BrokerNode]:
        """Return the brokers of the cluster in order of their node ids.

        Args:
            include_fenced: also return brokers that are registered but fenced (KIP-1073, Kafka 4.0 and later).
        """
        body = self.settings.message_class("DescribeClusterRequest")(include_fenced_brokers=include_fenced)
        response = await self._send_to_any_broker(body, "cluster")
        nodes = [BrokerNode(row.broker_id, row.host, row.port, row.rack, row.is_fenced) for row in response.brokers]
        return sorted(nodes)

    async def unregister_broker(self, broker_id: int) -> None:
        """Remove a stopped broker from a KRaft cluster (KIP-631).

        Args:
            broker_id: node id of the broker.

        Raises:
            BrokerError: no broker with this id is registered, or the principal may not alter the cluster.
        """
        body = self.settings.message_class("UnregisterBrokerRequest")(broker_id=broker_id)
        await self._send_to_any_broker(body, f"broker {broker_id}", retriable={ErrorCode.REQUEST_TIMED_OUT})

    async def describe_features(self, *, broker_id: int | None = None) -> Features:
        """Return the features that the cluster has finalized and the features that one broker supports.

        Args:
            broker_id: id of the broker that reports its supported features; None selects any broker.
        """
        body = self.settings.message_class("ApiVersionsRequest")(
            client_software_name="kafkaframes", client_software_version=__version__
        )
        if broker_id is None:
            response = await self._send_to_any_broker(body, "features")
        else:
            response = await self._send_to_broker(broker_id, body, "features")
        finalized_ranges = {
            row.name: VersionRange(row.min_version_level, row.max_version_level) for row in response.finalized_features
        }
        supported_ranges = {
            row.name: VersionRange(row.min_version, row.max_version) for row in response.supported_features
        }
        epoch = response.finalized_features_epoch
        return Features(finalized_ranges, supported_ranges, None if epoch < 0 else epoch)

    async def update_features(self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False) -> None:
        """Change the finalized levels of features. Either all changes are applied or none.

        Args:
            updates: new levels, by feature.
            validate_only: check the changes without applying them (Kafka 3.3 and later).

        Raises:
            OptionError: an upgrade type is unknown, or the brokers are too old for ``validate_only``.
            BrokerError: a node does not support a level, or ``upgrade_type`` is ``upgrade`` for a lower level.
        """
        cls = self.settings.message_class("UpdateFeaturesRequest")
        body = cls(timeout_ms=self.settings.request_timeout_ms)
        connection = await self._retry_step(self._cluster.get_any_connection)
        has_upgrade_types = connection.select_version(body) >= _UPGRADE_TYPE_VERSION
        if validate_only and not has_upgrade_types:
            raise OptionError("validate_only needs brokers of Kafka 3.3 or later (KIP-584)")
        body.validate_only = validate_only
        for name, update in updates.items():
            number = to_protocol_number("upgrade type", update.upgrade_type, UPGRADE_TYPES)
            row = cls.FeatureUpdateKey(feature=name, max_version_level=update.level)
            if has_upgrade_types:
                row.upgrade_type = number
            else:
                row.allow_downgrade = update.upgrade_type != "upgrade"
            body.feature_updates.append(row)
        response = await self._send_to_controller(body, "features")
        # Responses of version 2 have no result for each feature (KIP-1022).
        expected_features = updates if response.results else ()
        require_success(
            {row.feature: get_row_error(row, f"feature {row.feature}") for row in response.results or ()},
            expected_features,
        )

    async def describe_quorum(self) -> QuorumInfo:
        """Return the leader, the voters and the observers of the controller quorum.

        Raises:
            BrokerError: the cluster has no KRaft quorum, or the principal may not describe the cluster.
        """
        cls = self.settings.message_class("DescribeQuorumRequest")
        topic = cls.TopicData(topic_name=_METADATA_TOPIC, partitions=[cls.PartitionData(partition_index=0)])
        response = await self._send_to_any_broker(cls(topics=[topic]), "quorum", get_rows=_list_quorum_rows)
        row = require_one_row(_list_quorum_rows(response), "quorum")
        nodes = {
            node.node_id: tuple(Endpoint(entry.name, entry.host, entry.port) for entry in node.listeners)
            for node in response.nodes or ()
        }
        voters, observers = (
            tuple(map(_to_quorum_replica, replicas)) for replicas in (row.current_voters, row.observers)
        )
        return QuorumInfo(row.leader_id, row.leader_epoch, row.high_watermark, voters, observers, nodes)

    async def add_raft_voter(
        self, voter_id: int, directory_id: UUID, endpoints: Iterable[Endpoint], *, cluster_id: str | None = None
    ) -> None:
        """Add a controller to the quorum's voters (KIP-853).

        Args:
            voter_id: node id of the controller.
            directory_id: id of the controller's metadata directory, as in that directory's ``meta.properties``.
            endpoints: listeners at which other controllers reach the new voter.
            cluster_id: expected cluster id. Brokers of another cluster reject the request. None accepts a cluster with
                any id.

        Raises:
            BrokerError: the controller already is a voter, or ``kraft.version`` is 0.
        """
        cls = self.settings.message_class("AddRaftVoterRequest")
        body = cls(
            cluster_id=cluster_id,
            timeout_ms=self.settings.request_timeout_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[cls.Listener(name=entry.name, host=entry.host, port=entry.port) for entry in endpoints],
        )
        await self._send_to_any_broker(body, f"voter {voter_id}", retriable={ErrorCode.NOT_CONTROLLER})

    async def remove_raft_voter(self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None) -> None:
        """Remove a controller from the quorum's voters (KIP-853).

        Args:
            voter_id: node id of the controller.
            directory_id: id of the controller's metadata directory, as ``describe_quorum`` returns it.
            cluster_id: expected cluster id. Brokers of another cluster reject the request. None accepts a cluster with
                any id.

        Raises:
            BrokerError: the controller is not a voter, it is the last voter, or ``kraft.version`` is 0.
        """
        body = self.settings.message_class("RemoveRaftVoterRequest")(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
        )
        await self._send_to_any_broker(body, f"voter {voter_id}", retriable={ErrorCode.NOT_CONTROLLER})

    async def list_config_resources(self, kinds: Iterable[str] = ()) -> list[ConfigResource]:
        """Return the resources that have a configuration (KIP-1142; only ``client-metrics``: KIP-1000).

        Args:
            kinds: keys of ``CONFIG_RESOURCES``; empty selects every kind that the brokers support.

        Raises:
            OptionError: a kind is unknown.
            BrokerError: another kind than ``client-metrics`` is requested, and the brokers are older than Kafka 4.1
                (UNSUPPORTED_VERSION).
        """
        kinds = to_list("kinds", kinds)
        numbers = [to_protocol_number("kind", kind, CONFIG_RESOURCES) for kind in kinds]
        cls = self.settings.message_class("ListConfigResourcesRequest")
        body = cls(resource_types=numbers)
        connection = await self._retry_step(self._cluster.get_any_connection)
        if connection.select_version(body) == 0:
            body.resource_types = []  # version 0 lists only client metrics subscriptions
        if connection.select_version(body) == 0 and kinds not in ([], ["client-metrics"]):
            raise to_broker_error(ErrorCode.UNSUPPORTED_VERSION, f"configuration resources of kind {', '.join(kinds)}")
        response = await self._send_to_any_broker(body, "configuration resources")
        rows = [
            ConfigResource(to_protocol_name(row.resource_type, CONFIG_RESOURCES), row.resource_name)
            for row in response.config_resources
        ]
        return sorted(rows)


def _list_quorum_rows(response: Any) -> list[Any]:
    return [row for topic in response.topics for row in topic.partitions]


def _to_quorum_replica(row: Any) -> QuorumReplica:
    times = (None if time < 0 else time for time in (row.last_fetch_timestamp, row.last_caught_up_timestamp))
    return QuorumReplica(
        row.replica_id, row.replica_directory_id if row.replica_directory_id.int else None, row.log_end_offset, *times
    )
