"""An unreachable broker is named in the log after one second, and in the final error."""

import logging
import re
import socket
import time
from contextlib import closing

import pytest

from kafkaframes.client import Consumer, Producer, TopicPartition
from kafkaframes.client.cluster import UnreachableBrokers
from kafkaframes.errors import NetworkError


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_unreachable_brokers_are_logged_after_a_second_then_periodically_and_on_recovery(clock, caplog):
    unreachable = UnreachableBrokers("billing")
    with caplog.at_level(logging.WARNING, "kafkaframes.client"):
        for after in (0, 0.5, 1.0, 2.0, 10.9, 11.1, 40.9, 41.2):
            clock[0] = 100 + after
            unreachable.record_failure("b:9092", "b:9092 cannot be reached: refused")
        unreachable.record_failure("c:9092", "no such host")
        unreachable.record_success("b:9092")
        unreachable.record_success("b:9092")
    lines = [record.getMessage() for record in caplog.records]
    assert [re.findall(r"(?:for|after) (\d+) s", line)[0] for line in lines] == ["1", "11", "41", "41"]
    assert lines[0] == "client 'billing' cannot reach a broker for 1 s: b:9092 cannot be reached: refused"
    assert "has reached b:9092" in lines[-1]
    assert unreachable.describe_failures() == "c:9092: no such host"


@pytest.fixture
def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener.getsockname()[1]  # bound but not listening, so connections are refused


def test_the_error_names_all_addresses_and_the_log_only_the_first(free_port, caplog):
    servers = [f"127.0.0.1:{free_port}", "127.0.0.1:1"]
    consumer = Consumer(servers, default_api_timeout_ms=3_000)
    with caplog.at_level(logging.WARNING), closing(consumer), pytest.raises(NetworkError) as error:
        consumer.assign([TopicPartition("numbers", 0)])
    assert all(server in str(error.value) for server in servers)
    assert "cannot reach a broker for 1 s" in caplog.text
    assert servers[0] in caplog.text


def test_a_broker_that_accepts_connections_without_responding_is_named(caplog):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        producer = Producer(address, max_block_ms=1_300)
        with caplog.at_level(logging.WARNING), closing(producer), pytest.raises(NetworkError, match=address):
            producer.send("numbers", b"v")
    assert f"{address}: no response yet" in caplog.text
