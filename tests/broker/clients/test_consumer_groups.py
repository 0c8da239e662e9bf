"""Consumer groups of KIP-848 with librdkafka's own client: sharing, patterns, static members, administration."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka as confluent
import pytest
from confluent_kafka.admin import AdminClient

from kafkaframes.broker import Broker

SECONDS = 60.0


@pytest.fixture(scope="module")
def broker():
    settings = {"num.partitions": 6, "group.consumer.heartbeat.interval.ms": 50}
    with Broker(config=settings) as running:
        producer = confluent.Producer({"bootstrap.servers": f"{running.host}:{running.port}", "log_level": 0})
        for number in range(60):
            producer.produce("orders", str(number).encode(), str(number).encode())
        assert producer.flush(SECONDS) == 0
        yield running


def consumer(broker: Broker, group: str, *topics: str, **config: Any) -> confluent.Consumer:
    names = {key.replace("_", "."): value for key, value in config.items()}
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": f"{broker.host}:{broker.port}",
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        | names
    )
    consumer.subscribe(list(topics or ("orders",)))
    return consumer


def wait_for(condition: Callable[[], bool], *polled_consumers: confluent.Consumer) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < SECONDS, "the condition did not become true"
        for consumer in polled_consumers:
            consumer.poll(0.02)
        if not polled_consumers:
            time.sleep(0.02)


def is_empty(broker: Broker, group: str) -> bool:
    return broker.call(lambda state: state.groups.groups[group].state_name == "Empty")


def counts(*members: confluent.Consumer) -> list[int]:
    return sorted(len(member.assignment()) for member in members)


def test_members_share_partitions_evenly_and_the_last_one_takes_over_all(broker):
    members = [consumer(broker, "share") for _ in range(3)]
    wait_for(lambda: counts(*members) == [2, 2, 2], *members)
    members[0].close()
    wait_for(lambda: counts(*members[1:]) == [3, 3], *members[1:])
    for member in members[1:]:
        member.close()
    wait_for(lambda: is_empty(broker, "share"))


def test_a_second_consumer_of_the_group_continues_from_the_committed_offsets(broker):
    first = consumer(broker, "read", enable_auto_commit=False)
    values: list[int] = []
    wait_for(lambda: len(values) == 60 or _poll_values(first, values))
    assert sorted(values) == list(range(60))
    first.commit(asynchronous=False)
    first.close()
    second = consumer(broker, "read")
    wait_for(lambda: counts(second) == [6], second)
    assert second.poll(0.3) is None
    second.close()


def _poll_values(member: confluent.Consumer, values: list[int]) -> bool:
    record = member.poll(0.1)
    if record is not None and record.error() is None:
        values.append(int(record.value()))
    return False


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_broker_chooses_the_assignor(broker, assignor):
    member = consumer(broker, f"by-{assignor}", group_remote_assignor=assignor)
    wait_for(lambda: counts(member) == [6], member)
    admin = AdminClient({"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0})
    description = admin.describe_consumer_groups([f"by-{assignor}"])[f"by-{assignor}"].result(SECONDS)
    assert (description.state.name, description.partition_assignor) == ("STABLE", assignor)
    assert len(description.members[0].assignment.topic_partitions) == 6
    types_by_group = {group.group_id: group.type.name for group in admin.list_consumer_groups().result(SECONDS).valid}
    assert types_by_group[f"by-{assignor}"] == "CONSUMER"
    member.close()


def test_a_pattern_subscription_includes_topics_created_later(broker):
    member = consumer(broker, "pattern", "^later.*")
    producer = confluent.Producer({"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0})
    for number in (1, 2):
        producer.produce(f"later-{number}", b"x")
        assert producer.flush(SECONDS) == 0
        wait_for(lambda number=number: counts(member) == [6 * number], member)
    member.close()


def test_a_static_member_gets_its_partitions_back_after_a_restart(broker):
    members = [consumer(broker, "static", group_instance_id=name) for name in "ab"]
    wait_for(lambda: counts(*members) == [3, 3], *members)
    before = {item.partition for item in members[1].assignment()}
    epoch = broker.call(lambda state: state.groups.groups["static"].epoch)
    members[1].close()
    members[1] = consumer(broker, "static", group_instance_id="b")
    wait_for(lambda: counts(members[1]) == [3], *members)
    assert {item.partition for item in members[1].assignment()} == before
    assert broker.call(lambda state: state.groups.groups["static"].epoch) == epoch
    for item in members:
        item.close()


def test_an_empty_group_can_switch_between_the_classic_and_consumer_protocols(broker):
    new = consumer(broker, "both", enable_auto_commit=False)
    wait_for(lambda: counts(new) == [6], new)
    new.commit(offsets=[confluent.TopicPartition("orders", 0, 4)], asynchronous=False)
    new.close()
    wait_for(lambda: is_empty(broker, "both"))
    old = consumer(broker, "both", group_protocol="classic")
    wait_for(lambda: counts(old) == [6], old)
    assert old.committed([confluent.TopicPartition("orders", 0)], SECONDS)[0].offset >= 4
    assert broker.call(lambda state: state.groups.groups["both"].type) == "classic"
    old.close()
