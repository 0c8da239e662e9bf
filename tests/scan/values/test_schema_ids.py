"""Schema ids as GUIDs: in the header __value_schema_id or before the value, as Confluent's serializers write them."""

from __future__ import annotations

import base64
import json
import uuid

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.scan.values.avro_pairs import encode_zigzag, sized_bytes

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.scan.values.columns import prepend_schema_ids
from kafkaframes.testing.registry import SchemaRegistry

OLD_SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
NEW_SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": "string", "default": "none"}],
}


@pytest.fixture
def registry():
    with SchemaRegistry() as result:
        yield result


def guid_prefix(registry, schema_id: int) -> bytes:
    return b"\1" + uuid.UUID(registry.guid_of(schema_id)).bytes


def write_log(root, *records):
    directory = root / "logs" / "orders-0"
    directory.mkdir(parents=True)
    rows = [{"key": b"k", "value": value, "headers": headers} for value, headers in records]
    (directory / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows))
    return root / "logs"


def write_avro_log(root, registry):
    """Write values of two schemas: ids in headers and before the value, as numbers and GUIDs, and invalid ones."""
    old, new = (registry.register("orders-value", json.dumps(schema)) for schema in (OLD_SCHEMA, NEW_SCHEMA))
    by_number = b"\0" + new.to_bytes(4, "big")
    full = encode_zigzag(2) + sized_bytes(b"x")
    key_id = ("__key_schema_id", b"\1" + b"\7" * 16)
    return write_log(
        root,
        (encode_zigzag(1), [("a", b"b"), key_id, ("__value_schema_id", guid_prefix(registry, old))]),
        (full, [("__value_schema_id", guid_prefix(registry, new)), ("__value_schema_id", b"\1")]),
        (full, [("__value_schema_id", by_number)]),
        (by_number + full, [key_id]),
        (guid_prefix(registry, old) + encode_zigzag(3), []),
        (None, [("__value_schema_id", guid_prefix(registry, new))]),
        (full, [("__value_schema_id", b"\1" + b"\7" * 16)]),
        (full, [("__value_schema_id", b"\1\2")]),
        (full, [("__value_schema_id", None)]),
    )


EXPECTED_ROWS = [
    {"id": 1, "note": "none"},
    {"id": 2, "note": "x"},
    {"id": 2, "note": "x"},
    {"id": 2, "note": "x"},
    {"id": 3, "note": "none"},
]
REASONS = [
    "the registry has no schema 07070707-0707-0707-0707-070707070707",
    "5 bytes are too few for a schema registry's prefix",
    "3 bytes are too few for a schema registry's prefix",
]


def test_a_table_reads_ids_from_headers(tmp_path, registry):
    logs = write_avro_log(tmp_path, registry)
    flags = ["--topic", "orders", "--to", "parquet", tmp_path / "t", "--mode", "avro", "--registry", registry.url]
    result = CliRunner().invoke(cli, ["table", str(logs), *map(str, flags)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    import pyarrow.dataset as ds

    table = ds.dataset(tmp_path / "t", partitioning="hive", exclude_invalid_files=True).to_table().sort_by("offset")
    assert table.select(["id", "note"]).to_pylist() == [*EXPECTED_ROWS, {"id": None, "note": None}]
    assert table.column("tombstone").to_pylist() == [False] * 5 + [True]
    dead = ds.dataset(tmp_path / "t-dead-letters", partitioning="hive", exclude_invalid_files=True).to_table()
    dead = dead.sort_by("offset")
    assert all(map(str.startswith, dead.column("reason").to_pylist(), REASONS)), dead.column("reason").to_pylist()
    assert dead.column("value").to_pylist() == [encode_zigzag(2) + sized_bytes(b"x")] * 3  # unchanged


@pytest.mark.parametrize("columns", [(), ("offset", "value"), ("value", "headers"), ("value",)])
def test_a_scan_reads_ids_from_headers_with_any_columns(columns, tmp_path, registry):
    scan = (
        kafkaframes.scan_log(write_avro_log(tmp_path, registry)).select(*columns)
        if columns
        else (kafkaframes.scan_log(write_avro_log(tmp_path, registry)))
    )
    decoded_scan = scan.decode(value="avro", registry=registry.url, subject="orders-value")
    table = decoded_scan.to_arrow()
    assert table.schema == decoded_scan.schema
    assert ("headers" in table.column_names) == (not columns or "headers" in columns)
    assert table.column("value").to_pylist() == [*EXPECTED_ROWS, *[None] * 4]
    assert [reason is not None for reason in table.column("_error").to_pylist()] == [False] * 6 + [True] * 3


def test_protobuf_has_its_message_indexes_in_the_header(tmp_path, registry):
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3")
    for name in ("First", "Second"):
        file.message_type.add(name=name).field.add(name="n", number=1, type=5, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    prefix = guid_prefix(registry, registry.register("orders-value", text, schema_type="PROTOBUF"))
    second, first = prefix + encode_zigzag(1) + encode_zigzag(1), prefix + encode_zigzag(0)
    logs = write_log(
        tmp_path,
        (b"\x08\x05", [("__value_schema_id", second)]),
        (second + b"\x08\x06", []),
        (b"\x08\x05", [("__value_schema_id", first)]),
    )
    scan = kafkaframes.scan_log(logs).select("value")
    table = scan.decode(value="protobuf", registry=registry.url, subject="orders-value", message="Second").to_arrow()
    assert table.column("value").to_pylist() == [{"n": 5}, {"n": 6}, None]
    assert table.column("_error").to_pylist()[2] == "the value is a message First; the table reads messages Second"


def test_a_schema_of_a_file_expects_no_prefix_and_headers_add_none(tmp_path, registry):
    logs = write_avro_log(tmp_path, registry)
    scan = kafkaframes.scan_log(logs).select("value").limit(1).decode(value="avro", schema=OLD_SCHEMA)
    assert scan.to_arrow().column("value").to_pylist() == [{"id": 1}]


def test_headers_of_a_slice_belong_to_its_own_rows():
    headers = pa.array(
        [[], [{"key": "__value_schema_id", "value": b"\1"}], None, [{"key": "x", "value": b"\2"}]],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"a", b"b", b"c", None], pa.binary()), "headers": headers})
    assert prepend_schema_ids(batch).column("value").to_pylist() == [b"a", b"\1b", b"c", None]
    assert prepend_schema_ids(batch.slice(1, 2)).column("value").to_pylist() == [b"\1b", b"c"]
    assert prepend_schema_ids(batch.slice(2)).column("value").to_pylist() == [b"c", None]
