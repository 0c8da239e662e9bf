"""The first contact of a command fails quickly and reports which address does not respond."""

import asyncio
import socket

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.client import AsyncConsumer, TopicPartition, reachability
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.reachability import wait_until_reachable
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import BrokerError, NetworkError


@pytest.fixture(autouse=True)
def _extend_patience(monkeypatch):
    """Do not report a broker as unresponsive because it takes one second to respond."""
    monkeypatch.setattr(reachability, "_REPORT_DELAY_S", 3600.0)


@pytest.fixture
def free_port():
    """A port on which nothing listens."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        yield free_socket.getsockname()[1]


def collect_reported_lines(broker: Broker, **rest) -> list[str]:
    lines: list[str] = []
    settings = ClientSettings(bootstrap_servers=broker.bootstrap_servers)
    asyncio.run(wait_until_reachable(settings, waiting=lines.append, **rest))
    return lines


class StopWaitingError(Exception):
    """An error that ends a wait after its message was reported."""


def first_line(broker: Broker) -> str:
    """Return the line that is reported after the first failed attempt."""
    lines: list[str] = []

    def collect_line(line: str) -> None:
        lines.append(line)
        raise StopWaitingError

    settings = ClientSettings(bootstrap_servers=f"127.0.0.1:{broker.port}")
    with pytest.raises(StopWaitingError):
        asyncio.run(wait_until_reachable(settings, waiting=collect_line, timeout_s=60))
    return lines[0]


def test_a_closed_advertised_address_is_named(free_port):
    with Broker(listeners=[ListenerOptions(advertised=("127.0.0.1", free_port))]) as broker:
        line = first_line(broker)
    address = f"127.0.0.1:{broker.port}"
    assert line.startswith(f"waiting up to 60 s for {address}: {address} responds, but advertises its brokers at ")
    assert f"at 127.0.0.1:{free_port} (advertised.listeners); 127.0.0.1:{free_port} cannot be reached" in line


def test_an_unresponsive_advertised_address_is_named_after_the_timeout():
    async def run() -> tuple[str, str]:
        accepted_writers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        async with await asyncio.start_server(
            lambda _, writer: accepted_writers.put_nowait(writer), "127.0.0.1", 0
        ) as silent:
            port = silent.sockets[0].getsockname()[1]
            options = ListenerOptions(advertised=("127.0.0.1", port))
            with Broker(listeners=[options]) as broker:
                settings = ClientSettings(bootstrap_servers=f"127.0.0.1:{broker.port}")
                wait_report = reachability._WaitReport(lambda _: None, "", 60)
                step = asyncio.ensure_future(_step(settings, wait_report))
                writer = await accepted_writers.get()
                step.cancel()
                await asyncio.wait({step})
                writer.close()
                await writer.wait_closed()
                return f"{port}", str(wait_report.error)

    port, line = asyncio.run(run())
    assert line.endswith(f"advertises its brokers at 127.0.0.1:{port} (advertised.listeners); none of them responds")


async def _step(settings, wait_report) -> None:
    cluster = ClusterClient(settings)
    try:
        asked_address = (await cluster.get_any_connection()).host_port
        await cluster.refresh_metadata([])
        await reachability._reach_advertised_broker(cluster, asked_address, wait_report)
    finally:
        await cluster.close()


def test_one_responsive_broker_is_sufficient():
    with Broker(cluster=3) as broker:
        broker.stop_node(3)
        assert collect_reported_lines(broker, timeout_s=60) == []


def test_another_name_of_the_same_address_is_not_reported():
    with Broker(listeners=[ListenerOptions(advertised=("localhost", 0))]) as broker:
        settings = ClientSettings(bootstrap_servers=f"127.0.0.1:{broker.port}")
        lines: list[str] = []
        asyncio.run(wait_until_reachable(settings, waiting=lines.append, timeout_s=60))
        assert lines == []


QUICK_SETTINGS = {"default_api_timeout_ms": 300, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10}
ORDERS_0 = TopicPartition("orders", 0)


def start_consuming(servers: str, begin, *, reads: bool = True) -> None:
    async def run() -> None:
        async with AsyncConsumer(servers, group_id="g", **QUICK_SETTINGS) as consumer:
            await begin(consumer)
            while reads:
                await consumer.poll(1_000)

    asyncio.run(run())


START_METHODS = [
    lambda one: one.assign({ORDERS_0: 0}),
    lambda one: one.assign([ORDERS_0]),
    lambda one: one.subscribe("orders"),
]


@pytest.mark.parametrize("begin", START_METHODS, ids=["assign at", "assign", "subscribe"])
def test_a_consumer_without_a_reachable_broker_raises_instead_of_waiting_for_records(free_port, begin):
    with pytest.raises(NetworkError, match=f"127.0.0.1:{free_port} cannot be reached"):
        start_consuming(f"127.0.0.1:{free_port}", begin, reads=False)


@pytest.mark.parametrize("begin", START_METHODS, ids=["assign at", "assign", "subscribe"])
def test_a_client_without_sasl_gets_a_hint_if_the_port_requires_it(begin):
    with Broker(security=Security(users={"u": "p"})) as broker:
        message = r"closed the connection, although it has responded to ApiVersions; does this port require SASL\?"
        with pytest.raises(NetworkError, match=message):
            start_consuming(f"127.0.0.1:{broker.port}", begin, reads=False)


def test_an_unknown_topic_is_reported_instead_of_waited_for():
    message = "topic orders: UNKNOWN_TOPIC_OR_PARTITION"
    with Broker(config={"auto.create.topics.enable": False}) as broker, pytest.raises(BrokerError, match=message):
        start_consuming(broker.bootstrap_servers, START_METHODS[0])
