"""Records that are sent one by one gather here until they become batches: any thread adds, the sender's loop takes.

As Kafka's ``RecordAccumulator``: a batch for each partition, closed when it is full or when it has waited for
``linger_ms``. A record without key and partition goes to the topic's sticky partition, which changes when it has got
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

from kafkaframes.client.metadata import Cluster, TopicMetadata, TopicPartition
from kafkaframes.client.outgoing import CheckedRecord
from kafkaframes.client.partitioners import DEFAULT_PARTITIONER, STICKY, PartitionChoice, choose_by_queue
from kafkaframes.client.record_futures import BatchResults, OnDelivery
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.errors import NetworkError
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.partitioner import partition_of

Headers = Sequence[tuple[str, bytes | None]]


class Gathering:
    """Records of one partition that become one batch.

    Attributes:
        since: when the first was added, in seconds of the monotonic clock.
        size: about how many bytes they take, with what a batch adds to each.
        limit: the largest size; a batch of one record may be larger.
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
        """Keys, values, timestamps and headers."""
        return self.keys, self.values, self.timestamps, self.headers


@dataclass(slots=True)
class _Topic:
    """What gathers for one topic, while its metadata are these."""

    metadata: TopicMetadata
    targets: dict[int, TopicPartition]
    ignores_keys: bool
    sticky: int = 0
    sticky_bytes: int = 0  # of the records that went to the sticky partition since it was chosen
    gathering: dict[int, Gathering] = field(default_factory=dict)

    def number(self, key: bytes | None) -> int:
        """Return the partition of a record that names none."""
        return self.sticky if key is None or self.ignores_keys else partition_of(key, len(self.targets))


class Accumulator:
    """Thread-safe; ``wake`` is called, without the lock, when there is something that ``drain`` should see."""

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
        self._is_woken = False  # and has not drained since
        self._has_timer = False  # whoever drains comes again by itself
        self._random = random.Random()
        self.wake = wake
        self.results: Callable[[TopicPartition, list[int]], BatchResults]
        self.limit_of: Callable[[str, float], int | None] = lambda topic, now: None  # bytes of a topic's batches
        self.queue_length: Callable[[TopicPartition], int] = lambda _: 0  # batches of a partition that wait
        self.is_stalled: Callable[[int], bool] = lambda _: False  # whether a node is too slow for sticky partitions
        self.may_open: Callable[[TopicPartition], bool] = lambda _: True
        self.size_bytes = 0  # of what gathers
        self.built_bytes = 0  # of batches that have no answer yet, as the sender counts them
        self.callback_bytes = 0  # of records whose on_delivery has not returned
        self.is_in_callback: Callable[[], bool] = lambda: False  # whether the current thread runs an on_delivery

    def add(self, record: CheckedRecord, owner: Any = None, on_delivery: OnDelivery | None = None) -> Any:
        """Take a record; return its future, or None where something has to be waited for first.

        That is the producer's start, the topic's metadata, memory, or a partition that is not in the transaction yet.
        """
        topic, key, value, headers, partition, timestamp, size = record
        with self._lock:
            used = self.size_bytes + self.built_bytes + self.callback_bytes
            known = self._topics.get(topic)
            if known is None or (used + size > self._buffer_bytes and used and not self._has_space(size)):
                return None
            is_sticky = partition == STICKY or (partition is None and (key is None or known.ignores_keys))
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
        """Return whether a record fits although callbacks hold memory: an ``on_delivery`` cannot wait for itself."""
        used = self.size_bytes + self.built_bytes
        return self.is_in_callback() and (not used or used + size <= self._buffer_bytes)

    def hold_for_callbacks(self, size: int) -> None:
        """Count the bytes of records whose ``on_delivery`` is to be called; a negative size releases them."""
        with self._lock:
            self.callback_bytes += size

    def _next(self, known: _Topic, number: int, size: int, *, is_sticky: bool) -> Gathering | None:
        """Close what is full; return what a record is added to instead, which may be of another partition."""
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
        """Choose the partition of the next records without a key."""
        known.sticky, known.sticky_bytes = self._choose_partition(known), 0

    def _choose_partition(self, known: _Topic) -> int:
        """Return a partition with a leader at random. Partitions with short queues are more likely (KIP-794)."""
        candidates = self._available(known) or list(known.targets)
        if not self._is_adaptive or not self.built_bytes:
            return self._random.choice(candidates)
        served = [number for number in candidates if not self.is_stalled(known.metadata.partitions[number].leader)]
        candidates = served or candidates
        lengths = [self.queue_length(known.targets[number]) + (number in known.gathering) for number in candidates]
        return choose_by_queue(candidates, lengths, self._random)

    @staticmethod
    def _available(known: _Topic) -> list[int]:
        return [number for number in known.targets if known.metadata.partitions[number].leader >= 0]

    def _close(self, known: _Topic, number: int) -> None:
        self._full.append(known.gathering.pop(number))
        self._ask_to_wake()

    def _ask_to_wake(self) -> None:
        if not self._is_woken:
            self._is_woken = self._needs_wake = True

    # -------------------------------------------------------------------------------------- the side of the loop

    def learn(self, topic: str) -> None:
        """Take a topic's metadata, which the cluster has now."""
        with self._lock:
            if self._is_closed:
                return
            metadata = self._metadata[topic]
            known = self._topics.get(topic)
            targets = {index: TopicPartition(topic, index) for index in sorted(metadata.partitions)}
            if known is None:
                known = self._topics[topic] = _Topic(metadata, targets, self._partitioner.ignores_keys)
                self._move_sticky(known)
            else:
                known.metadata, known.targets = metadata, targets
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
        number = self._partitioner.choose(topic, key, value, len(known.targets), self._available(known))
        return (*record[:4], number, *record[5:])

    def sticky_partitions(self, topic: str, runs: int) -> list[int]:
        """Return the partitions of this many runs of records that name neither key nor partition, one for each run."""
        with self._lock:
            known = self._topic(topic)
            first = self._choose_partition(known)
            others = self._available(known) or list(known.targets)
            if not self._is_adaptive or not self.built_bytes:
                start = others.index(first)
                return [others[(start + run) % len(others)] for run in range(runs)]
            return [first, *(self._choose_partition(known) for _ in range(runs - 1))]

    def target(self, topic: str, key: bytes | None, partition: int | None) -> TopicPartition | None:
        """Return where a record would go now; None for a partition that does not exist."""
        with self._lock:
            known = self._topic(topic)
            if partition == STICKY:
                return known.targets.get(known.sticky)
            return known.targets.get(known.number(key) if partition is None else partition)

    def _topic(self, topic: str) -> _Topic:
        """Return a topic that was learned.

        Raises:
            NetworkError: the producer was closed in the meantime.
        """
        known = self._topics.get(topic)
        if known is None:
            raise NetworkError("the producer was closed before this was sent")
        return known

    def drain(self, now: float | None) -> tuple[list[Gathering], float | None]:
        """Take what is full, and what has waited for ``linger_ms``; return it in order, and when to come again.

        Args:
            now: seconds of the monotonic clock; None takes all.
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
        """Take no record any more; return what gathers."""
        with self._lock:
            self._is_closed = True
            gathered = [*self._full, *(gathering for _, _, gathering in self._open())]
            self._full.clear()
            self._topics.clear()
            self.size_bytes = 0
        return gathered

    def fork(self) -> None:
        """Take no record any more in a child process, where another thread may have held the lock."""
        self._lock = threading.Lock()
        self.close()

    def hasten(self) -> None:
        """Let nothing linger that gathers now."""
        with self._lock:
            for _, _, gathering in self._open():
                gathering.since = float("-inf")
        self.wake()

    def _open(self) -> Iterator[tuple[_Topic, int, Gathering]]:
        for known in self._topics.values():
            for number, gathering in known.gathering.items():
                yield known, number, gathering
