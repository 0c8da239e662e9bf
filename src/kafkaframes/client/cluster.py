"""A client's access to a cluster: connections by node and channel, metadata, and retries as in Kafka's clients.

Producers, consumers and admins use methods of ``ClusterClient``, such as ``get_any_connection``, ``request``,
``find_leader`` and ``find_coordinator``. The client runs on one asyncio event loop.

A broker handles the requests of a connection one after the other. A request that the broker holds back therefore delays
all later ones. Requests of this kind have connections of their own (``Channel``).
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

from kafkaframes.client.loop import ClientContext, create_objects_in_thread, start_background_task
from kafkaframes.client.metadata import Cluster, Node, TopicPartition
from kafkaframes.client.metrics import ClientMetrics, NodeMetrics
from kafkaframes.client.network import Connection
from kafkaframes.client.response_rows import require_rows
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import (
    COORDINATOR_MOVED_CODES,
    AuthenticationError,
    BrokerError,
    ErrorCode,
    NetworkError,
    to_broker_error,
)
from kafkaframes.protocol.addresses import format_address
from kafkaframes.protocol.messages.objects import Message

GROUP, TRANSACTION, SHARE = 0, 1, 2  # key types of FindCoordinator
_TOPIC_CREATION_VERSION: Final = 4  # first version of Metadata with allow_auto_topic_creation
_FIRST_BOOTSTRAP_ID: Final = -1  # bootstrap servers, whose broker ids are unknown, get the ids -1, -2 and so on
_MAX_INLINE_PARTITIONS: Final = 2_000  # largest Metadata response that is read in the event loop, in about 10 ms
_KEY_LIST_VERSION: Final = 4  # first version of FindCoordinator with several keys
UNKNOWN_TOPIC_TIMEOUT_MS: Final = 2_000  # how long an unknown topic is looked up: brokers learn of new topics in turn
_LOG: Final = logging.getLogger("kafkaframes.client")
_FIRST_WARNING_DELAY_S: Final = 1.0  # time until the first log line about an unreachable broker
_TIMER_TOLERANCE_S: Final = 0.01  # a timer of the event loop may fire this much too early
_WARNING_INTERVALS_S: Final = (10.0, 30.0, 60.0)  # intervals between later log lines; the last interval repeats
Result = TypeVar("Result")
_RANDOM: Final = random.Random()  # a separate generator, so that the program's global random state does not change


class Channel(Enum):
    """The purpose of a connection. All requests of one channel to a node share a connection."""

    REQUESTS = "requests"  # requests to which a broker responds at once
    FETCH = "fetch"  # Fetch: held back until there are records, for at most fetch_max_wait_ms
    JOIN = "join"  # JoinGroup and SyncGroup: held back until the other members have joined
    TELEMETRY = "telemetry"  # PushTelemetry: the broker's plugin may be slow


def is_retriable(error: BaseException) -> bool:
    """Return whether a retry of the same request can succeed."""
    if isinstance(error, BrokerError):
        return error.code is not None and error.code.is_retriable
    return isinstance(error, NetworkError)


class ClusterClient:
    """A client's connections to the nodes of a cluster, and its metadata. Close the client with ``close``."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        if unused := settings.unused_security_settings:
            _LOG.warning(
                "client %r: %s no effect, because security_protocol is %s",
                settings.client_id,
                f"{', '.join(unused)} {'has' if len(unused) == 1 else 'have'}",
                settings.security_protocol,
            )
        self.context = ClientContext(settings.client)
        self.cluster = Cluster()
        self._connections: dict[tuple[int, Channel], Connection] = {}
        self._brokers: dict[int, Node] = {}  # brokers of the connections, by node id
        self.on_connection: Callable[[], None] = lambda: None  # called after a connection for requests was opened
        # Connections with expired authentication and requests in flight.
        self._retired_connections: list[Connection] = []
        self._opening: dict[tuple[int, Channel], asyncio.Lock] = {}
        self._failures: dict[int, tuple[int, float]] = {}  # by node id: consecutive failures, time of the next attempt
        self.unreachable = UnreachableBrokers(settings.client_id)
        self._coordinators: dict[tuple[int, str], Node] = {}
        self._refreshing: dict[frozenset[str] | None, asyncio.Task[None]] = {}
        self._missing_topics: set[str] = set()  # subscribed topics that were logged as missing
        self._is_closed = False
        self.last_error: BrokerError | NetworkError | None = None  # last error of a step that is being retried
        self.metrics = ClientMetrics(
            settings.metrics_prefix,
            settings.client_id,
            max_samples=settings.metrics_num_samples,
            sample_s=settings.metrics_sample_window_ms / 1000,
        )
        open_sensor, close_sensor = self.metrics.client["connection-creation"], self.metrics.client["connection-close"]
        self.metrics.add_gauge("connection-count", lambda: open_sensor.count - close_sensor.count)
        self.metrics.add_gauge("metadata-age", self._get_metadata_age)
        self.metrics.add_gauge(
            "requests-in-flight", lambda: sum(entry.in_flight for entry in self._connections.values())
        )
        self._node_metrics: dict[int, NodeMetrics] = {}

    def _get_metadata_age(self) -> float | None:
        updated_at = self.cluster.updated_at
        return None if updated_at is None else time.monotonic() - updated_at

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._is_closed

    # ------------------------------------------------------------------------------------------------ connections

    def find_open_connection(self, broker: Node, channel: Channel = Channel.REQUESTS) -> Connection | None:
        """Return a broker's usable connection for a channel, or None."""
        connection = self._connections.get((broker.node_id, channel))
        return connection if connection is not None and connection.is_usable else None

    def list_connected_brokers(self) -> list[tuple[Node, Connection]]:
        """Return the brokers with a usable connection for requests, and these connections."""
        return [
            (self._brokers[node_id], connection)
            for (node_id, channel), connection in self._connections.items()
            if channel is Channel.REQUESTS and connection.is_usable
        ]

    async def get_connection(self, broker: Node, channel: Channel = Channel.REQUESTS) -> Connection:
        """Return a usable connection to a broker. Open a connection if necessary.

        Raises:
            NetworkError: the broker cannot be reached. After failures, attempts are limited by the reconnect backoff.
            BrokerError: the broker rejects the client.
        """
        self.context.check_context()
        if self._is_closed:
            raise NetworkError("this client was closed")
        if (connection := self.find_open_connection(broker, channel)) is not None:
            return connection
        async with self._opening.setdefault((broker.node_id, channel), asyncio.Lock()):
            connection = self.find_open_connection(broker, channel) or await self._reauthenticate(broker, channel)
            return connection or await self._open_connection(broker, channel)

    async def _reauthenticate(self, broker: Node, channel: Channel) -> Connection | None:
        """Authenticate again on the open connection. Return None if a new connection has to be opened."""
        connection = self._connections.get((broker.node_id, channel))
        if connection is None or not connection.can_reauthenticate:
            return None
        try:
            await connection.reauthenticate(broker.host)
        except (NetworkError, BrokerError):  # the error of a new connection is reported
            return None
        self._count_authentication(None)
        return connection

    async def _open_connection(self, broker: Node, channel: Channel) -> Connection:
        failures, not_before = self._failures.get(broker.node_id, (0, 0.0))
        if (wait := not_before - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        address = format_address(broker.host, broker.port)
        if self.unreachable.record_attempt(address):
            asyncio.get_running_loop().call_later(_FIRST_WARNING_DELAY_S, self.unreachable.log_warning, address)
        try:
            metrics = self._node_metrics.get(broker.node_id)
            if metrics is None:
                metrics = self._node_metrics[broker.node_id] = NodeMetrics(self.metrics, broker.node_id)
            connection = await Connection.open(broker.host, broker.port, self.settings, metrics)
        except (NetworkError, BrokerError) as error:
            self._count_authentication(error)
            self.unreachable.record_failure(address, str(error))
            if broker.node_id >= 0:  # bootstrap servers have negative ids
                self.cluster.mark_unreachable(broker.node_id)
            pause = _compute_backoff_s(
                failures, self.settings.reconnect_backoff_ms, self.settings.reconnect_backoff_max_ms
            )
            self._failures[broker.node_id] = (failures + 1, time.monotonic() + pause)
            raise
        self.unreachable.record_success(address)
        self._count_authentication(None)
        if self._is_closed:
            connection.close()
            raise NetworkError("this client was closed")
        self._failures.pop(broker.node_id, None)
        key = broker.node_id, channel
        if (old_connection := self._connections.get(key)) is not None:
            old_connection.retire()
            self._retired_connections = [
                entry for entry in (*self._retired_connections, old_connection) if not entry.has_ended
            ]
        self._connections[key] = connection
        self._brokers[broker.node_id] = broker
        if channel is Channel.REQUESTS:
            self.on_connection()
        return connection

    def _count_authentication(self, error: Exception | None) -> None:
        """Count the authentication of a connection. Connections without TLS and SASL do not count."""
        if error is None and (self.settings.uses_tls or self.settings.uses_sasl):
            self.metrics.client["successful-authentication"].record(1)
        if isinstance(error, AuthenticationError):
            self.metrics.client["failed-authentication"].record(1)

    async def get_any_connection(self) -> Connection:
        """Return a connection to any broker: an open one, else to a known broker, else to a bootstrap server.

        Raises:
            NetworkError: no broker can be reached. The error names every address.
            BrokerError: the last broker rejects the client.
        """
        self.context.check_context()
        for (_, channel), connection in self._connections.items():
            if channel is Channel.REQUESTS and connection.is_usable:
                return connection
        brokers = list(self.cluster.brokers.values())
        _RANDOM.shuffle(brokers)
        servers = self.settings.servers
        bootstrap = [Node(_FIRST_BOOTSTRAP_ID - index, *server) for index, server in enumerate(servers)]
        errors: dict[str, NetworkError | BrokerError] = {}
        for broker in (*brokers, *bootstrap):
            try:
                return await self.get_connection(broker)
            except (NetworkError, BrokerError) as error:
                errors[format_address(broker.host, broker.port)] = error
        last = errors.popitem()[1]
        if not errors or isinstance(last, BrokerError):
            raise last
        raise NetworkError(f"no broker can be reached: {'; '.join(map(str, (*errors.values(), last)))}")

    async def drain_buffers(self) -> None:
        """Wait until all data is written to the sockets, at most ``request_timeout_ms``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.request_timeout_ms / 1000):
                await asyncio.gather(*(connection.drain() for connection in self._connections.values()))

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        self.unreachable.remove_all()
        for task in self._refreshing.values():
            task.cancel()
        for entry in (*self._connections.values(), *self._retired_connections):
            entry.close()
        self._connections.clear()

    # --------------------------------------------------------------------------------------------------- requests

    async def request(
        self,
        broker: Node | None,
        body: Message,
        *,
        version: int | None = None,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Send a request once to a broker, or to any broker if None. Return the body of the response.

        Raises:
            NetworkError, BrokerError: raised by ``Connection.request``.
        """
        connection = await (self.get_any_connection() if broker is None else self.get_connection(broker))
        request_version = connection.select_version(body, max_version=max_version) if version is None else version
        return await connection.request(body, version=request_version, timeout_ms=timeout_ms)

    async def retry_step(
        self,
        step: Callable[[], Awaitable[Result]],
        *,
        timeout_ms: int | None = None,
        can_retry: Callable[[BrokerError | NetworkError], bool] = is_retriable,
    ) -> Result:
        """Run ``step`` until it succeeds, with exponential backoff and jitter as in Kafka's clients (KIP-580).

        Args:
            step: function to run.
            timeout_ms: longest time of all attempts, in milliseconds; ``default_api_timeout_ms`` if None.
            can_retry: function that returns whether the step is run again after an error.

        Raises:
            BrokerError, NetworkError: last error of ``step``, if it is not retriable, after ``retries`` attempts, or
                after ``timeout_ms``.
        """
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        attempt = 0
        while True:
            try:
                return await step()
            except (BrokerError, NetworkError) as error:
                self.last_error = error
                delay_s = self.backoff_s(attempt)
                attempt += 1
                is_late = time.monotonic() + delay_s >= deadline
                if self._is_closed or not can_retry(error) or attempt > self.settings.retries or is_late:
                    raise
                await asyncio.sleep(delay_s)

    def backoff_s(self, attempt: int) -> float:
        """Return the delay before the next attempt, in seconds."""
        return _compute_backoff_s(attempt, self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    # --------------------------------------------------------------------------------------------------- metadata

    async def refresh_metadata(
        self, topics: Iterable[str] | None = None, *, create: bool = False, can_share: bool = True
    ) -> None:
        """Request the metadata of topics, or of all topics if None.

        Args:
            topics: topic names.
            create: whether the broker may create missing topics (``auto.create.topics.enable``).
            can_share: whether concurrent equal calls share a request. The shared response may be older than this call,
                and lack a change that was made before it.
        """
        topic_names = None if topics is None else frozenset(topics)
        if not can_share:
            await self._request_metadata(topic_names, create)
            return
        task = self._refreshing.get(topic_names)
        if task is None:
            task = start_background_task(self._request_metadata(topic_names, create))
            self._refreshing[topic_names] = task
            task.add_done_callback(lambda _: self._refreshing.pop(topic_names, None))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise NetworkError("this client was closed") from None
            raise

    async def _request_metadata(self, topic_names: frozenset[str] | None, create: bool) -> None:
        connection = await self.get_any_connection()
        cls = self.settings.message_class("MetadataRequest")
        body = cls()
        version = connection.select_version(body)
        if version >= _TOPIC_CREATION_VERSION:  # in earlier versions, only the broker's setting decides
            body.allow_auto_topic_creation = create
        if topic_names is not None:
            body.topics = [cls.MetadataRequestTopic(name=name) for name in sorted(topic_names)]
        else:
            body.topics = [] if version == 0 else None
        response = await connection.request(body, version=version)
        if response.error_code:
            raise to_broker_error(response.error_code, "metadata")
        topics = None
        if sum(len(topic.partitions) for topic in response.topics) > _MAX_INLINE_PARTITIONS:
            topics = await create_objects_in_thread(partial(self.cluster.read_topics, response, topic_names))
        self.cluster.update(
            response,
            now=time.monotonic(),
            has_all_topics=topic_names is None,
            requested_topics=topic_names,
            topics=topics,
        )

    async def ensure_topic(self, name: str, *, create: bool = False) -> None:
        """Ensure that the metadata of a topic are known and not too old.

        Raises:
            BrokerError: the topic does not exist, or the client may not describe it.
        """
        if self._has_fresh_topic(name):
            return

        async def refresh_topic() -> None:
            await self.refresh_metadata([name], create=create)
            result = self.cluster.topics.get(name)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if result is None else result.error
            if error:
                raise to_broker_error(error, f"topic {name}")

        limit_ms = self.settings.default_api_timeout_ms
        if self.cluster.updated_at is None:  # the full timeout is for unreachable brokers, not for unknown topics
            await self.retry_step(self.get_any_connection)
        await self.retry_step(refresh_topic, timeout_ms=limit_ms if create else min(limit_ms, UNKNOWN_TOPIC_TIMEOUT_MS))

    def _has_fresh_topic(self, name: str) -> bool:
        """Return whether the metadata of a topic are known and not too old."""
        topic = self.cluster.topics.get(name)
        age_s = time.monotonic() - self.cluster.refreshed_at.get(name, 0.0)
        is_fresh = name not in self.cluster.expired_topics and age_s * 1000 < self.settings.metadata_max_age_ms
        return topic is not None and bool(topic.partitions) and is_fresh

    async def find_controller(self) -> Node:
        """Return the controller. With KRaft, brokers report any broker, which forwards requests to the controller.

        If brokers report no controller, any broker is returned. That broker rejects a request that it cannot serve with
        NOT_CONTROLLER.

        Raises:
            NetworkError, BrokerError: no broker returns metadata.
        """
        if self.cluster.updated_at is None:
            await self.refresh_metadata([])
        brokers = self.cluster.brokers
        controller = brokers.get(self.cluster.controller) or next(iter(brokers.values()), None)
        if controller is None:
            raise to_broker_error(ErrorCode.BROKER_NOT_AVAILABLE, "controller")
        return controller

    async def find_leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Node | BrokerError]:
        """Return the leader of each partition, or the reason why it has none. Unknown topics share one request.

        Raises:
            NetworkError, BrokerError: no broker returns metadata.
        """
        partition_list = list(partitions)
        unknown = {
            entry.topic
            for entry in partition_list
            if not self._has_fresh_topic(entry.topic) or self.cluster.leader(entry) is None
        }
        if unknown:
            await self.refresh_metadata(unknown)
        return {entry: self.cluster.leader(entry) or self._create_leader_error(entry) for entry in partition_list}

    def log_missing_topics(self, topics: Iterable[str]) -> None:
        """Log each missing topic once until it exists, because a consumer may be waiting for a misspelt name."""
        for name in topics:
            topic = self.cluster.topics.get(name)
            if topic is None or topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._missing_topics.discard(name)
            elif name not in self._missing_topics:
                self._missing_topics.add(name)
                _LOG.warning(
                    "client %r: the subscribed topic %s does not exist; it is read once it is created",
                    self.settings.client_id,
                    name,
                )

    def _create_leader_error(self, partition: TopicPartition) -> BrokerError:
        """Return the error for a partition without a known leader."""
        topic = self.cluster.topics.get(partition.topic)
        if topic is not None and topic.error:
            return to_broker_error(topic.error, f"topic {partition.topic}")
        is_known = topic is not None and partition.partition in topic.partitions
        code = ErrorCode.LEADER_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return to_broker_error(code, f"partition {partition}")

    async def find_leader(self, partition: TopicPartition) -> Node:
        """Return the leader of a partition.

        Raises:
            BrokerError: the partition does not exist, or it has no leader at the moment (retriable).
        """
        await self.ensure_topic(partition.topic)
        leader = self.cluster.leader(partition)
        if leader is None:
            await self.refresh_metadata([partition.topic])
            leader = self.cluster.leader(partition)
        if leader is None:
            partition_metadata = self.cluster.partition(partition)
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition_metadata is None else ErrorCode.LEADER_NOT_AVAILABLE
            )
            raise to_broker_error(code, f"partition {partition}")
        return leader

    # ----------------------------------------------------------------------------------------------- coordinators

    async def find_coordinator(self, key: str, kind: int = GROUP) -> Node:
        """Return the coordinator of a group or a transactional id (KIP-98, KIP-699).

        Raises:
            BrokerError: no coordinator is available, which is usually retriable.
        """
        result: Node | BrokerError | None = self._coordinators.get((kind, key))
        if result is None:
            result = (await self.find_coordinators([key], kind))[key]
        if isinstance(result, BrokerError):
            raise result
        return result

    async def find_coordinators(self, keys: Iterable[str], kind: int = GROUP) -> dict[str, Node | BrokerError]:
        """Return the coordinator of each key, or the reason why none is available. Keys share a request (KIP-699).

        Raises:
            NetworkError, BrokerError: no broker responds, or it supports no version of the request.
        """
        key_list = list(keys)
        unknown = [key for key in key_list if (kind, key) not in self._coordinators]
        rows = await self._send_find_coordinator(unknown, kind) if unknown else {}
        for key, row in rows.items():
            if isinstance(row, Node):
                self._coordinators[kind, key] = row
        return {key: rows[key] if key in rows else self._coordinators[kind, key] for key in key_list}

    def forget_coordinator(self, key: str, kind: int = GROUP) -> None:
        """Remove a coordinator that has moved or could not be reached, so that the next request looks it up again."""
        self._coordinators.pop((kind, key), None)

    @contextlib.asynccontextmanager
    async def connect_to_coordinator(
        self, key: str, kind: int = GROUP, channel: Channel = Channel.REQUESTS
    ) -> AsyncIterator[Connection]:
        """Yield a connection to the coordinator.

        If the connection fails, the next call looks the coordinator up again.
        """
        broker = await self.find_coordinator(key, kind)
        try:
            yield await self.get_connection(broker, channel)
        except NetworkError:
            self.forget_coordinator(key, kind)
            raise

    async def send_to_coordinator(
        self,
        key: str,
        body: Message,
        kind: int = GROUP,
        *,
        max_version: int | None = None,
        timeout_ms: int | None = None,
        channel: Channel = Channel.REQUESTS,
    ) -> Any:
        """Send a request once to the coordinator, as ``request`` does."""
        async with self.connect_to_coordinator(key, kind, channel) as connection:
            version = connection.select_version(body, max_version=max_version)
            return await connection.request(body, version=version, timeout_ms=timeout_ms)

    def check_coordinator(
        self, code: int, action: str, key: str, kind: int = GROUP, *, message: str | None = None
    ) -> None:
        """Raise the exception for a coordinator's error code.

        If the coordinator has moved, the next request looks it up again.
        """
        if code in COORDINATOR_MOVED_CODES:
            self.forget_coordinator(key, kind)
        if code:
            raise to_broker_error(code, action, message)

    async def _send_find_coordinator(self, keys: list[str], kind: int) -> dict[str, Node | BrokerError]:
        connection = await self.get_any_connection()
        cls = self.settings.message_class("FindCoordinatorRequest")
        version = connection.select_version(cls(key_type=kind), min_version=1 if kind != GROUP else 0)
        if version >= _KEY_LIST_VERSION:
            response = await connection.request(cls(key_type=kind, coordinator_keys=keys), version=version)
            rows = {row.key: row for row in response.coordinators}
            require_rows(keys, rows, "coordinators")
        else:
            requests = [connection.request(cls(key_type=kind, key=key), version=version) for key in keys]
            rows = dict(zip(keys, await asyncio.gather(*requests), strict=True))
        return {
            key: to_broker_error(rows[key].error_code, f"coordinator of {key}")
            if rows[key].error_code
            else Node(rows[key].node_id, rows[key].host, rows[key].port)
            for key in keys
        }


def _compute_backoff_s(attempt: int, first_ms: int, max_ms: int) -> float:
    return float(min(first_ms * 2 ** min(attempt, 20), max_ms) / 1000 * _RANDOM.uniform(0.8, 1.2))


@dataclass(slots=True)
class _ConnectionFailure:
    """The consecutive connection failures of an address."""

    since: float
    next_warning: float
    cause: str
    warnings: int = 0

    def describe(self, address: str) -> str:
        return self.cause if address in self.cause else f"{address}: {self.cause}"


class UnreachableBrokers:
    """The addresses that one client cannot reach, each with start time and cause.

    Times are seconds of the monotonic clock.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._failures: dict[str, _ConnectionFailure] = {}

    def record_attempt(self, address: str) -> bool:
        """Record a connection attempt.

        Return whether this is the first attempt to connect; the caller must then call ``log_warning`` a second later.
        """
        if address in self._failures:
            return False
        now = time.monotonic()
        self._failures[address] = _ConnectionFailure(now, now + _FIRST_WARNING_DELAY_S, "no response yet")
        return True

    def record_failure(self, address: str, cause: str) -> None:
        """Record the cause of a failed attempt."""
        self.record_attempt(address)
        self._failures[address].cause = cause
        self.log_warning(address)

    def record_success(self, address: str) -> None:
        """Record that a connection was opened."""
        failure = self._failures.pop(address, None)
        if failure is not None and failure.warnings:
            _LOG.warning(
                "client %r has reached %s after %.0f s", self._client_id, address, time.monotonic() - failure.since
            )

    def remove_all(self) -> None:
        """Remove all addresses, because no further attempt is made."""
        self._failures.clear()

    def log_warning(self, address: str) -> None:
        """Write a log line if one is due."""
        failure, now = self._failures.get(address), time.monotonic()
        if failure is None or now < failure.next_warning - _TIMER_TOLERANCE_S:
            return
        failure.next_warning = now + _WARNING_INTERVALS_S[min(failure.warnings, len(_WARNING_INTERVALS_S) - 1)]
        failure.warnings += 1
        text, duration_s = failure.describe(address), now - failure.since
        _LOG.warning("client %r cannot reach a broker for %.0f s: %s", self._client_id, duration_s, text)

    def describe_failures(self) -> str:
        """Return every unreachable address with its cause; an empty text if all addresses can be reached."""
        return "; ".join(failure.describe(address) for address, failure in self._failures.items())
