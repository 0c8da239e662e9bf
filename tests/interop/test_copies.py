"""Three real brokers that fail, one after the other: what their log directories merge to is what the cluster serves."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import brokers
from tests.log.copies.cluster import checks

from kafkaframes.log.copies.reading import group
from kafkaframes.log.copies.together import copies_of, merge_found
from kafkaframes.log.directory import discover

kafka_python = pytest.importorskip("kafka")
VERSION = "3.9.1"
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # sockets of kafka-python
CLEAN, UNCLEAN = "clean", "unclean"
SETTINGS = {
    "unclean.leader.election.enable": "true",
    "replica.lag.time.max.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "initial.broker.registration.timeout.ms": "180000",  # three at once are slow to start on two cores
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "true",
    "offsets.topic.replication.factor": "3",
    "internal.segment.bytes": "4000",
    "log.segment.bytes": "4000",
}


class Cluster:
    """Three nodes, each a broker and a voter of the controllers' quorum: one of them may be away at a time."""

    def __init__(self, module, directory: Path) -> None:
        self._module = module
        self.nodes = {n: module.RealKafka(VERSION, directory / str(n), heap="256m") for n in (1, 2, 3)}
        voters = ",".join(f"{n}@127.0.0.1:{node._second_port}" for n, node in self.nodes.items())
        for n, node in self.nodes.items():
            node.properties |= SETTINGS | {"node.id": str(n), "controller.quorum.voters": voters}

    def start(self, *names: int) -> None:
        """Start nodes at once: none of them is up before there is a majority.

        From this thread: a broker ends with the thread that started it.
        """
        for name in names:
            node = self.nodes[name]
            node.__dict__["_wait"] = lambda *_: None
            node.start()
            del node.__dict__["_wait"]
        for node in (self.nodes[name] for name in names):
            node._wait(lambda node=node: self._module._broker_is_up(node.port), node.process, "a node")

    def bootstrap(self) -> list[str]:
        return [node.bootstrap for node in self.nodes.values() if node.process is not None]

    def kill(self) -> None:
        """End all nodes as a power cut does: to stop in order, the last ones would need a majority."""
        for node in self.nodes.values():
            node.kill()

    def paths(self) -> list[str]:
        return [str(node.data) for node in self.nodes.values()]

    def create(self, topics: dict[str, list[int]]) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap())
        made = [
            NewTopic(name, num_partitions=-1, replication_factor=-1, replica_assignments={0: to})
            for name, to in topics.items()
        ]
        admin.create_topics(made)
        admin.close()

    def send(self, topic: str, text: str, count: int) -> None:
        """Send records one batch each, and wait for the leader of each."""
        producer = kafka_python.KafkaProducer(bootstrap_servers=self.bootstrap(), acks=1, retries=20, linger_ms=0)
        for number in range(count):
            producer.send(topic, f"{text}-{number}".encode() + b"." * 80, partition=0).get(timeout=60)
        producer.close()

    def read(self, topic: str) -> list[tuple[int, int, bytes]]:
        """Read a topic to its end, as a consumer sees it."""
        partition = kafka_python.TopicPartition(topic, 0)
        consumer = kafka_python.KafkaConsumer(bootstrap_servers=self.bootstrap(), enable_auto_commit=False)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        found: list[tuple[int, int, bytes]] = []
        deadline = time.monotonic() + 60
        while consumer.position(partition) < end and time.monotonic() < deadline:
            for records in consumer.poll(500).values():
                found += [(record.offset, record.timestamp, record.value) for record in records]
        consumer.close()
        return found

    def wait_for_leader(self, topic: str, leader: int) -> None:
        """Wait until the cluster says that a node leads a topic."""
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap())
        deadline = time.monotonic() + 60
        found = None
        while time.monotonic() < deadline:
            try:
                (said,) = admin.describe_topics([topic])
                found = said["partitions"][0].get("leader_id", said["partitions"][0].get("leader"))
            except kafka_python.errors.KafkaError:  # it asked the broker that is away
                found = None
            if found == leader:
                break
            time.sleep(0.5)
        admin.close()
        assert found == leader


@pytest.fixture(scope="module")
def cluster(oracle, tmp_path_factory) -> Iterator[Cluster]:
    module = brokers.real_kafka(oracle)
    try:
        module.fetch(VERSION)
    except module.KafkaFailed as failure:
        pytest.skip(f"Kafka {VERSION} cannot be fetched: {failure}")
    made = Cluster(module, tmp_path_factory.mktemp("cluster"))
    try:
        made.start(1, 2, 3)
        yield made
    finally:
        made.kill()
        with warnings.catch_warnings():  # kafka-python leaves sockets to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def merged_rows(found) -> list[tuple[int, int, bytes]]:
    import kafkaframes

    rows = []
    for piece in found.pieces:
        raw = Path(found.segment(piece.at).path).read_bytes()[piece.at.start : piece.at.end]
        read = kafkaframes.read_records(
            raw, columns=["offset", "timestamp", "value"], mode="FAILFAST", control_records=False
        )
        for batch in read:
            times = batch.column("timestamp").cast("int64").to_pylist()
            rows += zip(batch["offset"].to_pylist(), times, batch["value"].to_pylist(), strict=True)
    return rows


def test_what_survived_is_what_the_directories_merge_to(cluster):
    """2 leads both topics; 3 is away while 2 writes on, then 2 is killed and 3 comes back with less than 2 had."""
    cluster.create({CLEAN: [2, 3, 1], UNCLEAN: [2, 3]})
    for topic in (CLEAN, UNCLEAN):
        cluster.wait_for_leader(topic, 2)
        cluster.send(topic, "all", 30)
    time.sleep(2)  # followers fetch, and high watermarks are written
    cluster.nodes[3].stop()
    for topic in (CLEAN, UNCLEAN):
        cluster.send(topic, "without-3", 20)
    cluster.nodes[2].kill()
    cluster.start(3)
    cluster.wait_for_leader(CLEAN, 1)  # it was in sync
    cluster.wait_for_leader(UNCLEAN, 3)  # it was not: an unclean election
    for topic in (CLEAN, UNCLEAN):
        cluster.send(topic, "after", 15)
    served = {topic: cluster.read(topic) for topic in (CLEAN, UNCLEAN)}
    assert {len(served[CLEAN]), len(served[UNCLEAN])} == {65, 45}
    cluster.kill()
    copies = group(copies_of(discover(cluster.paths())))
    for check in (True, False):
        found = {name.topic: merge_found(ones, check=check) for name, ones in copies.items() if len(ones) > 1}
        assert merged_rows(found[CLEAN]) == served[CLEAN]
        assert merged_rows(found[UNCLEAN]) == served[UNCLEAN]
        assert checks(found[CLEAN]) <= {"copy-lags"}
        (cut,) = [one for one in found[UNCLEAN].decisions if one.check == "divergent-tail"]
        assert (cut.first_offset, cut.end_offset, cut.copy) == (30, 50, f"{cluster.nodes[2].data}/{UNCLEAN}-0")
        metadata = found["__cluster_metadata"]
        assert not checks(metadata) & {"undecided", "missing", "damaged"}
