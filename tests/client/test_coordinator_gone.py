"""If a coordinator is unreachable, the client looks it up again, because another broker may have become the
coordinator.
"""

import asyncio
import socket

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncAdmin, AsyncProducer, TopicPartition
from kafkaframes.client.cluster import GROUP, TRANSACTION
from kafkaframes.client.metadata import Node


@pytest.fixture
def unreachable_broker():
    """Return a broker whose port is closed."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        yield Node(7, *free_socket.getsockname())


async def group(servers: str, unreachable_broker: Node) -> None:
    async with AsyncAdmin(servers, default_api_timeout_ms=10_000) as admin:
        await admin.create_topics(["t"])
        target = TopicPartition("t", 0)
        admin._cluster._coordinators[GROUP, "g"] = unreachable_broker
        await admin.alter_group_offsets("g", {target: 5})
        admin._cluster._coordinators[GROUP, "g"] = unreachable_broker
        assert (await admin.group_offsets("g"))[target].offset == 5


async def transaction(servers: str, unreachable_broker: Node) -> None:
    producer = AsyncProducer(servers, transactional_id="x", default_api_timeout_ms=10_000)
    producer._cluster._coordinators[TRANSACTION, "x"] = unreachable_broker
    async with producer:
        assert producer.identity.producer_id >= 0


@pytest.mark.parametrize("call", [group, transaction])
def test_an_unreachable_coordinator_is_looked_up_again(call, unreachable_broker):
    with Broker() as running:
        asyncio.run(call(running.bootstrap_servers, unreachable_broker))
