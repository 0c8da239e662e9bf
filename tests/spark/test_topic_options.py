"""Options of ``kafka-topic``: accepted ones, rejected ones, and the error texts. The tests run without Spark."""

import logging

import pyarrow as pa
import pytest

from kafkaframes import Broker
from kafkaframes.client.properties import _log_ignored_once, list_java_properties
from kafkaframes.client.settings import ConsumerSettings, ProducerSettings
from kafkaframes.errors import EncodeError, NetworkError, OptionError
from kafkaframes.jobs.write_topic.producer import open_producer
from kafkaframes.scan.ranges import GroupBound
from kafkaframes.spark.options import (
    FORBIDDEN_OPTIONS,
    check_exactly_once,
    parse_topic_options,
    parse_topic_write_options,
)

BASE = {"kafka.bootstrap.servers": "a:1"}
SUPPORTED = {name for name, java_property in list_java_properties().items() if java_property.treatment == "supported"}
VALUES = {
    "bootstrap.servers": "a:1",
    "security.protocol": "PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="p";',
    "sasl.login.callback.handler.class": "a.OAuthBearerLoginCallbackHandler",
    "isolation.level": "read_committed",
    "group.protocol": "classic",
    "compression.type": "zstd",
}


def parse(**options):
    return parse_topic_options({**BASE, "subscribe": "t", **options}, is_stream=True)


@pytest.mark.parametrize("name", ["recordFormat", "messageFormat", "MESSAGEFORMAT"])
def test_the_record_format_reaches_the_producer(name):
    options = parse_topic_write_options({**BASE, "topic": "t", name: "0"})
    assert ProducerSettings.from_options(options.client).record_format == 0


def test_logins_in_the_form_of_java_clients_are_accepted_by_reads_and_writes():
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": 'a.ScramLoginModule required username="u" password="p";',
    }
    assert parse(**login).client["sasl.jaas.config"]
    assert parse_topic_write_options({**BASE, **login}).client["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"},
            r"option kafka\.\*: GSSAPI needs sasl\.kerberos\.service\.name",
        ),
        (
            {"kafka.max.poll.record": "1"},
            r"kafka\.\*: a consumer has no setting 'max.poll.record'; did you mean max.poll.records",
        ),
        (
            {"kafka.isolation.level": "x"},
            r"option kafka\.\*: isolation\.level is 'x'; expected one of read_uncommitted",
        ),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets sets the start"),
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
        # gettyimages/docker-spark#70: partition.assignment.strategy without a prefix had no effect in Spark's connector
        (
            {"partition.assignment.strategy": "range"},
            r"unknown option partition.assignment.strategy: did you mean kafka.partition.assignment.strategy\?",
        ),
        ({"bootstrap.servers": "h:1"}, r"unknown option bootstrap.servers: did you mean kafka.bootstrap.servers\?"),
        ({"group.id": "g"}, r"did you mean kafka.group.id\?"),
        ({"auto.offset.reset": "earliest"}, "unknown option auto.offset.reset: .* startingOffsets sets the start"),
        ({"topic": "orders"}, r"unknown option topic: did you mean subscribe\?"),
        ({"startingOffsets": "group: "}, "must be the name of a group"),
        ({"assign": '{"t": [0]}'}, "not subscribe and assign together"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"maxTriggerDelay": "soon"}, "a duration such as"),
    ],
)
def test_invalid_options_and_their_errors(options, message):
    with pytest.raises(OptionError, match=message):
        parse(**options)


def test_a_group_as_the_start():
    assert parse(startingOffsets="group: readers ").start == GroupBound("readers")


PARTITIONERS = {"partitioner.class": "round_robin", "partitioner.ignore.keys": "true"}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_writes_accept_only_kafkas_default_partitioner(name):
    with pytest.raises(OptionError, match=rf"kafka.{name}: Spark's writers use the default partitioner"):
        parse_topic_write_options({**BASE, f"kafka.{name}": PARTITIONERS[name]})
    assert parse_topic_write_options(
        {**BASE, "kafka.partitioner.class": "default", "kafka.partitioner.ignore.keys": "false"}
    )


@pytest.mark.parametrize(
    "name",
    sorted(name for name, java_property in list_java_properties().items() if java_property.treatment != "rejected"),
)
def test_every_java_setting_is_accepted_by_reads_and_writes(name):
    if f"kafka.{name}" in FORBIDDEN_OPTIONS or name in PARTITIONERS or name.startswith("share."):
        return
    value = VALUES.get(name, "1")
    option = {
        f"kafka.{name}": value,
        **(
            {"kafka.compression.type": name.split(".")[1] if name.endswith("level") else "zstd"}
            if name.startswith("compression.")
            else {}
        ),
    }
    clients = list_java_properties()[name].clients
    read, write = parse(**option).client, parse_topic_write_options({**BASE, **option}).client
    assert (name in read, name in write) == tuple(
        name in SUPPORTED and (client in clients or "admin" in clients) for client in ("consumer", "producer")
    )


def test_settings_without_an_effect_are_logged_once_at_planning(caplog):
    _log_ignored_once.cache_clear()
    with caplog.at_level(logging.WARNING, "kafkaframes.client"):
        parse_topic_options({**BASE, "subscribe": "t", "kafka.client.dns.lookup": "x"}, is_stream=True, warns=False)
        assert not caplog.records
        options = parse(**{"kafka.client.dns.lookup": "x", "kafka.client.rack": "eu-1"})
        ConsumerSettings.from_options(options.client)
    assert [line.getMessage().partition(":")[0] for line in caplog.records] == ["client.dns.lookup is ignored"]
    assert ConsumerSettings.from_options(options.client).client_rack == "eu-1"


@pytest.mark.parametrize(
    "start",
    [
        {"startingTimestamp": "1700000000"},
        {"startingOffsetsByTimestamp": '{"t": {"0": 1700000000, "1": 1700000000}}'},
    ],
)
def test_a_time_in_seconds_causes_a_warning(start, caplog):
    """apache/spark#23747: the connector passes the number on, and every record is later than January 1970."""
    parse(**start)
    (message,) = caplog.messages
    assert "the time 1700000000 is 1970-01-20T16:13:20.000Z, because integers are milliseconds since 1970" in message
    caplog.clear()
    parse_topic_options({**BASE, "subscribe": "t", **start}, is_stream=True, warns=False)
    parse(startingTimestamp="1700000000000")
    parse(startingTimestamp="2026-11-28")
    assert not caplog.messages


def test_limits_of_a_micro_batch_must_be_consistent():
    servers_options = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
    for stream in (True, False):
        with pytest.raises(OptionError, match="minOffsetsPerTrigger=20 must not be above maxOffsetsPerTrigger=15"):
            parse_topic_options(
                {**servers_options, "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"}, is_stream=stream
            )
    parse_topic_options({**servers_options, "minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "15"}, is_stream=True)


@pytest.mark.parametrize(
    ("codec", "level", "bounds"), [("zstd", "99", "-131072 to 22"), ("gzip", "10", "-1 to 9"), ("lz4", "0", "1 to 17")]
)
def test_a_compression_level_is_checked_at_planning(codec, level, bounds):
    options = {"kafka.bootstrap.servers": "h:1", "kafka.compression.type": codec}
    with pytest.raises(OptionError, match=rf"option kafka\.compression\.{codec}\.level={level} must be from {bounds}"):
        parse_topic_write_options({**options, f"kafka.compression.{codec}.level": level})
    parse_topic_write_options({**options, f"kafka.compression.{codec}.level": "5"})


def test_the_sinks_producer_uses_max_request_size_and_max_block_ms():
    """``kafka.max.request.size`` and ``kafka.max.block.ms``, from the option to the client's error."""
    with Broker() as broker:
        options = {"kafka.max.request.size": "1000", "kafka.max.block.ms": "300", "topic": "t"}
        client = parse_topic_write_options({**options, "kafka.bootstrap.servers": broker.bootstrap_servers})
        with open_producer(client) as producer, pytest.raises(EncodeError, match="`max_request_size` is 1000"):
            producer.send_arrow(pa.table({"value": [b"x" * 2_000]}), topic="t")
    producer = open_producer(client)  # the broker is down now
    with pytest.raises(NetworkError, match=r"300 ms.*`max_block_ms`"):
        producer.send_arrow(pa.table({"value": [b"x"]}), topic="t")
    producer.close()


@pytest.mark.parametrize(
    ("option", "value", "setting"),
    [
        ("kafka.ssl.ca.location", "ca.pem", "ssl_cafile"),
        ("kafka.ssl_cafile", "ca.pem", "ssl_cafile"),
        ("kafka.sasl.plain.username", "u", "sasl_username"),
        ("kafka.socket.timeout.ms", "7", "request_timeout_ms"),
        ("kafka.security_protocol", "SSL", "security_protocol"),
    ],
)
def test_all_clients_of_a_write_use_connection_settings_under_any_name(option, value, setting):
    """The markers' consumer and the admin client connect as the producer does."""
    options = parse_topic_write_options({**BASE, "topic": "t", option: value})
    for client in (ProducerSettings.from_options(options.client), ConsumerSettings.from_options(options.connection)):
        assert str(getattr(client, setting)) == value


@pytest.mark.parametrize("name", ["kafka.request.required.acks", "kafka.enable_idempotence", "kafka.transactional_id"])
def test_an_exactly_once_write_rejects_reserved_settings_under_any_name(name):
    with pytest.raises(OptionError, match=r"an exactly-once write sets this option itself"):
        check_exactly_once(parse_topic_write_options({**BASE, "topic": "t", name: "1"}))


@pytest.mark.parametrize("name", ["kafka.auto_offset_reset", "kafka.auto.commit.enable", "kafka.interceptors"])
def test_a_forbidden_client_setting_is_rejected_under_any_name(name):
    with pytest.raises(OptionError, match=name):
        parse(**{name: "latest"})


def test_a_read_accepts_the_isolation_level_under_any_name():
    assert parse(**{"kafka.isolation_level": "read_committed"}).client["isolation.level"] == "read_committed"
    with pytest.raises(OptionError, match=r"isolation_level and isolation\.level are names of one setting"):
        parse(**{"kafka.isolation_level": "read_committed", "kafka.isolation.level": "read_committed"})


@pytest.mark.parametrize(
    ("text", "expected_ms"), [("10us", 0), ("2500us", 2), ("7ms", 7), ("7", 7), ("2min", 120_000), ("1d", 86_400_000)]
)
def test_a_delay_accepts_every_time_unit_of_spark(text, expected_ms):
    assert parse(maxTriggerDelay=text).max_trigger_delay_ms == expected_ms


def test_spark_options_without_an_effect_are_still_range_checked():
    parse(**{"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "0"})
    with pytest.raises(OptionError, match=r"option fetchOffset\.retryIntervalMs=-1: must be 0 or more"):
        parse(**{"fetchOffset.retryIntervalMs": "-1"})
