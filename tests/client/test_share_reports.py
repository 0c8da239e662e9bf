"""Situations from public reports about share consumers of other clients."""

from __future__ import annotations

import random
import time
from contextlib import suppress

import pytest
from tests.client.test_share_consumer import TIMEOUT_S, produce, read, share, values
from tests.soak.share_cases import LOCK_S, ONE, build_row, create_reader, deliver, error_class_of, requests_of_kind
from tests.soak.share_schedules import GROUP, RecordId, SimulatedBroker

from kafkaframes.broker import Broker
from kafkaframes.broker.requests.request import Session
from kafkaframes.client import Admin, NewTopic, TopicPartition
from kafkaframes.client.metadata import Node
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_messages import ShareMessages
from kafkaframes.client.share_requests import ShareAcknowledge, ShareFetch
from kafkaframes.client.share_session import ACCEPT
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError, OptionError, to_broker_error
from kafkaframes.protocol.messages import message

WORK_TOPIC = "work"


@pytest.fixture
def broker(request):
    options = getattr(request, "param", {})
    with Broker(config={"group.share.heartbeat.interval.ms": 200}, **options) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(WORK_TOPIC, num_partitions=2)])
            admin.alter_configs("group", WORK_TOPIC, {"share.auto.offset.reset": "earliest"})
        produce(broker.bootstrap_servers, WORK_TOPIC, 10)
        yield broker


def sessions_of(broker):
    """Return the node ids of all share sessions."""
    return sorted(node_id for node_id, _, _ in broker.call(lambda state: list(state.share_groups.sessions)))


@pytest.mark.parametrize("code", ["SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"])
def test_acknowledgements_are_not_sent_with_the_first_fetch_of_a_session(code):
    """KAFKA-18198, KAFKA-19485: brokers reject acknowledgements in the first fetch.

    The client fails these acknowledgements and reports them.
    """
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.begin_poll(2.0)
    (request,) = requests_of_kind(machine, ShareFetch, 2.0)
    machine.process_failure(request, to_broker_error(ErrorCode[code], "share fetch"), 2.0)
    (again,) = requests_of_kind(machine, ShareFetch, 2.0)
    assert (again.epoch, again.acknowledgements) == (0, {})
    assert [result.offsets for result in machine.take_results()] == [{TopicPartition("t", 0): [0]}]


def test_a_commit_ends_even_if_the_session_restarts():
    """KAFKA-18164: acknowledgements that could not be sent with epoch 0 blocked the consumer forever."""
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0, 1])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    first = machine.commit()
    (request,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    machine.acknowledge([("t", 0, 1)], ACCEPT)
    machine.process_failure(request, to_broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, "acknowledgement"), 2.0)
    second = machine.commit()
    assert first.is_done
    assert second.is_done
    assert error_class_of(second.require_success) is BrokerError
    machine.begin_poll(3.0)
    assert [request.epoch for request in requests_of_kind(machine, ShareFetch, 3.0)] == [0]


def test_a_failed_fetch_reports_its_acknowledgements():
    """AKCORE-139 (confluentinc/kafka 1211): the callback was not called if a ShareFetch failed."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.begin_poll(2.0)
    (request,) = requests_of_kind(machine, ShareFetch, 2.0)
    machine.process_failure(request, NetworkError("the connection was closed"), 2.0)
    (result,) = machine.take_results()
    assert result.offsets == {TopicPartition("t", 0): [0]}
    assert isinstance(result.error, NetworkError)


def test_a_commit_detects_a_broker_restart_without_requests_in_flight(tmp_path):
    """KAFKA-20330: the client kept the session, and acknowledgements were lost without a callback."""
    with Broker(data_dir=str(tmp_path)) as broker:
        servers, results = broker.bootstrap_servers, []
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(WORK_TOPIC, num_partitions=2)])
            admin.alter_configs("group", WORK_TOPIC, {"share.auto.offset.reset": "earliest"})
        produce(servers, WORK_TOPIC, 1)
        with share(servers, WORK_TOPIC) as consumer:
            consumer.subscribe(WORK_TOPIC, on_acknowledge=lambda offsets, error: results.append((dict(offsets), error)))
            read(consumer, 1)
            time.sleep(0.3)  # fetches of the other partition have ended or end now
            broker.restart()
            with pytest.raises((BrokerError, NetworkError)):
                consumer.commit()
            assert [offsets for offsets, _ in results] == [{TopicPartition(WORK_TOPIC, 0): [0]}]
            assert results[0][1] is not None
            (record,) = read(consumer, 1)
            assert record.offset == 0
            consumer.commit()


@pytest.mark.parametrize("broker", [{"cluster": 2}], indirect=True)
def test_acknowledgements_after_a_leader_change_fail_and_the_records_are_delivered_again(broker):
    """KAFKA-18618, KAFKA-18769: the old leader cannot acknowledge them."""
    with share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC)
        read(consumer, 10)
        consumer.commit()
        produce(broker.bootstrap_servers, WORK_TOPIC, 1, first=10)
        (record,) = read(consumer, 1)
        leader = broker.call(lambda state: state.partition(WORK_TOPIC, 0).leader_id)
        broker.move_leader(WORK_TOPIC, 0, 3 - leader)
        with pytest.raises(BrokerError, match="NOT_LEADER_OR_FOLLOWER"):
            consumer.commit()
        broker.clock.advance(31)
        (again,) = read(consumer, 1)
        assert (again.offset, again.delivery_count) == (record.offset, 2)
        consumer.commit()


@pytest.mark.parametrize("broker", [{"cluster": 2}], indirect=True)
def test_a_node_that_no_longer_leads_partitions_has_no_session(broker):
    """KAFKA-20736: partitions stayed in the session of their old leader, and empty sessions were never closed."""
    for partition in range(2):
        broker.move_leader(WORK_TOPIC, partition, partition + 1)
    with share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC)
        assert values(read(consumer, 10)) == list(range(10))
        consumer.commit()
        assert sessions_of(broker) == [1, 2]
        broker.move_leader(WORK_TOPIC, 1, 1)
        deadline = time.monotonic() + TIMEOUT_S
        while sessions_of(broker) != [1]:
            assert time.monotonic() < deadline
            consumer.poll(200)
        produce(broker.bootstrap_servers, WORK_TOPIC, 4, first=10)
        assert values(read(consumer, 4)) == list(range(10, 14))


def test_a_session_is_closed_even_if_all_records_are_acknowledged(broker):
    """AKCORE-241 (confluentinc/kafka 1375): the last request was empty, and was therefore not sent."""
    with share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC)
        read(consumer, 10)
        consumer.commit()
        assert sessions_of(broker)
        consumer.unsubscribe()
        assert not sessions_of(broker)


def test_the_callback_is_called_when_the_consumer_closes(broker):
    """AKCORE-102 (confluentinc/kafka 1192). Acknowledged records are accepted without a commit (librdkafka 5539)."""
    results = []
    with share(broker.bootstrap_servers, WORK_TOPIC, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(WORK_TOPIC, on_acknowledge=lambda offsets, error: results.append((dict(offsets), error)))
        records = []
        while not records:
            records = consumer.poll(500)
        consumer.acknowledge(records)
    assert {error for _, error in results} == {None}
    assert sum(len(numbers) for offsets, _ in results for numbers in offsets.values()) == len(records)
    with share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC)
        rest = read(consumer, 10 - len(records)) if len(records) < 10 else []
        assert values([*records, *rest]) == list(range(10))
        consumer.commit()


def test_records_of_a_handler_that_raises_are_released(broker):
    """Dekaf 3030: closing the consumer accepted the records, and no member handled them again."""
    first = []
    with suppress(RuntimeError), share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC)
        while not first:
            first = consumer.poll(500)
        raise RuntimeError("the handler fails")
    with share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC)
        records = read(consumer, 10)
        again = {record.value for record in records if record.delivery_count == 2}
        assert again == {record.value for record in first}
        consumer.commit()


def test_record_limit_is_rejected_if_the_broker_does_not_support_it():
    """KAFKA-19020: Java's client raises UnsupportedVersionException, and does not read without the limit."""
    settings = ShareConsumerSettings.from_options(
        {"bootstrap_servers": "a:1", "group_id": "g", "share_acquire_mode": "record_limit"}
    )
    messages = ShareMessages(settings, "m", lambda _: None)
    request = ShareFetch(Node(1, "a", 9092), 0, [ONE], [], {})
    with pytest.raises(OptionError, match=r"record_limit is not supported by broker 1 at a:9092: it needs Kafka 4\.2"):
        messages.to_fetch_body(request, 1)
    assert messages.to_fetch_body(request, 2).share_acquire_mode == 1
    machine = create_reader(share_acquire_mode="record_limit")
    machine.begin_poll(1.0)
    (fetch,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_failure(fetch, OptionError("share_acquire_mode"), 1.0)
    assert isinstance(machine.take_error(), OptionError)


@pytest.fixture
def share_world():
    share_world = SimulatedBroker(LOCK_S, random.Random(1))
    share_world.create("t", 1)
    body = message("ShareGroupHeartbeatRequest")(
        group_id=GROUP, member_id="m", member_epoch=0, subscribed_topic_names=["t"]
    )
    share_world.exchange("ShareGroupHeartbeat", 1, body, Session(node_id=1))
    share_world.write(share_world.partitions()[0], 3)
    return share_world


def fetch_share(share_world, session, epoch):
    """Send a ShareFetch of the topic's partition; return the acquired offsets."""
    cls = message("ShareFetchRequest")
    topics = [cls.FetchTopic(topic_id=share_world.topic_id("t"), partitions=[cls.FetchPartition(partition_index=0)])]
    body = cls(
        group_id=GROUP, member_id="m", share_session_epoch=epoch, max_bytes=1 << 20, max_records=9, topics=topics
    )
    answer = share_world.exchange("ShareFetch", 2, body, session)
    assert answer.error_code == 0
    rows = [row for topic in answer.responses for row in topic.partitions]
    return [
        (acquired_range.first_offset, acquired_range.last_offset)
        for row in rows
        for acquired_range in row.acquired_records
    ]


def acquiring_member(share_world, offset):
    """Return the member that has acquired a record; None if no member has."""
    delivery = share_world.delivery(RecordId(share_world.topic_id("t"), 0, offset))
    return None if delivery is None else delivery.member_id or None


def close_connection(session):
    for call in list(session.when_closed.values()):
        call()


def test_a_node_releases_only_records_of_partitions_that_it_leads(share_world):
    """librdkafka 5508: the end of one node's session released records that the new leader had delivered."""
    old, new = Session(node_id=1), Session(node_id=2)
    (partition,) = share_world.partitions()
    assert fetch_share(share_world, old, 0) == [(0, 2)]
    share_world.state.move_leader(partition, 2)
    share_world.clock.advance(LOCK_S + 1)
    assert fetch_share(share_world, new, 0) == [(0, 2)]
    close_connection(old)
    assert acquiring_member(share_world, 0) == "m"
    close_connection(new)
    assert acquiring_member(share_world, 0) is None


def test_the_end_of_an_old_connection_does_not_end_the_session_of_the_new_one(share_world):
    """KAFKA-19950: a client that starts a session on a new connection lost it when the broker noticed the old one."""
    old, new = Session(node_id=1), Session(node_id=1)
    assert fetch_share(share_world, old, 0) == [(0, 2)]
    assert fetch_share(share_world, new, 0) == []
    close_connection(old)
    assert acquiring_member(share_world, 0) == "m"
    assert fetch_share(share_world, new, 1) == []


def test_results_are_reported_after_the_callback_has_failed(broker):
    """Java's callback may raise: the exception leaves poll or commit. The results of other nodes were then dropped."""
    results = []

    def fail_once(offsets, error):
        results.append((sum(map(len, offsets.values())), error))
        if len(results) == 1:
            raise ValueError("the callback fails")

    with share(broker.bootstrap_servers, WORK_TOPIC) as consumer:
        consumer.subscribe(WORK_TOPIC, on_acknowledge=fail_once)
        read(consumer, 10)
        with pytest.raises(ValueError, match="the callback fails"):
            consumer.commit()
        consumer.commit()
    assert sum(count for count, _ in results) == 10
    assert {error for _, error in results} == {None}
