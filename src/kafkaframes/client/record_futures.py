"""What a sender of single records holds: one result for a whole batch, and a future for each record that looks at it.

A batch has one answer, so its records share one state and one lock; what a future says is made when it is looked at.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from kafkaframes.client.batches import PartResult, RecordMetadata
from kafkaframes.client.interceptors import Acknowledgement
from kafkaframes.client.loop import CallbackThread
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import KafkaframesError

OnDelivery = Callable[[Exception | None, RecordMetadata | None], object]
_LOG: Final = logging.getLogger(__name__)
_FIRST: Final = attrgetter("first")
_PENDING, _FINISHED = "PENDING", "FINISHED"  # as ``concurrent.futures`` names them


class Owner(Protocol):
    """A producer, as its futures know it."""

    def check_wait(self, what: str) -> None:
        """Raise OptionError if waiting would never end."""


class RecordFuture(concurrent.futures.Future[RecordMetadata]):
    """A future of a sent record's ``RecordMetadata``, for threads.

    It works with ``concurrent.futures.wait``, ``as_completed`` and ``asyncio.wrap_future``. It cannot be cancelled.
    """

    __slots__ = ("_owner", "_results", "_row")

    def __init__(self, results: ThreadResults, row: int, owner: Owner | None) -> None:
        self._results = results
        self._row = row
        self._owner = owner  # a producer must not end before its records have

    def cancel(self) -> bool:
        """Return False: a sent record cannot be called back."""
        return False

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the result, and return it.

        Args:
            timeout: longest wait, in seconds; None waits without limit.

        Raises:
            TimeoutError: no result after ``timeout``.
            OptionError: there is no result yet, and none can arrive: in ``on_delivery``, or in a child process.
            KafkaframesError: the reason why the record is not, or may not be, in the log.
        """
        self._check_wait("result()")
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the result, and return the error; None if the record is in the log. Raises as ``result`` does.

        Args:
            timeout: longest wait, in seconds; None waits without limit.
        """
        self._check_wait("exception()")
        return super().exception(timeout)

    def _check_wait(self, what: str) -> None:
        if self._owner is not None and self._results.state is not _FINISHED:
            self._owner.check_wait(what)

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return self._results.condition

    @property
    def _state(self) -> str:  # type: ignore[override]
        return self._results.state

    @property
    def _result(self) -> RecordMetadata | None:  # type: ignore[override]
        return self._results.record(self._row)

    @property
    def _exception(self) -> Exception | None:  # type: ignore[override]
        return self._results.error(self._row)

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        return self._results.watched(self, self._row)[1]

    @property
    def _done_callbacks(self) -> list[Callable[[Any], object]]:
        return self._results.watched(self, self._row)[2]


Watched = tuple[RecordFuture, list[Any], list[Callable[[Any], object]]]  # a future, who waits for it, what it calls


class ThreadResults:
    """The results of one batch, for callers in other threads.

    Attributes:
        hold_memory: called with the size of the records when the functions of their users are about to be called, and
            with the negative size when these have returned; None if nothing counts it.
        size_bytes: size of the records.
    """

    __slots__ = (
        "_callbacks",
        "_calls",
        "_parts",
        "_target",
        "_timestamps",
        "_watched",
        "condition",
        "count",
        "hold_memory",
        "size_bytes",
        "state",
    )

    def __init__(self, target: TopicPartition, timestamps: list[int], callbacks: CallbackThread | None = None) -> None:
        """Create them for an empty batch.

        Args:
            target: its partition.
            timestamps: the list to which the batch's timestamps are appended.
            callbacks: calls ``on_delivery`` and the futures' own callbacks; None calls them in the loop's thread.
        """
        self._target = target
        self._timestamps = timestamps
        self._callbacks = callbacks
        self._watched: dict[int, Watched] = {}
        self._calls: list[tuple[int, OnDelivery]] = []
        self.condition = threading.Condition()
        self.state = _PENDING
        self.count = 0
        self._parts: Sequence[PartResult] = ()
        self.hold_memory: Callable[[int], object] | None = None
        self.size_bytes = 0

    def future(self, owner: Owner | None, on_delivery: OnDelivery | None) -> RecordFuture:
        """Return the future of the record that comes next; ``on_delivery`` is called with its error or its metadata."""
        row = self.count
        self.count = row + 1
        if on_delivery is not None:
            self._calls.append((row, _with_partition(on_delivery, self._target)))
        return RecordFuture(self, row, owner)

    def watched(self, future: RecordFuture, row: int) -> Watched:
        """Return who waits for a record's future, and what it will call."""
        return self._watched.setdefault(row, (future, [], []))

    def record(self, row: int) -> RecordMetadata | None:
        """Return where a record is, None while that is not known."""
        part = _part_of(self._parts, row)
        if part is None or part.error is not None:
            return None
        return _metadata(self._target, part, row, self._timestamps[row])

    def error(self, row: int) -> Exception | None:
        """Return why a record is not in the log, None while that is not known or if it is there."""
        part = _part_of(self._parts, row)
        return None if part is None else part.error

    def failed(self, error: Exception) -> None:
        """Take why no record of the batch is in the log, and notify the waiting threads."""
        self.finish([PartResult(0, self.count, error=error)])

    dropped = failed

    def finish(self, parts: Sequence[PartResult]) -> None:
        """Take the results of all records, and notify the waiting threads."""
        with self.condition:
            self._parts = parts
            self.state = _FINISHED
            for row, (future, waiters, _) in self._watched.items():
                for waiter in waiters:
                    waiter.add_result(future) if self.error(row) is None else waiter.add_exception(future)
            self.condition.notify_all()
            has_calls = bool(self._calls) or any(callbacks for _, _, callbacks in self._watched.values())
        if not has_calls:
            return
        if self.hold_memory is not None:
            self.hold_memory(self.size_bytes)
        if self._callbacks is None:
            self._call_back()
        else:
            self._callbacks.put(self._call_back)

    def _call_back(self) -> None:
        for future, _, callbacks in self._watched.values():
            for callback in callbacks:
                _called(callback, future)
        for row, on_delivery in self._calls:
            _called(on_delivery, self.error(row), self.record(row))
        self._calls.clear()
        if self.hold_memory is not None:
            self.hold_memory(-self.size_bytes)


def _part_of(parts: Sequence[PartResult], row: int) -> PartResult | None:
    """Return the part of a batch that has a record; None while there are no results."""
    if len(parts) > 1:
        return parts[bisect_right(parts, row, key=_FIRST) - 1]
    return parts[0] if parts else None


def _metadata(target: TopicPartition, part: PartResult, row: int, timestamp: int) -> RecordMetadata:
    """Return where a record of a batch is. If the broker stamps records itself, the timestamp is the broker's."""
    offset = -1 if part.base_offset < 0 else part.base_offset + row - part.first
    time_ms = timestamp if part.append_time < 0 else part.append_time
    return RecordMetadata(target.topic, target.partition, offset, time_ms)


def _with_partition(on_delivery: OnDelivery, target: TopicPartition) -> OnDelivery:
    """Return the function, which learns the record's partition if interceptors are called with it."""
    if isinstance(on_delivery, Acknowledgement):
        on_delivery.partition = target.partition
    return on_delivery


def _called(function: Callable[..., object], *arguments: object) -> None:
    """Call what a user passed; what it raises is logged, for the batches of others go on."""
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

    def future(self, owner: object, on_delivery: OnDelivery | None) -> asyncio.Future[RecordMetadata]:
        """Return the future of the record that comes next; ``on_delivery`` is called although it may be cancelled."""
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        if on_delivery is not None:
            self._calls.append((len(self._futures), _with_partition(on_delivery, self._target)))
        self._futures.append(future)
        return future

    def finish(self, parts: Sequence[PartResult]) -> None:
        """Give each future its record's metadata or its error; first call each ``on_delivery``."""
        calls, self._calls = self._calls, []
        for row, on_delivery in calls:
            part = _part_of(parts, row)
            assert part is not None
            metadata = None if part.error else _metadata(self._target, part, row, self._timestamps[row])
            _called(on_delivery, part.error, metadata)
        for part in parts:
            for row, future in enumerate(self._futures[part.first : part.first + part.records], part.first):
                if future.done():
                    continue
                if part.error is None:
                    future.set_result(_metadata(self._target, part, row, self._timestamps[row]))
                else:
                    future.set_exception(part.error)

    def failed(self, error: Exception) -> None:
        """Give each future the error."""
        self.finish([PartResult(0, len(self._futures), error=error)])

    def dropped(self, error: Exception) -> None:
        """Give each future the error, which nobody has to look at."""
        self.failed(error)
        for future in self._futures:
            if not future.cancelled():
                future.exception()  # asyncio would log it otherwise


BatchResults = ThreadResults | LoopResults  # what becomes of the records of one batch


def settle(results: BatchResults, done: asyncio.Future[list[PartResult]]) -> None:
    """Hand on the result of a batch."""
    if done.cancelled():
        results.failed(KafkaframesError("cancelled"))
    else:
        results.finish(done.result())
