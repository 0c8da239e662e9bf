"""Which task reads what of live topics: ranges of offsets, and shares whose offsets are resolved later. No I/O.

Spark plans the tasks of a DataFrame once, and runs them for each action. A task's share therefore names no first offset
and no end; each action resolves them for all tasks (``spark/execution_offsets.py``). Where a partition was cut into
several ranges, the cuts stay: records that arrive later belong to the last range. Each offset thus belongs to the same
task for ever, and a task that Spark repeats in a later action (a block of a cache that was lost) neither skips records
of its neighbours nor repeats them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkaframes.client.metadata import TopicPartition

Bounds = dict[TopicPartition, tuple[int, int]]  # the first offset and the end, which is exclusive


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of one partition: from ``first`` to ``end``, which is not read itself."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size_bytes(self) -> int:
        """0: a broker does not report it."""
        return 0

    @property
    def label(self) -> str:
        """The partition and its offsets."""
        return f"{self.topic_partition}, offsets {self.first} to {self.end}"


@dataclass(frozen=True, slots=True)
class RangeShare:
    """A part of one partition, whichever offsets it has.

    Attributes:
        topic, partition: the partition.
        lower: the first offset that belongs to it; None: there is no part before it.
        upper: the first offset that does not belong to it any more; None: there is no part after it.
    """

    topic: str
    partition: int
    lower: int | None = None
    upper: int | None = None

    def range_in(self, first: int, end: int) -> Range:
        """Return what this part has of the offsets from ``first`` to ``end``."""
        first = first if self.lower is None else max(first, self.lower)
        return Range(self.topic, self.partition, first, end if self.upper is None else min(end, self.upper))


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The partitions that did not exist when the tasks were planned, as far as they fall to one task.

    Attributes:
        counts: the number of partitions of each topic at that time.
        index, tasks: this task among those that read new partitions.
    """

    counts: Mapping[str, int]
    index: int
    tasks: int

    def has(self, partition: TopicPartition) -> bool:
        """Return whether this task reads a partition."""
        is_new = partition.partition >= self.counts.get(partition.topic, 0)
        return is_new and zlib.crc32(str(partition).encode()) % self.tasks == self.index


@dataclass(frozen=True, slots=True)
class TaskShare:
    """What one task reads."""

    parts: tuple[RangeShare, ...]
    new: NewPartitions | None = None

    def ranges_in(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        """Return the ranges of this task, without empty ones.

        Args:
            bounds: the first offset and the end of each partition; a partition that is missing was deleted.
        """
        parts = list(self.parts)
        if self.new is not None:
            parts += [
                RangeShare(partition.topic, partition.partition)
                for partition in sorted(bounds, key=lambda partition: (partition.topic, partition.partition))
                if self.new.has(partition)
            ]
        partitions = [(part, TopicPartition(part.topic, part.partition)) for part in parts]
        ranges = [part.range_in(*bounds[partition]) for part, partition in partitions if partition in bounds]
        return [entry for entry in ranges if entry.first < entry.end]


def share_out(
    partitions: Sequence[TopicPartition], ranges: Iterable[Range], *, cores: int, can_grow: bool
) -> list[TaskShare]:
    """Return the shares of tasks; at least one.

    Args:
        partitions: all that are read now.
        ranges: what they hold now, in order; each becomes a task.
        cores: so many tasks read empty and new partitions.
        can_grow: whether partitions may be added.
    """
    by_partition: dict[TopicPartition, list[Range]] = {}
    for entry in ranges:
        by_partition.setdefault(entry.topic_partition, []).append(entry)
    tasks = [[part] for entries in by_partition.values() for part in _open_ended(entries)]
    empty = [partition for partition in partitions if partition not in by_partition]
    tasks += [[] for _ in range(min(len(empty), cores - len(tasks)))]
    if not tasks:
        tasks = [[]]
    smallest = sorted(tasks, key=len)[:cores]  # those without a part first
    for index, partition in enumerate(empty):
        smallest[index % len(smallest)].append(RangeShare(partition.topic, partition.partition))
    counts: dict[str, int] = {}
    for partition in partitions:
        counts[partition.topic] = max(counts.get(partition.topic, 0), partition.partition + 1)
    readers_of_new = min(len(tasks), cores) if can_grow else 0
    return [
        TaskShare(tuple(task), NewPartitions(counts, index, readers_of_new) if index < readers_of_new else None)
        for index, task in enumerate(tasks)
    ]


def _open_ended(entries: Sequence[Range]) -> list[RangeShare]:
    """Return the shares of the ranges of one partition: the first has no lower bound, the last no upper one."""
    cuts: list[int | None] = [None, *(entry.first for entry in entries[1:]), None]
    return [
        RangeShare(entry.topic, entry.partition, lower, upper)
        for entry, lower, upper in zip(entries, cuts[:-1], cuts[1:], strict=True)
    ]
