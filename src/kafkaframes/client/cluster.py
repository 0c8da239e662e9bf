"""A client's way to a cluster: connections by node, metadata that is kept fresh, and retries as Kafka's clients do.

Everything above (producer, consumer, admin) asks here: ``any_broker``, ``request`` to a node, ``leader_of``,
``coordinator``. Runs on one asyncio event loop.

A broker handles the requests of a connection one after the other, so a request that it holds back delays all that
follow. Requests of this kind have connections of their own (``Channel``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar

from kafkaframes.client.loop import Home, background, create_objects_apart
from kafkaframes.client.metadata import Broker, Cluster, TopicPartition
from kafkaframes.client.metrics import ClientMetrics, NodeMetrics
from kafkaframes.client.network import Connection
from kafkaframes.client.response_rows import require_one_row
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import COORDINATOR_MOVED, BrokerError, ErrorCode, NetworkError, broker_error
from kafkaframes.protocol.addresses import format_address
from kafkaframes.protocol.messages.objects import Message

GROUP, TRANSACTION, SHARE = 0, 1, 2  # key types of FindCoordinator
_WITH_CREATION_CHOSEN: Final = 4  # Metadata's first version that can say not to create topics
_BOOTSTRAP: Final = -1
_MAX_INLINE_PARTITIONS: Final = 2_000  # of a Metadata response that is read in the event loop, in about 10 ms
_KEYS_IN_A_LIST: Final = 4  # FindCoordinator's first version that takes several keys
_PATIENCE_WITH_UNKNOWN_TOPICS_MS: Final = 2_000  # a topic just made is not known to every broker at once
_REFUSED_AUTHENTICATION: Final = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
_LOG: Final = logging.getLogger("kafkaframes.client")
_FIRST_WARNING_S: Final = 1.0  # after this, a broker that cannot be reached is a line of the log; then now and then
_TIMER_S: Final = 0.01  # a timer of the event loop may come that much early
_PAUSES_S: Final = (10.0, 30.0, 60.0)  # between the warnings that follow; the last one stays
Result = TypeVar("Result")
_RANDOM: Final = random.Random()  # background tasks leave the state of the program's own random numbers alone


class Channel(Enum):
    """One of a client's connections to a node: which requests share it."""

    REQUESTS = "requests"  # those that a broker answers at once
    FETCH = "fetch"  # Fetch: held back until there are records, at most fetch_max_wait_ms
    JOIN = "join"  # JoinGroup and SyncGroup: held back until the other members have joined


def is_retriable(error: Exception) -> bool:
    """Return whether the same request can succeed later."""
    if isinstance(error, BrokerError):
        return error.code is not None and error.code.is_retriable
    return isinstance(error, NetworkError)


class ClusterClient:
    """One client's connections; close it with ``close``."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.home = Home(settings.client)
        self.cluster = Cluster()
        self._connections: dict[tuple[int, Channel], Connection] = {}
        self._retired: list[Connection] = []  # their authentication does not hold, and answers are under way
        self._opening: dict[tuple[int, Channel], asyncio.Lock] = {}
        self._failures: dict[int, tuple[int, float]] = {}  # node id: how often in a row, when it may be tried again
        self.unreachable = Unreachable(settings.client_id)
        self._coordinators: dict[tuple[int, str], Broker] = {}
        self._refreshing: dict[frozenset[str] | None, asyncio.Task[None]] = {}
        self._closed = False
        self.last_error: BrokerError | NetworkError | None = None  # of a step that is retried
        self.metrics = ClientMetrics(
            settings.metrics_prefix,
            settings.client_id,
            max_samples=settings.metrics_num_samples,
            sample_s=settings.metrics_sample_window_ms / 1000,
        )
        opened, ended = self.metrics.client["connection-creation"], self.metrics.client["connection-close"]
        self.metrics.add_gauge("connection-count", lambda: opened.count - ended.count)
        self.metrics.add_gauge("metadata-age", self._metadata_age)
        self.metrics.add_gauge(
            "requests-in-flight", lambda: sum(entry.in_flight for entry in self._connections.values())
        )
        self._node_metrics: dict[int, NodeMetrics] = {}

    def _metadata_age(self) -> float | None:
        updated_at = self.cluster.updated_at
        return None if updated_at is None else time.monotonic() - updated_at

    # ------------------------------------------------------------------------------------------------ connections

    def open_connection(self, broker: Broker, channel: Channel = Channel.REQUESTS) -> Connection | None:
        """Return a broker's connection for these requests if there is a usable one."""
        connection = self._connections.get((broker.node_id, channel))
        return connection if connection is not None and connection.is_usable else None

    async def connection(self, broker: Broker, channel: Channel = Channel.REQUESTS) -> Connection:
        """Return a usable connection to a broker.

        Raises:
            NetworkError: it cannot be reached; after failures, only once the reconnect backoff is over.
            BrokerError: it refuses us.
        """
        self.home.check()
        if self._closed:
            raise NetworkError("this client was closed")
        if (connection := self.open_connection(broker, channel)) is not None:
            return connection
        async with self._opening.setdefault((broker.node_id, channel), asyncio.Lock()):
            return self.open_connection(broker, channel) or await self._open(broker, channel)

    async def _open(self, broker: Broker, channel: Channel) -> Connection:
        failures, not_before = self._failures.get(broker.node_id, (0, 0.0))
        if (wait := not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        address = format_address(broker.host, broker.port)
        if self.unreachable.trying(address):
            asyncio.get_running_loop().call_later(_FIRST_WARNING_S, self.unreachable.warn, address)
        try:
            metrics = self._node_metrics.get(broker.node_id)
            if metrics is None:
                metrics = self._node_metrics[broker.node_id] = NodeMetrics(self.metrics, broker.node_id)
            opened = await Connection.open(broker.host, broker.port, self.settings, metrics)
        except (NetworkError, BrokerError) as error:
            if isinstance(error, BrokerError) and error.code in _REFUSED_AUTHENTICATION:
                self.metrics.client["failed-authentication"].record(1)
            self.unreachable.failed(address, str(error))
            if broker.node_id >= 0:  # bootstrap servers have negative ids
                self.cluster.mark_unreachable(broker.node_id)
            pause = _backoff_s(failures, self.settings.reconnect_backoff_ms, self.settings.reconnect_backoff_max_ms)
            self._failures[broker.node_id] = (failures + 1, time.monotonic() + pause)
            raise
        self.unreachable.reached(address)
        if self._closed:
            opened.close()
            raise NetworkError("this client was closed")
        self._failures.pop(broker.node_id, None)
        key = broker.node_id, channel
        if (before := self._connections.get(key)) is not None:
            before.retire()
            self._retired = [entry for entry in (*self._retired, before) if not entry.has_ended]
        self._connections[key] = opened
        return opened

    async def any_connection(self) -> Connection:
        """Return a connection to any broker: one that is open, one that is known, or one of the bootstrap servers.

        Raises:
            NetworkError: none of them can be reached; it names every address that was tried.
            BrokerError: the last one tried refuses us.
        """
        self.home.check()
        for (_, channel), connection in self._connections.items():
            if channel is Channel.REQUESTS and connection.is_usable:
                return connection
        brokers = list(self.cluster.brokers.values())
        _RANDOM.shuffle(brokers)
        servers = self.settings.servers
        bootstrap = [Broker(_BOOTSTRAP - index, *server) for index, server in enumerate(servers)]
        errors: dict[str, NetworkError | BrokerError] = {}
        for broker in (*brokers, *bootstrap):
            try:
                return await self.connection(broker)
            except (NetworkError, BrokerError) as error:
                errors[format_address(broker.host, broker.port)] = error
        last = errors.popitem()[1]
        if not errors or isinstance(last, BrokerError):
            raise last
        raise NetworkError(f"no broker can be reached: {'; '.join(map(str, (*errors.values(), last)))}")

    async def sent(self) -> None:
        """Wait until sockets have all that was written, at most ``request_timeout_ms``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.request_timeout_ms / 1000):
                await asyncio.gather(*(known.sent() for known in self._connections.values()))

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self.unreachable.clear()
        for task in self._refreshing.values():
            task.cancel()
        for entry in (*self._connections.values(), *self._retired):
            entry.close()
        self._connections.clear()

    # --------------------------------------------------------------------------------------------------- requests

    async def request(
        self,
        broker: Broker | None,
        body: Message,
        *,
        version: int | None = None,
        most: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Ask one broker (None: any) once; return the response's body.

        Raises:
            NetworkError, BrokerError: as ``Connection.request``.
        """
        connection = await (self.any_connection() if broker is None else self.connection(broker))
        at = connection.version_of(body, most=most) if version is None else version
        return await connection.request(body, version=at, timeout_ms=timeout_ms)

    async def retried(self, step: Callable[[], Awaitable[Result]], *, timeout_ms: int | None = None) -> Result:
        """Run ``step`` until it succeeds, as Kafka's clients retry: exponential backoff with jitter (KIP-580).

        Raises:
            BrokerError, NetworkError: ``step``'s last error, when it is not retriable, ``retries`` are used up or
                ``timeout_ms`` (``default_api_timeout_ms`` if None) is over.
        """
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        attempt = 0
        while True:
            try:
                return await step()
            except (BrokerError, NetworkError) as error:
                self.last_error = error
                pause = self.backoff_s(attempt)
                attempt += 1
                late = time.monotonic() + pause >= deadline
                if self._closed or not is_retriable(error) or attempt > self.settings.retries or late:
                    raise
                await asyncio.sleep(pause)

    def backoff_s(self, attempt: int) -> float:
        """Return how many seconds to wait before the attempt after this one."""
        return _backoff_s(attempt, self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    # --------------------------------------------------------------------------------------------------- metadata

    async def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> None:
        """Ask for metadata of topics, of all topics if None. Callers that ask for the same share one request.

        Args:
            topics: names.
            create: whether the broker may create what is missing (``auto.create.topics.enable``).
        """
        requested = None if topics is None else frozenset(topics)
        task = self._refreshing.get(requested)
        if task is None:
            task = background(self._refresh(requested, create))
            self._refreshing[requested] = task
            task.add_done_callback(lambda _: self._refreshing.pop(requested, None))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise NetworkError("this client was closed") from None
            raise

    async def _refresh(self, requested: frozenset[str] | None, create: bool) -> None:
        connection = await self.any_connection()
        cls = self.settings.message("MetadataRequest")
        body = cls()
        at = connection.version_of(body)
        if at >= _WITH_CREATION_CHOSEN:  # before it the broker's setting alone decides
            body.allow_auto_topic_creation = create
        if requested is not None:
            body.topics = [cls.MetadataRequestTopic(name=name) for name in sorted(requested)]
        else:
            body.topics = [] if at == 0 else None
        response = await connection.request(body, version=at)
        if response.error_code:
            raise broker_error(response.error_code, "metadata")
        topics = None
        if sum(len(topic.partitions) for topic in response.topics) > _MAX_INLINE_PARTITIONS:
            topics = await create_objects_apart(partial(self.cluster.read_topics, response, requested))
        self.cluster.update(
            response, now=time.monotonic(), is_everything=requested is None, requested=requested, topics=topics
        )

    async def topic(self, name: str, *, create: bool = False) -> None:
        """See that a topic's partitions are known, and fresh enough.

        Raises:
            BrokerError: there is no such topic, or it may not be seen.
        """
        known = self.cluster.topics.get(name)
        age = time.monotonic() - self.cluster.refreshed_at.get(name, 0.0)
        is_fresh = name not in self.cluster.expired and age * 1000 < self.settings.metadata_max_age_ms
        if known is not None and known.partitions and is_fresh:
            return

        async def step() -> None:
            await self.refresh([name], create=create)
            result = self.cluster.topics.get(name)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if result is None else result.error
            if error:
                raise broker_error(error, f"topic {name}")

        limit_ms = self.settings.default_api_timeout_ms
        if self.cluster.updated_at is None:  # brokers that are away have the whole time, unknown topics less
            await self.retried(self.any_connection)
        await self.retried(step, timeout_ms=limit_ms if create else min(limit_ms, _PATIENCE_WITH_UNKNOWN_TOPICS_MS))

    async def leader_of(self, partition: TopicPartition) -> Broker:
        """Return who leads a partition.

        Raises:
            BrokerError: there is no such partition, or (retriable) nobody leads it at the moment.
        """
        await self.topic(partition.topic)
        leader = self.cluster.leader(partition)
        if leader is None:
            await self.refresh([partition.topic])
            leader = self.cluster.leader(partition)
        if leader is None:
            known = self.cluster.partition(partition)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.LEADER_NOT_AVAILABLE
            raise broker_error(code, f"partition {partition}")
        return leader

    # ----------------------------------------------------------------------------------------------- coordinators

    async def coordinator(self, key: str, kind: int = GROUP) -> Broker:
        """Return the coordinator of a group or a transactional id (KIP-98, KIP-699).

        Raises:
            BrokerError: (often retriable) there is none at the moment.
        """
        known = self._coordinators.get((kind, key))
        if known is None:
            known = await self._find_coordinator(key, kind)
            self._coordinators[kind, key] = known
        return known

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Ask again next time: it answered that it is not, or it is not there."""
        self._coordinators.pop((kind, key), None)

    @contextlib.asynccontextmanager
    async def coordinated(
        self, key: str, kind: int = GROUP, channel: Channel = Channel.REQUESTS
    ) -> AsyncIterator[Connection]:
        """Give a connection to the coordinator; if it cannot be reached, it is looked for anew next time."""
        broker = await self.coordinator(key, kind)
        try:
            yield await self.connection(broker, channel)
        except NetworkError:
            self.forget_coordinator(key, kind)
            raise

    async def ask_coordinator(
        self,
        key: str,
        body: Message,
        kind: int = GROUP,
        *,
        most: int | None = None,
        timeout_ms: int | None = None,
        channel: Channel = Channel.REQUESTS,
    ) -> Any:
        """Ask the coordinator once, as ``request`` does."""
        async with self.coordinated(key, kind, channel) as connection:
            at = connection.version_of(body, most=most)
            return await connection.request(body, version=at, timeout_ms=timeout_ms)

    def check_coordinator(
        self, number: int, what: str, key: str, kind: int = GROUP, *, said: str | None = None
    ) -> None:
        """Raise for a coordinator's error code; if it has moved, it is looked for anew next time."""
        if number in COORDINATOR_MOVED:
            self.forget_coordinator(key, kind)
        if number:
            raise broker_error(number, what, said)

    async def _find_coordinator(self, key: str, kind: int) -> Broker:
        connection = await self.any_connection()
        cls = self.settings.message("FindCoordinatorRequest")
        body = cls(key_type=kind)
        at = connection.version_of(body, least=1 if kind != GROUP else 0)
        if at >= _KEYS_IN_A_LIST:
            body.coordinator_keys = [key]
        else:
            body.key = key
        response = await connection.request(body, version=at)
        rows = response.coordinators if at >= _KEYS_IN_A_LIST else [response]
        result = require_one_row(rows, f"coordinator of {key}")
        if result.error_code:
            raise broker_error(result.error_code, f"coordinator of {key}")
        return Broker(result.node_id, result.host, result.port)


def _backoff_s(attempt: int, first_ms: int, most_ms: int) -> float:
    return float(min(first_ms * 2 ** min(attempt, 20), most_ms) / 1000 * _RANDOM.uniform(0.8, 1.2))


@dataclass(slots=True)
class _Failing:
    since: float
    next_warning: float
    cause: str
    warnings: int = 0

    def described(self, address: str) -> str:
        return self.cause if address in self.cause else f"{address}: {self.cause}"


class Unreachable:
    """Which addresses did not answer one client, since when and why; times are of the monotonic clock, in seconds."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._failing: dict[str, _Failing] = {}

    def trying(self, address: str) -> bool:
        """Take that a connection is being opened; return whether it is the first try: ``warn`` is due in a second."""
        if address in self._failing:
            return False
        now = time.monotonic()
        self._failing[address] = _Failing(now, now + _FIRST_WARNING_S, "no answer yet")
        return True

    def failed(self, address: str, cause: str) -> None:
        """Take why that failed."""
        self.trying(address)
        self._failing[address].cause = cause
        self.warn(address)

    def reached(self, address: str) -> None:
        """Take that a connection is open."""
        known = self._failing.pop(address, None)
        if known is not None and known.warnings:
            _LOG.warning(
                "client %r has reached %s after %.0f s", self._client_id, address, time.monotonic() - known.since
            )

    def clear(self) -> None:
        """Take that nobody tries any more."""
        self._failing.clear()

    def warn(self, address: str) -> None:
        """Write a line of the log if one is due."""
        known, now = self._failing.get(address), time.monotonic()
        if known is None or now < known.next_warning - _TIMER_S:
            return
        known.next_warning = now + _PAUSES_S[min(known.warnings, len(_PAUSES_S) - 1)]
        known.warnings += 1
        text, for_s = known.described(address), now - known.since
        _LOG.warning("client %r cannot reach a broker for %.0f s: %s", self._client_id, for_s, text)

    def described(self) -> str:
        """Return every address that does not answer, with its cause; empty where all do."""
        return "; ".join(known.described(address) for address, known in self._failing.items())
