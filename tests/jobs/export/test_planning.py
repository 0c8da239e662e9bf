"""An export whose tasks run on Spark."""

import shutil

import pyarrow.parquet as pq
import pytest
from tests.cli.export_calls import files
from tests.spark.truth import EXAMPLE_LOG_DIR

import kafkaframes
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.jobs.export import run
from kafkaframes.jobs.export.run import export_segments
from kafkaframes.jobs.export.task import ExportTaskSettings


@pytest.mark.spark
def test_an_export_by_spark_has_the_same_rows_and_is_read_back(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "TARGET_JOB_LOG_BYTES", 200_000)
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.spark.options import parse_log_options
    from kafkaframes.spark.runtime.jobs import create_runner

    tasks = plan_export(parse_log_options({"path": str(EXAMPLE_LOG_DIR), "subscribe": "orders,payments"})).tasks
    outcome = export_segments(tasks, ExportTaskSettings(str(tmp_path / "spark")), run=create_runner(spark))
    assert (outcome.summary.records, len(outcome.failed)) == (7_183, 0)
    export_segments(tasks, ExportTaskSettings(str(tmp_path / "here")))
    assert files(tmp_path / "spark") == files(tmp_path / "here")
    names = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
    exported_frame = spark.read.parquet(str(tmp_path / "spark")).select(*names)
    direct = (
        spark.read.format("kafka-log")
        .options(includeHeaders="true", subscribe="orders,payments")
        .load(str(EXAMPLE_LOG_DIR))
        .select(*names)
    )
    order = ("topic", "partition", "offset")
    assert exported_frame.sort(*order).toArrow() == direct.sort(*order).toArrow()


@pytest.mark.spark
def test_a_failure_on_spark_is_reported_in_one_line(spark, tmp_path):
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.spark.options import parse_log_options
    from kafkaframes.spark.runtime.jobs import create_runner

    tasks = plan_export(parse_log_options({"path": str(EXAMPLE_LOG_DIR), "subscribe": "orders"})).tasks
    to = tmp_path / "out"

    def break_write(function, jobs):
        shutil.rmtree(to / "_kafkaframes" / "tmp")
        return create_runner(spark)(function, jobs)

    with pytest.raises(KafkaframesError, match=r"`to` .*/out: cannot be written: [^\n]*$"):
        export_segments(tasks, ExportTaskSettings(str(to)), run=break_write)
    assert not (to / "_SUCCESS").exists()


def write_segment(path, value, *, topic_id=None):
    from kafkaframes.records.build import build_records

    (path / "t-0").mkdir(parents=True, exist_ok=True)
    raw = build_records({"value": [value], "timestamp": [1]})
    (path / "t-0" / f"{0:020}.log").write_bytes(raw)
    if topic_id is not None:
        (path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


@pytest.mark.parametrize("topic_ids", [(None, None), ("A" * 21 + "Q", "A" * 21 + "g")], ids=["content", "topic id"])
def test_a_segment_of_another_log_with_the_same_size_is_rejected(tmp_path, topic_ids):
    """A size does not identify a segment: an export of another log, or of a recreated topic, was taken for complete."""
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.jobs.export.run import export_segments
    from kafkaframes.jobs.export.task import ExportTaskSettings
    from kafkaframes.scan.log.options import ReadOptions

    def run():
        return export_segments(
            plan_export(ReadOptions((str(tmp_path / "log"),))).tasks, ExportTaskSettings(str(tmp_path / "out"))
        )

    write_segment(tmp_path / "log", b"one", topic_id=topic_ids[0])
    assert (run().exported, run().resumed) == (1, 1)
    write_segment(tmp_path / "log", b"two" if topic_ids[0] is None else b"one", topic_id=topic_ids[1])
    with pytest.raises(OptionError, match="is not the segment that was exported"):
        run()


def write_log(path, texts, *, batch_records=1):
    """Write a log without a topic id, with these record values."""
    rows = [{"value": text.encode(), "offset": n, "timestamp": n} for n, text in texts]
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{0:020}.log").write_bytes(kafkaframes.build_records(rows, batch_records=batch_records))


def test_a_segment_of_another_log_with_another_size_is_rejected(tmp_path):
    """The logs have no topic ids (as before Kafka 2.8). Their first batch or the last records that were read differ."""
    log, to = tmp_path / "logs" / "t-0", tmp_path / "out"

    def export():
        return kafkaframes.export_log(log.parent, to)

    old = [(n, f"old {n}") for n in range(5)]
    write_log(log, old)
    export()
    write_log(log, [(n, f"new {n}") for n in range(9)])
    with pytest.raises(OptionError, match="it is larger, but begins with another batch"):
        export()
    write_log(log, [*old[:3], *((n, f"new {n}") for n in range(3, 9))])
    with pytest.raises(
        OptionError, match=r"at offset 3 it had a record with timestamp 3, .*, and now has a record with .*digest"
    ):
        export()
    write_log(log, [(0, "n"), (4, "new 4")])
    with pytest.raises(OptionError, match="at offset 4 it had a record"):
        export()

    write_log(log, [old[1], old[4]])  # compacted
    export()
    write_log(log, [old[1], old[4], (5, "more")])
    export()
    assert [row["offset"] for row in pq.read_table(next(to.rglob("*.parquet")), partitioning=None).to_pylist()] == [
        1,
        4,
        5,
    ]


def test_a_swap_file_that_a_broker_has_installed_is_not_exported_twice(tmp_path):
    from kafkaframes.jobs.export.planning import plan_export
    from kafkaframes.jobs.export.run import export_segments
    from kafkaframes.jobs.export.task import ExportTaskSettings
    from kafkaframes.scan.log.options import ReadOptions

    write_segment(tmp_path / "log", b"one")
    segment = tmp_path / "log" / "t-0" / f"{0:020}.log"
    segment.rename(f"{segment}.swap")
    for _ in range(2):
        export_segments(
            plan_export(ReadOptions((str(tmp_path / "log"),))).tasks, ExportTaskSettings(str(tmp_path / "out"))
        )
        if not segment.exists():
            (segment.parent / f"{segment.name}.swap").rename(segment)
    assert [path.name for path in (tmp_path / "out").rglob("*.parquet")] == [f"{0:020}.parquet"]
