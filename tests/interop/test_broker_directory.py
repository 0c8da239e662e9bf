"""A real Kafka opens the data directory of the embedded broker after a clean stop, and our broker opens it again.

The controller's state (topics with their ids and settings) comes from a ``bootstrap.checkpoint`` next to the logs.
Everything else is the broker's: records of every format and codec, transactions, idempotent producers, compacted and
deleted records, committed offsets of both kinds of groups and, for brokers with share groups (4.2 and later), share
group state.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.interop import brokers
from tests.interop.broker_script import FrameClient, ranges
from tests.interop.brokers import check_in_order, errors_in, read, users

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, Producer
from kafkaframes.jobs.restore.cluster import DirectoryNode, TopicLayout, build_bootstrap_checkpoint
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.checkpoints import read_meta_properties
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover

ISOLATIONS = ("read_uncommitted", "read_committed")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"log.segment.bytes": 1 << 20, "log.index.size.max.bytes": 65536, "log.index.interval.bytes": 1024}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "4000", "min.cleanable.dirty.ratio": "0.01"}
APPENDED = 3
SHARING, ACKNOWLEDGED = "sharing", 7


def fill(broker: Broker) -> None:
    """Write everything that a broker's directory can contain, with our client."""
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
        # idempotent, each with its own producer id
        write_orders(servers, "orders", 300, partitions=2, compression_type=codec)
    write_payments(servers)
    with Producer(servers) as producer:
        for number in range(400):
            producer.send("latest", key=b"%d" % (number % 7), value=b"%d" % number)
            if number % 20 == 19:
                producer.flush()
    for protocol in ("classic", "consumer"):
        read_in_group(servers, protocol)
    share(broker)


def write_orders(servers: str, topic: str, count: int, *, partitions: int = 1, **settings: Any) -> None:
    has_headers = settings.get("record_format", 2) == 2
    with Producer(servers, linger_ms=20, **settings) as producer:
        for number in range(count):
            headers = [("trace", b"%d" % number), ("none", None)] if has_headers else []
            where = number % partitions
            producer.send(topic, key=b"%d" % number, value=bytes(1500), headers=headers, partition=where)


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


def share(broker: Broker) -> None:
    """Join a share group, acknowledge the first records of a partition, and leave."""
    client = FrameClient(broker.port)
    topic_id = broker.call(lambda state: state.topics["orders"].topic_id)
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_configs("group", SHARING, {"share.auto.offset.reset": "earliest"})
    member = {"group_id": SHARING, "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    beat = message("ShareGroupHeartbeatRequest")
    heartbeat = client.ask("ShareGroupHeartbeat", 1, beat(**member, member_epoch=0, subscribed_topic_names=["orders"]))
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
    client.ask("ShareGroupHeartbeat", 1, beat(**member, member_epoch=-1))
    client.close()


def share_start(port: int) -> int | None:
    """Return the start offset of the share group; None for a broker without such groups.

    A controller without a level of ``share.version`` keeps them disabled until it is set.
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
        while time.monotonic() < deadline:  # the coordinator reads its topic
            (group_row,) = client.ask("DescribeShareGroupOffsets", 0, types(groups=[group])).groups
            starts = [row.start_offset for topic in group_row.topics for row in topic.partitions if row.partition_index]
            if starts and starts[0] >= 0:
                return int(starts[0])
            time.sleep(0.2)
        raise AssertionError(f"the broker does not know the share group: {group_row}")
    finally:
        client.close()


def layouts(data: Path) -> list[TopicLayout]:
    """Return the controller's state of the directory: topics with ids, leader epochs, settings."""
    (directory,) = discover(str(data))
    layouts_by_topic: dict[str, TopicLayout] = {}
    for partition in directory.partitions:
        is_compacted = partition.topic == "latest" or partition.topic.startswith("__")
        configs = {"cleanup.policy": "compact"} if is_compacted else {}  # 4.x rejects segments as small as ours
        layout = layouts_by_topic.setdefault(
            partition.topic, TopicLayout(partition.topic, partition.metadata.topic_id, {}, configs)
        )
        epochs = partition.leader_epochs or ()
        layout.leader_epochs[partition.partition] = epochs[-1].leader_epoch + 1 if epochs else 1
    return list(layouts_by_topic.values())


def make_known(data: Path) -> None:
    meta = read_meta_properties((data / "meta.properties").read_bytes())
    node = DirectoryNode(node_id=1, cluster_id=meta.values["cluster.id"], directory_id=meta.values["directory.id"])
    raw = build_bootstrap_checkpoint(layouts(data), node, now_ms=int(time.time() * 1000), next_producer_id=100_000)
    (data / "bootstrap.checkpoint").write_bytes(raw)


@pytest.fixture
def data(tmp_path):
    """A directory that our broker has filled, compacted, and stopped cleanly."""
    data = tmp_path / "data"
    with Broker(data_dir=data, config=SMALL | {"log.cleaner.backoff.ms": 100}) as broker:
        fill(broker)
        before = broker.topics["latest"].end_offsets
        deadline = time.monotonic() + 60
        while len(broker.records("latest")) >= 200 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert len(broker.records("latest")) < 200  # records in the active segment are kept
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
    expected_records = {level: users(brokers.read_expected_records(data, isolation=level)) for level in ISOLATIONS}
    assert set(expected_records["read_committed"]) == {
        ("orders", 0), ("orders", 1), ("payments", 0), ("latest", 0), ("format-0", 0), ("format-1", 0),
    }  # fmt: skip
    assert len(expected_records["read_committed"]["payments", 0]) < len(
        expected_records["read_uncommitted"]["payments", 0]
    )
    make_known(data)
    node = kafka(tmp_path, SMALL)
    with node:
        for level in ISOLATIONS:
            assert users(read(java, node, isolation=level).records) == expected_records[level]
        cluster = read(java, node, append_count=APPENDED)
        assert {key: offset for key, offset in cluster.groups.items() if key in groups} == groups
        assert share_start(int(node.bootstrap.rpartition(":")[2])) in (ACKNOWLEDGED, None)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
        assert "stray" not in log
        assert errors_in(log) == []
        assert "Recovering unflushed segment" not in log
    check_in_order(data)
    more = users(brokers.read_expected_records(data))
    with Broker(data_dir=data) as broker:  # our broker again, which knows its directory
        assert {key: offset for key, offset in read_committed_offsets(broker).items() if key in groups} == groups
        assert share_start(broker.port) == ACKNOWLEDGED
        for (topic, partition), rows in more.items():
            assert [record.offset for record in broker.records(topic, partition)] == [row[0] for row in rows]
        with Producer(broker.bootstrap_servers, transactional_id="billing") as producer:
            producer.begin_transaction()
            producer.send("payments", value=b"after")
            producer.commit_transaction()
        assert broker.records("payments")[-1].value == b"after"
