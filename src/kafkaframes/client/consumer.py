"""The asyncio consumer, which returns fetched data as Arrow tables, as single records, or as bytes.

``assign`` reads given partitions. ``subscribe`` joins a group, which distributes the partitions of its topics.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Unpack
from uuid import UUID

import pyarrow as pa

from kafkaframes.client import group_offsets, offsets
from kafkaframes.client.assignors import ASSIGNORS
from kafkaframes.client.classic_member import REJOIN_ERRORS
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.consumer_machine import CallbackKind, ConsumerMachine, RebalanceCallback
from kafkaframes.client.consumer_task import ConsumerTask
from kafkaframes.client.fetched_batches import (
    BufferedBatches,
    ConsumerRecord,
    FetchedBatches,
    RecordIterator,
    resolve_columns,
    select_output_columns,
)
from kafkaframes.client.group_offsets import CommittedOffset, GroupMember, check_offsets, to_committed_offset
from kafkaframes.client.interceptors import CONSUMER_HOOKS, Interceptors
from kafkaframes.client.loop import (
    CLOSE_TIMEOUT_MS,
    cancel_tasks,
    start_background_task,
    to_deadline,
    wait_for_event,
    warn_unclosed,
)
from kafkaframes.client.metadata import (
    PartitionLike,
    PartitionMapping,
    TopicPartition,
    to_partition,
    to_partition_mapping,
    to_partitions,
)
from kafkaframes.client.metrics import MetricName, PollMetrics, TaggedValues, measure_ns
from kafkaframes.client.offsets import EARLIEST, LATEST, is_range_empty
from kafkaframes.client.positions import Ownership, PartitionState, PartitionStep
from kafkaframes.client.settings import ConsumerSettings, check_choice, merge_options
from kafkaframes.client.telemetry.reporter import TelemetryMethods, TelemetryReporter
from kafkaframes.client.topic_lookups import AsyncTopicLookupClient
from kafkaframes.errors import (
    BrokerError,
    ErrorCode,
    KafkaframesError,
    NetworkError,
    OptionError,
    to_broker_error,
)
from kafkaframes.records.columns import DEFAULT_COLUMNS
from kafkaframes.records.limits import current_budget
from kafkaframes.records.memory import Recycler

if TYPE_CHECKING:
    from kafkaframes.client.options import ConsumerOptions, Servers

Listener = Callable[[Collection[TopicPartition]], Any]
ARROW_COLUMNS: Final = ("topic", "partition", *DEFAULT_COLUMNS)  # default columns of ``fetch_arrow``
_LOG: Final = logging.getLogger("kafkaframes.client")
_SENSOR_BY_CALLBACK: Final = {
    CallbackKind.ASSIGN: "partition-assigned",
    CallbackKind.REVOKE: "partition-revoked",
    CallbackKind.LOSE: "partition-lost",
}


class AsyncConsumer(AsyncTopicLookupClient, TelemetryMethods):
    """Reads records of topics.

    ``async with AsyncConsumer("localhost:9092") as consumer: ...``

    A background task sends heartbeats, joins the group, fetches and refreshes metadata (``ConsumerTask``). Callbacks,
    and the removal of partitions, happen in ``poll``, ``fetch``, ``fetch_arrow``, iteration, ``unsubscribe`` and
    ``close``.
    """

    def __init__(self, bootstrap_servers: Servers | None = None, **options: Unpack[ConsumerOptions]) -> None:
        """Create a consumer. The consumer connects in ``assign`` or ``subscribe``.

        Args:
            bootstrap_servers: ``host:port``; several separated by commas or in a list; or a dict of properties.
            options: settings (``ConsumerOptions``), which override properties in ``bootstrap_servers``.

        Raises:
            OptionError: a setting is unknown, invalid or not supported.
        """
        super().__init__(ConsumerSettings.from_options(merge_options(bootstrap_servers, options)))
        for name in self.settings.strategies:
            check_choice("partition_assignment_strategy", name, tuple(ASSIGNORS))
        self._telemetry = TelemetryReporter(self._cluster, self._get_telemetry_labels)
        self._machine = ConsumerMachine(
            self.settings,
            self._cluster.cluster,
            backoff_s=self._cluster.backoff_s,
            new_id=lambda: str(uuid.uuid4()),
            now_ms=lambda: time.time_ns() // 1_000_000,
        )
        self._positions = self._machine.positions
        self._task = ConsumerTask(
            self._machine,
            self._cluster,
            self.settings,
            notice_caller=self._record_iteration,
            call_caller=self._interrupt_iteration,
        )
        self._is_closed = False
        self._fetching = self._cluster.metrics.get_sensors("fetch-manager-metrics")
        self._polls = PollMetrics(self._cluster.metrics)
        self._add_gauges()
        self._memory = Recycler()
        self._commits_by_itself = self.settings.enable_auto_commit and self.settings.group_id is not None
        self._committed_at = time.monotonic()
        self._auto_commit: asyncio.Task[None] | None = None
        self._reading_task: asyncio.Task[Any] | None = None
        # The records of the current iteration, and how many were unread.
        self._iteration: tuple[RecordIterator, int] | None = None
        self._listeners: tuple[Listener | None, Listener | None] = (None, None)
        self._call_listener = _call_listener  # the synchronous Consumer calls listeners in its caller's thread
        self._interceptors = Interceptors.load_interceptors(self.settings.interceptors, CONSUMER_HOOKS)
        self._call_interceptors: Callable[[Callable[[], Any]], Awaitable[Any]] = _call_here  # as listeners
        self._unreported_commits: deque[dict[TopicPartition, CommittedOffset]] = deque()

    def _add_gauges(self) -> None:
        """Add the gauges that are computed from the state of this consumer."""
        metrics = self._cluster.metrics
        metrics.before_reading = self._count_iterated_records
        metrics.add_gauge("assigned-partitions", lambda: len(self.assignment()))
        metrics.add_tagged_gauge("records-lag", lambda: self._pair_with_tags(self._compute_lag))
        metrics.add_tagged_gauge("records-lead", lambda: self._pair_with_tags(_compute_lead))
        metrics.add_tagged_gauge("preferred-read-replica", lambda: self._pair_with_tags(_get_replica))

    def _pair_with_tags(self, function: Callable[[PartitionState], float | None]) -> TaggedValues:
        """Yield the tags of each partition and the value that the function returns for its state."""
        for state in self._positions.states.values():
            yield {"topic": state.partition.topic, "partition": state.partition.partition}, function(state)

    def _compute_lag(self, state: PartitionState) -> int | None:
        """Return the lag of a partition's position; None if the position or the end is unknown."""
        end = state.last_stable_offset if self.settings.reads_committed else state.high_watermark
        position = -1 if end < 0 else state.position
        return None if position < 0 else max(end - position, 0)

    def _count_returned_records(self, state: PartitionState | None, count: int) -> None:
        """Count the records of a partition that the caller gets, and the partition's lag after these records."""
        now = time.monotonic()
        self._fetching["records"].record(count, now)
        lag = None if state is None else self._compute_lag(state)
        if lag is not None:
            self._fetching["lag"].record(lag, now)
        lead = None if state is None else _compute_lead(state)
        if lead is not None:
            self._fetching["lead"].record(lead, now)

    def metrics(self) -> dict[MetricName, float]:
        """Return the consumer's metrics under Java's names: connections, fetches, lag, commits, the group."""
        return self._cluster.metrics.values()

    def _get_telemetry_labels(self) -> dict[str, str]:
        settings = self.settings
        return {
            "group_id": settings.group_id or "",
            "group_instance_id": settings.group_instance_id or "",
            "group_member_id": "" if settings.group_id is None else self.group_metadata().member_id,
            "client_rack": settings.client_rack,
        }

    async def __aenter__(self) -> AsyncConsumer:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.close(commit=kind is None)

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True) and self._cluster.cluster.updated_at is not None:
            warn_unclosed(self, self.settings.bootstrap_servers)

    async def close(self, *, commit: bool = True, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Commit (only with automatic commits), call ``on_revoke``, leave the group and close the connections.

        An exception that leaves ``async with`` commits nothing: the application may not have handled the last records.

        Args:
            commit: whether an automatic commit is done.
            timeout_ms: longest wait for the brokers, in milliseconds. If the brokers take longer, the session timeout
                ends the membership.
        """
        self._cluster.context.check_context()
        self._is_closed = True
        self._task.change_event.set()  # waiting reads fail
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._end_assignment(commit=commit)
        except TimeoutError:
            _LOG.warning("client %r: leaving the group took longer than %d ms", self.settings.client_id, timeout_ms)
        finally:
            await cancel_tasks(self._auto_commit)
            await self._task.close()
            await self._telemetry.close(max(deadline - time.monotonic(), 0.0))
            await self._cluster.close()
            await self._report_commits()
            if self._interceptors is not None:
                await self._call_interceptors(self._interceptors.close)

    # ------------------------------------------------------------------------------------------------- assignment

    async def assign(
        self,
        partitions: Iterable[PartitionLike] | PartitionMapping[int],
        *,
        ends: PartitionMapping[int] | None = None,
    ) -> None:
        """Read only these partitions.

        Args:
            partitions: partitions to read. A mapping has the start offset of each partition; otherwise reading starts
                at the committed offset or as ``auto_offset_reset`` specifies.
            ends: end offset of each partition. The client requests no records at or after these offsets; the last
                fetched batch may extend beyond the end offset.

        Raises:
            OptionError: the consumer has subscribed.
            NetworkError: no broker responds within ``default_api_timeout_ms``.
            BrokerError: a broker rejects the client, or a partition cannot be read.
        """
        self._raise_task_failure()
        if self._machine.member is not None:
            raise OptionError("this consumer has subscribed; unsubscribe before assigning partitions")
        starts = to_partition_mapping(partitions) if isinstance(partitions, Mapping) else {}
        partition_list = to_partitions(partitions)
        end_offsets = None if ends is None else to_partition_mapping(ends)
        await self._check_reachable(partition_list)
        self._positions.errors.clear()  # errors of earlier reads; a partition that still fails reports its error again
        states = self._positions.states
        for entry in partition_list:
            if entry not in states:
                self._positions.add(entry, Ownership.PENDING, offset=starts.get(entry))
            elif entry in starts:
                states[entry].move_position(PartitionStep.FETCH, starts[entry])
        self._task.start()
        try:
            await self._wait_for_positions([entry for entry in partition_list if entry not in starts])
        except BaseException:
            for state in [state for state in states.values() if state.ownership is Ownership.PENDING]:
                self._positions.remove(state.partition)
            raise
        for entry in set(states) - set(partition_list):
            self._positions.remove(entry)
        for state in states.values():
            state.ownership = Ownership.OWNED
            state.end = None if end_offsets is None else end_offsets.get(state.partition)
        self._task.wake()
        if (error := self._positions.find_stuck_error()) is not None:
            raise error

    async def _wait_for_positions(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait until the background task has found the start positions.

        Raises:
            NetworkError, BrokerError: the positions are not found within ``default_api_timeout_ms``, or a broker
                rejects the request.
        """
        deadline = time.monotonic() + self.settings.default_api_timeout_ms / 1000
        while True:
            self._task.change_event.clear()
            self._raise_task_failure()
            if self._positions.errors:
                raise self._positions.errors.popleft()
            states = [self._positions.states[entry] for entry in partitions]
            unknown_partitions = [
                state for state in states if not state.has_offset and state.step is not PartitionStep.STUCK
            ]
            remaining_s = deadline - time.monotonic()
            if not unknown_partitions:
                return
            if remaining_s <= 0:
                first_state = unknown_partitions[0]
                topic = self._cluster.cluster.topics.get(first_state.partition.topic)
                if first_state.error is None and topic is not None and topic.error:
                    raise to_broker_error(topic.error, f"topic {topic.name}")
                names = ", ".join(str(state.partition) for state in unknown_partitions)
                timeout_s = f"default_api_timeout_ms={self.settings.default_api_timeout_ms}"
                raise first_state.error or NetworkError(f"the position of {names} was not found within {timeout_s}")
            await wait_for_event(self._task.change_event, remaining_s)

    async def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        pattern: str | None = None,
        on_assign: Listener | None = None,
        on_revoke: Listener | None = None,
    ) -> None:
        """Join the group ``group_id``.

        The members of the group share the partitions of the topics. The first read waits until the consumer has joined.

        Args:
            topics: topic names. A topic that does not exist is read at most ``metadata_max_age_ms`` after its creation.
            pattern: regular expression for whole topic names, instead of ``topics``. New topics are found within
                ``metadata_max_age_ms``.
            on_assign: function that is called with new partitions before their first record is returned. If
                ``on_assign`` raises an error, the next poll calls it again.
            on_revoke: function that is called with partitions after their last record was returned: when the group
                revokes them, when they are lost to other members, and in ``unsubscribe`` and ``close``.

        Raises:
            OptionError: the consumer has no ``group_id``, or neither or both of ``topics`` and ``pattern`` are given.
            NetworkError: no broker responds within ``default_api_timeout_ms``.
            BrokerError: a broker rejects the client.
        """
        self._raise_task_failure()
        if self.settings.group_id is None:
            raise OptionError("subscribe needs group_id; assign reads partitions without a group")
        if (topics is None) == (pattern is None):
            raise OptionError("subscribe requires either topics or a pattern")
        await self._check_reachable(self.settings.servers)
        await self.unsubscribe()
        compiled_pattern = None if pattern is None else re.compile(pattern)
        if compiled_pattern is not None:
            topics = [name for name in await self.topics() if compiled_pattern.fullmatch(name)]
        names = [topics] if isinstance(topics, str) else list(topics or ())
        self._listeners = (on_assign, on_revoke)
        self._machine.subscribe(names, compiled_pattern, time.monotonic())
        self._task.start()

    async def _check_reachable(self, partitions: Sized) -> None:
        """Check that a broker responds if there are partitions to read.

        Without this check, a read would wait silently.
        """
        if partitions and self._cluster.cluster.updated_at is None:
            await self._cluster.retry_step(lambda: self._cluster.refresh_metadata([]))

    async def unsubscribe(self) -> None:
        """Call ``on_revoke``, leave the group and stop reading."""
        self._cluster.context.check_context()
        await self._end_assignment(commit=True)

    async def _end_assignment(self, *, commit: bool) -> None:
        """Give up all partitions, and notify the caller and the group."""
        is_member = self._machine.member is not None
        self._machine.prepare_end()
        try:
            if not is_member and commit:
                await self._commit_before_revocation(self.assignment())
            while is_member and (callback := self._machine.next_callback()) is not None:
                await self._run_callback(callback, commit=commit)
        finally:
            self._count_iterated_records()
            self._iteration = None
            request = self._machine.end_membership()
            if request is not None:
                await self._task.leave(request)
            await self._report_commits()

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._machine.assignment

    async def _run_callback(self, callback: RebalanceCallback, *, commit: bool) -> None:
        """Call the caller's rebalance callback, after committing the positions of revoked partitions."""
        machine = self._machine
        machine.begin_callback(callback)
        try:
            if callback.kind is CallbackKind.REVOKE and commit:
                await self._commit_before_revocation(callback.partitions)
            listener = self._listeners[0 if callback.kind is CallbackKind.ASSIGN else 1]
            if listener is not None:
                sensor = self._cluster.metrics.get_sensors("coordinator-metrics")[_SENSOR_BY_CALLBACK[callback.kind]]
                start_s = time.monotonic()
                await self._call_listener(listener, list(callback.partitions))
                sensor.record((time.monotonic() - start_s) * 1000)
        except BaseException as error:
            if callback.kind is CallbackKind.ASSIGN or not isinstance(error, Exception):
                machine.abort_callback(callback)
            else:
                machine.end_callback(callback, time.monotonic())
            raise
        else:
            machine.end_callback(callback, time.monotonic())
        finally:
            self._task.wake()

    # --------------------------------------------------------------------------------------------------- positions

    def seek(self, partition: PartitionLike, offset: int) -> None:
        """Set the position of a partition.

        Args:
            partition: assigned partition.
            offset: offset of the next record to return.

        Raises:
            OptionError: the partition is not assigned, or the offset is negative.
        """
        state = self._find_state(partition)
        if offset < 0:
            raise OptionError(f"offset {offset} for {state.partition} is negative")
        state.move_position(PartitionStep.FETCH, offset)
        self._task.wake()

    async def seek_to_beginning(self, *partitions: PartitionLike) -> None:
        """Set positions to the log start offsets.

        Args:
            partitions: assigned partitions; without arguments, all assigned partitions.

        Raises:
            OptionError: a partition is not assigned.
        """
        await self._seek_to_timestamp(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: PartitionLike) -> None:
        """Set positions to the end offsets, as ``end_offsets`` returns them.

        Args:
            partitions: assigned partitions; without arguments, all assigned partitions.

        Raises:
            OptionError: a partition is not assigned.
        """
        await self._seek_to_timestamp(LATEST, partitions)

    async def _seek_to_timestamp(self, timestamp: int, partitions: Sequence[PartitionLike]) -> None:
        partition_list = [self._find_state(entry).partition for entry in partitions or self.assignment()]
        starts = await offsets.list_boundary_offsets(
            self._cluster, partition_list, timestamp, read_committed=self.settings.reads_committed
        )
        for partition, offset in starts.items():
            self.seek(partition, offset)

    def position(self, partition: PartitionLike) -> int:
        """Return the offset of the next record that the consumer returns.

        Args:
            partition: assigned partition.

        Raises:
            OptionError: the partition is not assigned.
            BrokerError: the partition has no position: no offset is committed, and ``auto_offset_reset`` is none.
        """
        state = self._find_state(partition)
        if state.position < 0:
            reason = f"the position of {state.partition} is not known yet"
            raise state.error or to_broker_error(ErrorCode.OFFSET_NOT_AVAILABLE, reason)
        return state.position

    def pause(self, *partitions: PartitionLike) -> None:
        """Return no records of these partitions until ``resume``; records that are already fetched are kept.

        Args:
            partitions: assigned partitions.

        Raises:
            OptionError: a partition is not assigned.
        """
        for state in [self._find_state(entry) for entry in partitions]:
            state.is_paused = True
            for entry in state.buffer:
                entry.interrupt()

    def resume(self, *partitions: PartitionLike) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: assigned partitions.

        Raises:
            OptionError: a partition is not assigned.
        """
        for state in [self._find_state(entry) for entry in partitions]:
            state.is_paused = False
        self._task.change_event.set()
        self._task.wake()

    def _find_state(self, partition: PartitionLike) -> PartitionState:
        """Return the state of an assigned partition. Raise an ``OptionError`` if the partition is not assigned."""
        self._cluster.context.check_context()
        topic_partition = to_partition(partition)
        state = self._machine.find_state(topic_partition)
        if state is None:
            raise OptionError(f"{topic_partition} is not assigned to this consumer")
        return state

    async def skip_gap(self, partition: PartitionLike, end: int) -> bool:
        """Move the position to ``end`` if the log has no records before it, for example because its tail was compacted.

        Args:
            partition: assigned partition.
            end: end offset, as ``end_offsets`` returns it.

        Returns:
            Whether the position is at or after ``end`` now.
        """
        topic_partition = self._find_state(partition).partition
        position = self.position(topic_partition)
        if position >= end:
            return True
        if not await is_range_empty(
            self._cluster, topic_partition, position, end, read_committed=self.settings.reads_committed
        ):
            return False
        if self.position(topic_partition) == position:  # no records arrived in the meantime
            self.seek(topic_partition, end)
        return True

    # ---------------------------------------------------------------------------------------------------- reading

    async def fetch(self, timeout_ms: int | None = 1_000) -> FetchedBatches | None:
        """Return the next batches of one partition as bytes.

        Args:
            timeout_ms: longest wait, in milliseconds; None waits without limit.

        Returns:
            The batches, or None if none arrive in time.

        Raises:
            OptionError: another task is reading from this consumer, or an interceptor has ``on_consume``.
            BrokerError: a partition cannot be read.
            UnsupportedFormatError: the next batch has a record format that is not in the setting `formats`; the
                position stays before this batch.
        """
        if self._interceptors is not None:
            self._interceptors.reject_raw_batches("fetch()", "use `poll` or `fetch_arrow`", "on_consume")
        with self._reject_concurrent_reads("fetch()"):
            return await self._fetch_batches(to_deadline(timeout_ms))

    async def _fetch_batches(self, deadline: float | None) -> FetchedBatches | None:
        next_buffer = await self._wait_for_buffer(deadline)
        if next_buffer is None:
            return None
        state, entry = next_buffer
        entry.select_formats(self.settings.formats)
        fetched_batches = entry.take_bytes()
        state.release_read_buffer()
        if fetched_batches is not None:
            self._count_returned_records(state, fetched_batches.record_count)
        self._task.wake()
        return fetched_batches

    @contextlib.contextmanager
    def _reject_concurrent_reads(self, method: str) -> Iterator[None]:
        """Reject reads of other tasks while this task reads, because each would take records that the other awaits.

        A cancelled task does not count: a synchronous consumer may poll again before its interrupted call has ended.
        """
        reader = self._reading_task
        if reader is not None and not reader.cancelling():
            caller = "its own callback" if reader is asyncio.current_task() else "a task while another task reads"
            reason = f"{method} of {self.settings.client} was called in {caller}"
            raise OptionError(f"{reason}; read from a consumer in one task, or create a consumer for each task")
        self._reading_task = task = asyncio.current_task()
        times = self._polls.begin()
        try:
            yield
        finally:
            self._polls.end(*times)
            if self._reading_task is task:
                self._reading_task = None

    async def _wait_for_buffer(self, deadline: float | None) -> tuple[PartitionState, BufferedBatches] | None:
        """Perform due work, wait for records and return their buffer.

        Return None if no records have arrived at the deadline.
        """
        while True:
            self._task.change_event.clear()
            await self._process_poll()
            if (next_buffer := self._next_buffer()) is not None:
                return next_buffer
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                await asyncio.sleep(0)  # lets the background task run if the caller never waits
                return None
            times = [time_s for time_s in (deadline, self._next_commit_time()) if time_s is not None]
            self._machine.is_waiting = True
            try:
                await wait_for_event(self._task.change_event, max(min(times) - now, 0.0) if times else None)
            finally:
                self._machine.is_waiting = False
                self._machine.record_progress(time.monotonic())

    async def _process_poll(self) -> None:
        """Process a poll: call due callbacks, raise the next error, and start a due commit."""
        self._raise_task_failure()
        if self._unreported_commits:
            await self._report_commits()
        if self._machine.process_poll(time.monotonic()):
            self._task.wake()
        while (callback := self._machine.next_callback()) is not None:
            await self._run_callback(callback, commit=True)
            self._raise_task_failure()
        if (error := self._machine.take_error()) is not None:
            raise error
        self._commit_if_due()

    def _raise_task_failure(self) -> None:
        self._cluster.context.check_context()
        if self._is_closed:
            raise NetworkError("this client was closed")
        if self._task.failure is not None:
            raise self._task.failure

    async def fetch_arrow(
        self,
        timeout_ms: int | None = 1_000,
        *,
        columns: Sequence[str] = ARROW_COLUMNS,
        max_bytes: int = 67_108_864,
    ) -> pa.Table:
        """Return the available records as a table.

        Args:
            timeout_ms: longest wait for the first records, in milliseconds; None waits without limit.
            columns: ``topic``, ``partition`` and columns of ``kafkaframes.read_records``, in output order.
            max_bytes: size of fetched batches after which no more are added, in bytes.

        Returns:
            A table; without rows if no records arrive in time, or if the position has passed control records or aborted
            transactions only, as with ``poll``. If batches decompress to more than
            ``kafkaframes.records.limits.current_budget()``, the next call returns the rest.

        Raises:
            OptionError: another task is reading from this consumer, a column does not exist, or an interceptor has
                ``on_consume`` but not ``on_consume_table``.
            BrokerError: a partition cannot be read.
            CorruptRecordError: a batch is damaged; the position stays before it.
        """
        if self._interceptors is not None:
            self._interceptors.require_table_hooks("fetch_arrow()", "on_consume")
        with self._reject_concurrent_reads("fetch_arrow()"):
            table = await self._fetch_arrow(to_deadline(timeout_ms), columns, max_bytes)
        if self._interceptors is None:
            return table
        return await self._call_interceptors(partial(self._interceptors.on_consume_table, table))

    async def _fetch_arrow(self, deadline: float | None, columns: Sequence[str], max_bytes: int) -> pa.Table:
        record_schema, schema = resolve_columns(tuple(columns))
        record_columns = record_schema if "offset" in record_schema else ("offset", *record_schema)
        rows: list[pa.RecordBatch] = []
        size = held_bytes = 0
        next_buffer = await self._wait_for_buffer(deadline)
        while next_buffer is not None:
            state, entry = next_buffer
            first = len(rows)
            try:
                entry.select_formats(self.settings.formats)
                entry.undo_decoding()
                size += entry.size_bytes
                for batch in entry.decode_columns(
                    record_columns, current_budget() - held_bytes, **self._reading_options
                ):
                    rows.append(select_output_columns(batch, state.partition, columns, schema))
            except KafkaframesError:
                if not any(batch.num_rows for batch in rows):
                    raise
                break  # the next call raises this error
            finally:
                held_bytes += entry.decoded_bytes
                state.release_read_buffer()
                self._count_returned_records(state, sum(batch.num_rows for batch in rows[first:]))
                self._task.wake()
            if size >= max_bytes or held_bytes >= current_budget():
                break
            next_buffer = self._next_buffer()
        return pa.Table.from_batches(rows, schema=schema)

    async def poll(self, timeout_ms: int | None = 1_000, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return records as Python values; ``fetch_arrow`` is faster for large amounts of data.

        Args:
            timeout_ms: longest wait for a record, in milliseconds; None waits without limit.
            max_records: largest number of records; None uses the setting ``max_poll_records``.

        Returns:
            Records in offset order within each partition; an empty list if none arrive in time, or if the position has
            passed control records or aborted transactions only, as with Java's poll (KAFKA-12980).

        Raises:
            OptionError: another task is reading from this consumer.
            BrokerError: a partition cannot be read, or the coordinator refuses the membership.
            CorruptRecordError: a batch is damaged; its partition's position stays before the batch.
        """
        max_count = self.settings.max_poll_records if max_records is None else max_records
        consumed_records: list[ConsumerRecord] = []
        with self._reject_concurrent_reads("poll()"):
            records = await self._wait_for_records(to_deadline(timeout_ms))
            while records is not None:
                consumed_records += records.take_records(max_count - len(consumed_records))
                self._count_taken_records(records)
                records = self._next_records() if len(consumed_records) < max_count else None
        if self._interceptors is None or not consumed_records:
            return consumed_records
        result: list[ConsumerRecord] = await self._call_interceptors(
            partial(self._interceptors.on_consume, consumed_records)
        )
        return result

    async def _wait_for_records(self, deadline: float | None) -> RecordIterator | None:
        """Wait for batches, decode them until one has records, and return these records.

        Returns:
            The records; None if no batches arrive before the deadline, or if the position has passed control records or
            aborted transactions only.

        Raises:
            CorruptRecordError: a batch is damaged. The next call returns the records before the damage.
        """
        next_buffer = await self._wait_for_buffer(deadline)
        while next_buffer is not None:
            state, entry = next_buffer
            if (records := entry.next_records) is not None:
                return records
            entry.select_formats(self.settings.formats)
            try:
                entry.decode_records(current_budget(), **self._reading_options)
            finally:
                state.release_read_buffer()
                self._task.wake()
            next_buffer = self._next_buffer()
        return None

    @property
    def _reading_options(self) -> dict[str, Any]:
        return {"verify_crc": self.settings.check_crcs, "memory": self._memory}

    def _next_records(self) -> RecordIterator | None:
        """Return the decoded records to return next; None if batches must be decoded or fetched."""
        next_buffer = self._next_buffer()
        return None if next_buffer is None else next_buffer[1].next_records

    def _next_buffer(self) -> tuple[PartitionState, BufferedBatches] | None:
        """Return the next fetched batches to read, with their partition's state; None if no batches are buffered."""
        next_buffer = self._positions.next_buffer()
        if next_buffer is None:
            return None
        state, entry = next_buffer
        assert isinstance(entry, BufferedBatches)
        return state, entry

    # ---------------------------------------------------------------------------------------------------- iterating

    async def _next_iterator(self) -> RecordIterator:
        """Wait for records and return their iterator, which ends early if the consumer must process a poll."""
        self._count_iterated_records()
        with self._reject_concurrent_reads("iteration"):
            while (records := await self._wait_for_records(None)) is None:
                pass  # the position has passed control records, and an iteration waits for the next record
        records.resume()
        self._iteration = records, records.unread_count
        return records

    def _record_iteration(self, now: float) -> float | None:
        """Record that an iteration has taken records, which counts as polling, and return when to check again."""
        if self._iteration is None:
            return None
        records, unread_count = self._iteration
        if records.unread_count != unread_count:
            self._iteration = records, records.unread_count
            self._machine.record_progress(now)
        next_check = self._next_commit_time()
        if next_check is not None and next_check <= now:
            records.interrupt()
            return None
        return next_check

    def _count_iterated_records(self) -> None:
        """Count the records that the current iteration has taken since the last call."""
        if self._iteration is not None:
            self._count_taken_records(self._iteration[0])

    def _count_taken_records(self, records: RecordIterator) -> None:
        count = records.count_newly_taken()
        if count:
            self._count_returned_records(self._positions.states.get(records.partition), count)

    def _interrupt_iteration(self) -> None:
        """End an iteration before its next record, so that the consumer processes a poll."""
        if self._iteration is not None:
            self._iteration[0].interrupt()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            records = await self._next_iterator()
            while not (records.is_empty or records.is_interrupted):
                for record in islice(records, self.settings.max_poll_records):
                    if self._interceptors is None:
                        yield record
                        continue
                    for result in self._interceptors.on_consume([record]):
                        yield result
                await asyncio.sleep(0)  # lets heartbeats and other tasks run

    # --------------------------------------------------------------------------------------------------- committing

    def group_metadata(self) -> GroupMember:
        """Return the identity of this consumer for ``Producer.send_offsets_to_transaction`` (KIP-447).

        Raises:
            OptionError: the consumer has no ``group_id``.
        """
        if self.settings.group_id is None:
            raise OptionError("committed offsets need group_id")
        member = self._machine.member
        return GroupMember(self.settings.group_id) if member is None else member.identity

    async def commit(self, offsets: PartitionMapping[CommittedOffset | int] | None = None) -> None:
        """Commit offsets for the group.

        Args:
            offsets: for each partition, the offset of the next record to read, or a ``CommittedOffset``; None commits
                the positions of all assigned partitions.

        Raises:
            OptionError: the consumer has no ``group_id``.
            BrokerError: the coordinator refuses, or the consumer has subscribed and is not a member of its group: it
                was removed (UNKNOWN_MEMBER_ID), and other members may have continued with its partitions.
        """
        member = self.group_metadata()
        if self._machine.member is not None and not self._machine.member.is_member:
            reason = f"the consumer is not a member of group {member.group_id}"
            raise to_broker_error(ErrorCode.UNKNOWN_MEMBER_ID, reason)
        offsets_to_commit: Mapping[TopicPartition, CommittedOffset | int]
        offsets_to_commit = (
            self._get_positions_to_commit(self.assignment())
            if offsets is None
            else check_offsets(to_partition_mapping(offsets))
        )
        await cancel_tasks(self._auto_commit)  # a background commit would write older offsets later
        with measure_ns(self._cluster.metrics.client["commit-sync"]):
            await self._commit_offsets(offsets_to_commit, self.settings.default_api_timeout_ms)
        self._committed_at = time.monotonic()
        await self._report_commits()

    def _get_positions_to_commit(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        """Return the positions of the given partitions that have one, as committed offsets."""
        states = (self._machine.find_state(entry) for entry in partitions)
        return {
            state.partition: CommittedOffset(*state.interrupt_reading())
            for state in states
            if state is not None and state.has_offset
        }

    async def _commit_offsets(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset | int],
        timeout_ms: int,
        *,
        skip_unknown_topics: bool = False,
    ) -> None:
        """Commit offsets under the member's identity.

        If the member's epoch has changed, repeat the commit with the new epoch (KIP-848).
        """
        start_s = time.monotonic()
        deadline = start_s + timeout_ms / 1000
        while True:
            member, remaining_ms = self.group_metadata(), max(int((deadline - time.monotonic()) * 1000), 1)
            try:
                await group_offsets.commit_offsets(
                    self._cluster,
                    member,
                    offsets,
                    timeout_ms=remaining_ms,
                    skip_unknown_topics=skip_unknown_topics,
                    topic_ids=self._get_known_topic_ids(offsets),
                )
                commits = self._cluster.metrics.get_sensors("coordinator-metrics")["commit"]
                commits.record((time.monotonic() - start_s) * 1000)
                if self._interceptors is not None and offsets:
                    self._unreported_commits.append(
                        {entry: to_committed_offset(value) for entry, value in offsets.items()}
                    )
                return
            except BrokerError as error:
                self._machine.process_commit_error(error, time.monotonic())
                self._task.wake()
                is_stale = error.code == ErrorCode.STALE_MEMBER_EPOCH
                if not is_stale or not await self._wait_for_new_identity(member, deadline):
                    raise

    async def _report_commits(self) -> None:
        """Call ``on_commit`` of interceptors for the commits that have succeeded since the last call."""
        while self._unreported_commits and self._interceptors is not None:
            committed_offsets = self._unreported_commits.popleft()
            await self._call_interceptors(partial(self._interceptors.on_commit, committed_offsets))

    def _get_known_topic_ids(self, offsets: Iterable[TopicPartition]) -> dict[str, UUID]:
        """Return the topic ids, as far as known, of the partitions in ``offsets``."""
        states = (self._machine.find_state(entry) for entry in offsets)
        return {state.partition.topic: state.topic_id for state in states if state is not None and state.topic_id.int}

    async def _wait_for_new_identity(self, member: GroupMember, deadline: float) -> bool:
        """Wait for the heartbeat response with the member's epoch. Return whether the consumer is still a member."""
        while self.group_metadata() == member and time.monotonic() < deadline:
            self._task.change_event.clear()
            await wait_for_event(self._task.change_event, deadline - time.monotonic())
        current_member = self._machine.member
        return current_member is not None and current_member.is_member and current_member.identity != member

    async def _commit_before_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """With automatic commits, try once to commit positions before partitions are given up, as Java does."""
        offsets = self._get_positions_to_commit(partitions) if self._commits_by_itself else {}
        member = self._machine.member
        if not offsets or (member is not None and not member.is_member):
            return
        await cancel_tasks(self._auto_commit)
        limit_ms = min(self.settings.default_api_timeout_ms, self.settings.max_poll_interval_ms // 2)
        try:
            await self._commit_offsets(offsets, limit_ms, skip_unknown_topics=True)
        except KafkaframesError as error:
            _LOG.warning("offsets were not committed before their partitions were given up: %s", error)

    async def committed(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets of this consumer's group.

        While an open transaction holds offsets of these partitions, the call waits for its end (KIP-447).

        Args:
            partitions: partitions of any topics, whether assigned or not.

        Returns:
            The committed offset of each partition that has one.

        Raises:
            BrokerError: the group may not be read, or (UNSTABLE_OFFSET_COMMIT) a transaction stayed open for
                ``default_api_timeout_ms``.
            OptionError: the consumer has no ``group_id``.
        """
        group_id, partition_list = self.group_metadata().group_id, to_partitions(partitions)
        with measure_ns(self._cluster.metrics.client["committed"]):
            return await group_offsets.fetch_committed_offsets(self._cluster, group_id, partition_list, stable=True)

    def _next_commit_time(self) -> float | None:
        """Return the time of the next automatic commit."""
        is_busy = self._auto_commit is not None and not self._auto_commit.done()
        if not self._commits_by_itself or is_busy or not self._machine.owns_partitions:
            return None
        return self._committed_at + self.settings.auto_commit_interval_ms / 1000

    def _commit_if_due(self) -> None:
        """Start to commit the positions before this poll, if an automatic commit is due."""
        commit_time = self._next_commit_time()
        if commit_time is None or commit_time > (now := time.monotonic()):
            return
        member = self._machine.member
        if member is not None and not member.is_member:
            return
        self._committed_at = now
        offsets = self._get_positions_to_commit(self._machine.owned_partitions)
        if offsets:
            self._auto_commit = start_background_task(self._commit_in_background(offsets))

    async def _commit_in_background(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        try:
            await self._commit_offsets(offsets, self.settings.default_api_timeout_ms)
        except BrokerError as error:
            is_passing = (
                error.code in REJOIN_ERRORS or error.code == ErrorCode.STALE_MEMBER_EPOCH or is_retriable(error)
            )
            if not is_passing:
                self._machine.queue_error(error)
                self._task.change_event.set()
                return
            _LOG.warning("offsets were not committed; the next attempt is at the next interval: %s", error)
        except NetworkError as error:
            _LOG.warning("offsets were not committed; the next attempt is at the next interval: %s", error)


def _compute_lead(state: PartitionState) -> int | None:
    """Return the distance of a partition's position from the log start offset; None if either is unknown."""
    start, position = state.log_start_offset, state.position
    return None if start < 0 or position < 0 else max(position - start, 0)


def _get_replica(state: PartitionState) -> int | None:
    return state.replica if state.replica >= 0 else None


async def _call_here(work: Callable[[], Any]) -> Any:
    return work()


async def _call_listener(listener: Listener, partitions: Collection[TopicPartition]) -> None:
    answer = listener(partitions)
    if inspect.isawaitable(answer):
        await answer
