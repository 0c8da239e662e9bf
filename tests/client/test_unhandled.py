"""A record that was read but not handled is not committed, after an exception or at the end of an iteration."""

import asyncio

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, AsyncConsumer, Consumer, Producer, TopicPartition

NUMBERS_0 = TopicPartition("numbers", 0)


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        broker.create_topic("numbers")
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("numbers", b"%d" % number)
        yield broker.bootstrap_servers


@pytest.fixture
def settings(request):
    return {"group_id": request.node.name, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 50}


def committed_offset(servers, settings) -> int:
    with Admin(servers) as admin:
        offsets = admin.group_offsets(settings["group_id"])
        return offsets[NUMBERS_0].offset if NUMBERS_0 in offsets else 0


def read(consumer: Consumer) -> None:
    while not consumer.poll(60_000):
        pass


def raise_in_block(servers, settings, *, subscribes: bool) -> None:
    with Consumer(servers, **settings) as consumer:
        if subscribes:
            consumer.subscribe("numbers")
        else:
            consumer.assign([NUMBERS_0])
        read(consumer)
        raise ZeroDivisionError


@pytest.mark.parametrize("subscribes", [True, False], ids=["subscribe", "assign"])
def test_an_exception_in_the_block_commits_nothing(servers, settings, subscribes):
    with pytest.raises(ZeroDivisionError):
        raise_in_block(servers, settings, subscribes=subscribes)
    assert committed_offset(servers, settings) == 0
    with Consumer(servers, **settings) as consumer:
        consumer.assign([NUMBERS_0])
        read(consumer)
    assert committed_offset(servers, settings) == 10


def test_an_exception_in_an_asyncio_block_commits_nothing(servers, settings):
    async def run():
        async with AsyncConsumer(servers, **settings) as consumer:
            await consumer.subscribe("numbers")
            async for _ in consumer:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert committed_offset(servers, settings) == 0


def test_records_that_an_iteration_has_not_returned_are_not_committed(servers, settings):
    with Consumer(servers, **settings) as consumer:
        consumer.assign([NUMBERS_0])
        for record in consumer:
            if record.value == b"3":
                break
    assert committed_offset(servers, settings) == 4
