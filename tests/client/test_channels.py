"""Requests that a broker holds back delay no other request of the same client."""

import asyncio
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, Consumer, TopicPartition

TARGET = TopicPartition("numbers", 0)
HELD_MS = 600_000  # as long as a fetch is held; a request that waits for it ends in a NetworkError after 30 s
SETTINGS = {"group_id": "g", "auto_offset_reset": "earliest", "fetch_max_wait_ms": HELD_MS}
CALLS = {
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed([TARGET]),
    "end_offsets": lambda consumer: consumer.end_offsets([TARGET]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({TARGET: 0}),
    "topics": lambda consumer: consumer.topics(),
    "close": lambda consumer: consumer.close(),
}


@pytest.fixture
def broker():
    with Broker() as broker:
        broker.create_topic("numbers")
        broker.append("numbers", [{"value": b"1"}])
        yield broker


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_does_not_wait_for_a_fetch_that_the_broker_holds_back(name, protocol, broker):
    fetches = []
    with broker.on("Fetch").call(fetches.append):
        consumer = Consumer(broker.bootstrap_servers, group_protocol=protocol, **SETTINGS)
        consumer.subscribe("numbers")
        broker.wait_for(lambda: consumer.poll(100))
        consumer.poll(0)
        broker.wait_for(lambda: len(fetches) > 1)  # the second one waits for records at the broker
    try:
        start = time.monotonic()
        CALLS[name](consumer)
        assert time.monotonic() - start < 30
    finally:
        consumer.close()


def test_a_member_answers_calls_while_it_waits_for_the_others_to_join(broker):
    """The coordinator holds JoinGroup back until the first member polls, which it does not."""

    async def run() -> None:
        servers = broker.bootstrap_servers
        async with AsyncConsumer(servers, **SETTINGS) as first, AsyncConsumer(servers, **SETTINGS) as second:
            await first.subscribe("numbers")
            while not await first.poll(100):
                pass
            await second.subscribe("numbers")
            joining = asyncio.ensure_future(second.poll(60_000))
            while broker.groups["g"].state != "PreparingRebalance":
                await asyncio.sleep(0.01)
            await second.committed([TARGET])
            assert await second.end_offsets([TARGET]) == {TARGET: 1}
            joining.cancel()

    asyncio.run(run())
