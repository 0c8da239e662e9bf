"""The options of ``kafkaframes broker``; that it runs and stops is in ``test_interrupts_live.py``."""

import os
import sys

import pytest
from tests.cli.calling import ask

from kafkaframes.broker import Broker
from kafkaframes.cli.broker import _announce_broker, _describe_broker, _list_remarks, _parse_address, _parse_settings
from kafkaframes.errors import OptionError


def test_an_address_is_a_port_or_a_host_and_a_port():
    assert _parse_address("8080", "--control") == ("127.0.0.1", 8080)
    assert _parse_address("[::1]:0", "--control") == ("::1", 0)
    for text in ("", "host:", "host:x", "65536", "host:٣"):
        with pytest.raises(OptionError, match="--control must be PORT or HOST:PORT"):
            _parse_address(text, "--control")


def test_a_setting_overrides_the_file_and_an_unknown_one_is_reported(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.dirs=/data\nzookeeper.connect=z:2181\n")
    settings, unknown = _parse_settings(str(file), ("num.partitions=5",))
    assert (settings["num.partitions"], settings["log.dirs"], unknown) == ("5", "/data", ("zookeeper.connect",))
    with pytest.raises(OptionError, match="a supported broker setting"):
        _parse_settings(None, ("no.such.key=1",))


def test_the_first_lines_describe_the_durability_of_records(tmp_path):
    broker_options = {"serve": (), "data_dir": str(tmp_path)}
    assert "lost when the broker stops" in _describe_broker(Broker(), broker_options)[0]
    broker = Broker(data_dir=str(tmp_path / "own"), durability="fsync")
    lines = _describe_broker(broker, broker_options)
    assert f"data in {tmp_path}" in lines[0]
    assert "flushed to disk" in lines[1]
    assert (
        _list_remarks(broker, ("zookeeper.connect",))[-1] == "settings without effect in this broker: zookeeper.connect"
    )


def test_an_invalid_address_is_rejected_before_the_broker_listens():
    result = ask("broker", "--port", "0", "--control", "nowhere")
    assert "--control must be PORT or HOST:PORT" in str(result.exception)


def test_the_request_log_must_be_outside_of_served_directories(tmp_path):
    served_dirs = [tmp_path / name for name in ("a", "b")]
    options = [part for one in served_dirs for part in ("--serve", str(one))]
    for one in served_dirs:
        one.mkdir()
        result = ask("broker", *options, "--request-log", str(one / "requests.log"))
        assert isinstance(result.exception, OptionError)
        assert f"is inside the source {one}" in str(result.exception)


def test_a_broker_with_a_closed_standard_output_continues(monkeypatch):
    """A process that starts the broker often closes the pipe after reading the first line, which has the address."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as closed_file:
        monkeypatch.setattr(sys, "stderr", closed_file)
        _announce_broker(Broker(), {"serve": (), "data_dir": None, "storage": {}}, ())
        print("goes nowhere from now on", file=closed_file, flush=True)
