"""The background task of a consumer: it sends the requests of the state machine, and passes the responses to it.

The task runs from ``start`` to ``close`` on the consumer's event loop, for both group protocols and without a group.
``change_event`` is set when the caller may find records, a callback or an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, Final

from kafkaframes.client import fetch_session, group_offsets, offsets
from kafkaframes.client.cluster import Channel, ClusterClient, is_retriable
from kafkaframes.client.consumer_machine import ConsumerMachine
from kafkaframes.client.fetch_session import (
    FIRST_TOPIC_ID_VERSION,
    FetchFields,
    FetchSession,
    SessionFields,
    write_partitions,
)
from kafkaframes.client.fetched_batches import BufferedBatches, FetchedBatches
from kafkaframes.client.group_messages import GroupMessages
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    FetchCommittedOffsets,
    FetchEpochEnds,
    FetchMetadata,
    FetchRecords,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListOffsets,
    Request,
    SyncGroup,
)
from kafkaframes.client.loop import cancel_tasks, start_background_task, wait_for_event
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.metrics import seconds_since
from kafkaframes.client.positions import PartitionFetchResponse
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, CorruptRecordError, ErrorCode, KafkaframesError, to_broker_error
from kafkaframes.wire.primitives import NIL_UUID

_COMPLETE_BATCH_VERSION: Final = 3  # first version of Fetch that returns a complete first batch of any size (KIP-74)
_NO_EPOCH: Final = -1
_MAX_OFFSET: Final = 2**63 - 1
_SENSOR_BY_GROUP_REQUEST: Final[dict[type, str]] = {
    JoinGroup: "join",
    SyncGroup: "sync",
    Heartbeat: "heartbeat",
    ConsumerHeartbeat: "heartbeat",
}


class ConsumerTask:
    """Runs a consumer's state machine."""

    def __init__(
        self,
        machine: ConsumerMachine,
        cluster: ClusterClient,
        settings: ConsumerSettings,
        *,
        notice_caller: Callable[[float], float | None],
        call_caller: Callable[[], None],
    ) -> None:
        """Create the task without starting it.

        Args:
            machine: state machine to run.
            cluster: cluster to send requests to.
            settings: consumer settings, such as fetch sizes and the isolation level.
            notice_caller: function that is called with the current time in each iteration, to report that the caller
                has taken records. The function returns the time of its next call, or None.
            call_caller: function that is called if the caller should poll although it has records.
        """
        self._machine = machine
        self._cluster = cluster
        self._settings = settings
        self._notice_caller, self._call_caller = notice_caller, call_caller
        self._group = None if settings.group_id is None else GroupMessages(cluster, settings, settings.group_id)
        self._sessions: dict[int, FetchSession] = {}  # by node id
        self._wake = asyncio.Event()
        self.change_event = asyncio.Event()
        metrics = cluster.metrics
        self._fetching = metrics.get_sensors("fetch-manager-metrics")
        self._coordination = metrics.get_sensors("coordinator-metrics")
        self._heartbeat_at: float | None = None
        self._rebalance_at: float | None = None
        self._rebalance_start_s: float | None = None  # start of the current rebalance
        metrics.add_gauge("last-heartbeat-seconds-ago", lambda: seconds_since(self._heartbeat_at))
        metrics.add_gauge("last-rebalance-seconds-ago", lambda: seconds_since(self._rebalance_at))
        self.failure: Exception | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        if self._task is None:
            self._task = start_background_task(self._run_loop())
        self.wake()

    def wake(self) -> None:
        """Run the next iteration of the task at once."""
        self._wake.set()

    async def close(self) -> None:
        """Stop the task, and cancel in-flight requests."""
        await cancel_tasks(self._task, *self._requests)

    async def leave(self, request: Request) -> None:
        """Report the member's leave to the coordinator. If the coordinator does not respond, the session expires."""
        if self._group is not None and isinstance(request, (LeaveGroup, ConsumerHeartbeat)):
            with contextlib.suppress(KafkaframesError):
                await self._group.send_request(request)

    async def _run_loop(self) -> None:
        """Send requests until the task is cancelled. The next poll raises unexpected errors."""
        try:
            while True:
                self._wake.clear()
                now = time.monotonic()
                self._count_reconciliation(now)
                caller_due = self._notice_caller(now)
                for request in self._machine.next_requests(now):
                    start_background_task(self._send_request(request), self._requests)
                times = [time_s for time_s in (self._machine.next_time(now), caller_due) if time_s is not None]
                if self._machine.needs_caller:
                    self._call_caller()
                    self.change_event.set()
                await wait_for_event(self._wake, max(min(times) - time.monotonic(), 0.0) if times else None)
        except Exception as error:
            self.failure = error
            self.change_event.set()
            self._call_caller()

    async def _send_request(self, request: Request) -> None:
        machine, start_s = self._machine, time.monotonic()
        if isinstance(request, JoinGroup) and self._rebalance_start_s is None:
            self._rebalance_start_s = start_s
        try:
            answer = await self._execute_request(request)
            self._count_group_answer(request, answer, start_s)
        except Exception as error:
            self._count_failed_rebalance(request, error)
            machine.process_failure(request, error, time.monotonic())
        else:
            machine.process_response(request, answer, time.monotonic())
        self.change_event.set()
        self.wake()

    def _count_group_answer(self, request: Request, answer: object, start_s: float) -> None:
        """Count a response from the group coordinator."""
        sensor = _SENSOR_BY_GROUP_REQUEST.get(type(request))
        if sensor is None:
            return
        now = time.monotonic()
        self._coordination[sensor].record((now - start_s) * 1000, now)
        if sensor == "heartbeat":
            self._heartbeat_at = now
        is_assigned = isinstance(answer, ConsumerHeartbeatResponse) and answer.assignment is not None
        if is_assigned and self._rebalance_start_s is None:
            self._rebalance_start_s = now
        if sensor == "sync":
            self._count_rebalance(now)

    def _count_failed_rebalance(self, request: Request, error: Exception) -> None:
        """Count a rebalance that an error from the coordinator has ended."""
        if not isinstance(error, BrokerError) or error.code is ErrorCode.MEMBER_ID_REQUIRED:
            return
        is_join = isinstance(request, JoinGroup | SyncGroup)  # the same rebalance may still succeed
        is_reconciliation = isinstance(request, ConsumerHeartbeat) and self._rebalance_start_s is not None
        if is_join or (is_reconciliation and not is_retriable(error)):
            self._coordination["failed-rebalance"].record(1)
        if is_reconciliation and not is_retriable(error):
            self._rebalance_start_s = None

    def _count_reconciliation(self, now: float) -> None:
        """Count a rebalance of the consumer protocol once the caller owns the assigned partitions."""
        is_consumer_protocol = self._settings.group_protocol == "consumer"
        if is_consumer_protocol and self._rebalance_start_s is not None and self._machine.is_reconciled:
            self._count_rebalance(now)

    def _count_rebalance(self, now: float) -> None:
        start_s = now if self._rebalance_start_s is None else self._rebalance_start_s
        self._coordination["rebalance"].record((now - start_s) * 1000, now)
        self._rebalance_at, self._rebalance_start_s = now, None

    async def _execute_request(self, request: Request) -> object:
        cluster, settings = self._cluster, self._settings
        if isinstance(request, FetchRecords):
            return await self._fetch_from_node(request)
        if isinstance(request, FetchMetadata):
            await cluster.refresh_metadata(request.topics)
            cluster.log_missing_topics(self._machine.topics)
            return None
        if isinstance(request, FetchCommittedOffsets):
            assert settings.group_id is not None
            return await group_offsets.request_committed_offsets(
                cluster, settings.group_id, request.versions, stable=settings.reads_committed
            )
        if isinstance(request, ListOffsets):
            return await offsets.list_offsets_at_leader(
                cluster, request.node, request.timestamps, read_committed=settings.reads_committed
            )
        if isinstance(request, FetchEpochEnds):
            return await offsets.fetch_epoch_ends(cluster, request.node, request.epochs)
        return await self._send_to_group(request)

    async def _send_to_group(self, request: GroupRequest) -> object:
        assert self._group is not None
        return await self._group.send_request(request)

    # ------------------------------------------------------------------------------------------------------ fetching

    async def _fetch_from_node(self, request: FetchRecords) -> dict[TopicPartition, PartitionFetchResponse]:
        """Fetch from one node. With a fetch session (KIP-227), the request has only changed partitions."""
        settings, node = self._settings, request.node
        connection = await self._cluster.get_connection(node, Channel.FETCH)
        partition_fields = self._select_partitions(request)
        if not partition_fields:
            return {}
        ids = {entry.topic: row.topic_id for entry, row in partition_fields.items()}
        body = settings.message_class("FetchRequest")(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.reads_committed),
            rack_id=settings.client_rack,
        )
        version = connection.select_version(
            body, max_version=FIRST_TOPIC_ID_VERSION - 1 if NIL_UUID in ids.values() else None
        )
        session = self._sessions.setdefault(node.node_id, FetchSession())
        rows = SessionFields(fetch_session.NO_SESSION_ID, fetch_session.NO_SESSION_EPOCH, list(partition_fields), {})
        if version >= fetch_session.FIRST_SESSION_VERSION:
            rows = session.next_request(partition_fields, by_id=version >= FIRST_TOPIC_ID_VERSION)
        write_partitions(body, rows, partition_fields, version)
        wait_ms = settings.request_timeout_ms + settings.fetch_max_wait_ms
        start_s = time.monotonic()
        try:
            response = await connection.request(body, version=version, timeout_ms=wait_ms)
        except BaseException:  # it is unknown whether the node processed the request
            session.reset()
            raise
        self._fetching["fetch"].record((time.monotonic() - start_s) * 1000)
        self._fetching["throttle"].record(response.throttle_time_ms)
        if response.error_code:
            session.reset()
            if response.error_code in fetch_session.SESSION_LOST_ERRORS:  # the partitions are requested again at once
                session.session_id = fetch_session.NO_SESSION_ID
                return {}
            raise to_broker_error(response.error_code, "fetch")
        if version >= fetch_session.FIRST_SESSION_VERSION:
            session.update(response.session_id)
        names = {topic_id: name for name, topic_id in ids.items()}
        answers = {}
        size = sum(len(entry.records or b"") for topic in response.responses for entry in topic.partitions)
        self._fetching["fetch-size"].record(size)
        for topic in response.responses:
            name = names.get(topic.topic_id, "") if version >= FIRST_TOPIC_ID_VERSION else topic.topic
            for entry in topic.partitions:
                partition = TopicPartition(name, entry.partition_index)
                if partition in partition_fields:
                    answers[partition] = self._to_fetch_answer(
                        partition, entry, partition_fields[partition].offset, version
                    )
        return answers

    def _select_partitions(self, request: FetchRecords) -> dict[TopicPartition, FetchFields]:
        """Return the partitions to fetch, without those that changed their position while the connection was opened."""
        cluster, result = self._cluster.cluster, {}
        for partition, version in request.versions.items():
            state = self._machine.positions.states.get(partition)
            if state is not None and state.version == version:
                partition_metadata = cluster.partition(partition)
                epoch = _NO_EPOCH if partition_metadata is None else partition_metadata.leader_epoch
                topic_id = cluster.topic_id(partition.topic)
                result[partition] = FetchFields(state.fetch_offset, state.max_bytes, epoch, topic_id)
        return result

    def _to_fetch_answer(
        self, partition: TopicPartition, entry: Any, offset: int, version: int
    ) -> PartitionFetchResponse:
        if entry.error_code:
            return PartitionFetchResponse(
                to_broker_error(entry.error_code, f"fetch of {partition} from offset {offset}")
            )
        bounds = entry.high_watermark, entry.last_stable_offset, entry.log_start_offset
        if not entry.records:
            return PartitionFetchResponse(None, None, False, *bounds, entry.preferred_read_replica)
        fetched_batches = FetchedBatches(
            partition, offset, memoryview(entry.records), *bounds, self._read_aborted_transactions(entry)
        )
        end = fetched_batches.batches.end
        if not len(fetched_batches.batches) and end.is_corrupt:
            return PartitionFetchResponse(CorruptRecordError(f"{end.reason}, at offset {offset}", file=str(partition)))
        if not len(fetched_batches.batches):
            if version >= _COMPLETE_BATCH_VERSION:
                size = self._settings.max_partition_fetch_bytes
                reason = f"a batch in {partition} is larger than max_partition_fetch_bytes={size}"
                return PartitionFetchResponse(BrokerError(reason))
            return PartitionFetchResponse(None, None, True, *bounds)
        if not offset < fetched_batches.next_offset <= _MAX_OFFSET:  # the same fetch would be repeated forever
            last = int(fetched_batches.batches.column("last_offset")[-1])
            reason = f"the data fetched from offset {offset} ends with offset {last}"
            return PartitionFetchResponse(CorruptRecordError(reason, file=str(partition)))
        return PartitionFetchResponse(
            None, BufferedBatches(fetched_batches), False, *bounds, entry.preferred_read_replica
        )

    def _read_aborted_transactions(self, entry: Any) -> list[tuple[int, int]] | None:
        if not self._settings.reads_committed or not entry.aborted_transactions:
            return None
        return [(row.producer_id, row.first_offset) for row in entry.aborted_transactions]
