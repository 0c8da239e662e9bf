"""Kafka Streams, Connect and MirrorMaker give exact results with the embedded broker, while both are killed with
kill -9.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.interop.fetching import compile_java, fetch_by_maven
from tests.interop.trials import PeerClient, RunningProgram, ServedBroker, programs
from tests.soak.broker_kills import free_port

from kafkaframes import scan_topic
from kafkaframes.client import Producer

KEY_COUNT = 7
RECORD_COUNT = 1_500
STEP_COUNT = 3  # number of parts written, with a kill after each except the last
SOURCES = Path(__file__).parent / "other"
VERSIONS = ("4.3.1", "3.9.1")
PATIENCE_SECONDS = 180


@pytest.fixture
def served_broker(tmp_path: Path) -> Iterator[ServedBroker]:
    broker = ServedBroker(tmp_path / "data")
    yield broker
    broker.close()


@pytest.fixture
def jars() -> Callable[[str], Path]:
    """Return a function that returns the folder with the jars of Streams and Connect in a version."""

    def folder(version: str) -> Path:
        parts = ("kafka-streams", "connect-runtime", "connect-file", "connect-mirror")
        simple = "1.7.36"
        return fetch_by_maven(
            f"frameworks-{version}",
            *(f"org.apache.kafka:{part}:{version}" for part in parts),
            f"org.slf4j:slf4j-simple:{simple}",
        )

    return folder


def wait_until(what: str, is_so: Callable[[], bool], *running: RunningProgram) -> None:
    """Wait for a condition while programs run."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not so: {what}; {[one.errors() for one in running]}"
        time.sleep(0.3)


@pytest.mark.parametrize("version", VERSIONS)
def test_streams_counts_exactly(client_trials, served_broker, jars, tmp_path, version):
    client_trials.begin("Kafka Streams", version, "exactly_once_v2, kill -9")
    command = compile_java(SOURCES / "Counts.java", jars(version), tmp_path / "classes")
    served_broker.create("words")
    served_broker.create("counts")
    with programs(served_broker, PeerClient("Kafka Streams", version, tuple(command))) as start:
        counts = start("words", "counts", tmp_path / "state")
        for step in range(STEP_COUNT):
            with Producer(served_broker.bootstrap) as producer:
                for number in range(step * RECORD_COUNT // STEP_COUNT, (step + 1) * RECORD_COUNT // STEP_COUNT):
                    producer.send("words", b"x", key=b"key-%d" % (number % KEY_COUNT))
                    time.sleep(0.003)
                producer.flush()
            if step == 0:
                wait_until("it counts", lambda: len(served_broker.values("counts")) > 100, counts)
                counts.kill()
                counts = start("words", "counts", tmp_path / "state")
            elif step == 1:
                served_broker.crash()
        wait_until("all is counted", lambda: len(served_broker.values("counts")) >= RECORD_COUNT, counts)
        counts.end()
    counts_by_key: dict[bytes, list[int]] = defaultdict(list)
    for key, value in rows(served_broker, "counts"):
        counts_by_key[key].append(int(value))
    expected_counts = {b"key-%d" % key: len(range(key, RECORD_COUNT, KEY_COUNT)) for key in range(KEY_COUNT)}
    assert {key: (values == list(range(1, len(values) + 1)), len(values)) for key, values in counts_by_key.items()} == {
        key: (True, count) for key, count in expected_counts.items()
    }
    client_trials.saw(f"{RECORD_COUNT:,} records, the application and the broker killed, every count once")


def rows(served_broker: ServedBroker, topic: str) -> list[tuple[bytes, bytes]]:
    """Return keys and values of committed records, in the order of their partitions."""
    table = scan_topic(served_broker.bootstrap, topic).select("partition", "offset", "key", "value").to_arrow()
    sorted_table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return list(zip(sorted_table["key"].to_pylist(), sorted_table["value"].to_pylist(), strict=True))


@contextmanager
def java(folder: Path, libraries: Path, main: str, settings: dict[str, object]) -> Iterator[Callable[[], None]]:
    """Run a Java program whose argument is a properties file. Yield a function that kills and restarts the program."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{main.rpartition('.')[2]}.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    log = (folder / "log").open("ab")
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command = ["java", *options, "-cp", f"{libraries}/*", main, str(file)]

    def begin() -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"KAFKA_HOME": str(folder)})

    running = [begin()]

    def crash() -> None:
        running[-1].kill()
        running[-1].wait()
        running.append(begin())

    try:
        yield crash
    finally:
        running[-1].terminate()
        try:
            running[-1].wait(60)
        except subprocess.TimeoutExpired:
            running[-1].kill()
            running[-1].wait()
        log.close()


def test_connect_writes_each_line_once(client_trials, served_broker, jars, tmp_path):
    version = VERSIONS[0]
    client_trials.begin("Kafka Connect", version, "exactly-once source, kill -9")
    libraries = jars(version)
    address = f"http://127.0.0.1:{free_port()}"
    source = tmp_path / "lines"
    source.write_text("")
    converter = "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": served_broker.bootstrap,
        "group.id": "workers",
        "listeners": address,
        "exactly.once.source.support": "enabled",
        "key.converter": converter,
        "value.converter": converter,
        "scheduled.rebalance.max.delay.ms": 0,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
    }
    connector = {
        "connector.class": "FileStreamSource",
        "file": str(source),
        "topic": "lines",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "transaction.boundary": "poll",
    }
    served_broker.create("lines", 1)
    lines = [f"line {number}" for number in range(RECORD_COUNT)]
    with java(tmp_path / "connect", libraries, "org.apache.kafka.connect.cli.ConnectDistributed", worker) as crash:
        wait_until("the connector is made", lambda: put_json(f"{address}/connectors/lines/config", connector))
        for step in range(STEP_COUNT):
            with source.open("a") as file:
                for number in range(step * RECORD_COUNT // STEP_COUNT, (step + 1) * RECORD_COUNT // STEP_COUNT):
                    file.write(f"{lines[number]}\n")
                    file.flush()
                    time.sleep(0.003)
            wait_until(
                "something is written",
                lambda step=step: len(served_broker.values("lines")) > step * RECORD_COUNT // STEP_COUNT,
            )
            if step == 0:
                crash()
            elif step == 1:
                served_broker.crash()
        wait_until("all is written", lambda: len(served_broker.values("lines")) >= RECORD_COUNT)
    assert served_broker.values("lines") == lines
    client_trials.saw(
        f"{RECORD_COUNT:,} lines of a file, the worker and the broker killed, each written once, in order"
    )


def put_json(url: str, body: dict[str, str]) -> bool:
    """Return whether a worker accepted the request."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.status in (200, 201)
    except OSError:
        return False


def test_mirror_maker_copies_each_record_once(client_trials, served_broker, jars, tmp_path):
    version = VERSIONS[0]
    client_trials.begin("MirrorMaker 2", version, "exactly once, kill -9")
    libraries = jars(version)
    target = ServedBroker(tmp_path / "target")
    settings = {
        "clusters": "here, there",
        "here.bootstrap.servers": served_broker.bootstrap,
        "there.bootstrap.servers": target.bootstrap,
        "here->there.enabled": "true",
        "there->here.enabled": "false",
        "here->there.topics": "orders",
        "here->there.sync.topic.acls.enabled": "false",
        "replication.factor": 1,
        **{f"{kind}.topic.replication.factor": 1 for kind in ("checkpoints", "heartbeats", "offset-syncs")},
        **{f"{kind}.storage.replication.factor": 1 for kind in ("offset", "status", "config")},
        "refresh.topics.interval.seconds": 5,
        "scheduled.rebalance.max.delay.ms": 0,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
        "there.exactly.once.source.support": "enabled",
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    served_broker.create("orders")
    try:
        with java(tmp_path / "mirror", libraries, "org.apache.kafka.connect.mirror.MirrorMaker", settings) as crash:
            for step in range(STEP_COUNT):
                with Producer(served_broker.bootstrap) as producer:
                    for number in range(step * RECORD_COUNT // STEP_COUNT, (step + 1) * RECORD_COUNT // STEP_COUNT):
                        producer.send("orders", b"order-%d" % number, key=b"%d" % number)
                        time.sleep(0.002)
                    producer.flush()
                wait_until(
                    "something is copied", lambda step=step: count_copied(target) > step * RECORD_COUNT // STEP_COUNT
                )
                if step == 0:
                    crash()
                elif step == 1:
                    target.crash()
            wait_until("all is copied", lambda: count_copied(target) >= RECORD_COUNT)
        assert rows(target, "here.orders") == rows(served_broker, "orders")
    finally:
        target.close()
    client_trials.saw(f"{RECORD_COUNT:,} records, MirrorMaker and the target killed, each copied once, in order")


def count_copied(target: ServedBroker) -> int:
    """Return the number of records in the target so far."""
    from kafkaframes.errors import KafkaframesError

    try:
        return len(target.values("here.orders"))
    except KafkaframesError:  # the topic does not exist yet
        return 0
