"""The one clock of a broker: the time in milliseconds and everything that is due at some time.

Nothing here sleeps. The shell asks ``next_due_ms``, waits, and calls ``run_due``; a test calls ``advance``.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count


def system_time_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Return milliseconds since some moment; they go on evenly when the system's time is set."""
    return time.monotonic_ns() // 1_000_000


@dataclass(slots=True)
class Timer:
    """Something that is due at a time; made by ``Clock.call_later``."""

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
        is_frozen: the time stands still but for ``advance``.
        on_change: called when something is due earlier than all that was known, or time was moved.
    """

    source: Callable[[], int] = system_time_ms
    is_frozen: bool = False
    on_change: Callable[[], None] | None = None
    _moved_ms: int = 0
    _frozen_ms: int = 0
    _heap: list[tuple[int, int, Timer]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._frozen_ms = self.source()

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970, by this clock."""
        return (self._frozen_ms if self.is_frozen else self.source()) + self._moved_ms

    def call_later(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        """Call ``call`` after ``delay_ms`` milliseconds of this clock; return what can be cancelled."""
        timer = Timer(self.now_ms + max(int(delay_ms), 0), call)
        first = self.next_due_ms
        heapq.heappush(self._heap, (timer.due_ms, next(self._numbers), timer))
        if self.on_change is not None and (first is None or timer.due_ms < first):
            self.on_change()
        return timer

    @property
    def next_due_ms(self) -> int | None:
        """When the next thing is due; None if nothing is."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> int:
        """Call everything that is due, in the order of its time; return how many."""
        done = 0
        while (due := self.next_due_ms) is not None and due <= self.now_ms:
            call = heapq.heappop(self._heap)[2].call
            if call is not None:
                call()
                done += 1
        return done

    def advance(self, seconds: float) -> None:
        """Move the time forward; what becomes due is called at its own time, in order.

        A timer that is set while time moves, and is due within it, is called too.
        """
        target = self.now_ms + int(seconds * 1000)
        while (due := self.next_due_ms) is not None and due <= target:
            self._moved_ms += max(due - self.now_ms, 0)
            self.run_due()
        self._moved_ms += max(target - self.now_ms, 0)
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
