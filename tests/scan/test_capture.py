"""Scans of captures: the tables of ``read_capture`` with selections."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.capture.reader import CaptureOptions
from kafkaframes.errors import OptionError
from kafkaframes.scan.capture import CaptureReadOptions, plan_connection_shares

CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "raw-oldversions-broker39.pcap"


def test_a_scan_has_the_rows_of_the_table():
    scan = kafkaframes.scan_capture(CAPTURE).select("apiName", "requestTime")
    table = scan.to_arrow()
    assert table == kafkaframes.read_capture(CAPTURE, columns=["apiName", "requestTime"]).read_all()
    assert scan.count() == table.num_rows > 0
    assert scan.limit(3).to_arrow(workers=2) == table.slice(0, 3)
    times = sorted(time for time in table.column("requestTime").to_pylist() if time is not None)
    first, last = times[2].replace(microsecond=0), times[-2]
    times_kept = scan.where(timestamp=(first, None)).to_arrow().column("requestTime").to_pylist()
    assert sorted(times_kept) == [time for time in times if time >= first]
    assert len(scan.where(timestamp=(None, last)).select("apiName").to_arrow()) <= len(times)


def test_records_are_selected_by_topic_partition_and_offset():
    scan = kafkaframes.scan_capture(CAPTURE, table="records").select("topic", "partition", "offset")
    rows = scan.to_arrow().to_pylist()
    named_row = next(row for row in rows if row["topic"] is not None)
    kept_rows = (
        scan.where(topic=named_row["topic"], partition=named_row["partition"], offset=(0, 2)).to_arrow().to_pylist()
    )
    assert kept_rows == [
        row
        for row in rows
        if row["topic"] == named_row["topic"] and row["partition"] == named_row["partition"] and 0 <= row["offset"] < 2
    ]
    assert kept_rows


def test_unsupported_selections_are_rejected():
    scan = kafkaframes.scan_capture(CAPTURE)
    with pytest.raises(OptionError, match="`where` takes timestamp"):
        scan.where(offset=3)
    with pytest.raises(OptionError, match="did you mean 'apiName'"):
        scan.select("apiname")
    with pytest.raises(OptionError, match="unknown table"):
        kafkaframes.scan_capture(CAPTURE, table="frames")
    with pytest.raises(OptionError, match="`ports` kafka: must be port numbers and ranges"):
        kafkaframes.scan_capture(CAPTURE, ports="kafka")
    assert repr(scan).startswith(f"scan of calls of {CAPTURE}")


def test_small_files_are_one_task_and_large_ones_as_many_as_there_are_cores(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes(100))
    options = CaptureReadOptions((str(path),), CaptureOptions())
    assert len(plan_connection_shares([str(path)], options, cores=4)) == 1
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    assert [work.options.share for work in plan_connection_shares([str(path)], options, cores=4)] == [0, 1, 2, 3]
