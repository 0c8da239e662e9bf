"""Fetch sessions (KIP-227): which partitions are sent again, and what follows when a broker drops a session."""

from uuid import UUID

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.client.fetch_session import FetchFields, FetchSession

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ONE, OTHER = UUID(int=1), UUID(int=2)


def request_at(offset: int, topic_id: UUID = ONE) -> FetchFields:
    return FetchFields(offset, 100, 0, topic_id)


def establish_session() -> FetchSession:
    session = FetchSession()
    assert session.next_request({A: request_at(0), B: request_at(0)}, by_id=True)[:3] == (0, 0, [A, B])
    session.update(7)
    return session


def test_only_changed_partitions_are_sent():
    session = establish_session()
    assert session.next_request({A: request_at(5), B: request_at(0)}, by_id=True) == (7, 1, [A], {})
    session.update(7)
    assert session.next_request({A: request_at(5)}, by_id=True) == (7, 2, [], {B: ONE})
    session.update(7)
    assert session.next_request({A: request_at(5), B: request_at(0)}, by_id=True) == (7, 3, [B], {})


def test_a_recreated_topic_is_sent_again():
    session = establish_session()
    request = session.next_request({A: request_at(0, OTHER), B: request_at(0)}, by_id=True)
    assert (request.listed_partitions, request.removed_partitions) == ([A], {A: ONE})


def test_a_lost_session_is_replaced_unless_the_session_cache_is_full():
    session = establish_session()
    session.reset()
    assert session.next_request({A: request_at(5)}, by_id=True) == (7, 0, [A], {})
    session.update(0)
    assert session.next_request({A: request_at(5)}, by_id=True) == (0, 0, [A], {})
    session.update(8)
    assert session.next_request({A: request_at(5)}, by_id=False) == (8, 0, [A], {})


def test_the_session_epoch_wraps_around_to_1():
    session = establish_session()
    session.epoch = 2**31 - 1
    session.update(7)
    assert session.epoch == 1


def read(consumer: Consumer, count: int) -> list[bytes]:
    batches = []
    while len(batches) < count:
        batches += [record.value for record in consumer.poll(60_000)]
    return batches


@pytest.mark.parametrize("slots", ["1000", "0"])
def test_a_consumer_keeps_a_session_if_the_broker_does(slots):
    with Broker(config={"max.incremental.fetch.session.cache.slots": slots}) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="t", num_partitions=3)])
        settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
        with Producer(servers) as producer, Consumer(servers, **settings) as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(3)])
            for turn in range(5):
                producer.send("t", b"%d" % turn, partition=turn % 3).result()
                assert read(consumer, 1) == [b"%d" % turn]
            consumer.pause(TopicPartition("t", 0))
            producer.send("t", b"paused", partition=0).result()
            producer.send("t", b"other", partition=1).result()
            assert read(consumer, 1) == [b"other"]
            consumer.resume(TopicPartition("t", 0))
            assert read(consumer, 1) == [b"paused"]
            consumer.seek(TopicPartition("t", 1), 0)
            assert read(consumer, 3) == [b"1", b"4", b"other"]
        requests = [one.body for one in broker.journal.requests("Fetch")]
        incremental = [request for request in requests if request.session_epoch > 0]
        assert bool(incremental) == (slots != "0")
        assert all(sum(len(topic.partitions) for topic in one.topics) < 3 for one in incremental)
        assert any(one.forgotten_topics_data for one in incremental) == (slots != "0")


@pytest.mark.parametrize("code", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"])
def test_all_partitions_are_sent_again_after_the_broker_dropped_the_session(code):
    with Broker() as broker:
        servers = broker.bootstrap_servers
        settings = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
        with Producer(servers) as producer, Consumer(servers, **settings) as consumer:
            producer.send("t", b"first").result()
            consumer.assign(consumer.partitions_for("t"))
            assert read(consumer, 1) == [b"first"]
            with broker.on("Fetch").error(code).once() as rule:
                producer.send("t", b"second").result()
                # these may be records of a fetch that was pending before the rule was created
                assert read(consumer, 1) == [b"second"]
                producer.send("t", b"third").result()
                assert read(consumer, 1) == [b"third"]
                assert rule.count
