"""A stream that writes topics at least once."""

import pytest
from tests.spark.topics import ROWS, read

pytestmark = pytest.mark.spark


def test_a_stream_writes_topics_at_least_once(spark, servers, topic, tmp_path):
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    frame = stream.options(subscribe=topic, startingOffsets="earliest").load().selectExpr("key", "value")
    query = (
        frame.writeStream.format("kafka-topic")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "copied")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(250)
    assert read(spark, servers, subscribe="copied").count() == ROWS
