"""A ``kafka-topic`` task, read in this process; without a JVM."""

import json
import time

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import NetworkError, OptionError
from kafkaframes.jobs.write_topic.markers import MARKER_TOPIC, read_markers
from kafkaframes.records.build import build_records
from kafkaframes.scan.arrow import build_arrow_schema
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.topic import reading as topic_reading
from kafkaframes.scan.topic.reading import read_range
from kafkaframes.scan.topic.shares import PartitionRange
from kafkaframes.spark.options import parse_topic_options, parse_topic_write_options

COLUMNS = choose_columns(["topic", "partition", "offset", "value"])


@pytest.fixture(scope="module")
def filled_topic(servers):
    fill_topic(servers, "read")
    return servers


def fill_topic(servers, topic):
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name=topic, num_partitions=1)])
    with Producer(servers, batch_size=500) as producer:
        producer.send_arrow(pa.table({"value": [b"v%d" % number for number in range(100)]}), topic=topic)


@pytest.fixture(autouse=True)
def _own_pool(monkeypatch):
    pool = topic_reading._ConsumerPool()
    monkeypatch.setattr(topic_reading, "_pool", pool)
    yield
    for _, consumer in pool._idle:
        consumer.close()


def options_of(servers, topic="read", **options):
    return {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}


def read(servers, first, end, *, topic="read", **options):
    read_options = parse_topic_options(options_of(servers, topic, **options), is_stream=False)
    batches = read_range(PartitionRange(topic, 0, first, end), COLUMNS, read_options)
    return pa.Table.from_batches(batches, build_arrow_schema(COLUMNS))


def test_a_range_is_read_exactly_and_its_consumer_is_reused(filled_topic):
    rows = read(filled_topic, 17, 60).to_pylist()
    assert [(row["offset"], row["value"]) for row in rows] == [(n, b"v%d" % n) for n in range(17, 60)]
    assert {(row["topic"], row["partition"]) for row in rows} == {("read", 0)}
    ((_, pooled_consumer),) = topic_reading._pool._idle
    read(filled_topic, 0, 1)
    assert [one for _, one in topic_reading._pool._idle] == [pooled_consumer]


def test_an_idle_cached_consumer_sends_no_fetches(filled_topic):
    work, options = PartitionRange("read", 0, 0, 200), parse_topic_options(options_of(filled_topic), is_stream=False)
    answers = topic_reading.read_fetched(work, options, lambda batches, memory: [batches.next_offset])
    assert next(answers) <= 100
    answers.close()  # like after a LIMIT
    ((_, pooled_consumer),) = topic_reading._pool._idle
    assert not [
        state for state in pooled_consumer._twin._positions.states.values() if state.should_fetch or state.is_requested
    ]
    assert read(filled_topic, 90, 100).num_rows == 10
    assert not [
        state for state in pooled_consumer._twin._positions.states.values() if state.should_fetch or state.is_requested
    ]


def test_a_response_with_high_compression_is_returned_in_parts(filled_topic, monkeypatch):
    monkeypatch.setattr(topic_reading, "_MAX_BATCH_BYTES", 1)
    assert read(filled_topic, 3, 99)["offset"].to_pylist() == list(range(3, 99))


def test_deleted_records_are_an_error_or_skipped(servers, caplog):
    fill_topic(servers, "deleted")
    with Admin(servers) as admin:
        admin.delete_records({TopicPartition("deleted", 0): 30})
    with pytest.raises(OptionError, match=r"has no offset 10 \(it has 30 to 100\); `fail_on_data_loss`=false"):
        read(servers, 10, 50, topic="deleted")
    assert read(servers, 10, 50, topic="deleted", failOnDataLoss="false")["offset"].to_pylist() == list(range(30, 50))
    assert "the existing records are read" in caplog.text


def test_an_unreached_end_is_an_error_after_the_poll_timeout_or_at_the_end_of_the_log(
    filled_topic, caplog, monkeypatch
):
    fetch, place = topic_reading.Consumer.fetch, TopicPartition("read", 0)

    def fetch_what_is_there(consumer, _):
        return None if consumer.position(place) == 100 else fetch(consumer, 100_000)

    monkeypatch.setattr(topic_reading.Consumer, "fetch", fetch_what_is_there)
    short = {"kafkaConsumer.pollTimeoutMs": "50"}
    with pytest.raises(
        OptionError,
        match=r"ends at offset 100, but offsets up to 101 were expected: no records arrived .*fail_on_data_loss",
    ):
        read(filled_topic, 90, 101, **short)
    assert read(filled_topic, 90, 101, **short, failOnDataLoss="false")["offset"].to_pylist() == list(range(90, 100))
    assert "ends at offset 100, but offsets up to 101 were expected" in caplog.text


def test_a_partition_without_responses_is_a_network_error(filled_topic, monkeypatch):
    monkeypatch.setattr(Consumer, "fetch", lambda *_: None)
    with pytest.raises(NetworkError, match="no records arrived from offset 90 on for 10 ms"):
        read(filled_topic, 90, 100, **{"kafkaConsumer.pollTimeoutMs": "10"}, failOnDataLoss="false")


@pytest.fixture
def compacted_broker(tmp_path):
    """A broker with a compacted log, which ends at offset 100 and has no record after offset 0."""
    record = {"key": b"sink", "value": json.dumps({"batchId": 7}).encode(), "timestamp": 1_760_000_000_000}
    for topic in ("read", MARKER_TOPIC):
        directory = tmp_path / f"{topic}-0"
        directory.mkdir()
        (directory / f"{0:020d}.log").write_bytes(build_records([record]))
        (directory / f"{100:020d}.log").write_bytes(b"")
    with Broker(serve=tmp_path) as broker:
        yield broker.bootstrap_servers


def test_a_range_ends_when_no_record_remains_before_its_end(compacted_broker):
    begin = time.monotonic()
    assert read(compacted_broker, 0, 100)["offset"].to_pylist() == [0]
    assert read(compacted_broker, 1, 100).num_rows == 0
    assert time.monotonic() - begin < 60  # kafkaConsumer.pollTimeoutMs is twice that


def test_the_newest_marker_is_found_in_a_compacted_topic(compacted_broker):
    options = parse_topic_write_options({"kafka.bootstrap.servers": compacted_broker, "topic": "t"})
    assert json.loads(read_markers(options)["sink"]) == {"batchId": 7}
