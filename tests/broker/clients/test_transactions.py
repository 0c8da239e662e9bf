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


def config(broker: Broker, **more: Any) -> dict[str, Any]:
    names = {key.replace("_", "."): value for key, value in more.items()}
    return {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0} | names


def transactional(broker: Broker, name: str = "tx", **more: Any) -> confluent.Producer:
    producer = confluent.Producer(config(broker, transactional_id=name, **more))
    producer.init_transactions(SECONDS)
    return producer


def write(producer: confluent.Producer, *values: bytes, topic: str = "t", ends: str = "commit") -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    if ends == "commit":
        producer.commit_transaction(SECONDS)
    else:
        assert producer.flush(SECONDS) == 0
        if ends == "abort":
            producer.abort_transaction(SECONDS)


def read(broker: Broker, isolation: str, topic: str = "t", partition: int = 0) -> list[bytes]:
    """Return what there is, up to the end that the isolation level shows."""
    consumer = confluent.Consumer(
        config(
            broker, group_id="reader", isolation_level=isolation, enable_auto_commit=False, enable_partition_eof=True
        )
    )
    consumer.assign([confluent.TopicPartition(topic, partition, 0)])
    values, began = [], time.monotonic()
    while time.monotonic() - began < SECONDS:
        record = consumer.poll(0.2)
        if record is not None and record.error() is not None:
            assert record.error().code() == confluent.KafkaError._PARTITION_EOF
            break
        if record is not None:
            values.append(record.value())
    consumer.close()
    return values


def test_read_committed_shows_what_was_committed_and_nothing_else(broker):
    producer = transactional(broker)
    write(producer, b"a", b"b")
    write(producer, b"x", ends="abort")
    write(producer, b"c")
    write(producer, b"y", ends="open")
    assert read(broker, "read_committed") == [b"a", b"b", b"c"]
    assert read(broker, "read_uncommitted") == [b"a", b"b", b"x", b"c", b"y"]
    producer.commit_transaction(SECONDS)
    assert read(broker, "read_committed") == [b"a", b"b", b"c", b"y"]


def test_a_second_producer_fences_the_first_and_aborts_what_it_left(broker):
    first = transactional(broker)
    write(first, b"left", ends="open")
    second = transactional(broker)
    with pytest.raises(confluent.KafkaException) as caught:
        first.commit_transaction(SECONDS)
    assert caught.value.args[0].fatal()
    write(second, b"new")
    assert read(broker, "read_committed") == [b"new"]
    first.purge()


def test_a_transaction_that_takes_too_long_is_aborted_by_the_clock():
    clock = Clock()
    with Broker(clock=clock) as broker:
        producer = transactional(broker, transaction_timeout_ms=20_000)
        write(producer, b"slow", ends="open")
        assert read(broker, "read_committed") == []
        broker.call(lambda _: clock.advance(40))
        with pytest.raises(confluent.KafkaException):
            producer.commit_transaction(SECONDS)
        write(transactional(broker), b"next")
        assert read(broker, "read_committed") == [b"next"]
        producer.purge()


def test_offsets_of_a_transaction_count_when_it_commits(broker):
    consumer = confluent.Consumer(config(broker, group_id="g"))
    write(transactional(broker, "other"), b"a")
    where = [confluent.TopicPartition("t", 0)]
    producer = transactional(broker)
    for offset, ends in ((5, "abort"), (7, "commit")):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [confluent.TopicPartition("t", 0, offset, metadata="m")], consumer.consumer_group_metadata(), SECONDS
        )
        if ends == "commit":
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
            assert consumer.committed(where, SECONDS)[0].offset == confluent.OFFSET_INVALID
    committed_offset = consumer.committed(where, SECONDS)[0]
    assert (committed_offset.offset, committed_offset.metadata) == (7, "m")
    consumer.close()


def test_everything_that_was_decided_is_there_after_kill(tmp_path):
    broker = Broker(data_dir=str(tmp_path)).start()
    producer = transactional(broker)
    write(producer, b"a")
    write(producer, b"x", ends="abort")
    write(producer, b"open", ends="open")
    broker.kill()
    broker = Broker(data_dir=str(tmp_path), port=broker.port).start()
    try:
        assert read(broker, "read_committed") == [b"a"]
        producer.commit_transaction(SECONDS)  # it was open, and is so again
        assert read(broker, "read_committed") == [b"a", b"open"]
        write(transactional(broker), b"b")
        assert read(broker, "read_committed") == [b"a", b"open", b"b"]
    finally:
        broker.stop()


def test_an_idempotent_producer_goes_on_after_kill(tmp_path):
    broker = Broker(data_dir=str(tmp_path)).start()
    producer = confluent.Producer(config(broker, enable_idempotence=True, linger_ms=0))
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
        assert read(broker, "read_uncommitted") == [str(number).encode() for number in range(200)]
    finally:
        broker.stop()


def test_aiokafka_commits_aborts_and_sends_offsets(broker):
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=f"{broker.host}:{broker.port}", transactional_id="aio")
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait("t", b"a")
                where = {aiokafka.TopicPartition("t", 0): 4}
                await producer.send_offsets_to_transaction(where, "aio-group")
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"x")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait("t", b"b")
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), 2 * SECONDS))
    assert read(broker, "read_committed") == [b"a", b"b"]
    where = confluent.TopicPartition("t", 0)
    reader = confluent.Consumer(config(broker, group_id="aio-group"))
    assert reader.committed([where], SECONDS)[0].offset == 4
    reader.close()


def test_kafka_python_commits_and_aborts(broker):
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
    assert read(broker, "read_committed") == [b"a", b"b"]
