"""Read the slices of a scan in threads, ahead of the caller, and yield their rows in order.

Kernels release the GIL, so threads decompress and copy in parallel, and rows are not copied between processes. The
rows that wait for the caller are limited in bytes. The thread that reads the caller's current slice never waits for the
rows of later slices, so the limit cannot stop the scan.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

import pyarrow as pa


class ReadableSlice(Protocol):
    """The interface of a slice that ``ReadAhead`` can read in a thread."""

    def read(self, errors: list[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order, and append damage to ``errors``."""


class _SliceRows:
    """The rows of a slice that the caller has not taken yet."""

    __slots__ = ("batches", "errors", "failure", "is_complete")

    def __init__(self) -> None:
        self.batches: deque[pa.RecordBatch] = deque()
        self.errors: list[Any] = []
        self.failure: BaseException | None = None
        self.is_complete = False


class ReadAhead:
    """Threads that read slices ahead of the caller, and the rows that the caller has not taken.

    Args:
        slices: Slices in row order.
        threads: Number of threads.
        max_bytes: Largest size of the rows that wait for the caller, exceeded by one batch at most; None means no
            limit.
    """

    def __init__(self, slices: Sequence[ReadableSlice], *, threads: int, max_bytes: int | None) -> None:
        self._slices = slices
        self._rows = [_SliceRows() for _ in slices]
        self._max_bytes = max_bytes
        self._waiting_bytes = 0
        self._next_slice = 0  # the slice that the next idle thread reads
        self._current_slice = 0  # the slice with the rows that the caller takes
        self._is_stopped = False
        self._condition = threading.Condition()
        # Daemons, because an iterator that is still open at the end of the process must not prevent its exit.
        self._threads = [
            threading.Thread(target=self._read_slices, name=f"kafkaframes scan {number}", daemon=True)
            for number in range(min(threads, len(slices)))
        ]

    def __enter__(self) -> ReadAhead:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if sys.is_finalizing():  # the interpreter has stopped the threads at an arbitrary point
            return
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join()

    def read_slice_rows(self, index: int, errors: list[Any]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice. Slices must be taken in order.

        Args:
            index: The slice's index.
            errors: List to which the slice's damage is appended.
        """
        rows = self._rows[index]
        reported_count = 0
        with self._condition:
            self._current_slice = index
            self._condition.notify_all()
        while True:
            with self._condition:
                while not rows.batches and not rows.is_complete:
                    self._condition.wait()
                batch = rows.batches.popleft() if rows.batches else None
                if batch is not None:
                    self._waiting_bytes -= batch.nbytes
                    self._condition.notify_all()
                errors += rows.errors[reported_count:]
                reported_count = len(rows.errors)
            if batch is None:
                break
            yield batch
        if rows.failure is not None:
            raise rows.failure

    def _read_slices(self) -> None:
        """Read slices until all slices have been read. This is the main function of a thread."""
        while (index := self._claim_slice()) is not None:
            rows = self._rows[index]
            try:
                with closing(_to_generator(self._slices[index].read(rows.errors))) as batches:
                    for batch in batches:
                        if not self._put_batch(index, batch):
                            return
            except BaseException as failure:  # raised by ``read_slice_rows``, in the caller's thread
                rows.failure = failure
            with self._condition:
                rows.is_complete = True
                if rows.failure is not None:
                    self._next_slice = len(self._slices)  # the caller does not reach later slices
                self._condition.notify_all()

    def _claim_slice(self) -> int | None:
        """Return the index of the next slice that no thread has started; None if all were started."""
        with self._condition:
            if self._is_stopped or self._next_slice >= len(self._slices):
                return None
            self._next_slice += 1
            return self._next_slice - 1

    def _put_batch(self, index: int, batch: pa.RecordBatch) -> bool:
        """Add a batch as soon as the memory limit permits it; return False if the caller has stopped reading."""
        with self._condition:
            while not self._is_stopped and not self._has_space(index):
                self._condition.wait()
            if self._is_stopped:
                return False
            self._rows[index].batches.append(batch)
            self._waiting_bytes += batch.nbytes
            self._condition.notify_all()
            return True

    def _has_space(self, index: int) -> bool:
        """Return whether a batch of this slice can be added without exceeding the memory limit."""
        if self._max_bytes is None or self._waiting_bytes < self._max_bytes:
            return True
        return index == self._current_slice and not self._rows[index].batches


def _to_generator(batches: Iterator[pa.RecordBatch]) -> Any:
    """Return an iterator with ``close``, which releases the files of a slice that is not read to its end."""
    return batches if hasattr(batches, "close") else (batch for batch in batches)
