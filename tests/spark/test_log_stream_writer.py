"""``df.writeStream.format("kafka-log")``: each row once, through failed tasks, killed workers and repeated batches."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.scan.log.test_following import append_records

from kafkaframes.jobs.restore.writing.marks import read_marks
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.scan.stream_offsets import StreamOffsets
from kafkaframes.spark.sinks.log_writer import STAGING_DIRECTORY
from kafkaframes.storage.log.discover import discover

pytestmark = pytest.mark.spark


def run(spark, folder: Path, change=None, *, starting="earliest", name="checkpoint", **options) -> None:
    """Stream ``folder/in`` to ``folder/out`` until all rows are written."""
    stream = spark.readStream.format("kafka-log").option("startingOffsets", starting)
    frame = stream.option("columns", "key,value,offset").load(str(folder / "in"))
    frame = frame.selectExpr("key", "CAST(offset AS string) AS value")
    if change is not None:
        frame = frame.mapInArrow(change, frame.schema)
    writer = frame.writeStream.format("kafka-log").options(topic="t", numPartitions=2, **options)
    writer = writer.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
    assert writer.start(str(folder / "out")).awaitTermination(240)


def values(spark, folder: Path) -> list[int]:
    rows = spark.read.format("kafka-log").option("columns", "value").load(str(folder / "out")).collect()
    return sorted(int(row.value) for row in rows)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def fail(batches):
    yield from batches
    raise ValueError("a task fails")


def die(batches):
    yield from batches
    os.kill(os.getpid(), signal.SIGKILL)


def test_rows_are_written_once_after_failures_and_repeated_batches(spark, tmp_path):
    (tmp_path / "in").mkdir()
    append_records(tmp_path / "in", 0, 50)
    for change, message in ((fail, "a task fails"), (die, "Python worker exited|crashed|SparkException")):
        with pytest.raises(Exception, match=message):
            run(spark, tmp_path, change)
        # If a worker starts a writer after Spark has given up the batch, the next commit removes its staging files.
        assert all(STAGING_DIRECTORY in name for name in names(tmp_path) - {"in", "checkpoint"})
    run(spark, tmp_path)
    append_records(tmp_path / "in", 50, 30, roll=True)
    run(spark, tmp_path)
    assert values(spark, tmp_path) == list(range(80))
    commits = tmp_path / "checkpoint" / "commits"
    newest = max(int(name) for name in names(commits) if name.isdigit())
    for name in (str(newest), f".{newest}.crc"):  # as if the query had been killed before it stored its commit
        (commits / name).unlink()
    run(spark, tmp_path)
    assert values(spark, tmp_path) == list(range(80))
    assert names(tmp_path) == {"in", "out", "checkpoint"}
    (mark,) = read_marks(tmp_path / "out").values()
    assert (mark.batch_id, mark.checkpoint) == (newest, str(tmp_path / "checkpoint"))
    (line,) = mark.ends
    end = StreamOffsets.from_json(json.loads(line))
    assert end.offsets == {("t", 0): 80}
    assert [row.offset for row in end.fingerprints["t", 0]] == [77, 78, 79]  # the log has no topic id
    assert verify(discover(str(tmp_path / "out")), deep=True).findings == []


def test_a_restored_or_deleted_checkpoint_is_rejected(spark, tmp_path):
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    (tmp_path / "in").mkdir()
    append_records(tmp_path / "in", 0, 20)
    run(spark, tmp_path)
    shutil.copytree(checkpoint, copy)
    append_records(tmp_path / "in", 20, 20, roll=True)
    run(spark, tmp_path)
    append_records(tmp_path / "in", 40, 20, roll=True)
    shutil.rmtree(checkpoint)
    for reason in ("the checkpoint was deleted", "ends at other offsets"):
        with pytest.raises(Exception, match=rf'does not fit.*{reason}.*startingOffsets=\{{"t":\{{"0":40\}}'):
            run(spark, tmp_path)
        assert values(spark, tmp_path) == list(range(40))
        shutil.rmtree(checkpoint)
        copy.exists() and copy.rename(checkpoint)
    run(spark, tmp_path, starting='{"t": {"0": 40}}', name="new")
    assert values(spark, tmp_path) == list(range(60))


def test_output_mode_complete_replaces_the_rows(spark, tmp_path):
    (tmp_path / "in").mkdir()
    append_records(tmp_path / "in", 0, 30)
    stream = spark.readStream.format("kafka-log").option("startingOffsets", "earliest").load(str(tmp_path / "in"))
    counts = stream.groupBy("topic").count().selectExpr("CAST(topic AS binary) key", "CAST(count AS string) value")
    for total in (30, 50):
        writer = counts.writeStream.format("kafka-log").outputMode("complete").option("topic", "counts")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        assert writer.start(str(tmp_path / "out")).awaitTermination(240)
        assert values(spark, tmp_path) == [total]
        append_records(tmp_path / "in", 30, 20)
