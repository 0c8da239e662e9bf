"""Which task of a micro-batch may write to which topic partition now, and with which sequences. Pure; no I/O.

All tasks of a micro-batch write with one producer id and epoch, so that a broker sees one producer: in each partition
its sequences must follow each other, and a batch with sequences that it has taken already counts as a repetition,
whose records it drops as done. So a task gets a **lease** of a partition before it sends: it alone may write there,
from the first sequence that nobody has used, until it says that all of it was acknowledged. Then the next may.

What the driver must not commit is found here:

* a task that comes a second time (Spark repeats it, runs a copy of it, or runs its stage again): its first attempt may
  have written rows, and the second would write them again;
* a lease that was not given back: how much of it the broker has nobody knows;
* tasks whose records, as Spark counts those that have succeeded, are not the records that were acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kafkaframes.client import TopicPartition
from kafkaframes.errors import KafkaframesError, LostTaskError
from kafkaframes.records.build import next_sequence


class Lease(NamedTuple):
    """A partition that is one task's for a while."""

    task: int
    records: int


_WRITING: Final = "writing"
_DONE: Final = "done"
_LOST: Final = "lost"


class Ledger:
    """The tasks and leases of one micro-batch."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """Take what tells the time, in milliseconds since 1970."""
        self._now_ms = now_ms
        self._written: dict[TopicPartition, int] = {}
        self._leases: dict[TopicPartition, Lease] = {}
        self._tasks: dict[int, str] = {}
        self._failure: KafkaframesError | None = None
        self.since_ms: int | None = None  # when the first lease was given: before it nobody has sent anything

    def enter(self, task: int) -> None:
        """Let a task begin, by its number in the stage.

        Raises:
            KafkaframesError: one of that number was here already.
        """
        if task in self._tasks:
            raise self.fail(repetition_refused(task))
        self._tasks[task] = _WRITING

    def lease(self, task: int, requested: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Give a task those of the partitions that are free, perhaps none.

        Args:
            task: its number.
            requested: how many records it has for each.

        Returns:
            The first sequence in each that it gets.

        Raises:
            KafkaframesError: the batch has failed.
        """
        self.check()
        if self._tasks.get(task) != _WRITING:
            raise self.fail(f"task {task} asks for sequences, and is not among those that write")
        free = {index: records for index, records in requested.items() if index not in self._leases}
        if free and self.since_ms is None:
            self.since_ms = self._now_ms()
        for index, records in free.items():
            self._leases[index] = Lease(task, records)
        return {index: next_sequence(0, self._written.get(index, 0)) for index in free}

    def written(self, task: int, indexes: Iterable[TopicPartition]) -> None:
        """Take leases back: all their records were acknowledged.

        Raises:
            KafkaframesError: a partition is not leased to this task.
        """
        for index in indexes:
            lease = self._leases.get(index)
            if lease is None or lease.task != task:
                raise self.fail(f"task {task} wrote to {index} without a lease")
            del self._leases[index]
            self._written[index] = self._written.get(index, 0) + lease.records

    def leave(self, task: int) -> None:
        """Note that a task has written everything."""
        held = self._held_by(task)
        if held:
            raise self.fail(f"task {task} ended before {held[0]} had acknowledged its records")
        self._tasks[task] = _DONE

    def lose(self, task: int) -> None:
        """Note that a task is gone, whether it had written everything or not."""
        if self._tasks.get(task) == _WRITING:
            self._tasks[task] = _LOST

    def is_blocked(self, requested: Iterable[TopicPartition]) -> bool:
        """Return whether one of these partitions will never be free again."""
        leases = (self._leases.get(index) for index in requested)
        return any(lease is not None and self._tasks[lease.task] == _LOST for lease in leases)

    def fail(self, reason: str | KafkaframesError) -> KafkaframesError:
        """Have the batch fail, for the first reason of all; return the error to raise. A text tells of a lost task."""
        error = LostTaskError(reason) if isinstance(reason, str) else reason
        if self._failure is None:
            self._failure = error
        return error

    def check(self) -> None:
        """Raise why the batch has failed, if it has."""
        if self._failure is not None:
            raise self._failure

    def settle(self, reported: Mapping[TopicPartition, int]) -> int:
        """Check that what was acknowledged is what Spark's successful tasks have written; return how many records.

        Args:
            reported: records in each partition, by the results of the tasks that Spark takes as successful.

        Raises:
            KafkaframesError: it is not, and the transaction must not be committed.
        """
        self.check()
        for index, lease in self._leases.items():
            raise self.fail(
                f"task {lease.task} was lost while it wrote to {index}: it is not known how much was written"
            )
        for task, state in self._tasks.items():
            if state != _DONE:
                raise self.fail(f"task {task} was lost before it had written everything")
        for index in {**self._written, **reported}:
            acknowledged, written = self._written.get(index, 0), reported.get(index, 0)
            if acknowledged != written:
                raise self.fail(f"{index} has {acknowledged} records of this batch, and Spark's tasks report {written}")
        return sum(self._written.values())

    def _held_by(self, task: int) -> list[TopicPartition]:
        return [index for index, lease in self._leases.items() if lease.task == task]


def repetition_refused(task: int) -> str:
    """Return why a task that comes a second time is refused."""
    return (
        f"task {task} would be repeated: its rows may be in the transaction already, so the whole batch fails and is "
        "written anew"
    )
