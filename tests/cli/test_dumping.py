"""Output of ``dump-log``: JSON lines, CSV, Arrow, and kcat's two formats."""

from __future__ import annotations

import base64
import csv
import io
import json

import pyarrow as pa
from tests.cli.dump_calls import run, run_bytes

import kafkaframes


def test_json_lines_are_printed(log_dir):
    lines = [json.loads(line) for line in run(log_dir, "--format", "jsonl").splitlines()]
    assert [line["type"] for line in lines] == ["batch", "record", "record", "record", "batch", "record", "end"]
    assert lines[1]["headers"] == [["h", "MQ=="], ["n", None]]
    assert lines[3]["headers"] == [["é", "/w=="]]
    assert lines[5]["control_type"] == "COMMIT"


def test_values_above_the_limit_are_digests_by_default(tmp_path):
    (tmp_path / "t-0").mkdir()
    raw = kafkaframes.build_records({"value": [b"x" * 201]})
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(raw)
    digest = json.loads(run(str(tmp_path), "--format", "jsonl").splitlines()[1])["value"]
    assert digest["len"] == 201
    whole = json.loads(run(str(tmp_path), "--format", "jsonl", "--full-values").splitlines()[1])["value"]
    assert base64.b64decode(whole) == b"x" * 201


def test_csv_is_printed_as_text_or_base64(log_dir):
    rows = list(csv.DictReader(io.StringIO(run(log_dir, "--format", "csv"))))
    assert [row["value"] for row in rows] == ['say "hi", ok', "", ""]
    assert rows[2]["key"] == "b\ufffd"
    assert json.loads(rows[0]["headers"]) == [["h", "1"], ["n", None]]
    rows = list(csv.DictReader(io.StringIO(run(log_dir, "--format", "csv", "--base64"))))
    assert base64.b64decode(rows[2]["key"]) == b"b\xff"
    assert json.loads(rows[2]["headers"]) == [["é", "/w=="]]


def test_an_arrow_stream_contains_the_bytes(log_dir, tmp_path):
    out = tmp_path / "records.arrow"
    run(log_dir, "--format", "arrow", "--output", str(out))
    rows = pa.ipc.open_stream(out.read_bytes()).read_all().to_pylist()
    assert [row["key"] for row in rows] == [b"a", None, b"b\xff"]
    assert [row["value"] for row in rows] == [b'say "hi", ok', b"", None]
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert rows[2]["timestamp"] is None
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 2)}


def test_the_format_string_of_kcat_is_supported(log_dir):
    output = run_bytes(log_dir, "-f", r"%t/%p@%o %T [%k] %K %S %h %%\t\x21\n", "-c", "2")
    assert output == b"orders/2@0 1760000000000 [a] 1 12 h=1,n=NULL %\t!\norders/2@1 1760000000500 [] -1 0  %\t!\n"
    assert run_bytes(log_dir, "-f", "%R", "-c", "1") == (12).to_bytes(4, "big")


def test_the_json_envelope_of_kcat_is_supported(log_dir):
    first, second, third = map(json.loads, run(log_dir, "-J").splitlines())
    assert first == {
        "topic": "orders",
        "partition": 2,
        "offset": 0,
        "tstype": "create",
        "ts": 1_760_000_000_000,
        "broker": -1,
        "headers": ["h", "1", "n", None],
        "key": "a",
        "payload": 'say "hi", ok',
    }
    assert "headers" not in second
    assert third["payload"] is None
