"""Following live topics without Spark: recreated topics, first micro-batches that an earlier run planned."""

import pyarrow as pa
import pytest
from tests.spark.topics import recreate_topic

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.scan.topic.following import TopicFollower
from kafkaframes.spark.options import parse_topic_options


def create_topic(servers: str, topic: str, rows: int) -> None:
    recreate_topic(servers, topic, 1)
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * rows}), topic=topic)


class Clock:
    """A clock that advances by sleeping. The clock calls ``on_sleep`` during each sleep."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.on_sleep = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.on_sleep()


def follower(servers: str, topic: str, clock: Clock | None = None, **options: str) -> TopicFollower:
    topic_settings = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    clock = clock or Clock()
    return TopicFollower(
        parse_topic_options(topic_settings, is_stream=True), clock=lambda: clock.now_s, sleep=clock.sleep
    )


def test_a_recreated_topic_is_read_from_its_start_or_an_error(servers):
    create_topic(servers, "anew", 50)
    place = TopicPartition("anew", 0)
    one = follower(servers, "anew", failOnDataLoss="false")
    read = one.find_batch_end(one.find_start_offsets())
    assert read == {place: 50}
    create_topic(servers, "anew", 20)
    end = one.find_batch_end(read)
    assert end == {place: 20}
    assert [(piece.first, piece.end) for piece in one.plan_batch(read, end)] == [(0, 20)]
    one.close()
    strict = follower(servers, "anew")
    with pytest.raises(OptionError, match="read up to offset 50, ends at 20: it was truncated or recreated"):
        strict.find_batch_end(read)
    with pytest.raises(OptionError, match="read up to offset 50, ends at 20: it was truncated"):
        strict.plan_batch(read, end)
    strict.close()


def test_few_rows_wait_for_the_delay_since_the_last_batch_except_in_the_first_batch(servers):
    create_topic(servers, "few", 5)
    now = [0.0]
    topic_settings = {"kafka.bootstrap.servers": servers, "subscribe": "few", "startingOffsets": "earliest"}
    topic_settings |= {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "60s"}
    one = TopicFollower(parse_topic_options(topic_settings, is_stream=True), clock=lambda: now[0])
    place = TopicPartition("few", 0)
    first = one.find_batch_end({place: 0})
    assert first == {place: 5}
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"v"] * 3}), topic="few")
        now[0] = 59.0
        assert one.find_batch_end(first) == first
        now[0] = 60.0
        assert one.find_batch_end(first) == {place: 8}
        producer.send_arrow(pa.table({"value": [b"v"] * 10}), topic="few")
    now[0] = 61.0
    assert one.find_batch_end({place: 8}) == {place: 18}  # with enough rows, the batch is not delayed
    one.close()


@pytest.mark.parametrize("strict", ["true", "false"])
@pytest.mark.parametrize("available_now", [False, True])
def test_a_temporarily_lower_end_offset_is_looked_up_again(servers, strict, available_now):
    """SPARK-26267 and KAFKA-7703: with failOnDataLoss=false, all rows were read again. With failOnDataLoss=true, the
    query failed.
    """
    create_topic(servers, "regress", 50)
    place, clock, answers = TopicPartition("regress", 0), Clock(), [{TopicPartition("regress", 0): 30}] * 3
    stream = follower(servers, "regress", clock, failOnDataLoss=strict)
    look_up = stream._lookups.find_latest_offsets
    stream._lookups.find_latest_offsets = lambda partitions: answers.pop() if answers else look_up(partitions)
    goal = {place: 30} if available_now else None
    assert stream.find_batch_end({place: 50}, goal=goal) == {place: 50}
    assert clock.now_s > 0
    answers += [{place: 30}] * 3
    assert [(piece.first, piece.end) for piece in stream.plan_batch({place: 40}, {place: 50})] == [(40, 50)]
    stream.close()


def test_records_that_arrive_during_a_repeated_look_up_belong_to_the_next_micro_batch(servers):
    create_topic(servers, "later", 5)
    place, clock = TopicPartition("later", 0), Clock()
    stream = follower(servers, "later", clock)
    look_up, answers = stream._lookups.find_latest_offsets, [{place: 3}]
    stream._lookups.find_latest_offsets = lambda partitions: answers.pop() if answers else look_up(partitions)
    with Producer(servers) as producer:
        producer.send_arrow(pa.table({"value": [b"w"] * 2}), topic="later")
    assert stream.find_batch_end({place: 5}) == {place: 5}
    assert stream.find_batch_end({place: 5}) == {place: 7}
    stream.close()


def test_a_permanently_lower_end_offset_is_data_loss_after_some_seconds(servers):
    create_topic(servers, "shorter", 20)
    place, clock = TopicPartition("shorter", 0), Clock()
    strict = follower(servers, "shorter", clock)
    with pytest.raises(OptionError, match="read up to offset 50, ends at 20: it was truncated"):
        strict.find_batch_end({place: 50})
    assert 5 <= clock.now_s < 10
    strict.close()
