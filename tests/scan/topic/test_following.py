"""Following live topics without Spark: topics made anew, first micro-batches that an earlier run planned."""

import pyarrow as pa
import pytest
from tests.spark.topics import make_anew

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.scan.topic.following import TopicFollower
from kafkaframes.spark.topic_options import topic_options


def make(servers: str, topic: str, rows: int) -> None:
    make_anew(servers, topic, 1)
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * rows}), topic=topic)


def follower(servers: str, topic: str, **options: str) -> TopicFollower:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    return TopicFollower(topic_options(given, is_stream=True))


def test_a_topic_that_is_made_anew_is_read_from_its_start_or_an_error(servers):
    make(servers, "anew", 50)
    place = TopicPartition("anew", 0)
    one = follower(servers, "anew", failOnDataLoss="false")
    read = one.latest(one.start())
    assert read == {place: 50}
    make(servers, "anew", 20)
    end = one.latest(read)
    assert end == {place: 20}
    assert [(piece.first, piece.end) for piece in one.plan(read, end)] == [(0, 20)]
    one.close()
    strict = follower(servers, "anew")
    with pytest.raises(OptionError, match="read up to offset 50, ends at 20: it was cut, or made anew"):
        strict.latest(read)
    with pytest.raises(OptionError, match="read up to offset 50, ends at 20: it was cut"):
        strict.plan(read, end)
    strict.close()


def test_few_rows_wait_until_the_delay_since_the_last_batch_is_over_the_first_batch_for_nothing(servers):
    make(servers, "few", 5)
    now = [0.0]
    given = {"kafka.bootstrap.servers": servers, "subscribe": "few", "startingOffsets": "earliest"}
    given |= {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "60s"}
    one = TopicFollower(topic_options(given, is_stream=True), clock=lambda: now[0])
    place = TopicPartition("few", 0)
    first = one.latest({place: 0})
    assert first == {place: 5}
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * 3}), topic="few")
        now[0] = 59.0
        assert one.latest(first) == first
        now[0] = 60.0
        assert one.latest(first) == {place: 8}
        producer.send_arrow(pa.table({"value": [b"v"] * 10}), topic="few")
    now[0] = 61.0
    assert one.latest({place: 8}) == {place: 18}  # enough of them wait for nothing
    one.close()
