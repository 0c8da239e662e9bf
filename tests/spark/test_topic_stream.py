"""The reader of a stream of live topics, as Spark calls it; no JVM."""

import json

import pyarrow as pa
import pytest
from tests.scan.topic.test_following import make

from kafkaframes.client import Producer
from kafkaframes.errors import OptionError
from kafkaframes.jobs.micro_batch import offsets_of
from kafkaframes.spark.topic_options import topic_options


def stream_reader(servers, topic, **options):
    from kafkaframes.scan.columns import choose_columns
    from kafkaframes.spark.topic_stream import KafkaTopicStreamReader

    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    return KafkaTopicStreamReader(topic_options(given, is_stream=True), choose_columns(None))


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
    assert (start["moving"], end["moving"]) == ({"0": 5}, {"0": 15})
    assert [(piece.value.first, piece.value.end) for piece in reader.partitions(again, end)] == [(5, 15)]
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


def test_a_topic_made_anew_as_long_as_it_was_is_known_by_its_id(servers):
    """Offsets alone do not tell: the new topic ends where the old one was read to, or behind it."""
    from kafkaframes.spark.topic_stream import ReadAllAvailable

    make(servers, "again", 5)
    reader = stream_reader(servers, "again", startingOffsets="earliest")
    start = reader.initialOffset()
    read = reader.latestOffset(start, ReadAllAvailable())
    assert [name.partition("@")[0] for name in read] == ["again", "again"]
    assert offsets_of(json.dumps(read)) == {"again": {"0": 5}}  # as Spark's connector reads it
    make(servers, "again", 8)
    reason = "topic again was deleted and made anew .* new checkpoint.*`kafkaframes checkpoint convert`.*=false reads"
    with pytest.raises(OptionError, match=reason):
        reader.latestOffset(read, ReadAllAvailable())
    with pytest.raises(OptionError, match=reason):
        reader.partitions(start, read)
    reader.stop()
    loose = stream_reader(servers, "again", failOnDataLoss="false")
    assert loose.partitions(start, read) == []  # those rows are gone
    end = loose.latestOffset(read, ReadAllAvailable())
    assert [(task.value.first, task.value.end) for task in loose.partitions(read, end)] == [(0, 8)]
    assert loose.latestOffset(end, ReadAllAvailable()) == end
    loose.stop()


def test_a_checkpoint_without_ids_is_taken_as_it_is(servers):
    """Of an earlier version, of Spark's connector, or converted: no empty micro-batch comes of that."""
    from kafkaframes.spark.topic_stream import ReadAllAvailable

    make(servers, "plain", 5)
    reader = stream_reader(servers, "plain")
    start = {"plain": {"0": 5}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * 2}), topic="plain")
    end = reader.latestOffset(start, ReadAllAvailable())
    assert (end["plain"], len(end)) == ({"0": 7}, 2)
    assert [(task.value.first, task.value.end) for task in reader.partitions(start, end)] == [(5, 7)]
    reader.stop()
