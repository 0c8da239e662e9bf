"""Divide live topics among tasks, as offset ranges or as shares whose offsets are resolved later. No I/O.

Spark plans the tasks of a DataFrame once and runs them for each action. The share of a task therefore has no first and
end offset. Each action resolves these offsets for all tasks (``spark/sources/execution_offsets.py``). If a partition is
split into several ranges, their boundaries do not change, and records that arrive later belong to the last range. Each
offset thus always belongs to the same task. If Spark repeats a task in a later action, because a cached block was lost,
no record is skipped or read twice.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkaframes.client.metadata import TopicPartition

Bounds = dict[TopicPartition, tuple[int, int]]  # first offset and exclusive end offset


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """A range of offsets in one partition, from ``first`` to ``end`` (exclusive)."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as an object."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size_bytes(self) -> int:
        """Always 0, because brokers do not report sizes of offset ranges."""
        return 0

    @property
    def label(self) -> str:
        """A label for messages: the partition and the offsets."""
        return f"{self.topic_partition}, offsets {self.first} to {self.end}"


@dataclass(frozen=True, slots=True)
class RangeShare:
    """A fixed part of one partition for one task. Open bounds of a share are resolved to offsets when the task runs.

    Attributes:
        lower: first offset of the part; None if it is the first part of the partition.
        upper: exclusive end offset of the part; None if it is the last part of the partition.
    """

    topic: str
    partition: int
    lower: int | None = None
    upper: int | None = None

    def clip_range(self, first: int, end: int) -> PartitionRange:
        """Return the range from ``first`` to ``end`` (exclusive), limited to this part."""
        first = first if self.lower is None else max(first, self.lower)
        return PartitionRange(self.topic, self.partition, first, end if self.upper is None else min(end, self.upper))


@dataclass(frozen=True, slots=True)
class NewPartitionShare:
    """One task's share of the partitions that were created after the tasks were planned.

    Attributes:
        counts: number of partitions of each topic when the tasks were planned.
        index: number of this task among the tasks that read new partitions.
        tasks: number of tasks that read new partitions.
    """

    counts: Mapping[str, int]
    index: int
    tasks: int

    def reads_partition(self, partition: TopicPartition) -> bool:
        """Return whether this task reads a partition."""
        is_new = partition.partition >= self.counts.get(partition.topic, 0)
        return is_new and zlib.crc32(str(partition).encode()) % self.tasks == self.index


@dataclass(frozen=True, slots=True)
class TaskShare:
    """The partitions, and parts of partitions, that one task reads."""

    parts: tuple[RangeShare, ...]
    new: NewPartitionShare | None = None

    def select_ranges(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> list[PartitionRange]:
        """Return the non-empty ranges of this task.

        Args:
            bounds: first offset and exclusive end offset of each partition. Deleted partitions are missing.
        """
        parts = list(self.parts)
        if self.new is not None:
            parts += [
                RangeShare(partition.topic, partition.partition)
                for partition in sorted(bounds, key=lambda partition: (partition.topic, partition.partition))
                if self.new.reads_partition(partition)
            ]
        partitions = [(part, TopicPartition(part.topic, part.partition)) for part in parts]
        ranges = [part.clip_range(*bounds[partition]) for part, partition in partitions if partition in bounds]
        return [entry for entry in ranges if entry.first < entry.end]


def divide_among_tasks(
    partitions: Sequence[TopicPartition], ranges: Iterable[PartitionRange], *, cores: int, can_grow: bool
) -> list[TaskShare]:
    """Return the shares of all tasks, at least one.

    Args:
        partitions: all existing partitions.
        ranges: non-empty offset ranges of these partitions, in order. Each range becomes a task.
        cores: largest number of tasks that read empty and new partitions.
        can_grow: whether new partitions are read.
    """
    by_partition: dict[TopicPartition, list[PartitionRange]] = {}
    for entry in ranges:
        by_partition.setdefault(entry.topic_partition, []).append(entry)
    tasks = [[part] for entries in by_partition.values() for part in _to_shares(entries)]
    empty = [partition for partition in partitions if partition not in by_partition]
    tasks += [[] for _ in range(min(len(empty), cores - len(tasks)))]
    if not tasks:
        tasks = [[]]
    smallest = sorted(tasks, key=len)[:cores]  # tasks without a part are first
    for index, partition in enumerate(empty):
        smallest[index % len(smallest)].append(RangeShare(partition.topic, partition.partition))
    counts: dict[str, int] = {}
    for partition in partitions:
        counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
    readers_of_new = min(len(tasks), cores) if can_grow else 0
    return [
        TaskShare(tuple(task), NewPartitionShare(counts, index, readers_of_new) if index < readers_of_new else None)
        for index, task in enumerate(tasks)
    ]


def _to_shares(entries: Sequence[PartitionRange]) -> list[RangeShare]:
    """Return the shares of one partition's ranges. The first has no lower bound, and the last has no upper bound."""
    boundaries: list[int | None] = [None, *(entry.first for entry in entries[1:]), None]
    return [
        RangeShare(entry.topic, entry.partition, lower, upper)
        for entry, lower, upper in zip(entries, boundaries[:-1], boundaries[1:], strict=True)
    ]
