"""Settings in the forms of other clients, and how each setting of the Java clients is treated."""

import logging
import typing
from dataclasses import fields

import pytest

from kafkaframes.client import Admin, AsyncProducer, Consumer, Producer
from kafkaframes.client import options as option_types
from kafkaframes.client import properties as module
from kafkaframes.client.properties import list_java_properties, to_kafka_name, to_kafka_names, translate_options
from kafkaframes.client.settings import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    ShareConsumerSettings,
    list_setting_names,
    select_client_options,
)
from kafkaframes.errors import OptionError
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

SETTINGS = {
    "consumer": ConsumerSettings,
    "producer": ProducerSettings,
    "admin": ClientSettings,
    "share consumer": ShareConsumerSettings,
}
KAFKA_PYTHON_PRODUCER = {
    "bootstrap_servers": ["a:1", "b:2"],
    "client_id": "billing",
    "acks": 1,
    "compression_type": "gzip",
    "linger_ms": 20,
    "max_block_ms": 5_000,
    "api_version": (2, 8),
    "sasl_plain_username": None,
    "security_protocol": "PLAINTEXT",
    "metric_reporters": [],
    "value_serializer": None,
}
CONFLUENT_CONSUMER = {
    "bootstrap.servers": "a:1,b:2",
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "fetch.wait.max.ms": 100,
    "statistics.interval.ms": 0,
    "partition.assignment.strategy": "roundrobin",
}
JAVA_CONSUMER = {
    "bootstrap.servers": "a:1",
    "client.rack": "eu-1",
    "exclude.internal.topics": "true",
    "compression.zstd.level": 3,
    "receive.buffer.bytes": "65536",
    "send.buffer.bytes": 131_072,
    "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
}


def test_kafka_pythons_keywords_are_accepted():
    settings = ProducerSettings.from_options(KAFKA_PYTHON_PRODUCER)
    assert (settings.servers, settings.acks, settings.api_version) == ([("a", 1), ("b", 2)], 1, "2.8")
    assert (settings.linger_ms, settings.max_block_ms, settings.compression_type) == (20, 5_000, "gzip")


def test_confluents_dict_and_javas_properties_are_accepted():
    settings = ConsumerSettings.from_options(CONFLUENT_CONSUMER)
    assert (settings.group_id, settings.enable_auto_commit, settings.fetch_max_wait_ms) == ("billing", False, 100)
    assert settings.strategies == ["roundrobin"]
    settings = ConsumerSettings.from_options(JAVA_CONSUMER)
    assert (settings.receive_buffer_bytes, settings.send_buffer_bytes) == (65_536, 131_072)
    assert (settings.strategies, settings.tls_versions) == (["range"], ["TLSv1.2", "TLSv1.3"])


@pytest.mark.parametrize(
    ("name", "value", "setting", "result"),
    [
        ("topic.metadata.refresh.interval.ms", -1, "metadata_max_age_ms", MAX_INT64),  # never
        ("topic.metadata.refresh.interval.ms", "-1", "metadata_max_age_ms", MAX_INT64),
        ("topic.metadata.refresh.interval.ms", 5_000, "metadata_max_age_ms", 5_000),
        ("auto.offset.reset", "smallest", "auto_offset_reset", "earliest"),
        ("auto_offset_reset", "largest", "auto_offset_reset", "latest"),
        ("auto.offset.reset", "beginning", "auto_offset_reset", "earliest"),
        ("auto.offset.reset", "end", "auto_offset_reset", "latest"),
        ("auto.offset.reset", "error", "auto_offset_reset", "none"),
    ],
)
def test_values_of_other_clients_are_translated(name, value, setting, result):
    """librdkafka's CONFIGURATION.md, and kafka-python before 1.0 (``smallest``)."""
    settings = ConsumerSettings.from_options({"bootstrap.servers": "a:1", name: value})
    assert getattr(settings, setting) == result
    kafka_name = setting.replace("_", ".")
    assert str(to_kafka_names({name: value})[kafka_name]) == str(result)


def test_librdkafkas_message_timeout_of_zero_is_infinite():
    settings = ProducerSettings.from_options({"bootstrap.servers": "a:1", "message.timeout.ms": "0"})
    assert settings.delivery_timeout_ms == MAX_INT32


def test_a_client_that_never_refreshes_its_metadata_produces_and_consumes(kafka_broker):
    settings = {"bootstrap.servers": kafka_broker.bootstrap_servers, "topic.metadata.refresh.interval.ms": -1}
    with (
        Producer(settings) as producer,
        Consumer({**settings, "group.id": "unrefreshed", "auto.offset.reset": "beginning"}) as consumer,
    ):
        producer.send("unrefreshed", b"1").result(30)
        consumer.subscribe(["unrefreshed"])
        assert [record.value for record in consumer.poll(30_000)] == [b"1"]


def test_none_selects_the_default():
    """kafka-python's defaults of these settings are None."""
    settings = ProducerSettings.from_options(
        {"bootstrap_servers": "a:1", "compression_type": None, "receive_buffer_bytes": None, "retries": None}
    )
    assert settings == ProducerSettings(bootstrap_servers="a:1")


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_keywords_override_a_dict_of_settings(client):
    with pytest.raises(OptionError, match="bootstrap_servers is empty"):
        client({"client.id": "billing"})
    with pytest.raises(OptionError, match="has no setting 'nonsense'"):
        client({"bootstrap.servers": "a:1"}, nonsense=3)
    producer = AsyncProducer({"bootstrap.servers": "a:1", "linger.ms": 5}, linger_ms=7)
    assert producer.settings.linger_ms == 7


def test_a_compression_level_applies_to_its_codec():
    properties = {"bootstrap.servers": "a:1", "compression.type": "zstd", "compression.gzip.level": 1}
    assert ProducerSettings.from_options({**properties, "compression.zstd.level": "7"}).compression_level == 7
    assert ProducerSettings.from_options(properties).compression_level is None
    librdkafkas = {"bootstrap.servers": "a:1", "compression.codec": "zstd", "compression.zstd.level": 7}
    assert ProducerSettings.from_options(librdkafkas).compression_level == 7


@pytest.mark.parametrize("name", sorted(list_java_properties()))
def test_every_setting_of_java_is_supported_ignored_or_rejected(name):
    java_property = list_java_properties()[name]
    assert java_property.clients
    for client in java_property.clients:
        names = {field.name for field in fields(SETTINGS[client])}
        if java_property.treatment == "supported":
            key = module._SETTING_ALIASES.get(name, name.replace(".", "_"))
            assert key in names
            codec = (
                {"compression.type": module._CODEC_BY_LEVEL_SETTING[name]}
                if name in module._CODEC_BY_LEVEL_SETTING
                else {}
            )
            assert translate_options({**codec, name: "x"}, names, client)[key] == "x"
        elif java_property.treatment == "ignored":
            assert java_property.reason
            assert translate_options({name: "x"}, names, client) == {}
        else:
            with pytest.raises(OptionError, match=name):
                translate_options({name: "x"}, names, client)


def test_settings_of_another_client_type_are_ignored_and_errors_keep_the_spelling():
    names = {field.name for field in fields(ConsumerSettings)}
    assert translate_options({"partitioner.class": "com.example.Mine", "acks": "all"}, names, "consumer") == {}
    with pytest.raises(
        OptionError, match=r"a consumer has no setting 'fetch.min.byte'; did you mean fetch.min.bytes\?"
    ):
        translate_options({"fetch.min.byte": 1}, names, "consumer")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("error_cb", "errors are raised"),
        ("dr_cb", "pass `on_delivery` to `send`"),
        ("oauth_cb", "a function that returns a token"),
        ("on_commit", "`commit` raises"),
        ("enable.partition.eof", "`end_offsets`"),
        ("default.topic.config", "next to the other settings"),
    ],
)
def test_callbacks_in_confluents_dict_are_rejected_with_their_replacement(name, reason):
    with pytest.raises(OptionError, match=rf"{name}: .*{reason}"):
        ConsumerSettings.from_options({"bootstrap.servers": "a:1", name: print})


def test_a_consumer_ignores_confluents_producer_and_library_settings():
    properties = {"max.in.flight": 1, "message.max.bytes": 5, "log_level": 7, "debug": "all", "socket.max.fails": 2}
    settings = ConsumerSettings.from_options(
        {"bootstrap.servers": "a:1", **properties, "receive.message.max.bytes": 1_000_000}
    )
    assert settings.max_response_bytes == 1_000_000


def test_settings_of_share_consumers_are_rejected_by_consumers_and_ignored_by_producers():
    settings = {"bootstrap.servers": "a:1", "group.id": "g", "share.acknowledgement.mode": "explicit"}
    assert ShareConsumerSettings.from_options({**settings, "share.acquire.mode": "record_limit"}).is_explicit
    with pytest.raises(OptionError, match=r"share\.acknowledgement\.mode is a setting of ShareConsumer"):
        ConsumerSettings.from_options(settings)
    ProducerSettings.from_options(settings)


def test_an_unknown_setting_without_similar_names_gives_a_short_error():
    with pytest.raises(OptionError) as caught:
        ConsumerSettings.from_options({"bootstrap.servers": "a:1", "zzz": 1})
    assert str(caught.value) == "a consumer has no setting 'zzz'"


def test_an_ignored_setting_is_logged_once(caplog):
    module._log_ignored_once.cache_clear()
    with caplog.at_level(logging.WARNING, "kafkaframes.client"):
        for _ in range(2):
            ConsumerSettings.from_options(JAVA_CONSUMER)
    (record,) = [line for line in caplog.records if "exclude.internal.topics" in line.getMessage()]
    assert record.getMessage() == "exclude.internal.topics is ignored: a pattern does not match internal topics"


@pytest.mark.parametrize("client", SETTINGS)
def test_the_types_of_keywords_are_those_of_the_settings(client):
    name = {"admin": "Client"}.get(client, client.title().replace(" ", ""))
    hints = typing.get_type_hints(getattr(option_types, f"{name}Options"))
    expected_types = typing.get_type_hints(SETTINGS[client])
    assert hints.keys() == {field.name for field in fields(SETTINGS[client])} - {"bootstrap_servers"}
    assert {name: hint for name, hint in hints.items() if name != "ssl_context"} == {
        name: expected_types[name] for name in hints if name != "ssl_context"
    }


def test_two_phase_commit_is_rejected_with_the_reason_unless_it_is_off():
    """KIP-939: Kafka 4.3.1 marks InitProducerId version 6 unstable, and Java's producer has no prepareTransaction."""
    settings = {"bootstrap.servers": "a:1", "transactional.id": "x"}
    with pytest.raises(OptionError, match=r"InitProducerId 6, which Kafka 4\.3 does not serve"):
        ProducerSettings.from_options({**settings, "transaction.two.phase.commit.enable": "true"})
    ProducerSettings.from_options({**settings, "transaction.two.phase.commit.enable": "false"})


@pytest.mark.parametrize("cls", [ProducerSettings, ConsumerSettings, ShareConsumerSettings])
def test_admin_options_are_the_common_settings_under_all_their_names(cls):
    names = list_setting_names(cls)
    aliases = {name: key for name, key in module._SETTING_ALIASES.items() if key in names}
    common_names = list_setting_names(ClientSettings)
    for name, key in {**{name: name for name in names}, **aliases}.items():
        assert select_client_options({name: "x"}) == ({name: "x"} if key in common_names else {}), name


def test_each_setting_has_one_kafka_name():
    for name, key in module._SETTING_ALIASES.items():
        if not name.endswith(".level"):  # the level of each codec is a separate setting
            assert to_kafka_name(name) == to_kafka_name(key) == to_kafka_name(name.replace(".", "_")), name
    for name in list_java_properties():
        assert to_kafka_name(name) == to_kafka_name(name.replace(".", "_")) == name
    assert to_kafka_name("max.poll.record") == "max.poll.record"
    assert to_kafka_names({"compression_zstd_level": 3}) == {"compression.zstd.level": 3}
    with pytest.raises(OptionError, match=r"acks and request\.required\.acks are names of one setting"):
        to_kafka_names({"acks": "all", "request.required.acks": "1"})
