"""Unmodified Java clients work with the embedded broker: producers, consumers of each protocol, and each Admin call."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.interop import brokers

from kafkaframes.broker import Broker

SOURCES = Path(__file__).parent / "java" / "clients"
VERSION = "4.3.1"
CHECK_LINE = re.compile(r"ok |FAIL |\d+ failed$")


@pytest.fixture(scope="module")
def probe(oracle, tmp_path_factory):
    """A function that runs the Java checks with Kafka 4.3.1's clients. Return its lines."""
    libraries = brokers.kafka_or_skip(oracle, VERSION).module.fetch(VERSION)
    classes = tmp_path_factory.mktemp("classes")
    classpath = f"{classes}:{libraries}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", classes, SOURCES / "ClientProbe.java"], check=True, timeout=300)

    def run(bootstrap: str, **environment: str) -> list[str]:
        command = ["java", "-Xmx512m", "-cp", classpath, "ClientProbe", bootstrap]
        java_environment = os.environ | environment
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=900, env=java_environment, check=False
        )
        assert "failed" in process.stdout, process.stderr[-4000:]
        # skip Kafka's log lines
        return [line for line in process.stdout.splitlines() if CHECK_LINE.match(line)]

    return run


def test_kafka_4_clients_pass_every_check_on_the_embedded_broker(probe, tmp_path):
    with Broker(data_dir=tmp_path, journal=False) as broker:
        lines = probe(broker.bootstrap_servers, AUTHORIZER="1")
    assert [line for line in lines if not line.startswith("ok ")] == ["0 failed"]
    assert len(lines) > 90


def test_kafka_4_clients_pass_every_check_on_kafka(probe, oracle, tmp_path):
    kafka = brokers.KafkaFactory(brokers.real_kafka(oracle), VERSION)
    with kafka(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as node:
        lines = probe(node.bootstrap)
    assert [line for line in lines if not line.startswith("ok ")] == ["0 failed"]
