"""Situations from public reports about other clients: pause, resume, seek and commits of revoked partitions."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, TopicPartition

ONE, TWO = TopicPartition("numbers", 0), TopicPartition("numbers", 1)
SETTINGS = {"auto_offset_reset": "earliest", "retry_backoff_ms": 10}


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic("numbers", partitions=2)
        for partition in (0, 1):
            broker.append("numbers", [{"value": b"%d" % number} for number in range(3_000)], partition=partition)
        yield broker


def read(broker, consumer, count, **options):
    """Poll until ``count`` records have been returned."""
    records = []

    def has_all():
        records.extend(consumer.poll(100, **options))
        return len(records) >= count

    broker.wait_for(has_all)
    return records


@pytest.mark.parametrize("is_sought_first", [True, False])
def test_a_seek_before_or_after_pause_takes_effect_after_resume(broker, is_sought_first):
    """librdkafka#3471: a seek before pause had no effect. reactor-kafka#319: a seek after pause returned nothing."""
    with Consumer(broker.bootstrap_servers, **SETTINGS) as consumer:
        consumer.assign({ONE: 0})
        read(broker, consumer, 10, max_records=10)
        steps = [lambda: consumer.seek(ONE, 5), lambda: consumer.pause(ONE)]
        for step in steps if is_sought_first else reversed(steps):
            step()
        assert list(consumer.poll(100)) == []
        consumer.resume(ONE)
        assert read(broker, consumer, 1, max_records=1)[0].offset == 5


def test_a_partition_paused_in_on_assign_is_read_from_its_start(broker):
    """confluent-kafka-dotnet#672: after pause and resume, the first record was skipped."""
    with Consumer(broker.bootstrap_servers, group_id="g", **SETTINGS) as consumer:
        consumer.subscribe("numbers", on_assign=lambda partitions: consumer.pause(*partitions))
        broker.wait_for(lambda: not list(consumer.poll(50)) and len(consumer.assignment()) == 2)
        consumer.resume(*consumer.assignment())
        records = read(broker, consumer, 6_000)
        assert {(record.partition, record.offset) for record in records} == {
            (partition, offset) for partition in (0, 1) for offset in range(3_000)
        }
        assert len(records) == 6_000


def test_pausing_partitions_in_turn_skips_nothing(broker):
    """kafka-python#2011: after pause and resume, reading continued two thousand records later."""
    offsets = {ONE: [], TWO: []}
    with Consumer(broker.bootstrap_servers, **SETTINGS) as consumer:
        consumer.assign({ONE: 0, TWO: 0})
        while min(map(len, offsets.values())) < 500:
            for entry, other in ((ONE, TWO), (TWO, ONE)):
                consumer.pause(other)
                consumer.resume(entry)
                for record in read(broker, consumer, 1, max_records=10):
                    offsets[TopicPartition(record.topic, record.partition)].append(record.offset)
    for numbers in offsets.values():
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_revoked_partitions_are_committed_with_auto_commit(broker, protocol):
    """Dekaf#2063: records read since the last commit were read again. steveo#1054: only one partition was committed."""
    settings = {"group_id": "g", "group_protocol": protocol, "auto_commit_interval_ms": 600_000, **SETTINGS}
    with Consumer(broker.bootstrap_servers, **settings) as consumer:
        consumer.subscribe("numbers")
        last = {}
        while len(last) < 2:
            for record in read(broker, consumer, 1, max_records=1_000):
                last[TopicPartition(record.topic, record.partition)] = record.offset
        consumer.unsubscribe()
    with Admin(broker.bootstrap_servers) as admin:
        offsets = {entry: value.offset for entry, value in admin.group_offsets("g").items()}
    assert offsets == {entry: offset + 1 for entry, offset in last.items()}
