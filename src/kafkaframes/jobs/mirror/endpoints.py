"""The two ends of a mirror as clusters: bootstrap servers as they are, a log directory by an embedded broker.

A directory to read is served as it is and never changed; one to write is a broker's data directory, begun where there
is none, in which nothing expires while the mirror runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any, Final

from kafkaframes.broker import Broker
from kafkaframes.client.settings import ClientSettings, ConsumerSettings
from kafkaframes.errors import LogDirError
from kafkaframes.jobs.mirror.settings import is_directory
from kafkaframes.jobs.restore.source import metadata_of
from kafkaframes.storage.log.discover import discover

_OF_CONSUMERS: Final = {one.name for one in fields(ConsumerSettings)} - {one.name for one in fields(ClientSettings)}
_FOR_EVER: Final = str(2**63 - 1)
# Neither end may forget, clean or abort anything while a mirror runs: a transaction that is open stays so.
_NOTHING_EXPIRES: Final = {
    "log.retention.check.interval.ms": _FOR_EVER,
    "log.cleaner.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(2**31 - 1),  # the longest, 24 days
}


@asynccontextmanager
async def opened(
    endpoint: str,
    properties: Mapping[str, Any],
    reached: Callable[[dict[str, Any]], Awaitable[None]],
    say: Callable[[str], None],
    *,
    writes: bool,
    lost: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[dict[str, Any]]:
    """Yield a client's settings for one end.

    Args:
        endpoint: bootstrap servers, or a log directory.
        properties: of the client, for bootstrap servers.
        reached: waits until a cluster answers.
        say: takes what is to be said of a directory, line by line.
        writes: whether a directory is written to, not only served.
        lost: takes those of the lines that tell of records which are not served.

    Raises:
        LogDirError: the directory cannot be served or written to.
        NetworkError: the cluster does not answer.
    """
    if not is_directory(endpoint):
        client = {**properties, "bootstrap.servers": endpoint}
        await reached(client)
        yield client
        return
    data_dir, serve = (endpoint, None) if writes else (None, endpoint)
    async with Broker(data_dir=data_dir, serve=serve, journal=False, config=_NOTHING_EXPIRES) as broker:
        reported: set[str] = set()
        _tell(broker, reported, say, lost)
        yield {"bootstrap.servers": broker.bootstrap_servers}
        _tell(broker, reported, say, lost)  # what was met while it was read


def _tell(broker: Broker, reported: set[str], say: Callable[[str], None], lost: Callable[[str], None]) -> None:
    """Say what was not reported yet."""
    losses = set(broker.losses)
    for remark in broker.remarks:
        if remark not in reported:
            reported.add(remark)
            say(remark)
            if remark in losses:
                lost(remark)


def for_admin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a client's settings without those that a consumer has and an admin has not.

    >>> for_admin({"bootstrap.servers": "a:1", "fetch.max.bytes": "5", "ssl.cafile": "ca.pem"})
    {'bootstrap.servers': 'a:1', 'ssl.cafile': 'ca.pem'}
    """
    return {name: value for name, value in settings.items() if name.replace(".", "_") not in _OF_CONSUMERS}


def configs_of_directory(directory: str) -> dict[str, dict[str, str]]:
    """Return what a log directory's own metadata says of its topics' settings; nothing where it has none (KRaft)."""
    try:
        return {name: said.configs for name, said in metadata_of(discover(directory)).topics.items()}
    except LogDirError:  # a store that only a broker knows to read: it has no controller's metadata
        return {}


def has_topic_id(path: str, topic: str) -> bool:
    """Return whether a log directory says which id a topic has (KIP-516); what a broker before 2.8 wrote does not."""
    partitions = (one for directory in discover(path) for one in directory.partitions if one.topic == topic)
    return any(one.metadata is not None and one.metadata.topic_id for one in partitions)
