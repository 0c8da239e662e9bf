"""The one clock of a broker, and the event loop that it runs on.

The clock has two times. ``now_ms`` is the wall time: for what is stored, shown, or compared with a stored time.
``monotonic_ms`` is for everything else: timeouts, intervals, durations. It is not affected when the system's time is
set. Timers run by it. Nothing here sleeps: the shell asks ``next_due_ms``, waits, and calls ``run_due``; a test calls
``advance``, which moves both times. Other threads give work to the loop, which has
a thread of its own, or is somebody's; a thread beside it does what would hold up others.
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

from kafkaframes.broker.api import Later


def system_time_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return milliseconds since some moment; they go on evenly when the system's time is set."""
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class Timer:
    """Something that is due at a time of the monotonic clock; made by ``Clock.call_later``."""

    due_ms: int
    call: Callable[[], None] | None

    def cancel(self) -> None:
        """Never call it."""
        self.call = None


@dataclass(slots=True)
class Clock:
    """Time that goes on by itself, and that can be moved forward; with ``is_frozen`` it moves only so.

    Attributes:
        source: milliseconds since 1970.
        monotonic_source: milliseconds since some moment; None for the system's monotonic clock, or for ``source`` if
            that is not the system's time.
        is_frozen: the time stands still but for ``advance``.
        on_change: called when something is due earlier than all that was known, or time was moved.
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
        """Milliseconds since 1970, by this clock."""
        return (self._frozen_ms[0] if self.is_frozen else self.source()) + self._moved_ms

    @property
    def monotonic_ms(self) -> int:
        """Milliseconds since some moment, by this clock; they never jump."""
        return (self._frozen_ms[1] if self.is_frozen else self._monotonic()) + self._moved_ms

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds of this clock; return what can be cancelled."""
        timer = Timer(self.monotonic_ms + max(int(delay_ms), 0), call)
        first = self.next_due_ms
        heapq.heappush(self._heap, (timer.due_ms, next(self._numbers), timer))
        if self.on_change is not None and (first is None or timer.due_ms < first):
            self.on_change()
        return timer

    @property
    def next_due_ms(self) -> int | None:
        """When the next thing is due, by ``monotonic_ms``; None if nothing is."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> int:
        """Call everything that is due, in the order of its time; return how many."""
        done = 0
        while (due := self.next_due_ms) is not None and due <= self.monotonic_ms:
            call = heapq.heappop(self._heap)[2].call
            if call is not None:
                call()
                done += 1
        return done

    def advance(self, seconds: float) -> None:
        """Move the time forward; what becomes due is called at its own time, in order.

        A timer that is set while time moves, and is due within it, is called too.
        """
        target = self.monotonic_ms + int(seconds * 1000)
        while (due := self.next_due_ms) is not None and due <= target:
            self._moved_ms += max(due - self.monotonic_ms, 0)
            self.run_due()
        self._moved_ms += max(target - self.monotonic_ms, 0)
        if self.on_change is not None:
            self.on_change()


class BrokerClock:
    """A running broker's clock, as another thread holds it."""

    def __init__(self, call: Callable[[Callable[[object], None]], None], clock: Clock) -> None:
        self._call = call
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, by the broker's clock."""
        return self._clock.now_ms

    def advance(self, seconds: float) -> None:
        """Move the broker's time forward; what becomes due happens before this returns."""
        self._call(lambda _: self._clock.advance(seconds))


_Answer = TypeVar("_Answer")
_SECONDS = 60.0


class LoopThread:
    """The loop of one broker."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ident = 0

    @property
    def is_own(self) -> bool:
        """Whether the loop runs in a thread of its own."""
        return self._thread is not None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on the loop."""
        return threading.get_ident() == self._ident

    def join_running(self) -> None:
        """Take the loop that runs now, in its thread."""
        self.loop = asyncio.get_running_loop()
        self._ident = threading.get_ident()

    def start(self) -> None:
        """Begin a loop in a new thread."""
        loop = self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="kafkaframes-broker", daemon=True)
        self._thread.start()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ident = threading.get_ident()
        asyncio.set_event_loop(loop)
        loop.run_forever()

    def call(self, work: Coroutine[Any, Any, _Answer], *, timeout: float | None = _SECONDS) -> _Answer:
        """Do work on the loop, from another thread; return its result.

        Raises:
            TimeoutError: it takes longer than ``timeout`` (seconds; None: however long it takes).
        """
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout)

    def end(self) -> None:
        """End the thread, if there is one, and let the loop go."""
        if self._thread is not None and self.loop is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_SECONDS)
            self.loop.close()
        self._thread = self.loop = None


class Beside:
    """Threads beside a loop, for what would hold up others; with one, memory is that of one work at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 1) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kafkaframes-beside")

    def __call__(self, work: Callable[[], None]) -> Later:
        """Begin when what came before is done; return what is complete on the loop when the work is."""
        later = Later()

        def finish(done: asyncio.Future[None]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, Exception):
                later.fail(error)
            else:
                later.complete(None)

        self._loop.run_in_executor(self._threads, work).add_done_callback(finish)
        return later

    def stop(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
