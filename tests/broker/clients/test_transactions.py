"""Transactions of unmodified clients: commit, abort, fencing, timeouts, offsets, read_committed, kill -9."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiokafka
import confluent_kafka as confluent
import kafka
import pytest

from kafkaframes.broker import Broker, Clock

SECONDS = 60.0


@pytest.fixture
def broker():
    with Broker() as running:
        yield running


def client_config(broker: Broker, **more: Any) -> dict[str, Any]:
    names = {key.replace("_", "."): value for key, value in more.items()}
    return {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0} | names


def start_transactional_producer(broker: Broker, name: str = "tx", **more: Any) -> confluent.Producer:
    producer = confluent.Producer(client_config(broker, transactional_id=name, **more))
    producer.init_transactions(SECONDS)
    return producer


def write_transaction(producer: confluent.Producer, *values: bytes, topic: str = "t", ends: str = "commit") -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    if ends == "commit":
        producer.commit_transaction(SECONDS)
    else:
        assert producer.flush(SECONDS) == 0
        if ends == "abort":
            producer.abort_transaction(SECONDS)


def read_values(broker: Broker, isolation: str, topic: str = "t", partition: int = 0) -> list[bytes]:
    """Return the values in a partition, up to the last offset that is visible at the isolation level."""
    consumer = confluent.Consumer(
        client_config(
            broker, group_id="reader", isolation_level=isolation, enable_auto_commit=False, enable_partition_eof=True
        )
    )
    consumer.assign([confluent.TopicPartition(topic, partition, 0)])
    values, start = [], time.monotonic()
    while time.monotonic() - start < SECONDS:
        record = consumer.poll(0.2)
        if record is not None and record.error() is not None:
            assert record.error().code() == confluent.KafkaError._PARTITION_EOF
            break
        if record is not None:
            values.append(record.value())
    consumer.close()
    return values


def test_read_committed_excludes_open_and_aborted_transactions(broker):
    producer = start_transactional_producer(broker)
    write_transaction(producer, b"a", b"b")
    write_transaction(producer, b"x", ends="abort")
    write_transaction(producer, b"c")
    write_transaction(producer, b"y", ends="open")
    assert read_values(broker, "read_committed") == [b"a", b"b", b"c"]
    assert read_values(broker, "read_uncommitted") == [b"a", b"b", b"x", b"c", b"y"]
    producer.commit_transaction(SECONDS)
    assert read_values(broker, "read_committed") == [b"a", b"b", b"c", b"y"]


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(broker):
    first = start_transactional_producer(broker)
    write_transaction(first, b"left", ends="open")
    second = start_transactional_producer(broker)
    with pytest.raises(confluent.KafkaException) as caught:
        first.commit_transaction(SECONDS)
    assert caught.value.args[0].fatal()
    write_transaction(second, b"new")
    assert read_values(broker, "read_committed") == [b"new"]
    first.purge()


def test_a_transaction_is_aborted_after_its_timeout_by_the_brokers_clock():
    clock = Clock()
    with Broker(clock=clock) as broker:
        producer = start_transactional_producer(broker, transaction_timeout_ms=20_000)
        write_transaction(producer, b"slow", ends="open")
        assert read_values(broker, "read_committed") == []
        broker.call(lambda _: clock.advance(40))
        with pytest.raises(confluent.KafkaException):
            producer.commit_transaction(SECONDS)
        write_transaction(start_transactional_producer(broker), b"next")
        assert read_values(broker, "read_committed") == [b"next"]
        producer.purge()


def test_offsets_in_a_transaction_take_effect_when_it_commits(broker):
    consumer = confluent.Consumer(client_config(broker, group_id="g"))
    write_transaction(start_transactional_producer(broker, "other"), b"a")
    partition = [confluent.TopicPartition("t", 0)]
    producer = start_transactional_producer(broker)
    for offset, ends in ((5, "abort"), (7, "commit")):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [confluent.TopicPartition("t", 0, offset, metadata="m")], consumer.consumer_group_metadata(), SECONDS
        )
        if ends == "commit":
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
            assert consumer.committed(partition, SECONDS)[0].offset == confluent.OFFSET_INVALID
    committed_offset = consumer.committed(partition, SECONDS)[0]
    assert (committed_offset.offset, committed_offset.metadata) == (7, "m")
    consumer.close()


def test_decided_transactions_survive_a_kill(tmp_path):
    broker = Broker(data_dir=str(tmp_path)).start()
    producer = start_transactional_producer(broker)
    write_transaction(producer, b"a")
    write_transaction(producer, b"x", ends="abort")
    write_transaction(producer, b"open", ends="open")
    broker.kill()
    broker = Broker(data_dir=str(tmp_path), port=broker.port).start()
    try:
        assert read_values(broker, "read_committed") == [b"a"]
        producer.commit_transaction(SECONDS)  # the transaction was open before the kill and still is
        assert read_values(broker, "read_committed") == [b"a", b"open"]
        write_transaction(start_transactional_producer(broker), b"b")
        assert read_values(broker, "read_committed") == [b"a", b"open", b"b"]
    finally:
        broker.stop()


def test_an_idempotent_producer_continues_after_the_broker_is_killed(tmp_path):
    broker = Broker(data_dir=str(tmp_path)).start()
    producer = confluent.Producer(client_config(broker, enable_idempotence=True, linger_ms=0))
    errors: list[Any] = []
    for number in range(200):
        producer.produce("t", str(number).encode(), on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
        if number == 100:
            broker.kill()
            broker = Broker(data_dir=str(tmp_path), port=broker.port).start()
    try:
        assert producer.flush(SECONDS) == 0
        assert errors == [None] * 200
        assert read_values(broker, "read_uncommitted") == [str(number).encode() for number in range(200)]
    finally:
        broker.stop()


def test_aiokafka_commits_aborts_and_sends_offsets_to_transactions(broker):
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=f"{broker.host}:{broker.port}", transactional_id="aio")
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait("t", b"a")
                partition = {aiokafka.TopicPartition("t", 0): 4}
                await producer.send_offsets_to_transaction(partition, "aio-group")
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"x")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait("t", b"b")
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), 2 * SECONDS))
    assert read_values(broker, "read_committed") == [b"a", b"b"]
    partition = confluent.TopicPartition("t", 0)
    reader = confluent.Consumer(client_config(broker, group_id="aio-group"))
    assert reader.committed([partition], SECONDS)[0].offset == 4
    reader.close()


def test_kafka_python_commits_and_aborts_transactions(broker):
    producer = kafka.KafkaProducer(bootstrap_servers=f"{broker.host}:{broker.port}", transactional_id="python")
    producer.init_transactions()
    for value, ends in ((b"a", "commit"), (b"x", "abort"), (b"b", "commit")):
        producer.begin_transaction()
        producer.send("t", value)
        if ends == "commit":
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    producer.close()
    assert read_values(broker, "read_committed") == [b"a", b"b"]
