"""Commands on a log with transactions follow its markers, and report the records that an open transaction hides."""

import json
import logging

import pyarrow.dataset as ds
import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.records.build import build_end_transaction, build_records

HIDDEN_COUNT = 1001


def build_data(base, producer, values, keys=None):
    columns = {"value": values} | ({} if keys is None else {"key": keys})
    return bytes(
        build_records(
            columns, base_offset=base, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )
    )


def marker(base, producer, *, commit):
    return bytes(build_end_transaction(base, commit=commit, timestamp=1, producer_id=producer, producer_epoch=0))


def write_log(path, *segments):
    """Write a partition with segments, each given as (base offset, bytes)."""
    (path / "t-0").mkdir(parents=True)
    for base, raw in segments:
        (path / "t-0" / f"{base:020}.log").write_bytes(raw)
    return path


@pytest.fixture
def log(tmp_path):
    """A log with one committed record. A transaction of producer 7 is open from offset 2 and hides 1,001 records."""
    plain = bytes(build_records({"value": [b"x" * 100] * 1000}, base_offset=3))
    committed_records = build_data(0, 5, [b"a"]) + marker(1, 5, commit=True)
    return write_log(tmp_path / "logs", (0, committed_records + build_data(2, 7, [b"open"])), (3, plain))


def table(log, tmp_path, *words):
    return ask("table", log, "--to", "parquet", tmp_path / "out", *words)


def rows_of(tmp_path):
    return ds.dataset(tmp_path / "out", partitioning="hive", exclude_invalid_files=True).count_rows()


def test_a_table_reports_records_hidden_by_an_open_transaction(log, tmp_path):
    result = table(log, tmp_path)
    assert (result.exit_code, rows_of(tmp_path)) == (1, 1)
    assert "\n1 record, " in result.output
    for fact in ("producer 7", "offset 2", "1,001 records", "--isolation read_uncommitted"):
        assert fact in result.output
    result = table(log, tmp_path, "--json")
    last = json.loads(result.output.splitlines()[-1])
    assert (result.exit_code, last["complete"]) == (1, False)
    (hidden_transaction,) = last["open_transactions"]
    assert (
        hidden_transaction["topic"],
        hidden_transaction["partition"],
        hidden_transaction["producer_id"],
        hidden_transaction["first_offset"],
    ) == ("t", 0, 7, 2)
    assert (hidden_transaction["end_offset"], hidden_transaction["records"]) == (1003, HIDDEN_COUNT)


def test_a_table_of_everything_is_complete(log, tmp_path):
    result = table(log, tmp_path, "--isolation", "read_uncommitted")
    assert (result.exit_code, rows_of(tmp_path)) == (0, 1002)


def test_a_scan_has_a_note_of_hidden_records(log, caplog):
    scan = kafkaframes.scan_log(log, isolation="read_committed")
    (note,) = scan.plan().notes
    assert (note.producer_id, note.first_offset, note.records) == (7, 2, HIDDEN_COUNT)
    batches = scan.to_batches()
    assert (batches.read_all().num_rows, batches.notes) == (1, [note])
    with caplog.at_level(logging.WARNING, "kafkaframes.scan"):
        scan.to_arrow()
    assert "producer 7" in caplog.text
    assert kafkaframes.scan_log(log, isolation="read_committed", end=2).plan().notes == ()
    assert kafkaframes.scan_log(log, isolation="read_uncommitted").plan().notes == ()
    (note,) = kafkaframes.scan_log(log, isolation="read_committed", start=1000).plan().notes
    assert note.records == 3


def keyed_record(base, producer, value):
    return build_data(base, producer, [value], [b"k"])


def test_compact_keeps_the_committed_value_despite_a_wrong_index(tmp_path):
    """Previously, an empty index let the aborted value replace the committed one."""
    first = (
        keyed_record(0, 1, b"committed")
        + marker(1, 1, commit=True)
        + keyed_record(2, 2, b"aborted")
        + marker(3, 2, commit=False)
    )
    source = write_log(tmp_path / "logs", (0, first), (4, keyed_record(4, 1, b"active") + marker(5, 1, commit=True)))
    (source / "t-0" / f"{0:020}.txnindex").write_bytes(b"")
    result = ask("compact", source, "--topic", "t", "--to", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "1 of 1 aborted transactions are not listed" in result.output
    values = kafkaframes.scan_log(tmp_path / "new", isolation="read_committed").to_arrow()["value"].to_pylist()
    assert values == [b"committed", b"active"]


@pytest.mark.parametrize("index", [b"", b"\0" * 17, None], ids=["empty", "torn", "missing"])
def test_a_table_has_no_aborted_record_and_reports_the_index(tmp_path, index):
    aborted_records = (
        build_data(0, 1, [b"no"]) + marker(1, 1, commit=False) + build_data(2, 2, [b"yes"]) + marker(3, 2, commit=True)
    )
    source = write_log(tmp_path / "logs", (0, aborted_records))
    if index is not None:
        (source / "t-0" / f"{0:020}.txnindex").write_bytes(index)
    result = table(source, tmp_path)
    assert (result.exit_code, rows_of(tmp_path)) == (0, 1)
    assert "warning: txnindex-" in result.output


def test_the_last_line_of_report_names_an_open_transaction(log, tmp_path):
    result = ask("report", log, "-o", tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    assert "; no damage found, but 1 open transaction hides records from read_committed" in result.output
