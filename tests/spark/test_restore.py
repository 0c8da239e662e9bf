"""A DataFrame is restored to the same log as the same rows without Spark, byte for byte. A failed restore leaves no
output.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import KafkaframesError, LogDirError, OptionError
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.spark.runtime import jobs
from kafkaframes.storage.log.discover import discover

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = str(DATA / "examples" / "kafka-4.3")
IDS = {"topic_ids": (("orders", "A" * 22), ("payments", "A" * 21 + "Q"))}


def records_of(spark, path):
    return spark.read.format("kafka-log").option("includeHeaders", "true").load(str(path))


def logs_of(path):
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(Path(path).rglob("*"))
        if one.is_file() and one.parent != Path(path)
    }


def test_a_dataframe_parquet_and_spark_tasks_write_the_same_files(spark, tmp_path):
    frame = records_of(spark, EXAMPLE)
    frame = frame.where("topic in ('orders', 'payments')")
    frame.repartition(3, "offset").write.parquet(str(tmp_path / "parquet"))
    options = {"codec": "lz4", "segment_bytes": 30_000, **IDS}
    report = kafkaframes.spark.restore_log(frame, str(tmp_path / "frame"), **options)
    here = kafkaframes.restore_log(tmp_path / "parquet", tmp_path / "here", **options)
    assert logs_of(tmp_path / "frame") == logs_of(tmp_path / "here")
    assert [
        (partition.topic, partition.partition, partition.batches, partition.log_end_offset)
        for partition in report.partitions
    ] == [
        (partition.topic, partition.partition, partition.batches, partition.log_end_offset)
        for partition in here.partitions
    ]
    assert len(report.partitions) == 5
    assert verify(discover(str(tmp_path / "frame"))).findings == []
    assert kafkaframes.spark.restore_log(frame, str(tmp_path / "frame"), **options).done_before
    restored_frame = records_of(spark, tmp_path / "frame")
    assert sorted(map(repr, restored_frame.collect())) == sorted(map(repr, frame.collect()))


def test_segments_are_restored_by_spark_workers_with_the_same_result(spark, tmp_path):
    from kafkaframes.jobs.restore.job import restore
    from kafkaframes.jobs.restore.settings import RestoreSettings

    options = RestoreSettings(topics=("orders", "payments"), offsets="reassign", **IDS)
    there = restore(EXAMPLE, tmp_path / "there", options, run=jobs.create_runner(spark))
    here = restore(EXAMPLE, tmp_path / "here", options)
    assert there.partitions == here.partitions
    of_users = {name: raw for name, raw in logs_of(tmp_path / "here").items() if not name.startswith("__")}
    assert {name: raw for name, raw in logs_of(tmp_path / "there").items() if not name.startswith("__")} == of_users


def test_rows_without_offsets_are_numbered_in_the_order_of_the_dataframe(spark, tmp_path):
    frame = spark.createDataFrame(
        [("t", 0, f"v{number}") for number in range(100)], "topic string, partition int, value string"
    ).coalesce(1)
    kafkaframes.spark.restore_log(frame, str(tmp_path / "new"), start_offset=7, offsets="reassign", codec="zstd")
    rows = records_of(spark, tmp_path / "new").orderBy("offset").collect()
    assert [(row["offset"], bytes(row["value"])) for row in rows] == [(7 + n, b"v%d" % n) for n in range(100)]


@pytest.mark.parametrize(
    ("rows", "schema", "settings", "error", "reason"),
    [
        ([("t", b"v")], "topic string, value binary", {}, OptionError, "no column partition"),
        (
            [("t", 1.5, b"v")],
            "topic string, partition double, value binary",
            {},
            OptionError,
            "column partition has type double",
        ),
        ([("t", 2**31, b"v")], "topic string, partition bigint, value binary", {}, KafkaframesError, "2147483648"),
        ([(None, 0, b"v")], "topic string, partition int, value binary", {}, KafkaframesError, "no topic"),
        ([("t", 0, b"v")], "topic string, partition int, value binary", {"topics": ("u",)}, OptionError, "nothing"),
        ([("t", 0, b"v")], "topic string, partition int, value binary", {"codec": "no"}, OptionError, "codec"),
        (
            [("t", 0, b"v", 1)] * 2,
            "topic string, partition int, value binary, offset long",
            {},
            KafkaframesError,
            "incr",
        ),
    ],
)
def test_rows_that_cannot_be_written_leave_no_output(spark, tmp_path, rows, schema, settings, error, reason):
    with pytest.raises(error, match=reason):
        kafkaframes.spark.restore_log(spark.createDataFrame(rows, schema), str(tmp_path / "new"), **settings)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_destination_is_not_changed(spark, tmp_path):
    (tmp_path / "new").mkdir()
    frame = spark.createDataFrame([("t", 0, b"v")], "topic string, partition int, value binary")
    with pytest.raises(LogDirError, match="exists already"):
        kafkaframes.spark.restore_log(frame, str(tmp_path / "new"))
