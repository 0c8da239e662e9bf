"""``dump_log`` and ``grep_log`` as iterators, with errors and notes, for ranges, invalid paths and early ends."""

from __future__ import annotations

import gc
import io
import json
import os
import typing
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.jobs.dump.decoders import DECODERS
from kafkaframes.jobs.dump.dump import _DUMP_METHOD_BY_FORMAT, FORMATS, DecoderName, DumpFormat, FileKind
from kafkaframes.jobs.dump.names import FILE_KINDS

DATA = Path(__file__).parents[1] / "data"
EXAMPLE_LOG_DIR = DATA / "examples" / "kafka-4.3"
TRANSACTIONS = DATA / "logs" / "kraft-4x-transactions"


@pytest.fixture
def two_partitions(tmp_path):
    for partition in (0, 1):
        directory = tmp_path / "logs" / f"t-{partition}"
        directory.mkdir(parents=True)
        batches = [
            kafkaframes.build_records(
                {"key": [b"k%d" % offset], "value": [b"v"], "timestamp": [1_700_000_000_000 + 1000 * offset]},
                base_offset=offset,
            )
            for offset in range(6)
        ]
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    return tmp_path / "logs"


def damage(directory: Path) -> Path:
    """Damage the fourth batch of t-0. Return the segment."""
    segment = directory / "t-0" / f"{0:020}.log"
    raw = bytearray(segment.read_bytes())
    raw[len(raw) * 3 // 6 + 61 + 4] ^= 0xFF
    segment.write_bytes(raw)
    return segment


def dump(paths, pattern="%p:%o ", **settings) -> str:
    return kafkaframes.dump_log(paths, pattern=pattern, **settings).read_all().decode().strip()


def test_the_annotations_list_the_values_that_the_code_accepts():
    assert typing.get_args(DumpFormat) == FORMATS
    assert set(_DUMP_METHOD_BY_FORMAT) == {*FORMATS, "pattern"}
    assert typing.get_args(DecoderName) == tuple(DECODERS)
    assert typing.get_args(FileKind) == FILE_KINDS
    hints = kafkaframes.dump_log.__annotations__
    for name, kind in (("format", DumpFormat), ("decoder", DecoderName), ("kinds", FileKind)):
        assert all(repr(value) in hints[name] for value in typing.get_args(kind))


@pytest.mark.parametrize("form", ["text", "jsonl", "csv", "arrow", "envelopes"])
def test_a_dump_has_the_output_of_the_command(form):
    flag = ("-J",) if form == "envelopes" else ("--format", form)
    log_dump = kafkaframes.dump_log(EXAMPLE_LOG_DIR, format=form, topics="orders")
    result, output = log_dump.read_all(), ask("dump-log", str(EXAMPLE_LOG_DIR), "-t", "orders", *flag).stdout_bytes
    if form == "arrow":  # padding bytes are undefined
        result, output = (pa.ipc.open_stream(raw).read_all() for raw in (result, output))
    assert result == output
    assert (log_dump.errors, log_dump.notes, log_dump.decisions) == ([], [], [])


def test_arrow_and_csv_outputs_are_streamed_completely(two_partitions):
    parts = list(kafkaframes.dump_log(two_partitions, format="arrow"))
    assert len(parts) > 2
    table = pa.ipc.open_stream(b"".join(parts)).read_all()
    assert table["offset"].to_pylist() == [*range(6), *range(6)]
    out = io.BytesIO()
    kafkaframes.dump_log(two_partitions, format="csv").write_to(out)
    assert len(out.getvalue().splitlines()) == 13


@pytest.mark.parametrize(
    ("settings", "offsets"),
    [
        ({"partitions": 1}, "1:0 1:1 1:2 1:3 1:4 1:5"),
        ({"start": 2, "end": 4}, "0:2 0:3 1:2 1:3"),
        ({"start": {"t": {0: 4, 1: 5}}}, "0:4 0:5 1:5"),
        ({"end": {"t": {0: 0, 1: 1}}}, "1:0"),
        ({"start": "2023-11-14T22:13:24Z"}, "0:4 0:5 1:4 1:5"),
        ({"start": {"t": {0: "2023-11-14T22:13:25Z", 1: "2023-11-14T22:13:24Z"}}}, "0:5 1:4 1:5"),
        ({"start": "latest"}, ""),
        ({"end": "earliest"}, ""),
        ({"offsets": ["-1"]}, "0:5 1:5"),
        ({"count": 3}, "0:0 0:1 0:2"),
        ({"count": 0}, ""),
        ({"keys": [b"k3"]}, "0:3 1:3"),
        ({"key_regex": "k[45]", "partitions": [0]}, "0:4 0:5"),
    ],
)
def test_a_dump_is_limited_to_a_selection(two_partitions, settings, offsets):
    assert dump(two_partitions, **settings) == offsets


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "`format` must be one of text, jsonl, csv, arrow, envelopes, not 'xml'"),
        ({"format": "csv", "pattern": "%k"}, "`pattern` is a format of its own"),
        ({"pattern": "%x"}, "unknown '%x' in the format"),
        ({"offsets": ["5"], "start": 1}, "`offsets` cannot be combined with `start` and `end`"),
        ({"offsets": ["x"]}, "invalid offset 'x'"),
        ({"decoder": "offset"}, "`decoder` must be one of offsets, transaction-log"),
        ({"kinds": ["logs"]}, "`kinds` is 'logs'; expected log or checkpoint"),
        ({"style": "old"}, "'old' is not a Kafka version"),
        ({"max_bytes": -1}, "`max_bytes` must be at least 0, not -1"),
        ({"topics": "x"}, "no topic x"),
        ({"start": {"t": {0: 1}}}, "`start` requires an offset for t-1"),
        ({"start": "group:g"}, "only live topics have groups"),
    ],
)
def test_invalid_settings_are_rejected_by_the_call(two_partitions, settings, message):
    with pytest.raises(OptionError, match=message):
        kafkaframes.dump_log(two_partitions, **settings)


def test_paths_without_a_log_are_rejected_by_the_call(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("notes")
    for paths, message in (
        (tmp_path / "missing", "no such"),
        (tmp_path / "empty", "contains no Kafka log directory"),
        ([tmp_path / "notes.txt"], "is not a segment, an index or a snapshot"),
    ):
        with pytest.raises(LogDirError, match=message):
            kafkaframes.dump_log(paths)
    with pytest.raises(OptionError, match="`paths` is empty"):
        kafkaframes.dump_log([])


def test_damage_is_in_the_errors_and_all_readable_records_are_dumped(two_partitions):
    segment = damage(two_partitions)
    log_dump = kafkaframes.dump_log(two_partitions, pattern="%p:%o ")
    assert log_dump.errors == []
    assert log_dump.read_all().decode().split()[-6:] == [f"1:{offset}" for offset in range(6)]
    assert [str(segment) in str(error) for error in log_dump.errors] == [True]
    lines = kafkaframes.dump_log(two_partitions, format="jsonl").read_all().splitlines()
    assert "error" in {json.loads(line)["type"] for line in lines}
    result = ask("dump-log", str(two_partitions), "-f", "%o")
    assert (result.exit_code, str(segment) in result.stderr) == (1, True)


def test_a_dump_closed_early_leaves_no_open_file(two_partitions):
    before = os.listdir("/proc/self/fd")
    log_dump = kafkaframes.dump_log(two_partitions, print_data_log=True)
    assert bytes(next(log_dump)).startswith(b"Dumping ")
    log_dump.close()
    assert list(log_dump) == []
    for form in ("arrow", "csv", "jsonl"):
        next(kafkaframes.dump_log(two_partitions, format=form))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= len(before)


def test_grep_returns_the_matching_records():
    found_rows = kafkaframes.grep_log(EXAMPLE_LOG_DIR, "SKU-0449", topics="orders").read_all()
    scanned_rows = kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics="orders").to_arrow()
    matching_values = [
        value for value in scanned_rows["value"].to_pylist() if value is not None and b"SKU-0449" in value
    ]
    assert 0 < found_rows.num_rows < scanned_rows.num_rows
    assert sorted(found_rows["value"].to_pylist()) == sorted(matching_values)
    assert kafkaframes.grep_log(EXAMPLE_LOG_DIR, "SKU-0449", topics="orders", max_count=1).read_all().num_rows == 1
    assert kafkaframes.grep_log(EXAMPLE_LOG_DIR, "sku-0449", topics="orders").read_all().num_rows == 0
    assert kafkaframes.grep_log(EXAMPLE_LOG_DIR, "sku-0449", topics="orders", ignore_case=True).read_all() == found_rows
    assert kafkaframes.grep_log(EXAMPLE_LOG_DIR, "SKU-0449", topics="orders", fields=["key"]).read_all().num_rows == 0
    assert kafkaframes.grep_log(EXAMPLE_LOG_DIR, "S.U-0449", fixed_strings=True).read_all().num_rows == 0


@pytest.mark.parametrize(("isolation", "is_all"), [("read_committed", False), ("read_uncommitted", True)])
def test_grep_reads_the_transactions_of_its_isolation_level(isolation, is_all):
    batches = kafkaframes.grep_log(TRANSACTIONS, "", isolation=isolation)
    rows = batches.read_all().num_rows
    assert rows == kafkaframes.scan_log(TRANSACTIONS, isolation=isolation).count()
    assert bool(batches.notes) != is_all


def test_grep_reports_damage_or_fails_as_configured(two_partitions):
    damage(two_partitions)
    batches = kafkaframes.grep_log(two_partitions, "k")
    assert batches.read_all().num_rows >= 11
    assert len(batches.errors) == 1
    with pytest.raises(CorruptRecordError):
        kafkaframes.grep_log(two_partitions, "k", on_damage="fail").read_all()


def test_grep_rejects_invalid_settings(two_partitions):
    for settings, message in (
        ({"pattern": "("}, "not a regular expression"),
        ({"fields": ["keys"]}, "`fields` is 'keys'; expected key or value or headers"),
        ({"max_count": 0}, "`max_count` must be at least 1, not 0"),
        ({"isolation": None}, "`isolation` is None; expected read_committed or read_uncommitted"),
        ({"follow": True, "end": 5}, "`end` cannot be combined with `follow`"),
        ({"follow": True, "on_damage": "drop"}, "`on_damage` cannot be combined with `follow`"),
    ):
        with pytest.raises(OptionError, match=message):
            kafkaframes.grep_log(two_partitions, **{"pattern": "k", **settings})
    with pytest.raises(LogDirError):
        kafkaframes.grep_log(two_partitions / "missing", "k").read_all()


def test_a_followed_log_returns_appended_records_and_can_be_closed(two_partitions, monkeypatch):
    monkeypatch.setattr("kafkaframes.jobs.dump.search.POLL_INTERVAL_S", 0.001)
    batches = kafkaframes.grep_log(two_partitions, "k5|new", follow=True, partitions=0)
    assert next(batches)["offset"].to_pylist() == [5]
    assert next(batches).num_rows == 0  # nothing was appended
    appended_batch = kafkaframes.build_records({"key": [b"new"], "value": [b"v"]}, base_offset=6)
    with (two_partitions / "t-0" / f"{0:020}.log").open("ab") as segment:
        segment.write(appended_batch)
    assert next(batch for batch in batches if batch.num_rows)["offset"].to_pylist() == [6]


def test_a_key_is_proven_gone_only_if_every_record_was_read(two_partitions):
    result = kafkaframes.prove_key_gone(two_partitions, b"k9")
    assert (result.report.is_gone, result.report.files, str(result)) == (
        True, 2, "proven gone: no record has the key; 2 files were read"
    )  # fmt: skip
    proof = kafkaframes.prove_key_gone([two_partitions / "t-0", two_partitions / "t-1"], b"k3")
    assert [offset for _, offset in proof.report.records] == [3, 3]
    command = ask("compact", str(two_partitions), "--prove-gone", "k3", "--json")
    assert command.exit_code == 1
    assert json.loads(command.stdout)["proof"] == json.loads(
        json.dumps(kafkaframes.prove_key_gone(two_partitions, b"k3").to_dict())
    )
    assert ask("compact", str(two_partitions), "--prove-gone", "k3").stdout.splitlines() == list(
        kafkaframes.prove_key_gone(two_partitions, b"k3").lines
    )
    damage(two_partitions)
    assert not kafkaframes.prove_key_gone(two_partitions, b"k9").report.is_gone
    for call, message in (
        (lambda: kafkaframes.prove_key_gone(two_partitions, "k3"), "`key` is 'k3'; expected bytes"),
        (lambda: kafkaframes.prove_key_gone([], b"k3"), "`paths` is empty"),
    ):
        with pytest.raises(OptionError, match=message):
            call()
    with pytest.raises(LogDirError):
        kafkaframes.prove_key_gone(two_partitions / "missing", b"k3")
