"""``Broker.groups`` and ``Broker.transactions`` as tests use them, with members of each group protocol."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from tests.broker.polling import poll_with_librdkafka

from kafkaframes.broker import Broker
from kafkaframes.storage.files.names import TopicPartition


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        running.create_topic("orders", 2)
        running.append("orders", [{"value": b"x"}, {"value": b"y"}])
        yield running


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_groups_members_assignments_and_committed_offsets_can_be_inspected(broker, protocol):
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": protocol,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "client.id": "reader",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["orders"])
        record = poll_with_librdkafka(consumer)
        consumer.commit(message=record, asynchronous=False)
        broker.wait_for(lambda: broker.groups[protocol].state == "Stable")
        group = broker.groups[protocol]
        assert group.type == protocol
        (member,) = group.members
        assert member.client_id == "reader"
        assert member.assignment == (TopicPartition("orders", 0), TopicPartition("orders", 1))
        assert group.offsets == {TopicPartition("orders", record.partition()): record.offset() + 1}
    finally:
        consumer.close()
    broker.wait_for(lambda: broker.groups[protocol].members == ())


def test_an_open_transaction_and_its_end_can_be_inspected(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"z", partition=1)
    producer.flush()
    transaction = broker.transactions["billing"]
    assert transaction.is_open
    assert transaction.partitions == (TopicPartition("orders", 1),)
    assert transaction.started_ms is not None
    producer.commit_transaction()
    broker.wait_for(lambda: broker.transactions["billing"].state == "CompleteCommit")
    assert not broker.transactions["billing"].is_open
