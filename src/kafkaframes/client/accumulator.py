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

from kafkaframes.client.metadata import Cluster, TopicMetadata, TopicPartition, list_partitions_with_leader
from kafkaframes.client.partitioners import (
    DEFAULT_PARTITIONER,
    STICKY_PARTITION,
    ConfiguredPartitioner,
    choose_by_queue,
)
from kafkaframes.client.producer_records import CheckedRecord
from kafkaframes.client.record_futures import BatchResults, OnDelivery
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import NetworkError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.partitioner import partition_of

# With metadata.max.age.ms=0, a record would wait for newer metadata without an end. Java's client requests metadata at
# most every retry.backoff.ms, 100 by default.
_MIN_METADATA_AGE_S = 0.1

Headers = Sequence[tuple[str, bytes | None]]


class OpenBatch:
    """The batch of a partition to which records are still added.

    Attributes:
        since: time of the first record, in seconds of the monotonic clock.
        size: approximate size of the records in bytes, including the overhead of each record in a batch.
        limit: largest size of the batch, in bytes. A batch of one record may be larger.
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
        """The record columns: keys, values, timestamps and headers."""
        return self.keys, self.values, self.timestamps, self.headers


@dataclass(slots=True)
class _TopicState:
    """A topic's current metadata and open batches."""

    metadata: TopicMetadata
    targets: dict[int, TopicPartition]
    available: list[int]  # numbers of the partitions that have a leader
    ignores_keys: bool
    sticky: int = 0
    sticky_bytes: int = 0  # bytes added to the sticky partition since it was chosen
    open_batches: dict[int, OpenBatch] = field(default_factory=dict)

    def choose_partition_by_key(self, key: bytes | None) -> int:
        """Return the partition of a record without an explicit partition: by its key, or the sticky partition."""
        return self.sticky if key is None or self.ignores_keys else partition_of(key, len(self.targets))


class Accumulator:
    """A thread-safe collector of records.

    The accumulator calls ``wake``, without the lock, when ``drain`` has something to do.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        cluster: Cluster,
        *,
        wake: Callable[[], None],
        partitioner: ConfiguredPartitioner = DEFAULT_PARTITIONER,
    ) -> None:
        self._cluster = cluster
        self._metadata = cluster.topics
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._buffer_bytes = settings.buffer_memory
        self._linger_s = settings.linger_ms / 1000
        self._max_age_s = max(settings.metadata_max_age_ms / 1000, _MIN_METADATA_AGE_S)
        self._partitioner = partitioner
        self._is_adaptive = settings.partitioner_adaptive_partitioning_enable
        self._lock = threading.Lock()
        self._topics: dict[str, _TopicState] = {}
        self._full: deque[OpenBatch] = deque()
        self._is_closed = False
        self._needs_wake = False
        self._is_woken = False  # whether wake was called after the last drain
        self._has_timer = False  # whether the sender has a timer for the next drain
        self._random = random.Random()
        self.wake = wake
        self.results: Callable[[TopicPartition, list[int]], BatchResults]
        # Returns the largest size of a batch of a topic, in bytes.
        self.get_max_batch_bytes: Callable[[str, float], int | None] = lambda topic, now: None
        self.get_queue_length: Callable[[TopicPartition], int] = lambda _: 0  # number of a partition's waiting batches
        self.is_stalled: Callable[[int], bool] = lambda _: False  # whether a node is too slow for sticky partitions
        self.may_open: Callable[[TopicPartition], bool] = lambda _: True
        self.size_bytes = 0  # size of the open batches
        self.built_bytes = 0  # size of the unacknowledged batches, maintained by the sender
        self.callback_bytes = 0  # size of the records whose on_delivery callback has not returned
        # Returns whether the current thread is running an on_delivery callback.
        self.is_in_callback: Callable[[], bool] = lambda: False

    def add(self, record: CheckedRecord, owner: Any = None, on_delivery: OnDelivery | None = None) -> Any:
        """Add a record, and return the record's future, or None if the record has to wait first.

        A record waits for the producer's start, the topic's metadata, memory, or a partition that is not yet in the
        transaction.
        """
        topic, key, value, headers, partition, timestamp, size = record
        with self._lock:
            used_bytes = self.size_bytes + self.built_bytes + self.callback_bytes
            topic_state = self._topics.get(topic)
            if topic_state is None or (
                used_bytes + size > self._buffer_bytes and used_bytes and not self._has_space(size)
            ):
                return None
            is_sticky = (
                (key is None or topic_state.ignores_keys) if partition is None else partition == STICKY_PARTITION
            )
            number = (
                topic_state.sticky
                if is_sticky
                else topic_state.choose_partition_by_key(key)
                if partition is None
                else partition
            )
            open_batch = topic_state.open_batches.get(number)
            if open_batch is None or open_batch.size + size > open_batch.limit:
                open_batch = self._next_batch(topic_state, number, size, is_sticky=is_sticky)
                if open_batch is None:
                    return None
            if is_sticky:
                topic_state.sticky_bytes += size
            open_batch.keys.append(key)
            open_batch.values.append(value)
            open_batch.timestamps.append(timestamp)
            open_batch.headers.append(headers)
            open_batch.size += size
            self.size_bytes += size
            future = open_batch.results.create_future(owner, on_delivery)
            if not self._needs_wake:
                return future
            self._needs_wake = False
        self.wake()
        return future

    def _has_space(self, size: int) -> bool:
        """Return whether memory suffices for a record that a callback sends, not counting that of running callbacks."""
        used_bytes = self.size_bytes + self.built_bytes
        return self.is_in_callback() and (not used_bytes or used_bytes + size <= self._buffer_bytes)

    def add_callback_bytes(self, size: int) -> None:
        """Add the bytes of records with a pending ``on_delivery``. A negative size releases the bytes."""
        with self._lock:
            self.callback_bytes += size

    def _next_batch(self, topic_state: _TopicState, number: int, size: int, *, is_sticky: bool) -> OpenBatch | None:
        """Close the full batch. Return the batch for the next record, which may be in another partition."""
        if number in topic_state.open_batches:
            self._close_batch(topic_state, number)
        if is_sticky and topic_state.sticky_bytes and topic_state.sticky_bytes + size > self._batch_size:
            self._choose_sticky_partition(topic_state)
            number = topic_state.sticky
        open_batch = topic_state.open_batches.get(number)
        if open_batch is not None and open_batch.size + size > open_batch.limit:
            self._close_batch(topic_state, number)
            open_batch = None
        return open_batch or self._open_batch(topic_state, number)

    def _open_batch(self, topic_state: _TopicState, number: int) -> OpenBatch | None:
        """Open a batch for a partition. Return None if the metadata is outdated or the batch may not be opened yet."""
        now = time.monotonic()
        target = topic_state.targets.get(number)
        is_known = topic_state.metadata is self._metadata.get(topic_state.metadata.name)
        is_fresh = now - (self._cluster.updated_at or 0.0) < self._max_age_s
        if target is None or not (is_known and is_fresh and self.may_open(target)):
            return None
        limit = self.get_max_batch_bytes(target.topic, now)
        size = self._batch_size if limit is None else min(self._batch_size, limit - BATCH_V2.size)
        open_batch = topic_state.open_batches[number] = OpenBatch(target, now, self.results, size)
        if not self._has_timer:
            self._request_wake()
        return open_batch

    def _choose_sticky_partition(self, topic_state: _TopicState) -> None:
        """Choose a new sticky partition."""
        topic_state.sticky, topic_state.sticky_bytes = self._choose_partition(topic_state), 0

    def _choose_partition(self, topic_state: _TopicState) -> int:
        """Return a random partition that has a leader. Partitions with short queues are more likely (KIP-794)."""
        candidates = topic_state.available or list(topic_state.targets)
        if not self._prefers_short_queues:
            return self._random.choice(candidates)
        responsive_partitions = [
            number for number in candidates if not self.is_stalled(topic_state.metadata.partitions[number].leader)
        ]
        candidates = responsive_partitions or candidates
        lengths = [
            self.get_queue_length(topic_state.targets[number]) + (number in topic_state.open_batches)
            for number in candidates
        ]
        return choose_by_queue(candidates, lengths, self._random)

    @property
    def _prefers_short_queues(self) -> bool:
        return self._is_adaptive and self.built_bytes > 0

    def _close_batch(self, topic_state: _TopicState, number: int) -> None:
        """Move a partition's open batch to the batches that the next drain returns."""
        self._full.append(topic_state.open_batches.pop(number))
        self._request_wake()

    def _request_wake(self) -> None:
        if not self._is_woken:
            self._is_woken = self._needs_wake = True

    # --------------------------------------------------------------------------------- called by the sender's loop

    def update_topic(self, topic: str) -> None:
        """Copy the partitions and leaders of a topic from the cluster's current metadata."""
        with self._lock:
            if self._is_closed:
                return
            metadata = self._metadata[topic]
            topic_state = self._topics.get(topic)
            targets = {index: TopicPartition(topic, index) for index in sorted(metadata.partitions)}
            available = list_partitions_with_leader(metadata)
            if topic_state is None:
                topic_state = self._topics[topic] = _TopicState(
                    metadata, targets, available, self._partitioner.ignores_keys
                )
                self._choose_sticky_partition(topic_state)
            else:
                topic_state.metadata, topic_state.targets, topic_state.available = metadata, targets, available
                if topic_state.sticky not in targets:  # the topic was recreated with fewer partitions
                    self._choose_sticky_partition(topic_state)

    def choose_partition(self, record: CheckedRecord) -> CheckedRecord | None:
        """Return a record with the partition that the caller's partitioner chooses; None for an unknown topic.

        The function is called without the lock, once for each record.

        Raises:
            EncodeError: the function raises an exception, or returns a number that is not a partition of the topic.
        """
        topic, key, value = record[:3]
        topic_state = self._topics.get(topic)
        if topic_state is None:
            return None
        number = self._partitioner.choose(topic, key, value, len(topic_state.targets), list(topic_state.available))
        return (*record[:4], number, *record[5:])

    def choose_sticky_partitions(self, topic: str, runs: int) -> list[int]:
        """Return a sticky partition for each of ``runs`` runs of records that have neither key nor partition."""
        with self._lock:
            topic_state = self._get_topic_state(topic)
            if self._prefers_short_queues:
                return [self._choose_partition(topic_state) for _ in range(runs)]
            candidates = topic_state.available or list(topic_state.targets)
            start = self._random.randrange(len(candidates))
            return [candidates[(start + run) % len(candidates)] for run in range(runs)]

    def find_target(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition | None:
        """Return the partition to which a record is added now; None if the given partition does not exist."""
        with self._lock:
            topic_state = self._get_topic_state(topic)
            if partition == STICKY_PARTITION:
                return topic_state.targets.get(topic_state.sticky)
            return topic_state.targets.get(topic_state.choose_partition_by_key(key) if partition is None else partition)

    def _get_topic_state(self, topic: str) -> _TopicState:
        """Return the state of a topic that was added with ``update_topic``.

        Raises:
            NetworkError: the producer was closed in the meantime.
        """
        topic_state = self._topics.get(topic)
        if topic_state is None:
            raise NetworkError("the producer was closed before the record was sent")
        return topic_state

    def drain(self, now: float | None) -> tuple[list[OpenBatch], float | None]:
        """Close and return the batches that are full or older than ``linger_ms``, in order, and the next drain time.

        Args:
            now: current time, in seconds of the monotonic clock; None to return all batches.
        """
        next_time: float | None = None
        with self._lock:
            self._is_woken = False
            closed_batches = list(self._full)
            self._full.clear()
            for topic_state, number, open_batch in list(self._iterate_open_batches()):
                due_time = open_batch.since + self._linger_s
                if now is None or due_time <= now:
                    closed_batches.append(topic_state.open_batches.pop(number))
                else:
                    next_time = due_time if next_time is None else min(due_time, next_time)
            self._has_timer = next_time is not None
            self.size_bytes -= sum(open_batch.size for open_batch in closed_batches)
        return closed_batches, next_time

    def close(self) -> list[OpenBatch]:
        """Reject further records. Return the open batches."""
        with self._lock:
            self._is_closed = True
            unsent_batches = [*self._full, *(open_batch for _, _, open_batch in self._iterate_open_batches())]
            self._full.clear()
            self._topics.clear()
            self.size_bytes = 0
        return unsent_batches

    def reset_after_fork(self) -> None:
        """Reject further records in a child process. Replace the lock, which another thread may have held."""
        self._lock = threading.Lock()
        self.close()

    def end_linger_time(self) -> None:
        """Make the next drain return all open batches, regardless of ``linger_ms``."""
        with self._lock:
            for _, _, open_batch in self._iterate_open_batches():
                open_batch.since = float("-inf")
        self.wake()

    def _iterate_open_batches(self) -> Iterator[tuple[_TopicState, int, OpenBatch]]:
        for topic_state in self._topics.values():
            for number, open_batch in topic_state.open_batches.items():
                yield topic_state, number, open_batch
