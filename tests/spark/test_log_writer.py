"""``df.write.format("kafka-log")``. tests/jobs/restore/writing tests failed commits and writes without Spark."""

import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.partitioner import partition_of
from kafkaframes.spark.sinks.log_writer import STAGING_DIRECTORY
from kafkaframes.storage.log.discover import discover

SCHEMA = (
    "key binary, value binary, topic string, timestamp timestamp, headers array<struct<key: string, value: binary>>"
)


def read_written(
    spark, path: Path, columns: str = "topic, partition, offset, key, value, timestamp, headers"
) -> list[tuple]:
    read = spark.read.format("kafka-log").option("includeHeaders", True).load(str(path))
    return sorted(tuple(row) for row in read.selectExpr(*columns.split(", ")).collect())


def leftovers(path: Path) -> set[str]:
    return {one.name for one in path.parent.iterdir()} - {path.name}


def test_rows_are_read_back_from_the_partitions_of_their_keys(spark, tmp_path):
    at = datetime(2026, 11, 21, 12, 0, 0, 123_000, tzinfo=UTC)
    source_rows = [
        (bytearray(b"k%d" % n), bytearray(b"v%d" % n), f"t{n % 2}", at, [("h", bytearray(b"1"))] if n % 3 else None)
        for n in range(60)
    ]
    path = tmp_path / "logs"
    frame = spark.createDataFrame(source_rows, SCHEMA).repartition(3)
    frame.write.format("kafka-log").mode("append").option("numPartitions", 4).option("codec", "zstd").save(str(path))
    written_rows = read_written(spark, path)
    assert leftovers(path) == set()
    assert sorted((bytes(key), topic) for topic, _, _, key, *_ in written_rows) == sorted(
        (bytes(key), topic) for key, _, topic, *_ in source_rows
    )
    for topic, partition, _, key, value, timestamp, headers in written_rows:
        assert partition == partition_of(bytes(key), 4)
        assert bytes(value) == b"v" + bytes(key)[1:]
        assert topic == f"t{int(bytes(value)[1:]) % 2}"
        assert timestamp.timestamp() == at.timestamp()
        assert [tuple(header) for header in headers or []] == (
            [("h", bytearray(b"1"))] if int(bytes(value)[1:]) % 3 else []
        )
    (directory,) = discover(str(path))
    assert len(directory.partitions) == 8
    assert verify([directory], deep=True).findings == []


def test_append_and_overwrite_keep_the_order_of_the_tasks(spark, tmp_path):
    path = tmp_path / "logs"
    frame = spark.range(0, 1000, numPartitions=4).selectExpr("cast(id as string) as value")
    writer = frame.write.format("kafka-log").option("topic", "t")
    writer.mode("append").save(str(path))
    assert [int(row[1]) for row in read_written(spark, path, "offset, value")] == list(range(1000))
    writer.mode("append").save(str(path))
    assert [int(row[1]) for row in read_written(spark, path, "offset, value")] == [*range(1000), *range(1000)]
    back = spark.read.format("kafka-log").load(str(path)).where("offset < 10")
    other = tmp_path / "other"
    back.write.format("kafka-log").option("offsets", "keep").mode("append").save(str(other))
    assert read_written(spark, other, "offset, value") == read_written(spark, path, "offset, value")[:10]
    writer.mode("overwrite").save(str(other))
    assert len(read_written(spark, other)) == 1000
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "other"}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["value", "1 as colour"], {"topic": "t"}, "column colour: must be one of"),
        (["value", "if(id = 3, null, 't') as topic"], {}, "row 3: the row has no topic"),
    ],
)
def test_rows_that_cannot_be_written_are_named_and_leave_no_output(spark, tmp_path, columns, options, message):
    frame = spark.range(0, 5, numPartitions=1).selectExpr("id", "cast(id as string) as value").selectExpr(*columns)
    with pytest.raises(Exception, match=message):
        frame.write.format("kafka-log").options(**options).mode("append").save(str(tmp_path / "logs"))
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_leaves_no_output_and_the_next_write_succeeds(spark, tmp_path):
    path = tmp_path / "logs"

    def deadly(batches):
        for number, batch in enumerate(batches):
            yield batch
            if number == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    frame = spark.range(0, 50_000, numPartitions=2).selectExpr("cast(cast(id as string) as binary) as value")
    with pytest.raises(Exception, match=r"SparkException|exited unexpectedly|crashed"):
        frame.mapInArrow(deadly, "value binary").write.format("kafka-log").option("topic", "t").mode("append").save(
            str(path)
        )
    assert list(tmp_path.iterdir()) == []
    frame.write.format("kafka-log").option("topic", "t").mode("append").save(str(path))
    assert len(read_written(spark, path)) == 50_000
    assert STAGING_DIRECTORY not in "".join(path.name for path in tmp_path.iterdir())
