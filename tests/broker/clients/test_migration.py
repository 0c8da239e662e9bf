"""A running group changes its protocol with librdkafka's own client: classic, both, classic again (KIP-848)."""

from __future__ import annotations

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.clients.test_consumer_groups import SECONDS, consumer, wait_for

from kafkaframes.broker import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(config={"num.partitions": 6, "group.consumer.heartbeat.interval.ms": 50}) as running:
        running.create_topic("orders", 6)
        yield running


def describe_protocol(broker: Broker, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return admin.describe_consumer_groups([group])[group].result(SECONDS).type.name


def produce(broker: Broker, first: int, count: int) -> None:
    producer = confluent.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(first, first + count):
        producer.produce("orders", str(number).encode(), partition=number % 6)
    assert producer.flush(SECONDS) == 0


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_is_upgraded_and_downgraded_while_its_members_read(broker, assignor):
    classic = {"group_protocol": "classic", "partition_assignment_strategy": assignor, "heartbeat_interval_ms": 50}
    group, values = f"group-{assignor}", set()
    old = consumer(broker, group, "orders", auto_commit_interval_ms=50, session_timeout_ms=6000, **classic)

    def has_read(expected_values, *consumers):
        for member in consumers:
            message = member.poll(0.02)
            if message is not None and message.error() is None:
                values.add(message.value())
        return expected_values <= values

    first = 0 if assignor == "range" else 100
    batches = [
        {str(number).encode() for number in range(first + offset, first + offset + 12)} for offset in (0, 12, 24)
    ]
    produce(broker, first, 12)
    wait_for(lambda: has_read(batches[0], old))
    assert describe_protocol(broker, group) == "CLASSIC"
    young = consumer(broker, group)
    wait_for(lambda: len(old.assignment()) == len(young.assignment()) == 3, old, young)
    assert describe_protocol(broker, group) == "CONSUMER"
    produce(broker, first + 12, 12)
    wait_for(lambda: has_read(batches[1], old, young))
    young.close()
    wait_for(lambda: len(old.assignment()) == 6, old)
    assert describe_protocol(broker, group) == "CLASSIC"
    produce(broker, first + 24, 12)
    wait_for(lambda: has_read(batches[2], old))
    old.close()
