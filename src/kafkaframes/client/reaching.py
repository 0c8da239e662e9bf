"""The first contact of a command with its cluster: short, with a word on what is waited for.

Kafka's clients retry for a minute whatever is refused, because brokers are restarted; who has mistyped a port waits as
long. A command therefore makes sure first that somebody answers, at a bootstrap server and at one of the addresses that
the cluster advertises (all that follows goes there), and only then goes on with Kafka's own timeouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError, broker_error
from kafkaframes.protocol.addresses import format_address

PATIENCE_S: Final = 5.0
_HANGING_S: Final = 1.0


async def reach(
    settings: ClientSettings,
    *,
    waiting: Callable[[str], None],
    timeout_s: float = PATIENCE_S,
    new_topic: str | None = None,
) -> None:
    """Return when a broker of the cluster has answered, and let it make a topic that is written to.

    Args:
        settings: the client's.
        waiting: takes one line, once the first attempt has failed.
        timeout_s: seconds until it is given up; 0 tries once.
        new_topic: a topic that the brokers may make, as they do for a producer (``auto.create.topics.enable``).

    Raises:
        NetworkError: nobody has answered in time; the last reason.
        BrokerError: the broker refuses us, or there is no such topic and it makes none.
    """
    cluster = ClusterClient(settings)
    try:
        servers = ",".join(format_address(host, port) for host, port in settings.servers)
        waits = _Waiting(waiting, servers, timeout_s)

        async def step() -> None:
            address = (await cluster.any_connection()).where
            await cluster.refresh([])
            await _reach_advertised(cluster, address, waits)
            if new_topic is not None:
                await _make_known(cluster, new_topic)

        await _until(step, cluster, waits)
    finally:
        await cluster.close()


async def _reach_advertised(cluster: ClusterClient, address: str, waiting: _Waiting) -> None:
    """Connect to one of the brokers, wherever the cluster says that they are, unless the one that was asked is one.

    Raises:
        NetworkError: none can be reached; it names their addresses, for nobody has typed them.
        BrokerError: one refuses us.
    """
    brokers = {format_address(entry.host, entry.port): entry for entry in cluster.cluster.brokers.values()}
    if not brokers or address in brokers:
        return
    where = ", ".join(brokers)
    words = f"{address} answers, and says that its brokers are at {where} (advertised.listeners)"
    waiting.error = NetworkError(f"{words}; none answers there")
    connecting = [asyncio.ensure_future(cluster.connection(entry)) for entry in brokers.values()]
    try:
        for done in asyncio.as_completed(connecting):
            try:
                await done
            except NetworkError as failed:
                waiting.error = NetworkError(f"{words}; {failed}")
            else:
                waiting.error = None
                return
    finally:
        for entry in connecting:
            entry.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
    raise waiting.error


async def _make_known(cluster: ClusterClient, topic: str) -> None:
    await cluster.refresh([topic], create=True)
    result = cluster.cluster.topics.get(topic)
    if result is None or result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise broker_error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic}: there is none, and the brokers make none"
        )
    if result.error:
        raise broker_error(result.error, f"topic {topic}")


@dataclass
class _Waiting:
    """Tells once what is waited for: at the first failure, or when a connection hangs.

    Attributes:
        error: what to say at the end if it stays so.
    """

    say: Callable[[str], None]
    servers: str
    timeout_s: float
    is_reported: bool = False
    error: NetworkError | BrokerError | None = None

    def tell(self) -> None:
        if not self.is_reported and self.timeout_s > 0:
            self.is_reported = True
            reason = self.error or "no answer yet"
            self.say(f"waiting up to {self.timeout_s:g} s for {self.servers}: {reason}")


async def _until(step: Callable[[], Awaitable[None]], cluster: ClusterClient, waiting: _Waiting) -> None:
    """Repeat a step until it succeeds, or its time is over."""
    hanging = asyncio.get_running_loop().call_later(_HANGING_S, waiting.tell)
    attempts = count()
    try:
        async with asyncio.timeout(waiting.timeout_s or None):
            while True:
                try:
                    return await step()
                except (NetworkError, BrokerError) as failed:
                    waiting.error = failed
                    if not is_retriable(failed) or not waiting.timeout_s:
                        break
                    waiting.tell()
                    await asyncio.sleep(cluster.backoff_s(next(attempts)))
    except TimeoutError:
        pass
    finally:
        hanging.cancel()
    if isinstance(waiting.error, BrokerError):
        raise waiting.error
    reason = waiting.error or f"{waiting.servers} does not answer"
    raise NetworkError(f"{reason} (waited {waiting.timeout_s:g} s; `timeout` waits longer)")
