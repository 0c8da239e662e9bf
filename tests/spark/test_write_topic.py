"""``write_topic`` of a batch: all rows or none, and settings that it reserves."""

import pytest
from tests.spark.test_topic_exactly_once import values
from tests.spark.topics import ROWS

import kafkaframes
from kafkaframes.errors import OptionError

pytestmark = pytest.mark.spark


def test_a_batch_is_written_completely_or_not_at_all(spark, servers):
    options = {"kafka.bootstrap.servers": servers, "topic": "whole"}
    frame = spark.range(100).selectExpr("CAST(id AS string) AS value")
    assert kafkaframes.spark.write_topic(frame, options) is None
    broken_frame = spark.range(100).selectExpr("IF(id = 99, raise_error('no'), CAST(id AS string)) AS value")
    with pytest.raises(Exception, match="no"):
        kafkaframes.spark.write_topic(broken_frame, options)
    assert sorted(map(int, values(servers, "whole"))) == list(range(100))


def test_aggregates_of_a_stream_are_written_when_they_change(spark, servers, topic, tmp_path):
    counts = read_stream(spark, servers, topic).groupBy("partition").count()
    rows = counts.selectExpr("CAST(partition AS string) AS key", "CAST(count AS string) AS value")
    options = {"kafka.bootstrap.servers": servers, "topic": "counts"}
    query = kafkaframes.spark.write_topic(
        rows, options, checkpoint=str(tmp_path), trigger={"availableNow": True}, output_mode="update"
    )
    assert query.awaitTermination(240)
    assert sum(map(int, values(servers, "counts"))) == ROWS


def read_stream(spark, servers, topic):
    stream = spark.readStream.format("kafka-topic").option("kafka.bootstrap.servers", servers)
    return stream.options(subscribe=topic, startingOffsets="earliest").load()


def test_reserved_settings_are_rejected(spark, servers):
    options = {"kafka.bootstrap.servers": servers, "topic": "t", "kafka.acks": "1"}
    with pytest.raises(OptionError, match=r"kafka\.acks"):
        kafkaframes.spark.write_topic(spark.range(1).selectExpr("'v' AS value"), options)


def test_speculation_is_rejected_at_the_start(spark, servers, monkeypatch):
    monkeypatch.setattr(
        type(spark.conf), "get", lambda _, name, *default: {"spark.speculation": "true"}.get(name, *default)
    )
    with pytest.raises(OptionError, match=r"without spark\.speculation"):
        kafkaframes.spark.write_topic(
            spark.range(1).selectExpr("'v' AS value"), {"kafka.bootstrap.servers": servers, "topic": "t"}
        )
