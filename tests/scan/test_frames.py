"""Scans as the frames of others: the same rows, read no wider than is asked for."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import MissingExtraError
from kafkaframes.scan import frames
from kafkaframes.scan.scan import Scan
from kafkaframes.scan.where import Where

SHOP = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"
CAPTURES = Path(__file__).parents[1] / "data" / "captures"


@pytest.fixture(scope="module")
def scan():
    return kafkaframes.scan_log(SHOP, topics=["orders", "customers"])


@pytest.fixture
def runs(monkeypatch):
    """Return the scans that are run."""
    seen = []
    to_batches = Scan.to_batches

    def watched(self, *, workers=1):
        seen.append(self)
        return to_batches(self, workers=workers)

    monkeypatch.setattr(Scan, "to_batches", watched)
    return seen


def test_pandas_has_the_rows_of_arrow(scan):
    frame = scan.select("offset", "value").to_pandas(types_mapper=None)
    assert frame["offset"].tolist() == scan.select("offset").to_arrow().column(0).to_pylist()


@pytest.mark.parametrize(
    ("library", "run"),
    [
        ("pandas", lambda scan: scan.to_pandas()),
        ("polars", lambda scan: scan.to_polars()),
        ("polars", lambda scan: scan.lazy()),
        ("duckdb", lambda scan: scan.to_duckdb(None, "orders")),
    ],
)
def test_an_absent_library_names_its_extra(scan, monkeypatch, library, run):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'kafkaframes\[{library}\]'"):
        run(scan.limit(1))


def test_polars_has_the_rows_of_arrow(scan):
    polars = pytest.importorskip("polars")
    assert scan.to_polars().to_arrow().num_rows == scan.count()
    assert scan.lazy().collect_schema() == scan.to_polars().schema
    assert scan.lazy().collect().equals(scan.to_polars())
    assert scan.lazy().select(polars.len()).collect().item() == scan.count()
    assert scan.limit(0).lazy().collect().height == 0


def test_polars_pushes_columns_limits_and_conditions(scan, runs):
    polars = pytest.importorskip("polars")
    col, lazy = polars.col, scan.lazy()
    every = scan.to_polars()
    middle = every["timestamp"].sort()[every.height // 2]
    middle_ms = round(middle.timestamp() * 1000)
    runs.clear()
    none = (None, None)
    for predicate, kept in (
        (col("offset") >= 10, Where(offsets=(10, None))),
        (col("offset") < 10, Where(offsets=(None, 10))),
        (10 < col("offset"), Where(offsets=(11, None))),  # noqa: SIM300
        (col("offset") <= 10, Where(offsets=(None, 11))),
        (col("offset").is_between(3, 9, closed="left"), Where(offsets=(3, 9))),
        ((col("offset") == 7) & (col("partition") == 1), Where(None, frozenset({1}), (7, 8))),
        (col("partition").is_in([0, 5]), Where(partitions=frozenset({0, 5}))),
        (col("topic").is_in(["orders"]), Where(topics=frozenset({"orders"}))),
        ((col("topic") == "orders") & (col("value").is_not_null()), Where(topics=frozenset({"orders"}))),
        (col("timestamp") > middle, Where(timestamps_ms=(middle_ms + 1, None))),
        (col("timestamp") < middle + dt.timedelta(milliseconds=1), Where(timestamps_ms=(None, middle_ms + 1))),
        ((col("offset") > 3) | (col("partition") == 0), Where(offsets=none)),
        (col("offset") > 3.5, Where()),
        (col("offset") + 1 > 3, Where()),
        (col("partition") != 1, Where()),
    ):  # fmt: skip
        chosen = lazy.filter(predicate).select("topic", "partition", "offset")
        assert chosen.collect().equals(every.filter(predicate).select("topic", "partition", "offset")), predicate
        assert runs[-1].kept == kept, predicate
        assert "headers" not in runs[-1].columns
    assert lazy.head(3).collect().equals(every.head(3))
    assert runs[-1].most == 3
    assert lazy.filter(col("partition") == 1).head(3).collect().equals(every.filter(col("partition") == 1).head(3))
    text = lazy.filter(col("offset") >= 10).select("offset").explain()
    assert "PROJECT 1/8 COLUMNS" in text
    assert 'col("offset") >= 10' in text or '(col("offset")) >= (10)' in text
    first = scan.limit(5)
    assert first.lazy().filter(col("partition") == 1).collect().equals(first.to_polars().filter(col("partition") == 1))


def test_a_capture_is_filtered_by_polars_alone():
    polars = pytest.importorskip("polars")
    path = sorted(CAPTURES.rglob("*.pcap*"))[0]
    packets = kafkaframes.scan_capture(path, table="gaps")
    assert packets.lazy().filter(polars.col("offset") > 0).collect().height <= packets.count()


def test_duckdb_reads_the_columns_that_a_query_names(scan, runs):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    expected = scan.to_arrow().group_by("partition").aggregate([("offset", "max")]).num_rows
    scan.to_duckdb(connection, "records")
    runs.clear()
    counted = connection.execute('SELECT partition, max("offset") FROM records GROUP BY ALL').fetchall()
    assert len(counted) == expected
    assert set(runs[-1].columns) == {"partition", "offset"}
    filtered = connection.execute(
        """SELECT count(value) FROM records WHERE partition = 1 AND topic = 'orders'"""
    ).fetchone()
    assert filtered[0] == scan.where(partition=1, topic="orders").count()
    assert connection.execute("SELECT count(*) FROM records").fetchone()[0] == scan.count()
    again = scan.select("offset")  # found by its name, as a variable
    assert connection.execute("SELECT count(*) FROM again").fetchone()[0] == again.count() == scan.count()


def test_tables_are_gathered_into_frames_of_some_size(scan):
    batches = scan.select("offset").to_batches()
    tables = list(frames._gathered(batches, batches.schema, 50))
    assert all(table.num_rows >= 50 for table in tables[:-1])
    assert sum(table.num_rows for table in tables) == scan.count()
    assert [table.num_rows for table in frames._gathered([], batches.schema, 50)] == [0]
