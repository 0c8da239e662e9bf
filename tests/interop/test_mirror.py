"""Topics are mirrored to Kafka's brokers and back again, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interop import brokers
from tests.interop.brokers import read, user_topics
from tests.jobs.mirror.worlds import logs_of, run_mirror

import kafkaframes
from kafkaframes.client import Admin, Producer, TopicPartition

DATA = Path(__file__).parents[1] / "data"
SOURCES = [
    DATA / "examples" / "kafka-4.3",  # compacted topics with offset gaps, aborted transactions and groups
    DATA / "examples" / "kafka-2.8-format-1",
    DATA / "logs" / "zk-28-mixed",  # formats 0, 1 and 2 in one log
    DATA / "logs" / "kraft-4x-transactions",
    DATA / "logs" / "deleted-records",
]


def remove_offsets(records: Any) -> list[tuple[Any, ...]]:
    """Remove the offsets, which are new, and the timestamp type, because log append times become create times in the
    copy.
    """
    return [(timestamp, *rest) for _, timestamp, _, *rest in records]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_real_broker_receives_and_serves_a_mirror_whose_copy_is_its_log(kafka, java, tmp_path, source):
    expected_records = user_topics(brokers.read_expected_records(source, isolation="read_committed"))
    # so that no record is compacted between the two reads
    with kafka(tmp_path, {"log.cleaner.backoff.ms": 3_600_000}) as node:
        settings = {"state_dir": str(tmp_path / "state"), "keep_retention": False}
        report = run_mirror(source, node.bootstrap, **settings)
        again = run_mirror(source, node.bootstrap, **settings)
        cluster = read(java, node)
        with Admin(node.bootstrap) as admin:
            groups = {group.group_id: admin.group_offsets(group.group_id) for group in admin.list_groups()}
        run_mirror(node.bootstrap, tmp_path / "back")
        node.stop()
    mirrored_records = user_topics(cluster.records)
    assert {place: remove_offsets(rows) for place, rows in mirrored_records.items()} == {
        place: remove_offsets(rows) for place, rows in expected_records.items()
    }
    assert not report.keeps_offsets
    assert sum(partition.batches_written for partition in again.partitions) == 0
    check_groups(source, groups, expected_records, mirrored_records)
    copied_logs = logs_of(tmp_path / "back")
    assert copied_logs == {
        place: log_bytes for place, log_bytes in logs_of(tmp_path / "data").items() if place in copied_logs
    }
    assert {(place.topic, place.partition) for place in copied_logs} >= set(mirrored_records)
    check_headers(tmp_path / "data", set(mirrored_records))


def check_groups(source: Path, groups: Any, expected_records: Any, records_by_partition: Any) -> None:
    """Check that the next record of each group is the same."""
    from kafkaframes.jobs.restore.groups import read_groups
    from kafkaframes.storage.log.discover import discover

    copies = [
        (directory, partition)
        for directory in discover(str(source))
        for partition in directory.partitions
        if partition.topic == "__consumer_offsets" and partition.is_live
    ]
    for key, commit in read_groups(copies).commits.items():
        place = (key.topic, key.partition)
        if place in expected_records:
            copied_offset = groups[key.group][TopicPartition(*place)].offset
            before = [row for row in expected_records[place] if row[0] >= commit.offset]
            after = [row for row in records_by_partition[place] if row[0] >= copied_offset]
            assert remove_offsets(after) == remove_offsets(before), key


def check_headers(directory: Path, places: set[tuple[str, int]]) -> None:
    """Check that each batch of a copy has format 2 and no producer, transaction or offset gap."""
    for topic, partition in places:
        paths = sorted(map(str, (directory / f"{topic}-{partition}").glob("*.log")))
        batches = kafkaframes.read_batches(paths)
        assert set(batches["producer_id"].to_pylist()) == {-1}
        assert not any(batches["transactional"].to_pylist())
        assert not any(batches["control"].to_pylist())
        assert set(batches["magic"].to_pylist()) == {2}


def test_a_mirror_follows_a_real_broker_and_copies_settings(kafka, java, tmp_path):
    with kafka(tmp_path) as node, Admin(node.bootstrap) as admin:
        run_mirror(SOURCES[0], node.bootstrap, state_dir=str(tmp_path / "state"), topics=("orders", "customers"))
        configs = admin.describe_configs("topic", "customers")
        assert configs["cleanup.policy"].value == "compact"
        assert len(admin.describe_topics(["orders"])["orders"].partitions) == 3
        with kafkaframes.Broker() as ours:
            run_mirror(node.bootstrap, ours.bootstrap_servers)
            with Producer(node.bootstrap, transactional_id="t") as producer:
                producer.begin_transaction()
                producer.send("orders", b"more", partition=1).result()
                producer.commit_transaction()
            report = run_mirror(node.bootstrap, ours.bootstrap_servers)
            assert sum(partition.batches_written for partition in report.partitions) == 2
            with Admin(ours.bootstrap_servers) as copy:
                ends = dict.fromkeys([TopicPartition("orders", number) for number in range(3)], -1)
                assert copy.list_offsets(ends) == admin.list_offsets(ends)
