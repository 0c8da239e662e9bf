"""Sends a producer's batches to the partition leaders, with several Produce requests in flight.

Each request has at most one batch of a partition. ``sequencing.Sequencer`` decides which batches may be sent, and what
a response or a lost connection means. This module has the tasks: a loop that writes requests, one task for each request
that waits for its response, and tasks that open connections, refresh metadata and renew the producer id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Final

from kafkaframes.client.accumulator import Accumulator
from kafkaframes.client.batches import Batch, PartResult, ProducerIdentity, reset_base_offset
from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.loop import cancel_tasks, start_background_task, wait_for_event
from kafkaframes.client.metadata import Node, TopicPartition
from kafkaframes.client.metrics import measure_ns
from kafkaframes.client.network import Connection
from kafkaframes.client.rejection_log import RejectionLog
from kafkaframes.client.response_rows import require_one_row
from kafkaframes.client.sequencing import FinishedBatch, Sequencer
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.client.size_limits import SizeLimits
from kafkaframes.errors import LEADER_MOVED_CODES, ErrorCode, KafkaframesError, NetworkError, to_broker_error
from kafkaframes.protocol.addresses import format_address
from kafkaframes.protocol.api_keys import FETCH, PRODUCE
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.records.divide import split_batch
from kafkaframes.wire.primitives import NIL_UUID

_FORMAT_2_FETCH_VERSION: Final = 4  # the first version of Fetch that carries record format 2
_TOPIC_ID_VERSION: Final = 13  # first version of Produce with topic ids instead of names
_MAX_EXPLICIT_PARTITIONS_VERSION: Final = 11  # last version of Produce that requires AddPartitionsToTxn (KIP-890)
# First version with which brokers add partitions to transactions implicitly (KIP-890).
_IMPLICIT_PARTITIONS_VERSION: Final = 12
_MAX_PRODUCE_VERSION_BY_FORMAT: Final = {0: 1, 1: 2}  # later versions of Produce carry format 2 only
MAX_RECORD_SET_VERSION: Final = 2  # the last version of Produce that carries any number of batches, of any format
# Later versions of Produce require the transactional id for batches of a transaction (KIP-890).
_MAX_PRODUCE_VERSION_WITHOUT_TRANSACTIONAL_ID: Final = 11
_ACKS_ALL: Final = -1
_TOO_LARGE_ERRORS: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Sender:
    """Sends batches on an event loop, from ``start`` to ``close``."""

    def __init__(self, cluster: ClusterClient, settings: ProducerSettings, accumulator: Accumulator) -> None:
        self._cluster = cluster
        self._settings = settings
        self.sequencer = Sequencer(
            max_in_flight=settings.max_in_flight_requests_per_connection,
            retries=settings.retries,
            delivery_timeout_s=settings.delivery_timeout_ms / 1000,
            backoff_s=cluster.backoff_s,
        )
        self._rejections = RejectionLog(settings.client_id)
        self._wake = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()
        self._background_tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._in_flight_counts: dict[int, int] = {}  # number of in-flight requests by node id
        self._loop_task: asyncio.Task[None] | None = None
        self._idle_event = asyncio.Event()
        self._idle_event.set()
        self.record_format = 2
        self.broker_adds_partitions = False  # whether transaction version 2 is in use (KIP-890)
        self.renew: Callable[[], Awaitable[None]] | None = None  # gets a new producer id and calls set_producer
        self.limits = SizeLimits(settings.metadata_max_age_ms / 1000)
        self._accumulator = accumulator
        accumulator.get_max_batch_bytes = self.limits.get_max_batch_bytes
        accumulator.get_queue_length = self.sequencer.get_queue_length
        self._availability_timeout_s = settings.partitioner_availability_timeout_ms / 1000
        # By node id: start of the time in which the node has accepted no batch.
        self._stalled_since: dict[int, float] = {}
        if self._availability_timeout_s:
            accumulator.is_stalled = self._is_stalled
        self._failure: Exception | None = None
        self._space = asyncio.Event()
        self._metrics = cluster.metrics
        buffer_bytes = settings.buffer_memory
        self._metrics.add_gauge("buffer-total-bytes", lambda: buffer_bytes)
        self._waiting_count = 0  # calls that wait for memory
        self._metrics.add_gauge("waiting-threads", lambda: self._waiting_count)
        self._metrics.add_gauge("buffer-available-bytes", lambda: max(buffer_bytes - self._count_used_bytes(), 0))

    def start(self) -> None:
        """Start the loop."""
        self._loop_task = start_background_task(self._run_loop())

    async def close(self) -> None:
        """Stop. Batches that were not sent fail with ``NetworkError``."""
        self.fail_all_batches(NetworkError("the producer was closed before the record was sent"))
        await cancel_tasks(self._loop_task, *self._background_tasks.values(), *self._answers)

    def has_space(self, size: int, *, is_in_callback: bool = False) -> bool:
        """Return whether ``size`` bytes fit into ``buffer_memory``. Any size fits into an empty buffer.

        Args:
            size: number of bytes.
            is_in_callback: whether an ``on_delivery`` needs the memory. The callback does not wait for the memory of
                other callbacks.
        """
        used_bytes = self._count_used_bytes() - (self._accumulator.callback_bytes if is_in_callback else 0)
        return not used_bytes or used_bytes + size <= self._settings.buffer_memory

    def _count_used_bytes(self) -> int:
        return self.sequencer.open_bytes + self._accumulator.size_bytes + self._accumulator.callback_bytes

    async def wait_for_space(self, size: int, *, is_in_callback: bool = False) -> None:
        """Wait until ``size`` bytes fit into ``buffer_memory``."""
        self._waiting_count += 1
        try:
            with measure_ns(self._metrics.client["buffer-wait"]):
                while not self.has_space(size, is_in_callback=is_in_callback):
                    self._space.clear()
                    await self._space.wait()
        finally:
            self._waiting_count -= 1

    def release_space(self) -> None:
        """Wake the tasks that wait for memory."""
        self._space.set()

    def enqueue(self, batch: Batch) -> None:
        """Queue a batch."""
        self._idle_event.clear()
        self.sequencer.enqueue(batch)
        if self._failure is not None:
            self.sequencer.fail_waiting_batches(self._failure)
        self._deliver_results()
        self._wake.set()

    def set_producer(self, producer: ProducerIdentity) -> None:
        """Use a producer id and epoch for the following batches."""
        self.sequencer.set_producer(producer)
        self._wake.set()

    async def flush(self) -> None:
        """Wait until all queued batches have results (without acks, until they are written to the sockets)."""
        await self._idle_event.wait()
        if self._settings.required_acks == 0:
            await self._cluster.drain_buffers()

    async def wait_for_answers(self) -> None:
        """Wait until no request is in flight, including requests with expired batches."""
        if self._answers:
            await asyncio.wait(self._answers)

    def fail_waiting_batches(self, error: Exception) -> None:
        """Fail all waiting batches that are not in flight."""
        self.sequencer.fail_waiting_batches(error)
        self._deliver_results()

    def fail_all_batches(self, error: Exception) -> None:
        """Fail all batches, including those that are queued later."""
        self._failure = self._failure or error
        self.sequencer.fail_all_batches(self._failure)
        self._deliver_results()

    # ------------------------------------------------------------------------------------------------------ sending

    async def _run_loop(self) -> None:
        """Send until closed. An error that ends this task fails all batches, including those that are queued later."""
        try:
            while True:
                self._wake.clear()
                delay_s = self._send_ready()
                await wait_for_event(self._wake, delay_s)
        except BaseException as error:
            reason = error if isinstance(error, Exception) else NetworkError("the sender task was cancelled")
            self.fail_all_batches(reason)
            if not isinstance(error, Exception):
                raise

    def _send_ready(self) -> float | None:
        """Send the batches that are ready. Return the seconds until the next check; None to wait for an event."""
        now = time.monotonic()
        self.sequencer.expire_batches(now)
        self._deliver_results()
        if self.sequencer.needs_new_id:
            self._run_in_background("producer id", self._renew_producer_id)
        leaderless: list[TopicPartition] = []
        for leader, partitions in self._cluster.cluster.group_by_leader(self.sequencer.list_ready_partitions(now)):
            if leader is None:
                leaderless = partitions
                continue
            connection = self._cluster.find_open_connection(leader)
            if connection is None or not connection.is_writable:
                self._run_in_background(leader.node_id, partial(self._connect_to_leader, leader))
            else:
                self._fill_connection(leader, connection, partitions)
        if self._availability_timeout_s:
            self._record_stalled_nodes(now)
        if leaderless:
            self._run_in_background("metadata", partial(self._look_up_leaders, leaderless))
        next_time = self.sequencer.next_time(now)
        return None if next_time is None else max(next_time - time.monotonic(), 0.0)

    def _record_stalled_nodes(self, now: float) -> None:
        """Record the leaders that have waiting batches. ``_send_request`` removes a leader that accepts a batch."""
        waiting = self.sequencer.list_waiting_partitions()
        busy = {leader.node_id for leader, _ in self._cluster.cluster.group_by_leader(waiting) if leader is not None}
        self._stalled_since = {node_id: self._stalled_since.get(node_id, now) for node_id in busy}

    def _is_stalled(self, node_id: int) -> bool:
        """Return whether a leader has accepted no batch for ``partitioner_availability_timeout_ms``. Thread-safe."""
        stalled_since = self._stalled_since.get(node_id)
        return stalled_since is not None and time.monotonic() - stalled_since > self._availability_timeout_s

    def _fill_connection(self, leader: Node, connection: Connection, partitions: list[TopicPartition]) -> None:
        """Write requests on a connection, up to the limit of in-flight requests."""
        while self._in_flight_counts.get(leader.node_id, 0) < self._settings.max_in_flight_requests_per_connection:
            if not connection.is_writable or not (batches := self._take_batches(partitions, connection)):
                return
            self._send_request(leader, connection, batches)

    def _take_batches(self, partitions: list[TopicPartition], connection: Connection) -> list[Batch]:
        """Take one batch of each partition that has one ready, up to the largest request size."""
        batches: list[Batch] = []
        size, now = 0, time.monotonic()
        for partition in partitions:
            following = self._next_fitting_batch(partition, now)
            size += 0 if following is None else len(following.data)
            if batches and size > self._settings.max_request_size:
                break
            batch = self.sequencer.take_batch(partition, connection, now)
            if batch is not None:
                batch.write_assigned_stamp()
                batches.append(batch)
        return batches

    def _next_fitting_batch(self, partition: TopicPartition, now: float) -> Batch | None:
        """Return the next batch. Divide the batch first if it is larger than the topic's leaders accept."""
        batch = self.sequencer.next_batch(partition)
        limit = self.limits.get_max_batch_bytes(partition.topic, now)
        if batch is None or limit is None or len(batch.data) <= limit or batch.in_doubt:
            return batch  # a batch in doubt is sent unchanged: its leader may recognize it by its sequences
        return self.sequencer.next_batch(partition) if self._split_batch(batch, limit) else batch

    def _split_batch(self, batch: Batch, part_bytes: int) -> bool:
        """Replace a batch with smaller ones. Return False if that is not possible."""
        if not self.sequencer.can_split(batch):
            return False
        try:
            parts = split_batch(batch.data, part_bytes, level=self._settings.compression_level)
        except KafkaframesError:  # the caller's bytes are damaged: the broker's error becomes their result
            return False
        if len(parts) < 2 or sum(count for _, count in parts) != batch.count:  # offsets without records
            return False
        self._metrics.client["batch-split"].record(1)
        delivery = batch.delivery
        delivery.is_split = True
        is_new = self.record_format == 2
        self.sequencer.split_batch(
            batch,
            [
                Batch(batch.partition, reset_base_offset(data) if is_new else data, count, batch.created_at, delivery)
                for data, count in parts
            ],
        )
        return True

    def _send_request(self, leader: Node, connection: Connection, batches: list[Batch]) -> None:
        """Write one request and start a task that waits for its response."""
        try:
            body, version, names = self._create_request(connection, batches)
            answer = connection.post(body, version, expects_response=self._settings.required_acks != 0)
        except Exception as error:  # nothing was written, and a retry would fail as well
            for batch in batches:
                self.sequencer.fail_batch(batch, error, was_written=False)
            self._deliver_results()
            return
        self._count_sent_batches(batches)
        if answer is None:
            for batch in batches:
                self.sequencer.process_acknowledgement(batch, -1, -1)
            self._deliver_results()
            return
        self._stalled_since.pop(leader.node_id, None)
        self._in_flight_counts[leader.node_id] = self._in_flight_counts.get(leader.node_id, 0) + 1
        start_background_task(self._wait_for_response(leader, batches, answer, names), self._answers)

    def _count_sent_batches(self, batches: list[Batch]) -> None:
        """Count a request and its batches."""
        now, client = time.monotonic(), self._metrics.client
        client["request-records"].record(sum(batch.count for batch in batches), now)
        for batch in batches:
            topic = self._metrics.get_sensors("topic-metrics", topic=batch.partition.topic)
            for sensors in (client, topic):
                sensors["record-send"].record(batch.count, now)
                sensors["batch"].record(len(batch.data), now)
                if batch.attempts:
                    sensors["record-retry"].record(batch.count, now)
            if not batch.attempts:
                client["queue-time"].record((now - batch.created_at) * 1000, now)

    def _count_failed_batch(self, batch: Batch) -> None:
        """Count the records of a batch that failed."""
        topic = self._metrics.get_sensors("topic-metrics", topic=batch.partition.topic)
        for sensors in (self._metrics.client, topic):
            sensors["record-error"].record(batch.count)

    def _create_request(self, connection: Connection, batches: list[Batch]) -> tuple[Any, int, dict[Any, str]]:
        """Return a request, its version, and topic names by id if the response has only topic ids."""
        settings = self._settings
        topics: dict[str, list[Batch]] = {}
        for batch in batches:
            topics.setdefault(batch.partition.topic, []).append(batch)
        ids = {name: self._cluster.cluster.topic_id(name) for name in topics}
        max_version = _MAX_PRODUCE_VERSION_BY_FORMAT.get(
            self.record_format, _TOPIC_ID_VERSION - 1 if NIL_UUID in ids.values() else None
        )
        body_class = settings.message_class("ProduceRequest")
        body = body_class(acks=settings.required_acks, timeout_ms=settings.request_timeout_ms)
        min_version = 0
        if self.sequencer.transactional:
            body.transactional_id = settings.transactional_id
            if self.broker_adds_partitions:
                min_version = _IMPLICIT_PARTITIONS_VERSION
            else:
                max_version = _MAX_EXPLICIT_PARTITIONS_VERSION
        version = connection.select_version(body, max_version=max_version, min_version=min_version)
        body.topic_data = [
            body_class.TopicProduceData(
                **({"topic_id": ids[name]} if version >= _TOPIC_ID_VERSION else {"name": name}),
                partition_data=[
                    body_class.PartitionProduceData(index=batch.partition.partition, records=batch.data)
                    for batch in several
                ],
            )
            for name, several in topics.items()
        ]
        return body, version, {ids[name]: name for name in topics} if version >= _TOPIC_ID_VERSION else {}

    async def _wait_for_response(
        self, leader: Node, batches: list[Batch], answer: asyncio.Future[Any], names: dict[Any, str]
    ) -> None:
        """Wait for the response to a request and process it."""
        start_s = time.monotonic()
        try:
            response = (await answer).body
            self._metrics.client["produce"].record((time.monotonic() - start_s) * 1000)
            self._metrics.client["throttle"].record(response.throttle_time_ms)
            answers = {
                TopicPartition(names[topic.topic_id] if names else topic.name, partition.index): partition
                for topic in response.responses
                for partition in topic.partition_responses
            }
            for batch in batches:
                self._process_response(leader, batch, answers.get(batch.partition))
        except NetworkError as error:
            for batch in batches:
                self._cluster.cluster.topics.pop(batch.partition.topic, None)
                self._process_loss(leader, batch, error, time.monotonic())
        except Exception as error:  # a bug in this package: a retry would fail as well
            for batch in batches:
                self.sequencer.fail_batch(batch, error, was_written=True)
        finally:
            self._in_flight_counts[leader.node_id] -= 1
            self._deliver_results()
            self._wake.set()

    def _process_loss(self, leader: Node, batch: Batch, error: NetworkError, now: float) -> None:
        self._rejections.add((leader.node_id, "lost"), error, f"node {leader.node_id}", now)
        self.sequencer.process_loss(batch, error, now)

    def _process_response(self, leader: Node, batch: Batch, answer: Any) -> None:
        now = time.monotonic()
        if answer is None:
            self._process_loss(
                leader, batch, NetworkError(f"the response has no row for partition {batch.partition}"), now
            )
        elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.limits.record_success(batch.partition.topic, len(batch.data))
            self.sequencer.process_acknowledgement(batch, answer.base_offset, answer.log_append_time_ms)
        elif answer.error_code in _TOO_LARGE_ERRORS and self._split_batch(
            batch, self.limits.record_rejection(batch.partition.topic, len(batch.data), now)
        ):
            pass
        else:
            if answer.error_code in LEADER_MOVED_CODES:
                self._cluster.cluster.topics.pop(batch.partition.topic, None)
            error = to_broker_error(answer.error_code, f"produce to {batch.partition}", answer.error_message)
            if is_retriable(error):
                broker = f"node {leader.node_id} at {format_address(leader.host, leader.port)}"
                self._rejections.add((leader.node_id, batch.partition.topic, answer.error_code), error, broker, now)
            self.sequencer.process_error(batch, error, now)

    def _deliver_results(self) -> None:
        """Deliver results to the callers that wait for them."""
        while self.sequencer.finished_batches:
            finished_batch = self.sequencer.finished_batches.popleft()
            if finished_batch.error is not None:
                self._count_failed_batch(finished_batch.batch)
            self._space.set()
            _set_result(finished_batch)
        self._accumulator.built_bytes = self.sequencer.open_bytes
        if not self.sequencer.open_batches:
            self._idle_event.set()

    # -------------------------------------------------------------------------------------------- background tasks

    def _run_in_background(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the background, at most one for each key.

        The sender loop continues after the coroutine has ended.
        """
        if key in self._background_tasks:
            return

        def handle_end(task: asyncio.Task[None]) -> None:
            del self._background_tasks[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                self.fail_all_batches(error if isinstance(error, Exception) else NetworkError("the producer has ended"))
            self._wake.set()

        task = self._background_tasks[key] = start_background_task(work())
        task.add_done_callback(handle_end)

    async def _connect_to_leader(self, leader: Node) -> None:
        """Connect to a leader. If the connection fails, the batches of the leader's partitions wait or fail."""
        try:
            await (await self._cluster.get_connection(leader)).wait_until_writable()
        except KafkaframesError as error:
            now, retriable = time.monotonic(), is_retriable(error)
            for node, partitions in list(
                self._cluster.cluster.group_by_leader(self.sequencer.list_ready_partitions(now))
            ):
                for partition in partitions if node == leader else ():
                    self.sequencer.process_unreachable_leader(partition, error, now, retriable=retriable)
                    self._cluster.cluster.topics.pop(partition.topic, None)
            self._deliver_results()

    async def _look_up_leaders(self, partitions: list[TopicPartition]) -> None:
        """Look up the leaders of partitions. The batches of a topic that does not exist fail."""
        for topic in {partition.topic for partition in partitions}:
            try:
                await self._cluster.refresh_metadata([topic], create=True)
            except KafkaframesError as error:
                if not is_retriable(error):
                    self.sequencer.fail_waiting_batches(error, topic=topic)
                    self._deliver_results()
        if any(self._cluster.cluster.leader(partition) is None for partition in partitions):
            await asyncio.sleep(self._cluster.backoff_s(0))

    async def _renew_producer_id(self) -> None:
        """Get a new producer id, because the epoch has reached its maximum."""
        try:
            if self.renew is not None:
                await self.renew()
        except KafkaframesError as error:
            self.fail_waiting_batches(error)
            await asyncio.sleep(self._cluster.backoff_s(0))


def _set_result(finished_batch: FinishedBatch) -> None:
    batch = finished_batch.batch
    part = PartResult(
        batch.first, batch.count, finished_batch.base_offset, finished_batch.append_time, finished_batch.error
    )
    batch.delivery.add(part)


async def accepts_record_sets(cluster: ClusterClient, partition: TopicPartition) -> bool:
    """Return whether a partition's leader accepts several batches in one request, of any format (Produce 0-2)."""
    connection = await cluster.get_connection(await cluster.find_leader(partition))
    return connection.ranges.get(PRODUCE, Versions.NONE).contains(MAX_RECORD_SET_VERSION) and accepts_format(
        connection, 1
    )


def accepts_format(connection: Connection, record_format: int) -> bool:
    """Return whether a broker accepts record format 0 or 1.

    Brokers of Kafka 4.0 and later do not accept these formats, although they advertise Produce from version 0 on, for
    old clients that could not start otherwise (KIP-896). The lowest Fetch version of these brokers is 4.
    """
    produce, fetch = (connection.ranges.get(key, Versions.NONE) for key in (PRODUCE, FETCH))
    return produce.lowest <= _MAX_PRODUCE_VERSION_BY_FORMAT[record_format] and fetch.lowest < _FORMAT_2_FETCH_VERSION


async def produce_raw(
    cluster: ClusterClient, partition: TopicPartition, records: bytes | memoryview, *, as_set: bool = False
) -> int:
    """Write batches unchanged. Return the base offset of the broker's response.

    Args:
        cluster: client of the cluster.
        partition: partition to write to.
        records: one batch of format 2, or with ``as_set`` any number of batches of any format.
        as_set: whether to use a version of Produce that carries sets (``accepts_record_sets``).

    Raises:
        BrokerError: the broker rejects the batches. If the leader has moved, the next call looks up the new leader.
        NetworkError: no response arrived.
    """
    leader = await cluster.find_leader(partition)
    connection = await cluster.get_connection(leader)
    cls = cluster.settings.message_class("ProduceRequest")
    body = cls(acks=_ACKS_ALL, timeout_ms=cluster.settings.request_timeout_ms)
    version = connection.select_version(
        body, max_version=MAX_RECORD_SET_VERSION if as_set else _MAX_PRODUCE_VERSION_WITHOUT_TRANSACTIONAL_ID
    )
    data = cls.PartitionProduceData(index=partition.partition, records=bytes(records))
    body.topic_data = [cls.TopicProduceData(name=partition.topic, partition_data=[data])]
    try:
        response = await connection.request(body, version=version)
    except NetworkError:
        cluster.cluster.topics.pop(partition.topic, None)
        raise
    rows = [row for topic in response.responses for row in topic.partition_responses]
    answer = require_one_row(rows, f"produce to {partition}")
    if answer.error_code:
        if answer.error_code in LEADER_MOVED_CODES:
            cluster.cluster.topics.pop(partition.topic, None)
        raise to_broker_error(answer.error_code, f"produce to {partition}", answer.error_message)
    return int(answer.base_offset)
