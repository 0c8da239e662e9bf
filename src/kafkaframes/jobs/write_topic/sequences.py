"""Assign sequences to the tasks of a micro-batch, which share one producer id and epoch.

In each partition the sequences of a producer must be consecutive. A broker treats a batch with sequences that it has
already appended as a duplicate, and discards its records with success. Therefore a task gets a **lease** of a partition
before it sends. The lease is exclusive, and starts at the first unused sequence. A lease ends when the task reports
that all its records were acknowledged. After the end of a lease, another task can get a lease of the partition.

``LeaseLedger`` detects the cases in which the driver must not commit. The ledger does no I/O. The driver must not
commit in these cases:

* A task is repeated: Spark retries it, runs a speculative copy of it, or runs its stage again. The task's first
  attempt may have written rows, and the second would write them again.
* A lease was not returned. The driver does not know how many of the task's records the broker has appended.
* The records of the tasks that Spark counts as successful differ from the acknowledged records.

A lease server is a ``TaskServer`` (``driver_process/task_server.py``). Requests of a task and its answers:

========================================= =====================================================
``{"task": N, "batch": {...}}``           ``{"id": transactional id, "producer": [id, epoch]}``:
                                          it may write; ``{"written": true}``: the batch was
                                          committed before
``{"want": [[topic, partition, count]]}`` ``{"got": [[topic, partition, first sequence]]}``
``{"wrote": [[topic, partition]]}``       ``{}``; may be combined with ``want`` in one request
``{"end": true}``                         ``{}``: the task has written everything
any                                       ``{"refused": reason}``, and the batch fails
========================================= =====================================================

If other tasks have leases of all partitions that a task requests, the answer is delayed. After ``POLL_TIMEOUT_S``
seconds the server sends an empty ``got``, and the task asks again, so neither side waits for a dead peer. A task whose
connection ends before ``end`` is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kafkaframes.client import TopicPartition
from kafkaframes.errors import KafkaframesError, LostTaskError
from kafkaframes.errors.words import count_text
from kafkaframes.records.build import next_sequence


class Lease(NamedTuple):
    """A task's exclusive right to write a number of records to a partition."""

    task: int
    records: int


_LEASE_WRITING: Final = "writing"
_LEASE_DONE: Final = "done"
_LEASE_LOST: Final = "lost"


class LeaseLedger:
    """The tasks and leases of one micro-batch."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms`` returns the time in milliseconds since 1970."""
        self._now_ms = now_ms
        self._written_counts: dict[TopicPartition, int] = {}
        self._leases: dict[TopicPartition, Lease] = {}
        self._tasks: dict[int, str] = {}
        self._failure: KafkaframesError | None = None
        self.since_ms: int | None = None  # time of the first lease: no task sends records before it

    def register_task(self, task: int) -> None:
        """Register a task by its number in the stage.

        Raises:
            KafkaframesError: a task with this number has already been registered.
        """
        if task in self._tasks:
            raise self.mark_failed(explain_repetition(task))
        self._tasks[task] = _LEASE_WRITING

    def lease_partitions(self, task: int, counts: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Lease to a task those of the requested partitions that are free. The result is empty if no partition is free.

        Args:
            counts: number of the task's records for each partition.

        Returns:
            The first sequence in each leased partition.

        Raises:
            KafkaframesError: the batch has failed.
        """
        self.raise_if_failed()
        if self._tasks.get(task) != _LEASE_WRITING:
            raise self.mark_failed(f"task {task} requested sequences, but is not a writing task")
        free_indexes = {index: records for index, records in counts.items() if index not in self._leases}
        if free_indexes and self.since_ms is None:
            self.since_ms = self._now_ms()
        for index, records in free_indexes.items():
            self._leases[index] = Lease(task, records)
        return {index: next_sequence(0, self._written_counts.get(index, 0)) for index in free_indexes}

    def note_written(self, task: int, indexes: Iterable[TopicPartition]) -> None:
        """End leases after all their records were acknowledged.

        Raises:
            KafkaframesError: a partition is not leased to this task.
        """
        for index in indexes:
            lease = self._leases.get(index)
            if lease is None or lease.task != task:
                raise self.mark_failed(f"task {task} wrote to {index} without a lease")
            del self._leases[index]
            self._written_counts[index] = self._written_counts.get(index, 0) + lease.records

    def finish_task(self, task: int) -> None:
        """Record that a task has written everything."""
        for index, lease in self._leases.items():
            if lease.task == task:
                raise self.mark_failed(f"task {task} ended before {index} had acknowledged its records")
        self._tasks[task] = _LEASE_DONE

    def lose_task(self, task: int) -> None:
        """Record the end of a task's connection. The task is lost if it has not written everything."""
        if self._tasks.get(task) == _LEASE_WRITING:
            self._tasks[task] = _LEASE_LOST

    def is_blocked(self, counts: Iterable[TopicPartition]) -> bool:
        """Return whether a lost task has the lease of one of these partitions, so that the partition stays leased."""
        leases = (self._leases.get(index) for index in counts)
        return any(lease is not None and self._tasks[lease.task] == _LEASE_LOST for lease in leases)

    def mark_failed(self, reason: str | KafkaframesError) -> KafkaframesError:
        """Mark the batch as failed, and return the error to raise. The first reason is stored.

        A text becomes a ``LostTaskError``.
        """
        error = LostTaskError(reason) if isinstance(reason, str) else reason
        if self._failure is None:
            self._failure = error
        return error

    def raise_if_failed(self) -> None:
        """Raise the stored reason if the batch has failed."""
        if self._failure is not None:
            raise self._failure

    def verify_acknowledged(self, reported_counts: Mapping[TopicPartition, int]) -> int:
        """Check that the acknowledged records are those of Spark's successful tasks, and return their number.

        Args:
            reported_counts: records in each partition, from the results of the tasks that Spark counts as successful.

        Raises:
            KafkaframesError: the numbers differ or a task was lost. The transaction must not be committed.
        """
        self.raise_if_failed()
        for index, lease in self._leases.items():
            raise self.mark_failed(
                f"task {lease.task} was lost while it wrote to {index}: the number of written records is unknown"
            )
        for task, state in self._tasks.items():
            if state != _LEASE_DONE:
                raise self.mark_failed(f"task {task} was lost before it had written all its records")
        for index in {**self._written_counts, **reported_counts}:
            acknowledged_count, written_count = self._written_counts.get(index, 0), reported_counts.get(index, 0)
            if acknowledged_count != written_count:
                raise self.mark_failed(
                    f"{index} has {count_text(acknowledged_count, 'record')} of this "
                    f"batch, but Spark's tasks report {written_count}"
                )
        return sum(self._written_counts.values())


def explain_repetition(task: int) -> str:
    """Return the reason for rejecting a repeated task."""
    return (
        f"task {task} would be repeated: its rows may be in the transaction already, so the whole batch fails and is "
        "written again"
    )
