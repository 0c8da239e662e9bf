"""The reader of a live topic stream, as Spark calls it; without a JVM."""

import json

import pyarrow as pa
import pytest
from tests.scan.topic.test_following import create_topic

from kafkaframes.client import Admin, Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.jobs.micro_batch import parse_offsets
from kafkaframes.spark.options import parse_topic_options


def stream_reader(servers, topic, **options):
    from kafkaframes.scan.columns import choose_columns
    from kafkaframes.spark.sources.topic_stream import KafkaTopicStreamReader

    topic_settings = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    return KafkaTopicStreamReader(parse_topic_options(topic_settings, is_stream=True), choose_columns(None))


def test_the_start_of_a_new_query_does_not_move_while_rows_arrive(servers):
    """Spark asks before it looks for new rows, and may ask again when it plans them: no row between the two may be
    lost.
    """
    from kafkaframes.spark.sources.topic_stream import ReadAllAvailable

    create_topic(servers, "moving", 5)
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
    """Spark plans one although no row exists; the same one of an earlier run is rejected."""
    from kafkaframes.spark.sources.topic_stream import ReadAllAvailable

    create_topic(servers, "idle", 5)
    reader = stream_reader(servers, "idle")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.partitions(start, start) == []
    reader.stop()
    after = stream_reader(servers, "idle")
    with pytest.raises(OptionError, match="planned by an earlier run"):
        after.partitions(after.initialOffset(), start)
    after.stop()


def test_a_recreated_topic_of_equal_length_is_detected_by_its_id(servers):
    """Offsets alone are not sufficient: the new topic ends at or after the offset to which the old one was read."""
    from kafkaframes.spark.sources.topic_stream import ReadAllAvailable

    create_topic(servers, "again", 5)
    reader = stream_reader(servers, "again", startingOffsets="earliest")
    start = reader.initialOffset()
    read = reader.latestOffset(start, ReadAllAvailable())
    assert [name.partition("@")[0] for name in read] == ["again", "again"]
    assert parse_offsets(json.dumps(read)) == {"again": {"0": 5}}  # as with Spark's connector
    create_topic(servers, "again", 8)
    reason = "topic again was deleted and recreated .* new checkpoint.*`kafkaframes checkpoint convert`.*=false reads"
    with pytest.raises(OptionError, match=reason):
        reader.latestOffset(read, ReadAllAvailable())
    with pytest.raises(OptionError, match=reason):
        reader.partitions(start, read)
    reader.stop()
    loose = stream_reader(servers, "again", failOnDataLoss="false")
    assert loose.partitions(start, read) == []  # those rows are lost
    end = loose.latestOffset(read, ReadAllAvailable())
    assert [(task.value.first, task.value.end) for task in loose.partitions(read, end)] == [(0, 8)]
    assert loose.latestOffset(end, ReadAllAvailable()) == end
    loose.stop()


def test_a_checkpoint_without_topic_ids_is_accepted(servers):
    """From an earlier version, from Spark's connector, or converted: it causes no empty micro-batch."""
    from kafkaframes.spark.sources.topic_stream import ReadAllAvailable

    create_topic(servers, "plain", 5)
    reader = stream_reader(servers, "plain")
    start = {"plain": {"0": 5}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * 2}), topic="plain")
    end = reader.latestOffset(start, ReadAllAvailable())
    assert (end["plain"], len(end)) == ({"0": 7}, 2)
    assert [(task.value.first, task.value.end) for task in reader.partitions(start, end)] == [(5, 7)]
    reader.stop()


def send(servers, topic, rows, partition=0):
    with Producer(servers) as producer:
        for _ in range(rows):
            producer.send(topic, b"v", partition=partition)
        producer.flush()


def ranges(works):
    return [(work.value.topic, work.value.partition, work.value.first, work.value.end) for work in works]


def test_a_new_partition_without_its_first_records_is_an_error_or_read_from_its_earliest_offset(servers, caplog):
    """The connector reports "Added partition .. starts from .. instead of 0. Some data may have been missed" in this
    case.
    """
    from kafkaframes.spark.sources.topic_stream import ReadAllAvailable

    create_topic(servers, "grown", 2)
    reader = stream_reader(servers, "grown", startingOffsets="earliest")
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    with Admin(servers) as admin:
        admin.create_partitions({"grown": 3})
        send(servers, "grown", 4, partition=1)
        send(servers, "grown", 1, partition=2)
        admin.delete_records({TopicPartition("grown", 1): 3})
    reason = "grown-1 was added after .* begins at offset 3: offsets 0 to 2 are lost .*failOnDataLoss=false reads"
    with pytest.raises(OptionError, match=reason):
        reader.latestOffset(start, ReadAllAvailable())
    loose = stream_reader(servers, "grown", failOnDataLoss="false")
    end = loose.latestOffset(start, ReadAllAvailable())
    assert ranges(loose.partitions(start, end)) == [("grown", 1, 3, 4), ("grown", 2, 0, 1)]
    assert "offsets 0 to 2 are lost" in caplog.text
    with pytest.raises(OptionError, match=reason):
        reader.partitions(start, end)  # which an earlier run has planned
    fresh = stream_reader(servers, "grown", startingOffsets="earliest")
    first = fresh.initialOffset()
    assert len(ranges(fresh.partitions(first, fresh.latestOffset(first, ReadAllAvailable())))) == 3
    for each in (reader, loose, fresh):
        each.stop()


@pytest.fixture
def pair(servers):
    """Two topics with five records each, which a stream has read completely, and a function that hides some of them."""
    from kafkaframes.spark.sources.topic_stream import ReadAllAvailable

    for topic in ("pair-a", "pair-b"):
        create_topic(servers, topic, 5)

    class Pair:
        def __init__(self, **options):
            topic_settings = {
                "kafka.bootstrap.servers": servers,
                "subscribePattern": "pair-.*",
                "startingOffsets": "earliest",
            }
            from kafkaframes.scan.columns import choose_columns
            from kafkaframes.spark.sources.topic_stream import KafkaTopicStreamReader

            options = parse_topic_options({**topic_settings, **options}, is_stream=True)
            self.reader = KafkaTopicStreamReader(options, choose_columns(None))
            self.list = self.reader.follower._lookups.find_partitions
            self.start = self.latest(self.reader.initialOffset())

        def hide(self, *topics):
            self.reader.follower._lookups.find_partitions = lambda: [
                one for one in self.list() if one.topic not in topics
            ]

        def latest(self, start):
            return self.reader.latestOffset(start, ReadAllAvailable())

        def batch(self, start):
            end = self.latest(start)
            return end, ranges(self.reader.partitions(start, end))

    pairs = []
    yield lambda **options: pairs.append(Pair(**options)) or pairs[-1]
    for each in pairs:
        each.reader.stop()


def test_a_topic_that_is_no_longer_selected_is_not_reported_as_deleted(servers, pair, caplog):
    """Raiffeisen-DGTL/checkita-data-quality#62: a query restarts from its checkpoint with other topics."""
    start = {"pair-a": {"0": 5}, "pair-b": {"0": 5}}
    reader = stream_reader(servers, "pair-a")
    reason = "pair-b-0, read up to offset 5, is in the checkpoint, but the options of the query no longer select it"
    with pytest.raises(OptionError, match=reason):
        reader.latestOffset(start, reader.getDefaultReadLimit())
    reader.stop()
    loose = stream_reader(servers, "pair-a", failOnDataLoss="false")
    loose.latestOffset(start, loose.getDefaultReadLimit())
    assert caplog.text.count(reason) == 1
    loose.stop()


def test_topics_missing_from_a_listing_keep_their_offsets(servers, pair, caplog):
    """SPARK-41375: if brokers list no topics, there must be no micro-batch without topics, after which everything is
    read again.
    """
    loose = pair(failOnDataLoss="false")
    loose.hide("pair-a", "pair-b")
    for _ in range(3):
        assert loose.latest(loose.start) == loose.start
    assert caplog.text.count("pair-b-0, read up to offset 5, no longer exists") == 1
    loose.hide("pair-b")
    assert loose.latest(loose.start) == loose.start
    send(servers, "pair-a", 2)
    end, works = loose.batch(loose.start)
    assert works == [("pair-a", 0, 5, 7)]
    b_id = next(name for name in loose.start if name.startswith("pair-b@"))
    assert end.keys() == {"pair-a", next(n for n in loose.start if n.startswith("pair-a@")), f"{b_id}/0=5"}
    assert parse_offsets(json.dumps(end)) == {"pair-a": {"0": 7}}  # as with Spark's connector
    assert loose.latest(end) == end
    send(servers, "pair-a", 1)
    end, works = loose.batch(end)  # it is still not listed
    assert f"{b_id}/0=5" in end
    loose.hide()
    assert loose.latest(end) == end
    send(servers, "pair-b", 3)
    back, works = loose.batch(end)
    assert works == [("pair-b", 0, 5, 8)]
    assert back["pair-b"] == {"0": 8}
    assert f"{b_id}/0=5" not in back
    another_run = pair(failOnDataLoss="true")
    assert another_run.batch(end)[1] == [("pair-b", 0, 5, 8)]  # on the checkpoint of the first query


def test_a_topic_that_returns_with_another_id_is_a_new_topic(servers, pair, caplog):
    loose = pair(failOnDataLoss="false")
    loose.hide("pair-b")
    send(servers, "pair-a", 1)
    end, _ = loose.batch(loose.start)
    create_topic(servers, "pair-b", 9)
    loose.hide()
    with pytest.raises(OptionError, match="topic pair-b was deleted and recreated"):
        pair().latest(end)
    new, works = loose.batch(end)
    assert works == [("pair-b", 0, 0, 9)]
    assert "topic pair-b was deleted and recreated" in caplog.text
    assert loose.latest(new) == new


def test_an_available_now_run_ends_without_unlisted_topics(servers, pair):
    loose = pair(failOnDataLoss="false")
    loose.hide("pair-a", "pair-b")
    loose.reader.prepareForTriggerAvailableNow()
    assert loose.latest(loose.start) == loose.start
    loose.hide("pair-b")
    send(servers, "pair-a", 1)
    send(servers, "pair-b", 1)
    end, works = loose.batch(loose.start)
    assert works == [("pair-a", 0, 5, 6)]
    assert loose.latest(end) == end
    loose.reader.goal = None
    loose.hide()
    assert loose.batch(end)[1] == [("pair-b", 0, 5, 6)]


def test_an_empty_listing_is_repeated_before_it_is_data_loss(servers, pair):
    strict = pair(**{"kafka.default.api.timeout.ms": "30000", "kafka.request.timeout.ms": "20000"})
    follower, now, lists = strict.reader.follower, [0.0], []
    follower._clock = lambda: now[0]

    def sleep(seconds):
        now[0] += seconds
        lists.append(now[0])
        if len(lists) == 5:
            strict.hide()

    follower._sleep = sleep
    strict.hide("pair-a", "pair-b")
    assert strict.latest(strict.start) == strict.start
    assert len(lists) == 5
    strict.hide("pair-a", "pair-b")
    with pytest.raises(OptionError, match="pair-a-0, read up to offset 5, no longer exists"):
        strict.latest(strict.start)
    assert 30 <= now[0] < 35
    strict.hide("pair-b")
    with pytest.raises(OptionError, match="pair-b-0, read up to offset 5, no longer exists"):
        strict.latest(strict.start)  # a partial listing is not repeated
    assert now[0] < 35
