"""Each action on a DataFrame of topics reads the topics' current offsets.

KafkaRelationSuite of Spark's connector has "reuse same dataframe in query" and "test late binding start offsets". Users
rely on it for the static side of a stream and for look-ups in foreachBatch.
"""

import json
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from tests.scan.log.test_following import append_records
from tests.spark.topics import read

import kafkaframes
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition

CAPTURES = [
    Path(__file__).parents[1] / "data" / "captures" / name
    for name in ("raw-oldversions-broker39.pcap", "raw-resets-broker43.pcap")
]
pytestmark = pytest.mark.spark
RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))


@pytest.fixture
def admin(servers):
    with Admin(servers) as admin:
        yield admin


def create(admin, partitions=1):
    topic = f"fresh-{uuid.uuid4().hex}"
    admin.create_topics([NewTopic(name=topic, num_partitions=partitions)])
    return topic


def produce(servers, topic, values, partition=0):
    with Producer(servers) as producer:
        for value in values:
            producer.send(topic, str(value), partition=partition)
        producer.flush()


def test_each_use_of_a_dataframe_has_new_records_and_new_start_offsets(spark, servers, admin):
    topic = create(admin)
    frame = read(spark, servers, subscribe=topic)
    frame.createOrReplaceTempView("fresh_view")
    options = f"`kafka.bootstrap.servers` '{servers}', subscribe '{topic}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW fresh_sql USING `kafka-topic` OPTIONS ({options})")

    def counts():
        sql = [spark.sql(f"SELECT count(*) FROM {name}").first()[0] for name in ("fresh_view", "fresh_sql")]
        return {frame.count(), frame.where("offset >= 0").count(), len(frame.collect()), *sql}

    assert counts() == {0}
    produce(servers, topic, range(10))
    assert counts() == {10}
    produce(servers, topic, range(5))
    assert counts() == {15}
    admin.delete_records({TopicPartition(topic, 0): 12})
    assert counts() == {3}
    spark.catalog.dropTempView("fresh_view")
    spark.catalog.dropTempView("fresh_sql")


def test_all_stages_of_an_execution_have_the_same_offsets(spark, servers, admin):
    """Records arrive while the tasks of an action run: the first tasks produce them."""
    topic = create(admin, partitions=2)
    produce(servers, topic, range(10), partition=0)
    produce(servers, topic, range(10), partition=1)
    frame = read(spark, servers, subscribe=topic, columns="partition,offset")

    def and_produce(batches):
        for batch in batches:
            produce(servers, topic, range(7), partition=1)
            yield batch

    first = frame.mapInArrow(and_produce, "partition int, offset bigint")
    joined_frame = first.join(frame, ["partition", "offset"], "full").groupBy("partition").count()
    assert {row[0]: row[1] for row in first.union(frame).union(frame).groupBy("partition").count().collect()} == {
        0: 30,
        1: 30,
    }
    now = 10 + 7 * 2
    assert {row[0]: row[1] for row in joined_frame.collect()} == {0: 10, 1: now}


def test_partitions_and_topics_created_after_the_plan_are_read(spark, servers, admin):
    topic = create(admin)
    produce(servers, topic, "ab")
    frame = read(spark, servers, subscribePattern=f"{topic}.*")
    assert frame.count() == 2
    admin.create_partitions({topic: 4})
    admin.create_topics([NewTopic(name=f"{topic}-too", num_partitions=2)])
    for number in (2, 3):
        produce(servers, topic, "c", partition=number)
    produce(servers, f"{topic}-too", "d", partition=1)
    rows = sorted((row.topic, row.partition, row.offset) for row in frame.collect())
    new = [(topic, 2, 0), (topic, 3, 0), (f"{topic}-too", 1, 0)]
    assert rows == [(topic, 0, 0), (topic, 0, 1), *new]
    admin.delete_topics([f"{topic}-too"])
    assert frame.count() == 4


def test_a_recomputed_cache_block_has_no_records_of_other_blocks(spark, servers, admin):
    """Spark repeats single tasks of a cached DataFrame in later executions, when the topic has grown."""
    topic = create(admin)
    produce(servers, topic, range(40))
    frame = read(spark, servers, subscribe=topic, maxRecordsPerPartition="10", columns="offset")
    assert frame.rdd.getNumPartitions() == 4
    tasks = frame.selectExpr("offset", "spark_partition_id() AS task")
    before = {row.offset: row.task for row in tasks.collect()}
    produce(servers, topic, range(40))
    after = {row.offset: row.task for row in tasks.collect()}
    assert sorted(after) == list(range(80))
    assert before == {offset: task for offset, task in after.items() if offset < 40}


def test_fixed_offsets_are_read_without_a_look_up(spark, servers, admin, monkeypatch):
    topic = create(admin)
    produce(servers, topic, range(10))
    fixed_offsets = {"startingOffsets": json.dumps({topic: {"0": 2}}), "endingOffsets": json.dumps({topic: {"0": 8}})}
    frame = read(
        spark, servers, subscribe=topic, driverHost="not.a.host.invalid", **fixed_offsets
    )  # a look-up would fail
    assert frame.count() == 6
    produce(servers, topic, range(10))
    assert frame.count() == 6
    with pytest.raises(Exception, match=r"cannot listen on not\.a\.host\.invalid"):
        read(spark, servers, subscribe=topic, driverHost="not.a.host.invalid").count()


def test_an_error_in_a_later_execution_has_no_traceback(spark, servers, admin):
    topic = create(admin)
    produce(servers, topic, range(10))
    frame = read(spark, servers, subscribe=topic, startingOffsets=json.dumps({topic: {"0": 3}}))
    assert frame.count() == 7
    admin.delete_records({TopicPartition(topic, 0): 5})
    with pytest.raises(
        Exception, match=r"offsets 3 to 4 of \S+-0 are lost .*; failOnDataLoss=false reads"
    ) as error_info:
        frame.count()
    assert "offset_process.py" not in str(error_info.value)  # no Python traceback of this package
    admin.delete_topics([topic])
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        frame.count()


def test_an_rdd_is_a_snapshot_of_its_first_action(spark, servers, admin):
    topic = create(admin)
    produce(servers, topic, range(10))
    frame = read(spark, servers, subscribe=topic)
    assert frame.count() == 10
    produce(servers, topic, range(2))
    rows = frame.rdd
    assert rows.count() == 12
    produce(servers, topic, range(3))
    assert [index for _, index in rows.zipWithIndex().collect()] == list(range(12))
    assert frame.count() == 15


@pytest.mark.skipif(RELEASE < (4, 2), reason="kafka-topic as a stream needs Spark 4.2 or later")
def test_each_micro_batch_reads_a_static_side_and_a_look_up_again(spark, servers, admin, tmp_path):
    stream_topic, static_topic = create(admin), create(admin)
    produce(servers, static_topic, ["x"])
    static = read(spark, servers, subscribe=static_topic).selectExpr("CAST(value AS string) AS v", "1 AS known")
    reader = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    stream = reader.options(subscribe=stream_topic, startingOffsets="earliest").load()
    joined_frame = stream.selectExpr("CAST(value AS string) AS v").join(static, "v", "left")
    rows_so_far, looked_up = [], []

    def note(batch, number):
        rows_so_far.extend((row.v, row.known) for row in batch.collect())
        looked_up.append(static.count())

    query = joined_frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path)).start()
    try:
        produce(servers, stream_topic, ["x"])
        query.processAllAvailable()
        produce(servers, static_topic, ["y"])
        produce(servers, stream_topic, ["y"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows_so_far == [("x", 1), ("y", 1)]
    assert (looked_up[0], looked_up[-1]) == (1, 2)


def test_an_arrow_dataframe_has_current_offsets_too(spark, servers, admin):
    topic = create(admin)
    frame = read(spark, servers, subscribe=topic, columns="offset")
    for expected_count in (2, 4):
        produce(servers, topic, "ab")
        assert isinstance(table := frame.toArrow(), pa.Table)
        assert table.num_rows == expected_count
        assert len(list(frame.toLocalIterator())) == expected_count


def test_dataframes_of_files_and_of_scans_are_snapshots_until_they_are_reloaded(spark, servers, admin, tmp_path):
    """docs/live-topics.md lists these DataFrames as differences. Spark 4.0 lists the files again for each action."""
    topic, log, captures = create(admin), tmp_path / "log", tmp_path / "captures"
    log.mkdir()
    captures.mkdir()

    def grow(number):
        produce(servers, topic, range(10))
        append_records(log, 10 * number, 10, roll=True)
        shutil.copy(CAPTURES[number], captures)

    def load():
        return [
            spark.read.format("kafka-log").load(str(log)),
            spark.read.format("kafka-capture").load(str(captures)),
            kafkaframes.spark.read(kafkaframes.scan_topic(servers, topics=[topic]), spark=spark),
        ]

    grow(0)
    frames = load()
    first = [frame.count() for frame in frames]
    assert first[0] == first[2] == 10
    grow(1)
    again, anew = ([frame.count() for frame in each] for each in (frames, load()))
    assert anew[0] == anew[2] == 20
    assert anew[1] > first[1] > 0
    assert again == (first if RELEASE >= (4, 1) else [*anew[:2], first[2]])
