"""The results of single records: one result for a whole batch, and a future of each record that refers to it.

A batch has one response, so its records share one state and one lock. A future computes its result on access.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkaframes.client.batches import PartResult, RecordMetadata
from kafkaframes.client.interceptors import AcknowledgementCallback
from kafkaframes.client.loop import CallbackThread
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.missing_names import reject_attributes

OnDelivery = Callable[[Exception | None, RecordMetadata | None], object]
_LOG: Final = logging.getLogger("kafkaframes.client")
_get_first_record: Final = attrgetter("first")
_PENDING, _FINISHED = "PENDING", "FINISHED"  # state names of ``concurrent.futures``


class FutureOwner(Protocol):
    """The method of a producer that its futures use."""

    def check_wait(self, method: str) -> None:
        """Raise OptionError if waiting would never end."""


# Methods of kafka-python's futures.
_FUTURE_HINTS: Final = {
    "get": "result(SECONDS) waits for the result",
    "add_callback add_errback": "pass on_delivery to send(), or use add_done_callback()",
    "is_done succeeded failed": "done() and exception() return the state",
}


class RecordFuture(concurrent.futures.Future[RecordMetadata]):
    """A future of a sent record's ``RecordMetadata``, for threads.

    The future works with ``concurrent.futures.wait``, ``as_completed`` and ``asyncio.wrap_future``. The future cannot
    be cancelled.
    """

    __slots__ = ("_owner", "_results", "_row")

    def __init__(self, results: ThreadResults, row: int, owner: FutureOwner | None) -> None:
        self._results = results
        self._row = row
        self._owner = owner  # keeps the producer alive until its records have results

    if not TYPE_CHECKING:  # type checkers would accept every attribute
        __getattr__ = reject_attributes(_FUTURE_HINTS)

    def cancel(self) -> bool:
        """Return False: a sent record cannot be cancelled."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result, and return it.

        Args:
            timeout: longest wait, in seconds; None waits without limit.

        Raises:
            TimeoutError: no result after ``timeout``.
            OptionError: the result is not available and cannot arrive, because the caller is an ``on_delivery`` or a
                child process.
            KafkaframesError: the reason why the record is not, or may not be, in the log.
        """
        self._check_wait("result()")
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the result, and return the error; None if the record is in the log.

        Raises the same errors as ``result``.

        Args:
            timeout: longest wait, in seconds; None waits without limit.
        """
        self._check_wait("exception()")
        return super().exception(timeout)

    def _check_wait(self, method: str) -> None:
        """Check that a method may wait for the result."""
        if self._owner is not None and self._results.state is not _FINISHED:
            self._owner.check_wait(method)

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return self._results.condition

    @property
    def _state(self) -> str:  # type: ignore[override]
        return self._results.state

    @property
    def _result(self) -> RecordMetadata | None:  # type: ignore[override]
        return self._results.get_metadata(self._row)

    @property
    def _exception(self) -> Exception | None:  # type: ignore[override]
        return self._results.get_error(self._row)

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        return self._results.get_watched_future(self, self._row)[1]

    @property
    def _done_callbacks(self) -> list[Callable[[Any], object]]:
        return self._results.get_watched_future(self, self._row)[2]


WatchedFuture = tuple[RecordFuture, list[Any], list[Callable[[Any], object]]]  # a future, its waiters, its callbacks


class ThreadResults:
    """The results of one batch, for callers in other threads.

    Attributes:
        hold_memory: callback with the size of the records before the users' callbacks are called, and with the negative
            size after they have returned; None if the memory is not counted.
        size_bytes: size of the records.
    """

    __slots__ = (
        "_callbacks",
        "_calls",
        "_parts",
        "_target",
        "_timestamps",
        "_watched_futures",
        "condition",
        "count",
        "hold_memory",
        "size_bytes",
        "state",
    )

    def __init__(self, target: TopicPartition, timestamps: list[int], callbacks: CallbackThread | None = None) -> None:
        """Create the results of an empty batch.

        Args:
            target: partition of the batch.
            timestamps: list to which the batch's timestamps are appended.
            callbacks: thread that calls ``on_delivery`` and the futures' callbacks; None for the loop's thread.
        """
        self._target = target
        self._timestamps = timestamps
        self._callbacks = callbacks
        self._watched_futures: dict[int, WatchedFuture] = {}
        self._calls: list[tuple[int, OnDelivery]] = []
        self.condition = threading.Condition()
        self.state = _PENDING
        self.count = 0
        self._parts: Sequence[PartResult] = ()
        self.hold_memory: Callable[[int], object] | None = None
        self.size_bytes = 0

    def create_future(self, owner: FutureOwner | None, on_delivery: OnDelivery | None) -> RecordFuture:
        """Return the future of the next record. ``on_delivery`` is called with the record's error or metadata."""
        row = self.count
        self.count = row + 1
        if on_delivery is not None:
            self._calls.append((row, _bind_partition(on_delivery, self._target)))
        return RecordFuture(self, row, owner)

    def get_watched_future(self, future: RecordFuture, row: int) -> WatchedFuture:
        """Return the future's entry, which has the waiters and the callbacks that are notified of the result."""
        return self._watched_futures.setdefault(row, (future, [], []))

    def get_metadata(self, row: int) -> RecordMetadata | None:
        """Return the metadata of a record; None while it is unknown."""
        part = _find_part(self._parts, row)
        if part is None or part.error is not None:
            return None
        return _to_metadata(self._target, part, row, self._timestamps[row])

    def get_error(self, row: int) -> Exception | None:
        """Return the error for a record; None while the result is unknown, or if the record is in the log."""
        part = _find_part(self._parts, row)
        return None if part is None else part.error

    def set_error(self, error: Exception) -> None:
        """Set the error for all records in the batch, and notify the waiting threads."""
        self.set_results([PartResult(0, self.count, error=error)])

    drop = set_error

    def set_results(self, parts: Sequence[PartResult]) -> None:
        """Set the results of all records, and notify the waiting threads."""
        with self.condition:
            self._parts = parts
            self.state = _FINISHED
            for row, (future, waiters, _) in self._watched_futures.items():
                for waiter in waiters:
                    waiter.add_result(future) if self.get_error(row) is None else waiter.add_exception(future)
            self.condition.notify_all()
            has_calls = bool(self._calls) or any(callbacks for _, _, callbacks in self._watched_futures.values())
        if not has_calls:
            return
        if self.hold_memory is not None:
            self.hold_memory(self.size_bytes)
        if self._callbacks is None:
            self._run_callbacks()
        else:
            self._callbacks.submit(self._run_callbacks)

    def _run_callbacks(self) -> None:
        for future, _, callbacks in self._watched_futures.values():
            for callback in callbacks:
                _call_user_function(callback, future)
        for row, on_delivery in self._calls:
            _call_user_function(on_delivery, self.get_error(row), self.get_metadata(row))
        self._calls.clear()
        if self.hold_memory is not None:
            self.hold_memory(-self.size_bytes)


def _find_part(parts: Sequence[PartResult], row: int) -> PartResult | None:
    """Return the part of a batch that contains a record; None while the batch has no results."""
    if len(parts) > 1:
        return parts[bisect_right(parts, row, key=_get_first_record) - 1]
    return parts[0] if parts else None


def _to_metadata(target: TopicPartition, part: PartResult, row: int, timestamp: int) -> RecordMetadata:
    """Return the metadata of a record. The timestamp is the broker's if the broker stamps records."""
    offset = -1 if part.base_offset < 0 else part.base_offset + row - part.first
    time_ms = timestamp if part.append_time < 0 else part.append_time
    return RecordMetadata(target.topic, target.partition, offset, time_ms)


def _bind_partition(on_delivery: OnDelivery, target: TopicPartition) -> OnDelivery:
    """Return the callback, after setting the record's partition if the callback calls interceptors."""
    if isinstance(on_delivery, AcknowledgementCallback):
        on_delivery.partition = target.partition
    return on_delivery


def _call_user_function(function: Callable[..., object], *arguments: object) -> None:
    """Call a user's function, and only log the function's exceptions, because other batches must continue."""
    try:
        function(*arguments)
    except BaseException:  # ``sys.exit``, too
        _LOG.exception("%r raised an exception", function)


class LoopResults:
    """The results of one batch, for callers on the event loop."""

    __slots__ = ("_calls", "_futures", "_loop", "_target", "_timestamps")

    def __init__(self, target: TopicPartition, timestamps: list[int]) -> None:
        self._target = target
        self._timestamps = timestamps
        self._futures: list[asyncio.Future[RecordMetadata]] = []
        self._calls: list[tuple[int, OnDelivery]] = []
        self._loop = asyncio.get_running_loop()

    def create_future(self, owner: object, on_delivery: OnDelivery | None) -> asyncio.Future[RecordMetadata]:
        """Return the future of the next record. ``on_delivery`` is called even if the future was cancelled."""
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        if on_delivery is not None:
            self._calls.append((len(self._futures), _bind_partition(on_delivery, self._target)))
        self._futures.append(future)
        return future

    def set_results(self, parts: Sequence[PartResult]) -> None:
        """Call each ``on_delivery``, and set each future's metadata or error."""
        calls, self._calls = self._calls, []
        for row, on_delivery in calls:
            part = _find_part(parts, row)
            assert part is not None
            metadata = None if part.error else _to_metadata(self._target, part, row, self._timestamps[row])
            _call_user_function(on_delivery, part.error, metadata)
        for part in parts:
            for row, future in enumerate(self._futures[part.first : part.first + part.records], part.first):
                if future.done():
                    continue
                if part.error is None:
                    future.set_result(_to_metadata(self._target, part, row, self._timestamps[row]))
                else:
                    future.set_exception(part.error)

    def set_error(self, error: Exception) -> None:
        """Set the error of each future."""
        self.set_results([PartResult(0, len(self._futures), error=error)])

    def drop(self, error: Exception) -> None:
        """Set the error of each future and mark it as retrieved, so that asyncio does not log it."""
        self.set_error(error)
        for future in self._futures:
            if not future.cancelled():
                future.exception()  # marks the exception as retrieved, so that asyncio does not log it


BatchResults = ThreadResults | LoopResults  # the results of the records of one batch


def pass_results(results: BatchResults, future: asyncio.Future[list[PartResult]]) -> None:
    """Pass the result of a batch to the futures of its records."""
    if future.cancelled():
        results.set_error(KafkaframesError("cancelled"))
    else:
        results.set_results(future.result())
