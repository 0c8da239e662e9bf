"""A call of each method of ``Admin``, with the request that it sends and the codes after which Java sends it again.

The retriable codes are those of ``KafkaAdminClient`` and its handlers in Apache Kafka 4.3.1. A call can be repeated:
its preparation restores the state that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.waiting import wait_for

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import (
    EARLIEST,
    AclBinding,
    AclFilter,
    Admin,
    Consumer,
    Endpoint,
    FeatureUpdate,
    NewTopic,
    Producer,
    QuotaEntity,
    Replica,
    ScramCredential,
    TopicPartition,
)
from kafkaframes.errors import BrokerError, ErrorCode, KafkaframesError

TOPIC, GROUP, SHARE_GROUP, STREAMS_GROUP, TRANSACTIONAL_ID = "orders", "billing", "queue", "app", "payments"
PARTITION, MOVING = TopicPartition(TOPIC, 0), TopicPartition("moving", 0)
USER = QuotaEntity(user="alice")
RULE = AclBinding("topic", TOPIC, "User:alice", "read")
CREDENTIAL = ScramCredential("alice", "a secret")
LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
ROOT = {**LOGIN, "sasl_username": "root", "sasl_password": "r"}
STRANGER = {**LOGIN, "sasl_username": "stranger", "sasl_password": "s"}

CONTROLLER_MOVED = frozenset({"NOT_CONTROLLER"})
COORDINATOR_MOVED = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
LOADING = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"})
NEVER: frozenset[str] = frozenset()


def start_broker(nodes: int = 3) -> Broker:
    """Return a broker with two users: ``root`` with all permissions and ``stranger`` without any."""
    security = Security(mechanisms=("PLAIN",), authorizer=True, users={"root": "r", "stranger": "s"})
    config: dict[str, str | int] = {
        "node.id": 0,
        "super.users": "User:root",
        "delegation.token.secret.key": "secret",
        "group.initial.rebalance.delay.ms": 0,
    }
    return Broker(cluster=nodes, config=config, security=security)


class AdminCallFixture:
    """A cluster, and a client that prepares its state before each call.

    Attributes:
        servers: bootstrap servers.
        login: connection settings of a user with all permissions.
        broker: the embedded broker; None for a Kafka cluster.
        root: a client with all permissions.
        node_ids: ids of all nodes.
    """

    def __init__(self, servers: str, broker: Broker | None = None, login: Mapping[str, Any] = ROOT) -> None:
        self.servers = servers
        self.login = login
        self.root = Admin(servers, **login, retry_backoff_ms=1, reconnect_backoff_ms=1)
        if broker is not None:
            self.broker = broker
        self.node_ids = [node.node_id for node in self.root.list_brokers()]
        self.token = b""
        self.producers: list[Producer] = []
        self.open_partition = PARTITION
        self.producer_state = (0, 0)
        self.new_topic = NewTopic("new", 1, len(self.node_ids))
        self.root.create_topics([NewTopic(TOPIC, 1, len(self.node_ids))])
        with Producer(servers, **login, transactional_id=TRANSACTIONAL_ID) as producer:
            producer.begin_transaction()
            producer.send(TOPIC, b"1")
            producer.commit_transaction()

    def close(self) -> None:
        """Close the clients."""
        for producer in self.producers:
            producer.close(timeout_ms=0)
        self.root.close()

    def drop_topic(self, name: str) -> None:
        """Delete a topic if it exists."""
        if name in self.root.list_topics():
            self.root.delete_topics([name])
            wait_for(lambda: name not in self.root.list_topics())

    def create_topic(self, name: str) -> None:
        """Create a topic with one partition again."""
        self.drop_topic(name)
        self.root.create_topics([NewTopic(name, 1, self.new_topic.replication_factor)])
        wait_for(lambda: name in self.root.list_topics())

    def create_topic_on_one_node(self) -> None:
        """Create a topic with its only replica on the second node."""
        self.create_topic("moving")
        self.root.alter_partition_reassignments({MOVING: [self.node_ids[1 % len(self.node_ids)]]})
        wait_for(lambda: not self.root.list_partition_reassignments())

    def create_token(self) -> None:
        """Create a delegation token."""
        self.token = self.root.create_delegation_token().hmac

    def commit(self, group: str = GROUP) -> None:
        """Commit an offset of a group, which creates the group."""
        self.root.alter_group_offsets(group, {PARTITION: 1})

    def share(self) -> None:
        """Set the start offset of a share group, which creates the group."""
        self.root.alter_share_group_offsets(SHARE_GROUP, {PARTITION: 0})

    def add_streams_member(self) -> None:
        """Add a member to a streams group, which creates the group."""
        self._send_streams_heartbeat(0)

    def remove_streams_member(self) -> None:
        """Remove the member from the streams group."""
        self._send_streams_heartbeat(-1)

    def _send_streams_heartbeat(self, member_epoch: int) -> None:
        twin = self.root._twin
        cls = twin.settings.message_class("StreamsGroupHeartbeatRequest")
        body = cls(group_id=STREAMS_GROUP, member_id="m", member_epoch=member_epoch)
        if member_epoch == 0:
            body.topology = cls.Topology(subtopologies=[cls.Subtopology(subtopology_id="0", source_topics=[TOPIC])])
            body.process_id, body.rebalance_timeout_ms = "p", 60_000
            body.active_tasks, body.standby_tasks, body.warmup_tasks = [], [], []

        async def send() -> None:
            response = await twin._cluster.send_to_coordinator(STREAMS_GROUP, body)
            if response.error_code != ErrorCode.FENCED_MEMBER_EPOCH:  # the member exists
                twin._cluster.check_coordinator(response.error_code, "member", STREAMS_GROUP)

        self.root._loop.call(twin._cluster.retry_step(send))

    def open_transaction(self) -> None:
        """Open a transaction in a new topic, and store its producer."""
        name = f"open-{len(self.producers)}"
        self.create_topic(name)
        producer = Producer(self.servers, **self.login, transactional_id=name)
        self.producers.append(producer)
        producer.begin_transaction()
        producer.send(name, b"1").result()
        self.open_partition = TopicPartition(name, 0)
        (state,) = self.root.describe_producers([self.open_partition])[self.open_partition]
        self.producer_state = state.producer_id, state.producer_epoch

    def add_static_member(self) -> None:
        """Add a static member to a classic group; it stays in the group when its consumer is closed."""
        options = {"group_id": "members", "group_protocol": "classic", "group_instance_id": "first"}
        with Consumer(self.servers, **self.login, **options) as consumer:
            consumer.subscribe([TOPIC])
            wait_for(lambda: consumer.poll(10) is not None and consumer.assignment())


class AdminCall(NamedTuple):
    """A call of a method of ``Admin``.

    Attributes:
        run: calls the method.
        api: API of the request that does the work; empty if the method sends no request.
        target: node that gets the request: ``leader``, ``group`` or ``transaction`` (their coordinators),
        ``controller``, ``broker`` (the broker in the arguments), ``every`` or ``any``.
        key: group or transactional id whose coordinator gets the request.
        retriable: error codes after which the request is sent again.
        is_change: whether a repeated request may fail or take effect twice. Other requests, such as queries and
            DeleteRecords, may be sent again after any retriable code.
        prepare: restores the state that the call needs.
        check: returns whether the result and the state of the cluster are as expected.
        expected: error code that the embedded broker returns even with all rights.
        denied: error code for a user without permissions; None if the result is empty instead.
    """

    run: Callable[[Admin, AdminCallFixture], Any]
    api: str
    target: str
    retriable: frozenset[str] = NEVER
    key: str = ""
    is_change: bool = False
    prepare: Callable[[AdminCallFixture], Any] = lambda scene: None
    check: Callable[[AdminCallFixture, Any], object] = lambda scene, result: True
    expected: str = ""
    denied: str | None = "CLUSTER_AUTHORIZATION_FAILED"


def _settings(scene: AdminCallFixture) -> Any:
    return {name: entry.value for name, entry in scene.root.describe_configs("topic", TOPIC).items()}


_LEADER = frozenset({"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"})
CALLS: dict[str, AdminCall] = {
    "metrics": AdminCall(lambda admin, _: admin.metrics(), "", "any", denied=None),
    "client_instance_id": AdminCall(  # tests/client/telemetry tests its requests
        lambda admin, _: admin.client_instance_id(),
        "",
        "any",
        prepare=lambda scene: scene.root.alter_configs("client-metrics", "slow", {"interval.ms": "60000"}),
        check=lambda _, result: result.int,
        denied=None,
    ),
    "close": AdminCall(lambda admin, _: admin.close(), "", "any", denied=None),
    "describe_cluster": AdminCall(
        lambda admin, _: admin.describe_cluster(),
        "Metadata",
        "any",
        check=lambda scene, result: len(result.brokers) == len(scene.node_ids),
        denied=None,
    ),
    "list_topics": AdminCall(
        lambda admin, _: admin.list_topics(), "Metadata", "any", check=lambda _, result: TOPIC in result, denied=None
    ),
    "describe_topics": AdminCall(
        lambda admin, _: admin.describe_topics([TOPIC]),
        "Metadata",
        "any",
        check=lambda _, result: result[TOPIC].partitions[0].leader >= 0,
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "create_topics": AdminCall(
        lambda admin, scene: admin.create_topics([scene.new_topic]),
        "CreateTopics",
        "controller",
        CONTROLLER_MOVED | {"THROTTLING_QUOTA_EXCEEDED"},
        is_change=True,
        prepare=lambda scene: scene.drop_topic("new"),
        check=lambda scene, _: "new" in scene.root.list_topics(),
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "delete_topics": AdminCall(
        lambda admin, _: admin.delete_topics(["old"]),
        "DeleteTopics",
        "controller",
        CONTROLLER_MOVED | {"THROTTLING_QUOTA_EXCEEDED"},
        is_change=True,
        prepare=lambda scene: scene.create_topic("old"),
        check=lambda scene, _: "old" not in scene.root.list_topics(),
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "create_partitions": AdminCall(
        lambda admin, _: admin.create_partitions({"growing": 2}),
        "CreatePartitions",
        "controller",
        CONTROLLER_MOVED | {"THROTTLING_QUOTA_EXCEEDED"},
        is_change=True,
        prepare=lambda scene: scene.create_topic("growing"),
        check=lambda scene, _: len(scene.root.describe_topics(["growing"])["growing"].partitions) == 2,
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "delete_records": AdminCall(
        lambda admin, _: admin.delete_records({PARTITION: 0}),
        "DeleteRecords",
        "leader",
        _LEADER | {"REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "KAFKA_STORAGE_ERROR", "FENCED_LEADER_EPOCH"},
        check=lambda _, result: result == {PARTITION: 0},
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "list_offsets": AdminCall(
        lambda admin, _: admin.list_offsets({PARTITION: EARLIEST}),
        "ListOffsets",
        "leader",
        _LEADER | {"OFFSET_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR", "UNKNOWN_LEADER_EPOCH"},
        check=lambda _, result: result == {PARTITION: 0},
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "describe_configs": AdminCall(
        lambda admin, _: admin.describe_configs("topic", TOPIC),
        "DescribeConfigs",
        "any",
        check=lambda _, result: "retention.ms" in result,
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "alter_configs": AdminCall(
        lambda admin, _: admin.alter_configs("topic", TOPIC, {"retention.ms": "70000"}),
        "IncrementalAlterConfigs",
        "any",
        CONTROLLER_MOVED,
        is_change=True,
        prepare=lambda scene: scene.root.alter_configs("topic", TOPIC, {"retention.ms": None}),
        check=lambda scene, _: _settings(scene)["retention.ms"] == "70000",
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "list_groups": AdminCall(
        lambda admin, _: admin.list_groups(),
        "ListGroups",
        "every",
        LOADING,
        prepare=lambda scene: scene.commit(),
        check=lambda _, result: GROUP in [group.group_id for group in result],
        denied=None,
    ),
    "describe_group": AdminCall(
        lambda admin, _: admin.describe_group(GROUP),
        "DescribeGroups",
        "group",
        COORDINATOR_MOVED,
        GROUP,
        prepare=lambda scene: scene.commit(),
        check=lambda _, result: result.state == "Empty",
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "delete_groups": AdminCall(
        lambda admin, _: admin.delete_groups(["gone"]),
        "DeleteGroups",
        "group",
        COORDINATOR_MOVED,
        "gone",
        is_change=True,
        prepare=lambda scene: scene.commit("gone"),
        check=lambda scene, _: "gone" not in [group.group_id for group in scene.root.list_groups()],
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "group_offsets": AdminCall(
        lambda admin, _: admin.group_offsets(GROUP),
        "OffsetFetch",
        "group",
        COORDINATOR_MOVED,
        GROUP,
        prepare=lambda scene: scene.commit(),
        check=lambda _, result: result[PARTITION].offset == 1,
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "alter_group_offsets": AdminCall(
        lambda admin, _: admin.alter_group_offsets(GROUP, {PARTITION: 0}),
        "OffsetCommit",
        "group",
        COORDINATOR_MOVED | {"REBALANCE_IN_PROGRESS"},
        GROUP,
        is_change=True,
        prepare=lambda scene: scene.commit(),
        check=lambda scene, _: scene.root.group_offsets(GROUP)[PARTITION].offset == 0,
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "delete_group_offsets": AdminCall(
        lambda admin, _: admin.delete_group_offsets(GROUP, [PARTITION]),
        "OffsetDelete",
        "group",
        COORDINATOR_MOVED,
        GROUP,
        is_change=True,
        prepare=lambda scene: scene.commit(),
        check=lambda scene, _: scene.root.group_offsets(GROUP) == {},
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "create_delegation_token": AdminCall(
        lambda admin, _: admin.create_delegation_token(),
        "CreateDelegationToken",
        "any",
        is_change=True,
        check=lambda _, result: result.owner == "User:root",
        denied=None,
    ),
    "renew_delegation_token": AdminCall(
        lambda admin, scene: admin.renew_delegation_token(scene.token),
        "RenewDelegationToken",
        "any",
        is_change=True,
        prepare=lambda scene: scene.create_token(),
        check=lambda _, result: result > 0,
        denied="DELEGATION_TOKEN_OWNER_MISMATCH",
    ),
    "expire_delegation_token": AdminCall(
        lambda admin, scene: admin.expire_delegation_token(scene.token),
        "ExpireDelegationToken",
        "any",
        is_change=True,
        prepare=lambda scene: scene.create_token(),
        check=lambda scene, _: scene.token not in [token.hmac for token in scene.root.describe_delegation_token()],
        denied="DELEGATION_TOKEN_OWNER_MISMATCH",
    ),
    "describe_delegation_token": AdminCall(
        lambda admin, _: admin.describe_delegation_token(),
        "DescribeDelegationToken",
        "any",
        prepare=lambda scene: scene.create_token(),
        check=lambda scene, result: scene.token in [token.hmac for token in result],
        denied=None,
    ),
    "describe_acls": AdminCall(
        lambda admin, _: admin.describe_acls(AclFilter(principal="User:alice")),
        "DescribeAcls",
        "any",
        prepare=lambda scene: scene.root.create_acls([RULE]),
        check=lambda _, result: result == [RULE],
    ),
    "create_acls": AdminCall(
        lambda admin, _: admin.create_acls([RULE]),
        "CreateAcls",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        prepare=lambda scene: scene.root.delete_acls([AclFilter(principal="User:alice")]),
        check=lambda scene, _: scene.root.describe_acls(AclFilter(principal="User:alice")) == [RULE],
    ),
    "delete_acls": AdminCall(
        lambda admin, _: admin.delete_acls([AclFilter(principal="User:alice")]),
        "DeleteAcls",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        prepare=lambda scene: scene.root.create_acls([RULE]),
        check=lambda scene, _: scene.root.describe_acls(AclFilter(principal="User:alice")) == [],
    ),
    "authorized_operations": AdminCall(
        lambda admin, _: admin.authorized_operations("group", GROUP),
        "DescribeGroups",
        "group",
        COORDINATOR_MOVED,
        GROUP,
        prepare=lambda scene: scene.commit(),
        check=lambda _, result: "read" in result,
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "describe_user_scram_credentials": AdminCall(
        lambda admin, _: admin.describe_user_scram_credentials(["alice"]),
        "DescribeUserScramCredentials",
        "any",
        prepare=lambda scene: scene.root.alter_user_scram_credentials([CREDENTIAL]),
        check=lambda _, result: list(result) == ["alice"],
    ),
    "alter_user_scram_credentials": AdminCall(
        lambda admin, _: admin.alter_user_scram_credentials([CREDENTIAL]),
        "AlterUserScramCredentials",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        check=lambda scene, _: "alice" in scene.root.describe_user_scram_credentials(),
    ),
    "describe_client_quotas": AdminCall(
        lambda admin, _: admin.describe_client_quotas(user="alice"),
        "DescribeClientQuotas",
        "any",
        prepare=lambda scene: scene.root.alter_client_quotas({USER: {"producer_byte_rate": 1.0}}),
        check=lambda _, result: result == {USER: {"producer_byte_rate": 1.0}},
    ),
    "alter_client_quotas": AdminCall(
        lambda admin, _: admin.alter_client_quotas({USER: {"producer_byte_rate": 2.0}}),
        "AlterClientQuotas",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        check=lambda scene, _: scene.root.describe_client_quotas(user="alice") == {USER: {"producer_byte_rate": 2.0}},
    ),
    "elect_leaders": AdminCall(
        lambda admin, _: admin.elect_leaders([MOVING]),
        "ElectLeaders",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        prepare=lambda scene: scene.create_topic_on_one_node(),
        check=lambda _, result: result == {MOVING: False},
    ),
    "alter_partition_reassignments": AdminCall(
        lambda admin, scene: admin.alter_partition_reassignments({MOVING: [scene.node_ids[-1]]}),
        "AlterPartitionReassignments",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        prepare=lambda scene: scene.create_topic_on_one_node(),
        check=lambda scene, _: (
            scene.root.describe_topics(["moving"])["moving"].partitions[0].replicas == (scene.node_ids[-1],)
        ),
    ),
    "list_partition_reassignments": AdminCall(
        lambda admin, _: admin.list_partition_reassignments(),
        "ListPartitionReassignments",
        "controller",
        CONTROLLER_MOVED,
        check=lambda _, result: result == {},
    ),
    "describe_log_dirs": AdminCall(
        lambda admin, _: admin.describe_log_dirs(),
        "DescribeLogDirs",
        "every",
        check=lambda scene, result: len(result) == len(scene.node_ids),
    ),
    "describe_replica_log_dirs": AdminCall(
        lambda admin, scene: admin.describe_replica_log_dirs([Replica(TOPIC, 0, scene.node_ids[0])]),
        "DescribeLogDirs",
        "broker",
        check=lambda scene, result: len(result[Replica(TOPIC, 0, scene.node_ids[0])]) == 1,
    ),
    "alter_replica_log_dirs": AdminCall(
        lambda admin, scene: admin.alter_replica_log_dirs({Replica(TOPIC, 0, scene.node_ids[0]): "/missing"}),
        "AlterReplicaLogDirs",
        "broker",
        is_change=True,
        expected="LOG_DIR_NOT_FOUND",
    ),
    "list_brokers": AdminCall(
        lambda admin, _: admin.list_brokers(),
        "DescribeCluster",
        "any",
        check=lambda scene, result: len(result) == len(scene.node_ids),
        denied=None,
    ),
    "unregister_broker": AdminCall(
        lambda admin, _: admin.unregister_broker(99),
        "UnregisterBroker",
        "any",
        frozenset({"REQUEST_TIMED_OUT"}),
        is_change=True,
        expected="UNSUPPORTED_VERSION",
        denied="UNSUPPORTED_VERSION",
    ),
    "describe_features": AdminCall(
        lambda admin, _: admin.describe_features(),
        "ApiVersions",
        "any",
        check=lambda _, result: "metadata.version" in result.supported,
        denied=None,
    ),
    "update_features": AdminCall(
        lambda admin, _: admin.update_features({"no.such.feature": FeatureUpdate(7)}),
        "UpdateFeatures",
        "controller",
        CONTROLLER_MOVED,
        is_change=True,
        expected="INVALID_UPDATE_VERSION",
    ),
    "describe_quorum": AdminCall(
        lambda admin, _: admin.describe_quorum(),
        "DescribeQuorum",
        "any",
        CONTROLLER_MOVED | {"LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER"},
        check=lambda _, result: len(result.voters) >= 1,
    ),
    "add_raft_voter": AdminCall(
        lambda admin, _: admin.add_raft_voter(9, UUID(int=9), [Endpoint("CONTROLLER", "127.0.0.1", 9)]),
        "AddRaftVoter",
        "any",
        CONTROLLER_MOVED,
        is_change=True,
        expected="UNSUPPORTED_VERSION",
        denied="UNSUPPORTED_VERSION",
    ),
    "remove_raft_voter": AdminCall(
        lambda admin, _: admin.remove_raft_voter(9, UUID(int=9)),
        "RemoveRaftVoter",
        "any",
        CONTROLLER_MOVED,
        is_change=True,
        expected="UNSUPPORTED_VERSION",
        denied="UNSUPPORTED_VERSION",
    ),
    "list_config_resources": AdminCall(
        lambda admin, _: admin.list_config_resources(["client-metrics"]),
        "ListConfigResources",
        "any",
        prepare=lambda scene: scene.root.alter_configs("client-metrics", "slow", {"interval.ms": "60000"}),
        check=lambda _, result: [resource.name for resource in result] == ["slow"],
    ),
    "list_transactions": AdminCall(
        lambda admin, _: admin.list_transactions(),
        "ListTransactions",
        "every",
        LOADING,
        check=lambda _, result: TRANSACTIONAL_ID in [entry.transactional_id for entry in result],
        denied=None,
    ),
    "describe_transactions": AdminCall(
        lambda admin, _: admin.describe_transactions([TRANSACTIONAL_ID]),
        "DescribeTransactions",
        "transaction",
        COORDINATOR_MOVED,
        TRANSACTIONAL_ID,
        check=lambda _, result: list(result) == [TRANSACTIONAL_ID],
        denied="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "describe_producers": AdminCall(
        lambda admin, _: admin.describe_producers([PARTITION]),
        "DescribeProducers",
        "leader",
        _LEADER,
        check=lambda _, result: len(result[PARTITION]) == 1,
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "abort_transaction": AdminCall(
        lambda admin, scene: admin.abort_transaction(scene.open_partition, *scene.producer_state),
        "WriteTxnMarkers",
        "leader",
        _LEADER | {"REPLICA_NOT_AVAILABLE", "BROKER_NOT_AVAILABLE"},
        is_change=True,
        prepare=lambda scene: scene.open_transaction(),
        check=lambda scene, _: (
            scene.root.describe_producers([scene.open_partition])[scene.open_partition][0].transaction_start_offset
            is None
        ),
        denied="TOPIC_AUTHORIZATION_FAILED",
    ),
    "force_terminate_transaction": AdminCall(
        lambda admin, _: admin.force_terminate_transaction(TRANSACTIONAL_ID),
        "InitProducerId",
        "transaction",
        COORDINATOR_MOVED | {"CONCURRENT_TRANSACTIONS"},
        TRANSACTIONAL_ID,
        is_change=True,
        denied="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "fence_producers": AdminCall(
        lambda admin, _: admin.fence_producers([TRANSACTIONAL_ID]),
        "InitProducerId",
        "transaction",
        COORDINATOR_MOVED | {"CONCURRENT_TRANSACTIONS"},
        TRANSACTIONAL_ID,
        is_change=True,
        check=lambda scene, _: (
            scene.root.describe_transactions([TRANSACTIONAL_ID])[TRANSACTIONAL_ID].producer_epoch > 0
        ),
        denied="TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "remove_group_members": AdminCall(
        lambda admin, _: admin.remove_group_members("members", ["first"]),
        "LeaveGroup",
        "group",
        COORDINATOR_MOVED,
        "members",
        is_change=True,
        prepare=lambda scene: scene.add_static_member(),
        check=lambda scene, _: scene.root.describe_group("members").members == (),
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "describe_share_group": AdminCall(
        lambda admin, _: admin.describe_share_group(SHARE_GROUP),
        "ShareGroupDescribe",
        "group",
        COORDINATOR_MOVED,
        SHARE_GROUP,
        prepare=lambda scene: scene.share(),
        check=lambda _, result: result.state == "Empty",
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "describe_streams_group": AdminCall(
        lambda admin, _: admin.describe_streams_group(STREAMS_GROUP),
        "StreamsGroupDescribe",
        "group",
        COORDINATOR_MOVED,
        STREAMS_GROUP,
        prepare=lambda scene: scene.add_streams_member(),
        check=lambda _, result: [member.member_id for member in result.members] == ["m"],
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "share_group_offsets": AdminCall(
        lambda admin, _: admin.share_group_offsets(SHARE_GROUP),
        "DescribeShareGroupOffsets",
        "group",
        COORDINATOR_MOVED,
        SHARE_GROUP,
        prepare=lambda scene: scene.share(),
        check=lambda _, result: result[PARTITION].start_offset == 0,
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "alter_share_group_offsets": AdminCall(
        lambda admin, _: admin.alter_share_group_offsets(SHARE_GROUP, {PARTITION: 1}),
        "AlterShareGroupOffsets",
        "group",
        COORDINATOR_MOVED | {"REBALANCE_IN_PROGRESS"},
        SHARE_GROUP,
        is_change=True,
        prepare=lambda scene: scene.share(),
        check=lambda scene, _: scene.root.share_group_offsets(SHARE_GROUP)[PARTITION].start_offset == 1,
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
    "delete_share_group_offsets": AdminCall(
        lambda admin, _: admin.delete_share_group_offsets(SHARE_GROUP, [TOPIC]),
        "DeleteShareGroupOffsets",
        "group",
        COORDINATOR_MOVED | {"REBALANCE_IN_PROGRESS"},
        SHARE_GROUP,
        is_change=True,
        prepare=lambda scene: scene.share(),
        check=lambda scene, _: (
            not any(offset.start_offset is not None for offset in scene.root.share_group_offsets(SHARE_GROUP).values())
        ),
        denied="GROUP_AUTHORIZATION_FAILED",
    ),
}


def perform(call: AdminCall, admin: Admin, scene: AdminCallFixture) -> None:
    """Call the method; check its result and the cluster's state afterwards."""
    if call.expected:
        with pytest.raises(BrokerError) as failure:
            call.run(admin, scene)
        assert failure.value.code is ErrorCode[call.expected]
        return
    result = call.run(admin, scene)
    assert call.check(scene, result), result


def error_of(call: AdminCall, admin: Admin, scene: AdminCallFixture) -> KafkaframesError | None:
    """Return the error of a call, or None."""
    try:
        call.run(admin, scene)
    except KafkaframesError as error:
        return error
    return None


def requests_from(admin: Admin) -> Callable[[Any], bool]:
    """Return a condition for the requests of one client; its client id is unique."""
    client_id = admin._twin.settings.client_id
    return lambda request: bool(request.client_id == client_id)
