"""Kafka's brokers open the writer's logs and continue, and the writer continues the brokers' logs."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop import brokers
from tests.interop.brokers import check_directory, errors_in, read, user_topics
from tests.interop.conftest import ROOT

from kafkaframes.jobs.restore.writing import RunCommitter, RunWriter, TargetState, WriteSettings
from kafkaframes.spark.sinks.log_writer import create_topic_id

APPEND_COUNT = 3


def write(path: Path, staging: Path, *, count: int, **options) -> None:
    target = TargetState.inspect_target(str(path))
    settings = WriteSettings(now_ms=1_700_000_000_000, topic="t", partitions=target.counts, **options)
    runs = []
    for task in range(2):
        directory = staging / str(task)
        directory.mkdir(parents=True)
        writer = RunWriter(directory, settings, task=task)
        keys = [b"%d" % number for number in range(count)]
        writer.add_rows(pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(keys, pa.binary())}))
        runs += writer.finish()
    RunCommitter(target, settings, False, create_topic_id, map).commit(runs)


@pytest.mark.parametrize(
    "options", [{}, {"codec": "zstd"}, {"record_format": 1, "codec": "gzip"}, {"record_format": 0}], ids=str
)
def test_a_broker_continues_a_written_log_and_the_writer_continues_after_it(kafka, java, tmp_path, options):
    logs = tmp_path / "node" / "data"
    write(logs, tmp_path / "one", count=500, num_partitions=3, segment_bytes=6000, batch_records=20, **options)
    expected_records = brokers.read_expected_records(logs)
    assert sum(map(len, expected_records.values())) == 1000
    with kafka(logs.parent) as node:
        cluster = read(java, node, append_count=APPEND_COUNT)
        node.stop()
        log_text = (logs.parent / "kafka.out").read_text()
    assert user_topics(cluster.records) == expected_records
    assert "stray" not in log_text
    assert errors_in(log_text) == []
    write(logs, tmp_path / "two", count=200, **options)
    expected_records = brokers.read_expected_records(logs)
    assert sum(map(len, expected_records.values())) == 1000 + 3 * APPEND_COUNT + 400
    with kafka(logs.parent) as node:
        cluster = read(java, node)
        node.stop()
        log_text = (logs.parent / "kafka.out").read_text()
    assert user_topics(cluster.records) == user_topics(expected_records)
    assert errors_in(log_text) == []
    check_directory(logs)


# ------------------------------------------------------------------------------- df.write.format("kafka-log") itself

TOPICS_TO_WRITE = {  # record format, codec and number of partitions by topic
    f"{magic}-{codec}": (magic, codec, 7 if codec == "lz4" else 5)
    for magic, codecs in {
        "v2": ("none", "gzip", "snappy", "lz4", "zstd"),
        "v1": ("none", "gzip", "snappy", "lz4"),
        "v0": ("none", "gzip", "snappy", "lz4"),
    }.items()
    for codec in codecs
}
ROW_COUNT = 400
WRITE_SCRIPT = """
    import sys
    import kafkaframes
    from tests.interop.test_writer import TOPICS_TO_WRITE, create_rows
    spark = kafkaframes.spark.session("interop", master="local[2]", memory="512m")
    kafkaframes.spark.register(spark)
    frame = spark.createDataFrame(create_rows(), "id bigint, key binary, value binary").repartitionByRange(3, "id")
    frame = frame.sortWithinPartitions("id")
    frame = frame.selectExpr("key", "value", "timestamp_millis(1700000000000 + id) as timestamp")
    for topic, (magic, codec, partitions) in TOPICS_TO_WRITE.items():
        options = {"topic": topic, "codec": codec, "recordFormat": magic, "numPartitions": partitions}
        writer = frame.write.format("kafka-log").options(**options, batchRecords=20, segmentSize="6k")
        writer.mode("append").save(sys.argv[1])
    spark.stop()
"""


def create_rows() -> list[tuple[int, bytearray | None, bytearray | None]]:
    """Return the rows to write, with keys of each length up to 70, null keys and null values."""
    choose = random.Random(5)
    keys = [choose.randbytes(length) for length in range(70)]
    rows = []
    for number in range(ROW_COUNT):
        key = None if number % 40 == 7 else bytearray(choose.choice(keys))
        rows.append((number, key, None if number % 31 == 3 else bytearray(b"value %d" % number)))
    return rows


@pytest.fixture(scope="module")
def spark_log_dir(tmp_path_factory) -> Path:
    """A log directory written by Spark, with a topic for each codec of each format."""
    path = tmp_path_factory.mktemp("written") / "data"
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", textwrap.dedent(WRITE_SCRIPT), str(path)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return path


def partitions_by_key(cluster: brokers.ClientResults, topic: str) -> dict[str, set[int]]:
    partitions: dict[str, set[int]] = {}
    for (name, partition), records in cluster.records.items():
        for record in records if name == topic else ():
            if record[3] != "-":
                partitions.setdefault(record[3], set()).add(partition)
    return partitions


def test_a_broker_serves_logs_written_by_spark_with_the_partitions_that_clients_choose(
    kafka, java, spark_log_dir, tmp_path
):
    shutil.copytree(spark_log_dir, tmp_path / "data")
    with kafka(tmp_path) as node:
        cluster = read(java, node)
        for topic in ("v2-none", "v2-lz4"):  # topics with five and with seven partitions
            ours = partitions_by_key(cluster, topic)
            sent_lines = java("SendKeys", node.bootstrap, topic, *(key for key in ours if key)).splitlines()
            theirs = {key: {int(partition)} for key, partition, _ in (line.split("\t") for line in sent_lines)}
            assert len(theirs) > 60
            assert theirs == {key: numbers for key, numbers in ours.items() if key}
        cluster_after = read(java, node, append_count=APPEND_COUNT)
        node.stop()
        log_text = (tmp_path / "kafka.out").read_text()
    assert user_topics(cluster.records) == user_topics(brokers.read_expected_records(spark_log_dir))
    expected_rows = sorted(
        (("-" if key is None else key.hex()), ("-" if value is None else value.hex()))
        for _, key, value in create_rows()
    )
    for topic, (_, _, partitions) in TOPICS_TO_WRITE.items():
        assert cluster.topics[topic][1] == partitions
        records = [one for number in range(partitions) for one in cluster.records.get((topic, number), ())]
        assert sorted((record[3], record[4]) for record in records) == expected_rows
    assert {end - begin for begin, end in user_topics(cluster_after.ends).values()} != {0}
    assert errors_in(log_text) == []
    for word in ("stray", "Recovering unflushed segment", "rebuilding index"):
        assert word not in log_text, word
    check_directory(tmp_path / "data")
