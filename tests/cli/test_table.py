"""The command ``kafkaframes table``: live topics and logs are written to tables, decoded and exactly once."""

import base64
import io
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.cli.table_calls import BAD, FORMATS, ORDERS, as_json, ask, rows, run_json, run_refused, send
from tests.spark.truth import EXAMPLE_LOG_DIR

from kafkaframes.client import Producer
from kafkaframes.errors import NetworkError
from kafkaframes.jobs.tables import run as running
from kafkaframes.jobs.tables.committing import TableCommitter
from kafkaframes.records.limits import current_budget

deltalake = pytest.importorskip("deltalake")
fastavro = pytest.importorskip("fastavro")
pytestmark = pytest.mark.usefixtures("close_catalogs")


class UnhandledError(BaseException):
    """An exception that no error handler catches."""


# --------------------------------------------------------------------------------------------- live, all formats


@pytest.mark.parametrize("form", FORMATS)
def test_json_of_a_topic_becomes_columns_and_a_second_run_continues(form, broker, topic, tmp_path):
    place = tmp_path / "t"
    flags = (topic, "-b", broker.bootstrap_servers, "--to", form, place, "--mode", "json")
    send(broker, topic, [*as_json(ORDERS[:20]), BAD, None])
    send(broker, topic, as_json(ORDERS[20:30]), partition=1)
    first = run_json(*flags)
    assert first["table"]["commits"] == 1
    assert first["table"]["offsets"] == {topic: {"0": 22, "1": 10}}
    assert first["table"]["dead_letters"]["records"] == 1
    table_rows = rows(form, place)
    assert [row["id"] for row in table_rows] == [*range(20), None, *range(20, 30)]
    assert [row["tombstone"] for row in table_rows].count(True) == 1
    assert table_rows[3]["lines"] == [{"sku": "a", "count": 2}]
    assert table_rows[3]["amount"] == 1.5
    (bad,) = rows(form, place, dead=True)
    assert (bad["topic"], bad["partition"], bad["offset"], bad["value"]) == (topic, 0, 20, BAD)
    assert "not JSON" in bad["reason"]

    assert run_json(*flags)["table"]["commits"] == 0
    send(broker, topic, [b'{"id": "x"}', *as_json(ORDERS[30:])], partition=1)
    second = run_json(*flags)
    assert second["table"]["offsets"] == {topic: {"0": 22, "1": 21}}
    assert [row["id"] for row in rows(form, place) if row["id"] is not None] == list(range(40))
    assert [row["offset"] for row in rows(form, place, dead=True)] == [20, 10]
    assert "expected a 64-bit integer, found text" in rows(form, place, dead=True)[1]["reason"]


@pytest.mark.parametrize("form", FORMATS)
def test_raw_mode_keeps_bytes_headers_and_partitions(form, broker, topic, tmp_path):
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"v", key=b"k", headers=[("h", b"1")], partition=1).result()
    run_json(topic, "-b", broker.bootstrap_servers, "--to", form, tmp_path / "t")
    (row,) = rows(form, tmp_path / "t")
    assert (row["key"], row["value"], row["partition"], row["offset"]) == (b"k", b"v", 1, 0)
    assert row["headers"] == [{"key": "h", "value": b"1"}]


@pytest.mark.parametrize(("form", "value"), [("delta", "raw"), ("delta", "json"), ("iceberg", "json")])
def test_latest_mode_keeps_one_row_per_key(form, value, broker, topic, tmp_path):
    place = tmp_path / "t"
    flags = (topic, "-b", broker.bootstrap_servers, "--to", form, place, "--mode", "latest", "--value", value)
    send(broker, topic, as_json([{"n": n} for n in range(6)]), keys=[b"a", b"b", b"a", b"c", None, b"b"])
    run_json(*flags)
    assert {row["key"]: row["offset"] for row in rows(form, place)} == {b"a": 2, b"b": 5, b"c": 3}
    (bad,) = rows(form, place, dead=True)
    assert (bad["offset"], bad["reason"]) == (
        4,
        "the record has no key, which a table of the latest value by key requires",
    )
    send(broker, topic, [b'{"n": 7}', None, None, b'{"n": 8}'], keys=[b"d", b"a", b"unknown", b"c"])
    assert run_json(*flags)["table"]["offsets"][topic]["0"] == 10
    rows_by_key = {row["key"]: row for row in rows(form, place)}
    assert {key: row["offset"] for key, row in rows_by_key.items()} == {b"b": 5, b"c": 9, b"d": 6}
    latest_number = rows_by_key[b"c"]["n"] if value == "json" else json.loads(rows_by_key[b"c"]["value"])["n"]
    assert latest_number == 8
    send(broker, topic, [None], keys=[b"never there"])  # a commit without changed rows still records its progress
    assert run_json(*flags)["table"]["offsets"][topic]["0"] == 11
    assert run_json(*flags)["table"]["commits"] == 0
    send(broker, topic, [b'{"n": 9}'], keys=[b"b"], partition=1)  # like after partitions were added to the topic
    run_json(*flags)
    assert {row["key"]: (row["partition"], row["offset"]) for row in rows(form, place)}[b"b"] == (1, 0)


def test_only_committed_records_are_written_to_a_table(broker, topic, tmp_path):
    with Producer(broker.bootstrap_servers, transactional_id=topic) as producer:
        for ending in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send(topic, b"1", partition=0).result()
            ending()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result()
        flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t")
        assert run_json(*flags)["table"]["offsets"][topic]["0"] == 4
        assert [row["offset"] for row in rows("delta", tmp_path / "t")] == [0]
        producer.commit_transaction()
    assert run_json(*flags)["table"]["offsets"][topic]["0"] == 6
    assert [row["offset"] for row in rows("delta", tmp_path / "t")] == [0, 4]


# -------------------------------------------------------------------------------------------------- exactly once


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("delta", "files written"),
        ("delta", "dead letters committed"),
        ("delta", "committed"),
        ("parquet", "dead letters committed"),
        ("parquet", "committed"),
        ("iceberg", "dead letters committed"),
    ],
)
def test_a_run_after_a_kill_adds_no_duplicates(form, step, broker, topic, tmp_path, monkeypatch):
    place = tmp_path / "t"
    flags = (topic, "-b", broker.bootstrap_servers, "--to", form, place, "--mode", "json")
    send(broker, topic, as_json(ORDERS[:3]))
    run_json(*flags)
    send(broker, topic, [*as_json(ORDERS[3:6]), BAD])
    with monkeypatch.context() as patch:
        make, commits = TableCommitter.commit_with_retries, []

        def kill(self, commit, state):
            is_last = (step == "committed" and len(commits) == 1) or step == "files written"
            if is_last and step == "files written":
                raise UnhandledError
            make(self, commit, state)
            commits.append(commit)
            if is_last or step == "dead letters committed":
                raise UnhandledError

        patch.setattr(TableCommitter, "commit_with_retries", kill)
        patch.setattr(running.TableRun, "_discard_files", lambda *_, **__: None)  # a killed process does not clean up
        with pytest.raises(UnhandledError):
            ask(*flags)
    send(broker, topic, [*as_json(ORDERS[6:8]), BAD])
    run_json(*flags)
    assert [row["id"] for row in rows(form, place)] == list(range(8))
    assert [row["offset"] for row in rows(form, place, dead=True)] == [6, 9]


def test_an_interrupted_parquet_commit_is_completed_by_the_next_run(broker, topic, tmp_path, monkeypatch):
    from kafkaframes.jobs.tables.parquet import ParquetTable

    flags = (topic, "-b", broker.bootstrap_servers, "--to", "parquet", tmp_path / "t", "--mode", "json")
    send(broker, topic, as_json(ORDERS[:4]))
    with monkeypatch.context() as patch:
        patch.setattr(ParquetTable, "_move_staged_files", lambda *arguments: (_ for _ in ()).throw(UnhandledError))
        patch.setattr(running.TableRun, "_discard_files", lambda *args, **options: None)
        with pytest.raises(UnhandledError):
            ask(*flags)
    assert not list(tmp_path.glob("t/topic=*/**/*.parquet"))
    assert run_json(*flags)["table"]["commits"] == 0
    assert [row["id"] for row in rows("parquet", tmp_path / "t")] == list(range(4))


def test_offsets_deleted_by_retention_are_an_error_or_a_reported_gap(broker, topic, tmp_path):
    from kafkaframes.client import Admin, TopicPartition

    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t")
    send(broker, topic, [b"1", b"2"])
    run_json(*flags)
    send(broker, topic, [b"3", b"4"])
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 3})
    assert "--no-fail-on-data-loss accepts this" in run_refused(*flags)
    gaps = run_json(*flags, "--no-fail-on-data-loss")["table"]["gaps"]
    assert gaps == [{"topic": topic, "partition": 0, "first": 2, "end": 3}]
    assert [row["offset"] for row in rows("delta", tmp_path / "t")] == [0, 1, 3]


def test_a_recreated_topic_is_not_appended_to_the_old_one(broker, topic, tmp_path):
    from kafkaframes.client import Admin

    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t")
    send(broker, topic, [b"1"])
    run_json(*flags)
    with Admin(broker.bootstrap_servers) as admin:
        admin.delete_topics([topic])
    broker.create_topic(topic, partitions=2)
    send(broker, topic, [b"2", b"3"])
    assert "deleted and created again" in run_refused(*flags)


# ---------------------------------------------------------------------------------------------------------- logs


def test_all_values_of_a_log_that_are_not_json_are_reported(tmp_path):
    report = run_json(EXAMPLE_LOG_DIR, "--to", "parquet", tmp_path / "t", "--topic", "customers", "--mode", "json")
    good, bad = rows("parquet", tmp_path / "t"), report["table"]["dead_letters"]["records"]
    assert report["records"] == len(good) + bad
    assert good


# --------------------------------------------------------------------------------------------- schema registries

SCHEMA_V1 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "offset", "type": "int"}],
}
SCHEMA_V2 = {
    **SCHEMA_V1,
    "fields": [*SCHEMA_V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


class _RegistryHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        answer = self.server.answers.get(self.path)
        body = json.dumps(answer if answer is not None else {"error_code": 40403}).encode()
        self.send_response(200 if answer is not None else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def registry():
    with ThreadingHTTPServer(("127.0.0.1", 0), _RegistryHandler) as server:
        server.answers, server.asked = {}, []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield server
        server.shutdown()
        thread.join()


def avro(schema, number, value):
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, value)
    return b"\0" + struct.pack(">I", number) + buffer.getvalue()


@pytest.mark.parametrize("form", FORMATS)
def test_avro_values_are_decoded_with_a_registry_and_a_growing_schema(form, broker, topic, tmp_path, registry):
    place = tmp_path / "t"
    url = registry.url.replace("//", "//me:secret%20word@")
    flags = (topic, "-b", broker.bootstrap_servers, "--to", form, place, "--mode", "avro", "--registry", url)
    subject = f"/subjects/{topic}-value/versions/latest"
    registry.answers["/schemas/ids/7"] = {"schema": json.dumps(SCHEMA_V1)}
    registry.answers[subject] = {"id": 7, "schema": json.dumps(SCHEMA_V1)}
    broken_value = avro(SCHEMA_V1, 7, {"id": 3, "offset": 3})[:-1]
    send(
        broker,
        topic,
        [avro(SCHEMA_V1, 7, {"id": n, "offset": n}) for n in range(3)] + [b"\2xxxxx", b"\0", broken_value],
    )
    run_json(*flags)
    assert [(row["id"], row["value_offset"]) for row in rows(form, place)] == [(0, 0), (1, 1), (2, 2)]
    reasons = [row["reason"] for row in rows(form, place, dead=True)]
    assert "the first byte is 2" in reasons[0]
    assert "too few" in reasons[1]
    assert "does not match its Avro schema" in reasons[2]
    assert registry.asked[0][1] == "Basic " + base64.b64encode(b"me:secret word").decode()
    assert (
        len([path for path, _ in registry.asked if path == "/schemas/ids/7"]) <= 2
    )  # one request by the driver, and one by the worker

    registry.answers["/schemas/ids/9"] = registry.answers[subject] = {"id": 9, "schema": json.dumps(SCHEMA_V2)}
    send(
        broker,
        topic,
        [
            avro(SCHEMA_V2, 9, {"id": 8, "offset": 8, "note": "new"}),
            avro(SCHEMA_V1, 7, {"id": 9, "offset": 9}),
            b"\0" * 9,
        ],
    )
    run_json(*flags)
    assert [row["note"] for row in rows(form, place)] == [None, None, None, "new", None]
    assert "has no schema 0" in rows(form, place, dead=True)[-1]["reason"]


def test_an_unavailable_registry_ends_the_run_without_showing_its_password(broker, topic, tmp_path, registry):
    send(broker, topic, [b"x"])
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t", "--mode", "avro", "--registry")
    with pytest.raises(NetworkError) as error:
        raise ask(*flags, "http://me:hush@127.0.0.1:9/").exception
    assert "hush" not in str(error.value)
    assert f"no subject {topic}-value" in run_refused(*flags, registry.url)
    assert not (tmp_path / "t").exists()


def test_avro_values_are_decoded_with_schema_files(broker, topic, tmp_path):
    (tmp_path / "v1.avsc").write_text(json.dumps(SCHEMA_V1))
    (tmp_path / "v2.avsc").write_text(json.dumps(SCHEMA_V2))
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta")
    send(broker, topic, [avro(SCHEMA_V1, 7, {"id": 1, "offset": 1}), avro(SCHEMA_V1, 8, {"id": 1, "offset": 1})])
    run_json(
        *flags,
        tmp_path / "a",
        "--mode",
        "avro",
        "--schema",
        f"7={tmp_path}/v1.avsc",
        "--schema",
        f"9={tmp_path}/v2.avsc",
    )
    assert [(row["id"], row["note"]) for row in rows("delta", tmp_path / "a")] == [(1, None)]
    assert "schema 8 is not one of the given schemas" in rows("delta", tmp_path / "a", dead=True)[0]["reason"]
    run_json(
        *flags, tmp_path / "b", "--mode", "avro", "--schema", tmp_path / "v1.avsc"
    )  # with a prefix that is not expected
    assert len(rows("delta", tmp_path / "b", dead=True)) == 2


def descriptors(name="order.proto"):
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    kinds = [("id", 3, ""), ("name", 9, ""), ("big", 4, ""), ("at", 11, ".google.protobuf.Timestamp")]
    for number, (field, kind, type_name) in enumerate(kinds, 1):
        order.field.add(name=field, number=number, type=kind, type_name=type_name or None, label=1)
    order.field.add(name="tags", number=5, type=9, label=3)
    return file


def order(**fields):
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(descriptors().SerializeToString())
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**fields)
    order.at.FromMilliseconds(1_500)
    return order.SerializeToString()


def test_protobuf_values_are_decoded_with_a_registry(broker, topic, tmp_path, registry):
    text = base64.b64encode(descriptors().SerializeToString()).decode()
    registry.answers["/schemas/ids/3"] = {"schema": "syntax ...", "schemaType": "PROTOBUF"}
    registry.answers["/schemas/ids/3?format=serialized"] = {"schema": text, "schemaType": "PROTOBUF"}
    registry.answers[f"/subjects/{topic}-value/versions/latest"] = {"id": 3, "schema": "...", "schemaType": "PROTOBUF"}
    prefix = b"\0\0\0\0\3"
    value = order(id=5, name="x", big=2**64 - 1, tags=["a", "b"])
    send(
        broker,
        topic,
        [prefix + b"\2\2" + value, prefix + b"\0" + value, prefix + b"\2\2" + value[:-1], prefix + b"\x08"],
    )
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t", "--registry", registry.url)
    run_json(*flags, "--mode", "protobuf", "--message", "shop.Order")
    (row,) = rows("delta", tmp_path / "t")
    assert (row["id"], row["name"], int(row["big"]), row["tags"]) == (5, "x", 2**64 - 1, ["a", "b"])
    assert row["at"].timestamp() == 1.5
    reasons = [row["reason"] for row in rows("delta", tmp_path / "t", dead=True)]
    assert "the value is a message shop.Other; the table reads messages shop.Order" in reasons[0]
    assert "not a Protobuf message" in reasons[1]
    assert "message indexes" in reasons[2]


def test_protobuf_values_are_decoded_with_descriptors_of_protoc(broker, topic, tmp_path):
    from google.protobuf import descriptor_pb2, timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    files.file.add().ParseFromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    files.file.append(descriptors())
    (tmp_path / "order.desc").write_bytes(files.SerializeToString())
    send(broker, topic, [order(id=6, name="y")])
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "iceberg", tmp_path / "t", "--mode", "protobuf")
    run_json(*flags, "--schema", tmp_path / "order.desc", "--message", "shop.Order")
    assert [row["id"] for row in rows("iceberg", tmp_path / "t")] == [6]
    wrong = run_refused(*flags, "--schema", tmp_path / "order.desc", "--message", "shop.Nothing")
    assert "message 'shop.Nothing' does not exist" in wrong


# -------------------------------------------------------------------------------------------------- continuously


# ------------------------------------------------------------------------------------------------------ mistakes


def test_the_budget_applies_to_the_tasks_that_write_the_table(topic, broker, tmp_path, monkeypatch):
    budgets = []
    write = running.write_data_file

    def noting(job):
        budgets.append(current_budget())
        return write(job)

    monkeypatch.setattr(running, "write_data_file", noting)
    send(broker, topic, [b"1"])
    run_json(
        topic, "-b", broker.bootstrap_servers, "--to", "parquet", tmp_path / "t", "--budget", "3m", "--workers", "1"
    )
    assert budgets == [3 << 20]
