"""Following live topics without Spark: topics made anew, first micro-batches that an earlier run planned."""

import pyarrow as pa
import pytest
from tests.spark.topics import make_anew

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.spark.topic_following import TopicFollower
from kafkaframes.spark.topic_options import TopicOptions


def make(servers: str, topic: str, rows: int) -> None:
    make_anew(servers, topic, 1)
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * rows}), topic=topic)


def follower(servers: str, topic: str, **options: str) -> TopicFollower:
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    return TopicFollower(TopicOptions.parse(given, is_stream=True))


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
    with pytest.raises(OptionError, match="ends at 20, read up to 50: made anew, or cut"):
        strict.latest(read)
    with pytest.raises(OptionError, match="ends at 20, before 50: was it made anew"):
        strict.plan(read, end)
    strict.close()
