"""The pytest plugin in a separate pytest process, topics filled from files, and snapshots."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkaframes.broker import Broker
from kafkaframes.errors import OptionError
from kafkaframes.records.build import build_records
from kafkaframes.testing import seed

TEST_MODULE = """
import pytest

def test_one(kafka_broker):
    kafka_broker.create_topic("orders")
    assert list(kafka_broker.topics) == ["orders"]

def test_each_test_has_its_own(kafka_broker):
    assert not kafka_broker.topics

@pytest.mark.kafka_broker(cluster=2)
def test_a_marker_gives_arguments(kafka_broker):
    assert kafka_broker.bootstrap_servers.count(",") == 1

def test_session(kafka_broker_session):
    assert kafka_broker_session.port

def test_that_fails(kafka_broker):
    import socket
    with socket.create_connection(("127.0.0.1", kafka_broker.port), 60) as peer:
        peer.sendall(bytes.fromhex("0000000e 0003 0001 00000001 ffff ffffffff"))
        peer.recv(100)
    assert False
"""


def run_pytest(directory, *arguments):
    (directory / "test_it.py").write_text(TEST_MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(directory)]
    # the installed metadata can be older than the plugin
    if "kafkaframes" not in entry_points(group="pytest11").names:
        command += ["-p", "kafkaframes.testing.plugin"]
    process = subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments, str(directory)], capture_output=True, text=True, timeout=120
    )
    return process.stdout


def test_fixtures_markers_and_failure_reports(tmp_path):
    output = run_pytest(tmp_path)
    assert "1 failed, 4 passed" in output
    assert "requests of kafka_broker" in output
    assert "Metadata v1" in output


def test_tests_run_against_a_real_cluster_or_are_skipped(tmp_path):
    output = run_pytest(tmp_path, "--kafka-bootstrap", "127.0.0.1:1", "-k", "test_one or test_session")
    assert "1 passed, 1 skipped" in output


def test_the_plugin_imports_nothing_until_a_fixture_is_used():
    code = "import sys, kafkaframes.testing.plugin; print([name for name in sys.modules if 'frames.broker' in name])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


ROWS = [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}]


def write_jsonl(path):
    path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n")


def write_csv(path):
    path.write_text("key,value\na,1\nb,2\n")


def write_parquet(path):
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def write_arrow(path):
    table = pa.Table.from_pylist(ROWS)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write(table)


def write_segment(path):
    path.write_bytes(build_records({"key": [b"a", b"b"], "value": [b"1", b"2"]}, codec="lz4"))


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("x.jsonl", write_jsonl),
        ("x.csv", write_csv),
        ("x.parquet", write_parquet),
        ("x.arrow", write_arrow),
        (f"{0:020}.log", write_segment),
    ],
)
def test_a_topic_is_filled_from_a_file(broker, tmp_path, name, write):
    write(tmp_path / name)
    topic = f"from{name}"
    assert seed(broker, topic, tmp_path / name) == 2
    assert [(one.key, one.value) for one in broker.records(topic)] == [(b"a", b"1"), (b"b", b"2")]


def test_a_row_without_a_value_is_stored_as_json(broker):
    seed(broker, "json", [{"id": 7, "name": "x"}], key="id")
    (only,) = broker.records("json")
    assert (only.key, json.loads(only.value)) == (b"7", {"name": "x"})


def test_unknown_files_and_columns_are_rejected(broker, tmp_path):
    with pytest.raises(OptionError, match=r"file type \*\.xml"):
        seed(broker, "t", tmp_path / "a.xml")
    with pytest.raises(OptionError, match="column 'id' does not exist"):
        seed(broker, "t", [{"a": 1}], key="id")


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_broker_is_restored_from_a_snapshot(tmp_path, on_disk):
    with Broker(data_dir=tmp_path if on_disk else None) as broker:
        broker.append("orders", [{"value": b"1"}])
        port, snapshot = broker.port, broker.snapshot()
        topic_id = broker.topics["orders"].topic_id
        broker.append("orders", [{"value": b"2"}])
        broker.create_topic("other")
        for _ in range(2):
            broker.restore(snapshot)
            assert broker.port == port
            assert list(broker.topics) == ["orders"]
            assert broker.topics["orders"].topic_id == topic_id
            assert [one.value for one in broker.records("orders")] == [b"1"]
            assert broker.append("orders", [{"value": b"3"}]) == 1
