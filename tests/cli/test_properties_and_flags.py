"""``-X`` overrides defaults, never an explicit flag; slow pipes; groups with active members."""

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.cli.calling import ask_or_raise

from kafkaframes import Broker
from kafkaframes.cli.line_input import StopSignal, read_lines
from kafkaframes.client import Admin, Consumer, Producer, TopicPartition
from kafkaframes.client.properties import merge_settings
from kafkaframes.errors import OptionError
from kafkaframes.records.scan import scan_all


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topic("money")
        with Producer(broker.bootstrap_servers, transactional_id="x") as producer:
            producer.begin_transaction()
            producer.send("money", b"committed")
            producer.commit_transaction()
            producer.begin_transaction()
            producer.send("money", b"aborted").result(60)
            producer.abort_transaction()
        yield broker


def run(broker, *arguments: str, stdin: bytes | None = None) -> str:
    return ask_or_raise(*arguments, "-b", broker.bootstrap_servers, stdin=stdin).stdout


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ((), "committed\naborted\n"),
        (("-X", "isolation.level=read_committed"), "committed\n"),
        (("-X", "isolation_level=read_committed"), "committed\n"),
        (("--isolation", "read_committed", "-X", "isolation.level=read_uncommitted"), "committed\n"),
        (("-X", "auto.offset.reset=latest"), ""),
        (("-X", "auto.offset.reset=latest", "--offset", "beginning"), "committed\naborted\n"),
        (("-X", "auto.offset.reset=by_duration:PT1H"), "committed\naborted\n"),
        (("-X", "auto.offset.reset=by_duration:PT0S"), ""),
    ],
)
def test_consume(broker, arguments, values):
    assert run(broker, "consume", "money", "-e", *arguments) == values


def test_consume_uses_the_group_of_a_property(broker):
    options = ("-X", "group.id=by-property", "-X", "auto.offset.reset=earliest")
    assert run(broker, "consume", "money", "-e", *options) == "committed\naborted\n"
    assert "by-property" in broker.groups
    run(broker, "consume", "money", "-e", "-g", "by-flag", "-X", "group.id=not-this-one")
    assert "by-flag" in broker.groups
    assert "not-this-one" not in broker.groups
    with pytest.raises(OptionError, match=r"auto\.offset\.reset=none"):
        run(broker, "consume", "money", "-e", "-X", "auto.offset.reset=none")


@pytest.mark.parametrize(
    ("arguments", "codec"),
    [
        ((), 0),
        (("-X", "compression.type=zstd"), 4),
        (("-X", "compression.codec=lz4"), 3),
        (("-z", "gzip", "-X", "compression.type=zstd"), 1),
        (("-z", "none", "-X", "compression.codec=zstd"), 0),
    ],
)
def test_produce_uses_properties(broker, arguments, codec):
    topic = f"codec-{len(broker.topics)}"
    run(broker, "produce", topic, *arguments, stdin=b"x" * 500 + b"\n")
    with Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        assert scan_all(bytes(consumer.fetch(60_000).data)).codecs.tolist() == [codec]


def test_servers_on_the_command_line_override_properties(broker):
    assert run(broker, "consume", "money", "-e", "-X", "bootstrap.servers=127.0.0.1:1") == "committed\naborted\n"
    only = ask_or_raise("consume", "money", "-e", "-X", f"bootstrap.servers={broker.bootstrap_servers}")
    assert only.stdout == "committed\naborted\n"


def test_later_settings_override_earlier_ones_under_any_name():
    levels = {"compression.zstd.level": "3", "compression.lz4.level": "4"}
    assert merge_settings({"compression.type": "none"}, levels, {"compression.codec": "zstd"}) == {
        **levels,
        "compression.codec": "zstd",
    }
    assert merge_settings({"metadata.broker.list": "a"}, {"bootstrap_servers": "b"}) == {"bootstrap_servers": "b"}


# ------------------------------------------------------------------------------------------------------- slow pipes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_slow_lines_are_sent_immediately_and_on_signals(broker, number):
    """The test runs ``kafkaframes produce`` with a slow pipe, as in ``tail -f log | kafkaframes produce t``."""
    topic = f"slow-{number.name}"
    broker.create_topic(topic)
    command = [sys.executable, "-m", "kafkaframes", "produce", topic, "-b", broker.bootstrap_servers]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    broker.wait_for(lambda: len(broker.records(topic)) == 2, what="lines of a pipe that stays open")
    process.stdin.write(b"3\nincomplete")
    process.stdin.flush()
    broker.wait_for(lambda: len(broker.records(topic)) == 3, what="the next line")
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert b"3 records written" in process.stderr.read()
    process.stdin.close()
    process.stderr.close()
    assert [record.value for record in broker.records(topic)] == [b"1", b"2", b"3"]


class StopAfterOneRead(StopSignal):
    """A stop signal that is received after the first lines were read."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = iter((None, signal.SIGTERM))

    @property
    def number(self):
        return next(self._numbers)

    @number.setter
    def number(self, value):
        pass


def test_buffered_lines_are_returned_on_a_signal():
    read_end, write_end = os.pipe()
    os.write(write_end, b"1\n2\nincomplete")
    stop = StopAfterOneRead()
    with open(read_end, "rb") as stream:
        assert list(read_lines(stream, stop, linger_s=600.0, max_lines=10)) == [[b"1", b"2"]]
    os.close(write_end)
    stop.close()


def test_a_group_of_lines_ends_by_time_or_size():
    read_end, write_end = os.pipe()
    os.write(write_end, b"1\n2\n3\n")
    stop = StopSignal()
    with open(read_end, "rb") as stream:
        groups = read_lines(stream, stop, linger_s=0.01, max_lines=2)
        assert [next(groups), next(groups)] == [[b"1", b"2"], [b"3"]]
        os.write(write_end, b"4")
        os.close(write_end)
        assert list(groups) == [[b"4"]]
    stop.close()


def test_long_lines_and_a_last_line_without_line_end_are_read(broker):
    run(broker, "produce", "lines", stdin=b"a\n\n" + b"x" * 600_000 + b"\nlast")
    assert [record.value for record in broker.records("lines")] == [b"a", b"", b"x" * 600_000, b"last"]


# ------------------------------------------------------------------------------------------------------------ groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_error_for_resetting_an_active_group_has_a_remedy(broker, protocol):
    group = f"busy-{protocol}"
    options = {"group_id": group, "group_protocol": protocol, "client_id": "billing", "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, **options) as consumer:
        consumer.subscribe("money")
        while not consumer.poll(60_000):
            pass
        consumer.commit()
        with pytest.raises(OptionError, match=rf"group {group} is active .*billing.*Stop its consumers"):
            run(broker, "groups", "reset", group, "money:0=0")
        assert consumer.committed([TopicPartition("money", 0)])[TopicPartition("money", 0)].offset > 0
        assert "would be at 0" in run(broker, "groups", "reset", group, "money:0=0", "--dry-run")
    run(broker, "groups", "reset", group, "money:0=0")


def test_lag_equals_that_of_kafka_consumer_groups(broker):
    """The lag is negative if the committed offset is after the log end. Without a commit or for a deleted topic, it is
    missing.
    """
    broker.create_topic("gone")
    end = len(broker.records("money")) + 2  # and two markers
    run(broker, "groups", "reset", "lagging", "money:0=1", "gone:0=7")
    with Consumer(broker.bootstrap_servers, group_id="lagging") as consumer:
        consumer.commit({TopicPartition("money", 0): end + 5})
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics(["gone"])
    rows = json.loads(run(broker, "groups", "describe", "lagging", "--json"))
    lags = {row["topic"]: (row["log_end_offset"], row["lag"]) for row in rows}
    assert lags["money"] == (end, -5)
    assert lags.get("gone", (None, None)) == (None, None)
