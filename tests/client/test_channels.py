"""A request that a broker answers late does not delay other requests of the same client."""

import asyncio
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, Consumer, TopicPartition

NUMBERS_0 = TopicPartition("numbers", 0)
# how long the broker may hold a fetch; a request that waits for it fails with NetworkError after 30 s
FETCH_WAIT_MS = 600_000
SETTINGS = {"group_id": "g", "auto_offset_reset": "earliest", "fetch_max_wait_ms": FETCH_WAIT_MS}
CALLS = {
    "commit": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed([NUMBERS_0]),
    "end_offsets": lambda consumer: consumer.end_offsets([NUMBERS_0]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({NUMBERS_0: 0}),
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
def test_a_call_does_not_wait_for_a_long_poll(name, protocol, broker):
    fetches = []
    with broker.on("Fetch").call(fetches.append):
        consumer = Consumer(broker.bootstrap_servers, group_protocol=protocol, **SETTINGS)
        consumer.subscribe("numbers")
        broker.wait_for(lambda: consumer.poll(100))
        consumer.poll(0)
        broker.wait_for(lambda: len(fetches) > 1)  # the second fetch waits at the broker for records
    try:
        start = time.monotonic()
        CALLS[name](consumer)
        assert time.monotonic() - start < 30
    finally:
        consumer.close()


def test_a_member_answers_calls_while_it_waits_for_the_others_to_join(broker):
    """The coordinator answers JoinGroup only after the first member polls, which it does not."""

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
            await second.committed([NUMBERS_0])
            assert await second.end_offsets([NUMBERS_0]) == {NUMBERS_0: 1}
            joining.cancel()

    asyncio.run(run())
