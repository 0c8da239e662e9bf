"""The first connection of a command to its cluster, with a short timeout and a message about the reason for the wait.

Kafka's clients retry refused connections for a minute, because brokers may be restarting. A user with a mistyped port
would also wait for a minute. A command therefore first connects to a bootstrap server, and to one of the addresses that
the cluster advertises, because all later requests go there. After this first wait, the command continues with Kafka's
own timeouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError, to_broker_error
from kafkaframes.protocol.addresses import format_address

DEFAULT_TIMEOUT_S: Final = 5.0  # default of ``wait_until_reachable``
_REPORT_DELAY_S: Final = 1.0  # time after which a pending connection attempt is reported


async def wait_until_reachable(
    settings: ClientSettings,
    *,
    waiting: Callable[[str], None],
    timeout_s: float = DEFAULT_TIMEOUT_S,
    new_topic: str | None = None,
) -> None:
    """Wait until a broker of the cluster responds. If a new topic is needed, let the broker create the topic.

    Args:
        settings: client settings, which name the bootstrap servers.
        waiting: callback that receives one line of text after the first failed attempt.
        timeout_s: longest wait, in seconds; 0 for a single attempt.
        new_topic: topic that the brokers may create, as for a producer (``auto.create.topics.enable``).

    Raises:
        NetworkError: no broker has responded in time. The error message contains the reason for the last failure.
        BrokerError: the broker rejects the client, or the topic does not exist and is not created.
    """
    cluster = ClusterClient(settings)
    try:
        servers = ",".join(format_address(host, port) for host, port in settings.servers)
        wait_report = _WaitReport(waiting, servers, timeout_s)

        async def connect_once() -> None:
            address = (await cluster.get_any_connection()).host_port
            await cluster.refresh_metadata([])
            await _reach_advertised_broker(cluster, address, wait_report)
            if new_topic is not None:
                await _create_topic(cluster, new_topic)

        await _retry_step(connect_once, cluster, wait_report)
    finally:
        await cluster.close()


async def _reach_advertised_broker(cluster: ClusterClient, address: str, wait_report: _WaitReport) -> None:
    """Connect to one of the advertised brokers, unless the given address is one of them.

    Raises:
        NetworkError: no broker can be reached. The error lists the advertised addresses.
        BrokerError: a broker rejects the client.
    """
    brokers = {format_address(entry.host, entry.port): entry for entry in cluster.cluster.brokers.values()}
    if not brokers or address in brokers:
        return
    broker_addresses = ", ".join(brokers)
    reason = f"{address} responds, but advertises its brokers at {broker_addresses} (advertised.listeners)"
    wait_report.error = NetworkError(f"{reason}; none of them responds")
    connecting = [asyncio.ensure_future(cluster.get_connection(entry)) for entry in brokers.values()]
    try:
        for attempt in asyncio.as_completed(connecting):
            try:
                await attempt
            except NetworkError as error:
                wait_report.error = NetworkError(f"{reason}; {error}")
            else:
                wait_report.error = None
                return
    finally:
        for entry in connecting:
            entry.cancel()
        await asyncio.gather(*connecting, return_exceptions=True)
    raise wait_report.error


async def _create_topic(cluster: ClusterClient, topic: str) -> None:
    await cluster.refresh_metadata([topic], create=True)
    result = cluster.cluster.topics.get(topic)
    if result is None or result.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise to_broker_error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist, and the brokers do not create it"
        )
    if result.error:
        raise to_broker_error(result.error, f"topic {topic}")


@dataclass
class _WaitReport:
    """Reports the reason for a wait once: at the first failure, or if a connection hangs.

    Attributes:
        error: error to raise at the timeout.
    """

    report: Callable[[str], None]
    servers: str
    timeout_s: float
    is_reported: bool = False
    error: NetworkError | BrokerError | None = None

    def report_once(self) -> None:
        if not self.is_reported and self.timeout_s > 0:
            self.is_reported = True
            reason = self.error or "no response yet"
            self.report(f"waiting up to {self.timeout_s:g} s for {self.servers}: {reason}")


async def _retry_step(step: Callable[[], Awaitable[None]], cluster: ClusterClient, wait_report: _WaitReport) -> None:
    """Repeat a step until it succeeds or the timeout expires."""
    hanging = asyncio.get_running_loop().call_later(_REPORT_DELAY_S, wait_report.report_once)
    attempts = count()
    try:
        async with asyncio.timeout(wait_report.timeout_s or None):
            while True:
                try:
                    return await step()
                except (NetworkError, BrokerError) as error:
                    wait_report.error = error
                    if not is_retriable(error) or not wait_report.timeout_s:
                        break
                    wait_report.report_once()
                    await asyncio.sleep(cluster.backoff_s(next(attempts)))
    except TimeoutError:
        pass
    finally:
        hanging.cancel()
    if isinstance(wait_report.error, BrokerError):
        raise wait_report.error
    reason = wait_report.error or f"{wait_report.servers} does not respond"
    raise NetworkError(f"{reason} (waited {wait_report.timeout_s:g} s; increase `timeout` to wait longer)")
