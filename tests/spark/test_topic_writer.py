"""Rows that become records of topics, and rows that are rejected."""

from dataclasses import replace

import pyarrow as pa
import pytest
from tests.spark.topics import read

from kafkaframes.errors import EncodeError
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.options import parse_topic_write_options
from kafkaframes.spark.sinks.topic_writer import _select_columns, select_columns_to_write

pytestmark = pytest.mark.spark


def test_rows_are_written_to_a_topic_and_read_back_unchanged(spark, servers):
    frame = spark.sql(
        "SELECT CAST(id AS string) AS key, concat('v', id) AS value, "
        "timestamp_millis(1700000000000 + id) AS timestamp, "
        "array(named_struct('key', 'h', 'value', CAST('x' AS binary))) AS headers FROM range(500)"
    )
    writer = frame.write.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    writer = writer.option("topic", "written").option("kafka.compression.type", "zstd")
    writer.option("timestamps", "column").mode("append").save()
    back = read(spark, servers, subscribe="written", includeHeaders="true").collect()
    assert sorted(int(row.key) for row in back) == list(range(500))
    assert all(row.value == b"v" + row.key for row in back)
    assert {(header.key, bytes(header.value)) for row in back for header in row.headers} == {("h", b"x")}
    assert min(row.timestamp.timestamp() for row in back) == 1_700_000_000.0


def test_other_columns_and_the_timestamp_are_ignored_as_by_sparks_sink():
    options = TopicWriteOptions(client={}, topic="t")
    types = {"key": "binary", "value": "binary", "topic": "int", "offset": "bigint", "timestamp": "int"}
    assert select_columns_to_write(types, options) == ["key", "value"]
    rows = pa.record_batch({"value": [b"v"], "topic": [1], "timestamp": [2], "offset": [3]})
    assert _select_columns(rows, options).schema.names == ["value"]
    assert select_columns_to_write({**types, "timestamp": "timestamp"}, replace(options, timestamps="column")) == [
        "key",
        "value",
        "timestamp",
    ]


def test_other_column_names_are_logged_once_and_those_of_readers_never(caplog):
    options = TopicWriteOptions(client={}, topic="logged")
    types = {"keyy": "binary", "value": "binary", "vlaue": "binary", "offset": "bigint", "timestampType": "int"}
    for _ in range(3):  # to check the columns, to commit, in each micro-batch
        assert select_columns_to_write(types, options) == ["value"]
    assert [record.getMessage() for record in caplog.records] == ["columns not written to topic logged: keyy, vlaue"]


@pytest.mark.parametrize(
    ("select", "options", "reason"),
    [
        ("1 AS value", {"topic": "t"}, "column value is int and must be binary or string"),
        ("'v' AS value", {}, "set the option topic, or add a column topic"),
        ("'v' AS value, 1 AS timestamp", {"topic": "t", "timestamps": "column"}, "column timestamp is int"),
        ("'v' AS value", {"topic": "t", "timestamps": "column"}, "timestamps=column requires a column timestamp"),
        ("'v' AS value", {"topic": "t", "kafka.transactional.id": "x"}, "option kafka.transactional.id: transactions"),
        ("'v' AS value", {"topic": "t", "tpoic": "x"}, "did you mean topic"),
        ("'v' AS value", {"topic": "t", "delivery": "exactly-once"}, "write_topic"),
    ],
)
def test_invalid_rows_are_rejected(spark, servers, select, options, reason):
    writer = spark.sql(f"SELECT {select}").write.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    with pytest.raises(Exception, match=reason):
        writer.options(**options).mode("append").save()


def test_a_negative_partition_is_rejected_as_by_sparks_sink():
    """Spark's KafkaSink reports "Invalid partition: -1. Partition number should always be non-negative or null."."""
    options = parse_topic_write_options({"kafka.bootstrap.servers": "h:1", "topic": "t"})
    rows = pa.record_batch({"value": [b"v"] * 3, "partition": pa.array([None, 0, -1], pa.int32())})
    with pytest.raises(EncodeError, match=r"column partition is -1; expected null or a partition number"):
        _select_columns(rows, options)
    assert _select_columns(rows.slice(0, 2), options).num_rows == 2
