"""The merged log directories of three Kafka nodes, which fail one after the other, equal the cluster's records."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from tests.interop import brokers
from tests.storage.copies.cluster import checks

from kafkaframes.storage.copies.one_log import merge_copies, select_copies
from kafkaframes.storage.copies.reading import group_by_partition
from kafkaframes.storage.log.discover import discover

pytest.importorskip("kafka")
from tests.interop import clients

Answer = TypeVar("Answer")
VERSION = "3.9.1"
CLEAN, UNCLEAN = "clean", "unclean"
SETTINGS = {
    "unclean.leader.election.enable": "true",
    "replica.lag.time.max.ms": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "initial.broker.registration.timeout.ms": "180000",  # three simultaneous starts are slow on two cores
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.enable": "true",
    "offsets.topic.replication.factor": "3",
    "internal.segment.bytes": "4000",
    "log.segment.bytes": "4000",
}


class KafkaCluster:
    """Three nodes, each a broker and a controller in the quorum. One of the nodes may be down at a time."""

    def __init__(self, module, directory: Path) -> None:
        self._module = module
        self.nodes = {n: brokers.KafkaFactory(module, VERSION)(directory / str(n), heap="256m") for n in (1, 2, 3)}
        voters = ",".join(f"{n}@127.0.0.1:{node._second_port}" for n, node in self.nodes.items())
        self._clients = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        for n, node in self.nodes.items():
            node.properties |= SETTINGS | {"node.id": str(n), "controller.quorum.voters": voters}

    def start(self, *names: int) -> None:
        """Start nodes at the same time, because none is ready before a majority is running.

        Call this from the main thread, because a broker ends with the thread that started it.
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
        """Kill all nodes, as a power failure does; a clean stop of the last ones would require a majority."""
        self._clients.shutdown()
        for node in self.nodes.values():
            node.kill()

    def paths(self) -> list[str]:
        return [str(node.data) for node in self.nodes.values()]

    def run_client(self, question: Callable[..., Answer], *arguments: object) -> Answer:
        """Let a client in another process execute one operation."""
        return self._clients.submit(question, self.bootstrap(), *arguments).result(timeout=200)


@pytest.fixture(scope="module")
def cluster(oracle, tmp_path_factory) -> Iterator[KafkaCluster]:
    module = brokers.kafka_or_skip(oracle, VERSION).module
    cluster = KafkaCluster(module, tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start(1, 2, 3)
        yield cluster
    finally:
        cluster.kill()


def merged_rows(copies) -> list[tuple[int, int, bytes]]:
    import kafkaframes

    rows = []
    for piece in copies.spans:
        raw = Path(copies.segment(piece.segment_range).path).read_bytes()[
            piece.segment_range.start : piece.segment_range.end
        ]
        read = kafkaframes.read_records(
            raw, columns=["offset", "timestamp", "value"], on_damage="fail", control_records=False
        )
        for batch in read:
            times = batch.column("timestamp").cast("int64").to_pylist()
            rows += zip(batch["offset"].to_pylist(), times, batch["value"].to_pylist(), strict=True)
    return rows


def test_merged_directories_have_the_records_that_survived(cluster):
    """Node 2 leads both topics. Node 3 is down while 2 continues to write, then 2 is killed and 3 returns with fewer
    records.
    """
    cluster.run_client(clients.create, {CLEAN: [2, 3, 1], UNCLEAN: [2, 3]})
    for topic in (CLEAN, UNCLEAN):
        assert cluster.run_client(clients.wait_for_leader, topic, 2)
        cluster.run_client(clients.send, topic, "all", 30)
    time.sleep(2)  # wait until followers have fetched, and high watermarks are written
    cluster.nodes[3].stop()
    for topic in (CLEAN, UNCLEAN):
        cluster.run_client(clients.send, topic, "without-3", 20)
    cluster.nodes[2].kill()
    cluster.start(3)
    assert cluster.run_client(clients.wait_for_leader, CLEAN, 1)  # node 3 was in sync
    # node 3 was not in sync, so this is an unclean election
    assert cluster.run_client(clients.wait_for_leader, UNCLEAN, 3)
    for topic in (CLEAN, UNCLEAN):
        cluster.run_client(clients.send, topic, "after", 15)
    rows_by_topic = {topic: cluster.run_client(clients.read, topic) for topic in (CLEAN, UNCLEAN)}
    assert {len(rows_by_topic[CLEAN]), len(rows_by_topic[UNCLEAN])} == {65, 45}
    cluster.kill()
    copies = group_by_partition(select_copies(discover(cluster.paths())))
    for check in (True, False):
        merged_copies = {name.topic: merge_copies(ones, check=check) for name, ones in copies.items() if len(ones) > 1}
        assert merged_rows(merged_copies[CLEAN]) == rows_by_topic[CLEAN]
        assert merged_rows(merged_copies[UNCLEAN]) == rows_by_topic[UNCLEAN]
        assert checks(merged_copies[CLEAN]) <= {"copy-lags"}
        (truncation,) = [
            decision for decision in merged_copies[UNCLEAN].decisions if decision.check == "divergent-tail"
        ]
        assert (truncation.first_offset, truncation.end_offset, truncation.copy) == (
            30,
            50,
            f"{cluster.nodes[2].data}/{UNCLEAN}-0",
        )
        metadata = merged_copies["__cluster_metadata"]
        assert not checks(metadata) & {"undecided", "missing", "damaged"}
