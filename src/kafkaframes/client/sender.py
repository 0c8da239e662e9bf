"""Sends a producer's batches: in order per partition, several requests under way, retried as Kafka's producer does.

``Queue`` is a partition's batches, pure: what may go now, what an answer means. ``Sender`` is the task that makes
Produce requests of them, one batch a partition and request, to whoever leads. With a producer id each batch has its
sequence number before it is first sent and keeps it over retries, so that the broker takes none twice (KIP-98).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kafkaframes.client.batches import NO_PRODUCER_ID, NOT_STAMPED, Batch, Producer, Stamp
from kafkaframes.client.cluster import ClusterClient, fail, is_retriable
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import BrokerError, KafkaframesError, NetworkError, OptionError, error_code
from kafkaframes.protocol.spec.model import NIL_UUID
from kafkaframes.records.build import next_sequence

PRODUCE: Final = 0
_BY_ID: Final = 13  # Produce's first version that names topics by their ids
_NEWEST_OF_OLD_TRANSACTIONS: Final = 11
_ADDS_PARTITIONS: Final = 12  # the first version whose batches a broker adds to transactions by itself (KIP-890)
_NEWEST_OF_FORMAT: Final = {0: 1, 1: 2}  # later versions carry format 2 only
_OUT_OF_ORDER, _DUPLICATE = 45, 46


@dataclass(slots=True)
class Queue:
    """A partition's batches: those that wait, in order, and those under way."""

    waiting: deque[Batch] = field(default_factory=deque)
    in_flight: list[Batch] = field(default_factory=list)
    next_sequence: int = 0
    is_muted: bool = False  # one failed and will be sent again: nothing may overtake it

    def ready(self, now: float, most_in_flight: int) -> bool:
        """Return whether the first batch that waits may go."""
        if not self.waiting or len(self.in_flight) >= most_in_flight:
            return False
        return self.waiting[0].not_before <= now and not (self.is_muted and self.in_flight)

    def take(self) -> Batch:
        """Let the first batch go."""
        batch = self.waiting.popleft()
        self.in_flight.append(batch)
        self.is_muted = False
        return batch

    def again(self, batch: Batch) -> None:
        """Put a batch back among those that wait, in its order."""
        self.in_flight.remove(batch)
        place = 0
        while place < len(self.waiting) and self.waiting[place].place < batch.place:
            place += 1
        self.waiting.insert(place, batch)
        self.is_muted = True


class Sender:
    """Runs on an event loop from ``start`` to ``close``."""

    def __init__(self, cluster: ClusterClient, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._queues: dict[TopicPartition, Queue] = {}
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: dict[int, int] = {}  # node id: requests
        self._loop_task: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._drained.set()
        self.producer = Producer()
        self.record_format = 2
        self.transactional = False
        self.broker_adds_partitions = False  # the second form of transactions (KIP-890)
        self.needs_new_epoch = False
        self.renew: Callable[[], Awaitable[None]] | None = None  # gets a new epoch and calls set_producer
        self.waiting_bytes = 0
        self._broken: Exception | None = None
        self._put_so_far = 0
        self._room = asyncio.Event()
        self._room.set()

    def start(self) -> None:
        """Begin."""
        self._loop_task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop; what was not sent ends in ``NetworkError``."""
        for task in (self._loop_task, *self._tasks):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self.fail_all(NetworkError("the producer was closed before this was sent"))

    async def room(self, size: int) -> None:
        """Wait until ``size`` bytes fit into ``buffer_memory``; one batch is always taken."""
        while self.waiting_bytes and self.waiting_bytes + size > self._settings.buffer_memory:
            self._room.clear()
            await self._room.wait()

    def put(self, batch: Batch) -> None:
        """Queue a batch."""
        self._put_so_far += 1
        batch.place = self._put_so_far
        self._queues.setdefault(batch.partition, Queue()).waiting.append(batch)
        self.waiting_bytes += len(batch.data)
        self._drained.clear()
        self._wake.set()
        if self._broken is not None:
            self.fail_all(self._broken)

    def next_stamp(self, partition: TopicPartition) -> Stamp:
        """Return what the next batch of a partition will most likely carry: built with it, it need not be changed."""
        if self.producer.producer_id == NO_PRODUCER_ID:
            return NOT_STAMPED
        queue = self._queues.get(partition, Queue())
        waiting = sum(batch.count for batch in queue.waiting if not batch.is_numbered)
        return Stamp(self.producer, next_sequence(queue.next_sequence, waiting), self.transactional)

    def set_sequence(self, partition: TopicPartition, sequence: int) -> None:
        """Number the next batch of a partition from ``sequence`` on.

        Raises:
            OptionError: some of its batches wait or are under way.
        """
        queue = self._queues.setdefault(partition, Queue())
        if queue.waiting or queue.in_flight:
            raise OptionError(f"batches for {partition} are under way: their sequences must have an end first")
        queue.next_sequence = sequence

    async def flush(self) -> None:
        """Wait until everything that was put has an answer, good or bad."""
        await self._drained.wait()

    def set_producer(self, producer: Producer) -> None:
        """Number everything that waits anew, from 0, under this id and epoch. Nothing is under way."""
        self.producer = producer
        self.needs_new_epoch = False
        for queue in self._queues.values():
            queue.next_sequence = 0
            for batch in queue.waiting:
                batch.is_numbered = False
        self._wake.set()

    def fail_all(self, error: Exception) -> None:
        """End everything that waits and is not under way."""
        for queue in self._queues.values():
            while queue.waiting:
                self._finish(queue.waiting.popleft(), error)

    @property
    def in_flight(self) -> int:
        """How many batches are under way."""
        return sum(len(queue.in_flight) for queue in self._queues.values())

    # ------------------------------------------------------------------------------------------------------ sending

    async def _run(self) -> None:
        """Send until it is closed; what is wrong on our own side ends all that waits, and all that will be put."""
        try:
            while True:
                self._wake.clear()
                self._expire()
                pause = await self._send_ready()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
        except Exception as error:
            self._broken = error
            self.fail_all(error)

    async def _send_ready(self) -> float | None:
        """Send what may go; return in how many seconds to look again, None when something happens."""
        now = time.monotonic()
        most = self._settings.max_in_flight_requests_per_connection
        if self.needs_new_epoch:
            await self._renew_epoch()
        if self.needs_new_epoch:
            return None
        ready = [partition for partition, queue in self._queues.items() if queue.ready(now, most)]
        if ready:
            await self._know(ready)
        leaderless = False
        for leader, partitions in list(self._cluster.cluster.by_leader(ready)):
            if leader is None:
                leaderless = True
                continue
            while self._under_way.get(leader.node_id, 0) < most:
                batches = self._batches_for(partitions, time.monotonic(), most)
                if not batches:
                    break
                self._spawn(leader, batches)
        later = [queue.waiting[0].not_before - now for queue in self._queues.values() if queue.waiting]
        waits = [pause for pause in later if pause > 0] + ([self._cluster.backoff_s(0)] if leaderless else [])
        return min(waits) if waits else None

    async def _renew_epoch(self) -> None:
        """Once nothing is under way, number what waits anew; in a transaction, end it: it has to be aborted."""
        if self.in_flight:
            return
        if self.transactional or self.renew is None:
            self.fail_all(BrokerError("an earlier batch of this transaction was not written: abort it"))
            return
        try:
            await self.renew()
        except KafkaframesError as error:
            self.fail_all(error)

    async def _know(self, partitions: Iterable[TopicPartition]) -> None:
        """See that the leaders of partitions are known; a topic that does not exist ends its batches."""
        for topic in {one.topic for one in partitions if self._cluster.cluster.leader(one) is None}:
            try:
                await self._cluster.refresh([topic], create=True)
            except (BrokerError, NetworkError) as error:
                if not is_retriable(error):
                    self._fail_topic(topic, error)

    def _fail_topic(self, topic: str, error: KafkaframesError) -> None:
        for partition, queue in self._queues.items():
            while partition.topic == topic and queue.waiting:
                self._finish(queue.waiting.popleft(), error)

    def _batches_for(self, partitions: list[TopicPartition], now: float, most: int) -> list[Batch]:
        """Take one batch of each partition that has one ready, up to the largest request."""
        taken: list[Batch] = []
        size = 0
        for partition in partitions:
            queue = self._queues[partition]
            if not queue.ready(now, most):
                continue
            if taken and size + len(queue.waiting[0].data) > self._settings.max_request_size:
                break
            batch = queue.take()
            if self.producer.producer_id != NO_PRODUCER_ID and not batch.is_numbered:
                batch.stamp(Stamp(self.producer, queue.next_sequence, self.transactional))
                batch.is_numbered = True
                queue.next_sequence = next_sequence(queue.next_sequence, batch.count)
            size += len(batch.data)
            taken.append(batch)
        return taken

    def _spawn(self, leader: Broker, batches: list[Batch]) -> None:
        self._under_way[leader.node_id] = self._under_way.get(leader.node_id, 0) + 1
        task = asyncio.ensure_future(self._send(leader, batches))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, leader: Broker, batches: list[Batch]) -> None:
        try:
            answers = await self._produce(leader, batches)
            for batch in batches:
                self._answered(batch, answers.get(batch.partition))
        except Exception as error:  # what is not the broker's or the network's is not tried again
            for batch in batches:
                if batch in self._queues[batch.partition].in_flight:
                    self._failed(batch, error)
        finally:
            self._under_way[leader.node_id] -= 1
            self._wake.set()

    async def _produce(self, leader: Broker, batches: list[Batch]) -> dict[TopicPartition, Any]:
        """Send one request; return each partition's answer, nothing at all with acks 0."""
        settings, cluster = self._settings, self._cluster.cluster
        connection = await self._cluster.connection(leader)
        topics: dict[str, list[Batch]] = {}
        for batch in batches:
            topics.setdefault(batch.partition.topic, []).append(batch)
        ids = {name: cluster.topic_id(name) for name in topics}
        most = _NEWEST_OF_FORMAT.get(self.record_format, _BY_ID - 1 if NIL_UUID in ids.values() else None)
        body_class = settings.message("ProduceRequest")
        body = body_class(acks=settings.required_acks, timeout_ms=settings.request_timeout_ms)
        if self.transactional:
            most = most if self.broker_adds_partitions else _NEWEST_OF_OLD_TRANSACTIONS
            body.transactional_id = settings.transactional_id
        least = _ADDS_PARTITIONS if self.transactional and self.broker_adds_partitions else 0
        at = connection.version_of(body, most=most, least=least)
        body.topic_data = [
            body_class.TopicProduceData(
                **({"topic_id": ids[name]} if at >= _BY_ID else {"name": name}),
                partition_data=[
                    body_class.PartitionProduceData(index=one.partition.partition, records=one.data) for one in several
                ],
            )
            for name, several in topics.items()
        ]
        if settings.required_acks == 0:
            await connection.send(body, at)
            return {}
        response = await connection.request(body, version=at)
        names = {topic_id: name for name, topic_id in ids.items()}
        return {
            TopicPartition(topic.name if at < _BY_ID else names[topic.topic_id], one.index): one
            for topic in response.responses
            for one in topic.partition_responses
        }

    # ------------------------------------------------------------------------------------------------------ answers

    def _answered(self, batch: Batch, answer: Any) -> None:
        if answer is None and self._settings.required_acks != 0:
            self._failed(batch, NetworkError(f"the answer does not name partition {batch.partition}"))
        elif answer is None:
            self._succeed(batch, -1, -1)
        elif answer.error_code in (0, _DUPLICATE):
            self._succeed(batch, answer.base_offset, answer.log_append_time_ms)
        else:
            said = f" ({answer.error_message})" if answer.error_message else ""
            self._failed(batch, fail(answer.error_code, f"produce to {batch.partition}{said}"))

    def _failed(self, batch: Batch, error: Exception) -> None:
        queue = self._queues[batch.partition]
        number = error.code.number if isinstance(error, BrokerError) and error.code else None
        overtaken = number == _OUT_OF_ORDER and (queue.is_muted or queue.in_flight[0] is not batch)
        if self._may_retry(batch) and (overtaken or is_retriable(error)):
            batch.attempts += 1
            batch.not_before = time.monotonic() + self._cluster.backoff_s(batch.attempts - 1)
            queue.again(batch)
            if not isinstance(error, BrokerError) or number in (3, 5, 6, 72, 74, 75, 100):
                self._cluster.cluster.topics.pop(batch.partition.topic, None)
            return
        queue.in_flight.remove(batch)
        if self.producer.producer_id != NO_PRODUCER_ID:
            # A number that was given out will never be written: what follows needs a new epoch (KIP-360).
            self.needs_new_epoch = True
        self._finish(batch, error)

    def _may_retry(self, batch: Batch) -> bool:
        settings = self._settings
        spent_ms = (time.monotonic() - batch.created) * 1000
        return batch.attempts < settings.retries and spent_ms < settings.delivery_timeout_ms

    def _succeed(self, batch: Batch, base_offset: int, append_time: int) -> None:
        self._queues[batch.partition].in_flight.remove(batch)
        if not batch.done.done():
            batch.done.set_result((base_offset, append_time))
        self._forget(batch)

    def _finish(self, batch: Batch, error: Exception) -> None:
        if not batch.done.done():
            batch.done.set_exception(error)
        self._forget(batch)

    def _forget(self, batch: Batch) -> None:
        self.waiting_bytes -= len(batch.data)
        self._room.set()
        if not any(queue.waiting or queue.in_flight for queue in self._queues.values()):
            self._drained.set()

    def _expire(self) -> None:
        """End what has waited longer than ``delivery_timeout_ms``."""
        before = time.monotonic() - self._settings.delivery_timeout_ms / 1000
        for partition, queue in self._queues.items():
            while queue.waiting and queue.waiting[0].created < before:
                batch = queue.waiting.popleft()
                if batch.is_numbered:
                    self.needs_new_epoch = True
                waited = self._settings.delivery_timeout_ms
                self._finish(batch, fail(error_code(7), f"{partition} took nothing for {waited} ms"))
