"""What a sender of single records holds: one result for a whole batch, and a future for each record that looks at it.

A batch has one answer, so its records share one state and one lock; what a future says is made when it is looked at.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kafkaframes.client.batches import RecordMetadata
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import KafkaframesError

OnDelivery = Callable[[Exception | None, RecordMetadata | None], object]
_LOG: Final = logging.getLogger(__name__)
_PENDING, _FINISHED = "PENDING", "FINISHED"  # as ``concurrent.futures`` names them


class RecordFuture(concurrent.futures.Future[RecordMetadata]):
    """Where a record went, for threads.

    It works with ``concurrent.futures.wait``, ``as_completed`` and ``asyncio.wrap_future``. It cannot be cancelled: the
    record is on its way. Python's ``Future`` does the work, on the attributes below, which it reads by these names.
    """

    __slots__ = ("_owner", "_results", "_row")

    def __init__(self, results: ThreadResults, row: int, owner: object) -> None:
        self._results = results
        self._row = row
        self._owner = owner  # a producer must not end before its records have

    def cancel(self) -> bool:
        """Return False: a record that was sent cannot be called back."""
        return False

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
        return self._results.error

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        return self._results.watched(self, self._row)[1]

    @property
    def _done_callbacks(self) -> list[Callable[[Any], object]]:
        return self._results.watched(self, self._row)[2]


Watched = tuple[RecordFuture, list[Any], list[Callable[[Any], object]]]  # a future, who waits for it, what it calls


class ThreadResults:
    """The results of one batch, for callers in other threads."""

    __slots__ = (
        "_append_time",
        "_base_offset",
        "_calls",
        "_target",
        "_timestamps",
        "_watched",
        "condition",
        "count",
        "error",
        "state",
    )

    def __init__(self, target: TopicPartition, timestamps: list[int]) -> None:
        self._target = target
        self._timestamps = timestamps  # grows with the batch
        self._watched: dict[int, Watched] = {}
        self._calls: list[tuple[int, OnDelivery]] = []
        self.condition = threading.Condition()
        self.state = _PENDING
        self.error: Exception | None = None
        self.count = 0
        self._base_offset = self._append_time = -1

    def future(self, owner: object, on_delivery: OnDelivery | None) -> RecordFuture:
        """Return the future of the record that comes next; ``on_delivery`` is called with its error or its metadata."""
        row = self.count
        self.count = row + 1
        if on_delivery is not None:
            self._calls.append((row, on_delivery))
        return RecordFuture(self, row, owner)

    def watched(self, future: RecordFuture, row: int) -> Watched:
        """Return who waits for a record's future, and what it will call."""
        return self._watched.setdefault(row, (future, [], []))

    def record(self, row: int) -> RecordMetadata | None:
        """Return where a record is, None while that is not known."""
        if self.state is not _FINISHED or self.error is not None:
            return None
        return _metadata(self._target, row, self._timestamps[row], self._base_offset, self._append_time)

    def written(self, base_offset: int, append_time: int) -> None:
        """Take where the batch is, and tell those who wait."""
        self._base_offset, self._append_time = base_offset, append_time
        self._finish()

    def failed(self, error: Exception) -> None:
        """Take why it is not in the log, and tell those who wait."""
        self.error = error
        self._finish()

    dropped = failed

    def _finish(self) -> None:
        with self.condition:
            self.state = _FINISHED
            for future, waiters, _ in self._watched.values():
                for waiter in waiters:
                    waiter.add_result(future) if self.error is None else waiter.add_exception(future)
            self.condition.notify_all()
        for future, _, callbacks in self._watched.values():
            for callback in callbacks:
                _called(callback, future)
        for row, on_delivery in self._calls:
            _called(on_delivery, self.error, self.record(row))
        self._calls.clear()


def _metadata(target: TopicPartition, row: int, timestamp: int, base_offset: int, append_time: int) -> RecordMetadata:
    """Return where a row of a batch is; ``append_time`` is the broker's own if it stamps records itself, else -1."""
    offset = -1 if base_offset < 0 else base_offset + row
    return RecordMetadata(target.topic, target.partition, offset, timestamp if append_time < 0 else append_time)


def _called(function: Callable[..., object], *arguments: object) -> None:
    """Call what a user passed; what it raises is logged, for the batches of others go on."""
    try:
        function(*arguments)
    except BaseException:  # ``sys.exit``, too
        _LOG.exception("%r raised an exception", function)


class LoopResults:
    """The results of one batch, for callers on the event loop."""

    __slots__ = ("_futures", "_loop", "_target", "_timestamps")

    def __init__(self, target: TopicPartition, timestamps: list[int]) -> None:
        self._target = target
        self._timestamps = timestamps
        self._futures: list[asyncio.Future[RecordMetadata]] = []
        self._loop = asyncio.get_running_loop()

    def future(self, owner: object, on_delivery: OnDelivery | None) -> asyncio.Future[RecordMetadata]:
        """Return the future of the record that comes next; it has ``add_done_callback`` for ``on_delivery``."""
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        self._futures.append(future)
        return future

    def written(self, base_offset: int, append_time: int) -> None:
        """Give each future where its record is."""
        for row, future in enumerate(self._futures):
            if not future.done():
                future.set_result(_metadata(self._target, row, self._timestamps[row], base_offset, append_time))

    def failed(self, error: Exception) -> None:
        """Give each future the error."""
        for future in self._futures:
            if not future.done():
                future.set_exception(error)

    def dropped(self, error: Exception) -> None:
        """Give each future the error, which nobody has to look at."""
        self.failed(error)
        for future in self._futures:
            if not future.cancelled():
                future.exception()  # asyncio would log it otherwise


BatchResults = ThreadResults | LoopResults  # what becomes of the records of one batch


def settle(results: BatchResults, done: asyncio.Future[tuple[int, int]]) -> None:
    """Hand on what became of a batch."""
    error = None if done.cancelled() else done.exception()
    if done.cancelled() or isinstance(error, asyncio.CancelledError):
        results.failed(KafkaframesError("cancelled"))
    elif isinstance(error, Exception):
        results.failed(error)
    else:
        results.written(*done.result())
