"""Rows written to a log directory: the resulting files, which are complete or unchanged."""

import fcntl
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.errors import EncodeError, LogDirError, OptionError
from kafkaframes.jobs.restore.writing import RunCommitter, RunWriter, TargetState, WriteSettings
from kafkaframes.jobs.restore.writing.commit import APPEND_DIRECTORY
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.batch import read_batches
from kafkaframes.records.scan import scan_all
from kafkaframes.storage.files import atomic, names
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": HEADERS,
}


def new_id() -> str:
    return "AAAAAAAAAAAAAAAAAAAAAQ"


def rows(**columns) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(values, TYPES[name]) for name, values in columns.items()})


def write(path: Path, *tasks: pa.RecordBatch, overwrite: bool = False, **options):
    """Write as Spark does: a task writer for each task, then one commit."""
    target = TargetState.inspect_target(str(path))
    settings = WriteSettings(**{"now_ms": 5000, "partitions": {} if overwrite else target.counts} | options)
    staging = path.with_name("staging")
    runs = []
    for number, batch in enumerate(tasks):
        directory = staging / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.iterdir():
            old.unlink()
        writer = RunWriter(directory, settings, task=number)
        for start in range(0, batch.num_rows, 100):
            writer.add_rows(batch.slice(start, 100))
        runs += writer.finish()
    return RunCommitter(target, settings, overwrite, new_id, map).commit(runs)


def records(path: Path, name: str = "t-0") -> list[tuple]:
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for file in sorted((path / name).glob("*.log"))
        for batch in read_batches(file.read_bytes())
        for record in batch.records
    ]


def snapshot(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in path.rglob("*")
        if one.is_file() and one.name != ".lock"  # an empty file, which brokers also leave
    }


def assert_sound(path: Path) -> None:
    """Assert that a broker has nothing to recover, and that every file matches its name."""
    (directory,) = discover(str(path))
    assert directory.problems == ()
    assert directory.clean_shutdown is not None
    assert verify([directory], deep=True).findings == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_format_and_codec_keeps_the_order_of_the_tasks(tmp_path, magic, codec):
    if codec == "zstd" and magic < 2:
        with pytest.raises(EncodeError, match="zstd requires record format 2"):
            WriteSettings(now_ms=0, record_format=magic, codec=codec)
        return
    batches = [rows(key=[b"k%d" % n] * 40, value=[b"%d-%d" % (n, i) for i in range(40)]) for n in range(3)]
    written_logs = write(
        tmp_path / "logs", *batches, topic="t", record_format=magic, codec=codec, batch_records=7, segment_bytes=900
    )
    expected_records = [
        (40 * n + i, -1 if magic == 0 else 5000, b"k%d" % n, b"%d-%d" % (n, i)) for n in range(3) for i in range(40)
    ]
    assert records(tmp_path / "logs") == expected_records
    assert written_logs[TopicPartition("t", 0)].log_end_offset == 120
    assert len(list((tmp_path / "logs" / "t-0").glob("*.log"))) > 1
    assert (tmp_path / "logs" / "_SUCCESS").exists()
    assert_sound(tmp_path / "logs")


def test_offsets_are_assigned_without_recompression(tmp_path):
    batches = [rows(value=[b"%d" % i for i in range(50)]) for _ in range(2)]
    write(tmp_path / "logs", *batches, topic="t", codec="zstd")
    run = (tmp_path / "staging" / "0" / "run-000000").read_bytes()
    log = (tmp_path / "logs" / "t-0" / f"{0:020}.log").read_bytes()
    scanned_batches = scan_all(log)
    assert scanned_batches.column("base_offset").tolist() == [0, 50]
    assert scanned_batches.column("leader_epoch").tolist() == [0, 0]
    for position in scanned_batches.column("position").tolist():
        assert log[position + 16 : position + len(run)] == run[16:]  # from the magic byte on


def test_null_times_are_the_current_time_and_fractions_are_truncated(tmp_path):
    stamps = [None, 1_700_000_000_123_999, -1]
    write(tmp_path / "logs", rows(value=[b"a", b"b", b"c"], timestamp=stamps), topic="t")
    assert [timestamp for _, timestamp, _, _ in records(tmp_path / "logs")] == [5000, 1_700_000_000_123, -1]


def test_an_append_continues_at_the_end_of_the_log(tmp_path):
    path = tmp_path / "logs"
    write(path, rows(key=[b"a", b"b"] * 5, value=[b"1"] * 10), topic="t", num_partitions=2)
    before = {name: records(path, name) for name in ("t-0", "t-1")}
    name = max(before, key=lambda name: len(before[name]))
    epochs = f"0\n2\n0 0\n7 {len(before[name])}\n"
    (path / name / "leader-epoch-checkpoint").write_text(epochs)
    write(path, rows(key=[b"a", b"b"] * 5, value=[b"2"] * 10), topic="t", codec="lz4")
    for one, old in before.items():
        both = records(path, one)
        assert both[: len(old)] == old
        assert [record[0] for record in both] == list(range(2 * len(old)))
        assert [record[2] for record in both] == [record[2] for record in old] * 2
    assert sum(map(len, before.values())) == 10
    newest = max((path / name).glob("*.log"))
    assert scan_all(newest.read_bytes()).column("leader_epoch").tolist() == [7]
    assert (path / name / "leader-epoch-checkpoint").read_text() == epochs
    write(path, rows(value=[b"x"], topic=["other"]))
    assert records(path, "other-0") == [(0, 5000, None, b"x")]
    assert {one.name for one in path.iterdir() if one.is_dir()} == {"t-0", "t-1", "other-0"}
    assert_sound(path)
    (directory,) = discover(str(path))
    ends = directory.offset_checkpoints[names.HIGH_WATERMARK_CHECKPOINT]
    assert {str(one): end for one, end in ends.items()} == {
        "t-0": 2 * len(before["t-0"]),
        "t-1": 2 * len(before["t-1"]),
        "other-0": 1,
    }


@pytest.mark.parametrize("failing", range(7, 18))
def test_a_killed_append_is_completed_by_the_next(tmp_path, monkeypatch, failing):
    path = tmp_path / "logs"
    write(path, rows(key=[b"a", b"b"], value=[b"1", b"1"]), topic="t", num_partitions=2)
    old, moves = snapshot(path), [0]
    replace = Path.replace

    def kill(self, target):
        if APPEND_DIRECTORY in str(self):
            moves[0] += 1
            if moves[0] == failing + 1:
                raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", kill)
    try:
        write(path, rows(key=[b"a", b"b"], value=[b"2", b"2"]), topic="t")
    except LogDirError:
        assert moves[0] == failing + 1
        assert snapshot(path).items() >= {n: b for n, b in old.items() if n.endswith(".log")}.items()
        if not (path / APPEND_DIRECTORY).exists():  # not committed
            assert snapshot(path) == old
            return
        assert not (path / names.CLEAN_SHUTDOWN_FILE).exists()
    monkeypatch.undo()
    write(path, rows(value=[b"3"], topic=["other"]))
    values = sorted(record[3] for name in ("t-0", "t-1") for record in records(path, name))
    assert values == [b"1", b"1", b"2", b"2"]
    assert_sound(path)


def test_a_full_disk_leaves_the_log_unchanged(tmp_path, monkeypatch):
    path = tmp_path / "logs"
    write(path, rows(value=[b"1"]), topic="t")
    old = snapshot(tmp_path)
    open_new = atomic.open_new

    def full(target: Path):
        if target.name.startswith(f"{1:020}.timeindex"):
            raise OSError(28, "No space left on device")
        return open_new(target)

    monkeypatch.setattr(atomic, "open_new", full)
    with pytest.raises(LogDirError, match="No space left"):
        write(path, rows(value=[b"2"]), topic="t")
    monkeypatch.undo()
    assert {n: b for n, b in snapshot(tmp_path).items() if "staging" not in n and n.startswith("logs/t")} == {
        n: b for n, b in old.items() if n.startswith("logs/t")
    }
    assert {one.name for one in path.parent.iterdir()} == {"logs", "staging"}
    write(path, rows(value=[b"2"]), topic="t")
    assert [record[3] for record in records(path)] == [b"1", b"2"]


def test_new_partitions_are_added_to_the_controllers_metadata_or_rejected(tmp_path):
    path = tmp_path / "logs"
    write(path, rows(value=[b"1"]), topic="t")
    first = (path / "bootstrap.checkpoint").read_bytes()
    write(path, rows(value=[b"1"]), topic="other", num_partitions=2)
    assert len((path / "bootstrap.checkpoint").read_bytes()) > len(first)
    (path / "__cluster_metadata-0").mkdir()
    (path / "__cluster_metadata-0" / f"{0:020}.log").write_bytes(b"")
    old = snapshot(path)
    with pytest.raises(LogDirError, match="third-0 is unknown to the cluster"):
        write(path, rows(value=[b"1"]), topic="third")
    assert snapshot(path) == old
    write(path, rows(value=[b"2"]), topic="t")
    assert [record[3] for record in records(path)] == [b"1", b"2"]


def test_an_overwrite_replaces_the_directory(tmp_path):
    path = tmp_path / "logs"
    write(path, rows(value=[b"1"]), topic="old", num_partitions=3)
    write(path, rows(value=[b"2"]), topic="new", overwrite=True)
    assert {one.name for one in path.iterdir() if one.is_dir()} == {"new-0"}
    path.rename(tmp_path / "logs.kafkaframes-old")  # as after a commit that was killed between two renames
    write(path, rows(value=[b"3"]), topic="new")
    assert [record[3] for record in records(path, "new-0")] == [b"2", b"3"]
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "staging"}


def test_other_directories_and_those_in_use_are_rejected(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    with pytest.raises(LogDirError, match="is not a log directory"):
        write(tmp_path / "photos", rows(value=[b"1"]), topic="t", overwrite=True)
    path = tmp_path / "logs"
    write(path, rows(value=[b"1"]), topic="t")
    with (path / ".lock").open("a+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        # The lock belongs to this process, so another one must try.
        import subprocess
        import sys

        code = (
            "import sys; from pathlib import Path; sys.path[:0] = [sys.argv[2]]\n"
            "from kafkaframes.jobs.restore.writing import RunCommitter, TargetState, WriteSettings\n"
            "target = TargetState.inspect_target(sys.argv[1])\n"
            "RunCommitter(target, WriteSettings(now_ms=0, topic='t'), False, str, map).commit([])"
        )
        source = Path(atomic.__file__).parents[4]
        process = subprocess.run([sys.executable, "-c", code, str(path), str(source)], capture_output=True, text=True)
        assert "a broker is using this directory" in process.stderr
    (path / names.CLEAN_SHUTDOWN_FILE).unlink()
    with pytest.raises(LogDirError, match="did not shut down cleanly"):
        write(path, rows(value=[b"1"]), topic="t")
    with pytest.raises(OptionError, match="not to object stores"):
        TargetState.inspect_target("s3://bucket/logs")


def test_given_offsets_are_kept(tmp_path):
    one, other = rows(offset=[10, 12], value=[b"c", b"d"]), rows(offset=[3, 7], value=[b"a", b"b"])
    write(tmp_path / "logs", one, other, topic="t", keep_offsets=True)
    assert [record[0] for record in records(tmp_path / "logs")] == [3, 7, 10, 12]
    with pytest.raises(LogDirError, match="t-0: a task has offsets from 12 on"):
        write(tmp_path / "logs", rows(offset=[12], value=[b"x"]), topic="t", keep_offsets=True)
    with pytest.raises(EncodeError, match="task 0, row 1: offset 13 follows 14"):
        write(tmp_path / "logs", rows(offset=[14, 13], value=[b"x", b"y"]), topic="t", keep_offsets=True)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"value": [b"", b"x" * 2000]}, {"max_message_bytes": 1000}, "task 0, row 1: a record of about 2,082 bytes"),
        (
            {"value": [b"", b""], "headers": [None, [{"key": "a", "value": b""}]]},
            {"record_format": 1},
            "row 1: record format 1 does not",
        ),
    ],
)
def test_invalid_rows_are_named(tmp_path, columns, options, message):
    with pytest.raises(EncodeError, match=message):
        write(tmp_path / "logs", rows(**columns), topic="t", **options)
    assert not (tmp_path / "logs").exists()


def test_many_rows_are_written_in_portions(tmp_path, monkeypatch):
    monkeypatch.setattr("kafkaframes.jobs.restore.writing.runs.MAX_PENDING_BYTES", 5000)
    keys = [b"%d" % (n % 50) for n in range(3000)]
    write(tmp_path / "logs", rows(key=keys, value=keys), topic="t", num_partitions=4)
    records_by_partition = [records(tmp_path / "logs", f"t-{n}") for n in range(4)]
    assert sum(map(len, records_by_partition)) == 3000
    assert all([record[0] for record in one] == list(range(len(one))) for one in records_by_partition)
    assert_sound(tmp_path / "logs")
    assert np.unique([record[2] for one in records_by_partition for record in one]).size == 50


@pytest.mark.parametrize("record_format", [1, 2])
def test_timestamps_below_minus_one_are_written_unchanged(record_format, tmp_path):
    """A log may contain them (IBM/sarama#907), and a copy of a log has to keep them, like ``restore``."""
    times = [-2, -1000, -86_400_000, 5]
    written_table = rows(topic=["t"] * 4, value=[b"v"] * 4, timestamp=[at * 1000 for at in times])
    write(tmp_path / "logs", written_table, record_format=record_format)
    if record_format == 2:
        assert [timestamp for _, timestamp, *_ in records(tmp_path / "logs")] == times
    table = kafkaframes.scan_log(tmp_path / "logs").select("timestamp").to_arrow()
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == times
