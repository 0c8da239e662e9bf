"""Scans of logs: filters, counts and limits equal plain Python on all rows."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.scan.scan import Scan
from kafkaframes.scan.where import RowFilter, create_row_filter

DATA = Path(__file__).parents[1] / "data"
EXAMPLE_LOG_DIR = DATA / "examples" / "kafka-4.3"
LOGS = [
    EXAMPLE_LOG_DIR,
    DATA / "examples" / "kafka-2.8-format-1",
    *(DATA / "logs" / name for name in ("kraft-4x-transactions", "zk-28-mixed", "zk-0102-v1", "deleted-records")),
]
COLUMN_NAMES = ("topic", "partition", "offset", "timestamp")
HOUR_MS = 3_600_000


def build_segment(first, count, *, codec="none", time=0, **options):
    rows = [{"key": b"k%d" % n, "value": b"v%d" % n, "timestamp": time + n * 1000} for n in range(first, first + count)]
    return kafkaframes.build_records(rows, base_offset=first, codec=codec, batch_records=7, **options)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    for name, codec in (("orders-0", "lz4"), ("orders-1", "none"), ("users-0", "zstd")):
        (root / name).mkdir()
        for first in (0, 50):
            (root / name / f"{first:020}.log").write_bytes(build_segment(first, 50, codec=codec))
    return root


def rows(scan):
    return scan.select(*COLUMN_NAMES).to_arrow().to_pylist()


def test_a_scan_has_the_columns_and_rows_in_order(log):
    scan = kafkaframes.scan_log(log)
    assert scan.columns == ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
    table = scan.to_arrow()
    assert table.schema == scan.schema
    order = list(zip(*(table.column(name).to_pylist() for name in COLUMN_NAMES[:3]), strict=True))
    assert order == sorted(order)
    assert table.num_rows == 300
    chosen_table = scan.select("value", "file", "codec").to_arrow()
    assert chosen_table.column_names == ["value", "file", "codec"]
    assert chosen_table.column("file")[0].as_py() == str(log / "orders-0" / f"{0:020}.log")


def test_a_scan_is_immutable_chains_and_is_read_again_each_time(log):
    scan = kafkaframes.scan_log(log, topics="orders")
    narrow = scan.where(partition=1).where(offset=(10, None)).where(offset=(None, 13)).limit(2).limit(9)
    assert [row["offset"] for row in rows(narrow)] == [10, 11]
    assert rows(narrow) == rows(narrow)
    assert scan.count() == 200  # unchanged
    assert narrow.conditions == RowFilter(None, frozenset({1}), (10, 13))
    assert isinstance(narrow, Scan)
    assert repr(narrow).endswith(
        "where partition 1, offset from 10 to 13; columns " + ", ".join(scan.columns) + "; at most 2 rows"
    )


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_filters_keep_the_rows_that_plain_python_keeps(path):
    scan = kafkaframes.scan_log(path, control_records=path.name == "zk-28-mixed")
    every = rows(scan)
    assert scan.count() == len(every)
    offsets = sorted({row["offset"] for row in every})
    times = sorted({row["timestamp"] for row in every})
    low, high = offsets[len(offsets) // 3], offsets[-len(offsets) // 4]
    early, late = times[len(times) // 3], times[-len(times) // 4]
    for conditions, keeps in (
        ({"offset": (low, high)}, lambda row: low <= row["offset"] < high),
        ({"offset": low}, lambda row: row["offset"] == low),
        ({"timestamp": (early, late)}, lambda row: early <= row["timestamp"] < late),
        ({"timestamp": (None, late)}, lambda row: row["timestamp"] < late),
        ({"partition": [0, 2]}, lambda row: row["partition"] in (0, 2)),
        ({"topic": every[0]["topic"], "offset": (None, high)},
         lambda row: row["topic"] == every[0]["topic"] and row["offset"] < high),
    ):  # fmt: skip
        kept_scan = scan.where(**conditions)
        expected_rows = [row for row in every if keeps(row)]
        assert rows(kept_scan) == expected_rows, conditions
        assert kept_scan.count() == len(expected_rows), conditions
        assert kept_scan.select("topic").to_arrow().num_rows == len(expected_rows)


@pytest.mark.parametrize("path", [EXAMPLE_LOG_DIR, DATA / "logs" / "zk-28-mixed"], ids=lambda path: path.name)
def test_any_number_of_workers_returns_the_same_rows(path):
    scan = kafkaframes.scan_log(path)
    every = scan.to_arrow()
    assert scan.to_arrow(workers=3) == every
    for most in (0, 1, every.num_rows // 2, every.num_rows + 5):
        limited_scan = scan.limit(most)
        assert limited_scan.to_arrow(workers=2) == limited_scan.to_arrow() == every.slice(0, most)
        assert limited_scan.count() == min(most, every.num_rows)
    with pytest.raises(OptionError, match="at least 1"):
        scan.to_arrow(workers=0)


def test_slices_are_pickled_and_read_separately(log):
    scan = kafkaframes.scan_log(log).where(offset=(40, 60))
    plan = pickle.loads(pickle.dumps(scan.plan(parts=3)))
    assert sum(batch.num_rows for part in plan for batch in part.read()) == 60 == scan.count()
    assert len(plan) == len(plan.slices) > 0
    assert plan.size_bytes < scan.plan().size_bytes * 2
    assert "bytes" in repr(plan)


def test_one_offset_for_all_partitions_ignores_the_empty_ones(tmp_path):
    for name, count in (("orders-0", 5), ("orders-1", 0), ("orders-2", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(build_segment(0, count) if count else b"")

    def offsets(**bounds):
        table = kafkaframes.scan_log(tmp_path, topics=["orders"], **bounds).select("partition", "offset").to_arrow()
        return [tuple(row.values()) for row in table.to_pylist()]

    assert offsets(start=1) == [(0, 1), (0, 2), (0, 3), (0, 4), (2, 1)]
    assert offsets(start=1, end=2) == [(0, 1), (2, 1)]
    with pytest.raises(OptionError, match="offset 3 of orders-2 is beyond the log's end 2; `fail_on_data_loss`=false"):
        offsets(start=3)
    assert offsets(start=3, fail_on_data_loss=False) == [(0, 3), (0, 4)]
    with pytest.raises(OptionError, match="offset 3 of orders-1 is beyond the log's end 0"):
        offsets(start={"orders": {0: 3, 1: 3, 2: 2}})  # specified for this partition explicitly


def test_start_and_end_limit_the_plan(log):
    def offsets(**bounds):
        table = kafkaframes.scan_log(log, topics=["orders"], **bounds).where(partition=0).to_arrow()
        return table.column("offset").to_pylist()

    assert offsets(start=60, end=63) == [60, 61, 62]
    assert offsets(start="1970-01-01T00:00:58", end=dt.datetime(1970, 1, 1, 0, 1)) == [58, 59]
    assert offsets(start={"orders": {0: 98, 1: 0}}) == [98, 99]
    assert offsets(
        start="earliest", end={"orders": {0: dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), 1: "1970-01-02"}}
    ) == [0]
    assert offsets(start="2030-01-01") == []  # after every record
    with pytest.raises(OptionError, match="beyond the log's end 100"):
        offsets(start=5, end=101)
    with pytest.raises(OptionError, match="expected an offset of at least 0"):
        offsets(start=-2)
    with pytest.raises(OptionError, match="only live topics have groups"):
        offsets(start="group:g")
    with pytest.raises(OptionError, match="not a time; expected a format such as"):
        offsets(start="newest")


def test_invalid_scans_are_rejected(log):
    scan = kafkaframes.scan_log(log)
    with pytest.raises(OptionError, match="did you mean 'offset'"):
        scan.select("ofset")
    with pytest.raises(OptionError, match="selected twice"):
        scan.select("key", "key")
    with pytest.raises(OptionError, match=r"a range \(from, to\)"):
        scan.where(timestamp="2026-01-01")
    with pytest.raises(OptionError, match="expected keep or"):
        kafkaframes.scan_log(log, on_damage="lenient")
    with pytest.raises(OptionError, match="no topic order: did you mean orders"):
        kafkaframes.scan_log(log, topics=["users", "order"]).count()
    with pytest.raises(OptionError, match="a number of rows"):
        scan.limit(-1)


def test_damage_is_reported_and_counted_as_it_is_read(tmp_path, caplog):
    data = bytearray(build_segment(0, 70))
    data[-3] ^= 1  # the last batch's checksum is wrong
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(data)
    for mode, expected_count in (("keep", 70), ("drop", 63)):
        scan = kafkaframes.scan_log(file, on_damage=mode)
        batches = scan.to_batches()
        assert batches.read_all().num_rows == scan.count() == expected_count
        assert [error.base_offset for error in batches.errors] == [63]
        assert scan.to_arrow(workers=2).num_rows == expected_count
    assert sum("CRC" in record.message or "checksum" in record.message for record in caplog.records) == 2
    with pytest.raises(CorruptRecordError):
        kafkaframes.scan_log(file, on_damage="fail").to_arrow()
    with pytest.raises(CorruptRecordError):
        kafkaframes.scan_log(file, on_damage="fail").count()


def test_read_committed_returns_committed_records_only(tmp_path):
    path = DATA / "logs" / "kraft-4x-transactions"
    every = kafkaframes.scan_log(path, isolation="read_uncommitted")
    committed_scan = kafkaframes.scan_log(path, isolation="read_committed")
    assert 0 < committed_scan.count() < every.count()
    assert committed_scan.count() == committed_scan.to_arrow().num_rows


def test_a_scan_exports_an_arrow_stream(log):
    scan = kafkaframes.scan_log(log).select("topic", "offset")
    assert pa.RecordBatchReader.from_stream(scan).read_all() == scan.to_arrow()
    assert sum(batch.num_rows for batch in scan) == 300


@pytest.mark.parametrize("name", ["", "orders-0/00000000000000000000.log"])
def test_a_missing_path_is_reported(tmp_path, name):
    path = tmp_path / "none" / name
    with pytest.raises(LogDirError, match=f"no such file or directory .at {path}"):
        kafkaframes.scan_log(path).count()


@pytest.mark.parametrize("timestamp_bound", ["yesterday", (1, 2), 1.5, object()])
def test_a_text_that_is_not_a_time_is_rejected(log, timestamp_bound):
    with pytest.raises(OptionError, match="is not a time; expected a format such as 2026-11-21T00:00:00"):
        kafkaframes.scan_log(log).where(timestamp=(timestamp_bound, None))
    with pytest.raises(OptionError, match="is not a time; expected a format such as 2026-11-21T00:00:00"):
        kafkaframes.scan_log(log, start=timestamp_bound).count()


def test_a_time_in_seconds_causes_a_warning(log, caplog):
    """Previously, ``time.time()`` as an integer selected every record without a warning."""
    kafkaframes.scan_log(log).where(timestamp=(1_700_000_000, None))
    assert caplog.messages == [
        "the time 1700000000 is 1970-01-20T16:13:20.000Z, because integers are milliseconds since 1970; for seconds, "
        "use 1700000000000 or a date"
    ]
    caplog.clear()
    now = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)
    for timestamp_bound in (0, 1_000, int(now.timestamp() * 1_000), now, "1970-01-20"):
        kafkaframes.scan_log(log).where(timestamp=(timestamp_bound, None))
    assert caplog.messages == []


def test_a_notebook_shows_the_columns_without_reading():
    html = kafkaframes.scan_log("/nowhere/<at all>")._repr_html_()
    assert "<td>timestamp</td><td>timestamp[ms, tz=UTC]</td>" in html
    assert "&lt;at all&gt;" in html


times = st.one_of(st.none(), st.integers(-5, 5))


@given(times, times, times, times, st.integers(-6, 6))
def test_combined_predicates_keep_the_rows_that_both_keep(a, b, c, d, value):
    def keeps(interval):
        first, end = interval
        return (first is None or value >= first) and (end is None or value < end)

    first, second = (
        create_row_filter(offset=(a, b), timestamp=(c, d)),
        create_row_filter(offset=(c, d), timestamp=(a, b)),
    )
    both = first & second
    assert keeps(both.offsets) == (keeps((a, b)) and keeps((c, d)))
    assert both.offsets == both.timestamps_ms
    low, high = both.limit_range(-6, 7)
    assert (low <= value < high) == keeps(both.offsets)
