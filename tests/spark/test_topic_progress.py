"""The lag of a stream: exact in offsets, estimated in records, bytes and time; committed offsets for lag tools."""

import json

import pyarrow as pa
import pytest
from tests.scan.log.test_following import append_records
from tests.spark.topics import recreate_topic

from kafkaframes.client import Consumer, Producer, TopicPartition
from kafkaframes.spark.progress.topic_progress import PartitionLag, TopicProgress, estimate_lags, parse_progress

NOW_MS = 1_700_000_100_000


@pytest.fixture(scope="module")
def servers(brokers):
    recreate_topic(brokers.bootstrap_servers, "lagging", 2)
    rows = {
        "value": [b"v" * 100] * 900,
        "partition": pa.array([n % 3 // 2 for n in range(900)], pa.int32()),
        "timestamp": pa.array([NOW_MS - 100_000 + n * 100 for n in range(900)], pa.int64()),
    }
    with Producer(brokers.bootstrap_servers, batch_size=1_500) as producer:
        producer.send_arrow(pa.table(rows), topic="lagging")
    return brokers.bootstrap_servers


def progress_json(*sources, **others):
    return json.dumps({"id": "q", "runId": "r", "name": "n", "batchId": 3, "sources": sources} | others)


def test_offsets_of_topics_are_found_in_both_forms_and_others_ignored():
    ours = {"endOffset": {"t": {"0": 5, "1": 9}}, "latestOffset": {"t": {"0": 7, "1": 9, "2": 4}}, "numInputRows": 5}
    text = {"endOffset": '{"u": {"0": 1}}', "latestOffset": None, "numInputRows": 1}
    rate = {"endOffset": 17, "latestOffset": "17", "numInputRows": 3}
    files = {"endOffset": {"logOffset": 2}, "latestOffset": None, "numInputRows": 3}
    progress = parse_progress(progress_json(ours, text, rate, files))
    assert progress.partitions == (
        PartitionLag("t", 0, 5, 7),
        PartitionLag("t", 1, 9, 9),
        PartitionLag("u", 0, 1, 1, source=1),
    )
    assert progress.offsets_behind == 2
    assert progress.next_offsets[TopicPartition("t", 1)] == 9
    assert parse_progress(progress_json(rate, files)) is None


def test_a_topic_read_twice_has_two_lags_and_its_group_the_lower_offset():
    progress = parse_progress(
        progress_json(*({"endOffset": {"t": {"0": at}}, "latestOffset": {"t": {"0": 10}}} for at in (5, 2, 7)))
    )
    assert [(lag.source, lag.offsets) for lag in progress.partitions] == [(0, 5), (1, 8), (2, 3)]
    assert progress.offsets_behind == 16
    assert progress.next_offsets == {TopicPartition("t", 0): 2}


def test_lag_is_estimated_from_existing_batches(servers):
    lags = (PartitionLag("lagging", 0, 100, 600), PartitionLag("lagging", 1, 300, 300))
    progress = TopicProgress("q", "r", None, 0, 1, lags)
    with Consumer(servers, enable_auto_commit=False, auto_offset_reset="none") as consumer:
        estimates_by_name = estimate_lags(progress, consumer, now=lambda: NOW_MS / 1000)
    assert estimates_by_name["estimated_records"] == 500
    assert 500 * 100 < estimates_by_name["estimated_bytes"] < 500 * 130
    assert 80 < estimates_by_name["estimated_seconds"] < 100


@pytest.mark.spark
@pytest.mark.parametrize("source", ["kafka-topic", "kafka-log"])
def test_a_stream_from_latest_without_new_rows_continues(spark, servers, source, tmp_path):
    append_records(tmp_path, 0, 10)
    options = {"kafka.bootstrap.servers": servers, "subscribe": "lagging"} if source == "kafka-topic" else {}
    stream = spark.readStream.format(source).options(**options)
    frame = stream.load() if source == "kafka-topic" else stream.load(str(tmp_path))
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    for _ in range(2):
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(240)
