"""Clients refresh outdated metadata in each call that needs a controller or leader on a lost broker."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import EARLIEST, LATEST, Admin, Consumer, Producer, TopicPartition

T_0 = TopicPartition("t", 0)
SETTINGS = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50}


@pytest.fixture
def broker():
    with Broker(cluster=3) as broker:
        broker.create_topic("t")
        broker.append("t", [{"value": b"1"}, {"value": b"2"}])
        yield broker


def stop_leader(broker, admin):
    """Stop the partition's leader after the client has cached it."""
    assert admin.list_offsets({T_0: LATEST}) == {T_0: 2}
    broker.stop_node(admin.describe_topics(["t"])["t"].partitions[0].leader)


def test_an_admin_finds_the_new_controller(broker):
    with Admin(broker.bootstrap_servers, **SETTINGS) as admin:
        admin.create_topics(["first"])
        broker.stop_node(admin.describe_cluster().controller)
        admin.create_topics(["second"])
        assert {"first", "second"} <= set(admin.list_topics())


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda admin: admin.list_offsets({T_0: EARLIEST}), {T_0: 0}),
        (lambda admin: admin.delete_records({T_0: 1}), {T_0: 1}),
        (lambda admin: len(admin.describe_producers([T_0])), 1),
    ],
    ids=["list_offsets", "delete_records", "describe_producers"],
)
def test_an_admin_finds_the_new_leader(broker, call, result):
    with Admin(broker.bootstrap_servers, **SETTINGS) as admin:
        stop_leader(broker, admin)
        assert call(admin) == result


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"])
def test_records_are_deleted_although_the_leader_moves(broker, code):
    with Admin(broker.bootstrap_servers, **SETTINGS) as admin:
        with broker.on("DeleteRecords").times(2).error(code):
            assert admin.delete_records({T_0: 1}) == {T_0: 1}
        assert admin.list_offsets({T_0: EARLIEST}) == {T_0: 1}


@pytest.mark.parametrize("method", ["beginning_offsets", "end_offsets"])
def test_a_consumer_finds_the_new_leader_for_offsets(broker, method):
    with Consumer(broker.bootstrap_servers, **SETTINGS) as consumer, Admin(broker.bootstrap_servers) as admin:
        assert consumer.end_offsets([T_0]) == {T_0: 2}
        stop_leader(broker, admin)
        assert getattr(consumer, method)([T_0])[T_0] in (0, 2)


def test_a_producer_finds_the_new_leader(broker):
    with Producer(broker.bootstrap_servers, **SETTINGS) as producer, Admin(broker.bootstrap_servers) as admin:
        producer.send("t", b"3").result()
        broker.stop_node(admin.describe_topics(["t"])["t"].partitions[0].leader)
        assert producer.send("t", b"4").result(30).offset == 3
