"""The first contact of a command with its cluster: short, with a word on what is waited for.

Kafka's clients retry for a minute whatever is refused, because brokers are restarted; who has mistyped a port waits as
long. A command therefore makes sure first that somebody answers, and only then goes on with Kafka's own timeouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from typing import Final

from kafkaframes.client.cluster import ClusterClient, fail, is_retriable
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import BrokerError, NetworkError

PATIENCE_S: Final = 5.0
_UNKNOWN_TOPIC: Final = 3
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
    async with AsyncExitStack() as stack:
        cluster = ClusterClient(settings)
        stack.push_async_callback(cluster.close)

        async def step() -> None:
            await cluster.any_connection()
            try:
                await cluster.refresh([])
            except NetworkError as error:
                protocol = settings.security_protocol
                hint = "" if settings.uses_sasl else f"; does this port want SASL? (security.protocol is {protocol})"
                raise NetworkError(f"{error}, although it has answered ApiVersions{hint}") from None
            if new_topic is not None:
                await _make_known(cluster, new_topic)

        servers = ",".join(f"{host}:{port}" for host, port in settings.servers)
        await _until(step, cluster, _Waiting(waiting, servers, timeout_s))


async def _make_known(cluster: ClusterClient, topic: str) -> None:
    await cluster.refresh([topic], create=True)
    found = cluster.cluster.topics.get(topic)
    if found is None or found.error.number == _UNKNOWN_TOPIC:
        raise fail(_UNKNOWN_TOPIC, f"topic {topic}: there is none, and the brokers make none")
    if found.error.number:
        raise fail(found.error, f"topic {topic}")


@dataclass
class _Waiting:
    """Tells once what is waited for: at the first failure, or when a connection hangs."""

    say: Callable[[str], None]
    servers: str
    timeout_s: float
    is_told: bool = False

    def tell(self, reason: object = "no answer yet") -> None:
        if not self.is_told and self.timeout_s > 0:
            self.is_told = True
            self.say(f"waiting up to {self.timeout_s:g} s for {self.servers}: {reason}")


async def _until(step: Callable[[], Awaitable[None]], cluster: ClusterClient, waiting: _Waiting) -> None:
    """Repeat a step until it succeeds, or its time is over."""
    error: NetworkError | BrokerError | None = None
    hanging = asyncio.get_running_loop().call_later(_HANGING_S, waiting.tell)
    attempts = count()
    try:
        async with asyncio.timeout(waiting.timeout_s or None):
            while True:
                try:
                    return await step()
                except (NetworkError, BrokerError) as failed:
                    error = failed
                    if not is_retriable(failed) or not waiting.timeout_s:
                        break
                    waiting.tell(failed)
                    await asyncio.sleep(cluster.backoff_s(next(attempts)))
    except TimeoutError:
        pass
    finally:
        hanging.cancel()
    if isinstance(error, BrokerError):
        raise error
    reason = error or f"{waiting.servers} does not answer"
    raise NetworkError(f"{reason} (waited {waiting.timeout_s:g} s; --timeout waits longer)")
