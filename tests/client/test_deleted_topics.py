"""Offsets of a deleted topic belong to its id, not to the next topic with the same name (franz-go #1426)."""

import asyncio

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, AsyncConsumer, TopicPartition
from kafkaframes.errors import UnknownTopicError

T_0 = TopicPartition("t", 0)
SETTINGS = {"group_id": "g", "auto_offset_reset": "earliest", "retry_backoff_ms": 10}


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic("t")
        broker.append("t", [{"value": b"old"}] * 10)
        broker.create_topic("other")
        broker.append("other", [{"value": b"v"}] * 2)
        yield broker


async def read_ten(consumer):
    count = 0
    while count < 10:
        count += len([record for record in await consumer.poll(20_000) if record.topic == "t"])


@pytest.mark.parametrize("release", ["4.1", "4.3"])
def test_positions_in_a_deleted_topic_are_not_committed_for_its_successor(release):
    """When the client commits, its metadata lack the topic, and the broker already has a new topic with the same
    name.
    """

    async def read_and_commit(servers):
        async with AsyncConsumer(servers, enable_auto_commit=False, **SETTINGS) as consumer:
            await consumer.assign([T_0])
            await read_ten(consumer)
            with Admin(servers) as admin:
                await asyncio.to_thread(admin.delete_topics, ["t"])
            await consumer._cluster.refresh_metadata(["t"])
            broker.create_topic("t")
            await consumer.commit()
            return await consumer.committed([T_0])

    with Broker(broker_release=release) as broker:
        broker.create_topic("t")
        broker.append("t", [{"value": b"old"}] * 10)
        assert asyncio.run(read_and_commit(broker.bootstrap_servers)) == {}


def test_positions_of_other_topics_are_committed_even_if_one_topic_is_deleted(broker):
    other = TopicPartition("other", 0)

    async def read_and_commit():
        settings = {**SETTINGS, "default_api_timeout_ms": 300}
        async with AsyncConsumer(broker.bootstrap_servers, enable_auto_commit=False, **settings) as consumer:
            await consumer.assign([T_0, other])
            await read_ten(consumer)
            while consumer.position(other) < 2:
                await consumer.poll(20_000)
            with Admin(broker.bootstrap_servers) as admin:
                await asyncio.to_thread(admin.delete_topics, ["t"])
            with pytest.raises(UnknownTopicError, match="t-0"):
                await consumer.commit()
            return await consumer.committed([other])

    assert asyncio.run(read_and_commit())[other].offset == 2


def test_close_does_not_wait_for_a_deleted_topic(broker):
    async def read_and_close():
        consumer = AsyncConsumer(broker.bootstrap_servers, **SETTINGS)
        await consumer.subscribe(["t"])
        await read_ten(consumer)
        with Admin(broker.bootstrap_servers) as admin:
            await asyncio.to_thread(admin.delete_topics, ["t"])
        await consumer._cluster.refresh_metadata(["t"])
        await asyncio.wait_for(consumer.close(), 20)

    asyncio.run(read_and_close())
