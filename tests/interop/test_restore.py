"""Real brokers open restored logs, give every record, id and committed offset, and go on from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop import brokers

from kafkaframes.log.directory import discover
from kafkaframes.log.verify import verify

DATA = Path(__file__).parents[1] / "data"
SHARED = Path(__file__).parents[3] / "shared" / "corpus"
APPENDED = 3


@pytest.fixture(scope="module", params=brokers.VERSIONS)
def kafka(request, oracle):
    """A function that starts a broker of a version on a directory: ``with kafka(path) as node``."""
    module = brokers.real_kafka(oracle)
    try:
        module.fetch(request.param)
    except module.KafkaFailed as failure:
        pytest.skip(f"Kafka {request.param} cannot be fetched: {failure}")
    return lambda path: module.RealKafka(request.param, path)


def run(*arguments) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kafkaframes", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(java, node, *, isolation="read_uncommitted", appended=0):
    return brokers.parse(java("ReadCluster", node.bootstrap, isolation, str(appended)))


def users(found):
    return {key: value for key, value in found.items() if not key[0].startswith("__")}


def check_in_order(data: Path) -> None:
    """What the broker left after its clean shutdown is in order, and none of our directories was taken for a stray."""
    assert (data / ".kafka_cleanshutdown").exists()
    assert not [path for path in data.iterdir() if path.name.endswith(("-stray", "-delete"))]
    findings = [one for one in verify(discover(str(data))).findings if one.severity != "note"]
    assert findings == []
    run("info", data)


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
def test_a_broker_opens_a_restored_log_and_goes_on(kafka, java, tmp_path, source):
    run("restore", source, "--to", tmp_path / "data")
    ids = {one.topic: one.metadata.topic_id for one in discover(str(tmp_path / "data"))[0].partitions}
    with kafka(tmp_path) as node:
        committed = read(java, node, isolation="read_committed")
        seen = read(java, node, appended=APPENDED)
        again = read(java, node)
        node.stop()
        log = (tmp_path / "kafka.out").read_text()
    assert users(seen.records) == users(brokers.expected_records(source))
    for partition, expected in users(brokers.expected_records(source, isolation="read_committed")).items():
        found = committed.records[partition]  # behind it: what the coordinator set free by aborting an open transaction
        assert found[: len(expected)] == expected
        assert set(found) <= set(seen.records[partition])
    assert {topic: said[0] for topic, said in seen.topics.items()} == ids
    assert "stray" not in log
    assert " ERROR " not in log
    for partition, (begin, end) in users(seen.ends).items():
        assert [record[0] for record in again.records[partition][-APPENDED:]] == [end, end + 1, end + 2]
        assert again.ends[partition][0] == begin
    check_in_order(tmp_path / "data")
