"""Real brokers open what the writer wrote, go on from there, and the writer goes on from what they left."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop import brokers
from tests.interop.brokers import check_in_order, read, users

from kafkaframes.log.writing import Commit, RunWriter, Target, WriteSettings
from kafkaframes.spark.log_writer import new_topic_id

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


@pytest.mark.parametrize("options", [{}, {"codec": "zstd"}, {"magic": 1, "codec": "gzip"}, {"magic": 0}], ids=str)
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
    assert " ERROR " not in said
    write(logs, tmp_path / "two", count=200, **options)
    expected = brokers.expected_records(logs)
    assert sum(map(len, expected.values())) == 1000 + 3 * APPENDED + 400
    with kafka(logs.parent) as node:
        seen = read(java, node)
        node.stop()
        said = (logs.parent / "kafka.out").read_text()
    assert users(seen.records) == users(expected)
    assert " ERROR " not in said
    check_in_order(logs)
