"""Real brokers open what the writer wrote, go on from there, and the writer goes on from what they left."""

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
from tests.interop.brokers import check_in_order, errors_in, read, users
from tests.interop.conftest import ROOT

from kafkaframes.jobs.restore.writing import Commit, RunWriter, Target, WriteSettings
from kafkaframes.spark.sinks.log_writer import new_topic_id

APPENDED = 3


def write(path: Path, staging: Path, *, count: int, **options) -> None:
    target = Target.look(str(path))
    settings = WriteSettings(now_ms=1_700_000_000_000, topic="t", partitions=target.counts, **options)
    runs = []
    for task in range(2):
        directory = staging / str(task)
        directory.mkdir(parents=True)
        writer = RunWriter(directory, settings, task=task)
        keys = [b"%d" % number for number in range(count)]
        writer.add(pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(keys, pa.binary())}))
        runs += writer.finish()
    Commit(target, settings, False, new_topic_id, map).commit(runs)


@pytest.mark.parametrize(
    "options", [{}, {"codec": "zstd"}, {"record_format": 1, "codec": "gzip"}, {"record_format": 0}], ids=str
)
def test_a_broker_opens_goes_on_and_we_go_on_behind_it(kafka, java, tmp_path, options):
    logs = tmp_path / "node" / "data"
    write(logs, tmp_path / "one", count=500, num_partitions=3, segment_bytes=6000, batch_records=20, **options)
    expected = brokers.expected_records(logs)
    assert sum(map(len, expected.values())) == 1000
    with kafka(logs.parent) as node:
        seen = read(java, node, appended=APPENDED)
        node.stop()
        said = (logs.parent / "kafka.out").read_text()
    assert users(seen.records) == expected
    assert "stray" not in said
    assert errors_in(said) == []
    write(logs, tmp_path / "two", count=200, **options)
    expected = brokers.expected_records(logs)
    assert sum(map(len, expected.values())) == 1000 + 3 * APPENDED + 400
    with kafka(logs.parent) as node:
        seen = read(java, node)
        node.stop()
        said = (logs.parent / "kafka.out").read_text()
    assert users(seen.records) == users(expected)
    assert errors_in(said) == []
    check_in_order(logs)


# ------------------------------------------------------------------------------- df.write.format("kafka-log") itself

TOPICS = {  # of each: format, codec, partitions
    f"{magic}-{codec}": (magic, codec, 7 if codec == "lz4" else 5)
    for magic, codecs in {
        "v2": ("none", "gzip", "snappy", "lz4", "zstd"),
        "v1": ("none", "gzip", "snappy", "lz4"),
        "v0": ("none", "gzip", "snappy", "lz4"),
    }.items()
    for codec in codecs
}
ROWS = 400
WRITE = """
    import sys
    import kafkaframes
    from tests.interop.test_writer import TOPICS, rows
    spark = kafkaframes.spark.session("interop", master="local[2]", memory="512m")
    kafkaframes.spark.register(spark)
    frame = spark.createDataFrame(rows(), "id bigint, key binary, value binary").repartitionByRange(3, "id")
    frame = frame.sortWithinPartitions("id")
    frame = frame.selectExpr("key", "value", "timestamp_millis(1700000000000 + id) as timestamp")
    for topic, (magic, codec, partitions) in TOPICS.items():
        told = {"topic": topic, "codec": codec, "recordFormat": magic, "numPartitions": partitions}
        writer = frame.write.format("kafka-log").options(**told, batchRecords=20, segmentSize="6k")
        writer.mode("append").save(sys.argv[1])
    spark.stop()
"""


def rows() -> list[tuple[int, bytearray | None, bytearray | None]]:
    """Return what is written: keys of every length up to 70, one empty, some null; some values null."""
    choose = random.Random(5)
    keys = [choose.randbytes(length) for length in range(70)]
    found = []
    for number in range(ROWS):
        key = None if number % 40 == 7 else bytearray(choose.choice(keys))
        found.append((number, key, None if number % 31 == 3 else bytearray(b"value %d" % number)))
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A log directory that Spark wrote: a topic for each codec of each format."""
    path = tmp_path_factory.mktemp("written") / "data"
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", textwrap.dedent(WRITE), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return path


def partitions_by_key(seen: brokers.Seen, topic: str) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for (name, partition), records in seen.records.items():
        for record in records if name == topic else ():
            if record[3] != "-":
                found.setdefault(record[3], set()).add(partition)
    return found


def test_a_broker_serves_what_spark_wrote_and_its_clients_send_each_key_to_the_same_partition(
    kafka, java, written, tmp_path
):
    shutil.copytree(written, tmp_path / "data")
    with kafka(tmp_path) as node:
        seen = read(java, node)
        for topic in ("v2-none", "v2-lz4"):  # five partitions, and seven
            ours = partitions_by_key(seen, topic)
            sent = java("SendKeys", node.bootstrap, topic, *(key for key in ours if key)).splitlines()
            theirs = {key: {int(partition)} for key, partition, _ in (line.split("\t") for line in sent)}
            assert len(theirs) > 60
            assert theirs == {key: numbers for key, numbers in ours.items() if key}
        appended = read(java, node, appended=APPENDED)
        node.stop()
        said = (tmp_path / "kafka.out").read_text()
    assert users(seen.records) == users(brokers.expected_records(written))
    wanted = sorted(
        (("-" if key is None else key.hex()), ("-" if value is None else value.hex())) for _, key, value in rows()
    )
    for topic, (_, _, partitions) in TOPICS.items():
        assert seen.topics[topic][1] == partitions
        records = [one for number in range(partitions) for one in seen.records.get((topic, number), ())]
        assert sorted((record[3], record[4]) for record in records) == wanted
    assert {end - begin for begin, end in users(appended.ends).values()} != {0}
    assert errors_in(said) == []
    for word in ("stray", "Recovering unflushed segment", "rebuilding index"):
        assert word not in said, word
    check_in_order(tmp_path / "data")
