"""``Clock``, the broker's clock, and the event loop and threads that the broker runs on.

A clock reports two times, ``now_ms`` and ``monotonic_ms``. ``now_ms`` is the wall time, for times that are stored,
displayed or compared with stored times. ``monotonic_ms`` is for timeouts, intervals and durations. Timers use
``monotonic_ms``, which a change of the system time does not affect. The clock never sleeps: the server reads
``next_due_ms``, waits, and calls ``run_due``. A test calls ``advance``, which moves both times. The event loop has its
own thread, or it is the application's loop. Slow work runs in further threads (``WorkerThreads``).
"""

from __future__ import annotations

import asyncio
import heapq
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from kafkaframes.broker.requests.api import DeferredResponse


def system_time_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return milliseconds since an arbitrary moment, unaffected by changes of the system time."""
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class Timer:
    """A call that is due at a monotonic time, created by ``Clock.call_later``."""

    due_ms: int
    call: Callable[[], None] | None

    def cancel(self) -> None:
        """Cancel the call."""
        self.call = None


@dataclass(slots=True)
class Clock:
    """A clock that runs with the system time and can be advanced.

    Attributes:
        source: function that returns milliseconds since 1970.
        monotonic_source: function that returns milliseconds since an arbitrary moment. If None, the clock uses the
            system's monotonic clock, or ``source`` if ``source`` is not the system time.
        is_frozen: whether the time changes only by ``advance``.
        on_change: called when ``next_due_ms`` gets earlier, and after ``advance``.
    """

    source: Callable[[], int] = system_time_ms
    monotonic_source: Callable[[], int] | None = None
    is_frozen: bool = False
    on_change: Callable[[], None] | None = None
    _moved_ms: int = 0
    _frozen_ms: tuple[int, int] = (0, 0)
    _monotonic: Callable[[], int] = field(init=False)
    _heap: list[tuple[int, int, Timer]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        default = monotonic_ms if self.source is system_time_ms else self.source
        self._monotonic = self.monotonic_source or default
        self._frozen_ms = self.source(), self._monotonic()

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return (self._frozen_ms[0] if self.is_frozen else self.source()) + self._moved_ms

    @property
    def monotonic_ms(self) -> int:
        """A number of milliseconds since an arbitrary moment, which never decreases."""
        return (self._frozen_ms[1] if self.is_frozen else self._monotonic()) + self._moved_ms

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds of this clock; return its timer."""
        timer = Timer(self.monotonic_ms + max(int(delay_ms), 0), call)
        first = self.next_due_ms
        heapq.heappush(self._heap, (timer.due_ms, next(self._numbers), timer))
        if self.on_change is not None and (first is None or timer.due_ms < first):
            self.on_change()
        return timer

    @property
    def next_due_ms(self) -> int | None:
        """The monotonic time of the next timer; None if there are no timers."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> int:
        """Run all due timers in order of their time; return their number."""
        call_count = 0
        while (due_ms := self.next_due_ms) is not None and due_ms <= self.monotonic_ms:
            call = heapq.heappop(self._heap)[2].call
            if call is not None:
                call()
                call_count += 1
        return call_count

    def advance(self, seconds: float) -> None:
        """Move the time forward. Each timer that becomes due runs at its own time, in order.

        Timers that are created in the meantime also run if they are due within this period.
        """
        target = self.monotonic_ms + int(seconds * 1000)
        while (due_ms := self.next_due_ms) is not None and due_ms <= target:
            self._moved_ms += max(due_ms - self.monotonic_ms, 0)
            self.run_due()
        self._moved_ms += max(target - self.monotonic_ms, 0)
        if self.on_change is not None:
            self.on_change()


class BrokerClock:
    """The clock of a running broker, for use from other threads."""

    def __init__(self, call: Callable[[Callable[[object], None]], None], clock: Clock) -> None:
        self._call = call
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, by the broker's clock."""
        return self._clock.now_ms

    def advance(self, seconds: float) -> None:
        """Move the broker's time forward. Timers that become due have run when ``advance`` returns."""
        self._call(lambda _: self._clock.advance(seconds))


_Answer = TypeVar("_Answer")
_CALL_TIMEOUT_SECONDS = 60.0


class LoopThread:
    """The event loop of a broker."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ident = 0

    @property
    def is_own(self) -> bool:
        """Whether the loop runs in its own thread."""
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop."""
        return threading.get_ident() == self._ident

    def join_running(self) -> None:
        """Use the running event loop of the caller's thread."""
        self.loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()

    def start(self) -> None:
        """Start an event loop in a new thread."""
        loop = self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, args=(loop,), name="kafkaframes-broker", daemon=True)
        self._thread.start()

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def call(self, work: Coroutine[Any, Any, _Answer], *, timeout: float | None = _CALL_TIMEOUT_SECONDS) -> _Answer:
        """Run a coroutine on the loop from another thread; return its result.

        Raises:
            TimeoutError: the coroutine takes longer than ``timeout`` seconds (None: unlimited).
        """
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def end(self) -> None:
        """End the loop's own thread, if it has one, and release the loop."""
        if self._thread is not None and self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_CALL_TIMEOUT_SECONDS)
            self.loop.close()
        self._thread = self.loop = None


class WorkerThreads:
    """Threads for slow work of an event loop. With one thread, at most one task uses memory at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 1) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kafkaframes-beside")

    def __call__(self, work: Callable[[], None]) -> DeferredResponse:
        """Run work in a thread, after earlier work. The result is completed on the loop when the work has finished."""
        completion = DeferredResponse()

        def deliver_result(future: asyncio.Future[None]) -> None:
            error = None if future.cancelled() else future.exception()
            if isinstance(error, Exception):
                completion.fail(error)
            else:
                completion.complete(None)

        self._loop.run_in_executor(self._threads, work).add_done_callback(deliver_result)
        return completion

    def stop(self) -> None:
        """Cancel work that has not started."""
        self._threads.shutdown(wait=False, cancel_futures=True)
