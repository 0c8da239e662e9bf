"""The share consumer with the embedded broker: each record is delivered to one member and acknowledged once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from uuid import uuid4

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import (
    Admin,
    AsyncShareConsumer,
    Consumer,
    NewTopic,
    Producer,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
)
from kafkaframes.errors import BrokerError, ErrorCode, OptionError

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def broker():
    with Broker(config={"group.share.record.lock.duration.ms": 30_000, "group.share.heartbeat.interval.ms": 200,
                        "group.share.min.heartbeat.interval.ms": 100}) as broker:  # fmt: skip
        yield broker


@pytest.fixture(scope="module")
def servers(broker):
    return broker.bootstrap_servers


@pytest.fixture
def topic(servers):
    name = f"work-{uuid4().hex[:8]}"
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=2)])
        admin.alter_configs("group", name, {"share.auto.offset.reset": "earliest"})
    return name


def produce(servers, topic, count, first=0, **settings):
    with Producer(servers, **settings) as producer:
        for number in range(first, first + count):
            producer.send(topic, str(number).encode(), partition=number % 2)


def share(servers, topic, **settings):
    return ShareConsumer(servers, group_id=topic, fetch_max_wait_ms=100, **settings)


def read(consumer, count):
    """Poll until ``count`` records are returned."""
    records, deadline = [], time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"received {len(records)} of {count} records"
        records += consumer.poll(500)
    return records


def values(records):
    return sorted(int(record.value) for record in records)


def test_records_are_accepted_by_the_next_poll_and_by_commit(servers, topic):
    produce(servers, topic, 20)
    with share(servers, topic) as consumer:
        consumer.subscribe(topic)
        records = read(consumer, 20)
        assert values(records) == list(range(20))
        assert {record.delivery_count for record in records} == {1}
        assert isinstance(records[0], ShareRecord)
        assert consumer.acquisition_lock_timeout_ms == 30_000
        consumer.commit()
    with share(servers, topic) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(300) == []
        produce(servers, topic, 5, first=20)
        assert values(read(consumer, 5)) == list(range(20, 25))


def test_unacknowledged_records_are_delivered_to_another_member_after_closing(servers, topic):
    produce(servers, topic, 10)
    with share(servers, topic) as consumer:
        consumer.subscribe(topic)
        first, deadline = [], time.monotonic() + TIMEOUT_S
        while not first and time.monotonic() < deadline:
            first = consumer.poll(500)  # the next poll would accept them
        assert first
    with share(servers, topic) as consumer:
        consumer.subscribe(topic)
        records = read(consumer, 10)
        assert values(records) == list(range(10))
        deliveries = {int(record.value): record.delivery_count for record in records}
        assert {deliveries[number] for number in values(first)} == {2}
        consumer.commit()


def test_released_records_are_delivered_again_and_rejected_ones_are_not(servers, topic):
    produce(servers, topic, 10)
    with share(servers, topic, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(topic)
        records = read_explicit(consumer, 10, lambda record: ["accept", "release", "reject"][int(record.value) % 3])
        again = read_explicit(consumer, 3, lambda _: "accept")
        assert values(again) == [1, 4, 7]
        assert {record.delivery_count for record in again} == {2}
        consumer.commit()
    assert len(records) == 10
    with share(servers, topic) as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(300) == []


def read_explicit(consumer, count, kind_of):
    """Poll until ``count`` records are returned, and acknowledge each."""
    records, deadline = [], time.monotonic() + TIMEOUT_S
    while len(records) < count:
        assert time.monotonic() < deadline
        for record in consumer.poll(500):
            consumer.acknowledge(record, kind_of(record))
            records.append(record)
    return records


def test_an_explicit_consumer_must_acknowledge_every_record_before_it_polls_again(servers, topic):
    produce(servers, topic, 4)
    with share(servers, topic, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(topic)
        records = []
        while not records:
            records = consumer.poll(500)
        with pytest.raises(OptionError, match="records from the last poll have no acknowledgement, such as offset"):
            consumer.poll(100)
        consumer.acknowledge(records)
        with pytest.raises(OptionError, match="was not in the last poll, or is acknowledged already"):
            consumer.acknowledge(records[0])
        with pytest.raises(OptionError, match="acknowledgement 'accepted' does not exist; expected one of accept"):
            consumer.acknowledge(records[0], "accepted")
        consumer.commit()


def test_a_call_with_an_invalid_record_acknowledges_nothing(servers, topic):
    produce(servers, topic, 2)
    with share(servers, topic, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(topic)
        record = read_one(consumer)
        foreign = record._replace(offset=record.offset + 1000)
        with pytest.raises(OptionError, match="was not in the last poll"):
            consumer.acknowledge([record, foreign], "reject")
        with pytest.raises(OptionError, match="acknowledged twice in one call"):
            consumer.acknowledge([record, record])
        consumer.acknowledge(record)
        consumer.commit()


def read_one(consumer):
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        records = consumer.poll(500)
        if records:
            consumer.acknowledge(records[1:])
            return records[0]
    raise AssertionError("no record")


def test_rows_are_acknowledged_by_a_mask(servers, topic):
    produce(servers, topic, 30)
    with share(servers, topic, share_acknowledgement_mode="explicit") as consumer:
        consumer.subscribe(topic)
        rows, again = 0, []
        while rows < 30:
            table = consumer.fetch_arrow(500)
            is_odd = pa.array([int(value) % 2 == 1 for value in table.column("value").to_pylist()], pa.bool_())
            consumer.acknowledge(table, "release", mask=is_odd)
            consumer.acknowledge(table, mask=[not flag for flag in is_odd.to_pylist()])
            first = [count == 1 for count in table.column("delivery_count").to_pylist()]
            rows += sum(first)
            again += [row for row, is_first in enumerate(first) if not is_first]
        assert table.schema.names[:3] == ["topic", "partition", "offset"]
        with pytest.raises(OptionError, match="the mask has 2 values for 0 rows"):
            consumer.acknowledge(table.slice(0, 0), mask=[True, False])
        with pytest.raises(OptionError, match="the table has no column partition, offset"):
            consumer.acknowledge(table.select(["topic"]))


def test_the_listener_gets_the_result_of_acknowledgements(servers, topic):
    produce(servers, topic, 6)
    results = []
    with share(servers, topic) as consumer:
        consumer.subscribe(topic, on_acknowledge=lambda offsets, error: results.append((dict(offsets), error)))
        read(consumer, 6)
        consumer.commit()
        counts = Counter()
        for offsets, error in results:
            assert error is None
            counts.update({partition: len(numbers) for partition, numbers in offsets.items()})
    assert counts == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 3}


def test_an_acknowledgement_after_the_lock_has_expired_is_an_error():
    with Broker(config={"group.share.record.lock.duration.ms": 30_000}) as broker:
        servers, topic = broker.bootstrap_servers, "slow"
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=1)])
            admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest"})
        with Producer(servers) as producer:
            producer.send(topic, b"0", partition=0)
        with share(servers, topic) as consumer:
            consumer.subscribe(topic)
            read(consumer, 1)
            broker.clock.advance(31)
            with pytest.raises(BrokerError) as error_info:
                consumer.commit()
            assert error_info.value.code is ErrorCode.INVALID_RECORD_STATE
            (record,) = read(consumer, 1)
            assert record.delivery_count == 2
            consumer.renew(record)
            consumer.commit()


def test_two_members_share_the_records_of_one_partition(servers, topic):
    seen_counts = Counter()
    with share(servers, topic, max_poll_records=5) as first, share(servers, topic, max_poll_records=5) as second:
        first.subscribe(topic)
        second.subscribe(topic)
        produce(servers, topic, 100, batch_size=100)
        deadline = time.monotonic() + TIMEOUT_S
        while sum(seen_counts.values()) < 100 and time.monotonic() < deadline:
            seen_counts.update(int(record.value) for record in first.poll(100))
            seen_counts.update(int(record.value) for record in second.poll(100))
        first.commit()
        second.commit()
    assert seen_counts == Counter(range(100))


def test_offset_gaps_of_transactions_and_compaction_do_not_stop_a_group(servers, topic):
    with Producer(servers, transactional_id=topic) as producer:
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, str(number).encode(), partition=0)
            producer.commit_transaction()
    with share(servers, topic) as consumer:
        consumer.subscribe(topic)
        assert values(read(consumer, 4)) == [0, 1, 2, 3]
        consumer.commit()
        produce(servers, topic, 1, first=4)
        assert values(read(consumer, 1)) == [4]


def test_a_share_consumer_continues_after_its_broker_restarts(tmp_path):
    with Broker(data_dir=str(tmp_path)) as broker:
        servers, topic = broker.bootstrap_servers, "kept"
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(topic, num_partitions=2)])
            admin.alter_configs("group", topic, {"share.auto.offset.reset": "earliest"})
        produce(servers, topic, 10)
        with share(servers, topic) as consumer:
            consumer.subscribe(topic)
            assert len(read(consumer, 10)) == 10
            consumer.commit()
            broker.restart()
            produce(servers, topic, 10, first=10)
            assert set(values(read(consumer, 10))) == set(range(10, 20))


def test_missing_requirements_of_a_share_consumer_raise_immediately(servers):
    with pytest.raises(OptionError, match="a share consumer needs group_id"):
        ShareConsumer(servers)
    with pytest.raises(OptionError, match="share_acknowledgement_mode"):
        ShareConsumer(servers, group_id="g", share_acknowledgement_mode="manual")
    for name in ("auto.offset.reset", "enable.auto.commit", "isolation.level", "group.instance.id"):
        with pytest.raises(OptionError, match=name):
            ShareConsumer({"bootstrap.servers": servers, "group.id": "g", name: "x"})
    with pytest.raises(OptionError, match="ShareConsumer"):
        Consumer({"bootstrap.servers": servers, "share.acknowledgement.mode": "explicit"})
    with share(servers, "g") as consumer:
        with pytest.raises(OptionError, match="the consumer has no subscription"):
            consumer.poll(0)
        with pytest.raises(OptionError, match="subscribe needs a topic"):
            consumer.subscribe([])


def test_the_asyncio_consumer_reads_and_acknowledges(servers, topic):
    produce(servers, topic, 8)

    async def run():
        records = []
        async with AsyncShareConsumer(servers, group_id=topic, fetch_max_wait_ms=100) as consumer:
            await consumer.subscribe(topic)
            while len(records) < 8:
                records += await consumer.poll(500)
            await consumer.commit()
            assert set(consumer.assignment()) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        return records

    assert values(asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))) == list(range(8))


def test_poll_raises_missing_permissions():
    from kafkaframes.broker.security.options import Security

    security = Security(mechanisms=("PLAIN",), users={"root": "r", "stranger": "s"}, authorizer=True)
    with Broker(config={"super.users": "User:root"}, security=security) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
        with Admin(broker.bootstrap_servers, **login, sasl_username="root", sasl_password="r") as admin:
            admin.create_topics(["secret"])
        stranger = {**login, "sasl_username": "stranger", "sasl_password": "s"}
        with ShareConsumer(broker.bootstrap_servers, group_id="g", **stranger) as consumer:
            consumer.subscribe("secret")
            with pytest.raises(BrokerError, match="GROUP_AUTHORIZATION_FAILED"):
                read(consumer, 1)
