"""Kafka's brokers open the results of convert, recompress, compact and repair, use the indexes, serve each record and
continue.

All results are partitions of one node, and the topic names have the job's name as a prefix. The node is marked as
cleanly stopped, so that the broker uses this package's indexes and snapshots.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.interop import brokers
from tests.interop.brokers import check_directory, errors_in, read, user_topics
from tests.interop.conftest import ROOT

from kafkaframes.cli.main import cli
from kafkaframes.jobs.restore.cluster import (
    DirectoryNode,
    LogOffsets,
    TopicLayout,
    build_checkpoint_files,
    build_node_files,
    write_files,
)
from kafkaframes.storage.files.checkpoints import PartitionMetadata, write_partition_metadata
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.transactions import read_transactions
from kafkaframes.wire.primitives import uuid_to_text

CORPUS_LOGS = Path(os.environ.get("KAFKAFRAMES_CORPUS", ROOT.parent / "shared" / "corpus")) / "logs"
CONVERT, RECOMPRESS, COMPACT = (
    ("convert", "--record-format", "v2"),
    ("recompress", "--codec"),
    ("compact", "--topic", "*"),
)
JOBS = {
    "convert-0102-v0": ("zk-0102-v0", CONVERT),
    "convert-0102-v1": ("zk-0102-v1", CONVERT),
    "convert-28-v0": ("zk-28-v0", CONVERT),
    "convert-28-v1": ("zk-28-v1", CONVERT),
    "convert-28-mixed": ("zk-28-mixed", CONVERT),
    "convert-28-mixed-zstd": ("zk-28-mixed", (*CONVERT, "--codec", "zstd")),
    "recompress-none": ("kraft-39-mixed", (*RECOMPRESS, "none")),
    "recompress-gzip": ("kraft-39-mixed", (*RECOMPRESS, "gzip")),
    "recompress-lz4": ("kraft-39-mixed", (*RECOMPRESS, "lz4")),
    "recompress-snappy": ("kraft-4x-all-codecs", (*RECOMPRESS, "snappy")),
    "recompress-zstd": ("kraft-4x-all-codecs", (*RECOMPRESS, "zstd", "--level", "9")),
    "recompress-v1": ("zk-28-v1", (*RECOMPRESS, "lz4")),
    "compact-3.9": ("kraft-39-mixed", (*COMPACT, "--broker-release", "3.9")),
    "compact-3.9-legacy": ("zk-28-mixed", (*COMPACT, "--broker-release", "3.9")),
    "compact-3.9-transactions": ("kraft-4x-transactions", (*COMPACT, "--broker-release", "3.9")),
    "compact-4.x": ("kraft-39-mixed", (*COMPACT, "--broker-release", "4.x")),
    "compact-4.x-legacy": ("zk-28-mixed", (*COMPACT, "--broker-release", "4.x")),
    "compact-4.x-transactions": ("kraft-4x-transactions", (*COMPACT, "--broker-release", "4.x")),
    "repair-flipped": ("unclean-flipped-bit-active", ("repair",)),
    "repair-torn": ("unclean-torn-tail", ("repair",)),
    "repair-swap": ("unclean-half-finished-swap", ("repair",)),
    "repair-legacy": ("unclean-zk-28-flipped-bit-active", ("repair",)),
    "as-kafka-flipped": ("unclean-flipped-bit-active", ("repair", "--as-kafka")),
    "as-kafka-torn": ("unclean-torn-tail", ("repair", "--as-kafka")),
    "as-kafka-swap": ("unclean-half-finished-swap", ("repair", "--as-kafka")),
    "as-kafka-legacy": ("unclean-zk-28-flipped-bit-active", ("repair", "--as-kafka")),
}
ISOLATIONS = ("read_uncommitted", "read_committed")


def job_source(job: str) -> Path:
    source_dir = CORPUS_LOGS / JOBS[job][0]
    return source_dir / "before" if (source_dir / "before").exists() else source_dir


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, Path]:
    """Run every job once, for all versions."""
    if not CORPUS_LOGS.is_dir():
        pytest.skip(f"{CORPUS_LOGS} does not contain Kafka's logs (set KAFKAFRAMES_CORPUS)")
    place = tmp_path_factory.mktemp("jobs")
    for job, (_, (command, *options)) in JOBS.items():
        arguments = [command, str(job_source(job)), "--to", str(place / job), *options, "--workers", "1"]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, f"{arguments}: {result.output} {result.exception}"
    return {job: place / job for job in JOBS}


def assemble_node(results: dict[str, Path], data: Path) -> None:
    """Assemble a node's data directory from the results."""
    logs, epochs = {}, {}
    for job, path in results.items():
        (directory,) = discover(str(path))
        for one in directory.partitions:
            if not one.is_live or not is_used_topic(one.topic):
                continue
            name = TopicPartition(f"{job}.{one.topic}", one.partition)
            shutil.copytree(one.directory, data / str(name))
            end = read_transactions(LocalFileSystem(), one).log_end_offset
            logs[name] = LogOffsets(one.log_start_offset, one.segments[0].base_offset, end)
            latest = max((epoch.leader_epoch for epoch in one.leader_epochs or ()), default=0)
            epochs.setdefault(name.topic, {})[name.partition] = latest
    layouts = []
    for number, (topic, known_leaders) in enumerate(sorted(epochs.items())):
        topic_id = uuid_to_text(uuid.UUID(int=2**96 + number))
        for partition in known_leaders:
            raw = write_partition_metadata(PartitionMetadata(topic_id))
            (data / f"{topic}-{partition}" / "partition.metadata").write_bytes(raw)
        leaders = {partition: known_leaders.get(partition, 0) for partition in range(max(known_leaders) + 1)}
        layouts.append(TopicLayout(topic, topic_id, leaders, {"retention.ms": "-1"}))
    node = DirectoryNode(node_id=1, cluster_id="Y29ycHVzLWNsdXN0ZXItMQ", directory_id="xwUKgqnBToqxLV2jFAXHkQ")
    write_files(data, build_checkpoint_files(logs))
    write_files(data, build_node_files(node, layouts, now_ms=int(time.time() * 1000), next_producer_id=10**6))


def is_used_topic(topic: str) -> bool:
    """Return whether a topic is used: neither one of Kafka's internal topics nor one of a dozen filler topics, which
    slow down each start.
    """
    return not topic.startswith(("__", "filler-"))


def read_jobs(paths: dict[str, Path], isolation: str) -> dict[str, dict[tuple[str, int], list[brokers.Record]]]:
    records_by_job = {job: brokers.read_expected_records(path, isolation=isolation) for job, path in paths.items()}
    return {
        job: {key: rows for key, rows in one.items() if is_used_topic(key[0])} for job, one in records_by_job.items()
    }


def prefix_topics(records_by_job):
    return {
        (f"{job}.{topic}", number): rows for job, one in records_by_job.items() for (topic, number), rows in one.items()
    }


def test_a_broker_opens_every_result_and_continues(kafka, java, results, tmp_path):
    assemble_node(results, tmp_path / "data")
    with kafka(tmp_path) as node:
        clusters = {isolation: read(java, node, isolation=isolation) for isolation in ISOLATIONS}
        cluster_after = read(java, node, append_count=3)
        again = read(java, node)
        node.stop()
        log_text = (tmp_path / "kafka.out").read_text()
    for isolation in ISOLATIONS:
        assert user_topics(clusters[isolation].records) == prefix_topics(read_jobs(results, isolation)), isolation
    for partition, (begin, end) in user_topics(cluster_after.ends).items():
        assert [record[0] for record in again.records[partition][-3:]] == [end, end + 1, end + 2]
        assert again.ends[partition][0] == begin
    assert errors_in(log_text) == []
    for word in ("stray", "Recovering unflushed segment", "rebuilding index", "corrupt"):
        assert word not in log_text, word
    check_directory(tmp_path / "data")


# Also compare the broker's input with the sources, because it must be correct, not only served.


def without_type(records_by_partition):
    return {partition: [record[:2] + record[3:] for record in rows] for partition, rows in records_by_partition.items()}


@pytest.mark.parametrize("job", [job for job in JOBS if JOBS[job][1][0] in ("convert", "recompress")])
def test_every_record_is_unchanged(results, job):
    for isolation in ISOLATIONS:
        (new,), (old,) = (read_jobs({job: path}, isolation).values() for path in (results[job], job_source(job)))
        assert without_type(new) == without_type(old)


@pytest.mark.parametrize("job", [job for job in JOBS if JOBS[job][1][0] == "compact"])
def test_the_last_record_of_each_key_is_kept(results, job):
    (new,), (old,) = (read_jobs({job: path}, "read_committed").values() for path in (results[job], job_source(job)))
    assert sum(map(len, new.values())) < sum(map(len, old.values()))
    for partition, rows in old.items():
        last = {record[3]: (record[0], record[4]) for record in rows if record[3] != "-"}
        remaining_records = {record[3]: (record[0], record[4]) for record in new.get(partition, ()) if record[3] != "-"}
        assert {
            key: last_record for key, last_record in last.items() if last_record[1] != "-"
        }.items() <= remaining_records.items()
        assert remaining_records.keys() <= last.keys()


@pytest.mark.parametrize("job", [job for job in JOBS if JOBS[job][1][0] == "repair"])
def test_every_record_that_a_broker_keeps_is_kept(results, job):
    (new,) = read_jobs({job: results[job]}, "read_uncommitted").values()
    (kept_by_kafka,) = read_jobs({job: CORPUS_LOGS / JOBS[job][0] / "after"}, "read_uncommitted").values()
    if "--as-kafka" in JOBS[job][1]:
        assert new == kept_by_kafka
    for partition, rows in kept_by_kafka.items():
        assert set(rows) <= set(new[partition])
