"""Metrics pushed by clients (KIP-714) reach a plugin of Apache Kafka as those of the Java clients do."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from tests import waiting

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, Producer, ShareConsumer
from kafkaframes.errors import BrokerError

SOURCES = Path(__file__).parent / "java" / "telemetry"
PATIENCE_S = 120
wait_for = partial(waiting.wait_for, patience_s=PATIENCE_S)
PREFIX = "org.apache.kafka."
#: The standard metrics of KIP-714.
STANDARD_METRICS = {
    "producer": {
        "producer.connection.creation.rate",
        "producer.connection.creation.total",
        "producer.node.request.latency.avg",
        "producer.node.request.latency.max",
        "producer.produce.throttle.time.avg",
        "producer.produce.throttle.time.max",
        "producer.record.queue.time.avg",
        "producer.record.queue.time.max",
    },
    "consumer": {
        "consumer.connection.creation.rate",
        "consumer.connection.creation.total",
        "consumer.node.request.latency.avg",
        "consumer.node.request.latency.max",
        "consumer.poll.idle.ratio.avg",
        "consumer.coordinator.commit.latency.avg",
        "consumer.coordinator.commit.latency.max",
        "consumer.coordinator.assigned.partitions",
        "consumer.coordinator.rebalance.latency.avg",
        "consumer.coordinator.rebalance.latency.max",
        "consumer.coordinator.rebalance.latency.total",
        "consumer.fetch.manager.fetch.latency.avg",
        "consumer.fetch.manager.fetch.latency.max",
    },
}
#: Metrics that only this client reports as a total, or that Java's client reports with another type.
DIFFERENT_KIND_METRICS = {"producer.records.per.batch.avg"}


class MetricPoint(NamedTuple):
    """A metric point, as a line of ``TelemetryCollector.java``'s output."""

    client_id: str
    instance_id: str
    terminating: str
    client: str
    name: str
    kind: str
    labels: str
    value: str
    duration_ns: str


@pytest.fixture(scope="module")
def classes(kafka, tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("classes")
    libraries = kafka.module.classpath(kafka.version)
    subprocess.run(["javac", "-cp", libraries, "-d", folder, *SOURCES.glob("*.java")], check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def file(kafka, tmp_path_factory) -> Path:  # one folder for each version
    return tmp_path_factory.mktemp("telemetry") / "points.tsv"


@pytest.fixture(scope="module")
def servers(kafka, classes, file, tmp_path_factory) -> Iterator[str]:
    libraries = kafka.module.classpath(kafka.version)
    properties = {"metric.reporters": "TelemetryCollector", "test.telemetry.file": str(file)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka.module, "classpath", lambda version: f"{classes}:{libraries}")
        with kafka(tmp_path_factory.mktemp("kafka"), properties) as node, Admin(node.bootstrap) as admin:
            admin.create_topics({"t": 1})
            admin.alter_configs("client-metrics", "all", {"metrics": "*", "interval.ms": "1000"})
            yield node.bootstrap


@pytest.fixture(scope="module")
def read_points(file) -> Callable[[str], list[MetricPoint]]:
    def read(client_id: str) -> list[MetricPoint]:
        lines = file.read_text().splitlines() if file.exists() else []
        all_points = [MetricPoint(*line.split("\t")) for line in lines]
        return [point for point in all_points if point.client_id == client_id]

    return read


def run_java_clients(kafka, classes: Path, servers: str) -> None:
    """Let the Java clients, with the client id ``java``, push metrics while they use the topic ``t``."""
    libraries = f"{classes}:{kafka.module.fetch(kafka.version)}/*"
    command = ["java", "-cp", libraries, "PushingClients", servers, "t", "java"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def java_points(kafka, classes, servers, read_points) -> list[MetricPoint]:
    run_java_clients(kafka, classes, servers)
    return read_points("java")


def kinds_of(points: list[MetricPoint], client: str) -> dict[str, str]:
    return {point.name.removeprefix(PREFIX): point.kind for point in points if point.name.startswith(PREFIX + client)}


def labels_of(points: list[MetricPoint], name: str) -> set[frozenset[str]]:
    """Return the label names of a metric's points."""
    texts = (point.labels for point in points if point.name == PREFIX + name)
    return {frozenset(part.partition("=")[0] for part in text[1:-1].split(", ") if part) for text in texts}


def to_kafka_text(instance_id) -> str:
    return base64.urlsafe_b64encode(instance_id.bytes).decode().rstrip("=")


def push_as_producer(servers: str, client_id: str, read_points) -> str:
    with Producer(
        servers, client_id=client_id, enable_metrics_push=True, transactional_id=f"{client_id}-id"
    ) as producer:
        producer.begin_transaction()
        producer.send("t", b"1").result(PATIENCE_S)
        producer.commit_transaction()
        instance_id = producer.client_instance_id(60_000)
        wait_for(lambda: read_points(client_id))
        producer.begin_transaction()
        producer.send("t", b"2").result(PATIENCE_S)
        producer.commit_transaction()
    return to_kafka_text(instance_id)


def push_as_consumer(servers: str, client_id: str, read_points) -> str:
    settings = {"group_id": client_id, "group_instance_id": "i1", "client_rack": "r1"}
    with Consumer(
        servers, client_id=client_id, enable_metrics_push=True, auto_offset_reset="earliest", **settings
    ) as consumer:
        consumer.subscribe("t")
        wait_for(lambda: consumer.poll(200))
        consumer.commit()
        instance_id = consumer.client_instance_id(60_000)
        point_count = len(read_points(client_id))
        wait_for(lambda: consumer.poll(200) or len(read_points(client_id)) > point_count)
    return to_kafka_text(instance_id)


@pytest.mark.parametrize(("client", "push"), [("producer", push_as_producer), ("consumer", push_as_consumer)])
def test_a_plugin_gets_the_metrics_that_java_clients_push(servers, read_points, java_points, client, push):
    instance_id = push(servers, client, read_points)
    ours = read_points(client)
    assert {point.instance_id for point in ours} == {instance_id}
    assert ours[-1].terminating == "true"
    java = [point for point in java_points if point.name.startswith(PREFIX + client)]
    kinds, java_kinds = kinds_of(ours, client), kinds_of(java, client)
    assert STANDARD_METRICS[client] <= java_kinds.keys()
    assert STANDARD_METRICS[client] <= kinds.keys()
    assert kinds.keys() - java_kinds.keys() <= DIFFERENT_KIND_METRICS
    different = {name: (kind, java_kinds[name]) for name, kind in kinds.items() if java_kinds.get(name, kind) != kind}
    assert different == {}
    for name in kinds.keys() & java_kinds.keys():
        assert labels_of(ours, name) <= labels_of(java, name), name
    names = {part.partition("=")[0] for part in ours[0].client[1:-1].split(", ")}
    java_names = {part.partition("=")[0] for part in java[-1].client[1:-1].split(", ")}
    # Java's Admin accepts any setting
    assert names == java_names - ({"client_rack"} if client == "producer" else set())


def test_the_sum_of_all_pushes_is_the_producers_total(servers, read_points):
    push_as_producer(servers, "totals", read_points)
    name = f"{PREFIX}producer.record.send.total"
    assert sum(float(point.value) for point in read_points("totals") if point.name == name) == 2


def test_share_consumers_and_admins_push(servers, read_points, kafka):
    with Admin(servers, client_id="admin", enable_metrics_push=True) as admin:
        admin.list_topics()
        wait_for(lambda: read_points("admin"))
    assert {point.name.startswith(f"{PREFIX}admin.client.") for point in read_points("admin")} == {True}
    if kafka.version.startswith("3."):
        return
    with ShareConsumer(servers, group_id="sg", client_id="share", enable_metrics_push=True) as consumer:
        consumer.subscribe("t")
        consumer.poll(100)
        wait_for(lambda: read_points("share"))
    assert f"{PREFIX}consumer.share.connection.creation.total" in {point.name for point in read_points("share")}


def test_a_changed_subscription_takes_effect(servers, read_points):
    name = f"{PREFIX}producer.request.total"
    with (
        Producer(servers, client_id="changes", enable_metrics_push=True) as producer,
        Admin(servers) as admin,
    ):
        producer.send("t", b"1").result(PATIENCE_S)
        wait_for(lambda: read_points("changes"))
        admin.alter_configs("client-metrics", "all", {"metrics": name})
        try:
            producer.send("t", b"2").result(PATIENCE_S)
            wait_for(lambda: read_points("changes")[-1].name == name)
        finally:
            admin.alter_configs("client-metrics", "all", {"metrics": "*"})


def test_a_kafka_without_a_plugin_gets_no_metrics(kafka, tmp_path, caplog):
    with (
        kafka(tmp_path, {}) as node,
        Producer(node.bootstrap, client_id="c", enable_metrics_push=True) as producer,
    ):
        producer.send("t", b"1").result(PATIENCE_S)
        with pytest.raises(BrokerError, match="does not support GetTelemetrySubscriptions"):
            producer.client_instance_id(60_000)
    assert not caplog.records


def test_javas_clients_push_to_the_embedded_broker(kafka, classes):
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        broker.create_topic("t", 1)
        admin.alter_configs("client-metrics", "all", {"metrics": "*", "interval.ms": "1000"})
        run_java_clients(kafka, classes, broker.bootstrap_servers)
        pushes = broker.journal.requests("PushTelemetry", client_id="java")
        assert {entry.answer.error_code for entry in pushes} == {0}
        assert {entry.body.terminating for entry in pushes} == {False, True}  # a Java consumer may omit the last push
        assert broker.counters()["client_metrics_pushed"] == len(pushes)
