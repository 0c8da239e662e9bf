"""Segments with overflowing offsets are split into the same files as by Kafka's brokers and cleaners, which serve
each record.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from pathlib import Path

from tests.interop import brokers
from tests.interop.brokers import check_directory, read, user_topics
from tests.storage.log.test_overflow import FAR_OFFSET, INDEX_OFFSET_LIMIT, build_one_batch

from kafkaframes.jobs.restore.cluster import (
    DirectoryNode,
    LogOffsets,
    TopicLayout,
    build_bootstrap_checkpoint,
    build_checkpoint_files,
    build_node_files,
    write_files,
)
from kafkaframes.records.build import build_end_transaction
from kafkaframes.storage.cleaner import CleanerSettings, clean_partition
from kafkaframes.storage.files.checkpoints import MetaProperties
from kafkaframes.storage.files.names import TopicPartition, name_segment_file
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.partition import LogManager, open_log_directory
from kafkaframes.wire.primitives import uuid_to_text

IDENTITY = {
    "version": "1",
    "node.id": "1",
    "cluster.id": "Y29ycHVzLWNsdXN0ZXItMQ",
    "directory.id": "xwUKgqnBToqxLV2jFAXHkQ",
}
PRODUCER_FIELDS = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
COMMIT_MARKER = build_end_transaction(
    FAR_OFFSET + 3, commit=True, timestamp=1, coordinator_epoch=0, producer_id=7, producer_epoch=0, leader_epoch=0
)
ABORT_MARKER = build_end_transaction(
    FAR_OFFSET + INDEX_OFFSET_LIMIT,
    commit=False,
    timestamp=1,
    coordinator_epoch=0,
    producer_id=7,
    producer_epoch=0,
    leader_epoch=0,
)
EPOCH_0 = {"leader_epoch": 0}
# The batches of each segment, by topic. Each segment has an index, so that only an unclean start detects the overflow.
CASES_BY_TOPIC = {
    "two-pieces": {
        0: build_one_batch(0, **EPOCH_0) + build_one_batch(3, **EPOCH_0) + build_one_batch(FAR_OFFSET, **EPOCH_0),
        FAR_OFFSET + 9: build_one_batch(FAR_OFFSET + 9, **EPOCH_0),
    },
    "three-pieces": {
        0: build_one_batch(0, **EPOCH_0)
        + build_one_batch(INDEX_OFFSET_LIMIT, **EPOCH_0)
        + build_one_batch(3 * FAR_OFFSET, **EPOCH_0)
    },
    "hole-before": {0: build_one_batch(7, **EPOCH_0) + build_one_batch(FAR_OFFSET, **EPOCH_0)},
    "only-far": {0: build_one_batch(FAR_OFFSET, **EPOCH_0)},
    "second-segment": {
        0: build_one_batch(0, **EPOCH_0),
        10: build_one_batch(10, **EPOCH_0) + build_one_batch(FAR_OFFSET, **EPOCH_0),
        FAR_OFFSET + 9: build_one_batch(FAR_OFFSET + 9, **EPOCH_0),
    },
    "large": {
        0: b"".join(build_one_batch(base, 900, **EPOCH_0) for base in range(0, 9000, 900))
        + build_one_batch(FAR_OFFSET, 900, **EPOCH_0)
    },
    "format-1": {
        0: build_one_batch(0, record_format=1, codec="gzip")
        + build_one_batch(FAR_OFFSET, record_format=1, codec="gzip")
    },
    "format-0": {0: build_one_batch(0, record_format=0) + build_one_batch(FAR_OFFSET, record_format=0)},
    "transactions": {
        0: build_one_batch(0, base_sequence=0, **PRODUCER_FIELDS, **EPOCH_0)
        + build_one_batch(FAR_OFFSET, base_sequence=3, **PRODUCER_FIELDS, **EPOCH_0)
        + COMMIT_MARKER,
        FAR_OFFSET + 10: build_one_batch(FAR_OFFSET + 10, base_sequence=6, **PRODUCER_FIELDS, **EPOCH_0) + ABORT_MARKER,
    },
}


def alone(offset: int, key: bytes) -> bytes:
    return build_one_batch(offset, 1, key=key, leader_epoch=0)


COMPARED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def write_logs(data: Path) -> dict[str, str]:
    """Write the directory of a node that was not stopped cleanly. Return the topics' ids."""
    now_ms = int(time.time() * 1000)
    manager = open_directory(data)
    ids = {}
    for number, (topic, segments) in enumerate(CASES_BY_TOPIC.items()):
        ids[topic] = uuid_to_text(uuid.UUID(int=2**96 + number))
        path = data / f"{topic}-0"
        path.mkdir()
        for base, batches in segments.items():
            (path / name_segment_file(base, "log")).write_bytes(batches)
            (path / name_segment_file(base, "index")).touch()
            (path / name_segment_file(base, "timeindex")).touch()
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {ids[topic]}")
    manager.abandon()
    layouts = [TopicLayout(name, topic_id, {0: 0}, {"retention.ms": "-1"}) for name, topic_id in ids.items()]
    node = DirectoryNode(node_id=1, cluster_id=IDENTITY["cluster.id"], directory_id=IDENTITY["directory.id"])
    raw = build_bootstrap_checkpoint(layouts, node, now_ms=now_ms, next_producer_id=1000)
    (data / "bootstrap.checkpoint").write_bytes(raw)
    return ids


def open_directory(data: Path) -> LogManager:
    return open_log_directory(str(data), now_ms=int(time.time() * 1000), meta=MetaProperties(IDENTITY))


def read_files(data: Path, suffixes: tuple[str, ...]) -> dict[str, bytes]:
    return {
        f"{topic}/{file.name}": file.read_bytes()
        for topic in CASES_BY_TOPIC
        for file in sorted((data / f"{topic}-0").iterdir())
        if file.name.removesuffix(".deleted").endswith(suffixes)
    }


def test_a_broker_splits_into_the_same_files(kafka, java, tmp_path):
    write_logs(tmp_path / "data")
    shutil.copytree(tmp_path / "data", tmp_path / "ours")
    open_directory(tmp_path / "ours").close(now_ms=int(time.time() * 1000))
    with kafka(tmp_path, {"log.segment.delete.delay.ms": 3_600_000}) as node:
        cluster = read(java, node)
        node.stop()
        log_text = (tmp_path / "kafka.out").read_text()
    assert log_text.count("Splitting overflowed segment") == len(CASES_BY_TOPIC)
    ours, theirs = read_files(tmp_path / "ours", COMPARED_SUFFIXES), read_files(tmp_path / "data", COMPARED_SUFFIXES)
    assert sorted(ours) == sorted(theirs)
    for name, content in theirs.items():
        assert ours[name] == content or name.endswith("index.deleted"), name  # Kafka has started to rebuild these files
    assert user_topics(cluster.records) == user_topics(brokers.read_expected_records(tmp_path / "ours"))


def test_a_broker_continues_after_our_split(kafka, java, tmp_path):
    write_logs(tmp_path / "data")
    open_directory(tmp_path / "data").close(now_ms=int(time.time() * 1000))
    expected_records = user_topics(brokers.read_expected_records(tmp_path / "data"))
    assert {topic for topic, _ in expected_records} == set(CASES_BY_TOPIC)
    with kafka(tmp_path) as node:
        cluster = read(java, node, append_count=3)
        node.stop()
        log_text = (tmp_path / "kafka.out").read_text()
    assert user_topics(cluster.records) == expected_records
    assert "Splitting overflowed segment" not in log_text
    check_directory(tmp_path / "data")


# The cleaner

ACTIVE_BASE = 3 * FAR_OFFSET
# Segments of cleanly stopped compacted logs, by topic; the last segment is active.
COMPACTED_CASES = {
    "does-not-fit": {0: alone(0, b"a") + alone(FAR_OFFSET, b"b"), ACTIVE_BASE: alone(ACTIVE_BASE, b"c")},
    "all-but-one-go": {
        0: alone(0, b"a") + alone(FAR_OFFSET, b"b"),
        FAR_OFFSET + 9: alone(FAR_OFFSET + 9, b"b"),
        ACTIVE_BASE: alone(ACTIVE_BASE, b"c"),
    },
    "does-fit": {
        0: alone(0, b"a") + alone(FAR_OFFSET, b"b"),
        ACTIVE_BASE - 1: alone(ACTIVE_BASE - 1, b"b"),
        ACTIVE_BASE: alone(ACTIVE_BASE, b"c"),
    },
    "three-pieces": {
        0: alone(0, b"a")
        + alone(1, b"a")
        + alone(FAR_OFFSET, b"b")
        + alone(FAR_OFFSET + 1, b"d")
        + alone(2 * FAR_OFFSET, b"e"),
        ACTIVE_BASE: alone(ACTIVE_BASE, b"c"),
    },
    "far-apart": {
        base: alone(base, b"%d" % base) for base in (0, INDEX_OFFSET_LIMIT, INDEX_OFFSET_LIMIT + 1, ACTIVE_BASE)
    },
}
CLEANER_CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "retention.ms": "-1"}
PATIENCE_SECONDS = 180


def write_compacted(data: Path) -> None:
    ends, layouts = {}, []
    for number, (topic, segments) in enumerate(COMPACTED_CASES.items()):
        topic_id = uuid_to_text(uuid.UUID(int=2**97 + number))
        path = data / f"{topic}-0"
        path.mkdir(parents=True)
        for base, batches in segments.items():
            for kind, content in (("log", batches), ("index", b""), ("timeindex", b"")):
                (path / name_segment_file(base, kind)).write_bytes(content)
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
        ends[TopicPartition(topic, 0)] = LogOffsets(0, 0, ACTIVE_BASE + 1)
        layouts.append(TopicLayout(topic, topic_id, {0: 0}, CLEANER_CONFIG))
    node = DirectoryNode(node_id=1, cluster_id=IDENTITY["cluster.id"], directory_id=IDENTITY["directory.id"])
    write_files(data, build_checkpoint_files(ends))
    write_files(data, build_node_files(node, layouts, now_ms=int(time.time() * 1000)))


def read_logs(data: Path) -> dict[str, bytes]:
    """Return the segments; retry if a cleaner renames files in the meantime."""
    segments_by_name = {}
    for topic in COMPACTED_CASES:
        for path in sorted((data / f"{topic}-0").glob("*.log")):
            with contextlib.suppress(FileNotFoundError):
                segments_by_name[f"{topic}/{path.name}"] = path.read_bytes()
    return segments_by_name


def test_a_brokers_cleaner_writes_the_same_files(kafka, java, tmp_path):
    write_compacted(tmp_path / "data")
    (directory,) = discover(str(tmp_path / "data"))
    broker_release = "4.x" if kafka.version.startswith("4.") else "3.9"
    settings = CleanerSettings(now_ms=int(time.time() * 1000), broker_release=broker_release)
    for partition in directory.partitions:
        clean_partition(directory.filesystem, partition, settings, tmp_path / "ours" / str(partition.topic_partition))
    expected_segments = read_logs(tmp_path / "ours")
    assert len([name for name in expected_segments if name.startswith("three-pieces")]) == 4
    with kafka(tmp_path, {"log.cleaner.backoff.ms": 100}) as node:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while read_logs(tmp_path / "data") != expected_segments and time.monotonic() < deadline:
            time.sleep(0.5)
        cluster = read(java, node)
        node.stop()
        log_text = (tmp_path / "kafka.out").read_text()
    theirs = read_logs(tmp_path / "data")
    assert sorted(theirs) == sorted(expected_segments)
    assert theirs == expected_segments
    assert log_text.count("Splitting overflowed segment") == 2
    assert user_topics(cluster.records) == user_topics(brokers.read_expected_records(tmp_path / "data"))
