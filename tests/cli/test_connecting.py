"""The cluster's address as commands accept it, and rows as text and JSON."""

import json
import socket

import pytest
from tests.cli.calling import ask

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.cli import connecting
from kafkaframes.cli.connecting import (
    SERVERS_VARIABLE,
    merge_connection_settings,
    parse_pairs,
    parse_topic_partition,
    print_rows,
)
from kafkaframes.cli.text import print_note
from kafkaframes.errors import BrokerError, NetworkError, OptionError

ROWS = [{"topic": "orders", "offset": 7}, {"topic": "t", "offset": None}]


def test_options_override_the_environment_which_overrides_localhost(monkeypatch):
    monkeypatch.delenv(SERVERS_VARIABLE, raising=False)
    assert merge_connection_settings(None, ()) == {"bootstrap.servers": "localhost:9092"}
    monkeypatch.setenv(SERVERS_VARIABLE, "a:1")
    assert merge_connection_settings(None, ()) == {"bootstrap.servers": "a:1"}
    assert merge_connection_settings("b:2", ("linger.ms=5",)) == {"bootstrap.servers": "b:2", "linger.ms": "5"}
    with pytest.raises(OptionError, match=r"-X linger\.ms: must be KEY=VALUE"):
        merge_connection_settings(None, ("linger.ms",))


def test_values_can_contain_equals_signs_and_be_empty():
    assert parse_pairs(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(OptionError, match="KEY=VALUE"):
        parse_pairs(["=x"])


@pytest.mark.parametrize("text", ["orders", "orders:", ":3", "orders:-1", "orders:x"])
def test_an_invalid_topic_partition_is_rejected(text):
    with pytest.raises(OptionError, match="TOPIC:PARTITION"):
        parse_topic_partition(text)


def test_rows_are_aligned_and_a_missing_value_is_empty_or_null(capsys):
    print_rows(ROWS, as_json=False)
    assert capsys.readouterr().out == "topic   offset\norders  7\nt\n"
    print_rows(ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    print_rows([], as_json=False)
    assert capsys.readouterr().out == ""


@pytest.fixture
def refused_address():
    """A closed address that no other process can bind."""
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound_socket.getsockname()[1]}"


COMMANDS = (
    "topics list", "topics describe t", "groups list", "configs show topic t", "consume t -e", "produce t",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_refused_connection_is_reported_without_a_long_wait(refused_address, command):
    result = ask(*command.split(), "-b", refused_address, "--timeout", "0", stdin=b"")
    assert isinstance(result.exception, NetworkError)
    assert f"{refused_address} cannot be reached" in str(result.exception)
    assert "increase --timeout to wait longer" in str(result.exception)


def test_the_wait_for_a_silent_server_has_the_given_timeout():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        result = ask("topics", "list", "-b", where, "--timeout", "1.5")
    assert isinstance(result.exception, NetworkError)
    assert f"waiting up to 1.5 s for {where}: no response yet" in result.stderr


@pytest.mark.parametrize("words", ["--quiet topics list", "topics --quiet list", "topics list --quiet"])
def test_quiet_commands_wait_without_output_for_any_flag_position(words):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        result = ask(*words.split(), "-b", where, "--timeout", "1.5")
    assert isinstance(result.exception, NetworkError)
    assert result.stderr == ""


def test_commands_wait_for_a_broker_that_is_starting(monkeypatch):
    """The broker starts after the command has reported that it waits."""
    bound_socket = socket.socket()
    bound_socket.bind(("127.0.0.1", 0))
    port = bound_socket.getsockname()[1]
    broker = Broker(port=port)

    lines = []

    def then_start(line: str) -> None:
        print_note(line)
        lines.append(line)
        if len(lines) == 1:
            bound_socket.close()
            broker.start().create_topic("late")

    monkeypatch.setattr(connecting, "print_note", then_start)
    try:
        result = ask("topics", "list", "-b", f"127.0.0.1:{port}", "--timeout", "100")
    finally:
        broker.stop()
    assert f"waiting up to 100 s for 127.0.0.1:{port}" in result.stderr
    assert result.exit_code == 0


def test_a_missing_topic_is_reported_immediately():
    with Broker(config={"auto.create.topics.enable": False}) as broker:
        result = ask("produce", "nowhere", "-b", broker.bootstrap_servers, "--timeout", "0", stdin=b"x\n")
    assert isinstance(result.exception, BrokerError)
    assert "does not exist, and the brokers do not create it" in str(result.exception)


def test_a_port_that_requires_sasl_is_reported_immediately():
    """The port answers ApiVersions to all clients, and closes the connection after any other request."""
    with Broker(security=Security(users={"alice": "secret"})) as broker:
        result = ask("topics", "list", "-b", broker.bootstrap_servers, "--timeout", "0")
    assert isinstance(result.exception, NetworkError)
    assert "does this port require SASL? (security.protocol is PLAINTEXT)" in str(result.exception)


@pytest.mark.parametrize("what", ["topics", "groups"])
def test_an_empty_result_is_explained_on_standard_error(what):
    with Broker() as broker:
        result = ask(what, "list", "-b", broker.bootstrap_servers)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"no {what}\n")
        assert ask("--quiet", what, "list", "-b", broker.bootstrap_servers).output == ""
        as_json = ask(what, "list", "-b", broker.bootstrap_servers, "--json")
        assert (as_json.stdout, as_json.stderr) == ("[]\n", "")
