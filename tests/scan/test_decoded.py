"""Decoded values of scans: structs, error reasons, and the source of the schema."""

from __future__ import annotations

import json

import pytest

import kafkaframes
from kafkaframes.errors import CorruptRecordError, MissingExtraError, OptionError

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
VALUES = [b'{"id": 1, "name": "a"}', None, b"not json", b'{"id": 2}', b'{"id": "text"}']


@pytest.fixture
def log(tmp_path):
    directory = tmp_path / "orders-0"
    directory.mkdir()
    rows = [{"key": None, "value": value} for value in VALUES]
    (directory / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows))
    return tmp_path


def test_valid_json_becomes_a_struct_and_an_invalid_value_has_a_reason(log):
    scan = kafkaframes.scan_log(log).select("offset", "value").decode(value="json", schema=SCHEMA)
    assert scan.columns == ("offset", "value", "_error")
    table = scan.to_arrow()
    assert table.schema == scan.schema
    values = table.column("value").to_pylist()
    first, second = ({"id": number, "name": name, "other_fields": None} for number, name in ((1, "a"), (2, None)))
    assert values == [first, None, None, second, None]
    assert [reason is not None for reason in table.column("_error").to_pylist()] == [False, False, True, False, True]
    assert kafkaframes.scan_log(log).decode(value="json", schema=json.dumps(SCHEMA)).count() == 5
    assert scan.select("_error", "offset").to_arrow().column_names == ["_error", "offset"]
    assert scan.select("offset").to_arrow().num_rows == 5


def test_without_a_schema_columns_are_inferred_from_the_first_values(log):
    first = kafkaframes.scan_log(log).limit(1).decode(value="json")
    assert first.to_arrow().column("value").to_pylist() == [{"id": 1, "name": "a", "other_fields": None}]
    assert "values as json" in repr(first)


def test_an_invalid_value_is_an_error_on_request(log):
    scan = kafkaframes.scan_log(log).decode(value="json", schema=SCHEMA, errors="raise")
    assert "_error" not in scan.columns
    with pytest.raises(CorruptRecordError, match="value of topic orders, partition 0, offset 2: "):
        scan.to_arrow()


def test_avro_values_are_decoded_in_several_processes(tmp_path):
    fastavro = pytest.importorskip("fastavro")
    import io

    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    for partition in range(2):
        rows = []
        for number in range(3):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, {"id": number})
            rows.append({"value": out.getvalue()})
        (tmp_path / f"orders-{partition}").mkdir()
        (tmp_path / f"orders-{partition}" / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows))
    files = sorted(tmp_path.glob("orders-*/*.log"))
    scan = kafkaframes.scan_log(files).select("value").decode(value="avro", schema=tmp_path / "r.avsc")
    table = scan.to_arrow(workers=2)
    assert table == scan.to_arrow()
    assert [row["id"] for row in table.column("value").to_pylist()] == [0, 1, 2, 0, 1, 2]


def test_invalid_settings_are_rejected(log):
    scan = kafkaframes.scan_log(log)
    for message, options in {
        "expected json, avro, protobuf": {"value": "xml"},
        "expected null or raise": {"value": "json", "errors": "drop"},
        "`schema` and `registry` cannot be combined": {
            "value": "json",
            "schema": SCHEMA,
            "registry": "http://localhost",
        },
        "`value`=avro requires `schema` or `registry`": {"value": "avro"},
        "with several topics requires `subject`, whose newest schema defines": {
            "value": "avro",
            "registry": "http://localhost:9",
        },
        "not a JSON Schema": {"value": "json", "schema": "{"},
        "`schema` /nope.json is neither JSON nor a file": {"value": "json", "schema": "/nope.json"},
    }.items():
        with pytest.raises((OptionError, MissingExtraError), match=message):
            scan.decode(**options)
    with pytest.raises(OptionError, match="has no column named value"):
        kafkaframes.scan_capture("x.pcap").decode(value="json")
