"""Options of ``kafka-topic``: what is read, what is refused, and what is said then. No Spark."""

import pytest

from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import OptionError
from kafkaframes.scan.ranges import AtGroup
from kafkaframes.spark.topic_options import topic_options, topic_write_options

BASE = {"kafka.bootstrap.servers": "a:1"}


def parse(**options):
    return topic_options({**BASE, "subscribe": "t", **options}, is_stream=True)


@pytest.mark.parametrize("name", ["recordFormat", "messageFormat", "MESSAGEFORMAT"])
def test_the_record_format_reaches_the_producer(name):
    options = topic_write_options({**BASE, "topic": "t", name: "0"})
    assert ProducerSettings.of(options.client).record_format == 0


def test_a_login_as_java_clients_have_it_is_taken_by_readers_and_writers():
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": 'a.ScramLoginModule required username="u" password="p";',
    }
    assert parse(**login).client["sasl.jaas.config"]
    assert topic_write_options({**BASE, **login}).client["sasl.jaas.config"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kafka.sasl.mechanism": "GSSAPI"},
            r"option kafka\.\*: sasl\.mechanism: GSSAPI \(Kerberos\) is not supported",
        ),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets says where"),
        ({"startingOfsets": "latest"}, "did you mean startingOffsets"),
        ({"topic": "orders"}, r"unknown option topic: did you mean subscribe\?"),
        ({"startingOffsets": "group: "}, "must be the name of a group"),
        ({"assign": '{"t": [0]}'}, "not subscribe and assign together"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"maxTriggerDelay": "soon"}, "a duration such as"),
    ],
)
def test_what_is_refused_and_how(options, message):
    with pytest.raises(OptionError, match=message):
        parse(**options)


def test_a_group_to_start_at():
    assert parse(startingOffsets="group: readers ").start == AtGroup("readers")
