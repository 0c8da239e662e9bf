"""Requests of admin clients: topics, partitions, configs, record deletion and quotas."""

from __future__ import annotations

import pytest

from kafkaframes.errors import ErrorCode
from kafkaframes.records.build import build_records


def create(client, name, version=7, **fields):
    types = client.types("CreateTopics")
    configs = [types.CreatableTopicConfig(name=key, value=value) for key, value in fields.pop("configs", {}).items()]
    validate = fields.pop("validate_only", False)
    fields = {"num_partitions": 1, "replication_factor": 1, **fields}
    topic = types.CreatableTopic(name=name, configs=configs, **fields)
    return client.ask("CreateTopics", version, topics=[topic], validate_only=validate).topics[0]


@pytest.mark.parametrize("version", range(8))
def test_create_topics_creates_the_topic_with_its_partitions(client, version):
    assert create(client, "orders", version, num_partitions=3).error_code == 0
    assert len(client.state.topics["orders"].partitions) == 3
    assert create(client, "orders", version).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "fields", "code"),
    [
        ("a/b", {}, "INVALID_TOPIC_EXCEPTION"),
        ("..", {}, "INVALID_TOPIC_EXCEPTION"),
        ("", {}, "INVALID_TOPIC_EXCEPTION"),
        ("x" * 250, {}, "INVALID_TOPIC_EXCEPTION"),
        ("a", {"num_partitions": 0}, "INVALID_PARTITIONS"),
        ("a", {"num_partitions": 2**31 - 1}, "INVALID_PARTITIONS"),
        ("a", {"replication_factor": 0}, "INVALID_REPLICATION_FACTOR"),
        ("a", {"replication_factor": 2}, "INVALID_REPLICATION_FACTOR"),
        ("a", {"configs": {"no.such": "1"}}, "INVALID_CONFIG"),
        ("a", {"configs": {"retention.ms": "soon"}}, "INVALID_CONFIG"),
    ],
)
def test_a_rejected_create_topics_request_creates_no_topic(client, name, fields, code):
    assert create(client, name, **fields).error_code == ErrorCode[code]
    assert not client.state.topics


def test_validate_only_returns_the_full_answer_without_creating_the_topic(client):
    row = create(client, "orders", num_partitions=4, validate_only=True)
    assert (row.error_code, row.num_partitions) == (0, 4)
    assert not client.state.topics
    assert {config.name: config.value for config in row.configs}["cleanup.policy"] == "delete"


def test_topic_names_that_differ_only_in_dots_collide(client):
    create(client, "a.b")
    assert create(client, "a_b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_topics_of_one_request_do_not_collide_as_in_kafka(client):
    row = client.types("CreateTopics").CreatableTopic
    rows = [row(name=name, num_partitions=1, replication_factor=1) for name in ("a.b", "a_b")]
    assert [topic.error_code for topic in client.ask("CreateTopics", 7, topics=rows).topics] == [0, 0]


def test_a_recreated_topic_has_a_new_id(client):
    first = create(client, "orders").topic_id
    types = client.types("DeleteTopics")
    row = client.ask("DeleteTopics", 6, topics=[types.DeleteTopicState(topic_id=first)]).responses[0]
    assert (row.error_code, row.name) == (0, "orders")
    assert create(client, "orders").topic_id != first
    row = client.ask("DeleteTopics", 6, topics=[types.DeleteTopicState(topic_id=first)]).responses[0]
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (
        client.ask("DeleteTopics", 1, topic_names=["orders", "none"]).responses[1].error_code
        == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def test_partitions_can_be_added_but_not_removed(client):
    client.create(partitions=2)
    types = client.types("CreatePartitions")

    def to(count):
        topic = types.CreatePartitionsTopic(name="orders", count=count, assignments=None)
        return client.ask("CreatePartitions", 3, topics=[topic]).results[0].error_code

    assert [to(4), to(4), to(1)] == [0, ErrorCode.INVALID_PARTITIONS, ErrorCode.INVALID_PARTITIONS]
    assert len(client.state.topics["orders"].partitions) == 4


def configs_of(client, kind, name, version=4):
    types = client.types("DescribeConfigs")
    resource = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    result = client.ask("DescribeConfigs", version, resources=[resource]).results[0]
    return result.error_code, {config.name: config for config in result.configs}


def alter(client, name, *operations, kind=2):
    types = client.types("IncrementalAlterConfigs")
    rows = [
        types.AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in operations
    ]
    resource = types.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    return client.ask("IncrementalAlterConfigs", 1, resources=[resource]).responses[0].error_code


def test_changed_settings_are_described_and_take_effect(client):
    client.create()
    assert alter(client, "orders", ("max.message.bytes", 0, "100"), ("cleanup.policy", 2, "compact")) == 0
    _, configs = configs_of(client, 2, "orders")
    assert (configs["max.message.bytes"].value, configs["max.message.bytes"].config_source) == ("100", 1)
    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["retention.ms"].config_source == 5
    log = client.state.topics["orders"].partitions[0].log
    assert (log.settings.max_message_bytes, log.settings.is_compacted) == (100, True)
    assert alter(client, "orders", ("max.message.bytes", 1, None)) == 0
    assert log.settings.max_message_bytes == 1_048_588
    assert alter(client, "orders", ("max.message.bytes", 0, "much")) == ErrorCode.INVALID_CONFIG
    assert alter(client, "none", ("max.message.bytes", 0, "1")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_setting_of_the_broker_is_the_default_of_topics(client):
    client.create()
    assert alter(client, "", ("log.retention.ms", 0, "1234"), kind=4) == 0
    assert configs_of(client, 2, "orders")[1]["retention.ms"].value == "1234"
    assert client.state.topics["orders"].partitions[0].log.settings.retention_ms == 1234
    assert alter(client, "", ("node.id", 0, "9"), kind=4) == ErrorCode.INVALID_REQUEST
    assert alter(client, "", ("num.partitions", 0, "9"), kind=4) == ErrorCode.INVALID_REQUEST


def test_settings_have_kafkas_types(client):
    boolean, string, whole, short, long, double, several = range(1, 8)
    client.create()
    _, configs = configs_of(client, 2, "orders")
    types = {"preallocate": boolean, "compression.type": string, "segment.bytes": whole, "retention.bytes": long}
    types |= {"min.cleanable.dirty.ratio": double, "cleanup.policy": several}
    assert {name: configs[name].config_type for name in types} == types
    _, configs = configs_of(client, 4, "1")
    types = {"log.retention.ms": long, "log.dirs": several, "offsets.topic.replication.factor": short}
    assert {name: configs[name].config_type for name in types} == types


def test_every_setting_has_a_documentation_text(client):
    client.create()
    types = client.types("DescribeConfigs")
    for kind, name in ((2, "orders"), (4, "1"), (16, "metrics"), (32, "group")):
        resource = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        (result,) = client.ask("DescribeConfigs", 4, resources=[resource], include_documentation=True).results
        assert [row.name for row in result.configs if not row.documentation] == []
        (result,) = client.ask("DescribeConfigs", 4, resources=[resource]).results
        assert {row.documentation for row in result.configs} <= {None}


def test_a_brokers_configs_include_its_start_settings(client):
    _, configs = configs_of(client, 4, "1")
    for name in ("advertised.listeners", "listeners", "log.dirs", "node.id", "broker.id", "process.roles"):
        assert (configs[name].config_source, configs[name].read_only) == (4, True), name
    assert not configs["log.retention.ms"].read_only
    assert configs_of(client, 4, "") == (0, {})
    assert alter(client, "", ("log.retention.ms", 0, "1234"), kind=4) == 0
    (row,) = configs_of(client, 4, "")[1].values()
    assert (row.name, row.value, row.config_source) == ("log.retention.ms", "1234", 3)


def test_topics_and_configs_survive_a_crash(make_client, tmp_path):
    client = make_client(data_dir=str(tmp_path))
    topic = client.create(partitions=2, retention_ms="77")
    alter(client, "", ("log.roll.ms", 0, "4321"), kind=4)
    client.state.logs.abandon()
    again = make_client(data_dir=str(tmp_path))
    recovered_topic = again.state.topics["orders"]
    assert (recovered_topic.topic_id, len(recovered_topic.partitions)) == (topic.topic_id, 2)
    assert recovered_topic.partitions[0].log.settings.retention_ms == 77
    assert recovered_topic.partitions[0].log.settings.segment_ms == 4321
    assert again.state.cluster_id == client.state.cluster_id


def test_a_topic_without_partition_directories_survives_a_crash(make_client, tmp_path):
    client = make_client(data_dir=str(tmp_path))
    client.create(partitions=3)
    client.state.logs.abandon()
    assert not list(tmp_path.glob("orders-*"))
    assert len(make_client(data_dir=str(tmp_path)).state.topics["orders"].partitions) == 3


def test_deleted_records_stay_deleted_after_a_crash(make_client, tmp_path):
    client = make_client(data_dir=str(tmp_path))
    client.create()
    client.produce(build_records({"value": [b"a", b"b", b"c"]}))
    types = client.types("DeleteRecords")
    row = types.DeleteRecordsPartition(partition_index=0, offset=2)
    topic_row = types.DeleteRecordsTopic(name="orders", partitions=[row])
    assert client.ask("DeleteRecords", 2, topics=[topic_row]).topics[0].partitions[0].low_watermark == 2
    client.state.logs.abandon()
    again = make_client(data_dir=str(tmp_path))
    assert again.fetch(1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert again.fetch(2).log_start_offset == 2


def test_quotas_are_stored_and_described(client):
    types = client.types("AlterClientQuotas")
    entity = types.EntityData(entity_type="user", entity_name="alice")
    entry = types.EntryData(entity=[entity], ops=[types.OpData(key="producer_byte_rate", value=1024.0)])
    assert client.ask("AlterClientQuotas", 1, entries=[entry]).entries[0].error_code == 0
    entries = client.ask("DescribeClientQuotas", 1, components=[], strict=False).entries
    assert [(entry.entity[0].entity_name, entry.values[0].value) for entry in entries] == [("alice", 1024.0)]
