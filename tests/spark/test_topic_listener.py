"""The listener that reports the lag of a stream, in a query."""

import pytest
from tests.spark.test_topic_progress import servers  # noqa: F401  a fixture

import kafkaframes
from kafkaframes.client import Admin

NOW_MS = 1_700_000_100_000


@pytest.mark.spark
def test_each_micro_batch_is_reported_and_the_last_one_committed(spark, servers, tmp_path, monkeypatch):  # noqa: F811
    from kafkaframes.spark.progress.topic_listener import TopicListener

    monkeypatch.setitem(TopicListener.close.__kwdefaults__, "seconds", 100.0)  # not 10, on a busy machine
    options = {"kafka.bootstrap.servers": servers, "subscribe": "lagging", "startingOffsets": "earliest"}
    options["kafka.default.api.timeout.ms"] = "100000"
    stream = spark.readStream.format("kafka-topic").options(**options, maxOffsetsPerTrigger=400).load()
    commits = []
    watching = kafkaframes.spark.watch_topics(
        spark, options, query_name="copied", group_id="lag tools", report=commits.append
    )
    with watching as lag:
        writer = stream.writeStream.format("noop").queryName("copied").trigger(availableNow=True)
        assert writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination(240)
    assert [commit.offsets_behind for commit in commits] == [
        501,
        102,
        0,
    ]  # each partition gets its share of the limit, rounded down, as with Spark's connector
    assert [commit.batch_id for commit in commits] == [0, 1, 2]
    assert commits[0].estimated_records == 501
    assert commits[0].estimated_bytes > 50_000
    assert lag.latest == commits[-1]
    with Admin(servers) as admin:
        offsets = {str(place): one.offset for place, one in admin.group_offsets("lag tools").items()}
    assert offsets == {"lagging-0": 600, "lagging-1": 300}
    rest = spark.read.format("kafka-topic").options(**options | {"startingOffsets": "group:lag tools"}).load()
    assert rest.count() == 0
