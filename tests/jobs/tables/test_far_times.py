"""Timestamps that microseconds, or the years 1 to 9999, cannot hold: in every format, and back.

A producer with timestamps in micro- or nanoseconds, or garbage, must not make a table unusable: pyiceberg and DuckDB
have related reports about dates out of range.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.cli.main import cli
from kafkaframes.client import Producer
from kafkaframes.errors import EncodeError
from kafkaframes.jobs.export import writers
from kafkaframes.jobs.export.writers import OutputFile
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN

LIMIT = (2**63 - 1) // 1000
NEAR = [1_700_000_000_000, -1, -2, 0, -62_135_596_800_001, 253_402_300_800_000, 1_700_000_000_000_000, LIMIT, -LIMIT]
FAR = [LIMIT + 1, 1_700_000_000_000_000_000, 2**63 - 1, -LIMIT - 1, -(2**63) + 1]
TIMES = [*NEAR[:4], FAR[0], *NEAR[4:], *FAR[1:]]


def write_log(root: Path, times=TIMES, *, values=None) -> Path:
    rows = [
        {"key": b"k%d" % number, "value": values[number] if values else b'{"a":%d}' % number, "timestamp": at}
        for number, at in enumerate(times)
    ]
    directory = root / "logs" / "orders-0"
    directory.mkdir(parents=True)
    data = kafkaframes.build_records(rows, batch_records=1, negative_timestamps=True)
    (directory / f"{0:020}.log").write_bytes(data)
    return root / "logs"


def run(*arguments) -> str:
    result = CliRunner().invoke(cli, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def times_of_log(path: Path) -> list[int]:
    table = kafkaframes.scan_log(path).select("offset", "timestamp").to_arrow().sort_by("offset")
    return table.column("timestamp").cast(pa.int64()).to_pylist()


def check_rows(table: pa.Table, times=TIMES) -> None:
    """Check that near timestamps are instants, and far ones null with their number in the extra column."""
    table = table.sort_by("offset")
    unit = {"ms": 1, "us": 1000}[table.schema.field("timestamp").type.unit]
    near = [None if at in FAR else at * unit for at in times]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == near
    assert table.column(OUT_OF_RANGE_TIMESTAMPS_COLUMN).to_pylist() == [at if at in FAR else None for at in times]


def read_table(form: str, place: Path) -> pa.Table:
    if form == "delta":
        from deltalake import DeltaTable

        return DeltaTable(place).to_pyarrow_table()
    if form == "iceberg":
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("kafkaframes", uri=f"sqlite:///{place}/catalog.db")
        return catalog.load_table("kafka.records").scan().to_arrow()
    return ds.dataset(place, partitioning="hive", exclude_invalid_files=True).to_table()


FORMATS = ["parquet", "delta", "iceberg"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mode", ["raw", "json"])
def test_tables_have_timestamps_in_range_and_the_number_of_others(form, mode, tmp_path):
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}.get(form, "pyarrow"))
    logs = write_log(tmp_path)
    run("table", logs, "--topic", "orders", "--to", form, tmp_path / "t", "--mode", mode)
    check_rows(read_table(form, tmp_path / "t"))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_the_latest_rows_by_key_and_dead_letters_keep_far_timestamps(form, tmp_path):
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[form])
    values = [b"no json" if number % 2 else b'{"a":1}' for number in range(len(TIMES))]
    logs = write_log(tmp_path, values=values)
    run("table", logs, "--topic", "orders", "--to", form, tmp_path / "t", "--mode", "latest")
    check_rows(read_table(form, tmp_path / "t"))
    run("table", logs, "--topic", "orders", "--to", form, tmp_path / "j", "--mode", "json")
    assert read_table(form, tmp_path / "j").num_rows == sum(b"{" in value for value in values)
    if form == "delta":
        dead = read_table(form, tmp_path / "j-dead-letters").sort_by("offset")
        expected_times = [at if at in FAR else None for at in TIMES[1::2]]
        assert dead.column(OUT_OF_RANGE_TIMESTAMPS_COLUMN).to_pylist() == expected_times


@pytest.mark.parametrize("form", FORMATS)
def test_the_column_exists_only_if_needed_and_may_be_added_later(form, tmp_path):
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}.get(form, "pyarrow"))
    flags = ("--topic", "orders", "--to", form, tmp_path / "t", "--mode", "json")
    logs = write_log(tmp_path, NEAR)
    run("table", logs, *flags)
    assert OUT_OF_RANGE_TIMESTAMPS_COLUMN not in read_table(form, tmp_path / "t").schema.names
    more = [{"key": b"k", "value": b"{}", "timestamp": at} for at in (FAR[1], 5)]
    segment = logs / "orders-0" / f"{len(NEAR):020}.log"
    segment.write_bytes(kafkaframes.build_records(more, base_offset=len(NEAR), negative_timestamps=True))
    run("table", logs, *flags)
    if form == "parquet":  # a dataset has the schema of its first file
        files = sorted((tmp_path / "t").rglob("*.parquet"))
        table = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files], promote_options="default")
    else:
        table = read_table(form, tmp_path / "t")
    check_rows(table, [*NEAR, FAR[1], 5])


def test_iceberg_finds_rows_by_timestamp_in_files_with_any(tmp_path):
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog.sql import SqlCatalog

    run("table", write_log(tmp_path), "--topic", "orders", "--to", "iceberg", tmp_path / "t")
    table = SqlCatalog("kafkaframes", uri=f"sqlite:///{tmp_path}/t/catalog.db").load_table("kafka.records")
    assert table.scan(row_filter="timestamp >= '2023-01-01T00:00:00+00:00'").to_arrow().num_rows == 4
    assert table.scan(row_filter="timestamp < '1970-01-01T00:00:00+00:00'").to_arrow().num_rows == 4


@pytest.mark.parametrize("flags", [("-o", "one.parquet"), ("--to", "files")])
def test_an_export_to_parquet_and_back_keeps_every_timestamp(flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logs = write_log(tmp_path)
    run("export", logs, *flags)
    exported_table = ds.dataset(flags[1], format="parquet", partitioning="hive", exclude_invalid_files=True).to_table()
    check_rows(exported_table)
    run("restore", flags[1], "--to", "back")
    assert times_of_log(tmp_path / "back") == TIMES


def test_a_producer_rejects_timestamps_that_restore_writes():
    with pytest.raises(EncodeError, match="timestamp -2 is below -1"):
        kafkaframes.build_records([{"value": b"x", "timestamp": -2}])


@pytest.mark.parametrize("rows_before", [0, 2, 7])
def test_a_file_is_restarted_with_the_column_at_the_first_far_timestamp(rows_before, tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "MAX_ROW_GROUP_ROWS", 3)
    path = tmp_path / "f.parquet"

    def batch(offsets, times):
        return pa.RecordBatch.from_pydict(
            {
                "key": pa.array([b"k"] * len(offsets), pa.binary()),
                "value": pa.array([None] * len(offsets), pa.binary()),
                "offset": pa.array(offsets),
                "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
                "timestampType": pa.array([0] * len(offsets), pa.int32()),
            }
        )

    with OutputFile(str(path), "parquet", base64=False, metadata={"topic": "orders"}) as output:
        for offset in range(rows_before):
            output.write_rows(batch([offset], [offset]))
        output.write_rows(batch([rows_before, rows_before + 1], [FAR[0], 5]))
        output.write_rows(batch([rows_before + 2], [6]))
    assert output.rows == rows_before + 3
    table = pq.read_table(path)
    assert table.column("offset").to_pylist() == list(range(rows_before + 3))
    assert table.column(OUT_OF_RANGE_TIMESTAMPS_COLUMN).to_pylist() == [None] * rows_before + [FAR[0], None, None]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [*range(rows_before), None, 5, 6]
    assert pq.read_schema(path).metadata[b"topic"] == b"orders"
    assert [path.name for path in tmp_path.iterdir()] == ["f.parquet"]


def csv_times(text: str) -> list[str]:
    return [row["timestamp"] for row in csv.DictReader(io.StringIO(text))]


def test_csv_times_are_iso_dates_inside_the_calendar_and_milliseconds_outside(tmp_path):
    logs = write_log(tmp_path)
    run("export", logs, "--to", tmp_path / "c", "--format", "csv")
    (file,) = (tmp_path / "c").rglob("*.csv")
    text_by_time = {
        1_700_000_000_000: "2023-11-14 22:13:20.000Z",
        -2: "1969-12-31 23:59:59.998Z",
        0: "1970-01-01 00:00:00.000Z",
    }
    expected_texts = [text_by_time.get(at, str(at)) for at in TIMES]
    exported_times = csv_times(file.read_text())
    assert exported_times[0] == expected_texts[0]
    assert exported_times[2:] == expected_texts[2:]
    dumped_times = csv_times(run("dump-log", logs, "--format", "csv"))
    assert dumped_times == ["" if at == -1 else text for at, text in zip(TIMES, expected_texts, strict=True)]
    grep_rows = [json.loads(line) for line in run("grep", "--json", "a", logs).splitlines()]
    assert [row["timestamp_ms"] for row in grep_rows] == [None if at == -1 else at for at in TIMES]
    lines = run("grep", "a", logs).splitlines()
    assert f"orders-0@4 {FAR[0]} ms " in lines[4]
    assert "orders-0@2 1969-12-31 23:59:59 " in lines[2]


def test_a_file_of_ordinary_times_has_no_quotes_around_them(tmp_path):
    """The output of earlier versions is written byte for byte."""
    logs = write_log(tmp_path, [0, 5])
    run("export", logs, "--to", tmp_path / "c", "--format", "csv")
    (file,) = (tmp_path / "c").rglob("*.csv")
    lines = file.read_text().splitlines()
    assert lines[0].startswith('"key","value"')
    assert ",1970-01-01 00:00:00.000Z," in lines[1]
    assert ",1970-01-01 00:00:00.005Z," in lines[2]


def test_duckdb_has_timestamps_in_range_and_the_number_of_others(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    scan = kafkaframes.scan_log(write_log(tmp_path))
    scan.to_duckdb(connection, "orders")
    rows = connection.sql('SELECT "offset", epoch_ms(timestamp), "timestampMs" FROM orders ORDER BY 1').fetchall()
    assert [row[2] for row in rows] == [at if at in FAR else None for at in TIMES]
    fitting_times = [at for at in TIMES if at not in FAR and abs(at) != LIMIT]
    assert [row[1] for row in rows if row[1] in fitting_times] == fitting_times
    assert connection.sql("SELECT count(*) FROM orders WHERE timestamp >= '2023-01-01'").fetchone()[0] >= 3
    scan.where(offset=(0, 4)).to_duckdb(connection, "near")
    assert "timestampMs" not in connection.sql("SELECT * FROM near LIMIT 0").columns
    assert kafkaframes.scan_log(tmp_path / "logs").to_arrow().schema.field("timestamp").type == pa.timestamp(
        "ms", "UTC"
    )


def test_duckdb_has_the_number_of_an_early_timestamp_of_a_log(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    kafkaframes.scan_log(write_log(tmp_path, [5, -FAR[0], 6])).to_duckdb(connection, "orders")
    rows = connection.sql('SELECT epoch_ms(timestamp), "timestampMs" FROM orders ORDER BY "offset"').fetchall()
    assert rows == [(5, None), (None, -FAR[0]), (6, None)]


def test_duckdb_has_the_number_of_the_timestamps_of_a_topic(tmp_path, caplog):
    """The column exists if the topic has a far timestamp when the table is created. A later far timestamp is null, with
    a warning.
    """
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    query = 'SELECT * FROM {} ORDER BY "offset"'
    with Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        producer.send("orders", b"v", timestamp_ms=5).result()
        scan = kafkaframes.scan_topic(broker.bootstrap_servers, "orders").select("timestamp", "offset")
        scan.to_duckdb(connection, "near")
        assert connection.sql(query.format("near")).columns == ["timestamp", "offset"]
        producer.send("orders", b"v", timestamp_ms=FAR[0]).result()
        with caplog.at_level("WARNING", logger="kafkaframes.scan"):
            assert connection.sql(query.format("near")).fetchall()[1][0] is None
        assert "1 timestamp beyond the range of microseconds is null" in caplog.text
        scan.to_duckdb(connection, "far")
        rows = connection.sql(query.format("far")).fetchall()
        assert [row[2] for row in rows] == [None, FAR[0]]


@pytest.mark.parametrize("form", FORMATS)
def test_dates_and_instants_of_values_beyond_the_calendar(form, tmp_path):
    """Iceberg stores bounds of every column, not only of ``timestamp``."""
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}.get(form, "pyarrow"))
    from tests.scan.values.avro_pairs import encode_zigzag

    fields = [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ]
    (tmp_path / "r.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    rows = [
        (19_675, 1_700_000_000_000_000),
        (2**31 - 1, 2**63 - 1),
        (-(2**31), -(2**63)),
        (2_932_897, 253_402_300_800_000_000),
    ]
    values = [encode_zigzag(day) + encode_zigzag(at) for day, at in rows]
    logs = write_log(tmp_path, [0] * len(rows), values=values)
    flags = ("--topic", "orders", "--to", form, tmp_path / "t", "--mode", "avro", "--schema", tmp_path / "r.avsc")
    assert "fit the schema" not in run("table", logs, *flags)
    table = read_table(form, tmp_path / "t").sort_by("offset")
    assert table.column("day").cast(pa.int32()).to_pylist() == [day for day, _ in rows]
    assert table.column("at").cast(pa.int64()).to_pylist() == [at for _, at in rows]
