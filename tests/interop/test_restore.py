"""Kafka's brokers open restored logs, serve each record, id and committed offset, and continue."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.interop import brokers
from tests.interop.brokers import check_directory, errors_in, read, run_command, user_topics

from kafkaframes.jobs.restore.groups import read_groups
from kafkaframes.storage.log.discover import discover

DATA = Path(__file__).parents[1] / "data"
APPEND_COUNT = 3
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OTHER_CLUSTER = "AAAAAAAAAAEAAAAAAAAAAg"
GROUPS = ("static-members", "next-gen-group", "admin-set")


@pytest.mark.parametrize(
    "source",
    [
        DATA / "examples" / "kafka-4.3",
        DATA / "examples" / "kafka-2.8-format-1",
        DATA / "logs" / "kraft-4x-transactions",
        DATA / "logs" / "deleted-records",
    ],
    ids=lambda path: path.name,
)
def test_a_broker_opens_a_restored_log_and_continues(kafka, java, tmp_path, source):
    run_command("restore", source, "--to", tmp_path / "data")
    ids = {partition.topic: partition.metadata.topic_id for partition in discover(str(tmp_path / "data"))[0].partitions}
    with kafka(tmp_path) as node:
        committed_cluster = read(java, node, isolation="read_committed")
        cluster = read(java, node, append_count=APPEND_COUNT)
        again = read(java, node)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
    assert user_topics(cluster.records) == user_topics(brokers.read_expected_records(source))
    for partition, expected_records in user_topics(
        brokers.read_expected_records(source, isolation="read_committed")
    ).items():
        committed_records = committed_cluster.records[
            partition
        ]  # the records after it: a range that became visible when the coordinator aborted an open transaction
        assert committed_records[: len(expected_records)] == expected_records
        assert set(committed_records) <= set(cluster.records[partition])
    assert {topic: description[0] for topic, description in cluster.topics.items()} == ids
    assert "stray" not in log
    assert errors_in(log) == []
    for partition, (begin, end) in user_topics(cluster.ends).items():
        first, *other_offsets = [record[0] for record in again.records[partition][-APPEND_COUNT:]]
        # at a higher offset, because the coordinator has written a marker before the first record was sent
        assert first >= end
        assert other_offsets == [first + 1, first + 2]
        assert again.ends[partition][0] == begin
    check_directory(tmp_path / "data")


def test_an_export_restored_from_parquet_is_opened(kafka, java, tmp_path):
    source = DATA / "examples" / "kafka-4.3"
    run_command("export", source, "--to", tmp_path / "parquet")
    run_command("restore", tmp_path / "parquet", "--to", tmp_path / "data", "--codec", "lz4", "--segment-bytes", 40_000)
    with kafka(tmp_path) as node:
        cluster = read(java, node, append_count=APPEND_COUNT)
        node.stop()
    assert user_topics(cluster.records) == user_topics(brokers.read_expected_records(source))
    assert cluster.configs["orders"]["retention.ms"] == "-1"
    check_directory(tmp_path / "data")


def test_a_broker_creates_the_partitions_between_restored_ones(kafka, java, tmp_path):
    source = DATA / "examples" / "kafka-4.3"
    run_command("restore", source, "--to", tmp_path / "data", "--topic", "orders", "--partition", 2, "--no-groups")
    assert [path.name for path in (tmp_path / "data").glob("orders-*")] == ["orders-2"]
    with kafka(tmp_path) as node:
        cluster = read(java, node, append_count=APPEND_COUNT)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
    assert {key: end > APPEND_COUNT for key, (_, end) in user_topics(cluster.ends).items()} == {
        ("orders", 0): False, ("orders", 1): False, ("orders", 2): True
    }  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "data").glob("orders-*")) == ["orders-0", "orders-1", "orders-2"]
    assert errors_in(log) == []
    check_directory(tmp_path / "data")


def consumed_records(lines: str, partition: int) -> list[tuple[int, str, str]]:
    """Return (offset, key, value) of the records that a group's consumer received from a partition."""
    words = [line.split("\t") for line in lines.splitlines()]
    return [(int(offset), key, value) for _, number, offset, key, value in words if int(number) == partition]


@pytest.mark.parametrize("is_moved", [False, True], ids=["kept", "moved"])
def test_groups_continue_at_their_committed_offsets(kafka, java, tmp_path, is_moved):
    source = DATA / "logs" / "kraft-4x-transactions"
    (log_dir,) = discover(str(source))
    copies = [(log_dir, partition) for partition in log_dir.partitions if partition.topic == "__consumer_offsets"]
    old = {key: commit.offset for key, commit in read_groups(copies).commits.items()}
    options = ("--offsets", "reassign", "--start-offset", 1000, "--open-transactions", "abort") if is_moved else ()
    run_command("restore", source, "--to", tmp_path / "data", "--offsets-partitions", 5, *options)
    with kafka(tmp_path) as node:
        cluster = read(java, node)
        outputs_by_group = {
            group: java("Continue", node.bootstrap, "read_uncommitted", group, "input") for group, _, _ in old
        }
        node.stop()
    assert cluster.groups.keys() == old.keys()
    before, expected_records = user_topics(cluster.records), user_topics(brokers.read_expected_records(source))
    assert {topic for _, topic, _ in old} == {"input"}
    for (group, topic, partition), offset in cluster.groups.items():
        unread = [record for record in before.get((topic, partition), []) if record[0] >= offset]
        partition_records = expected_records.get((topic, partition), [])
        assert [record[1:] for record in unread] == [
            record[1:] for record in partition_records if record[0] >= old[group, topic, partition]
        ]
        assert is_moved == (offset != old[group, topic, partition])
        assert consumed_records(outputs_by_group[group], partition) == [
            (record[0], record[3], record[4]) for record in unread
        ]
    assert cluster.topics["__consumer_offsets"][1] == 5
    check_directory(tmp_path / "data")


# an older broker does not have the features of a later release
@pytest.mark.parametrize("kafka", ["4.3.1"], indirect=True)
def test_a_node_with_the_features_of_its_release_opens_it(kafka, java, tmp_path):
    source = DATA / "examples" / "kafka-4.3"
    run_command("restore", source, "--to", tmp_path / "data", "--release", "4.3", "--cluster-id", OTHER_CLUSTER)
    with kafka(tmp_path) as node:
        cluster = read(java, node, append_count=APPEND_COUNT)
        node.stop()
    assert cluster.cluster_id == OTHER_CLUSTER
    assert user_topics(cluster.records) == user_topics(brokers.read_expected_records(source))
    check_directory(tmp_path / "data")


def test_an_existing_cluster_accepts_partitions_with_its_own_ids(kafka, java, tmp_path):
    """As documented, create the topics, stop the broker, move the restored partitions into place, and start it again.

    Then Kafka's own tool sets the committed offsets, and consumers of the groups continue.
    """
    source = DATA / "logs" / "kraft-4x-transactions"
    expected_records = user_topics(brokers.read_expected_records(source, isolation="read_committed"))
    with kafka(tmp_path) as node:
        java("CreateTopics", node.bootstrap, "payments:2", "idempotent:2", "input:2")
        cluster_before = read(java, node)
        node.stop()
        ids = "".join(
            f"Topic: {name}\tTopicId: {description[0]}\tPartitionCount: 2\n"
            for name, description in cluster_before.topics.items()
        )
        (tmp_path / "ids").write_text(ids)
        run_command("restore", source, "--to", tmp_path / "new", "--into-cluster-ids", tmp_path / "ids")
        for path in (tmp_path / "new").glob("*-*/"):
            if path.is_dir():
                shutil.rmtree(tmp_path / "data" / path.name)
                shutil.move(path, tmp_path / "data" / path.name)
        node.start()
        cluster = read(java, node, isolation="read_committed")
        file = tmp_path / "new" / "group-offsets.csv"
        group_arguments = [word for group in GROUPS for word in ("--group", group)]
        options = ["--bootstrap-server", node.bootstrap, "--reset-offsets", "--from-file", str(file), "--execute"]
        tool_result = kafka.module.tool(kafka.version, CONSUMER_GROUPS, [*options, *group_arguments])
        assert tool_result.returncode == 0, tool_result.stdout + tool_result.stderr
        outputs_by_group = {
            group: java("Continue", node.bootstrap, "read_committed", group, "input") for group in GROUPS
        }
        read(java, node, append_count=APPEND_COUNT)
        node.stop()
    (log_dir,) = discover(str(source))
    copies = [(log_dir, partition) for partition in log_dir.partitions if partition.topic == "__consumer_offsets"]
    old = read_groups(copies).commits
    assert {key.group for key in old} == set(GROUPS)
    for key, commit in old.items():
        unread = [record for record in expected_records[key.topic, key.partition] if record[0] >= commit.offset]
        assert consumed_records(outputs_by_group[key.group], key.partition) == [
            (row[0], row[3], row[4]) for row in unread
        ]
    for name in ("payments", "idempotent", "input"):
        assert cluster.topics[name] == cluster_before.topics[name]
        for number in range(2):
            assert cluster.records.get((name, number), []) == expected_records.get((name, number), [])
    check_directory(tmp_path / "data")


@pytest.mark.parametrize(
    "arguments",
    [
        ("compact", "--topic", "customers", "--topic", "orders"),
        ("convert", "--record-format", "v2"),
        ("recompress", "--codec", "zstd"),
        ("repair",),
    ],
    ids=lambda parameters: parameters[0],
)
def test_a_broker_opens_the_results_of_our_other_commands(kafka, java, tmp_path, arguments):
    """The log is moved into a node with its topics, which a restore of the same source creates."""
    command, *options = arguments
    name = "kafka-2.8-format-1" if command == "convert" else "kafka-4.3"
    source = DATA / "examples" / name
    run_command("restore", source, "--to", tmp_path / "data", "--no-groups")
    before = tmp_path / "before"
    shutil.copytree(tmp_path / "data", before)
    run_command(command, before, "--to", tmp_path / "written", *options)
    expected_records = user_topics(brokers.read_expected_records(tmp_path / "written"))
    if command != "compact":
        assert _without_format(expected_records) == _without_format(user_topics(brokers.read_expected_records(source)))
    shutil.rmtree(tmp_path / "data")
    shutil.move(tmp_path / "written", tmp_path / "data")
    with kafka(tmp_path) as node:
        cluster = read(java, node, append_count=APPEND_COUNT)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
    assert user_topics(cluster.records) == expected_records
    assert "stray" not in log
    check_directory(tmp_path / "data")


def _without_format(records_by_partition):
    """Remove headers, which format 1 does not have; its timestamps have two types, as in format 2."""
    return {
        partition: [record[:2] + record[3:] for record in records]
        for partition, records in records_by_partition.items()
    }
