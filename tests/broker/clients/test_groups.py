"""Groups of unmodified clients: the first record, two members, static members, leaving, cooperative, offsets, admin."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka as confluent
import kafka
import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.polling import poll_with_kafka_python

from kafkaframes.broker import Broker, Clock

SECONDS = 60.0


@pytest.fixture(scope="module")
def broker():
    with Broker(config={"num.partitions": 4}) as running:
        producer = confluent.Producer(quiet_config(running))
        for number in range(20):
            producer.produce("orders", str(number).encode(), str(number).encode())
        assert producer.flush(SECONDS) == 0
        yield running


def quiet_config(broker: Broker, **config: Any) -> dict[str, Any]:
    """Return a configuration of librdkafka that ignores its messages about the broker's stop."""
    names = {key.replace("_", "."): value for key, value in config.items()}
    return {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0} | names


def consumer(broker: Broker, group: str, **config: Any) -> confluent.Consumer:
    consumer = confluent.Consumer(
        quiet_config(
            broker,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=60_000,
            heartbeat_interval_ms=100,
            **config,
        )
    )
    consumer.subscribe(["orders"])
    return consumer


def wait_for(condition: Callable[[], bool], *polled_consumers: confluent.Consumer) -> None:
    """Poll until the condition holds."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < SECONDS, "the condition did not become true"
        for consumer in polled_consumers:
            consumer.poll(0.02)
        if not polled_consumers:
            time.sleep(0.02)


def call_group(broker: Broker, name: str, ask: Callable[[Any], Any]) -> Any:
    """Call a function with a group, on the broker's thread."""
    return broker.call(lambda state: ask(state.groups.groups[name]))


def is_empty(broker: Broker, name: str) -> bool:
    return call_group(broker, name, lambda group: group.is_empty)


def counts(*members: confluent.Consumer) -> list[int]:
    return sorted(len(member.assignment()) for member in members)


def test_a_new_group_gets_its_first_record_without_any_delay():
    """Run on a stopped clock: only work with no delay runs."""
    with Broker(clock=Clock(is_frozen=True)) as broker:
        broker.append("orders", [{"value": b"x"}])
        for number in range(3):
            member = confluent.Consumer(quiet_config(broker, group_id=f"soon-{number}", auto_offset_reset="earliest"))
            member.subscribe(["orders"])
            values: list[Any] = []

            def has_read(member=member, values=values) -> bool:
                broker.clock.advance(0)
                record = member.poll(0.02)
                values.extend([] if record is None else [record.value()])
                return bool(values)

            wait_for(has_read)
            assert values == [b"x"]
            member.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_partitions_and_the_second_takes_over(broker, strategy):
    config = {"partition_assignment_strategy": strategy}
    first = consumer(broker, f"share-{strategy}", **config)
    wait_for(lambda: counts(first) == [4], first)
    second = consumer(broker, f"share-{strategy}", **config)
    wait_for(lambda: counts(first, second) == [2, 2], first, second)
    first.close()
    wait_for(lambda: counts(second) == [4], second)
    second.close()
    wait_for(lambda: is_empty(broker, f"share-{strategy}"))


def test_a_static_member_keeps_its_partitions_over_a_restart(broker):
    members = [consumer(broker, "static", group_instance_id=name) for name in ("a", "b")]
    wait_for(lambda: counts(*members) == [2, 2], *members)
    before = sorted(one.partition for one in members[1].assignment())
    generation = call_group(broker, "static", lambda group: group.generation)
    members[1].close()
    members[1] = consumer(broker, "static", group_instance_id="b")
    wait_for(lambda: len(members[1].assignment()) == 2, *members)
    assert sorted(one.partition for one in members[1].assignment()) == before
    assert call_group(broker, "static", lambda group: group.generation) == generation
    for one in members:
        one.close()


def test_a_second_member_of_the_same_instance_fences_the_first(broker):
    first = consumer(broker, "fence", group_instance_id="a")
    wait_for(lambda: counts(first) == [4], first)
    second = consumer(broker, "fence", group_instance_id="a")
    wait_for(lambda: counts(second) == [4], second)
    errors: list[Any] = []

    def is_fenced() -> bool:
        record = first.poll(0.05)
        errors.extend([] if record is None or record.error() is None else [record.error()])
        return bool(errors)

    wait_for(is_fenced)
    assert errors[0].code() == confluent.KafkaError._FATAL
    second.close()


def test_a_member_that_stops_polling_is_removed_from_the_group(broker):
    first = consumer(broker, "gone")
    wait_for(lambda: counts(first) == [4], first)
    second = consumer(broker, "gone")
    wait_for(lambda: counts(first, second) == [2, 2], first, second)
    before = call_group(broker, "gone", lambda group: set(group.members))
    second.close()
    wait_for(lambda: counts(first) == [4], first)
    assert len(before - call_group(broker, "gone", lambda group: set(group.members))) == 1
    first.close()


def test_committed_offsets_are_returned_with_their_metadata(broker):
    first = consumer(broker, "offsets", enable_auto_commit=False)
    partition = [confluent.TopicPartition("orders", 1, 3, "why"), confluent.TopicPartition("orders", 2, 0)]
    first.commit(offsets=partition, asynchronous=False)
    offsets = first.committed([confluent.TopicPartition("orders", number) for number in range(4)], SECONDS)
    assert [offset.offset for offset in offsets] == [confluent.OFFSET_INVALID, 3, 0, confluent.OFFSET_INVALID]
    assert offsets[1].metadata == "why"
    first.close()


def test_an_admin_client_lists_describes_and_deletes_groups(broker):
    member = consumer(broker, "seen")
    wait_for(lambda: counts(member) == [4], member)
    admin = AdminClient(quiet_config(broker))
    description = admin.describe_consumer_groups(["seen"])["seen"].result(SECONDS)
    assert (description.state.name, description.partition_assignor) == ("STABLE", "range")
    (only,) = description.members
    assert len(only.assignment.topic_partitions) == 4
    states_by_group = {group.group_id: group.state.name for group in admin.list_consumer_groups().result(SECONDS).valid}
    assert states_by_group["seen"] == "STABLE"
    with pytest.raises(confluent.KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups(["seen"])["seen"].result(SECONDS)
    member.close()
    wait_for(lambda: is_empty(broker, "seen"))
    admin.delete_consumer_groups(["seen"])["seen"].result(SECONDS)
    assert broker.call(lambda state: "seen" not in state.groups.groups)


def test_aiokafka_members_share_partitions_and_continue_from_committed_offsets(broker):
    async def run() -> None:
        def new() -> aiokafka.AIOKafkaConsumer:
            return aiokafka.AIOKafkaConsumer(
                "orders",
                bootstrap_servers=f"{broker.host}:{broker.port}",
                group_id="aio",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=100,
                session_timeout_ms=60_000,
            )

        first, second = new(), new()
        await first.start()
        await second.start()
        try:
            while not len(first.assignment()) == len(second.assignment()) == 2:
                await asyncio.sleep(0.02)
            values: set[int] = set()
            while len(values) < 20:
                for consumer in (first, second):
                    for records in (await consumer.getmany(timeout_ms=50)).values():
                        values |= {int(record.value) for record in records}
            assert values == set(range(20))
            await first.commit()
            await second.commit()
        finally:
            await second.stop()
            await first.stop()
        third = new()
        await third.start()
        try:
            assert not await third.getmany(timeout_ms=300)
        finally:
            await third.stop()

    asyncio.run(asyncio.wait_for(run(), 2 * SECONDS))


@pytest.mark.parametrize("api_version", [None, (0, 9), (0, 11)], ids=str)
def test_kafka_python_continues_from_its_committed_offset(broker, api_version):
    def new() -> kafka.KafkaConsumer:
        return kafka.KafkaConsumer(
            "orders",
            bootstrap_servers=f"{broker.host}:{broker.port}",
            group_id=f"python-{api_version}",
            auto_offset_reset="earliest",
            api_version=api_version,
            heartbeat_interval_ms=200,
            session_timeout_ms=60_000,
        )

    first, records = poll_with_kafka_python(new, 20)
    assert {int(record.value) for record in records} == set(range(20))
    first.commit()
    first.close()
    wait_for(lambda: is_empty(broker, f"python-{api_version}"))
    second = new()
    assert not second.poll(500)
    committed_offsets = [second.committed(kafka.TopicPartition("orders", number)) for number in range(4)]
    assert sum(committed_offsets) == 20
    second.close()
