"""Timestamps that Spark's microseconds cannot hold: an error that names the record, or null.

SPARK-56243: a producer wrote nanoseconds, and the connector's exception named neither record nor value. The error of
this package names both. Without the error the rows would have no timestamp, and windows would lose them.
"""

import uuid

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from tests.scan.log.test_resolve import read_log_rows
from tests.spark.topics import read

import kafkaframes
from kafkaframes.client import Admin, NewTopic, Producer
from kafkaframes.errors import OptionError
from kafkaframes.scan.arrow import MAX_INSTANT_MS, SparkConversion
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.scan.log.tables import read_segment_work
from kafkaframes.scan.rows import RowOrigin
from kafkaframes.spark.dataframes.scan_tasks import convert_batch, to_spark_schema
from kafkaframes.spark.options import parse_log_options

RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))
NANOSECONDS = 1_712_345_678_123_456_789
TIMES = [5, NANOSECONDS, 7]
SAID = rf"offset 1 of topic partition \S+-0 has the timestamp {NANOSECONDS}, which must be .*timestampErrors=null"


def records(times):
    rows = [{"value": b"%d" % number, "timestamp": time} for number, time in enumerate(times)]
    return kafkaframes.build_records(rows, codec="lz4")


@pytest.mark.parametrize("time", [MAX_INSTANT_MS + 1, NANOSECONDS, 2**63 - 1, -MAX_INSTANT_MS - 1])
@pytest.mark.parametrize("names", [("timestamp",), ("value", "timestamp", "offset")])
def test_an_error_names_the_record_and_the_value_even_without_the_column_offset(time, names):
    conversion = SparkConversion(choose_columns(names))
    columns = {"value": pa.array([b"a", b"b"]), "offset": pa.array([40, 41])}
    columns["timestamp"] = pa.array(np.array([0, time]), pa.timestamp("ms", "UTC"))
    batch = pa.record_batch({name: columns[name] for name in conversion.sources})
    with pytest.raises(OptionError, match=f"offset 41 of topic partition orders-3 has the timestamp {time}, "):
        conversion.convert_batch(batch, RowOrigin("orders", 3))
    lenient = SparkConversion(choose_columns(names), timestamp_errors="null")
    batch = pa.record_batch({name: columns[name] for name in lenient.sources})
    assert lenient.convert_batch(batch, RowOrigin("orders", 3)).column("timestamp").is_null().to_pylist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("time", [MAX_INSTANT_MS, -MAX_INSTANT_MS, -1, 0])
def test_every_timestamp_in_range_is_read(time):
    conversion = SparkConversion(choose_columns(["timestamp"]))
    columns = {"timestamp": pa.array([time], pa.timestamp("ms", "UTC")), "offset": pa.array([0])}
    result = conversion.convert_batch(pa.record_batch(columns), RowOrigin("orders", 3))
    assert result.column("timestamp").cast(pa.int64()).to_pylist() == [time * 1000]


def test_no_offset_is_read_for_columns_without_timestamps():
    assert SparkConversion(choose_columns(["value"])).sources == ("value",)
    assert SparkConversion(choose_columns(["timestamp"]), timestamp_errors="null").sources == ("timestamp",)


def test_an_error_of_a_scan_names_the_selected_columns():
    for names, source_name in ((("timestamp",), "a record"), (("offset", "timestamp"), "the record at offset 1")):
        (batch,) = kafkaframes.read_records(records(TIMES), columns=names)
        with pytest.raises(
            OptionError, match=f"^{source_name} has the timestamp {NANOSECONDS}, .* Select the other columns"
        ):
            convert_batch(batch, to_spark_schema(batch.schema))


@pytest.mark.spark
def test_a_log_with_a_far_timestamp_is_read_as_configured(spark, tmp_path):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(records(TIMES))
    reader = spark.read.format("kafka-log")
    with pytest.raises(Exception, match=SAID):
        reader.load(str(tmp_path)).collect()
    assert reader.option("columns", "value").load(str(tmp_path)).count() == 3
    rows = reader.options(timestampErrors="null", columns="offset,timestamp").load(str(tmp_path)).collect()
    assert [row.timestamp is None for row in rows] == [False, True, False]


@pytest.mark.parametrize(("table", "subject"), [("batches", "batch at offset 0"), ("segments", f"segment {0:020}")])
@pytest.mark.parametrize("times", [TIMES, [2**63 - 1, 2**63 - 1]])
def test_the_tables_of_batches_and_segments_raise_the_same_error(tmp_path, table, subject, times):
    (tmp_path / "orders-3").mkdir()
    (tmp_path / "orders-3" / f"{0:020}.log").write_bytes(records(times))
    with pytest.raises(
        OptionError, match=f"the {subject} of topic partition orders-3 has the timestamp {max(times)}, "
    ):
        read_log_rows(tmp_path, table=table)
    (row,) = read_log_rows(tmp_path, table=table, timestampErrors="null")
    assert row["maxTimestamp"] is None
    assert row["sizeBytes"] == len(records(times))


def test_the_table_of_segments_has_every_timestamp_that_microseconds_can_represent(tmp_path):
    (tmp_path / "orders-3").mkdir()
    (tmp_path / "orders-3" / f"{0:020}.log").write_bytes(records([MAX_INSTANT_MS - 1, MAX_INSTANT_MS]))
    options = parse_log_options({"path": str(tmp_path), "table": "segments"})
    columns = choose_columns(["firstTimestamp", "maxTimestamp"], table="segments")
    (batch,) = read_segment_work(plan_log(options, cores=1).works[0], columns, options)
    microseconds = [batch.column(name).cast(pa.int64())[0].as_py() for name in ("firstTimestamp", "maxTimestamp")]
    assert microseconds == [1000 * (MAX_INSTANT_MS - 1), 1000 * MAX_INSTANT_MS]  # after Python's year 9999


@pytest.fixture
def topic(servers):
    topic = f"far-{uuid.uuid4().hex}"
    configs = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=topic, num_partitions=1, configs=configs)])
    with Producer(servers) as producer:
        for time in TIMES:
            producer.send(topic, b"v", timestamp_ms=time)
    return topic


@pytest.mark.spark
def test_a_topic_with_a_far_timestamp_is_read_as_configured(spark, servers, topic):
    with pytest.raises(Exception, match=SAID):
        read(spark, servers, subscribe=topic).collect()
    assert read(spark, servers, subscribe=topic, columns="value").count() == 3
    rows = read(spark, servers, subscribe=topic, timestampErrors="null").orderBy("offset").collect()
    assert [row.timestamp is None for row in rows] == [False, True, False]


@pytest.mark.spark
@pytest.mark.skipif(RELEASE < (4, 2), reason="kafka-topic as a stream needs Spark 4.2 or later")
def test_a_stream_with_a_far_timestamp_is_read_as_configured(spark, servers, topic, tmp_path):
    reader = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = reader.options(subscribe=topic, startingOffsets="earliest").load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with pytest.raises(Exception, match=SAID):
        writer.start().awaitTermination(60)


@pytest.mark.spark
def test_an_invalid_value_of_the_option_is_rejected(spark, servers):
    with pytest.raises(Exception, match="timestampErrors=ignore: must be one of raise, null"):
        read(spark, servers, subscribe="t", timestampErrors="ignore")
