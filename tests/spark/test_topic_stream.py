"""The reader of a stream of live topics, as Spark calls it; no JVM."""

import pyarrow as pa
import pytest
from tests.scan.topic.test_following import make

from kafkaframes.client import Producer
from kafkaframes.errors import OptionError
from kafkaframes.spark.topic_options import topic_options


def stream_reader(servers, topic):
    from kafkaframes.scan.columns import choose_columns
    from kafkaframes.spark.topic_stream import KafkaTopicStreamReader

    given = {"kafka.bootstrap.servers": servers, "subscribe": topic}
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
