"""The first contact of a command: quick, and plain about what does not answer."""

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
def _slow_is_not_silent(monkeypatch):
    """Do not report a slow answer of one second as an unresponsive broker."""
    monkeypatch.setattr(reachability, "_REPORT_DELAY_S", 3600.0)


@pytest.fixture
def free_port():
    """A port that stays closed."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        yield free_socket.getsockname()[1]


def reach_lines(broker: Broker, **rest) -> list[str]:
    lines: list[str] = []
    settings = ClientSettings(bootstrap_servers=broker.bootstrap_servers)
    asyncio.run(wait_until_reachable(settings, waiting=lines.append, **rest))
    return lines


class HeardEnoughError(Exception):
    """Ends a wait after its message was reported."""


def first_line(broker: Broker) -> str:
    """Return the line that is reported after the first failed attempt."""
    lines: list[str] = []

    def hear(line: str) -> None:
        lines.append(line)
        raise HeardEnoughError

    settings = ClientSettings(bootstrap_servers=f"127.0.0.1:{broker.port}")
    with pytest.raises(HeardEnoughError):
        asyncio.run(wait_until_reachable(settings, waiting=hear, timeout_s=60))
    return lines[0]


def test_an_advertised_address_where_nobody_listens_is_named(free_port):
    with Broker(listeners=[ListenerOptions(advertised=("127.0.0.1", free_port))]) as broker:
        line = first_line(broker)
    where = f"127.0.0.1:{broker.port}"
    assert line.startswith(f"waiting up to 60 s for {where}: {where} responds, but advertises its brokers at ")
    assert f"at 127.0.0.1:{free_port} (advertised.listeners); 127.0.0.1:{free_port} cannot be reached" in line


def test_an_advertised_address_that_never_answers_is_named_when_the_time_is_up():
    async def run() -> tuple[str, str]:
        came: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        async with await asyncio.start_server(lambda _, writer: came.put_nowait(writer), "127.0.0.1", 0) as silent:
            port = silent.sockets[0].getsockname()[1]
            options = ListenerOptions(advertised=("127.0.0.1", port))
            with Broker(listeners=[options]) as broker:
                settings = ClientSettings(bootstrap_servers=f"127.0.0.1:{broker.port}")
                waits = reachability._WaitReport(lambda _: None, "", 60)
                step = asyncio.ensure_future(_step(settings, waits))
                writer = await came.get()
                step.cancel()
                await asyncio.wait({step})
                writer.close()
                await writer.wait_closed()
                return f"{port}", str(waits.error)

    port, line = asyncio.run(run())
    assert line.endswith(f"advertises its brokers at 127.0.0.1:{port} (advertised.listeners); none of them responds")


async def _step(settings, waits) -> None:
    cluster = ClusterClient(settings)
    try:
        asked_address = (await cluster.get_any_connection()).host_port
        await cluster.refresh_metadata([])
        await reachability._reach_advertised_broker(cluster, asked_address, waits)
    finally:
        await cluster.close()


def test_one_broker_that_answers_is_enough():
    with Broker(cluster=3) as broker:
        broker.stop_node(3)
        assert reach_lines(broker, timeout_s=60) == []


def test_another_name_of_the_same_address_is_no_failure():
    with Broker(listeners=[ListenerOptions(advertised=("localhost", 0))]) as broker:
        settings = ClientSettings(bootstrap_servers=f"127.0.0.1:{broker.port}")
        lines: list[str] = []
        asyncio.run(wait_until_reachable(settings, waiting=lines.append, timeout_s=60))
        assert lines == []


QUICK = {"default_api_timeout_ms": 300, "retry_backoff_ms": 10, "reconnect_backoff_ms": 10}
PLACE = TopicPartition("orders", 0)


def consuming(servers: str, begin, *, reads: bool = True) -> None:
    async def run() -> None:
        async with AsyncConsumer(servers, group_id="g", **QUICK) as consumer:
            await begin(consumer)
            while reads:
                await consumer.poll(1_000)

    asyncio.run(run())


BEGINNINGS = [lambda one: one.assign({PLACE: 0}), lambda one: one.assign([PLACE]), lambda one: one.subscribe("orders")]


@pytest.mark.parametrize("begin", BEGINNINGS, ids=["assign at", "assign", "subscribe"])
def test_a_consumer_whom_nobody_answers_is_told_so_and_does_not_wait_for_records(free_port, begin):
    with pytest.raises(NetworkError, match=f"127.0.0.1:{free_port} cannot be reached"):
        consuming(f"127.0.0.1:{free_port}", begin, reads=False)


@pytest.mark.parametrize("begin", BEGINNINGS, ids=["assign at", "assign", "subscribe"])
def test_a_client_without_sasl_at_a_port_that_wants_it_is_told_what_may_be_missing(begin):
    with Broker(security=Security(users={"u": "p"})) as broker:
        message = r"closed the connection, although it has responded to ApiVersions; does this port require SASL\?"
        with pytest.raises(NetworkError, match=message):
            consuming(f"127.0.0.1:{broker.port}", begin, reads=False)


def test_a_topic_that_stays_unknown_is_told_and_not_waited_for():
    message = "topic orders: UNKNOWN_TOPIC_OR_PARTITION"
    with Broker(config={"auto.create.topics.enable": False}) as broker, pytest.raises(BrokerError, match=message):
        consuming(broker.bootstrap_servers, BEGINNINGS[0])
