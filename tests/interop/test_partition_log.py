"""Kafka's brokers and ``PartitionLog`` alternate on one log directory, and each opens the other's files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tests.interop import brokers
from tests.interop.brokers import errors_in, read
from tests.storage.partition.builders import build_batch, build_marker, idempotent, transactional

from kafkaframes.jobs.restore.cluster import DirectoryNode, TopicLayout, build_bootstrap_checkpoint
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.files.checkpoints import MetaProperties
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.partition import LogManager, LogSettings, open_log_directory

ISOLATIONS = ("read_uncommitted", "read_committed")
CLUSTER_ID, DIRECTORY_ID = "Y29ycHVzLWNsdXN0ZXItMQ", "xwUKgqnBToqxLV2jFAXHkQ"
TOPICS = {"orders": ("IU6NTFbUTQiJMTtf1e--4g", 2), "payments": ("T94MVoTrQAGJCtEN-gI9Cw", 1)}
SETTINGS = LogSettings(segment_bytes=1 << 20, segment_index_bytes=65536, index_interval_bytes=1024)
SERVER_SETTINGS = {"log.segment.bytes": 1 << 20, "log.index.size.max.bytes": 65536, "log.index.interval.bytes": 1024}
APPEND_COUNT = 3
COMPARED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


def now_ms() -> int:
    return int(time.time() * 1000)


def open_manager(path: Path) -> LogManager:
    identity = {"version": "1", "node.id": "1", "cluster.id": CLUSTER_ID, "directory.id": DIRECTORY_ID}
    return open_log_directory(str(path), now_ms=now_ms(), settings_of=SETTINGS, meta=MetaProperties(identity))


def write_logs(manager: LogManager) -> None:
    """Fill three logs with all codecs, producers, transactions, several segments, two leader epochs and deleted
    records.
    """
    for topic, (topic_id, count) in TOPICS.items():
        for number in range(count):
            manager.create(TopicPartition(topic, number), topic_id=topic_id, now_ms=now_ms())
    plain, orders, payments = (
        manager.logs[TopicPartition(*name)] for name in (("orders", 0), ("orders", 1), ("payments", 0))
    )
    for turn in range(60):
        epoch, clock = turn // 30, now_ms()
        codec = ("none", "gzip", "snappy", "lz4", "zstd")[turn % 5]
        plain.append_as_leader(build_batch(3, timestamp=clock, codec=codec), leader_epoch=epoch, now_ms=clock)
        big = idempotent(7, turn * 2, 2, timestamp=clock, value=bytes(30_000))
        orders.append_as_leader(big, leader_epoch=epoch, now_ms=clock)
        for producer in (8, 9):
            raw = transactional(producer, turn, timestamp=clock)
            payments.append_as_leader(raw, leader_epoch=epoch, now_ms=clock)
        end_marker = build_marker(8 + turn % 2, commit=turn % 3 > 0)
        payments.append_as_leader(end_marker, leader_epoch=epoch, now_ms=clock, origin="COORDINATOR")
    for producer in (8, 9):
        end_marker = build_marker(producer, commit=True)
        payments.append_as_leader(end_marker, leader_epoch=1, now_ms=now_ms(), origin="COORDINATOR")
    for log in manager.logs.values():
        log.update_high_watermark(log.log_end_offset)
    plain.delete_records(5)
    assert len(orders.segment_bases) > 2


def write_bootstrap(path: Path) -> None:
    layouts = [
        TopicLayout(name, topic_id, dict.fromkeys(range(count), 2)) for name, (topic_id, count) in TOPICS.items()
    ]
    node = DirectoryNode(node_id=1, cluster_id=CLUSTER_ID, directory_id=DIRECTORY_ID)
    raw = build_bootstrap_checkpoint(layouts, node, now_ms=now_ms(), next_producer_id=1000)
    (path / "bootstrap.checkpoint").write_bytes(raw)


def users(by_partition):
    return {key: value for key, value in by_partition.items() if key[0] in TOPICS}


def read_files(path: Path) -> dict[str, bytes]:
    return {
        f"{file.parent.name}/{file.name}": file.read_bytes()
        for topic in TOPICS
        for file in path.glob(f"{topic}-*/*")
        if file.suffix in COMPARED_SUFFIXES
    }


def check_sound(path: Path) -> None:
    assert [str(finding) for finding in verify(discover(str(path))).findings if finding.severity > 0] == []


def append_more(manager: LogManager) -> None:
    for log in manager.logs.values():
        if log.topic_partition.topic in TOPICS:
            epoch = log.epochs.latest + 1
            log.append_as_leader(build_batch(2, timestamp=now_ms()), leader_epoch=epoch, now_ms=now_ms())
            log.update_high_watermark(log.log_end_offset)


def test_a_broker_and_our_log_alternate(kafka, java, tmp_path):
    data = tmp_path / "data"
    node = kafka(tmp_path, SERVER_SETTINGS)
    manager = open_manager(data)
    write_logs(manager)
    manager.close(now_ms=now_ms(), broker_epoch=-1)
    write_bootstrap(data)
    before = {level: users(brokers.read_expected_records(data, isolation=level)) for level in ISOLATIONS}
    assert len(before["read_uncommitted"]["payments", 0]) > len(before["read_committed"]["payments", 0]) > 50
    with node:
        for level in ISOLATIONS:
            assert users(read(java, node, isolation=level).records) == before[level]
        cluster = read(java, node, append_count=APPEND_COUNT)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
        assert "stray" not in log
        assert errors_in(log) == []
        assert "Recovering unflushed segment" not in log

        manager = open_manager(data)
        assert manager.was_clean
        ends = {(key.topic, key.partition): one.log_end_offset for key, one in manager.logs.items()}
        assert users(ends) == {key: end + APPEND_COUNT for key, (_, end) in users(cluster.ends).items()}
        append_more(manager)
        manager.close(now_ms=now_ms(), broker_epoch=-1)
        check_sound(data)
        expected_records = users(brokers.read_expected_records(data))

        node.start()
        assert users(read(java, node).records) == expected_records
        read(java, node, append_count=APPEND_COUNT)
        node.kill()

        manager = open_manager(data)
        assert not manager.was_clean
        end_offsets = {(key.topic, key.partition): one.log_end_offset for key, one in manager.logs.items()}
        assert users(end_offsets) == {
            key: end + APPEND_COUNT + 2 + APPEND_COUNT for key, (_, end) in users(cluster.ends).items()
        }
        append_more(manager)
        manager.close(now_ms=now_ms(), broker_epoch=-1)
        check_sound(data)
        expected_records = users(brokers.read_expected_records(data))
        node.start()
        assert users(read(java, node).records) == expected_records


def test_a_broker_recovers_our_unclean_log_to_the_same_files(kafka, java, tmp_path):
    data, ours = tmp_path / "data", tmp_path / "ours"
    node = kafka(tmp_path, SERVER_SETTINGS)
    manager = open_manager(data)
    write_logs(manager)
    manager.abandon()
    active = next(data.glob("payments-0/*.log"))
    active.write_bytes(active.read_bytes()[:-7])  # torn
    write_bootstrap(data)
    shutil.copytree(data, ours)
    recovered_logs = open_manager(ours)
    recovered_logs.close(now_ms=now_ms())
    with node:
        assert users(read(java, node).records) == users(brokers.read_expected_records(ours))
        node.stop()
    assert read_files(data) == read_files(ours)
    check_sound(ours)
