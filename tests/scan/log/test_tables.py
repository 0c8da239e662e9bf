"""The table ``batches``: each header as Kafka reads it, and damage as rows; without a JVM."""

from pathlib import Path

import pytest
from tests.scan.log.test_reading import build_batches, damage_batch, read_rows, write_segment
from tests.spark import truth
from tests.spark.truth import CLICKS, EXAMPLE_LOG_DIR


@pytest.mark.parametrize("log", [EXAMPLE_LOG_DIR, CLICKS], ids=lambda log: log.name)
def test_every_batch_equals_that_of_kafka(log):
    rows = read_rows(log, table="batches", deep=True, include_internal=True)
    expected_rows = [
        line for line in truth.lines_of(log) if line["type"] == "batch" and not line["segment"].endswith(".checkpoint")
    ]
    assert len(rows) == len(expected_rows)
    by_place = {(row["topic"], row["partition"], Path(row["file"]).name, row["position"]): row for row in rows}
    for line in expected_rows:
        row = by_place[line["topic"], line["partition"], line["segment"], line["position"]]
        assert (row["sizeBytes"], row["magic"], row["codec"]) == (line["size"], line["magic"], line["codec"])
        assert (row["lastOffset"], row["crcOk"], row["control"]) == (line["last_offset"], True, line["control"])
        assert (row["producerId"], row["producerEpoch"]) == (line["producer_id"], line["producer_epoch"])
        assert (row["baseSequence"], row["leaderEpoch"]) == (line["base_sequence"], line["leader_epoch"])
        assert row["readableRecords"] == line["count"]
        assert row["recordCount"] == (line["count"] if line["magic"] == 2 else None)
        assert row["timestampType"] == truth.TIMESTAMP_TYPES[line["ts_type"]]
        assert row["maxTimestamp"].timestamp() * 1000 == pytest.approx(line["max_ts"])
        assert row["error"] is None


def test_the_table_of_batches_reports_damage_in_every_mode(tmp_path):
    raw = bytearray().join(build_batches(n, 10) for n in (10, 20, 30))
    damage_batch("a length in the fourth record", raw)
    write_segment(tmp_path, raw)
    shallow = read_rows(tmp_path, "crcOk", "error", "readableRecords", table="batches", on_damage="fail")
    assert [row["crcOk"] for row in shallow] == [True, False, True]
    assert {row["readableRecords"] for row in shallow} == {None}
    deep = read_rows(tmp_path, "readableRecords", "recordCount", "error", table="batches", deep=True)
    assert [(row["readableRecords"], row["recordCount"], row["error"] is None) for row in deep] == [
        (10, 10, True),
        (3, 10, False),
        (10, 10, True),
    ]
    unchecked_rows = read_rows(tmp_path, "crcOk", "error", table="batches", verify_crc=False)
    assert {row["crcOk"] for row in unchecked_rows} == {row["error"] for row in unchecked_rows} == {None}
