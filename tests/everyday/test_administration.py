"""Use of an admin client."""

import pytest
from tests.everyday.behaviours import peers_with
from tests.everyday.clusters import soon

from kafkaframes.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    AclBinding,
    AclFilter,
    Admin,
    CommittedOffset,
    Consumer,
    NewTopic,
    QuotaEntity,
    ScramCredential,
    TopicPartition,
)
from kafkaframes.errors import BrokerError, NetworkError, OptionError, TopicExistsError, UnknownTopicError


@pytest.fixture
def partition(topic):
    """The first partition of the topic."""
    return TopicPartition(topic, 0)


@pytest.fixture
def filled_partition(broker, partition):
    """The first partition of the topic, with ten records at 1000, 2000, ... ms."""
    broker.append(partition.topic, [{"value": b"v", "timestamp": n * 1_000} for n in range(1, 11)], partition=0)
    return partition


@peers_with(
    java="testCreateTopicsReturnsConfigs",
    kafka_python="test_create_delete_topics",
    aiokafka="test_create_topics",
    confluent="test_basic_operations",
)
def test_a_topic_is_created_with_partitions_and_settings(admin, topic):
    admin.create_topics([NewTopic(f"{topic}-new", 4, configs={"retention.ms": "60000"})])
    assert soon(lambda: len(admin.describe_topics([f"{topic}-new"])[f"{topic}-new"].partitions) == 4)
    assert soon(lambda: admin.describe_configs("topic", f"{topic}-new")["retention.ms"].value == "60000")


@peers_with(java="testCreateExistingTopicsThrowTopicExistsException", confluent="test_basic_operations")
def test_an_existing_topic_is_not_created_again(admin, topic):
    with pytest.raises(TopicExistsError, match=topic):
        admin.create_topics([NewTopic(topic, 1)])
    assert len(admin.describe_topics([topic])[topic].partitions) == 3


@peers_with(java="testCreateTopicsPartialResponse", confluent="test_create_topics_api")
def test_the_other_topics_of_a_request_are_created_although_one_exists(admin, topic):
    with pytest.raises(TopicExistsError):
        admin.create_topics([f"{topic}-1", topic, f"{topic}-2"])
    assert soon(lambda: {f"{topic}-1", f"{topic}-2"} <= set(admin.list_topics()))


@peers_with(java="testCreateTopics", confluent="test_create_topics_api")
def test_validate_only_creates_nothing(admin, topic):
    admin.create_topics([f"{topic}-new"], validate_only=True)
    assert f"{topic}-new" not in admin.list_topics()


@peers_with(java="testInvalidTopicNames", confluent="test_create_topics_api")
@pytest.mark.parametrize("name", ["", "a b", "x" * 250])
def test_an_invalid_name_of_a_new_topic_is_rejected(admin, name):
    with pytest.raises(BrokerError, match="INVALID_TOPIC"):
        admin.create_topics([name])


@peers_with(confluent="test_create_topics_api")
@pytest.mark.parametrize(
    ("new", "error"),
    [
        ({"num_partitions": 0}, "INVALID_PARTITIONS"),
        ({"replication_factor": 7}, "INVALID_REPLICATION_FACTOR"),
        ({"configs": {"retention.ms": "long"}}, "INVALID_CONFIG"),
        ({"configs": {"colour": "red"}}, "INVALID_CONFIG"),
    ],
)
def test_a_topic_with_invalid_counts_is_rejected(admin, topic, new, error):
    with pytest.raises(BrokerError, match=error):
        admin.create_topics([NewTopic(f"{topic}-new", **new)])
    assert f"{topic}-new" not in admin.list_topics()


@peers_with(java="testLongTopicNames")
def test_a_topic_name_may_have_249_characters(admin, topic):
    name = (topic + "x" * 249)[:249]
    admin.create_topics([name])
    assert soon(lambda: name in admin.list_topics())


@peers_with(java="testDeleteTopics", kafka_python="test_create_delete_topics", aiokafka="test_delete_topics")
def test_a_deleted_topic_is_gone(admin, topic):
    admin.delete_topics([topic])
    assert soon(lambda: topic not in admin.list_topics())


@peers_with(java="testDeleteTopicsWithIds")
def test_a_topic_is_deleted_by_its_id(admin, topic):
    admin.delete_topics([admin.describe_topics([topic])[topic].topic_id])
    assert soon(lambda: topic not in admin.list_topics())


@peers_with(java="testDeleteTopicsPartialResponse", confluent="test_delete_topics_api")
def test_the_other_topics_are_deleted_although_one_is_missing(admin, topic):
    with pytest.raises(UnknownTopicError):
        admin.delete_topics(["absent", topic])
    assert soon(lambda: topic not in admin.list_topics())


@peers_with(confluent="test_topic_recreate_resumes_with_fresh_delivery", java="testDescribeTopicsWithIds")
def test_a_topic_that_is_created_again_has_a_new_id_and_is_empty(admin, filled_partition):
    first = admin.describe_topics([filled_partition.topic])[filled_partition.topic].topic_id
    admin.delete_topics([filled_partition.topic])
    admin.create_topics([NewTopic(filled_partition.topic, 1)])
    assert soon(lambda: admin.describe_topics([filled_partition.topic])[filled_partition.topic].topic_id != first)
    assert soon(lambda: admin.list_offsets({filled_partition: LATEST}) == {filled_partition: 0})


@peers_with(
    java="testDescribeTopicsWithNames",
    kafka_python="test_describe_topic_partitions",
    confluent="test_describe_operations",
)
def test_a_topic_is_described_with_leaders_and_replicas(admin, topic):
    description = admin.describe_topics([topic])[topic]
    assert sorted(description.partitions) == [0, 1, 2]
    for metadata in description.partitions.values():
        assert metadata.leader in metadata.replicas
        assert metadata.leader in metadata.isr


@peers_with(java="testDescribeTopicsWithIds")
def test_a_topic_is_described_by_its_id(admin, topic):
    topic_id = admin.describe_topics([topic])[topic].topic_id
    assert list(admin.describe_topics([topic_id])) == [topic]


@peers_with(java="testCreatePartitions", kafka_python="test_create_partitions", aiokafka="test_create_partitions")
def test_partitions_can_be_added_to_a_topic(admin, topic):
    admin.create_partitions({topic: 5})
    assert soon(lambda: len(admin.describe_topics([topic])[topic].partitions) == 5)


@peers_with(java="testCreatePartitions", confluent="test_create_partitions_api")
@pytest.mark.parametrize("count", [2, 3, 0])
def test_partitions_cannot_be_removed_from_a_topic(admin, topic, count):
    with pytest.raises(BrokerError, match="INVALID_PARTITIONS"):
        admin.create_partitions({topic: count})
    assert len(admin.describe_topics([topic])[topic].partitions) == 3


@peers_with(java="testListTopicsWithOptionListInternal", aiokafka="test_list_topics")
def test_internal_topics_are_listed_on_request(admin, topic):
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})
    assert "__consumer_offsets" not in admin.list_topics()
    assert "__consumer_offsets" in admin.list_topics(internal=True)


@peers_with(java="testDescribeCluster", kafka_python="test_describe_cluster", aiokafka="test_describe_cluster")
def test_the_cluster_is_described(broker, admin):
    cluster = admin.describe_cluster()
    assert cluster.cluster_id
    addresses = {f"{node.host}:{node.port}" for node in cluster.brokers.values()}
    assert addresses == set(broker.bootstrap_servers.split(","))
    assert cluster.controller in cluster.brokers


@peers_with(
    java="testDescribeConfigsForTopic",
    kafka_python="test_describe_configs_topic_resource_returns_configs",
    aiokafka="test_describe_configs_topic",
)
def test_topic_settings_report_whether_they_are_defaults(broker, admin, topic):
    broker.configure_topic(topic, retention_ms=5_000)
    configs = admin.describe_configs("topic", topic)
    assert not configs["retention.ms"].is_default
    assert configs["cleanup.policy"].is_default
    assert (configs["retention.ms"].value, configs["cleanup.policy"].value) == ("5000", "delete")


@peers_with(
    kafka_python="test_describe_configs_broker_resource_returns_configs", aiokafka="test_describe_configs_broker"
)
def test_settings_of_a_broker_are_described(admin):
    node_id = min(admin.describe_cluster().brokers)
    assert "log.retention.ms" in admin.describe_configs("broker", str(node_id))


@peers_with(kafka_python="test_describe_configs_invalid_broker_id_raises", java="testDescribeConfigsNonexistent")
@pytest.mark.parametrize(("kind", "name"), [("broker", "none"), ("broker", "99"), ("topic", "absent")])
def test_describing_settings_of_a_missing_resource_fails(admin, kind, name):
    with pytest.raises((BrokerError, OptionError)):
        admin.describe_configs(kind, name)


@peers_with(java="testDescribeConfigsPartialResponse", confluent="test_describe_configs_api")
def test_only_the_named_settings_are_described(admin, topic):
    assert list(admin.describe_configs("topic", topic, keys=["retention.ms"])) == ["retention.ms"]


@peers_with(
    java="testValidIncrementalAlterConfigs",
    confluent="test_incremental_alter_configs",
    kafka_python="test_does_not_fill_in_other_keys",
)
def test_one_setting_is_changed_and_the_others_stay(admin, topic):
    admin.alter_configs("topic", topic, {"retention.ms": "5000", "segment.bytes": "2000000"})
    admin.alter_configs("topic", topic, {"retention.ms": "6000"})

    def values():
        configs = admin.describe_configs("topic", topic)
        return configs["retention.ms"].value, configs["segment.bytes"].value

    assert soon(lambda: values() == ("6000", "2000000"))


@peers_with(java="testValidIncrementalAlterConfigs", kafka_python="test_delete_op_forces_null_value")
def test_a_setting_is_reset_to_its_default(admin, topic):
    admin.alter_configs("topic", topic, {"retention.ms": "5000"})
    admin.alter_configs("topic", topic, {"retention.ms": None})
    assert soon(lambda: admin.describe_configs("topic", topic)["retention.ms"].is_default)


@peers_with(
    java="testAppendConfigToExistentValue",
    kafka_python="test_append_and_subtract_ops",
    confluent="test_incremental_alter_configs",
)
def test_a_list_setting_is_appended_to_and_subtracted_from(broker, admin, topic):
    admin.alter_configs("topic", topic, append={"cleanup.policy": "compact"})
    broker.wait_for(lambda: admin.describe_configs("topic", topic)["cleanup.policy"].value == "delete,compact")
    admin.alter_configs("topic", topic, subtract={"cleanup.policy": "delete"})
    broker.wait_for(lambda: admin.describe_configs("topic", topic)["cleanup.policy"].value == "compact")


@peers_with(java="testInvalidIncrementalAlterConfigs", kafka_python="test_raise_on_unknown_true_raises")
@pytest.mark.parametrize("changes", [{"colour": "red"}, {"retention.ms": "long"}, {"cleanup.policy": "keep"}])
def test_a_wrong_setting_changes_nothing(admin, topic, changes):
    with pytest.raises(BrokerError, match="INVALID_CONFIG"):
        admin.alter_configs("topic", topic, {"segment.bytes": "2000000", **changes})
    assert admin.describe_configs("topic", topic)["segment.bytes"].is_default


@peers_with(kafka_python="test_validate_only_propagates", java="testValidIncrementalAlterConfigs")
def test_validate_only_changes_no_setting(admin, topic):
    admin.alter_configs("topic", topic, {"retention.ms": "5000"}, validate_only=True)
    assert admin.describe_configs("topic", topic)["retention.ms"].is_default


@peers_with(
    java="testDeleteRecords",
    kafka_python="test_delete_records",
    aiokafka="test_delete_records",
    confluent="test_delete_records",
)
def test_records_before_an_offset_are_deleted(admin, filled_partition):
    assert admin.delete_records({filled_partition: 4}) == {filled_partition: 4}
    assert soon(lambda: admin.list_offsets({filled_partition: EARLIEST}) == {filled_partition: 4})


@peers_with(java="testLogStartOffsetAfterDeleteRecords", confluent="test_delete_records")
def test_all_records_of_a_partition_are_deleted(admin, filled_partition):
    assert admin.delete_records({filled_partition: -1}) == {filled_partition: 10}


@peers_with(java="testDeleteRecordsWithException", kafka_python="test_delete_records_with_errors")
def test_records_beyond_the_end_cannot_be_deleted(admin, filled_partition):
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        admin.delete_records({filled_partition: 11})
    assert admin.list_offsets({filled_partition: EARLIEST}) == {filled_partition: 0}


@peers_with(java="testListOffsets", kafka_python="test_list_partition_offsets", confluent="test_list_offsets")
@pytest.mark.parametrize(("time", "offset"), [(EARLIEST, 0), (LATEST, 10), (MAX_TIMESTAMP, 9), (4_500, 4)])
def test_offsets_are_listed_by_kind_and_by_time(admin, filled_partition, time, offset):
    assert admin.list_offsets({filled_partition: time}) == {filled_partition: offset}


@peers_with(java="testListOffsetsNonRetriableErrors", kafka_python="test_unknown_partition_raises")
def test_offsets_of_a_missing_partition_are_an_error(servers, topic):
    with (
        Admin(servers, default_api_timeout_ms=300) as admin,
        pytest.raises((BrokerError, NetworkError), match=f"{topic}-9"),
    ):
        admin.list_offsets({TopicPartition(topic, 9): LATEST})


@peers_with(
    java="testConsumerGroups", kafka_python="test_describe_group_exists", aiokafka="test_describe_consumer_groups"
)
@pytest.mark.parametrize(("protocol", "kind"), [("classic", "classic"), ("consumer", "consumer")])
def test_a_group_is_listed_and_described_with_its_members(broker, servers, admin, topic, protocol, kind):
    with Consumer(servers, group_id=topic, group_protocol=protocol, client_id="reader") as member:
        member.subscribe([topic])
        broker.wait_for(lambda: member.poll(10) is not None and len(member.assignment()) == 3, timeout=60)
        groups_by_id = {group.group_id: group for group in admin.list_groups()}[topic]
        description = admin.describe_group(topic)
    assert (groups_by_id.state, groups_by_id.type) == ("Stable", kind)
    assert description.state == "Stable"
    assert [(member.client_id, len(member.assignment)) for member in description.members] == [("reader", 3)]


@peers_with(
    java="testListConsumerGroupsWithStates",
    confluent="test_list_consumer_groups_api",
    kafka_python="test_states_filter_propagates",
)
def test_groups_are_listed_by_state(admin, topic):
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})
    assert topic in {group.group_id for group in admin.list_groups(states=["Empty"])}
    assert topic not in {group.group_id for group in admin.list_groups(states=["Stable"])}


@peers_with(java="testListConsumerGroupsWithTypes", kafka_python="test_types_filter_propagates")
def test_groups_are_listed_by_type(admin, topic):
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0})
    assert topic in {group.group_id for group in admin.list_groups(types=["classic"])}
    assert topic not in {group.group_id for group in admin.list_groups(types=["share"])}


@peers_with(java="testListConsumerGroupOffsets", aiokafka="test_list_consumer_group_offsets")
def test_offsets_of_a_group_are_changed_and_listed(admin, topic):
    offsets = {TopicPartition(topic, 0): 3, TopicPartition(topic, 2): 5}
    admin.alter_group_offsets(topic, offsets)
    assert {key: one.offset for key, one in admin.group_offsets(topic).items()} == offsets
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): CommittedOffset(4, metadata="moved")})
    assert admin.group_offsets(topic)[TopicPartition(topic, 0)].metadata == "moved"


@peers_with(java="testDeleteConsumerGroupOffsets", kafka_python="test_success_returns_tp_to_noerror")
def test_offsets_of_one_partition_are_deleted(admin, topic):
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_group_offsets(topic, {one: 3, two: 5})
    admin.delete_group_offsets(topic, [one])
    assert list(admin.group_offsets(topic)) == [two]


@peers_with(java="testConsumerGroups", kafka_python="test_delete_groups", confluent="test_delete_consumer_groups_api")
def test_an_empty_group_is_deleted(admin, topic):
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 3})
    admin.delete_groups([topic])
    assert admin.group_offsets(topic) == {}
    assert topic not in {group.group_id for group in admin.list_groups()}


@peers_with(java="testConsumerGroups", kafka_python="test_delete_groups_with_errors")
def test_a_missing_group_cannot_be_deleted(admin):
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.delete_groups(["absent"])


@peers_with(java="testConsumerGroups", kafka_python="test_delete_groups_with_errors")
def test_the_offsets_of_a_group_with_members_cannot_be_changed(broker, servers, admin, topic):
    with Consumer(servers, group_id=topic) as member:
        member.subscribe([topic])
        broker.wait_for(lambda: member.poll(10) is not None and len(member.assignment()) == 3, timeout=60)
        with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
            admin.delete_groups([topic])
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 3})


@peers_with(java="testRemoveMembersFromGroup", kafka_python="test_batch_success_returns_member_to_noerror")
def test_members_are_removed_from_a_group(broker, servers, admin, topic):
    with Consumer(servers, group_id=topic, group_instance_id="i") as member:
        member.subscribe([topic])
        broker.wait_for(lambda: member.poll(10) is not None and len(member.assignment()) == 3, timeout=60)
        admin.remove_group_members(topic)
        assert admin.describe_group(topic).members == ()


@peers_with(java="testAlterUserScramCredentials", confluent="test_user_scram_credentials")
def test_scram_credentials_can_be_created_and_deleted(admin, topic):
    admin.alter_user_scram_credentials([ScramCredential(topic, "secret")])
    assert soon(lambda: topic in admin.describe_user_scram_credentials())
    admin.alter_user_scram_credentials(delete=[(topic, "SCRAM-SHA-512")])
    assert soon(lambda: topic not in admin.describe_user_scram_credentials())


@peers_with(java="testAlterClientQuotas")
def test_quotas_of_a_client_are_set_and_described(admin, topic):
    entity = QuotaEntity(client_id=topic)
    admin.alter_client_quotas({entity: {"producer_byte_rate": 1_000.0}})
    assert soon(lambda: admin.describe_client_quotas(client_id=topic) == {entity: {"producer_byte_rate": 1_000.0}})


@peers_with(java="testAclOperations", kafka_python="test_create_describe_delete_acls", confluent="test_create_acls_api")
def test_access_rules_can_be_created_and_deleted(broker, admin, topic):
    rule, condition = AclBinding("topic", topic, "User:alice", "read"), AclFilter(resource_name=topic)
    admin.create_acls([rule, rule])
    broker.wait_for(lambda: admin.describe_acls(condition) == [rule])
    assert admin.delete_acls([condition]) == {condition: [rule]}
    broker.wait_for(lambda: admin.describe_acls(condition) == [])


@peers_with(java="testDescribeLogDirs", kafka_python="test_describe_log_dirs")
def test_log_directories_show_the_size_of_each_replica(admin, filled_partition):
    directories = [directory for node in admin.describe_log_dirs().values() for directory in node.values()]
    sizes = [
        directory.replicas[filled_partition].size_bytes
        for directory in directories
        if filled_partition in directory.replicas
    ]
    assert len(sizes) == len(
        admin.describe_topics([filled_partition.topic])[filled_partition.topic].partitions[0].replicas
    )
    assert max(sizes) > 0


@peers_with(java="testCloseAdminClient", confluent="test_basic_api")
def test_a_closed_admin_client_is_rejected(servers):
    admin = Admin(servers)
    admin.list_topics()
    admin.close()
    admin.close()
    with pytest.raises(NetworkError, match="closed"):
        admin.list_topics()
