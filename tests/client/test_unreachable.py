"""A broker that does not answer is named: in the log after a second, and in the error at the end."""

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


def test_it_warns_after_a_second_then_now_and_then_and_when_it_is_back(clock, caplog):
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
        yield listener.getsockname()[1]  # bound and not listening: refused


def test_the_error_names_every_address_and_the_log_the_first_of_them(free_port, caplog):
    servers = [f"127.0.0.1:{free_port}", "127.0.0.1:1"]
    consumer = Consumer(servers, default_api_timeout_ms=3_000)
    with caplog.at_level(logging.WARNING), closing(consumer), pytest.raises(NetworkError) as error:
        consumer.assign([TopicPartition("numbers", 0)])
    assert all(server in str(error.value) for server in servers)
    assert "cannot reach a broker for 1 s" in caplog.text
    assert servers[0] in caplog.text


def test_a_broker_that_takes_connections_and_says_nothing_is_named_too(caplog):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        producer = Producer(where, max_block_ms=1_300)
        with caplog.at_level(logging.WARNING), closing(producer), pytest.raises(NetworkError, match=where):
            producer.send("numbers", b"v")
    assert f"{where}: no response yet" in caplog.text
