"""Clusters for the tests of this folder: the embedded broker, or three nodes of Apache Kafka.

``KAFKAFRAMES_EVERYDAY`` is the column of docs/everyday.md that a run fills: ``embedded`` (the default) or a Kafka
release such as ``4.3.1``. ``KAFKAFRAMES_EVERYDAY_SERVERS`` is the address of a cluster that is already running; its
nodes are not killed.

A real cluster is prepared and read with librdkafka, so that this package's client is not checked by itself.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.interop.brokers import real_kafka

from kafkaframes.broker import Broker
from kafkaframes.client import Admin
from kafkaframes.errors import BrokerError

COLUMN: Final = os.environ.get("KAFKAFRAMES_EVERYDAY", "embedded")
SERVERS: Final = os.environ.get("KAFKAFRAMES_EVERYDAY_SERVERS")
RELEASES: Final = ("3.9.1", "4.3.1")
IS_REAL: Final = COLUMN in RELEASES or SERVERS is not None
NODES: Final = (1, 2, 3)
ORACLE: Final = Path(os.environ.get("KAFKAFRAMES_ORACLE", Path(__file__).parents[3] / "shared" / "tools" / "oracle"))
PATIENCE_S: Final = 180
CONFIG_DELAY_S: Final = 2  # a broker answers DescribeConfigs before the leader applies a new value to its log
GROUPS_WITHOUT_DELAY: Final[dict[str, str | int]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 50,
    "delegation.token.secret.key": "secret",
    "super.users": "User:ANONYMOUS",
}
_REAL_SETTINGS: Final[dict[str, str | int]] = GROUPS_WITHOUT_DELAY | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "broker.heartbeat.interval.ms": 500,
    "broker.session.timeout.ms": 6_000,
    "default.replication.factor": 3,
    "initial.broker.registration.timeout.ms": 180_000,
    "log.retention.check.interval.ms": 86_400_000,  # tests append records with timestamps of 1970
    "log.initial.task.delay.ms": 86_400_000,
    "offsets.topic.num.partitions": 6,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 6,
    "transaction.state.log.replication.factor": 3,
}


class StoredRecord(NamedTuple):
    """A record of a real cluster, with the fields that the embedded broker's records have."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class RealCluster:
    """A running cluster of Kafka, with the methods of ``Broker`` that the tests call."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 100})

    def _metadata(self, topic: str | None = None) -> ClusterMetadata:
        """Return the metadata of one topic or of all topics."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._admin.list_topics(topic, timeout=PATIENCE_S)
            except KafkaException as error:
                # librdkafka drops requests when it replaces a bootstrap address by the node at this address
                if error.args[0].code() != KafkaError._DESTROY_BROKER or time.monotonic() > deadline:
                    raise

    @property
    def topics(self) -> set[str]:
        """Names of all topics."""
        return set(self._metadata().topics)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic and wait until each partition has a leader and each node returns the topic in Metadata."""
        try:
            self._admin.create_topics([NewTopic(name, partitions)])[name].result(PATIENCE_S)
        except KafkaException as error:  # on a busy machine, librdkafka may time out and send the request again
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self.wait_for(lambda: self._has_leaders(name, partitions))
        for address in self.bootstrap_servers.split(","):
            self.wait_for(lambda address=address: knows_topic(address, name))

    def _has_leaders(self, name: str, partitions: int) -> bool:
        topic = self._metadata(name).topics[name]
        return len(topic.partitions) == partitions and all(
            partition.leader >= 0 for partition in topic.partitions.values()
        )

    def configure_topic(self, name: str, **configs: str | int) -> None:
        """Change settings of a topic; names are Kafka's, with ``_`` for ``.``."""
        resource = ConfigResource("topic", name)
        for setting, value in configs.items():
            entry = ConfigEntry(setting.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
            resource.add_incremental_config(entry)
        self._admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
        time.sleep(CONFIG_DELAY_S)

    def append(self, topic: str, records: Sequence[Mapping[str, Any]], *, partition: int = 0) -> None:
        """Append records as one batch."""
        errors: list[Any] = []
        for record in records:
            options = {"timestamp": record["timestamp"]} if "timestamp" in record else {}
            self._producer.produce(
                topic,
                record.get("value"),
                record.get("key"),
                partition,
                on_delivery=lambda error, _: errors.append(error),
                **options,
            )
        self._producer.flush(PATIENCE_S)
        failures = [error for error in errors if error is not None]
        if failures or len(errors) != len(records):
            raise KafkaException(*failures)

    def records(self, topic: str) -> list[StoredRecord]:
        """Return the committed and uncommitted records of a topic, partition by partition."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "everyday-judge",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings)
        try:
            numbers = sorted(self._metadata(topic).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
            records: list[StoredRecord] = []
            unread = set(numbers)
            deadline = time.monotonic() + PATIENCE_S
            while unread:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"partitions {sorted(unread)} of {topic} were not read to their ends")
                message = consumer.poll(1)
                if message is None:
                    continue
                if message.error() is not None:
                    unread.discard(message.partition())
                    continue
                headers = tuple((name.encode(), value) for name, value in message.headers() or ())
                records.append(
                    StoredRecord(
                        message.partition(),
                        message.offset(),
                        message.timestamp()[1],
                        message.key(),
                        message.value(),
                        headers,
                    )
                )
            return sorted(records, key=lambda record: (record.partition, record.offset))
        finally:
            consumer.close()

    def wait_for(self, condition: Callable[[], Any], *, timeout: float = PATIENCE_S) -> Any:
        """Return the first true result of a condition; raise TimeoutError after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not (answer := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true within {timeout} s: {condition}")
            time.sleep(0.005)
        return answer

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition."""
        leader = self.wait_for(lambda: self._leader(topic, partition) + 1)
        return int(leader) - 1

    def _leader(self, topic: str, partition: int) -> int:
        topics = self._metadata(topic).topics
        partitions = topics[topic].partitions
        return int(partitions[partition].leader) if partition in partitions else -1

    def coordinator_of(self, key: str, *, kind: str = "group") -> int:
        """Return the node that coordinates a group (``group``) or a transactional id (``transaction``)."""
        topic = {"group": "__consumer_offsets", "transaction": "__transaction_state"}[kind]
        partitions = len(self._metadata(topic).topics[topic].partitions)
        return self.leader_of(topic, compute_java_hash(key) % partitions)


def knows_topic(address: str, topic: str) -> bool:
    """Return whether a node returns a topic without error.

    The request is a Metadata request of version 4, sent without a client.
    """
    host, _, port = address.rpartition(":")
    name = topic.encode()
    request = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">ih", 1, len(name)) + name + b"\0"
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                response = answer.read(struct.unpack(">i", answer.read(4))[0])
    except (OSError, struct.error):
        return False
    # The topic's error code, name and flag precede its partitions; no other field contains the whole name.
    position = response.rindex(struct.pack(">h", len(name)) + name)
    return struct.unpack_from(">h", response, position - 2)[0] == 0


def soon(condition: Callable[[], bool]) -> bool:
    """Return whether a condition holds soon. On a real cluster, it is evaluated repeatedly, because changes reach the
    nodes by replication.

    On the embedded broker, each change is visible immediately, so the condition is evaluated once.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            holds = condition()
            if holds or not IS_REAL or time.monotonic() > deadline:
                return holds
        except BrokerError:
            if not IS_REAL or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def compute_java_hash(text: str) -> int:
    """Return Java's hash code of a text of ASCII characters, without its sign bit.

    >>> compute_java_hash("orders")
    1008770331
    """
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


class KafkaNodes(RealCluster):
    """Three nodes of a Kafka release, each a broker and a controller, with their data in a directory."""

    def __init__(self, release: str, directory: Path) -> None:
        self._module = real_kafka(ORACLE / "real_kafka.py")
        nodes = {
            number: self._module.RealKafka(
                release, directory / str(number), heap="256m", start_timeout=300, stop_timeout=60
            )
            for number in NODES
        }
        voters = ",".join(f"{number}@127.0.0.1:{node._second_port}" for number, node in nodes.items())
        for number, node in nodes.items():
            settings = _REAL_SETTINGS | {"node.id": number, "controller.quorum.voters": voters}
            node.properties |= {name: str(value) for name, value in settings.items()}
        self._nodes = nodes

    def start(self) -> None:
        """Start all nodes at the same time, because no node answers before a majority of the controllers is running."""
        for node in self._nodes.values():
            node.__dict__["_wait"] = lambda *_: None
            node.start()
            del node.__dict__["_wait"]
        for number in NODES:
            self._wait_until_up(number)
        super().__init__(",".join(node.bootstrap for node in self._nodes.values()))
        self.wait_for(lambda: len(self._metadata().brokers) == len(NODES))

    def _wait_until_up(self, number: int) -> None:
        node = self._nodes[number]
        node._wait(lambda: self._module._broker_is_up(node.port), node.process, f"node {number}")

    def kill(self, *, node: int) -> None:
        """End a node with SIGKILL."""
        self._nodes[node].kill()

    def start_node(self, node: int) -> None:
        """Start a killed node and wait until it is in sync with the others."""
        self._nodes[node].start()
        self.wait_for(self._is_in_sync, timeout=180)

    def _is_in_sync(self) -> bool:
        topics = self._metadata().topics.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(set(partition.isrs) == set(partition.replicas) and partition.leader >= 0 for partition in partitions)

    def close(self) -> None:
        """Kill all nodes with SIGKILL; the last ones could not shut down cleanly without a majority."""
        for node in self._nodes.values():
            node.kill()


class EmbeddedNodes(Broker):
    """The embedded broker with three virtual nodes."""

    def __init__(self) -> None:
        super().__init__(cluster=len(NODES), config=GROUPS_WITHOUT_DELAY)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the node that leads a partition."""
        with Admin(self.bootstrap_servers) as admin:
            return admin.describe_topics([topic])[topic].partitions[partition].leader

    def coordinator_of(self, key: str, *, kind: str = "group") -> int:
        """Return the node that coordinates a group (``group``) or a transactional id (``transaction``)."""
        number = {"group": 0, "transaction": 1}[kind]
        return self.call(lambda state: state.nodes.coordinator_of(number, key).node_id)
