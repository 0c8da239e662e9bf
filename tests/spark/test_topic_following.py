"""Following live topics without Spark: topics made anew, first micro-batches that an earlier run planned."""

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.spark.first_batch import check_first
from kafkaframes.spark.topic_following import TopicFollower
from kafkaframes.spark.topic_options import TopicOptions


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        yield broker.bootstrap_servers


def make(servers: str, topic: str, rows: int) -> None:
    with Admin(servers) as admin:
        if topic in admin.list_topics():
            admin.delete_topics([topic])
        admin.create_topics([NewTopic(name=topic, num_partitions=1)])
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


@pytest.mark.parametrize(
    ("first", "start", "end", "is_refused"),
    [
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 9, "1": 5}, False),  # a new query
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 5, "1": 5}, True),  # latest by now is where it ended
        ({"0": 5, "1": 9}, {"0": 5, "1": 9}, {"0": 8, "1": 7}, True),  # or beyond
        ({"0": 5}, {"0": 3}, {"0": 3}, False),  # from a checkpoint
        (None, {"0": 5}, {"0": 5}, False),
        ({}, {}, {"0": 5}, False),  # a pattern that nothing fitted
        ({"0": 0}, {"0": 0}, {"0": 0, "1": 4}, False),  # a partition that came
    ],
)
def test_a_first_micro_batch_of_an_earlier_run_is_known(first, start, end, is_refused):
    asked = [None if one is None else {"t": one} for one in (first, start, end)]
    if not is_refused:
        check_first(*asked)
        return
    with pytest.raises(OptionError, match=r"Give startingOffsets as JSON where it began"):
        check_first(*asked)


def stream_reader(servers, topic):
    from kafkaframes.spark.columns import choose_columns
    from kafkaframes.spark.topic_stream import KafkaTopicStreamReader

    given = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    return KafkaTopicStreamReader(TopicOptions.parse(given, is_stream=True), choose_columns(None))


def test_where_a_new_query_starts_does_not_move_while_rows_come(servers):
    """Spark asks before it looks for new rows and may again when it plans them: none between the two may be lost."""
    from kafkaframes.spark.topic_stream import ReadAllAvailable

    make(servers, "moving", 5)
    reader = stream_reader(servers, "moving")
    start = reader.initialOffset()
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * 10}), topic="moving")
    end = reader.latestOffset(start, ReadAllAvailable())
    again = reader.initialOffset()
    assert (start, end) == ({"moving": {"0": 5}}, {"moving": {"0": 15}})
    assert [(piece.work.first, piece.work.end) for piece in reader.partitions(again, end)] == [(5, 15)]
    reader.stop()


def test_a_new_query_without_rows_begins_with_an_empty_micro_batch(servers):
    """Spark plans one although nothing is there; the same one of an earlier run is refused."""
    from kafkaframes.spark.topic_stream import ReadAllAvailable

    make(servers, "idle", 5)
    reader = stream_reader(servers, "idle")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.partitions(start, start) == []
    reader.stop()
    after = stream_reader(servers, "idle")
    with pytest.raises(OptionError, match="planned by an earlier run"):
        after.partitions(after.initialOffset(), start)
    after.stop()
