"""Apache Kafka opens the embedded broker's data directory after a clean stop, and the embedded broker opens it again
afterwards.

The controller's state (topics with their ids and settings) is written to a ``bootstrap.checkpoint`` next to the logs.
All other data are the embedded broker's: records of each format and codec, transactions, idempotent producers,
compacted and deleted records, committed offsets of classic and consumer groups and, for brokers with share groups (4.2
and later), share group state.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.interop import brokers
from tests.interop.broker_script import FrameClient, ranges
from tests.interop.brokers import check_directory, errors_in, read, user_topics

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, Producer
from kafkaframes.jobs.restore.cluster import DirectoryNode, TopicLayout, build_bootstrap_checkpoint
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.checkpoints import read_meta_properties
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover

ISOLATIONS = ("read_uncommitted", "read_committed")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL_SEGMENTS = {"log.segment.bytes": 1 << 20, "log.index.size.max.bytes": 65536, "log.index.interval.bytes": 1024}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "4000", "min.cleanable.dirty.ratio": "0.01"}
APPEND_COUNT = 3
SHARING, ACKNOWLEDGED = "sharing", 7


def fill(broker: Broker) -> None:
    """Write all kinds of data that a broker's directory can contain, with this package's client."""
    servers = broker.bootstrap_servers
    broker.create_topic("orders", partitions=2)
    broker.create_topic("payments")
    broker.create_topic("latest", **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
    for release, record_format in (("0.9.0", 0), ("0.10.2", 1)):
        topic = f"format-{record_format}"
        broker.create_topic(topic, message_format_version=release)
        for codec in CODECS[:4]:
            write_orders(servers, topic, 20, record_format=record_format, compression_type=codec)
    for codec in CODECS:
        # idempotent producers, each with another producer id
        write_orders(servers, "orders", 300, partitions=2, compression_type=codec)
    write_payments(servers)
    with Producer(servers) as producer:
        for number in range(400):
            producer.send("latest", key=b"%d" % (number % 7), value=b"%d" % number)
            if number % 20 == 19:
                producer.flush()
    for protocol in ("classic", "consumer"):
        read_in_group(servers, protocol)
    read_share_group(broker)


def write_orders(servers: str, topic: str, count: int, *, partitions: int = 1, **settings: Any) -> None:
    has_headers = settings.get("record_format", 2) == 2
    with Producer(servers, linger_ms=20, **settings) as producer:
        for number in range(count):
            headers = [("trace", b"%d" % number), ("none", None)] if has_headers else []
            partition = number % partitions
            producer.send(topic, key=b"%d" % number, value=bytes(1500), headers=headers, partition=partition)


def write_payments(servers: str) -> None:
    """Write transactions, some of them aborted, some with a group's offsets."""
    with Producer(servers, transactional_id="billing") as producer:
        for number in range(12):
            producer.begin_transaction()
            producer.send("payments", value=b"%d" % number)
            if number % 3 == 1:
                producer.send_offsets_to_transaction({TopicPartition("orders", 1): number * 10}, "paying")
            producer.flush()
            producer.abort_transaction() if number % 4 == 3 else producer.commit_transaction()


def read_in_group(servers: str, protocol: str) -> None:
    settings = {"group_id": protocol, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(servers, enable_auto_commit=False, **settings) as consumer:
        consumer.subscribe(["orders"])
        seen_count, deadline = 0, time.monotonic() + 60
        while seen_count < 200 and time.monotonic() < deadline:
            seen_count += len(consumer.poll(1_000, max_records=200))
        consumer.commit()


def read_share_group(broker: Broker) -> None:
    """Join a share group, acknowledge the first records of a partition, and leave."""
    client = FrameClient(broker.port)
    topic_id = broker.call(lambda state: state.topics["orders"].topic_id)
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs("group", SHARING, {"share.auto.offset.reset": "earliest"})
    member = {"group_id": SHARING, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    heartbeat_request = message("ShareGroupHeartbeatRequest")
    heartbeat = client.ask(
        "ShareGroupHeartbeat", 1, heartbeat_request(**member, member_epoch=0, subscribed_topic_names=["orders"])
    )
    assert heartbeat.error_code == 0
    types = message("ShareFetchRequest")
    partition_row = types.FetchPartition(partition_index=1)
    limits = {"max_wait_ms": 0, "max_bytes": 1 << 20, "max_records": 100, "batch_size": 100}
    topics = [types.FetchTopic(topic_id=topic_id, partitions=[partition_row])]
    fetch_answer = client.ask("ShareFetch", 1, types(**member, **limits, share_session_epoch=0, topics=topics))
    (row,) = fetch_answer.responses[0].partitions
    assert row.acquired_records[0].first_offset == 0
    types = message("ShareAcknowledgeRequest")
    batch = types.AcknowledgementBatch(first_offset=0, last_offset=ACKNOWLEDGED - 1, acknowledge_types=[1])
    acknowledged_partition = types.AcknowledgePartition(partition_index=1, acknowledgement_batches=[batch])
    topics = [types.AcknowledgeTopic(topic_id=topic_id, partitions=[acknowledged_partition])]
    answer = client.ask("ShareAcknowledge", 1, types(**member, share_session_epoch=1, topics=topics))
    assert answer.responses[0].partitions[0].error_code == 0
    client.ask("ShareGroupHeartbeat", 1, heartbeat_request(**member, member_epoch=-1))
    client.close()


def share_start(port: int) -> int | None:
    """Return the start offset of the share group; None for a broker without such groups.

    Share groups are disabled until the controller's feature ``share.version`` has a level.
    """
    client = FrameClient(port)
    try:
        if "DescribeShareGroupOffsets" not in ranges(client):
            return None
        updates = message("UpdateFeaturesRequest")
        feature_row = updates.FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)
        client.ask("UpdateFeatures", 1, updates(timeout_ms=10_000, feature_updates=[feature_row]))
        types = message("DescribeShareGroupOffsetsRequest")
        group = types.DescribeShareGroupOffsetsRequestGroup(group_id=SHARING, topics=None)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # the coordinator is still loading its topic
            (group_row,) = client.ask("DescribeShareGroupOffsets", 0, types(groups=[group])).groups
            starts = [row.start_offset for topic in group_row.topics for row in topic.partitions if row.partition_index]
            if starts and starts[0] >= 0:
                return int(starts[0])
            time.sleep(0.2)
        raise AssertionError(f"the broker does not know the share group: {group_row}")
    finally:
        client.close()


def find_layouts(data: Path) -> list[TopicLayout]:
    """Return the controller's state of the directory: topics with ids, leader epochs, settings."""
    (directory,) = discover(str(data))
    layouts_by_topic: dict[str, TopicLayout] = {}
    for partition in directory.partitions:
        is_compacted = partition.topic == "latest" or partition.topic.startswith("__")
        configs = {"cleanup.policy": "compact"} if is_compacted else {}  # Kafka 4.x rejects such small segments
        layout = layouts_by_topic.setdefault(
            partition.topic, TopicLayout(partition.topic, partition.metadata.topic_id, {}, configs)
        )
        epochs = partition.leader_epochs or ()
        layout.leader_epochs[partition.partition] = epochs[-1].leader_epoch + 1 if epochs else 1
    return list(layouts_by_topic.values())


def write_bootstrap(data: Path) -> None:
    meta = read_meta_properties((data / "meta.properties").read_bytes())
    node = DirectoryNode(node_id=1, cluster_id=meta.values["cluster.id"], directory_id=meta.values["directory.id"])
    raw = build_bootstrap_checkpoint(find_layouts(data), node, now_ms=int(time.time() * 1000), next_producer_id=100_000)
    (data / "bootstrap.checkpoint").write_bytes(raw)


@pytest.fixture
def data(tmp_path):
    """A directory that the embedded broker has filled and compacted before it stopped cleanly."""
    data = tmp_path / "data"
    with Broker(data_dir=data, config=SMALL_SEGMENTS | {"log.cleaner.backoff.ms": 100}) as broker:
        fill(broker)
        before = broker.topics["latest"].end_offsets
        deadline = time.monotonic() + 60
        while len(broker.records("latest")) >= 200 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert len(broker.records("latest")) < 200  # records in the active segment are not compacted
        assert broker.topics["latest"].end_offsets == before
        broker.call(lambda state: state.topics["orders"].partitions[0].log.delete_records(40))
    return data


def read_committed_offsets(broker: Broker) -> dict[tuple[str, str, int], int]:
    return {
        (group, partition.topic, partition.partition): offset
        for group, info in broker.groups.items()
        for partition, offset in info.offsets.items()
    }


def test_a_real_kafka_continues_from_our_broker_and_back(kafka, java, data, tmp_path):
    with Broker(serve=data) as broker:
        groups = read_committed_offsets(broker)
        assert {group for group, _, _ in groups} == {"classic", "consumer", "paying"}
        assert share_start(broker.port) == ACKNOWLEDGED
    expected_records = {
        level: user_topics(brokers.read_expected_records(data, isolation=level)) for level in ISOLATIONS
    }
    assert set(expected_records["read_committed"]) == {
        ("orders", 0), ("orders", 1), ("payments", 0), ("latest", 0), ("format-0", 0), ("format-1", 0),
    }  # fmt: skip
    assert len(expected_records["read_committed"]["payments", 0]) < len(
        expected_records["read_uncommitted"]["payments", 0]
    )
    write_bootstrap(data)
    node = kafka(tmp_path, SMALL_SEGMENTS)
    with node:
        for level in ISOLATIONS:
            assert user_topics(read(java, node, isolation=level).records) == expected_records[level]
        cluster = read(java, node, append_count=APPEND_COUNT)
        assert {key: offset for key, offset in cluster.groups.items() if key in groups} == groups
        assert share_start(int(node.bootstrap.rpartition(":")[2])) in (ACKNOWLEDGED, None)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
        assert "stray" not in log
        assert errors_in(log) == []
        assert "Recovering unflushed segment" not in log
    check_directory(data)
    more = user_topics(brokers.read_expected_records(data))
    with Broker(data_dir=data) as broker:  # the embedded broker again, which recognises its directory
        assert {key: offset for key, offset in read_committed_offsets(broker).items() if key in groups} == groups
        assert share_start(broker.port) == ACKNOWLEDGED
        for (topic, partition), rows in more.items():
            assert [record.offset for record in broker.records(topic, partition)] == [row[0] for row in rows]
        with Producer(broker.bootstrap_servers, transactional_id="billing") as producer:
            producer.begin_transaction()
            producer.send("payments", value=b"after")
            producer.commit_transaction()
        assert broker.records("payments")[-1].value == b"after"
