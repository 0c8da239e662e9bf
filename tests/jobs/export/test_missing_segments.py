"""A tiered store without one of its segments: jobs read the others, and report that records are missing.

Aiven-Open/tiered-storage-for-apache-kafka#378: an object of a segment is missing.
"""

import shutil

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.storage.tiered.store import TOPIC_ID
from tests.storage.tiered.test_view import get_store, write_segment_file

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError

REASON = "no segment has the offsets 100 to 199 of orders-0"


@pytest.fixture
def store(tmp_path):
    """Return the path of a store with the offsets 0 to 99 and 200 to 299."""
    return get_store(tmp_path, [0, 200]).root


def test_an_export_is_not_complete_until_the_segment_is_there(store, tmp_path):
    to = tmp_path / "out"
    outcome = kafkaframes.export_log(store, to).report
    assert not outcome.is_complete
    assert [finding.message for finding in outcome.notes.unreadable] == [REASON]
    assert not (to / "_SUCCESS").exists()
    assert pq.read_table(to / "topic=orders").num_rows == 200
    result = CliRunner().invoke(cli, ["export", str(store), "--to", str(to)])
    assert result.exit_code == 1, result.output
    assert REASON in result.stderr
    get_store(tmp_path, [100])
    assert kafkaframes.export_log(store, to).report.is_complete
    assert (to / "_SUCCESS").exists()
    assert pq.read_table(to / "topic=orders").num_rows == 300


@pytest.mark.parametrize(
    ("selection", "is_complete"), [({"start": 200}, True), ({"end": 100}, True), ({"end": 101}, False)]
)
def test_offsets_that_are_not_exported_may_be_missing(store, tmp_path, selection, is_complete):
    assert kafkaframes.export_log(store, tmp_path / "out", **selection).report.is_complete is is_complete


def test_a_single_file_is_not_written(store, tmp_path):
    with pytest.raises(LogDirError, match=f"{REASON}: nothing was written; an export to a directory has the other"):
        kafkaframes.export_log(store, tmp_path / "orders.parquet", single_file=True)
    assert not (tmp_path / "orders.parquet").exists()


def test_a_local_copy_may_have_the_offsets(store, tmp_path):
    local = tmp_path / "local" / "orders-0"
    local.mkdir(parents=True)
    for base in (0, 100, 200):
        shutil.copy(write_segment_file(tmp_path, base), local)
    (local / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    outcome = kafkaframes.export_log([local.parent, store], tmp_path / "out").report
    assert (outcome.is_complete, outcome.summary.records) == (True, 300)
    for base in (0, 100):
        (local / f"{base:020d}.log").unlink()
    assert not kafkaframes.export_log([local.parent, store], tmp_path / "incomplete").report.is_complete


def test_a_table_waits_for_the_segment(store, tmp_path):
    to = tmp_path / "table"
    outcome = kafkaframes.table_log(store, to).report
    assert not outcome.is_complete
    consequence = "no later records of the partition are added; `fail_on_data_loss`=false accepts this"
    assert str(outcome.notes.unreadable[0]).startswith(f"error: missing-segment: {REASON}; {consequence}")
    assert outcome.summary.records == 100
    assert kafkaframes.table_log(store, to).report.is_unfinished
    get_store(tmp_path, [100])
    outcome = kafkaframes.table_log(store, to).report
    assert (outcome.is_complete, outcome.summary.records) == (True, 200)


def test_a_table_records_an_accepted_loss(store, tmp_path):
    to = tmp_path / "table"
    outcome = kafkaframes.table_log(store, to, fail_on_data_loss=False).report
    assert [finding.message for finding in outcome.notes.unreadable] == [REASON]
    assert outcome.summary.records == 200
    assert outcome.table["gaps"] == [{"topic": "orders", "partition": 0, "first": 100, "end": 200}]
    assert kafkaframes.table_log(store, to).report.is_complete


def test_scans_report_the_missing_segment_as_damage(store, caplog):
    batches = kafkaframes.scan_log(store).to_batches()
    assert sum(rows.num_rows for rows in batches) == 200
    assert [error.reason for error in batches.errors] == [REASON]
    assert kafkaframes.scan_log(store).count() == 200
    assert REASON in caplog.text
    with pytest.raises(LogDirError, match=REASON):
        kafkaframes.scan_log(store, on_damage="fail").to_arrow()
    assert CliRunner().invoke(cli, ["grep", "k1", str(store)]).exit_code == 2
