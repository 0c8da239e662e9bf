"""The background task that pushes a client's metrics to a broker (KIP-714).

The task has a connection of its own. A broker serves the requests of a connection in order, and its telemetry plugin
may be slow, so that a push on a shared connection would delay records and heartbeats. The task connects only to brokers
to which the client has a connection anyway, and only if they advertise the telemetry APIs. The task therefore does
nothing, and logs nothing, with brokers that are old, have no telemetry plugin or are not reachable.

An error in telemetry never reaches the application. If the broker rejects the telemetry permanently, one warning is
logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kafkaframes.client.cluster import Channel, ClusterClient
from kafkaframes.client.loop import cancel_tasks, start_background_task, wait_for_event
from kafkaframes.client.metadata import Node
from kafkaframes.client.network import Connection
from kafkaframes.client.telemetry.payload import PayloadBuilder
from kafkaframes.client.telemetry.schedule import TelemetrySchedule
from kafkaframes.errors import BrokerError, ErrorCode, NetworkError, OptionError, to_broker_error
from kafkaframes.protocol.api_keys import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from kafkaframes.records.codecs import compress

_TELEMETRY_API_KEYS: Final = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
_MAX_CLOSE_DELAY_S: Final = 1.0  # longest time that telemetry adds to closing a client
_LOG: Final = logging.getLogger("kafkaframes.client")
_RANDOM: Final = random.Random()


class TelemetryReporter:
    """Pushes the metrics of one client. The reporter does nothing if ``enable_metrics_push`` is False."""

    def __init__(self, cluster: ClusterClient, labels: Callable[[], Mapping[str, str]] = dict) -> None:
        """Create a reporter. The reporter starts with the client's first connection.

        Args:
            cluster: connections and metrics of the client.
            labels: function that returns labels of the client, such as ``group_id``; empty values are omitted.
        """
        self._cluster = cluster
        self._schedule = TelemetrySchedule(_RANDOM.uniform)
        self._payloads = PayloadBuilder(cluster.metrics, labels, started_ns=time.time_ns())
        self._node: Node | None = None
        self._connected_event = asyncio.Event()
        self._subscribed_event = asyncio.Event()  # also set when the push task ends
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self._reports_omission = True
        if cluster.settings.enable_metrics_push:
            cluster.on_connection = self._handle_connection

    def _handle_connection(self) -> None:
        """Start the task when the client has connected, or wake it."""
        self._connected_event.set()
        if self._task is None and not self._is_closing:
            self._task = start_background_task(self._run_loop())

    async def client_instance_id(self, timeout_ms: int | None) -> UUID:
        """Return the id that a broker has assigned to this client.

        Args:
            timeout_ms: longest wait, in milliseconds; None for ``default_api_timeout_ms``.

        Raises:
            OptionError: ``enable_metrics_push`` is False.
            BrokerError: no connected broker serves the request, or one has rejected it.
            NetworkError: no broker has responded in time.
        """
        cluster = self._cluster
        if not cluster.settings.enable_metrics_push:
            raise OptionError(
                "the client has no instance id because it pushes no metrics; set enable_metrics_push=True"
            )
        if timeout_ms is None:
            timeout_ms = cluster.settings.default_api_timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        if self._schedule.subscription is None and self._select_broker() is None:
            connection = await cluster.retry_step(cluster.get_any_connection, timeout_ms=timeout_ms)
            if self._select_broker() is None:
                reason = "brokers of Kafka 3.7 and later serve it if they have a plugin for client telemetry"
                subject = f"{connection.host_port} does not support GetTelemetrySubscriptions; {reason}"
                raise to_broker_error(ErrorCode.UNSUPPORTED_VERSION, subject)
        await wait_for_event(self._subscribed_event, max(deadline - time.monotonic(), 0.0))
        if self._is_closing:
            raise NetworkError("this client was closed")
        if self._schedule.subscription is not None:
            return self._schedule.subscription.client_instance_id
        if self._schedule.disabling_error is not None:
            raise to_broker_error(self._schedule.disabling_error, "GetTelemetrySubscriptions")
        raise NetworkError(f"no broker has responded to GetTelemetrySubscriptions in {timeout_ms} ms")

    async def close(self, timeout_s: float | None = None) -> None:
        """Push the metrics a last time if the client has a subscription, and stop.

        Args:
            timeout_s: longest duration, in seconds; never more than one second.
        """
        self._is_closing = True
        self._wake.set()
        self._connected_event.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_MAX_CLOSE_DELAY_S if timeout_s is None else min(timeout_s, _MAX_CLOSE_DELAY_S)):
                if self._task is not None:  # the last push would repeat the metrics of a push without a response
                    await asyncio.shield(self._task)
                await self._push_last_metrics()
        await cancel_tasks(self._task)

    async def _push_last_metrics(self) -> None:
        node = self._node
        connection = None if node is None else self._cluster.find_open_connection(node, Channel.TELEMETRY)
        if connection is not None and self._schedule.can_push:
            with contextlib.suppress(BrokerError, NetworkError):
                await self._push_metrics(connection, is_terminating=True)

    async def _run_loop(self) -> None:
        """Send requests when they are due, until the client is closed or telemetry is disabled."""
        try:
            while not self._is_closing and self._schedule.disabling_error is None:
                self._wake.clear()
                await wait_for_event(self._wake, max(self._schedule.due_s - time.monotonic(), 0.0))
                if not self._is_closing:
                    await self._send_next()
        except Exception:  # a bug in the telemetry must not affect the application
            self._schedule.disabling_error = ErrorCode.UNKNOWN_SERVER_ERROR
            _LOG.warning("client %r no longer pushes metrics", self._cluster.settings.client_id, exc_info=True)
        finally:
            self._subscribed_event.set()

    async def _send_next(self) -> None:
        """Send the request that is due. If no connected broker serves the request, wait for the next connection."""
        self._connected_event.clear()
        node = self._node = self._select_broker()
        if node is None:
            await self._connected_event.wait()
            return
        try:
            connection = await self._cluster.get_connection(node, Channel.TELEMETRY)
            if self._schedule.needs_subscription:
                await self._request_subscription(connection)
            else:
                await self._push_metrics(connection, is_terminating=False)
        except (BrokerError, NetworkError) as error:
            _LOG.debug("client %r: telemetry: %s", self._cluster.settings.client_id, error)
            self._node = None
            self._schedule.handle_failure(time.monotonic())

    def _select_broker(self) -> Node | None:
        """Return the broker of the last push, else another connected one that advertises the telemetry APIs."""
        nodes = [
            broker
            for broker, connection in self._cluster.list_connected_brokers()
            if all(key in connection.ranges for key in _TELEMETRY_API_KEYS)
        ]
        if self._node in nodes:
            return self._node
        return _RANDOM.choice(nodes) if nodes else None

    async def _request_subscription(self, connection: Connection) -> None:
        message = self._cluster.settings.message_class
        body = message("GetTelemetrySubscriptionsRequest")(client_instance_id=self._schedule.client_instance_id)
        response = await connection.request(body)
        self._schedule.handle_subscription_response(response, time.monotonic())
        self._warn_if_disabled("GetTelemetrySubscriptions", connection)
        if self._schedule.subscription is not None:
            self._subscribed_event.set()

    async def _push_metrics(self, connection: Connection, *, is_terminating: bool) -> None:
        schedule = self._schedule
        subscription = schedule.subscription
        assert subscription is not None
        payload = self._payloads.build_payload(
            subscription.prefixes,
            is_delta=subscription.is_delta,
            max_bytes=schedule.max_payload_bytes,
            time_ns=time.time_ns(),
        )
        if not payload.is_complete and self._reports_omission:
            self._reports_omission = False
            reason = f"all metrics need more than {schedule.max_payload_bytes} bytes; subscribe to fewer metrics"
            _LOG.warning("client %r pushes only some of its metrics: %s", self._cluster.settings.client_id, reason)
        codec = schedule.codec
        body = self._cluster.settings.message_class("PushTelemetryRequest")(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=is_terminating,
            compression_type=int(codec),
            metrics=compress(codec, payload.data),
        )
        response = await connection.request(body)
        if schedule.handle_push_response(response, len(payload.data), codec, time.monotonic()):
            self._payloads.store_accepted_totals(payload)
        self._warn_if_disabled("PushTelemetry", connection)

    def _warn_if_disabled(self, api: str, connection: Connection) -> None:
        code = self._schedule.disabling_error
        if code is not None and not self._is_closing:
            client_id = self._cluster.settings.client_id
            reason = f"{connection.host_port} has rejected {api}: {code}"
            _LOG.warning("client %r no longer pushes metrics: %s", client_id, reason)


class TelemetryMethods:
    """Methods of clients that push metrics."""

    _telemetry: TelemetryReporter

    async def client_instance_id(self, timeout_ms: int | None = None) -> UUID:
        """Return the id that a broker has assigned to this client for the telemetry (KIP-714).

        Args:
            timeout_ms: longest wait, in milliseconds; None for ``default_api_timeout_ms``.

        Raises:
            OptionError: ``enable_metrics_push`` is False.
            BrokerError: the connected brokers do not support client telemetry, or one has rejected the request.
            NetworkError: no broker has responded in time.
        """
        return await self._telemetry.client_instance_id(timeout_ms)
