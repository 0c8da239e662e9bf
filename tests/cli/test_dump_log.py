"""The command ``kafkaframes dump-log``: flags, formats, exit status."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from kafkaframes import doors
from kafkaframes.cli.dump_log import command
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.records.build import build_end_transaction

LOGS = Path(__file__).parent.parent / "data" / "logs"


def run(*arguments: str, status: int = 0) -> str:
    return run_bytes(*arguments, status=status).decode()


def run_bytes(*arguments: str, status: int = 0) -> bytes:
    result = CliRunner().invoke(command, list(arguments))
    if isinstance(result.exception, KafkaframesError):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.stdout_bytes


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    columns = {
        "timestamp": [1_760_000_000_000, 1_760_000_000_500, -1],
        "key": [b"a", None, b"b\xff"],
        "value": [b'say "hi", ok', b"", None],
        "headers": [[("h", b"1"), ("n", None)], [], [("é", b"\xff")]],
    }
    marker = build_end_transaction(commit=True, offset=3, timestamp=7, producer_id=4, producer_epoch=1)
    partition = tmp_path / "logs" / "orders-2"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").write_bytes(doors.build_records(columns) + marker)
    return str(tmp_path / "logs")


def test_the_text_of_a_directory(log_dir):
    lines = run(log_dir, "--print-data-log").splitlines()
    assert lines[0] == f"Dumping {log_dir}/orders-2/00000000000000000000.log"
    assert [line.split(":")[0] for line in lines[2:]] == ["baseOffset", *["| offset"] * 3, "baseOffset", "| offset"]


def test_files_by_kafkas_flag(log_dir):
    path = f"{log_dir}/orders-2/00000000000000000000.log"
    assert run("--files", f"{path},{path}").count("Dumping ") == 2


def test_json_lines(log_dir):
    lines = [json.loads(line) for line in run(log_dir, "--format", "jsonl").splitlines()]
    assert [line["type"] for line in lines] == ["batch", "record", "record", "record", "batch", "record", "end"]
    assert lines[1]["headers"] == [["h", "MQ=="], ["n", None]]
    assert lines[3]["headers"] == [["é", "/w=="]]
    assert lines[5]["control_type"] == "COMMIT"


def test_values_above_the_limit_are_digests_unless_asked_for(tmp_path):
    (tmp_path / "t-0").mkdir()
    raw = doors.build_records({"value": [b"x" * 201]})
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(raw)
    digest = json.loads(run(str(tmp_path), "--format", "jsonl").splitlines()[1])["value"]
    assert digest["len"] == 201
    whole = json.loads(run(str(tmp_path), "--format", "jsonl", "--full-values").splitlines()[1])["value"]
    assert base64.b64decode(whole) == b"x" * 201


def test_csv_and_its_base64(log_dir):
    rows = list(csv.DictReader(io.StringIO(run(log_dir, "--format", "csv"))))
    assert [row["value"] for row in rows] == ['say "hi", ok', "", ""]
    assert rows[2]["key"] == "b\ufffd"
    assert json.loads(rows[0]["headers"]) == [["h", "1"], ["n", None]]
    rows = list(csv.DictReader(io.StringIO(run(log_dir, "--format", "csv", "--base64"))))
    assert base64.b64decode(rows[2]["key"]) == b"b\xff"
    assert json.loads(rows[2]["headers"]) == [["é", "/w=="]]


def test_an_arrow_stream_keeps_the_bytes(log_dir, tmp_path):
    out = tmp_path / "records.arrow"
    run(log_dir, "--format", "arrow", "--output", str(out))
    found = pa.ipc.open_stream(out.read_bytes()).read_all().to_pylist()
    assert [row["key"] for row in found] == [b"a", None, b"b\xff"]
    assert [row["value"] for row in found] == [b'say "hi", ok', b"", None]
    assert found[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert found[2]["timestamp"] is None
    assert {(row["topic"], row["partition"]) for row in found} == {("orders", 2)}


def test_kcats_format(log_dir):
    said = run_bytes(log_dir, "-f", r"%t/%p@%o %T [%k] %K %S %h %%\t\x21\n", "-c", "2")
    assert said == b"orders/2@0 1760000000000 [a] 1 12 h=1,n=NULL %\t!\norders/2@1 1760000000500 [] -1 0  %\t!\n"
    assert run_bytes(log_dir, "-f", "%R", "-c", "1") == (12).to_bytes(4, "big")


def test_kcats_envelopes(log_dir):
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


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (["-o", "1"], [1, 2]),
        (["-o", "-3"], [1, 2]),
        (["-o", "beginning", "-c", "1"], [0]),
        (["-o", "end"], []),
        (["-o", "s@1760000000500"], [1]),
        (["-o", "e@1760000000500"], [0, 2]),
        (["--from-time", "2025-10-09T08:53:20.500Z"], [1]),
        (["--from-time", "2025-10-09T10:53:20.500+02:00"], [1]),
        (["--until-offset", "1"], [0]),
        (["--key", "a"], [0]),
        (["--key-regex", "^b"], [2]),
    ],
)
def test_what_is_wanted(log_dir, arguments, offsets):
    assert [int(line) for line in run(log_dir, "-f", "%o\\n", *arguments).split()] == offsets


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no files are named"),
        (["/no/such/place"], "no such file"),
        ([str(LOGS), "-f", "%q"], "unknown '%q'"),
        ([str(LOGS), "-o", "later"], "no offset"),
        ([str(LOGS), "--from-time", "soon"], "no time"),
        ([str(LOGS), "--key-regex", "("], "no regular expression"),
        ([str(LOGS), "-J", "--format", "csv"], "one of --format, -f and -J"),
        ([str(LOGS), "--style", "latest"], "no Kafka version"),
        ([str(LOGS), "--output", "/no/such/place"], "cannot write"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, reason):
    with pytest.raises(KafkaframesError, match=reason):
        run(*arguments)


def test_damage_is_said_on_standard_error_and_by_the_exit_status():
    case = LOGS / "unclean-flipped-bit-active" / "before"
    result = CliRunner().invoke(command, [str(case), "--print-data-log"])
    assert result.exit_code == 1
    assert "00000000000000000334.log" in result.stderr
    assert "the compressed data is damaged" in result.stderr


def test_indexes_are_what_a_directory_gives_with_an_index_flag():
    said = run(str(LOGS / "kraft-4x-transactions"), "--index-sanity-check")
    assert said.count("passed sanity check.") == 40
    assert ".log\n" not in said
    assert "producerId: " in run(str(LOGS / "kraft-4x-transactions"), "--kind", "snapshot")


def test_a_reader_that_had_enough_is_no_error(log_dir):
    shell = f"{sys.executable} -m kafkaframes dump-log {LOGS} --replicas all --print-data-log | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, timeout=60, env=os.environ)
    assert done.stdout.startswith(b"Dumping ")
    assert done.stderr == b""


def test_internal_topics_in_words():
    case = LOGS / "kraft-4x-transactions"
    said = run(str(case / "__consumer_offsets-0"), "--offsets-decoder")
    assert 'key: {"type":"1","data":{"group":"' in said
    assert "payload: <DELETE>" in said
    said = run(str(case / "__transaction_state-0"), "--transaction-log-decoder", "--style", "3.9")
    assert "key: transaction_metadata::transactionalId=" in said
    said = run(str(case / "__cluster_metadata-0"), "--cluster-metadata-decoder")
    assert 'LeaderChange: {"version":0,"leaderId":1,' in said
    with pytest.raises(OptionError, match="one decoder"):
        run(str(case), "--offsets-decoder", "--cluster-metadata-decoder")


def test_help_has_the_formats_and_examples():
    said = run("--help")
    for word in ("--deep-iteration", "--skip-record-metadata", "--format jsonl", "-f '%t/%p@%o", "--max-message-size"):
        assert word in said
