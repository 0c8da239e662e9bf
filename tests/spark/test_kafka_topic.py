"""``format("kafka-topic")`` with the embedded broker: batch and stream, reads and writes."""

import json

import pyarrow as pa
import pyspark
import pytest
from tests.spark.topics import ROWS, read

from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition

pytestmark = pytest.mark.spark
RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))


def test_a_batch_has_the_columns_of_sparks_own_source_and_every_record(spark, servers, topic):
    frame = read(spark, servers, subscribe=topic)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    rows = frame.selectExpr("CAST(value AS string) AS v", "partition", "offset").collect()
    assert sorted(row.v for row in rows) == sorted(f"v{n}" for n in range(ROWS))
    assert {row.partition for row in rows} == {0, 1, 2}


def test_offsets_timestamps_splits_and_columns_are_applied(spark, servers, topic):
    starting_offsets = {topic: {"0": 10, "1": -2, "2": -2}}
    ends = {topic: {"0": 20, "1": 5, "2": 0}}
    frame = read(
        spark,
        servers,
        subscribePattern="fli.*",
        startingOffsets=json.dumps(starting_offsets),
        endingOffsets=json.dumps(ends),
        columns="offset,partition,headers,magic",
        minPartitions="4",
    )
    rows = sorted((row.partition, row.offset) for row in frame.collect())
    assert rows == [(0, n) for n in range(10, 20)] + [(1, n) for n in range(5)]
    assert {row.magic for row in frame.collect()} == {2}
    by_time = read(spark, servers, subscribe=topic, startingTimestamp=str(1_700_000_000_000 + ROWS - 500))
    assert by_time.count() == 500
    split_frame = read(spark, servers, subscribe=topic, minPartitions="9")
    assert split_frame.rdd.getNumPartitions() >= 8
    assert split_frame.count() == ROWS
    few = read(spark, servers, assign=json.dumps({topic: [1]}), maxRecordsPerPartition="100")
    assert few.rdd.getNumPartitions() > 5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "not subscribe and assign together"),
        ({"subscribe": "t", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "latest"}, "startingOffsets sets the start of a query"),
        ({"subscribe": "t", "kafka.security.protocol": "SASL"}, "expected one of PLAINTEXT, SSL"),
        ({"subscribe": "nothere"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"subscribe": "flights", "startingOffsets": "latest", "endingOffsets": "latest"}, "cannot start at latest"),
        (
            {"subscribe": "flights", "startingOffsets": '{"flights":{"0":1}}'},
            "startingOffsets requires an offset for flights-1, flights-2",
        ),
        ({"assign": '{"flights":[7]}'}, "the cluster does not have the topic partition flights-7"),
    ],
)
def test_errors_have_a_plain_text(spark, servers, topic, options, reason):
    with pytest.raises(Exception, match=reason):
        read(spark, servers, **options).count()


def test_records_deleted_by_retention_are_an_error_or_skipped(spark, servers):
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name="kept", num_partitions=1)])
        with Producer(servers) as producer:
            producer.send_arrow(pa.table({"value": [str(n) for n in range(100)]}), topic="kept")
        admin.delete_records({TopicPartition("kept", 0): 40})
    options = {"subscribe": "kept", "startingOffsets": '{"kept":{"0":0}}'}
    with pytest.raises(Exception, match=r"offsets 0 to 39 of kept-0 are lost .*; failOnDataLoss=false reads"):
        read(spark, servers, **options).count()
    assert read(spark, servers, **options, failOnDataLoss="false").count() == 60
    assert read(spark, servers, subscribe="kept").count() == 60


def test_read_committed_and_a_group_as_the_start(spark, servers):
    with Producer(servers, transactional_id="kafka-topic-test") as producer:
        for n in range(6):
            producer.begin_transaction()
            producer.send("paid", str(n), partition=0)
            producer.flush()
            producer.commit_transaction() if n % 2 else producer.abort_transaction()
    committed_frame = read(spark, servers, **{"subscribe": "paid", "kafka.isolation.level": "read_committed"})
    assert sorted(row.value for row in committed_frame.collect()) == [b"1", b"3", b"5"]
    with Consumer(servers, group_id="seen") as consumer:
        consumer.commit({TopicPartition("paid", 0): 7})
    rest = read(spark, servers, subscribe="paid", startingOffsets="group:seen")
    assert min(row.offset for row in rest.collect()) >= 7


@pytest.mark.skipif(RELEASE < (4, 2), reason="kafka-topic as a stream needs Spark 4.2 or later")
def test_a_stream_continues_from_its_checkpoint(spark, servers, tmp_path):
    def run() -> None:
        stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
        frame = stream.options(subscribe="followed", startingOffsets="earliest", maxOffsetsPerTrigger="40").load()
        query = (
            frame.selectExpr("value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(240)

    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name="followed", num_partitions=2)])
        with Producer(servers) as producer:
            producer.send_arrow(pa.table({"value": [f"a{n}" for n in range(100)]}), topic="followed")
            run()
            admin.create_partitions({"followed": 3})
            late = pa.table({"value": [f"b{n}" for n in range(50)], "partition": pa.array([2] * 50, pa.int32())})
            producer.partitions_for("followed")
        with Producer(servers) as producer:
            producer.send_arrow(late, topic="followed")
        run()
    values = [row.value for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    expected_values = [f"a{n}".encode() for n in range(100)] + [f"b{n}".encode() for n in range(50)]
    assert sorted(values) == sorted(expected_values)
    batches = [path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdigit()]
    assert len(batches) >= 4
