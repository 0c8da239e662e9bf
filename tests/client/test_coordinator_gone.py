"""A coordinator that is gone is looked for anew: its group or transaction is another broker's by now."""

import asyncio
import socket

import pytest

from kafkaframes.broker import Broker as OurBroker
from kafkaframes.client import AsyncAdmin, AsyncProducer, TopicPartition
from kafkaframes.client.cluster import GROUP, TRANSACTION
from kafkaframes.client.metadata import Broker


@pytest.fixture
def gone():
    """Return a broker whose port nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield Broker(7, *bound.getsockname())


async def group(servers: str, gone: Broker) -> None:
    async with AsyncAdmin(servers, default_api_timeout_ms=10_000) as admin:
        await admin.create_topics(["t"])
        target = TopicPartition("t", 0)
        admin._cluster._coordinators[GROUP, "g"] = gone
        await admin.alter_group_offsets("g", {target: 5})
        admin._cluster._coordinators[GROUP, "g"] = gone
        assert (await admin.group_offsets("g"))[target].offset == 5


async def transaction(servers: str, gone: Broker) -> None:
    producer = AsyncProducer(servers, transactional_id="x", default_api_timeout_ms=10_000)
    producer._cluster._coordinators[TRANSACTION, "x"] = gone
    async with producer:
        assert producer.producer.producer_id >= 0


@pytest.mark.parametrize("ask", [group, transaction])
def test_a_coordinator_that_is_gone_is_looked_for_anew(ask, gone):
    with OurBroker() as running:
        asyncio.run(ask(running.bootstrap_servers, gone))
