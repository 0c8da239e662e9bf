"""Kafka Streams 4.3.1 with group.protocol=streams and exactly_once_v2 counts exactly while applications and brokers
are killed.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.interop.releases import JAVA_SOURCES, SLF4J_COORDINATE, fetch

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer

WORDS, ROUND, PARTITIONS = 20, 2_000, 4
ROW, EXACT = ("Kafka Streams, group.protocol=streams", "4.3.1"), "every count once"  # in docs/clients.md
_LIBRARIES = (
    "org.apache.kafka:kafka-streams:4.3.1",
    "org.apache.kafka:kafka-clients:4.3.1",
    "org.rocksdb:rocksdbjni:10.1.3",
    "com.fasterxml.jackson.core:jackson-databind:2.21.2",
    "com.fasterxml.jackson.core:jackson-core:2.21.2",
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
    SLF4J_COORDINATE,
    "org.slf4j:slf4j-simple:1.7.36",
)
# With these settings, a killed application's session expires soon, and members get their tasks soon.
SETTINGS = {
    "group.streams.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}
_TIMEOUT_SECONDS = 240


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the application, without its arguments."""
    classes = tmp_path_factory.mktemp("classes")
    classpath = ":".join([str(classes), *(str(fetch(library)) for library in _LIBRARIES)])
    source = JAVA_SOURCES / "streams" / "CountWords.java"
    subprocess.run(["javac", "-cp", classpath, "-d", classes, source], check=True, timeout=300)
    return ["java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, "CountWords"]


class StreamsApplications:
    """Instances of the application, each with its own state directory."""

    def __init__(self, command: list[str], folder: Path, bootstrap: str) -> None:
        self._command, self._folder, self._bootstrap = command, folder, bootstrap
        self._numbers = count()
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        folder = self._folder / f"app-{next(self._numbers)}"
        folder.mkdir()
        with (folder / "said").open("wb") as log_file:
            words = [*self._command, self._bootstrap, str(folder), "streams"]
            process = subprocess.Popen(words, stdout=log_file, stderr=subprocess.STDOUT)
        self._running.append(process)
        return process

    def end(self) -> None:
        for one in self._running:
            one.kill()
            one.wait()


@contextmanager
def applications(command: list[str], folder: Path, bootstrap: str) -> Iterator[StreamsApplications]:
    applications = StreamsApplications(command, folder, bootstrap)
    try:
        yield applications
    finally:
        applications.end()


class WordRounds:
    """The input in rounds of words, and the expected counts."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.sent_count = 0
        with Admin(bootstrap) as admin:
            admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in ("in", "out")])

    def send(self) -> None:
        with Producer(self._bootstrap) as producer:
            for number in range(self.sent_count, self.sent_count + ROUND):
                producer.send("in", f"w{number % WORDS}", key=str(number))
        self.sent_count += ROUND

    def committed_counts(self) -> dict[str, list[int]]:
        """Return the committed counts of each word, in order."""
        rows = kafkaframes.scan_topic(self._bootstrap, "out").select("key", "value").to_arrow().to_pylist()
        counts_by_word: dict[str, list[int]] = {}
        for row in rows:
            counts_by_word.setdefault(row["key"].decode(), []).append(int(row["value"]))
        return counts_by_word

    def wait(self, at_least: int) -> dict[str, list[int]]:
        """Wait until the output has ``at_least`` counts."""
        end = time.monotonic() + _TIMEOUT_SECONDS
        while sum(map(len, counts := self.committed_counts().values())) < at_least:
            assert time.monotonic() < end, f"{sum(map(len, counts))} of {at_least}"
            time.sleep(0.5)
        return self.committed_counts()

    def check(self) -> None:
        """Check that each word was counted once per round, in order."""
        each = list(range(1, self.sent_count // WORDS + 1))
        assert self.wait(self.sent_count) == {f"w{number}": each for number in range(WORDS)}


def test_applications_and_the_broker_are_killed(client_trials, java, tmp_path):
    client_trials.begin(*ROW, "an application and the broker killed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = tmp_path / "server.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in SETTINGS.items()))
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", str(port), "--config", str(settings)]
    command += ["--data-dir", str(tmp_path / "data")]
    broker = _start_broker(command, tmp_path / "broker-1")
    try:
        with applications(java, tmp_path, bootstrap := f"127.0.0.1:{port}") as apps:
            words = WordRounds(bootstrap)
            first, _ = apps.start(), apps.start()
            words.send()
            words.wait(ROUND // 2)
            first.kill()
            words.send()
            words.wait(ROUND)
            broker.send_signal(signal.SIGKILL)
            broker.wait()
            broker = _start_broker(command, tmp_path / "broker-2")
            words.send()
            apps.start()
            words.check()
            client_trials.saw(EXACT)
    finally:
        broker.kill()
        broker.wait()


def _start_broker(command: list[str], log_path: Path) -> subprocess.Popen[bytes]:
    """Start a broker. Start the broker's command; return once it listens."""
    with log_path.open("wb") as file:
        broker = subprocess.Popen(command, stderr=file)
    while "listen" not in log_path.read_text():
        assert broker.poll() is None, log_path.read_text()
        time.sleep(0.05)
    return broker


def test_the_node_that_coordinates_the_group_is_killed(client_trials, java, tmp_path):
    client_trials.begin(*ROW, "the node that coordinates killed twice, of three")
    with (
        Broker(cluster=3, data_dir=tmp_path / "data", config=SETTINGS, journal=False) as broker,
        applications(java, tmp_path, broker.bootstrap_servers) as apps,
    ):
        words = WordRounds(broker.bootstrap_servers)
        apps.start()
        words.send()
        words.wait(ROUND // 2)
        for _ in range(2):
            coordinator = broker.call(lambda state: state.nodes.coordinator_of(0, "count").node_id)
            broker.kill(node=coordinator)
            words.send()
            words.wait(words.sent_count - ROUND // 2)
            broker.start_node(coordinator)
        words.check()
        client_trials.saw(EXACT)
