"""The background task of a share consumer: it sends the requests of the state machine, and passes it the responses.

The task runs on the consumer's event loop while the consumer has a subscription. ``change_event`` is set after each
response.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from kafkaframes.client.cluster import GROUP, Channel, ClusterClient, is_retriable
from kafkaframes.client.group_requests import FetchMetadata
from kafkaframes.client.loop import cancel_tasks, start_background_task, wait_for_event
from kafkaframes.client.metrics import seconds_since
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_machine import ShareConsumerMachine
from kafkaframes.client.share_messages import ShareMessages
from kafkaframes.client.share_requests import ShareAcknowledge, ShareFetch, ShareHeartbeat, ShareRequest
from kafkaframes.client.share_session import INITIAL_EPOCH
from kafkaframes.errors import BrokerError

_MIN_SHARE_VERSION: Final = 1  # version 0 was an early access of Kafka 4.0
_LOG: Final = logging.getLogger("kafkaframes.client")


class ShareTask:
    """Runs a share consumer's state machine.

    Attributes:
        change_event: event that is set after each response.
        failure: unexpected error that ended the task, or None.
    """

    def __init__(
        self,
        machine: ShareConsumerMachine,
        cluster: ClusterClient,
        settings: ShareConsumerSettings,
        member_id: str,
        *,
        on_change: Callable[[], None],
    ) -> None:
        """Create the task without starting it.

        Args:
            machine: state machine to run.
            cluster: cluster to send requests to.
            settings: settings of the share consumer, such as the group id.
            member_id: id of the group member.
            on_change: called after each response.
        """
        self._machine = machine
        self._cluster = cluster
        self._settings = settings
        self._messages = ShareMessages(settings, member_id, machine.get_partition)
        self._on_change = on_change
        self._wake = asyncio.Event()
        self.change_event = asyncio.Event()
        self.failure: Exception | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._logged_rejections: set[str] = set()  # rejections since the last successful fetch
        metrics = cluster.metrics
        self._fetching = metrics.get_sensors("fetch-manager-metrics")
        self._coordination = metrics.get_sensors("coordinator-metrics")
        self._heartbeat_at: float | None = None
        metrics.add_gauge("last-heartbeat-seconds-ago", lambda: seconds_since(self._heartbeat_at))
        metrics.add_gauge("assigned-partitions", lambda: len(machine.assignment))

    def start(self) -> None:
        """Start the task if it is not running."""
        if self._task is None:
            self._task = start_background_task(self._run_loop())

    async def close(self) -> None:
        """Stop the task, and cancel in-flight requests."""
        await cancel_tasks(self._task, *self._requests)
        self._task = None

    def send_due_requests(self) -> None:
        """Send the requests that are due now."""
        self._send_due(time.monotonic())
        self._wake.set()

    def _send_due(self, now: float) -> None:
        """Send the requests that are due, each in a task of its own."""
        for request in self._machine.next_requests(now):
            start_background_task(self._execute_request(request), self._requests)

    async def _run_loop(self) -> None:
        """Send requests until the task is cancelled.

        If an unexpected error ends this task, calls of the consumer raise the error.
        """
        try:
            while True:
                self._wake.clear()
                now = time.monotonic()
                self._send_due(now)
                time_s = self._machine.next_time(now)
                await wait_for_event(self._wake, None if time_s is None else max(time_s - time.monotonic(), 0.0))
        except Exception as error:
            self.failure = error
            self.change_event.set()

    async def _execute_request(self, request: ShareRequest) -> None:
        machine = self._machine
        try:
            try:
                answer = await self._request_once(request)
            except Exception as error:
                self._log_rejection(request, error)
                machine.process_failure(request, error, time.monotonic())
            else:
                machine.process_response(request, answer, time.monotonic())
            self._on_change()
        except Exception as error:
            self.failure = error
        self.change_event.set()
        self._wake.set()

    def _log_rejection(self, request: ShareRequest, error: Exception) -> None:
        """Log the first of several equal rejections that are retried.

        Other errors are raised by polls or returned to callers.
        """
        if isinstance(request, ShareAcknowledge) or not (isinstance(error, BrokerError) and is_retriable(error)):
            return
        if isinstance(request, ShareFetch) and request.epoch != INITIAL_EPOCH:
            return  # a session that was lost is opened again at once
        if str(error) not in self._logged_rejections:
            self._logged_rejections.add(str(error))
            _LOG.warning("share group %r: %s; retrying", self._settings.group_id, error)

    async def _request_once(self, request: ShareRequest) -> object:
        """Send a request once, and return the response."""
        if isinstance(request, FetchMetadata):
            await self._cluster.refresh_metadata(request.topics)
            return None
        if isinstance(request, ShareHeartbeat):
            return await self._send_heartbeat(request)
        if isinstance(request, ShareFetch):
            return await self._fetch_records(request)
        connection = await self._cluster.get_connection(request.node, Channel.FETCH)
        cls = self._settings.message_class("ShareAcknowledgeRequest")
        version = connection.select_version(cls(), min_version=_MIN_SHARE_VERSION)
        response = await connection.request(self._messages.to_acknowledge_body(request, version), version=version)
        return self._messages.read_acknowledge(request, response)

    async def _send_heartbeat(self, request: ShareHeartbeat) -> object:
        cluster, group_id = self._cluster, self._settings.required_group_id
        start_s = time.monotonic()
        response = await cluster.send_to_coordinator(group_id, self._messages.to_heartbeat_body(request), GROUP)
        cluster.check_coordinator(
            response.error_code, f"share group {group_id}", group_id, message=response.error_message
        )
        self._heartbeat_at = time.monotonic()
        self._coordination["heartbeat"].record((self._heartbeat_at - start_s) * 1000)
        if response.assignment is not None:
            self._coordination["rebalance"].record(1, self._heartbeat_at)
        return self._messages.read_heartbeat(response)

    async def _fetch_records(self, request: ShareFetch) -> object:
        settings = self._settings
        connection = await self._cluster.get_connection(request.node, Channel.FETCH)
        cls = settings.message_class("ShareFetchRequest")
        version = connection.select_version(cls(), min_version=_MIN_SHARE_VERSION)
        wait_ms = settings.request_timeout_ms + settings.fetch_max_wait_ms
        start_s = time.monotonic()
        response = await connection.request(
            self._messages.to_fetch_body(request, version), version=version, timeout_ms=wait_ms
        )
        answer = self._messages.read_fetch(request, response)
        self._fetching["fetch"].record((time.monotonic() - start_s) * 1000)
        self._fetching["throttle"].record(response.throttle_time_ms)
        size = sum(len(row.records or b"") for topic in response.responses for row in topic.partitions)
        self._fetching["fetch-size"].record(size)
        self._logged_rejections.clear()
        return answer
