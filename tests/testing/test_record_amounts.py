"""Each way to write records to a broker: ordinary amounts, values of all sizes, and misspelt columns."""

from __future__ import annotations

import json
import os
import urllib.request

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.calling import ask

from kafkaframes import Broker, build_records
from kafkaframes.client import Producer
from kafkaframes.testing import Control, seed

DEEP = os.environ.get("KAFKAFRAMES_PROFILE") == "deep"
COUNTS = [1, 1_000, pytest.param(1_000_000, marks=pytest.mark.skipif(not DEEP, reason="make deep"))]
MIB = 1 << 20


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def control(broker):
    server = Control(broker)
    yield server
    server.close()


class RejectedError(Exception):
    """The error of a rejected command or HTTP request."""


def as_text(row):
    return {name: content.decode() if isinstance(content, bytes) else content for name, content in row.items()}


def append(topic, rows, broker, control, tmp_path):
    broker.append(topic, rows)


def append_columns(topic, rows, broker, control, tmp_path):
    broker.append(topic, pa.Table.from_pylist(rows))


def seed_rows(topic, rows, broker, control, tmp_path):
    seed(broker, topic, rows)


def seed_lines(topic, rows, broker, control, tmp_path):
    seed(broker, topic, write_lines(rows, tmp_path))


def seed_csv(topic, rows, broker, control, tmp_path):
    file = tmp_path / "rows.csv"
    lines = [",".join(rows[0]), *(",".join(as_text(row).values()) for row in rows)]
    file.write_text("".join(f"{line}\n" for line in lines))
    seed(broker, topic, file)


def seed_parquet(topic, rows, broker, control, tmp_path):
    seed(broker, topic, write_parquet(rows, tmp_path))


def post(topic, rows, broker, control, tmp_path):
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {control.token}"}
    body = json.dumps({"records": [as_text(row) for row in rows]}).encode()
    request = urllib.request.Request(f"{control.url}/topics/{topic}/records", body, headers)
    try:
        urllib.request.urlopen(request, timeout=600).close()
    except urllib.error.HTTPError as error:
        with error:
            raise RejectedError(json.load(error)["message"]) from None


def send_arrow(topic, rows, broker, control, tmp_path):
    with Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow(pa.Table.from_pylist(rows), topic=topic)


def queue_arrow(topic, rows, broker, control, tmp_path):
    with Producer(broker.bootstrap_servers) as producer:
        producer.queue_arrow(pa.Table.from_pylist(rows), topic=topic).result(600)


def produce_lines(topic, rows, broker, control, tmp_path):
    run_produce(broker, topic, write_lines(rows, tmp_path), "jsonl")


def produce_parquet(topic, rows, broker, control, tmp_path):
    run_produce(broker, topic, write_parquet(rows, tmp_path), "parquet")


def run_produce(broker, topic, file, form):
    result = ask("produce", topic, file, "--format", form, "-b", broker.bootstrap_servers)
    if result.exception is not None:
        raise result.exception


def write_lines(rows, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(as_text(row)) + "\n" for row in rows))
    return file


def write_parquet(rows, tmp_path):
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


WRITERS = [
    append, append_columns, seed_rows, seed_lines, seed_csv, seed_parquet, post,
    send_arrow, queue_arrow, produce_lines, produce_parquet,
]  # fmt: skip
every_writer = pytest.mark.parametrize("write", WRITERS, ids=[one.__name__ for one in WRITERS])


@pytest.fixture
def topic(broker, request):
    name = f"t{abs(hash(request.node.nodeid))}"
    broker.create_topic(name)
    return name


@every_writer
@pytest.mark.parametrize("count", COUNTS)
def test_records_of_100_bytes_are_stored(broker, control, tmp_path, topic, write, count):
    rows = [{"value": b"%099d" % number + b"x"} for number in range(count)]
    write(topic, rows, broker, control, tmp_path)
    assert broker.topics[topic].end_offsets == (count,)
    stored_records = broker.records(topic)
    assert [record.value for record in stored_records] == [row["value"] for row in rows]


@every_writer
def test_values_of_all_sizes_are_stored(broker, control, tmp_path, topic, write):
    rows = [{"key": b"k%d" % size, "value": b"x" * size} for size in (0, 1 << 10, 1_000_000, 1)]
    write(topic, rows, broker, control, tmp_path)
    assert [(one.key, one.value) for one in broker.records(topic)] == [(row["key"], row["value"]) for row in rows]


@every_writer
def test_one_mebibyte_is_rejected_before_an_append(broker, control, tmp_path, topic, write):
    rows = [*({"value": b"x" * 10_000} for _ in range(5)), {"value": b"x" * MIB}, {"value": b"y"}]
    with pytest.raises(Exception, match=r"MESSAGE_TOO_LARGE|max_request_size"):
        write(topic, rows, broker, control, tmp_path)
    assert broker.records(topic) == []


@every_writer
@pytest.mark.parametrize(
    ("row", "misspelt"),
    [
        ({"keyy": b"k", "value": b"v"}, "keyy"),
        ({"key": b"k", "vlaue": b"v"}, "vlaue"),
        ({"keyy": b"k", "vlaue": b"v"}, "keyy"),
        ({"value": b"v", "heders": b""}, "heders"),
    ],
)
def test_a_misspelt_column_is_rejected(broker, control, tmp_path, topic, write, row, misspelt):
    with pytest.raises(Exception, match=misspelt):
        write(topic, [row], broker, control, tmp_path)
    assert broker.records(topic) == []


@every_writer
def test_columns_of_readers_are_accepted(broker, control, tmp_path, topic, write):
    row = {
        "value": b"v",
        "topic": "elsewhere",
        "timestampType": "0",
        "timestamp_type": "0",
        "offset": "77",
        "magic": "2",
        "crcOk": "true",
        "file": "x",
    }
    write(topic, [row], broker, control, tmp_path)
    assert [(one.offset, one.value) for one in broker.records(topic)] == [(0, b"v")]


def test_a_topic_is_not_created_for_rejected_records(broker):
    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
        broker.append("never", [{"value": b"x"}, {"value": b"x" * MIB}])
    with pytest.raises(Exception, match="partition"):
        broker.append("never", [{"value": b"x"}], partition=-1)
    assert "never" not in broker.topics


def test_a_rejected_record_of_a_compacted_topic_leaves_the_log_unchanged(broker):
    broker.create_topic("compacted", cleanup_policy="compact")
    rows = [{"key": b"k", "value": b"x" * 20_000}, {"value": b"no key"}]
    with pytest.raises(Exception, match="key"):
        broker.append("compacted", rows)
    assert broker.records("compacted") == []


def test_a_row_without_key_and_value_is_rejected():
    with pytest.raises(Exception, match=r"needs a key or a value.*\[1\]"):
        build_records([{"value": b"x"}, {}])
    table = pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])
    with pytest.raises(Exception, match="twice"):
        build_records(table)


def test_all_ways_read_json_lines_equally(broker, control, tmp_path, topic):
    """``run_produce``, ``seed`` and HTTP accept the output of ``consume`` and HTTP."""
    values = [b"paid", b"\xff\x00", b"", None, "h\u00e9\u2028".encode(), b"aGk="]
    rows = [{"key": value, "value": value, "headers": [("h", value)], "timestamp": 5} for value in values]
    broker.append(topic, rows)
    original = [one[1:6] for one in broker.records(topic)]
    lines = ask("consume", topic, "-e", "--format", "jsonl", "-b", broker.bootstrap_servers).stdout_bytes
    file = tmp_path / "copy.jsonl"
    file.write_bytes(lines)
    run_produce(broker, f"{topic}-produced", file, "jsonl")
    seed(broker, f"{topic}-seeded", file)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {control.token}"}
    request = urllib.request.Request(f"{control.url}/topics/{topic}/records", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        body = json.dumps({"records": json.load(answer)}).encode()
    urllib.request.urlopen(
        urllib.request.Request(f"{control.url}/topics/{topic}-posted/records", body, headers), timeout=60
    ).close()
    for how in ("produced", "seeded", "posted"):
        assert sorted(map(repr, (one[1:6] for one in broker.records(f"{topic}-{how}")))) == sorted(map(repr, original))
