"""Configs are validated before they are stored: values, ranges, enumerations and limits. Invalid stored ones are
ignored.

``tests/interop/test_configs_differential.py`` compares the answers with Kafka's, value by value.
"""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker import Broker
from kafkaframes.broker.settings.config_values import CONFIG_TYPES, DYNAMIC_KEYS, normalize_value
from kafkaframes.broker.settings.settings import DEFAULTS, GROUP_SETTINGS, TOPIC_KEYS
from kafkaframes.broker.state.configs import BROKER_KEYS
from kafkaframes.broker.state.metadata_file import METADATA_FILE_NAME
from kafkaframes.broker.state.topics import Node, Nodes
from kafkaframes.errors import ErrorCode, OptionError

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CONFIG, REQUEST = ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST


def alter(client, kind, name, *changes, validate_only=False):
    """Return the error code of one resource's changes: (setting, value, operation)."""
    types = client.types("IncrementalAlterConfigs")
    rows = [
        types.AlterableConfig(name=key, value=value, config_operation=operation) for key, value, operation in changes
    ]
    resource = types.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    answer = client.ask("IncrementalAlterConfigs", 1, resources=[resource], validate_only=validate_only)
    return answer.responses[0].error_code


def replace(client, kind, name, **configs):
    types = client.types("AlterConfigs")
    rows = [types.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = types.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
    return client.ask("AlterConfigs", 2, resources=[resource]).responses[0].error_code


def describe_configs(client, kind, name):
    types = client.types("DescribeConfigs")
    resource = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = client.ask("DescribeConfigs", 4, resources=[resource], include_synonyms=True).results
    return {
        row.name: (
            row.value,
            row.config_source,
            [(synonym.name, synonym.value, synonym.source) for synonym in row.synonyms],
        )
        for row in result.configs
    }


INVALID_VALUES = [
    (TOPIC, "orders", "retention.ms", "x"),
    (TOPIC, "orders", "retention.ms", "-2"),
    (TOPIC, "orders", "retention.ms", ""),
    (TOPIC, "orders", "segment.index.bytes", "2147483648"),
    (TOPIC, "orders", "min.cleanable.dirty.ratio", "1.1"),
    (TOPIC, "orders", "cleanup.policy", "other"),
    (TOPIC, "orders", "compression.type", "none"),
    (TOPIC, "orders", "compression.gzip.level", "0"),
    (TOPIC, "orders", "preallocate", "yes"),
    (TOPIC, "orders", "max.compaction.lag.ms", "0"),
    (TOPIC, "orders", "follower.replication.throttled.replicas", "x:y"),
    (TOPIC, "orders", "no.such.setting", "1"),
    (BROKER, "", "max.connections", "x"),
    (BROKER, "1", "log.cleaner.backoff.ms", "x"),
    (BROKER, "1", "log.cleaner.backoff.ms", "-1"),
    (BROKER, "", "log.cleanup.policy", "other"),
    (GROUP, "readers", "consumer.session.timeout.ms", "1"),
    (GROUP, "readers", "consumer.session.timeout.ms", "60001"),
    (GROUP, "readers", "share.isolation.level", "x"),
    (GROUP, "readers", "share.auto.offset.reset", "by_duration:-PT1H"),
    (GROUP, "readers", "no.such.setting", "1"),
    (CLIENT_METRICS, "all", "match", "x"),
    (CLIENT_METRICS, "all", "interval.ms", "x"),
]


@pytest.mark.parametrize(("kind", "name", "key", "value"), INVALID_VALUES)
def test_an_invalid_value_is_rejected_and_not_stored(make_client, tmp_path, kind, name, key, value):
    client, expected_code = make_client(data_dir=str(tmp_path)), REQUEST if kind == BROKER else CONFIG
    client.create()
    before = describe_configs(client, kind, name)
    assert alter(client, kind, name, (key, value, SET), validate_only=True) == expected_code
    assert alter(client, kind, name, (key, value, SET)) == expected_code
    assert replace(client, kind, name, **{key: value}) == expected_code
    assert describe_configs(client, kind, name) == before
    client.state.logs.close(now_ms=client.state.clock.now_ms)
    assert describe_configs(make_client(data_dir=str(tmp_path)), kind, name) == before


@pytest.mark.parametrize(
    ("kind", "name", "changes"),
    [
        (TOPIC, "orders", [("retention.ms", None, SET)]),
        (TOPIC, "orders", [("retention.ms", "5", SET), ("retention.ms", "6", SET)]),
        (TOPIC, "", [("retention.ms", "5", SET)]),
        (BROKER, "", [("node.id", "5", SET)]),
        (BROKER, "", [("super.users", "User:mallory", SET)]),
        (BROKER, "", [("log.retention.hours", "1", SET)]),
        (BROKER, "", [("listener.name.plain.sasl.enabled.mechanisms", "PLAIN", SET)]),
        (BROKER, "9", [("max.connections", "5", SET)]),
        (GROUP, "", [("share.isolation.level", "read_committed", SET)]),
        (CLIENT_METRICS, "all", [("interval.ms", "99", SET)]),
        (CLIENT_METRICS, "", [("interval.ms", "1000", SET)]),
    ],
    ids=str,
)
def test_a_change_with_an_invalid_operation_is_an_invalid_request(client, kind, name, changes):
    client.create()
    assert alter(client, kind, name, *changes) == REQUEST


@pytest.mark.parametrize("key", ["no.such.setting", "cleanup.policy", ""])
def test_an_unknown_setting_is_stored_but_not_described(make_client, tmp_path, key):
    """Kafka 4.3.1 lists such a setting for all brokers with unknown type and without its value, also after a
    restart.
    """
    client = make_client(data_dir=str(tmp_path))
    assert alter(client, BROKER, "", (key, "1", SET)) == 0
    configs = describe_configs(client, BROKER, "")
    assert configs == {key: (None, 3, [(key, None, 3)])}
    client.state.logs.close(now_ms=client.state.clock.now_ms)
    assert describe_configs(make_client(data_dir=str(tmp_path)), BROKER, "") == configs


@pytest.mark.parametrize(
    ("kind", "name", "key", "operation", "value", "result"),
    [
        (TOPIC, "orders", "cleanup.policy", APPEND, "compact", "delete,compact"),
        (TOPIC, "orders", "cleanup.policy", SUBTRACT, "delete", ""),
        (TOPIC, "orders", "cleanup.policy", SET, "", ""),
        (BROKER, "", "log.cleanup.policy", APPEND, "compact", "delete,compact"),
        (BROKER, "", "log.cleanup.policy", SUBTRACT, "compact", "delete"),
    ],
)
def test_appending_to_a_list_setting_starts_from_its_default(client, kind, name, key, operation, value, result):
    client.create()
    assert alter(client, kind, name, (key, value, operation)) == 0
    assert describe_configs(client, kind, name)[key][0] == result
    client.create("another")
    assert describe_configs(client, TOPIC, "another")["cleanup.policy"][0] == (result if kind == BROKER else "delete")


def test_a_topic_without_a_cleanup_policy_keeps_its_segments(client):
    client.create(cleanup_policy="", retention_bytes="0")
    log = client.state.topics["orders"].partitions[0].log
    assert not log.settings.policies
    assert log.delete_old_segments(now_ms=client.state.clock.now_ms) == 0


def test_synonyms_list_every_source_of_a_value(client):
    client.create(retention_ms="7", flush_ms="8")
    assert alter(client, BROKER, "", ("log.retention.ms", "6", SET)) == 0
    rows = describe_configs(client, TOPIC, "orders")
    assert rows["retention.ms"] == ("7", 1, [("retention.ms", "7", 1), ("log.retention.ms", "6", 3)])
    assert rows["flush.ms"] == ("8", 1, [("flush.ms", "8", 1)])  # null by default, for brokers
    assert rows["max.message.bytes"] == ("1048588", 5, [("message.max.bytes", "1048588", 5)])
    assert describe_configs(client, BROKER, "")["log.retention.ms"] == ("6", 3, [("log.retention.ms", "6", 3)])
    assert describe_configs(client, BROKER, "1")["log.roll.ms"] == (None, 5, [])
    assert alter(client, BROKER, "1", ("log.retention.ms", "5", SET)) == 0
    assert alter(client, BROKER, "", ("log.retention.ms", "4", SET)) == 0  # a node's own setting stays in effect
    values = [("log.retention.ms", "5", 2), ("log.retention.ms", "4", 3)]
    assert describe_configs(client, BROKER, "1")["log.retention.ms"] == ("5", 2, values)
    assert describe_configs(client, BROKER, "")["log.retention.ms"] == ("4", 3, values[1:])
    assert describe_configs(client, TOPIC, "orders")["retention.ms"][2][1:] == values
    assert client.state.settings.get_text("log.retention.ms") == "5"
    assert alter(client, BROKER, "1", ("log.retention.ms", "", DELETE)) == 0
    assert client.state.settings.get_text("log.retention.ms") == "4"
    group = describe_configs(client, GROUP, "readers")
    assert group["share.session.timeout.ms"] == ("45000", 5, [("group.share.session.timeout.ms", "45000", 5)])
    assert group["share.isolation.level"] == ("read_uncommitted", 5, [("share.isolation.level", "read_uncommitted", 5)])


@pytest.mark.parametrize("node", ["", "1"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("security.inter.broker.protocol", "Cannot update these configs dynamically: [security.inter.broker.protocol]"),
        ("broker.rack", "Cannot update these configs dynamically: [broker.rack]"),
        ("ssl.truststore.location", "updated only per-listener using the listener prefix: [ssl.truststore.location]"),
        ("ssl.key.password", "updated only per-listener using the listener prefix: [ssl.key.password]"),
    ],
)
def test_settings_that_are_not_dynamic_are_rejected_with_kafkas_message(client, node, name, reason):
    """The cases are those of Kafka 4.3.1's ConfigCommandIntegrationTest."""
    types = client.types("IncrementalAlterConfigs")
    row = types.AlterableConfig(name=name, config_operation=SET, value="x")
    resource = types.AlterConfigsResource(resource_type=BROKER, resource_name=node, configs=[row])
    (answer,) = client.ask("IncrementalAlterConfigs", 1, resources=[resource]).responses
    assert (answer.error_code, answer.error_message.endswith(reason)) == (REQUEST, True)


def test_settings_of_one_node_and_of_all_nodes_stay_separate_after_a_restart(make_client, tmp_path):
    def open_again():
        nodes = Nodes({1: Node(1), 2: Node(2)})
        return make_client(data_dir=str(tmp_path), config={"log.retention.ms": "3", name: "5000"}, nodes=nodes)

    name = "group.consumer.assignment.interval.ms"
    client = open_again()
    for node, value in (("2", "5100"), ("1", "5200"), ("", "5300")):
        assert alter(client, BROKER, node, ("log.retention.ms", value, SET), (name, value, SET)) == 0
    client.state.logs.close(now_ms=client.state.clock.now_ms)
    client = open_again()
    for node, node_value in (("1", "5200"), ("2", "5100")):
        row = describe_configs(client, BROKER, node)["log.retention.ms"]
        assert row[:2] == (node_value, 2)
        assert [value for _, value, _ in row[2]] == [node_value, "5300", "3"]
    assert client.state.settings.get_text("log.retention.ms") == "5200"  # the setting of the node with the lowest id
    group = describe_configs(client, GROUP, "readers")["consumer.assignment.interval.ms"]
    assert group[:2] == ("5200", 2)
    assert group[2][:3] == [(name, "5200", 2), (name, "5300", 3), (name, "5000", 4)]
    for node in ("1", "2", ""):
        assert alter(client, BROKER, node, ("log.retention.ms", "", DELETE)) == 0
    assert client.state.settings.get_text("log.retention.ms") == "3"


def test_an_invalid_stored_setting_is_logged_and_ignored(make_client, tmp_path, caplog):
    client = make_client(data_dir=str(tmp_path))
    client.create(retention_ms=5)
    client.state.logs.close(now_ms=client.state.clock.now_ms)
    file = tmp_path / METADATA_FILE_NAME
    values = json.loads(file.read_bytes())
    values["configs"] = {
        "max.connections": "x",
        "log.cleaner.backoff.ms": "x",
        "log.retention.ms": "77",
        "node.id": "7",
        "unheard": "1",
    }
    values["topics"]["orders"]["configs"] |= {"segment.bytes": "many", "flush.ms": "9"}
    values["entities"]["group_configs"] = {"readers": {"share.session.timeout.ms": "1"}}
    file.write_text(json.dumps(values))
    with caplog.at_level(logging.WARNING):
        state = make_client(data_dir=str(tmp_path)).state
    assert state.topics["orders"].configs == {"retention.ms": "5", "flush.ms": "9"}
    dynamic = {name for configs in state.settings.dynamic_by_node.values() for name in configs}
    assert dynamic == {"log.retention.ms", "unheard"}
    for name in ("max.connections", "log.cleaner.backoff.ms", "node.id", "segment.bytes", "share.session.timeout.ms"):
        assert name in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections", "x"),
        ("log.cleaner.backoff.ms", "-1"),
        ("connections.max.reauth.ms", "soon"),
        ("listener.name.outside.connections.max.reauth.ms", "soon"),
        ("listener.name.outside.scram-sha-256.connections.max.reauth.ms", "1.5"),
    ],
)
def test_a_broker_does_not_start_with_an_invalid_setting(name, value):
    with pytest.raises(OptionError, match=name):
        Broker(config={name: value}).start()


def test_every_setting_accepts_its_default():
    for name, (kafka_name, default) in TOPIC_KEYS.items():
        assert normalize_value(name, default) == default
        assert not kafka_name or normalize_value(kafka_name, default) == default
    for name, default in DEFAULTS.items():
        assert normalize_value(name, default) == default
    assert (
        set(DYNAMIC_KEYS) | BROKER_KEYS | set(GROUP_SETTINGS) | set(TOPIC_KEYS)
        <= CONFIG_TYPES.keys() | KEY_STORE_SETTINGS
    )


KEY_STORE_SETTINGS = {"ssl.keystore.location", "ssl.truststore.location"}


@given(
    name=st.sampled_from(sorted(CONFIG_TYPES)),
    value=st.text(max_size=12) | st.sampled_from(["1_0", "٣", "1e3", "NaN", "0x1"]),
)
def test_any_value_is_accepted_in_normalized_form_or_rejected_with_the_settings_name(name, value):
    message = ""
    try:
        normalized_value = normalize_value(name, value)
    except OptionError as error:
        message = str(error)
    assert name in message if message else normalize_value(name, normalized_value) == normalized_value
