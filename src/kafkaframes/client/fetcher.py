"""Fetches what a consumer is assigned: one request under way per broker, answers kept until they are taken.

Where brokers keep fetch sessions (KIP-227) they are sent only what has changed. A partition is asked for again when its
last answer was taken, as Kafka's own consumer does, so that what is held is bounded by ``fetch_max_bytes`` per broker.
With ``client_rack`` a leader may name a replica near by (KIP-392): that is read, as in Kafka's consumer, for
``metadata_max_age_ms`` and until anything fails there.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from kafkaframes.client import fetch_session
from kafkaframes.client.cluster import Channel, ClusterClient, is_retriable
from kafkaframes.client.fetch_session import BY_ID, FetchSession, Requested, SessionRequest, write_partitions
from kafkaframes.client.fetched import Fetched
from kafkaframes.client.loop import background, cancelled, waited
from kafkaframes.client.metadata import Broker, TopicPartition
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import BrokerError, CorruptRecordError, ErrorCode, KafkaframesError, broker_error
from kafkaframes.protocol.spec.model import NIL_UUID

_WHOLE_BATCHES: Final = 3  # Fetch's first version that gives a whole batch however large it is
_NO_EPOCH: Final = -1
_NO_REPLICA: Final = -1
_LARGEST_FETCH: Final = 2**31 - 1
_LARGEST_OFFSET: Final = 2**63 - 1


@dataclass(slots=True)
class Position:
    """Where a partition is read, and how that stands."""

    offset: int
    end: int | None = None  # nothing is asked for from here on
    leader_epoch: int = _NO_EPOCH  # of the last batch that was read (KIP-320)
    max_bytes: int = 0
    not_before: float = 0.0
    is_paused: bool = False
    is_requested: bool = False  # a request is under way, or its answer waits to be taken
    failures: int = 0
    replica: int = _NO_REPLICA  # the node that the leader prefers for reading
    replica_until: float = 0.0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1

    @property
    def is_selected(self) -> bool:
        """Whether to ask for more."""
        is_at_end = self.end is not None and self.offset >= self.end
        return not (self.is_requested or self.is_paused or is_at_end)


class Fetcher:
    """Runs on an event loop from ``start`` to ``close``; ``positions`` says what is fetched."""

    def __init__(
        self,
        cluster: ClusterClient,
        settings: ConsumerSettings,
        *,
        out_of_range: Callable[[TopicPartition, int], None],
    ) -> None:
        """Take what to do when the log has not the offset asked for: ``out_of_range(partition, offset)``."""
        self._cluster = cluster
        self._settings = settings
        self._out_of_range = out_of_range
        self.positions: dict[TopicPartition, Position] = {}
        self._ready: deque[Fetched] = deque()
        self._errors: deque[Exception] = deque()
        self._broken: Exception | None = None
        self._busy: set[int] = set()
        self._sessions: dict[int, FetchSession] = {}  # by node id
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._unknown_since: dict[str, float] = {}  # topics that no broker knows
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        if self._loop_task is None:
            self._loop_task = background(self._run())

    async def close(self) -> None:
        """Stop."""
        await cancelled(self._loop_task, *self._tasks)

    def set_position(self, partition: TopicPartition, offset: int) -> None:
        """Read a partition from here, up to the end that it had; what was fetched of it before is dropped."""
        known = self.positions.get(partition)
        fresh = Position(offset, max_bytes=self._settings.max_partition_fetch_bytes)
        if known is not None:
            fresh.is_paused, fresh.end = known.is_paused, known.end
        self.positions[partition] = fresh
        self._drop(partition)
        self._wake.set()

    def set_end(self, partition: TopicPartition, end: int | None) -> None:
        """Ask for nothing of a partition from an offset on."""
        self.positions[partition].end = end
        self._wake.set()

    def remove(self, partition: TopicPartition) -> None:
        """Read a partition no more."""
        self.positions.pop(partition, None)
        self._drop(partition)

    def forget_errors(self) -> None:
        """Drop what went wrong with partitions that are read no more, and nobody knows of yet."""
        self._errors.clear()

    def pause(self, partition: TopicPartition, is_paused: bool) -> None:
        """Leave a partition alone, or go on with it."""
        self.positions[partition].is_paused = is_paused
        self._wake.set()

    def _drop(self, partition: TopicPartition) -> None:
        self._ready = deque(entry for entry in self._ready if entry.partition != partition)

    async def next(self, timeout_s: float | None) -> Fetched | None:
        """Take the next answer; None when none comes in time. Its position moves behind it.

        Raises:
            BrokerError: a partition may not be read, or cannot be.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._errors:
                raise self._errors.popleft()
            if self._broken is not None:
                raise self._broken
            while self._ready:
                fetched = self._ready.popleft()
                position = self.positions.get(fetched.partition)
                if position is None or position.offset != fetched.fetch_offset:
                    continue
                if position.is_paused:
                    position.is_requested = False
                    continue
                position.offset = fetched.next_offset
                position.leader_epoch = fetched.leader_epoch
                position.is_requested = False
                self._wake.set()
                return fetched
            self._arrived.clear()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            await waited(self._arrived, left)

    # ----------------------------------------------------------------------------------------------------- asking

    async def _run(self) -> None:
        """Ask until it is closed; what is wrong on our own side is raised where answers are taken."""
        try:
            while True:
                self._wake.clear()
                pause = await self._ask_all()
                await waited(self._wake, pause)
        except Exception as error:
            self._broken = error
            self._arrived.set()

    async def _ask_all(self) -> float | None:
        """Send what may go; return in how many seconds to look again."""
        now = time.monotonic()
        free = {entry: at for entry, at in self.positions.items() if at.is_selected}
        requested = [entry for entry, at in free.items() if at.not_before <= now]
        lost = {entry.topic for entry in requested if self._cluster.cluster.leader(entry) is None}
        if lost:
            await self._learn(lost)
        leaderless = False
        for node, partitions in self._by_node(requested, now).items():
            if node is None:
                leaderless = True
            elif node.node_id not in self._busy:
                self._spawn(node, partitions)
        waits = [at.not_before - now for at in free.values() if at.not_before > now]
        waits += [self._cluster.backoff_s(0)] if leaderless else []
        return min(waits) if waits else None

    def _by_node(self, partitions: list[TopicPartition], now: float) -> dict[Broker | None, list[TopicPartition]]:
        """Group partitions by whom to ask for them: the preferred replica, else the leader, None if there is none."""
        cluster, groups = self._cluster.cluster, dict[Broker | None, list[TopicPartition]]()
        for entry in partitions:
            position = self.positions[entry]
            node = cluster.brokers.get(position.replica) if now < position.replica_until else None
            if node is None:
                position.replica, node = _NO_REPLICA, cluster.leader(entry)
            groups.setdefault(node, []).append(entry)
        return groups

    async def _learn(self, topics: Iterable[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except KafkaframesError as error:
            if not is_retriable(error):
                self._raise_later(error)
                return
        for topic in topics:
            result = self._cluster.cluster.topics.get(topic)
            if result is not None and result.error and not self._may_come(topic, result.error):
                self._raise_later(broker_error(result.error, f"topic {topic}"))

    def _may_come(self, topic: str, error: ErrorCode) -> bool:
        """Return whether to ask again without a word: a topic just made is not known to every broker at once."""
        if error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown_since.pop(topic, None)
            return error.is_retriable
        now = time.monotonic()
        since = self._unknown_since.setdefault(topic, now)
        if (now - since) * 1000 < self._settings.default_api_timeout_ms:
            return True
        del self._unknown_since[topic]
        return False

    def _raise_later(self, error: Exception) -> None:
        self._errors.append(error)
        self._arrived.set()

    def _spawn(self, node: Broker, partitions: list[TopicPartition]) -> None:
        self._busy.add(node.node_id)
        queried = {entry: self.positions[entry] for entry in partitions}
        for position in queried.values():
            position.is_requested = True
        task = background(self._fetch(node, queried))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, node: Broker, queried: dict[TopicPartition, Position]) -> None:
        try:
            for answer in await self._answers(node, queried):
                self._take(*answer, queried)
        except Exception as error:  # what is not the broker's or the network's is told, and not only tried again
            for partition, position in queried.items():
                self._later(partition, position)
            if not is_retriable(error):
                self._raise_later(error)
        finally:
            for position in queried.values():  # those without anything new
                if not any(self.positions.get(entry.partition) is position for entry in self._ready):
                    position.is_requested = False
            self._busy.discard(node.node_id)
            self._wake.set()

    async def _answers(
        self, node: Broker, queried: dict[TopicPartition, Position]
    ) -> list[tuple[TopicPartition, Any, int]]:
        settings = self._settings
        connection = await self._cluster.connection(node, Channel.FETCH)
        cls = settings.message("FetchRequest")
        requested = {entry: self._requested(entry, position) for entry, position in queried.items()}
        ids = {entry.topic: at.topic_id for entry, at in requested.items()}
        body = cls(
            max_wait_ms=settings.fetch_max_wait_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            isolation_level=int(settings.reads_committed),
            rack_id=settings.client_rack,
        )
        at = connection.version_of(body, most=BY_ID - 1 if NIL_UUID in ids.values() else None)
        session = self._sessions.setdefault(node.node_id, FetchSession())
        request = SessionRequest(fetch_session.NO_SESSION, fetch_session.NONE, list(requested), {})
        if at >= fetch_session.FIRST_VERSION:
            request = session.next_request(requested, by_id=at >= BY_ID)
        write_partitions(body, request, requested, at)
        wait_ms = settings.request_timeout_ms + settings.fetch_max_wait_ms
        try:
            response = await connection.request(body, version=at, timeout_ms=wait_ms)
        except BaseException:  # whether it was carried out is not known
            session.lose()
            raise
        if response.error_code:
            session.lose()
            if response.error_code in fetch_session.LOST:  # the partitions are asked for again at once
                session.session_id = fetch_session.NO_SESSION
                return []
            raise broker_error(response.error_code, "fetch")
        if at >= fetch_session.FIRST_VERSION:
            session.answered(response.session_id)
        names = {topic_id: name for name, topic_id in ids.items()}
        return [
            (
                TopicPartition(names.get(topic.topic_id, "") if at >= BY_ID else topic.topic, entry.partition_index),
                entry,
                at,
            )
            for topic in response.responses
            for entry in topic.partitions
        ]

    def _requested(self, partition: TopicPartition, position: Position) -> Requested:
        known = self._cluster.cluster.partition(partition)
        epoch = _NO_EPOCH if known is None else known.leader_epoch
        topic_id = self._cluster.cluster.topic_id(partition.topic)
        return Requested(position.offset, position.max_bytes, epoch, topic_id)

    # ---------------------------------------------------------------------------------------------------- answers

    def _take(
        self, partition: TopicPartition, answer: Any, version: int, queried: dict[TopicPartition, Position]
    ) -> None:
        position = queried.get(partition)
        if position is None or self.positions.get(partition) is not position:
            return  # not asked for, or moved meanwhile
        if answer.error_code:
            self._refused(partition, position, answer.error_code)
            return
        position.failures = 0
        position.high_watermark = answer.high_watermark
        position.last_stable_offset = answer.last_stable_offset
        position.log_start_offset = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            self._redirected(partition, position, answer.preferred_read_replica)
        if not answer.records:
            return
        fetched = Fetched(
            partition,
            position.offset,
            memoryview(answer.records),
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            self._aborted(answer),
        )
        end = fetched.batches.end
        if not len(fetched.batches) and end.corrupt:
            reason = f"{end.reason}, at offset {position.offset}"
            self._unreadable(position, CorruptRecordError(reason, file=str(partition)))
            return
        if not len(fetched.batches):
            self._cut(partition, position, version)
            return
        if not position.offset < fetched.next_offset <= _LARGEST_OFFSET:  # it would be asked for again and again
            reason = f"what was fetched from offset {position.offset} on ends with offset {_last_offset(fetched)}"
            self._unreadable(position, CorruptRecordError(reason, file=str(partition)))
            return
        self._ready.append(fetched)
        self._arrived.set()

    def _unreadable(self, position: Position, error: Exception) -> None:
        """Say what is wrong with a partition, and ask for it again after a while."""
        self._raise_later(error)
        position.not_before = time.monotonic() + self._cluster.backoff_s(5)

    def _aborted(self, answer: Any) -> list[tuple[int, int]] | None:
        if not self._settings.reads_committed or not answer.aborted_transactions:
            return None
        return [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions]

    def _cut(self, partition: TopicPartition, position: Position, version: int) -> None:
        """Ask for more bytes where not even one batch came whole (before KIP-74)."""
        limit = min(self._settings.fetch_max_bytes, _LARGEST_FETCH)
        if version >= _WHOLE_BATCHES or position.max_bytes >= limit:
            reason = f"a batch of {partition} is larger than max_partition_fetch_bytes, {position.max_bytes}"
            self._unreadable(position, BrokerError(reason))
        else:
            position.max_bytes = min(position.max_bytes * 2, limit)

    def _redirected(self, partition: TopicPartition, position: Position, replica: int) -> None:
        """Read from the replica that a broker names; from one that is not known when the metadata say who it is."""
        if replica not in self._cluster.cluster.brokers or replica == position.replica:
            self._later(partition, position)
            return
        position.replica = replica
        position.replica_until = time.monotonic() + self._settings.metadata_max_age_ms / 1000

    def _refused(self, partition: TopicPartition, position: Position, number: int) -> None:
        if number == ErrorCode.OFFSET_OUT_OF_RANGE:
            position.not_before = time.monotonic() + self._cluster.backoff_s(0)
            position.replica_until = 0.0  # a follower may not have come so far: the leader decides
            if position.replica == _NO_REPLICA:
                self._out_of_range(partition, position.offset)
            return
        error = broker_error(number, f"fetch of {partition} from offset {position.offset}")
        if number == ErrorCode.CORRUPT_MESSAGE or not is_retriable(error):  # a retry reads the same corrupt bytes
            self._raise_later(error)
        self._later(partition, position)

    def _later(self, partition: TopicPartition, position: Position) -> None:
        position.not_before = time.monotonic() + self._cluster.backoff_s(position.failures)
        position.failures += 1
        position.replica_until = 0.0  # back to the leader
        self._cluster.cluster.topics.pop(partition.topic, None)


def _last_offset(fetched: Fetched) -> int:
    return int(fetched.batches.column("last_offset")[-1])
