"""Records from Parquet: the same rows at the same offsets, whatever the files and the order of the rows."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.jobs.restore.test_restore import NOW_MS, SOURCES, drop_columns, log_of, new_ids, rows

import kafkaframes
from kafkaframes.errors import EncodeError, LogDirError, OptionError
from kafkaframes.jobs.restore import parquet
from kafkaframes.jobs.restore.parquet import restore_parquet
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover


def restore_export(source, destination, *, dry_run=False, **settings):
    return restore_parquet(
        str(source), destination, RestoreSettings(**settings), now_ms=NOW_MS, new_id=new_ids(), dry_run=dry_run
    )


def table(*, topic="t", partition=0, offsets=None, count=None, start=0):
    numbers = list(offsets) if offsets is not None else list(range(start, start + count))
    columns = {
        "topic": [topic] * len(numbers),
        "partition": pa.array([partition] * len(numbers), pa.int32()),
        "key": [b"k%d" % (number % 7) for number in numbers],
        "value": [None if number % 11 == 0 else b"v" * (number % 40) for number in numbers],
        "timestamp": pa.array([1_700_000_000_000 + number for number in numbers], pa.timestamp("ms", tz="UTC")),
    }
    if offsets is not None:
        columns["offset"] = pa.array(numbers, pa.int64())
    return pa.table(columns)


@pytest.mark.parametrize("source", SOURCES[:2], ids=lambda path: path.name)
def test_an_export_is_restored_unchanged(tmp_path, source):
    command = [sys.executable, "-m", "kafkaframes", "export", str(source), "--to", str(tmp_path / "out")]
    command += ["--isolation", "read_uncommitted"]
    subprocess.run(command, check=True, capture_output=True)
    report = restore_export(tmp_path / "out", tmp_path / "new", codec="lz4", segment_bytes=20_000)
    new = log_of(tmp_path / "new")
    for name, partition in log_of(source).items():
        if not name.topic.startswith("__"):
            expected_rows = [row for row in rows(partition) if not row["control"]]
            assert drop_columns(rows(new[name]), "transactional") == drop_columns(expected_rows, "transactional")
    assert max(partition.segments for partition in report.partitions) > 2
    assert verify(discover(str(tmp_path / "new"))).findings == []
    assert restore_export(tmp_path / "out", tmp_path / "new", codec="lz4", segment_bytes=20_000).done_before


def test_files_may_be_given_in_any_order(tmp_path):
    pq.write_table(table(offsets=[9, 3, 5]), tmp_path / "a.parquet")
    pq.write_table(pa.concat_tables([table(offsets=[1]), table(partition=2, offsets=[7])]), tmp_path / "b.parquet")
    restore_export(tmp_path, tmp_path / "new")
    new = log_of(tmp_path / "new")
    assert [row["offset"] for row in rows(new[TopicPartition("t", 0)])] == [1, 3, 5, 9]
    assert new[TopicPartition("t", 0)].log_start_offset == 1
    assert TopicPartition("t", 1) not in new
    assert [row["offset"] for row in rows(new[TopicPartition("t", 2)])] == [7]


def test_a_partition_that_cannot_be_sorted_in_memory_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_SORTED_BYTES", 10)
    pq.write_table(table(offsets=[9, 3, 5]), tmp_path / "a.parquet")
    with pytest.raises(OptionError, match="use Spark"):
        restore_export(tmp_path / "a.parquet", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize(
    ("record_format", "codec"),
    [(2, "zstd"), *product((0, 1, 2), ("none", "gzip", "snappy", "lz4"))],
)
def test_offsets_are_assigned_in_every_format(tmp_path, record_format, codec):
    pq.write_table(table(count=500), tmp_path / "a.parquet")
    options = {"record_format": record_format, "codec": codec, "batch_bytes": 1000, "start_offset": 40}
    restore_export(tmp_path / "a.parquet", tmp_path / "new", offsets="reassign", topic_map=(("t", "u"),), **options)
    restored_rows = rows(log_of(tmp_path / "new")[TopicPartition("u", 0)])
    assert [row["offset"] for row in restored_rows] == list(range(40, 540))
    assert [(row["key"], row["value"]) for row in restored_rows] == [
        (row["key"], row["value"]) for row in table(count=500).to_pylist()
    ]
    if record_format:
        assert [row["timestamp"] for row in restored_rows] == table(count=500).column("timestamp").to_pylist()
    assert verify(discover(str(tmp_path / "new"))).findings == []


def test_ranges_topics_and_partitions_are_selected(tmp_path):
    every = [table(topic=topic, partition=number, offsets=range(100)) for topic in ("t", "u") for number in (0, 1)]
    pq.write_table(pa.concat_tables(every), tmp_path / "a.parquet")
    settings = {"topics": ("t",), "partitions": (1,), "start": 10}
    restore_export(tmp_path / "a.parquet", tmp_path / "new", end="2023-11-14T22:13:20.030", **settings)
    new = log_of(tmp_path / "new")
    assert list(new) == [TopicPartition("t", 1)]
    assert [row["offset"] for row in rows(new[TopicPartition("t", 1)])] == list(range(10, 30))
    restore_export(tmp_path / "a.parquet", tmp_path / "late", start="2023-11-14T22:13:20.090", topics=("u",))
    assert len(rows(log_of(tmp_path / "late")[TopicPartition("u", 0)])) == 10


@pytest.mark.parametrize(
    ("columns", "error", "reason"),
    [
        ({"topic": ["t"], "value": [b"v"]}, OptionError, "no column partition"),
        ({"topic": [None], "partition": [0], "value": [b"v"]}, OptionError, "without a topic"),
        ({"topic": ["a b"], "partition": [0], "value": [b"v"]}, OptionError, "not a valid topic name"),
        ({"topic": ["__x"], "partition": [0], "value": [b"v"]}, OptionError, "nothing to restore"),
        ({"topic": ["t"] * 2, "partition": [0] * 2, "value": [b"v"] * 2, "offset": [3, 3]}, EncodeError, "increase"),
        ({"topic": ["t"], "partition": [0], "value": [b"v"], "offset": [-3]}, EncodeError, "negative"),
    ],
)
def test_a_table_without_record_columns_is_rejected(tmp_path, columns, error, reason):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(error, match=reason):
        restore_export(tmp_path / "a.parquet", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_a_file_that_is_not_parquet_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(LogDirError, match="cannot be read as Parquet"):
        restore_export(tmp_path / "a.parquet", tmp_path / "new")


def test_the_function_and_the_command_detect_the_kind_of_the_source(tmp_path):
    pq.write_table(table(count=5), tmp_path / "a.parquet")
    report = kafkaframes.restore_log(tmp_path / "a.parquet", tmp_path / "one", codec="gzip")
    assert report.partitions[0].log_end_offset == 5
    assert kafkaframes.restore_log([SOURCES[1]], tmp_path / "two").partitions
    command = [sys.executable, "-m", "kafkaframes", "restore", str(tmp_path / "a.parquet"), "--to", str(tmp_path / "c")]
    assert "t-0" in subprocess.run([*command, "--dry-run"], check=True, capture_output=True, text=True).stdout
    assert not (tmp_path / "c").exists()


# Batches from rows


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        (pa.array([0.0, 1.5]), "column partition has type double, expected an integer"),
        (pa.array(["0", "1"]), "column partition has type string, expected an integer"),
        (pa.array([0, 2**31], pa.int64()), "rows for partition 2147483648; partitions are numbered 0 to"),
        (pa.array([0, -1], pa.int64()), "rows for partition -1; partitions are numbered 0 to"),
        (pa.array([0, None], pa.int64()), "rows without a topic or partition"),
    ],
)
def test_an_invalid_partition_is_rejected_by_name(tmp_path, partitions, reason):
    pq.write_table(
        pa.table({"topic": ["t", "t"], "partition": partitions, "value": [b"a", b"b"]}), tmp_path / "a.parquet"
    )
    with pytest.raises(OptionError, match=reason):
        restore_export(tmp_path / "a.parquet", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("column", ["offset", "timestamp", "value"])
def test_a_column_of_another_type_is_rejected_by_name(tmp_path, column):
    columns = {"topic": ["t"], "partition": [0], "value": [b"a"], column: pa.array([1.5])}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(OptionError, match=f"column {column} has type double"):
        restore_export(tmp_path / "a.parquet", tmp_path / "new")


@pytest.mark.parametrize("partition", [100_000, 2**31 - 1])
def test_only_partitions_with_rows_are_created(tmp_path, partition):
    pq.write_table(table(partition=partition, count=3), tmp_path / "a.parquet")
    report = restore_export(tmp_path / "a.parquet", tmp_path / "new")
    assert [
        (partition.partition, partition.records_read, partition.records_written) for partition in report.partitions
    ] == [(partition, 3, 3)]
    assert [path.name for path in (tmp_path / "new").glob("t-*")] == [f"t-{partition}"]


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("record_format", [0, 1, 2])
def test_the_report_has_the_rows_read_and_records_written(tmp_path, record_format, codec):
    pq.write_table(table(offsets=range(500)), tmp_path / "a.parquet")
    report = restore_export(
        tmp_path, tmp_path / "new", record_format=record_format, codec=codec, batch_bytes=700, start=17
    )
    (one,) = report.partitions
    assert (one.records_read, one.records_written) == (500, 483)
    assert one.records_left_out == {"outside the selected offsets or times": 17}


def test_rows_lost_in_the_job_fail_it(tmp_path, monkeypatch):
    pq.write_table(table(offsets=range(50)), tmp_path / "a.parquet")
    batches = parquet._read_batches
    monkeypatch.setattr(
        parquet,
        "_read_batches",
        lambda *arguments: (batch.slice(0, batch.num_rows - 1) for batch in batches(*arguments)),
    )
    with pytest.raises(LogDirError, match="50 records were read, 49 written"):
        restore_export(tmp_path / "a.parquet", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_a_footer_with_wrong_column_types_is_an_error_and_not_a_crash(tmp_path):
    """For such a footer, reading the statistics makes Arrow throw where Python cannot catch it."""
    out = tmp_path / "a.parquet"
    pq.write_table(table(offsets=[3, 5]), out)
    int64, unknown = b"\x15\x04\x19", b"\x15\x7e\x19"  # Thrift: a column's type, before the list of its encodings
    raw = out.read_bytes()
    footer = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    assert int64 in raw[footer:]
    out.write_bytes(raw[:footer] + raw[footer:].replace(int64, unknown))
    command = [sys.executable, "-m", "kafkaframes", "restore", str(out), "--to", str(tmp_path / "new")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (process.returncode, "Traceback" in process.stderr) == (2, False), process.stderr
    assert "a.parquet" in process.stderr


def test_files_without_statistics_are_read_in_the_order_of_their_first_offsets(tmp_path):
    for name, offsets in (("c", [1, 2]), ("b", [3, 4]), ("a", [5, 6])):
        pq.write_table(table(offsets=offsets), tmp_path / f"{name}.parquet", write_statistics=False)
    restore_export(tmp_path, tmp_path / "new")
    (partition,) = log_of(tmp_path / "new").values()
    assert [row["offset"] for row in rows(partition)] == [1, 2, 3, 4, 5, 6]
