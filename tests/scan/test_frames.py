"""Scans as DataFrames of other libraries: the same rows, with only the requested columns."""

from __future__ import annotations

import datetime as dt
import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.capture.wrappings import IP4, build_pcap, ethernet, packets4

import kafkaframes
from kafkaframes.errors import MissingExtraError
from kafkaframes.records.build import build_records
from kafkaframes.scan import frames
from kafkaframes.scan.dataset import ScanDataset, extract_row_filter
from kafkaframes.scan.log import planning
from kafkaframes.scan.scan import Scan
from kafkaframes.scan.slices import read_plan
from kafkaframes.scan.where import RowFilter

EXAMPLE_LOG_DIR = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"
CAPTURES = Path(__file__).parents[1] / "data" / "captures"


@pytest.fixture(scope="module")
def scan():
    return kafkaframes.scan_log(EXAMPLE_LOG_DIR, topics=["orders", "customers"])


@pytest.fixture
def runs(monkeypatch):
    """Return the scans that have been run."""
    scans = []
    to_batches = Scan.to_batches

    def watched(self, *, workers=None):
        scans.append(self)
        return to_batches(self, workers=workers)

    monkeypatch.setattr(Scan, "to_batches", watched)
    return scans


def test_pandas_has_the_same_rows_as_arrow(scan):
    frame = scan.select("offset", "value").to_pandas(types_mapper=None)
    assert frame["offset"].tolist() == scan.select("offset").to_arrow().column(0).to_pylist()


@pytest.mark.parametrize(
    ("library", "run"),
    [
        ("pandas", lambda scan: scan.to_pandas()),
        ("polars", lambda scan: scan.to_polars()),
        ("polars", lambda scan: scan.lazy()),
        ("duckdb", lambda scan: scan.to_duckdb(None, "orders")),
        ("dask", lambda scan: scan.to_dask()),
        ("ray", lambda scan: scan.to_ray()),
    ],
)
def test_a_missing_library_is_reported_with_its_extra(scan, monkeypatch, library, run):
    for name in [library, *(module for module in sys.modules if module.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'kafkaframes\[{library}\]'"):
        run(scan.limit(1))


def test_polars_has_the_same_rows_as_arrow(scan):
    polars = pytest.importorskip("polars")
    assert scan.to_polars().to_arrow().num_rows == scan.count()
    assert scan.lazy().collect_schema() == scan.to_polars().schema
    assert scan.lazy().collect().equals(scan.to_polars())
    assert scan.lazy().select(polars.len()).collect().item() == scan.count()
    assert scan.limit(0).lazy().collect().height == 0


def test_polars_pushes_down_columns_limits_and_predicates(scan, runs):
    polars = pytest.importorskip("polars")
    col, lazy = polars.col, scan.lazy()
    every = scan.to_polars()
    middle = every["timestamp"].sort()[every.height // 2]
    middle_ms = round(middle.timestamp() * 1000)
    runs.clear()
    none = (None, None)
    for predicate, conditions in (
        (col("offset") >= 10, RowFilter(offsets=(10, None))),
        (col("offset") < 10, RowFilter(offsets=(None, 10))),
        (10 < col("offset"), RowFilter(offsets=(11, None))),  # noqa: SIM300
        (col("offset") <= 10, RowFilter(offsets=(None, 11))),
        (col("offset").is_between(3, 9, closed="left"), RowFilter(offsets=(3, 9))),
        ((col("offset") == 7) & (col("partition") == 1), RowFilter(None, frozenset({1}), (7, 8))),
        (col("partition").is_in([0, 5]), RowFilter(partitions=frozenset({0, 5}))),
        (col("topic").is_in(["orders"]), RowFilter(topics=frozenset({"orders"}))),
        ((col("topic") == "orders") & (col("value").is_not_null()), RowFilter(topics=frozenset({"orders"}))),
        (col("timestamp") > middle, RowFilter(timestamps_ms=(middle_ms + 1, None))),
        (col("timestamp") < middle + dt.timedelta(milliseconds=1), RowFilter(timestamps_ms=(None, middle_ms + 1))),
        ((col("offset") > 3) | (col("partition") == 0), RowFilter(offsets=none)),
        (col("offset") > 3.5, RowFilter()),
        (col("offset") + 1 > 3, RowFilter()),
        (col("partition") != 1, RowFilter()),
    ):  # fmt: skip
        chosen_frame = lazy.filter(predicate).select("topic", "partition", "offset")
        assert chosen_frame.collect().equals(every.filter(predicate).select("topic", "partition", "offset")), predicate
        assert runs[-1].conditions == conditions, predicate
        assert "headers" not in runs[-1].columns
    assert lazy.head(3).collect().equals(every.head(3))
    assert runs[-1].row_limit == 3
    assert lazy.filter(col("partition") == 1).head(3).collect().equals(every.filter(col("partition") == 1).head(3))
    text = lazy.filter(col("offset") >= 10).select("offset").explain()
    assert "PROJECT 1/8 COLUMNS" in text
    assert 'col("offset") >= 10' in text or '(col("offset")) >= (10)' in text
    first = scan.limit(5)
    assert first.lazy().filter(col("partition") == 1).collect().equals(first.to_polars().filter(col("partition") == 1))


def test_polars_filters_a_capture_itself():
    polars = pytest.importorskip("polars")
    path = sorted(CAPTURES.rglob("*.pcap*"))[0]
    packets = kafkaframes.scan_capture(path, table="gaps")
    assert packets.lazy().filter(polars.col("offset") > 0).collect().height <= packets.count()


@pytest.fixture
def large(tmp_path, monkeypatch):
    """Return a scan of three partitions, which is split into several slices."""
    monkeypatch.setattr(planning, "MIN_INPUT_PARTITION_BYTES", 10_000)
    monkeypatch.setattr(planning, "OPEN_COST_BYTES", 0)
    for partition in range(3):
        path = tmp_path / f"t-{partition}" / f"{0:020}.log"
        path.parent.mkdir()
        path.write_bytes(build_records({"value": [b"%05d" % n * 40 for n in range(500)]}))
    return kafkaframes.scan_log(tmp_path).select("partition", "offset", "value")


def test_a_plan_is_read_slice_by_slice_in_any_process(large):
    plan = large.plan(parts=3)
    assert len(plan) > 2
    tables = [read_plan(pickle.loads(pickle.dumps(one))) for one in plan.split_by_slice()]
    assert len(tables) == len(plan)
    assert pa.concat_tables(tables) == large.to_arrow()
    assert [len(one.slices) for one in large.limit(3).plan(parts=3).split_by_slice()] == [len(large.limit(3).plan())]
    assert read_plan(large.limit(3).plan()) == large.limit(3).to_arrow()
    assert [read_plan(one) for one in large.limit(0).plan().split_by_slice()] == [large.schema.empty_table()]


def test_dask_has_a_partition_for_each_slice(large):
    dask = pytest.importorskip("dask")
    frame = large.to_dask(parts=3)
    assert frame.npartitions == len(large.plan(parts=3))
    with dask.config.set(scheduler="synchronous"):
        assert pa.Table.from_pandas(frame.compute(), large.schema, preserve_index=False) == large.to_arrow()
        assert frame.dtypes.to_dict() == frame.compute().dtypes.to_dict()
        assert len(large.limit(5).to_dask()) == 5
        assert len(large.limit(0).to_dask()) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_ray_reads_the_slices(large):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=200 << 20)
    try:
        assert large.to_ray(parts=3).sum("offset") == sum(large.to_arrow()["offset"].to_pylist())
        assert large.limit(5).to_ray().count() == 5
    finally:
        ray.shutdown()


def test_duckdb_reads_only_the_columns_of_a_query(scan, runs):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    expected_count = scan.to_arrow().group_by("partition").aggregate([("offset", "max")]).num_rows
    scan.to_duckdb(connection, "records")
    runs.clear()
    counted_rows = connection.execute('SELECT partition, max("offset") FROM records GROUP BY ALL').fetchall()
    assert len(counted_rows) == expected_count
    assert set(runs[-1].columns) == {"partition", "offset"}
    filtered_row = connection.execute(
        """SELECT count(value) FROM records WHERE partition = 1 AND topic = 'orders'"""
    ).fetchone()
    assert filtered_row[0] == scan.where(partition=1, topic="orders").count()
    assert runs[-1].conditions == RowFilter(frozenset({"orders"}), frozenset({1}))
    assert connection.execute("SELECT count(*) FROM records").fetchone()[0] == scan.count()
    again = scan.select("offset")  # DuckDB finds a scan by the name of its variable
    assert connection.execute("SELECT count(*) FROM again").fetchone()[0] == again.count() == scan.count()


def test_duckdb_filters_a_limited_scan_and_a_capture_itself(scan):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    scan.limit(5).to_duckdb(connection, "first")
    count = connection.execute('SELECT count(*) FROM first WHERE "partition" = 1').fetchone()
    assert count[0] == scan.limit(5).to_polars()["partition"].to_list().count(1)
    path = sorted(CAPTURES.rglob("*.pcap*"))[0]
    packets = kafkaframes.scan_capture(path, table="gaps")
    packets.to_duckdb(connection, "gaps")
    assert connection.execute('SELECT count(*) FROM gaps WHERE "offset" > 0').fetchone()[0] <= packets.count()


SCHEMA = pa.schema({"topic": "string", "partition": "int32", "offset": "int64", "timestamp": pa.timestamp("us", "UTC")})
NEAR_VALUES = {
    "topic": st.sampled_from(["", "a", "b", "a.b", "c"]),
    "partition": st.integers(-1, 4),
    "offset": st.integers(-1, 5) | st.sampled_from([2**62, 2**63 - 1]),
    "timestamp": st.integers(-1_500, 3_500) | st.sampled_from([10**18, 2**63 - 1]),
}


@st.composite
def comparisons(draw):
    name = draw(st.sampled_from(sorted(NEAR_VALUES)))
    column = ds.field(name)
    some = pa.array([draw(NEAR_VALUES[name]), draw(NEAR_VALUES[name])], SCHEMA.field(name).type)
    value = some[0]
    forms = [column == value, column != value, column < value, column <= value, column > value, column >= value]
    return draw(st.sampled_from([*forms, column.is_null(), column.isin(some)]))


FILTERS = st.recursive(
    comparisons(),
    lambda some: (
        st.tuples(some, some).map(lambda two: two[0] & two[1])
        | st.tuples(some, some).map(lambda two: two[0] | two[1])
        | some.map(lambda one: ~one)
    ),
    max_leaves=4,
)
ROWS = st.lists(st.tuples(*(st.none() | NEAR_VALUES[name] for name in SCHEMA.names)), min_size=1, max_size=6)


@given(predicate=FILTERS, rows=ROWS)
def test_predicate_bounds_never_exclude_matching_rows(predicate, rows):
    """For any pyarrow filter, its rows satisfy the conditions that limit the scan."""
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    table = pa.table(columns, schema=SCHEMA)
    where = extract_row_filter(predicate, SCHEMA)
    for topic, partition, offset, at in zip(
        *(each.to_pylist() for each in numbers(table.filter(predicate))), strict=True
    ):
        assert where.topics is None or topic in where.topics
        assert where.partitions is None or partition in where.partitions
        assert is_in(offset, where.offsets)
        assert is_in(None if at is None else at // 1_000, where.timestamps_ms)


def numbers(table):
    at = table.schema.get_field_index("timestamp")
    return table.set_column(at, "timestamp", table["timestamp"].cast("int64")).columns


def is_in(value, interval):
    least, limit = interval
    if value is None:
        return interval == (None, None)
    return (least is None or least <= value) and (limit is None or value < limit)


def test_tables_are_combined_up_to_a_size(scan):
    batches = scan.select("offset").to_batches()
    tables = list(frames._group_batches(batches, batches.schema, 50))
    assert all(table.num_rows >= 50 for table in tables[:-1])
    assert sum(table.num_rows for table in tables) == scan.count()
    assert [table.num_rows for table in frames._group_batches([], batches.schema, 50)] == [0]


def test_a_filter_without_usable_bounds_is_still_applied(scan):
    """Offsets can be on both sides of a fractional bound."""
    rows = ScanDataset(scan).scanner(["offset"], ds.field("offset") >= 2.5).to_table()
    offsets = scan.select("offset").to_arrow().column(0).to_pylist()
    assert rows.column(0).to_pylist() == [offset for offset in offsets if offset >= 3]
    assert 0 < rows.num_rows < len(offsets)


def test_unread_data_is_logged_if_a_library_shows_only_rows(tmp_path, caplog):
    """Polars and DuckDB only show rows.

    Previously, the damage was in ``errors`` of batches that the caller never saw.
    """
    pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "x.pcap"
    path.write_bytes(build_pcap([ethernet(IP4, packet) for packet in packets4()])[:-7])
    scan = kafkaframes.scan_capture(path)
    connection = scan.to_duckdb(duckdb.connect(), "calls")
    consumers = {
        "arrow": scan.to_arrow,
        "polars": scan.to_polars,
        "lazy": lambda: scan.lazy().collect(),
        "duckdb": lambda: connection.execute("select count(*) from calls").fetchone(),
    }
    for name, consume in consumers.items():
        caplog.clear()
        consume()
        assert any("the file ends inside a packet" in record.getMessage() for record in caplog.records), name
