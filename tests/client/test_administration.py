"""The admin client with the embedded broker: ACLs, users, quotas, replicas, features, transactions and groups.

Each test describes the state that it has changed.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from uuid import UUID, uuid4

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import (
    ANY_ENTITY,
    DEFAULT_ENTITY,
    AclBinding,
    AclFilter,
    Admin,
    AsyncAdmin,
    ConfigResource,
    Consumer,
    FeatureUpdate,
    FencedProducer,
    NewTopic,
    PartitionReassignment,
    Producer,
    QuotaEntity,
    Replica,
    ScramCredential,
    ScramCredentialInfo,
    ShareGroupOffset,
    TopicPartition,
)
from kafkaframes.client.response_rows import require_success
from kafkaframes.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    OptionError,
    PartialFailureError,
    ProducerFencedError,
)


@pytest.fixture(scope="module")
def servers():
    with Broker(config={"super.users": "User:ANONYMOUS"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def admin(servers):
    with Admin(servers) as client:
        yield client


@pytest.fixture(scope="module")
def cluster():
    """Three nodes."""
    with (
        Broker(cluster=3, config={"authorizer.class.name": "", "node.id": 0}) as broker,
        Admin(broker.bootstrap_servers) as client,
    ):
        yield broker, client


@pytest.fixture
def topic(admin):
    name = f"topic-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, num_partitions=2)])
    return name


def assert_eventually(read, expected_result, patience_s=30):
    """Assert the final result of a call: brokers of a KRaft cluster apply a change shortly after the response."""
    deadline = time.monotonic() + patience_s
    while (result := read()) != expected_result and time.monotonic() < deadline:
        time.sleep(0.05)
    assert result == expected_result


# ---- results for each item ------------------------------------------------------------------------------------------


def test_values_are_returned_if_all_items_succeed():
    assert require_success({"a": 1, "b": None}) == {"a": 1, "b": None}


def test_the_error_of_a_single_item_is_raised_unchanged():
    error = AuthorizationError("no", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationError) as error_info:
        require_success({"a": error})
    assert error_info.value is error


def test_a_partial_failure_has_the_results_of_all_items():
    error = BrokerError("no", ErrorCode.INVALID_REQUEST)
    with pytest.raises(PartialFailureError, match="1 of 2 items failed; the first: no") as error_info:
        require_success({"a": 1, "b": error})
    assert error_info.value.results == {"a": 1, "b": error}
    assert error_info.value.errors == {"b": error}
    assert error_info.value.code is ErrorCode.INVALID_REQUEST


# ---- access rules ---------------------------------------------------------------------------------------------------


def test_access_rules_are_created_described_and_deleted(admin):
    prefix = f"team-{uuid4().hex[:6]}"
    read = AclBinding("topic", prefix, "User:alice", "read", pattern_type="prefixed")
    deny = AclBinding("topic", f"{prefix}-secret", "User:alice", "all", permission="deny", host="10.0.0.1")
    group = AclBinding("group", prefix, "User:alice", "read")
    admin.create_acls([read, deny, group, read])
    admin.create_acls([read])  # an existing rule is not an error
    assert_eventually(
        lambda: set(admin.describe_acls(AclFilter(resource_type="topic", principal="User:alice"))), {read, deny}
    )
    applies = AclFilter(resource_type="topic", resource_name=f"{prefix}-secret", pattern_type="match")
    assert set(admin.describe_acls(applies)) == {read, deny}
    only_literal = AclFilter(resource_type="topic", resource_name=prefix, pattern_type="literal")
    deletions = admin.delete_acls([AclFilter(principal="User:alice", permission="deny"), only_literal])
    assert list(deletions.values()) == [[deny], []]
    assert admin.delete_acls([AclFilter(principal="User:alice")])[AclFilter(principal="User:alice")] != []
    assert_eventually(lambda: admin.describe_acls(AclFilter(principal="User:alice")), [])


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (
            AclBinding("topics", "a", "User:b", "read"),
            "resource type 'topics' does not exist; expected one of any, topic",
        ),
        (AclBinding("topic", "a", "User:b", "reed"), "operation 'reed' does not exist"),
        (AclBinding("topic", "a", "User:b", "read", permission="maybe"), "permission 'maybe' does not exist"),
        (AclBinding("any", "a", "User:b", "read"), "resource type 'any' is only valid in filters"),
        (
            AclBinding("topic", "a", "User:b", "read", pattern_type="match"),
            "pattern type 'match' is only valid in filters",
        ),
        (AclBinding("topic", "a", "User:b", "any"), "'any' is only valid in filters"),
    ],
)
def test_an_invalid_acl_is_rejected_before_it_is_sent(admin, binding, message):
    good = AclBinding("topic", "never-created", "User:carol", "read")
    with pytest.raises(OptionError, match=message):
        admin.create_acls([good, binding])
    assert admin.describe_acls(AclFilter(principal="User:carol")) == []


def test_a_rejected_acl_does_not_affect_the_others_and_all_results_are_returned(admin):
    good = AclBinding("topic", f"good-{uuid4().hex[:6]}", "User:dave", "read")
    bad = AclBinding("topic", "bad", "dave", "read")  # not a principal
    with pytest.raises(PartialFailureError) as error_info:
        admin.create_acls([good, bad])
    assert error_info.value.results[good] is None
    assert list(error_info.value.errors) == [bad]
    assert_eventually(lambda: admin.describe_acls(AclFilter(principal="User:dave")), [good])


def test_without_an_authorizer_acl_requests_are_an_error(cluster):
    _, admin = cluster
    with pytest.raises(BrokerError, match="SECURITY_DISABLED"):
        admin.describe_acls()


def test_authorized_operations_of_the_cluster_topics_and_groups_are_described(servers, admin, topic):
    assert "alter" in admin.authorized_operations("cluster")
    assert {"read", "write", "delete"} <= admin.authorized_operations("topic", topic)
    with Consumer(servers, group_id=topic) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        consumer.commit({TopicPartition(topic, 0): 0})
    assert "read" in admin.authorized_operations("group", topic)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.authorized_operations("topic", "missing")
    with pytest.raises(OptionError, match="expected cluster, topic or group"):
        admin.authorized_operations("user", "alice")


# ---- users and quotas -----------------------------------------------------------------------------------------------


def test_a_user_with_scram_credentials_can_log_in_until_they_are_deleted():
    with Broker(security=Security(mechanisms=("SCRAM-SHA-512",), users={"root": "root-secret"})) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
        alice = {**login, "sasl_username": "alice", "sasl_password": "pâss, word=1"}
        with Admin(broker.bootstrap_servers, **login, sasl_username="root", sasl_password="root-secret") as admin:
            credential = ScramCredential("alice", "pâss, word=1", iterations=8192)
            admin.alter_user_scram_credentials([credential])
            assert "word" not in repr(credential)
            info = ScramCredentialInfo("SCRAM-SHA-512", 8192)
            assert admin.describe_user_scram_credentials(["alice"]) == {"alice": (info,)}
            with Admin(broker.bootstrap_servers, **alice) as other:
                other.list_topics()
            admin.alter_user_scram_credentials(delete=[("alice", "SCRAM-SHA-512")])
            with pytest.raises(BrokerError, match="RESOURCE_NOT_FOUND"):
                admin.describe_user_scram_credentials(["alice"])
        with pytest.raises(AuthenticationError), Admin(broker.bootstrap_servers, **alice) as other:
            other.list_topics()


def test_the_change_of_one_user_fails_and_the_others_take_effect(admin):
    good, weak = ScramCredential("erin", "x"), ScramCredential("frank", "x", iterations=10)
    with pytest.raises(PartialFailureError) as error_info:
        admin.alter_user_scram_credentials([good, weak])
    assert list(error_info.value.errors) == ["frank"]
    assert_eventually(lambda: list(admin.describe_user_scram_credentials()), ["erin"])
    with pytest.raises(OptionError, match="mechanism 'PLAIN' does not exist"):
        admin.alter_user_scram_credentials([ScramCredential("erin", "x", mechanism="PLAIN")])
    admin.alter_user_scram_credentials(delete=[("erin", "SCRAM-SHA-512")])


def test_quotas_are_set_described_and_removed(admin):
    alice, default = QuotaEntity(user="alice"), QuotaEntity(user=DEFAULT_ENTITY)
    both, address = QuotaEntity(user="alice", client_id="app"), QuotaEntity(ip="10.0.0.1")
    admin.alter_client_quotas(
        {
            alice: {"producer_byte_rate": 1024.0, "request_percentage": 50.0},
            default: {"consumer_byte_rate": 2e6},
            both: {"producer_byte_rate": 10.0},
            address: {"connection_creation_rate": 5.0},
        }
    )
    expected_quotas = {alice: {"producer_byte_rate": 1024.0, "request_percentage": 50.0}}
    assert_eventually(lambda: admin.describe_client_quotas(user="alice", strict=True), expected_quotas)
    assert set(admin.describe_client_quotas(user=ANY_ENTITY)) == {alice, default, both}
    assert admin.describe_client_quotas(user=DEFAULT_ENTITY) == {default: {"consumer_byte_rate": 2e6}}
    assert admin.describe_client_quotas(ip="10.0.0.1") == {address: {"connection_creation_rate": 5.0}}
    admin.alter_client_quotas({alice: {"producer_byte_rate": None}}, validate_only=True)
    assert "producer_byte_rate" in admin.describe_client_quotas(user="alice", strict=True)[alice]
    admin.alter_client_quotas(
        {alice: dict.fromkeys(("producer_byte_rate", "request_percentage")), both: {"producer_byte_rate": None}}
    )
    assert_eventually(lambda: admin.describe_client_quotas(user="alice"), {})
    admin.alter_client_quotas({default: {"consumer_byte_rate": None}, address: {"connection_creation_rate": None}})
    assert_eventually(admin.describe_client_quotas, {})


def test_a_quota_requires_a_valid_entity_and_setting(admin):
    with pytest.raises(OptionError, match="needs a user, a client id or an ip"):
        admin.alter_client_quotas({QuotaEntity(): {"producer_byte_rate": 1.0}})
    with pytest.raises(OptionError, match="ANY_ENTITY is only valid in filters"):
        admin.alter_client_quotas({QuotaEntity(user=ANY_ENTITY): {"producer_byte_rate": 1.0}})
    good, bad = QuotaEntity(user="gina"), QuotaEntity(user="hugo")
    with pytest.raises(PartialFailureError) as error_info:
        admin.alter_client_quotas({good: {"producer_byte_rate": 1.0}, bad: {"producer_bite_rate": 1.0}})
    assert list(error_info.value.errors) == [bad]
    assert_eventually(lambda: admin.describe_client_quotas(user="gina"), {good: {"producer_byte_rate": 1.0}})
    admin.alter_client_quotas({good: {"producer_byte_rate": None}})


# ---- leaders, replicas, log directories -----------------------------------------------------------------------------


def test_a_preferred_leader_is_elected_after_its_node_returns(cluster):
    broker, admin = cluster
    admin.create_topics([NewTopic("elections", num_partitions=1, replication_factor=3)])
    partition = TopicPartition("elections", 0)
    preferred_leader = admin.describe_topics(["elections"])["elections"].partitions[0].replicas[0]
    assert admin.elect_leaders([partition]) == {partition: False}
    broker.stop_node(preferred_leader)
    broker.start_node(preferred_leader)
    if admin.describe_topics(["elections"])["elections"].partitions[0].leader != preferred_leader:
        assert admin.elect_leaders([partition]) == {partition: True}
    leaders = admin.describe_topics(["elections"])["elections"].partitions[0].leader
    assert leaders == preferred_leader
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.elect_leaders([TopicPartition("missing", 0)])
    with pytest.raises(OptionError, match="election type 'best' does not exist"):
        admin.elect_leaders([partition], election_type="best")


def test_partitions_are_reassigned_to_other_brokers(cluster):
    _, admin = cluster
    admin.create_topics([NewTopic("moves", num_partitions=2, replication_factor=1)])
    first, second = TopicPartition("moves", 0), TopicPartition("moves", 1)
    admin.alter_partition_reassignments({first: [2, 0], second: [1]})
    partitions = admin.describe_topics(["moves"])["moves"].partitions
    reassignments = admin.list_partition_reassignments([first, second])
    assert all(isinstance(reassignment, PartitionReassignment) for reassignment in reassignments.values())
    assert set(partitions[0].replicas) == {2, 0}
    assert set(partitions[1].replicas) == {1}
    with pytest.raises(PartialFailureError) as error_info:
        admin.alter_partition_reassignments({first: [0, 99], TopicPartition("missing", 0): [1], second: [0]})
    assert set(error_info.value.errors) == {first, TopicPartition("missing", 0)}
    with pytest.raises(BrokerError, match="NO_REASSIGNMENT_IN_PROGRESS"):
        admin.alter_partition_reassignments({second: None})


def test_log_directories_show_the_size_of_each_replica(servers, admin, topic):
    with Producer(servers) as producer:
        producer.send(topic, bytes(5000), partition=1).result()
    partition = TopicPartition(topic, 1)
    (node,) = admin.list_brokers()
    (directories,) = admin.describe_log_dirs().values()
    sizes = {path: one.replicas[partition].size_bytes for path, one in directories.items() if partition in one.replicas}
    assert len(sizes) == 1
    assert next(iter(sizes.values())) >= 5000
    replica = Replica(topic, 1, node.node_id)
    (replica_info,) = admin.describe_replica_log_dirs([replica]).values()
    assert list(replica_info) == list(sizes)
    assert not next(iter(replica_info.values())).is_future
    with pytest.raises(BrokerError, match="LOG_DIR_NOT_FOUND"):
        admin.alter_replica_log_dirs({replica: "/missing"})
    with pytest.raises(BrokerError, match="BROKER_ID_NOT_REGISTERED"):
        admin.describe_log_dirs([77])


# ---- the cluster ----------------------------------------------------------------------------------------------------


def test_brokers_and_the_metadata_quorum_are_described(cluster):
    broker, admin = cluster
    nodes = admin.list_brokers()
    assert [node.node_id for node in nodes] == [0, 1, 2]
    assert f"{nodes[0].host}:{nodes[0].port}" in broker.bootstrap_servers
    quorum = admin.describe_quorum()
    assert quorum.leader_id in [voter.node_id for voter in quorum.voters]
    with pytest.raises(BrokerError):
        admin.remove_raft_voter(99, uuid4())
    with pytest.raises(BrokerError):
        admin.unregister_broker(99)


def test_features_are_described_and_updated(admin):
    features = admin.describe_features()
    for name, level in features.finalized.items():
        assert features.supported[name].lowest <= level.highest <= features.supported[name].highest
    with pytest.raises(BrokerError):
        admin.update_features({"no.such.feature": FeatureUpdate(7)})
    with pytest.raises(OptionError, match="upgrade type 'downgrade' does not exist"):
        admin.update_features({"metadata.version": FeatureUpdate(7, "downgrade")})


def test_resources_with_a_configuration_are_listed(admin, topic):
    admin.alter_configs("client-metrics", "slow-clients", {"interval.ms": "60000"})
    assert_eventually(
        lambda: admin.list_config_resources(["client-metrics"]), [ConfigResource("client-metrics", "slow-clients")]
    )
    assert ConfigResource("client-metrics", "slow-clients") in admin.list_config_resources()
    assert admin.list_config_resources(["topic"]) == [
        ConfigResource("topic", name) for name in admin.list_topics(internal=True)
    ]
    with pytest.raises(OptionError, match="kind 'topics' does not exist"):
        admin.list_config_resources(["topics"])


def test_values_are_appended_to_and_subtracted_from_lists(admin, topic):
    admin.alter_configs("topic", topic, {"cleanup.policy": "delete"})
    admin.alter_configs("topic", topic, append={"cleanup.policy": "compact"})
    assert_eventually(lambda: admin.describe_configs("topic", topic)["cleanup.policy"].value, "delete,compact")
    admin.alter_configs("topic", topic, {"retention.ms": "5"}, subtract={"cleanup.policy": "delete"})
    assert_eventually(lambda: admin.describe_configs("topic", topic)["cleanup.policy"].value, "compact")
    assert admin.describe_configs("topic", topic)["retention.ms"].value == "5"
    admin.alter_configs("topic", topic, {"retention.ms": "9"}, validate_only=True)
    assert admin.describe_configs("topic", topic)["retention.ms"].value == "5"
    with pytest.raises(OptionError, match="a setting is specified twice: cleanup"):
        admin.alter_configs("topic", topic, {"cleanup.policy": "x"}, append={"cleanup.policy": "compact"})


def test_topics_are_described_and_deleted_by_id(admin, topic):
    topic_id = admin.describe_topics([topic])[topic].topic_id
    assert list(admin.describe_topics([topic_id])) == [topic]
    admin.delete_topics([topic_id])
    assert_eventually(lambda: topic in admin.list_topics(), False)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_ID"):
        admin.describe_topics([topic_id])
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_ID"):
        admin.delete_topics([UUID(int=7)])


# ---- transactions ---------------------------------------------------------------------------------------------------


def test_an_open_transaction_is_listed_described_and_terminated(servers, admin, topic):
    name = f"tx-{uuid4().hex[:8]}"
    partition = TopicPartition(topic, 0)
    with Producer(servers, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result()
        (listing,) = [
            transaction
            for transaction in admin.list_transactions(states=["Ongoing"])
            if transaction.transactional_id == name
        ]
        assert listing.producer_id == producer.identity.producer_id
        assert listing in admin.list_transactions(producer_ids=[listing.producer_id])
        assert listing in admin.list_transactions(transactional_id_pattern="tx-.*")
        assert listing not in admin.list_transactions(min_duration_ms=3_600_000)
        description = admin.describe_transactions([name])[name]
        assert (description.state, description.partitions) == ("Ongoing", (partition,))
        assert description.start_time_ms is not None
        (state,) = admin.describe_producers([partition])[partition]
        assert (state.producer_id, state.transaction_start_offset) == (listing.producer_id, 0)
        admin.force_terminate_transaction(name)
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
    (state,) = admin.describe_producers([partition])[partition]
    assert state.transaction_start_offset is None
    with Consumer(servers, isolation_level="read_committed") as consumer:
        assert consumer.end_offsets([partition])[partition] >= 2  # the record and the abort marker


def test_producers_are_fenced_by_transactional_id(admin):
    name = f"tx-{uuid4().hex[:8]}"
    first = admin.fence_producers([name])[name]
    second = admin.fence_producers([name])[name]
    assert isinstance(first, FencedProducer)
    assert (second.producer_id, second.producer_epoch) > (first.producer_id, first.producer_epoch)


def test_a_hanging_transaction_of_one_partition_is_aborted(servers, admin, topic):
    partition = TopicPartition(topic, 0)
    with Producer(servers, transactional_id=f"tx-{uuid4().hex[:8]}") as producer:
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result()
        (state,) = admin.describe_producers([partition])[partition]
        admin.abort_transaction(partition, state.producer_id, state.producer_epoch)
        assert admin.describe_producers([partition])[partition][0].transaction_start_offset is None
        producer.abort_transaction()


def test_missing_transactions_are_an_error_with_their_id(admin, topic):
    with pytest.raises(BrokerError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transactions(["missing"])
    with pytest.raises(OptionError, match="does not support 'Lost'"):
        admin.list_transactions(states=["Lost"])
    known_partition = TopicPartition(topic, 0)
    with pytest.raises(PartialFailureError) as error_info:
        admin.describe_producers([known_partition, TopicPartition(topic, 99)])
    assert error_info.value.results[known_partition] == []


# ---- groups ---------------------------------------------------------------------------------------------------------


def test_members_are_removed_from_a_classic_group(servers, admin, topic):
    options = {"group_id": f"group-{topic}", "group_protocol": "classic", "auto_offset_reset": "earliest"}
    with Consumer(servers, **options, group_instance_id="one") as first, Consumer(servers, **options) as second:
        first.subscribe([topic])
        second.subscribe([topic])
        while set(first.assignment()) | set(second.assignment()) != set(first.partitions_for(topic)) or not (
            first.assignment() and second.assignment()
        ):
            first.poll(50)
            second.poll(50)
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            admin.remove_group_members(options["group_id"], ["missing"])
        admin.remove_group_members(options["group_id"], ["one"])
        assert "one" not in [member.group_instance_id for member in admin.describe_group(options["group_id"]).members]
        admin.remove_group_members(options["group_id"])
        assert admin.list_groups(states=["Empty"], types=["classic"])
        assert options["group_id"] in [group.group_id for group in admin.list_groups(types=["classic"])]
        assert options["group_id"] not in [group.group_id for group in admin.list_groups(types=["share", "streams"])]


def test_share_group_offsets_are_set_and_deleted(admin, topic):
    group, partition = f"share-{topic}", TopicPartition(topic, 1)
    admin.alter_share_group_offsets(group, {partition: 0})
    offset = admin.share_group_offsets(group)[partition]
    assert isinstance(offset, ShareGroupOffset)
    assert offset.start_offset == 0
    assert admin.share_group_offsets(group, [partition])[partition].start_offset == 0
    assert admin.describe_share_group(group).state == "Empty"
    admin.delete_share_group_offsets(group, [topic])
    assert admin.share_group_offsets(group).get(partition, ShareGroupOffset(None, None, None)).start_offset is None
    with pytest.raises(BrokerError):
        admin.delete_share_group_offsets(group, ["missing"])
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_share_group("missing")
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_streams_group("missing")


# ---- rights, and the asyncio client ---------------------------------------------------------------------------------


def test_the_asyncio_and_synchronous_clients_have_the_same_methods():
    public = {name for name in dir(AsyncAdmin) if not name.startswith("_")}
    assert {name for name in dir(Admin) if not name.startswith("_")} | {"settings"} >= public
    assert public | {"settings"} >= {name for name in dir(Admin) if not name.startswith("_")}
    for name in public - {"settings"}:
        ours, twin = getattr(Admin, name), getattr(AsyncAdmin, name)
        assert inspect.signature(ours) == inspect.signature(twin), name
        assert inspect.getdoc(ours) == inspect.getdoc(twin), name
        assert inspect.iscoroutinefunction(twin) == (name != "metrics"), name
        assert not inspect.iscoroutinefunction(ours), name


def test_the_asyncio_client_returns_the_same(servers, topic):
    async def run():
        async with AsyncAdmin(servers) as admin:
            return await asyncio.gather(admin.list_brokers(), admin.describe_log_dirs(), admin.list_config_resources())

    nodes, directories, resources = asyncio.run(run())
    assert [node.node_id for node in nodes] == list(directories)
    assert ConfigResource("topic", topic) in resources


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.describe_acls(),
        lambda admin: admin.create_acls([AclBinding("topic", "a", "User:b", "read")]),
        lambda admin: admin.delete_acls([AclFilter(principal="User:b")]),
        lambda admin: admin.describe_user_scram_credentials(),
        lambda admin: admin.alter_user_scram_credentials([ScramCredential("a", "b")]),
        lambda admin: admin.describe_client_quotas(),
        lambda admin: admin.alter_client_quotas({QuotaEntity(user="a"): {"producer_byte_rate": 1.0}}),
        lambda admin: admin.elect_leaders([TopicPartition("a", 0)]),
        lambda admin: admin.alter_partition_reassignments({TopicPartition("a", 0): [0]}),
        lambda admin: admin.list_partition_reassignments(),
        lambda admin: admin.describe_log_dirs(),
        lambda admin: admin.describe_quorum(),
        lambda admin: admin.update_features({"metadata.version": FeatureUpdate(7)}),
        lambda admin: admin.list_config_resources(),
        lambda admin: admin.fence_producers(["a"]),
        lambda admin: admin.describe_transactions(["a"]),
        lambda admin: admin.abort_transaction(TopicPartition("a", 0), 1, 0),
        lambda admin: admin.describe_producers([TopicPartition("a", 0)]),
        lambda admin: admin.alter_share_group_offsets("g", {TopicPartition("a", 0): 0}),
        lambda admin: admin.remove_group_members("g", ["a"]),
    ],
)
def test_without_permissions_each_method_raises(strangers_admin, call):
    with pytest.raises((AuthorizationError, BrokerError)) as error_info:
        call(strangers_admin)
    error = error_info.value
    assert "AUTHORIZATION_FAILED" in str(error), error


@pytest.fixture(scope="module")
def strangers_admin():
    """A client without any permissions, on a broker with the topic ``a``."""
    security = Security(mechanisms=("PLAIN",), authorizer=True, users={"root": "r", "stranger": "s"})
    with Broker(config={"super.users": "User:root"}, security=security) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        with Admin(broker.bootstrap_servers, **login, sasl_username="root", sasl_password="r") as admin:
            admin.create_topics(["a"])
        with Admin(broker.bootstrap_servers, **login, sasl_username="stranger", sasl_password="s") as admin:
            yield admin


# ---- levels of features ---------------------------------------------------------------------------------------------


def test_a_feature_is_downgraded_and_upgraded_again(admin):
    """Previously a downgrade was encoded with a field that only the first version of the request has."""
    level = admin.describe_features().finalized["transaction.version"].highest
    admin.update_features({"transaction.version": FeatureUpdate(level - 1, "safe_downgrade")}, validate_only=True)
    assert admin.describe_features().finalized["transaction.version"].highest == level
    with pytest.raises(BrokerError, match="INVALID_UPDATE_VERSION"):
        admin.update_features({"transaction.version": FeatureUpdate(level - 1)})
    admin.update_features({"transaction.version": FeatureUpdate(level - 1, "safe_downgrade")})
    assert_eventually(lambda: admin.describe_features().finalized["transaction.version"].highest, level - 1)
    admin.update_features({"transaction.version": FeatureUpdate(level)})
    assert_eventually(lambda: admin.describe_features().finalized["transaction.version"].highest, level)


def test_brokers_before_3_3_get_only_a_flag_that_allows_a_downgrade():
    with Broker(broker_release="3.2") as broker, Admin(broker.bootstrap_servers) as admin:
        with broker.on("UpdateFeatures", optional=True).delay(0) as rule, pytest.raises(BrokerError):
            admin.update_features({"no.such.feature": FeatureUpdate(1, "safe_downgrade")})
        (request,) = rule.requests
        assert (request.version, request.body.feature_updates[0].allow_downgrade) == (0, True)
        with pytest.raises(OptionError, match="validate_only needs brokers of Kafka"):
            admin.update_features({"no.such.feature": FeatureUpdate(1)}, validate_only=True)
