"""The admin client, on asyncio: topics, partitions, configurations, records, consumer groups, delegation tokens.

The methods on access rules, users, replicas, the cluster, transactions and other groups are in ``administration``.

Each method sends its request to the node that answers it (controller, leader or coordinator), repeats it while the
error is retriable, and raises ``BrokerError`` with the broker's message.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, Unpack
from uuid import UUID

from kafkaframes.client import group_offsets, offsets
from kafkaframes.client.administration.acls import AclMethods
from kafkaframes.client.administration.base import get_row_error, raise_response_error, to_list
from kafkaframes.client.administration.cluster import CONFIG_RESOURCES, ClusterMethods
from kafkaframes.client.administration.groups import GroupMethods
from kafkaframes.client.administration.item_requests import (
    RETRIABLE_CODES,
    RETRIABLE_CONTROLLER_CODES,
    ControllerLookup,
    CoordinatorLookup,
    LeaderLookup,
)
from kafkaframes.client.administration.replicas import ReplicaMethods
from kafkaframes.client.administration.transactions import TransactionMethods
from kafkaframes.client.administration.users import UserMethods
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember
from kafkaframes.client.loop import CLOSE_TIMEOUT_MS
from kafkaframes.client.metadata import (
    Cluster,
    Node,
    PartitionLike,
    PartitionMapping,
    TopicMetadata,
    TopicPartition,
    group_by_topic,
    to_partition_mapping,
    to_partitions,
)
from kafkaframes.client.metrics import MetricName
from kafkaframes.client.offsets import OffsetAndTimestamp
from kafkaframes.client.response_rows import ItemError, iterate_partition_rows, require_one_row, require_success
from kafkaframes.client.settings import ClientSettings, check_choice, merge_options
from kafkaframes.client.telemetry.reporter import TelemetryMethods, TelemetryReporter
from kafkaframes.errors import (
    COORDINATOR_MOVED_CODES,
    BrokerError,
    ErrorCode,
    KafkaframesError,
    OptionError,
    QuotaExceededError,
    to_broker_error,
)
from kafkaframes.protocol.api_keys import INCREMENTAL_ALTER_CONFIGS
from kafkaframes.protocol.messages.envelopes import decode_versioned
from kafkaframes.protocol.messages.objects import Message

if TYPE_CHECKING:
    from kafkaframes.client.options import ClientOptions, Servers

RESOURCES: Final = CONFIG_RESOURCES
_GROUP_STATES: Final = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
_GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
_TOPIC_SOURCE, _BROKER_SOURCE, _DEFAULT_BROKER_SOURCE = 1, 2, 3  # Kafka's ConfigSource of values that clients have set
CONFIG_OPERATIONS: Final = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
_RETRIABLE_COMMIT_CODES: Final = COORDINATOR_MOVED_CODES | {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_ID}
_RETRIABLE_FETCH_CODES: Final = COORDINATOR_MOVED_CODES | {ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.UNKNOWN_TOPIC_ID}
ConfigValue = str | int | float | bool
TopicItem = TypeVar("TopicItem", bound=str | UUID)
_TOPIC_STATE_VERSION: Final = 6  # first version of DeleteTopics with topic states instead of names


@dataclass(frozen=True)
class NewTopic:
    """A topic to create.

    Attributes:
        name: topic name.
        num_partitions: number of partitions; -1 selects the broker's default.
        replication_factor: number of replicas of each partition; -1 selects the broker's default.
        configs: topic settings under Kafka's names; other settings have the broker's defaults.
        replica_assignments: node ids of the replicas of each partition, with the preferred leader first, in place of
            ``num_partitions`` and ``replication_factor``; empty lets the controller select the nodes.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    replica_assignments: Sequence[Sequence[int]] = ()


class ConfigSynonym(NamedTuple):
    """A value that a setting has, or would have if the values before it were removed (KIP-226).

    Attributes:
        name: name of the setting at this level, such as ``log.retention.ms`` of the broker.
        value: value as text; None if it is sensitive, or if it has no value.
        source: number of Kafka's ``ConfigSource``, as in ``ConfigEntry``.
    """

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A setting of a topic, broker, group or client metrics subscription.

    Attributes:
        name: Kafka's name of the setting.
        value: value as text; None if it is sensitive, or if it has no value.
        is_default: whether the resource has no value of its own.
        is_read_only: whether the value cannot be changed while the broker runs.
        is_sensitive: whether the value is secret, such as a password.
        source: number of Kafka's ``ConfigSource`` (1: the topic's own value, 5: Kafka's default); -1 if unknown.
        synonyms: values of all levels, the effective one first; empty unless ``describe_configs`` includes them.
    """

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: int = -1
    synonyms: tuple[ConfigSynonym, ...] = ()


class ListedGroup(NamedTuple):
    """A group, as ``list_groups`` returns it.

    Attributes:
        group_id: id of the group.
        protocol_type: type of the group's protocol: ``consumer``, ``connect``, ...; empty for simple consumer groups.
        state: Kafka's name of the state, such as ``Stable``; empty before Kafka 2.6.
        type: ``classic``, ``consumer``, ``share`` or ``streams``; empty before Kafka 3.8.
    """

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


class MemberDescription(NamedTuple):
    """A member of a consumer group and its partitions.

    Attributes:
        member_id: id of the member.
        group_instance_id: id of a static member (KIP-345); None for a dynamic member.
        client_id: client id of the member.
        client_host: address of the member.
        assignment: partitions that are assigned to the member; empty if the group's protocol is not the consumers'
            protocol.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A classic or consumer group.

    Attributes:
        group_id: id of the group.
        state: Kafka's name of the state, such as ``Stable``, ``Empty`` or ``Dead``.
        protocol_type: type of the group's protocol, such as ``consumer``.
        protocol: name of the assignor; empty if the group has none.
        members: current members, with their assigned partitions.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token (KIP-48). Clients authenticate as its owner, by SCRAM with ``sasl_tokenauth=True``.

    Attributes:
        token_id: user name for the login.
        hmac: secret that identifies the token to brokers.
        owner: principal that the token authenticates, such as ``User:alice``.
        requester: principal that requested the token; empty before Kafka 3.3.
        renewers: principals that may renew the token, in addition to the owner.
        issue_timestamp_ms: time of creation, in milliseconds since 1970.
        expiry_timestamp_ms: time at which the token expires unless it is renewed, in milliseconds since 1970.
        max_timestamp_ms: latest time to which the token can be renewed, in milliseconds since 1970.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def password(self) -> str:
        """The password for the login: the HMAC in base64."""
        return b64encode(self.hmac).decode()


class AsyncAdmin(
    AclMethods, UserMethods, ReplicaMethods, ClusterMethods, TransactionMethods, GroupMethods, TelemetryMethods
):
    """Administers a cluster.

    ``async with AsyncAdmin("localhost:9092") as admin: ...``

    If some of a method's items fail, the other items take effect, and the method raises ``PartialFailureError`` with
    the result of each item. All methods raise ``NetworkError`` if no broker responds within ``default_api_timeout_ms``.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ClientOptions]) -> None:
        """Create a client. The client connects when the first method is called.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ClientOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        self.settings = ClientSettings.from_options(merge_options(bootstrap_servers, options))
        self._cluster = ClusterClient(self.settings)
        self._telemetry = TelemetryReporter(self._cluster)

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Close the connections. Requests in flight fail.

        Args:
            timeout_ms: longest duration, in milliseconds. The call waits for a broker only to push metrics a last time,
                for at most one second.
        """
        await self._telemetry.close(timeout_ms / 1000)
        await self._cluster.close()

    # ------------------------------------------------------------------------------------------------- the cluster

    def metrics(self) -> dict[MetricName, float]:
        """Return the client's metrics under Java's names: connections, requests and responses."""
        return self._cluster.metrics.values()

    async def describe_cluster(self) -> Cluster:
        """Return the brokers, the controller, the cluster id and the topics.

        Raises:
            NetworkError: no broker responds within ``default_api_timeout_ms``.
        """
        await self._retry_step(lambda: self._cluster.refresh_metadata(can_share=False))
        return self._cluster.cluster

    async def list_topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics that the principal may describe, sorted.

        Args:
            internal: whether internal topics, such as ``__consumer_offsets``, are included.
        """
        cluster = await self.describe_cluster()
        return sorted(entry.name for entry in cluster.topics.values() if internal or not entry.is_internal)

    async def describe_topics(self, topics: Iterable[str | UUID]) -> dict[str, TopicMetadata]:
        """Return the partitions, leaders and replicas of topics, by name.

        Args:
            topics: topic names or topic ids.

        Raises:
            BrokerError: a topic does not exist, or the principal may not describe it.
        """
        topic_list = list(dict.fromkeys(to_list("topics", topics)))
        ids = [entry for entry in topic_list if isinstance(entry, UUID)]
        await self._retry_step(
            lambda: self._cluster.refresh_metadata(None if ids else map(str, topic_list), can_share=False)
        )

        async def to_description(entry: str | UUID) -> TopicMetadata:
            name = self._cluster.cluster.topic_name(entry) if isinstance(entry, UUID) else entry
            if name is None:
                raise to_broker_error(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {entry}")
            await self._cluster.ensure_topic(name)  # another request only if the broker does not know the topic yet
            return self._cluster.cluster.topics[name]

        results = require_success(await self._call_for_each(topic_list, to_description))
        return {topic.name: topic for topic in results.values()}

    # ------------------------------------------------------------------------------------------------------ topics

    async def create_topics(self, topics: Iterable[NewTopic | str], *, validate_only: bool = False) -> None:
        """Create topics.

        Args:
            topics: topics to create. A name alone creates a topic with the broker's defaults.
            validate_only: check the topics without creating them.

        Raises:
            OptionError: two topics have the same name, or a setting is not text, a number or a boolean.
            BrokerError: a topic already exists (``TopicExistsError``), or a broker rejected it. Others were created.
        """
        new_topics = [NewTopic(name=entry) if isinstance(entry, str) else entry for entry in to_list("topics", topics)]
        topics_by_name = {entry.name: entry for entry in new_topics}
        if len(topics_by_name) < len(new_topics):
            raise OptionError("topics: two new topics have the same name")
        cls = self.settings.message_class("CreateTopicsRequest")

        def to_request(names: Iterable[str]) -> Any:
            body = cls(timeout_ms=self.settings.request_timeout_ms, validate_only=validate_only)
            body.topics = [
                cls.CreatableTopic(
                    name=entry.name,
                    num_partitions=entry.num_partitions,
                    replication_factor=entry.replication_factor,
                    assignments=[
                        cls.CreatableReplicaAssignment(partition_index=index, broker_ids=list(node_ids))
                        for index, node_ids in enumerate(entry.replica_assignments)
                    ],
                    configs=[
                        cls.CreatableTopicConfig(name=key, value=_to_config_text(key, value))
                        for key, value in entry.configs.items()
                    ],
                )
                for entry in map(topics_by_name.__getitem__, names)
            ]
            return body

        await self._change_topics(topics_by_name, to_request, lambda response: response.topics)

    async def delete_topics(self, topics: Iterable[str | UUID]) -> None:
        """Delete topics by name or by id (KIP-516).

        Args:
            topics: topic names, or topic ids (Kafka 2.8 and later).

        Raises:
            OptionError: a topic is specified by id, and the brokers are older than Kafka 2.8.
            BrokerError: a topic does not exist, or the principal may not delete it. Topics without an error were
                deleted.
        """
        topic_list = to_list("topics", topics)
        cls = self.settings.message_class("DeleteTopicsRequest")
        connection = await self._retry_step(self._cluster.get_any_connection)
        takes_ids = connection.select_version(cls()) >= _TOPIC_STATE_VERSION
        if not takes_ids and any(isinstance(entry, UUID) for entry in topic_list):
            raise OptionError("deleting topics by id requires brokers of Kafka 2.8 or later (KIP-516); pass names")

        def to_request(entries: Iterable[str | UUID]) -> Any:
            body = cls(timeout_ms=self.settings.request_timeout_ms)
            if not takes_ids:
                body.topic_names = list(entries)
                return body
            body.topics = [
                cls.DeleteTopicState(name=None, topic_id=entry)
                if isinstance(entry, UUID)
                else cls.DeleteTopicState(name=entry)
                for entry in entries
            ]
            return body

        await self._change_topics(topic_list, to_request, lambda response: response.responses)

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Increase the number of partitions of topics (KIP-195).

        Args:
            counts: total number of partitions afterwards, by topic name.
            assignments: node ids of the replicas of each new partition, by topic name; the controller selects the nodes
                for other topics.
            validate_only: check the changes without applying them.

        Raises:
            OptionError: a topic has an assignment, but no count.
            BrokerError: a topic does not exist, or has as many partitions already (INVALID_PARTITIONS).
        """
        cls = self.settings.message_class("CreatePartitionsRequest")
        replicas_by_topic = assignments or {}
        for name in replicas_by_topic.keys() - counts.keys():
            raise OptionError(f"assignments: topic {name} has no count of partitions")

        def to_topic(name: str) -> Any:
            rows = replicas_by_topic.get(name)
            return cls.CreatePartitionsTopic(
                name=name,
                count=counts[name],
                assignments=None
                if rows is None
                else [cls.CreatePartitionsAssignment(broker_ids=list(node_ids)) for node_ids in rows],
            )

        def to_request(names: Iterable[str]) -> Any:
            body = cls(timeout_ms=self.settings.request_timeout_ms, validate_only=validate_only)
            body.topics = list(map(to_topic, names))
            return body

        await self._change_topics(counts, to_request, lambda response: response.results)

    async def delete_records(self, before: PartitionMapping[int]) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition (KIP-107).

        If a leader has moved, the request is sent to the new one.

        Args:
            before: for each partition, the offset of the first record to keep; -1 deletes all records.

        Returns:
            The log start offset of each partition after the deletion.

        Raises:
            BrokerError: an offset is beyond the high watermark (OFFSET_OUT_OF_RANGE), a partition does not exist, a
                topic is only compacted (POLICY_VIOLATION), or the principal may not delete records.
        """
        cls = self.settings.message_class("DeleteRecordsRequest")
        offsets_by_partition = to_partition_mapping(before)

        async def delete_at_leader(
            leader: Node, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, int | ItemError]:
            topics = group_by_topic(
                partitions,
                lambda entry: cls.DeleteRecordsPartition(
                    partition_index=entry.partition, offset=offsets_by_partition[entry]
                ),
            )
            body = cls(timeout_ms=self.settings.request_timeout_ms)
            body.topics = [cls.DeleteRecordsTopic(name=name, partitions=rows) for name, rows in topics.items()]
            response = await self._cluster.request(leader, body)
            return {
                partition: get_row_error(row, f"partition {partition}") or row.low_watermark
                for partition, row in iterate_partition_rows(response.topics)
            }

        leaders = LeaderLookup(self._cluster)
        return require_success(
            await self._request_items(offsets_by_partition, leaders, delete_at_leader, RETRIABLE_CODES)
        )

    async def list_offsets(
        self, timestamps: PartitionMapping[int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """Return offsets by timestamp (KIP-396).

        Args:
            timestamps: for each partition, a time in milliseconds since 1970, or ``EARLIEST``, ``LATEST`` or
                ``MAX_TIMESTAMP`` of ``kafkaframes.client``.
            isolation_level: with ``read_committed``, ``LATEST`` is the last stable offset, at which consumers with this
                isolation level stop; with ``read_uncommitted``, it is the high watermark.

        Returns:
            The offset of the first record at or after each time; -1 if no such record exists.

        Raises:
            BrokerError: a partition does not exist, or the principal may not describe it.
        """
        times = to_partition_mapping(timestamps)
        check_choice("isolation_level", isolation_level, ("read_uncommitted", "read_committed"))
        read_committed = isolation_level == "read_committed"

        async def list_at_leader(
            leader: Node, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, OffsetAndTimestamp | BrokerError]:
            part = {partition: times[partition] for partition in partitions}
            return await offsets.list_offsets_at_leader(self._cluster, leader, part, read_committed=read_committed)

        results = require_success(
            await self._request_items(times, LeaderLookup(self._cluster), list_at_leader, RETRIABLE_CODES)
        )
        return {partition: entry.offset for partition, entry in results.items()}

    # ----------------------------------------------------------------------------------------------------- settings

    async def describe_configs(
        self, kind: str, name: str, *, keys: Sequence[str] | None = None, include_synonyms: bool = False
    ) -> dict[str, ConfigEntry]:
        """Return the settings of a resource, by name (KIP-133).

        Args:
            kind: key of ``RESOURCES``: ``topic``, ``broker``, ``broker-logger``, ``client-metrics`` or ``group``.
            name: name of a topic, group or client metrics subscription; node id of a broker, as text.
            keys: names of the settings to return; None returns all.
            include_synonyms: whether the entries contain the values of all levels (Kafka 1.1 and later).

        Raises:
            OptionError: the kind is unknown, or a broker's name is not a node id.
            BrokerError: the resource does not exist, or the principal may not describe its configuration.
        """
        check_choice("kind", kind, tuple(RESOURCES))
        cls = self.settings.message_class("DescribeConfigsRequest")
        resource = cls.DescribeConfigsResource(
            resource_type=RESOURCES[kind],
            resource_name=name,
            configuration_keys=None if keys is None else to_list("keys", keys),
        )
        body = cls(resources=[resource], include_synonyms=include_synonyms)
        answer = await self._retry_step(lambda: self._send_config_request(kind, name, body))
        result = require_one_row(answer.results, f"{kind} {name}")
        raise_response_error(result, f"{kind} {name}")
        return {
            entry.name: ConfigEntry(
                entry.name,
                entry.value,
                entry.is_default or entry.config_source == 5,
                entry.read_only,
                entry.is_sensitive,
                entry.config_source,
                tuple(ConfigSynonym(row.name, row.value, row.source) for row in entry.synonyms),
            )
            for entry in result.configs
        }

    async def alter_configs(
        self,
        kind: str,
        name: str,
        changes: Mapping[str, ConfigValue | None] | None = None,
        *,
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a resource; all other settings keep their values (KIP-339).

        Brokers before 2.3 accept whole configurations only: the current settings are read and sent again.

        Args:
            kind: key of ``RESOURCES``, as for ``describe_configs``.
            name: name of a topic, group or client metrics subscription; a broker's node id, or empty for the default
                of all brokers.
            changes: new values by setting; None restores the default.
            append: values to add to settings that are lists, by setting.
            subtract: values to remove from settings that are lists, by setting.
            validate_only: check the changes without applying them.

        Raises:
            OptionError: a setting is specified twice, or is not text, a number or a boolean; brokers before 2.3 cannot
                append or subtract, and would lose a secret value that is not specified.
            BrokerError: a broker rejected the changes; none took effect.
        """
        check_choice("kind", kind, tuple(RESOURCES))
        new_values = {key: _to_config_text(key, value) for key, value in (changes or {}).items()}
        lists = {
            operation: {key: _to_config_text(key, value) for key, value in (values or {}).items()}
            for operation, values in (("append", append), ("subtract", subtract))
        }
        names = [*new_values, *lists["append"], *lists["subtract"]]
        if len(set(names)) < len(names):
            raise OptionError(
                f"a setting is specified twice: {', '.join(sorted({key for key in names if names.count(key) > 1}))}"
            )
        connection = await self._retry_step(self._cluster.get_any_connection)
        if INCREMENTAL_ALTER_CONFIGS in connection.ranges:
            cls = self.settings.message_class("IncrementalAlterConfigsRequest")
            configs = [
                cls.AlterableConfig(
                    name=key, value=value, config_operation=CONFIG_OPERATIONS["delete" if value is None else "set"]
                )
                for key, value in new_values.items()
            ] + [
                cls.AlterableConfig(name=key, value=value, config_operation=CONFIG_OPERATIONS[operation])
                for operation, values in lists.items()
                for key, value in values.items()
            ]
        else:
            if len(names) > len(new_values):
                raise OptionError("`append` and `subtract` need brokers of Kafka 2.3 or later (KIP-339)")
            cls = self.settings.message_class("AlterConfigsRequest")
            current_entries = await self.describe_configs(kind, name)
            own_entries = [entry for entry in current_entries.values() if _is_own_value(entry, kind, name)]
            for entry in own_entries:
                if entry.is_sensitive and entry.name not in new_values:
                    raise OptionError(
                        f"brokers before Kafka 2.3 would lose the secret value of {entry.name}; specify it as well"
                    )
            whole = {entry.name: entry.value for entry in own_entries} | new_values
            configs = [cls.AlterableConfig(name=key, value=value) for key, value in whole.items() if value is not None]
        resource = cls.AlterConfigsResource(resource_type=RESOURCES[kind], resource_name=name, configs=configs)
        body = cls(resources=[resource], validate_only=validate_only)

        async def send_changes() -> Any:
            answer = await self._send_config_request(kind, name, body)
            row = require_one_row(answer.responses, f"{kind} {name}")
            if row.error_code == ErrorCode.NOT_CONTROLLER:
                raise_response_error(row, f"{kind} {name}")
            return row

        raise_response_error(await self._retry_step(send_changes), f"{kind} {name}")

    async def _send_config_request(self, kind: str, name: str, body: Message) -> Any:
        """Send a request about a broker's settings to that broker, and other requests to any broker."""
        broker = None
        if kind.startswith("broker") and name:
            if not name.isdecimal():
                raise OptionError(f"name is {name!r}; expected a broker's node id")
            broker = await self._find_broker(int(name))
        return await self._cluster.request(broker, body)

    # ------------------------------------------------------------------------------------------------------- groups

    async def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """Return the groups of all coordinators, sorted by id.

        Args:
            states: states to return, such as ``Stable`` or ``Empty`` (KIP-518, Kafka 2.6 and later); empty selects all.
            types: types to return: ``classic``, ``consumer``, ``share``, ``streams`` (KIP-848, Kafka 3.8 and later);
                empty selects all.

        Raises:
            OptionError: a state or type does not exist, or a broker does not support a filter and would return all
                groups.
            BrokerError: a coordinator rejected the request.
        """
        cls = self.settings.message_class("ListGroupsRequest")
        body = cls(states_filter=to_list("states", states), types_filter=to_list("types", types))
        for setting, values, choices in (
            ("states", body.states_filter, _GROUP_STATES),
            ("types", body.types_filter, _GROUP_TYPES),
        ):
            for value in values:
                if value.lower() not in map(str.lower, choices):
                    raise OptionError(f"{setting}: {value!r} does not exist; expected one of {', '.join(choices)}")

        def check_version(broker: Node, version: int) -> None:
            for setting, values, first in (("states", body.states_filter, 4), ("types", body.types_filter, 5)):
                if values and version < first:
                    raise OptionError(f"{setting} is not supported by broker {broker.node_id}: its release is too old")

        groups: dict[str, ListedGroup] = {}
        for _, response in await self._send_to_every_broker(body, "groups", check_version):
            for entry in response.groups:
                groups[entry.group_id] = ListedGroup(
                    entry.group_id, entry.protocol_type, entry.group_state, entry.group_type
                )
        return [groups[name] for name in sorted(groups)]

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return the state and the members of a classic or consumer group.

        Args:
            group_id: id of the group.

        Raises:
            BrokerError: the principal may not describe the group, or it does not exist (brokers of 4.0 and later; older
                brokers return the state ``Dead``).
        """
        match = await self._request_consumer_group(group_id)
        return (
            _to_classic_group(await self._request_classic_group(group_id))
            if match is None
            else _to_consumer_group(match)
        )

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups that have no members (KIP-229).

        Args:
            group_ids: ids of groups of any type.

        Raises:
            BrokerError: a group has members (NON_EMPTY_GROUP), or does not exist. Groups without an error were deleted.
        """
        cls = self.settings.message_class("DeleteGroupsRequest")

        async def delete_at_coordinator(coordinator: Node, names: list[str]) -> dict[str, ItemError | None]:
            response = await self._cluster.request(coordinator, cls(groups_names=names))
            return {row.group_id: get_row_error(row, f"group {row.group_id}") for row in response.results}

        coordinators = CoordinatorLookup(self._cluster)
        require_success(
            await self._request_items(
                to_list("group_ids", group_ids), coordinators, delete_at_coordinator, COORDINATOR_MOVED_CODES
            )
        )

    async def group_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of a group.

        Args:
            group_id: id of a consumer or streams group.
            partitions: partitions to return; None selects every partition with a committed offset.

        Returns:
            The committed offset of each partition that has one.

        Raises:
            BrokerError: the principal may not describe the group.
        """
        if partitions is None:
            return await self._retry_step(
                lambda: group_offsets.request_committed_offsets(self._cluster, group_id, None, stable=False)
            )

        async def fetch_offsets(
            _: Node, entries: list[TopicPartition]
        ) -> Mapping[TopicPartition, CommittedOffset | BrokerError | None]:
            return await group_offsets.fetch_offset_rows(self._cluster, group_id, entries, stable=False)

        coordinator = CoordinatorLookup(self._cluster, key=group_id)
        results = await self._request_items(
            to_partitions(partitions), coordinator, fetch_offsets, _RETRIABLE_FETCH_CODES
        )
        committed_offsets = require_success(results)
        return {partition: offset for partition, offset in committed_offsets.items() if offset is not None}

    async def alter_group_offsets(self, group_id: str, offsets: PartitionMapping[CommittedOffset | int]) -> None:
        """Commit offsets for a group without members (KIP-396).

        Args:
            group_id: id of a consumer or streams group. A group that does not exist is created.
            offsets: for each partition, the offset of the next record to read, or a ``CommittedOffset``.

        Raises:
            OptionError: an offset is negative.
            BrokerError: the group has members (UNKNOWN_MEMBER_ID), or the principal may not read it.
        """
        commits = group_offsets.check_offsets(to_partition_mapping(offsets))

        async def commit_at_coordinator(
            _: Node, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, BrokerError | None]:
            part = {partition: commits[partition] for partition in partitions}
            results = await group_offsets.commit_offset_rows(self._cluster, GroupMember(group_id), part)
            return {partition: _explain_members(partition, group_id, error) for partition, error in results.items()}

        coordinator = CoordinatorLookup(self._cluster, key=group_id)
        require_success(await self._request_items(commits, coordinator, commit_at_coordinator, _RETRIABLE_COMMIT_CODES))

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[PartitionLike]) -> None:
        """Delete committed offsets of a group (KIP-496).

        Args:
            group_id: id of a consumer or streams group.
            partitions: partitions of topics to which no member subscribes.

        Raises:
            BrokerError: a member subscribes to a topic (GROUP_SUBSCRIBED_TO_TOPIC), or the group does not exist.
        """
        cls = self.settings.message_class("OffsetDeleteRequest")
        partition_list = to_partitions(partitions)
        topics = group_by_topic(
            partition_list, lambda at: cls.OffsetDeleteRequestPartition(partition_index=at.partition)
        )
        body = cls(group_id=group_id)
        body.topics = [cls.OffsetDeleteRequestTopic(name=name, partitions=all_) for name, all_ in topics.items()]
        answer = await self._send_to_coordinator(group_id, body, f"group {group_id}", lambda entry: entry.error_code)
        raise_response_error(answer, f"group {group_id}")
        results = {
            partition: get_row_error(row, f"offset of {partition}")
            for partition, row in iterate_partition_rows(answer.topics)
        }
        require_success(results, partition_list)

    # -------------------------------------------------------------------------------------------- delegation tokens

    async def create_delegation_token(
        self, renewers: Iterable[str] = (), *, owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a delegation token (KIP-48).

        Args:
            renewers: principals that may renew the token in addition to its owner, such as ``User:bob``.
            owner: principal that the token authenticates; None selects this client's principal. Another principal
                requires Kafka 3.3 or later (KIP-373).
            max_lifetime_ms: duration after which the token cannot be renewed, in milliseconds; -1 selects the brokers'
                maximum.

        Raises:
            OptionError: a principal is not of the form ``User:name``.
            BrokerError: brokers have no ``delegation.token.secret.key``, or the principal may not create tokens.
        """
        cls = self.settings.message_class("CreateDelegationTokenRequest")
        rows = [cls.CreatableRenewers(**_split_principal("", entry)) for entry in to_list("renewers", renewers)]
        body = cls(renewers=rows, max_lifetime_ms=max_lifetime_ms, **_split_principal("owner_", owner) if owner else {})
        answer = await self._send_to_any_broker(body, "delegation token", retriable=())
        return _to_token(answer, [_format_principal(row) for row in rows], "_ms")

    async def renew_delegation_token(self, hmac: bytes, *, renew_period_ms: int = -1) -> int:
        """Extend the life of a token, and return when it expires, in milliseconds since 1970.

        Args:
            hmac: HMAC of the token.
            renew_period_ms: time from now until the token expires, in milliseconds; -1 selects the brokers' default.

        Raises:
            OptionError: ``hmac`` is text.
            BrokerError: the token does not exist or has expired, or the principal may not renew it.
        """
        _check_hmac(hmac)
        body = self.settings.message_class("RenewDelegationTokenRequest")(hmac=hmac, renew_period_ms=renew_period_ms)
        return int((await self._send_to_any_broker(body, "delegation token", retriable=())).expiry_timestamp_ms)

    async def expire_delegation_token(self, hmac: bytes, *, expiry_period_ms: int = -1) -> int:
        """Change when a token expires, and return that time, in milliseconds since 1970.

        Args:
            hmac: HMAC of the token.
            expiry_period_ms: time from now until the token expires, in milliseconds; -1 deletes the token at once.

        Raises:
            OptionError: ``hmac`` is text.
            BrokerError: the token does not exist, or the principal may not expire it.
        """
        _check_hmac(hmac)
        body = self.settings.message_class("ExpireDelegationTokenRequest")(
            hmac=hmac, expiry_time_period_ms=expiry_period_ms
        )
        return int((await self._send_to_any_broker(body, "delegation token", retriable=())).expiry_timestamp_ms)

    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Return the tokens that the principal may describe.

        Args:
            owners: principals that own or may renew the returned tokens; None selects every principal.

        Raises:
            OptionError: a principal is not of the form ``User:name``.
            BrokerError: brokers have no ``delegation.token.secret.key``.
        """
        cls = self.settings.message_class("DescribeDelegationTokenRequest")
        rows = (
            None
            if owners is None
            else [
                cls.DescribeDelegationTokenOwner(**_split_principal("", owner)) for owner in to_list("owners", owners)
            ]
        )
        answer = await self._send_to_any_broker(cls(owners=rows), "delegation tokens", retriable=())
        return [_to_token(entry, [_format_principal(row) for row in entry.renewers], "") for entry in answer.tokens]

    # ------------------------------------------------------------------------------------------------------- asking

    async def _change_topics(
        self,
        items: Iterable[TopicItem],
        to_request: Callable[[list[TopicItem]], Any],
        get_rows: Callable[[Any], Iterable[Any]],
    ) -> None:
        """Send a topic change to the controller.

        Send the change again for topics that exceed the mutation quota (KIP-599).

        Args:
            items: topic names or topic ids.
            to_request: function that returns the request for some of the topics.
            get_rows: function that returns the response's rows, one for each topic.
        """

        async def send_change(controller: Node, topics: list[TopicItem]) -> dict[Any, BrokerError | None]:
            response = await self._cluster.request(controller, to_request(topics))
            results: dict[Any, BrokerError | None] = {}
            for row in get_rows(response):
                error = get_row_error(row, f"topic {row.name or row.topic_id}")
                if isinstance(error, QuotaExceededError):
                    error.throttle_time_ms = response.throttle_time_ms
                self._cluster.cluster.topics.pop(row.name, None)
                results |= dict.fromkeys((row.name, getattr(row, "topic_id", None)), error)
            return {topic: results[topic] for topic in topics if topic in results}

        controller = ControllerLookup(self._cluster)
        require_success(await self._request_items(items, controller, send_change, RETRIABLE_CONTROLLER_CODES))


def _is_own_value(entry: ConfigEntry, kind: str, name: str) -> bool:
    """Return whether a resource itself has the value: neither a default, nor a broker's static configuration."""
    if entry.is_read_only:
        return False
    if entry.source <= 0:  # brokers before Kafka 1.1 do not report sources
        return not entry.is_default
    return entry.source == (_TOPIC_SOURCE if kind == "topic" else _BROKER_SOURCE if name else _DEFAULT_BROKER_SOURCE)


def _to_config_text(name: str, value: ConfigValue | None) -> str | None:
    """Return a setting's value as text that brokers can parse."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is not None and not isinstance(value, (str, int, float)):
        raise OptionError(f"{name} is {value!r}; expected text, a number or a boolean")
    return None if value is None else str(value)


def _explain_members(partition: TopicPartition, group_id: str, error: BrokerError | None) -> BrokerError | None:
    """Return an error that names the reason if a coordinator rejects a commit because the group has members."""
    if error is None or error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return error
    reason = f"group {group_id} has members; stop its consumers first"
    return to_broker_error(error.code, f"commit of {partition} for group {group_id}", reason)


def _split_principal(prefix: str, text: str) -> dict[str, str]:
    """Return the fields of a principal such as ``User:alice``."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise OptionError(f"principal {text!r} is not of the form User:name")
    return {f"{prefix}principal_type": kind, f"{prefix}principal_name": name}


def _check_hmac(hmac: bytes) -> None:
    """Reject the base64 text of an HMAC. The error does not contain the HMAC, because the HMAC is secret."""
    if not isinstance(hmac, bytes):
        raise OptionError("hmac is not bytes; pass the token's `hmac`, or decode its base64 text")


def _format_principal(row: Any, prefix: str = "") -> str:
    kind, name = getattr(row, f"{prefix}principal_type"), getattr(row, f"{prefix}principal_name")
    return f"{kind}:{name}" if name else ""


def _to_token(answer: Any, renewers: Iterable[str], unit: str) -> DelegationToken:
    """Return a token from the fields of a CreateDelegationToken or DescribeDelegationToken response."""
    owner, requester = _format_principal(answer), _format_principal(answer, "token_requester_")
    times = (getattr(answer, f"{name}_timestamp{unit}") for name in ("issue", "expiry", "max"))
    return DelegationToken(answer.token_id, answer.hmac, owner, requester, tuple(renewers), *times)


def _to_classic_group(match: Any) -> GroupDescription:
    members = tuple(
        _to_member_description(entry, entry.group_instance_id, _decode_assignment(entry.member_assignment))
        for entry in match.members
    )
    return GroupDescription(match.group_id, match.group_state, match.protocol_type, match.protocol_data, members)


def _to_consumer_group(match: Any) -> GroupDescription:
    members = tuple(
        _to_member_description(
            entry, entry.instance_id, [(row.topic_name, row.partitions) for row in entry.assignment.topic_partitions]
        )
        for entry in match.members
    )
    return GroupDescription(match.group_id, match.group_state, "consumer", match.assignor_name, members)


def _to_member_description(
    entry: Any, instance_id: str | None, assignment: Iterable[tuple[str, Iterable[int]]]
) -> MemberDescription:
    partitions = tuple(TopicPartition(topic, number) for topic, numbers in assignment for number in numbers)
    return MemberDescription(entry.member_id, instance_id, entry.client_id, entry.client_host, partitions)


def _decode_assignment(data: bytes) -> list[tuple[str, list[int]]]:
    """Return a member's partitions. Assignments of other protocols, such as Connect's, cannot be decoded."""
    try:
        match, _ = decode_versioned("ConsumerProtocolAssignment", data)
    except KafkaframesError:
        return []
    return [(topic.topic, topic.partitions) for topic in match.assigned_partitions]
