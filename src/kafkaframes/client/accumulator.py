"""Collects single records into batches. Any thread may add records, and the sender's event loop drains the batches.

As in Kafka's ``RecordAccumulator``, each partition has an open batch, which is closed when it is full or after
``linger_ms``. Records without key and partition are added to the topic's sticky partition, which changes after
``batch_size`` bytes (KIP-480, KIP-794).
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.client.metadata import Cluster, TopicMetadata, TopicPartition, partitions_with_leader
from kafkaframes.client.outgoing import CheckedRecord
from kafkaframes.client.partitioners import DEFAULT_PARTITIONER, STICKY, PartitionChoice, choose_by_queue
from kafkaframes.client.record_futures import BatchResults, OnDelivery
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import NetworkError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.partitioner import partition_of

Headers = Sequence[tuple[str, bytes | None]]


class Gathering:
    """The open batch of a partition.

    Attributes:
        since: time of the first record, in seconds of the monotonic clock.
        size: approximate size of the records in bytes, including the overhead of each record in a batch.
        limit: largest size in bytes. A batch of one record may be larger.
    """

    __slots__ = ("headers", "keys", "limit", "results", "since", "size", "target", "timestamps", "values")

    def __init__(self, target: TopicPartition, since: float, results: Callable[..., BatchResults], limit: int) -> None:
        self.target = target
        self.limit = limit
        self.since = since
        self.size = 0
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] = []
        self.results = results(target, self.timestamps)

    @property
    def columns(self) -> tuple[list[bytes | None], list[bytes | None], list[int], list[Headers]]:
        """The columns: keys, values, timestamps and headers."""
        return self.keys, self.values, self.timestamps, self.headers


@dataclass(slots=True)
class _Topic:
    """A topic's current metadata and open batches."""

    metadata: TopicMetadata
    targets: dict[int, TopicPartition]
    available: list[int]  # numbers of the partitions that have a leader
    ignores_keys: bool
    sticky: int = 0
    sticky_bytes: int = 0  # bytes added to the sticky partition since it was chosen
    gathering: dict[int, Gathering] = field(default_factory=dict)

    def number(self, key: bytes | None) -> int:
        """Return the partition of a record that does not specify one."""
        return self.sticky if key is None or self.ignores_keys else partition_of(key, len(self.targets))


class Accumulator:
    """A thread-safe collector of records. It calls ``wake``, without the lock, when ``drain`` has something to do."""

    def __init__(
        self,
        settings: ProducerSettings,
        cluster: Cluster,
        *,
        wake: Callable[[], None],
        partitioner: PartitionChoice = DEFAULT_PARTITIONER,
    ) -> None:
        self._cluster = cluster
        self._metadata = cluster.topics
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._buffer_bytes = settings.buffer_memory
        self._linger_s = settings.linger_ms / 1000
        self._max_age_s = settings.metadata_max_age_ms / 1000
        self._partitioner = partitioner
        self._is_adaptive = settings.partitioner_adaptive_partitioning_enable
        self._lock = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._full: deque[Gathering] = deque()
        self._is_closed = False
        self._needs_wake = False
        self._is_woken = False  # whether wake was called after the last drain
        self._has_timer = False  # whether the sender has a timer for the next drain
        self._random = random.Random()
        self.wake = wake
        self.results: Callable[[TopicPartition, list[int]], BatchResults]
        self.limit_of: Callable[[str, float], int | None] = lambda topic, now: None  # largest batch of a topic, bytes
        self.queue_length: Callable[[TopicPartition], int] = lambda _: 0  # number of a partition's waiting batches
        self.is_stalled: Callable[[int], bool] = lambda _: False  # whether a node is too slow for sticky partitions
        self.may_open: Callable[[TopicPartition], bool] = lambda _: True
        self.size_bytes = 0  # size of the open batches
        self.built_bytes = 0  # size of the unacknowledged batches, maintained by the sender
        self.callback_bytes = 0  # size of the records whose on_delivery has not returned
        self.is_in_callback: Callable[[], bool] = lambda: False  # whether the current thread runs an on_delivery

    def add(self, record: CheckedRecord, owner: Any = None, on_delivery: OnDelivery | None = None) -> Any:
        """Add a record. Return its future, or None if the record has to wait first.

        It waits for the producer's start, the topic's metadata, memory, or a partition that is not yet part of the
        transaction.
        """
        topic, key, value, headers, partition, timestamp, size = record
        with self._lock:
            used = self.size_bytes + self.built_bytes + self.callback_bytes
            known = self._topics.get(topic)
            if known is None or (used + size > self._buffer_bytes and used and not self._has_space(size)):
                return None
            is_sticky = (key is None or known.ignores_keys) if partition is None else partition == STICKY
            number = known.sticky if is_sticky else known.number(key) if partition is None else partition
            gathering = known.gathering.get(number)
            if gathering is None or gathering.size + size > gathering.limit:
                gathering = self._next(known, number, size, is_sticky=is_sticky)
                if gathering is None:
                    return None
            if is_sticky:
                known.sticky_bytes += size
            gathering.keys.append(key)
            gathering.values.append(value)
            gathering.timestamps.append(timestamp)
            gathering.headers.append(headers)
            gathering.size += size
            self.size_bytes += size
            future = gathering.results.future(owner, on_delivery)
            if not self._needs_wake:
                return future
            self._needs_wake = False
        self.wake()
        return future

    def _has_space(self, size: int) -> bool:
        """Return whether a record fits without the memory of running callbacks. A callback cannot wait for itself."""
        used = self.size_bytes + self.built_bytes
        return self.is_in_callback() and (not used or used + size <= self._buffer_bytes)

    def hold_for_callbacks(self, size: int) -> None:
        """Add the bytes of records whose ``on_delivery`` is pending. A negative size releases them."""
        with self._lock:
            self.callback_bytes += size

    def _next(self, known: _Topic, number: int, size: int, *, is_sticky: bool) -> Gathering | None:
        """Close the full batch. Return the batch for the next record, which may be in another partition."""
        if number in known.gathering:
            self._close(known, number)
        if is_sticky and known.sticky_bytes and known.sticky_bytes + size > self._batch_size:
            self._move_sticky(known)
            number = known.sticky
        gathering = known.gathering.get(number)
        if gathering is not None and gathering.size + size > gathering.limit:
            self._close(known, number)
            gathering = None
        return gathering or self._opened(known, number)

    def _opened(self, known: _Topic, number: int) -> Gathering | None:
        now = time.monotonic()
        target = known.targets.get(number)
        is_known = known.metadata is self._metadata.get(known.metadata.name)
        is_fresh = now - (self._cluster.updated_at or 0.0) < self._max_age_s
        if target is None or not (is_known and is_fresh and self.may_open(target)):
            return None
        limit = self.limit_of(target.topic, now)
        size = self._batch_size if limit is None else min(self._batch_size, limit - BATCH_V2.size)
        gathering = known.gathering[number] = Gathering(target, now, self.results, size)
        if not self._has_timer:
            self._ask_to_wake()
        return gathering

    def _move_sticky(self, known: _Topic) -> None:
        """Choose a new sticky partition."""
        known.sticky, known.sticky_bytes = self._choose_partition(known), 0

    def _choose_partition(self, known: _Topic) -> int:
        """Return a partition with a leader at random. Partitions with short queues are more likely (KIP-794)."""
        candidates = known.available or list(known.targets)
        if not self._prefers_short_queues:
            return self._random.choice(candidates)
        served = [number for number in candidates if not self.is_stalled(known.metadata.partitions[number].leader)]
        candidates = served or candidates
        lengths = [self.queue_length(known.targets[number]) + (number in known.gathering) for number in candidates]
        return choose_by_queue(candidates, lengths, self._random)

    @property
    def _prefers_short_queues(self) -> bool:
        return self._is_adaptive and self.built_bytes > 0

    def _close(self, known: _Topic, number: int) -> None:
        self._full.append(known.gathering.pop(number))
        self._ask_to_wake()

    def _ask_to_wake(self) -> None:
        if not self._is_woken:
            self._is_woken = self._needs_wake = True

    # --------------------------------------------------------------------------------- called by the sender's loop

    def learn(self, topic: str) -> None:
        """Use the cluster's current metadata of a topic."""
        with self._lock:
            if self._is_closed:
                return
            metadata = self._metadata[topic]
            known = self._topics.get(topic)
            targets = {index: TopicPartition(topic, index) for index in sorted(metadata.partitions)}
            available = partitions_with_leader(metadata)
            if known is None:
                known = self._topics[topic] = _Topic(metadata, targets, available, self._partitioner.ignores_keys)
                self._move_sticky(known)
            else:
                known.metadata, known.targets, known.available = metadata, targets, available
                if known.sticky not in targets:  # the topic was recreated with fewer partitions
                    self._move_sticky(known)

    def choose_partition(self, record: CheckedRecord) -> CheckedRecord | None:
        """Return a record with the partition that the caller's partitioner chooses; None for an unknown topic.

        The function is called without the lock, once for each record.

        Raises:
            EncodeError: the function raises an exception, or returns a number that is not a partition of the topic.
        """
        topic, key, value = record[:3]
        known = self._topics.get(topic)
        if known is None:
            return None
        number = self._partitioner.choose(topic, key, value, len(known.targets), list(known.available))
        return (*record[:4], number, *record[5:])

    def sticky_partitions(self, topic: str, runs: int) -> list[int]:
        """Return the sticky partitions for a number of runs of records without key and partition, one for each run."""
        with self._lock:
            known = self._topic(topic)
            if self._prefers_short_queues:
                return [self._choose_partition(known) for _ in range(runs)]
            candidates = known.available or list(known.targets)
            start = self._random.randrange(len(candidates))
            return [candidates[(start + run) % len(candidates)] for run in range(runs)]

    def target(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition | None:
        """Return the partition for a record now; None if the given partition does not exist."""
        with self._lock:
            known = self._topic(topic)
            if partition == STICKY:
                return known.targets.get(known.sticky)
            return known.targets.get(known.number(key) if partition is None else partition)

    def _topic(self, topic: str) -> _Topic:
        """Return a topic whose metadata was given to ``learn``.

        Raises:
            NetworkError: the producer was closed in the meantime.
        """
        known = self._topics.get(topic)
        if known is None:
            raise NetworkError("the producer was closed before this was sent")
        return known

    def drain(self, now: float | None) -> tuple[list[Gathering], float | None]:
        """Close and return the batches that are full or older than ``linger_ms``, in order, and the next drain time.

        Args:
            now: current time, in seconds of the monotonic clock; None to return all batches.
        """
        next_time: float | None = None
        with self._lock:
            self._is_woken = False
            taken = list(self._full)
            self._full.clear()
            for known, number, gathering in list(self._open()):
                due = gathering.since + self._linger_s
                if now is None or due <= now:
                    taken.append(known.gathering.pop(number))
                else:
                    next_time = due if next_time is None else min(due, next_time)
            self._has_timer = next_time is not None
            self.size_bytes -= sum(gathering.size for gathering in taken)
        return taken, next_time

    def close(self) -> list[Gathering]:
        """Reject further records. Return the open batches."""
        with self._lock:
            self._is_closed = True
            gathered = [*self._full, *(gathering for _, _, gathering in self._open())]
            self._full.clear()
            self._topics.clear()
            self.size_bytes = 0
        return gathered

    def fork(self) -> None:
        """Reject further records in a child process. Replace the lock, which another thread may have held."""
        self._lock = threading.Lock()
        self.close()

    def hasten(self) -> None:
        """Let all open batches be sent at the next drain."""
        with self._lock:
            for _, _, gathering in self._open():
                gathering.since = float("-inf")
        self.wake()

    def _open(self) -> Iterator[tuple[_Topic, int, Gathering]]:
        for known in self._topics.values():
            for number, gathering in known.gathering.items():
                yield known, number, gathering
