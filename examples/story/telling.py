"""What the story prints: a line for each step with the seconds since the start, and the ten lines at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STARTED = time.monotonic()
_LOCK = threading.Lock()
_BEAT_SECONDS = 5.0
# Seconds since the start, what it was (step, batch, kill), and in words: the page shows these.
EVENTS: list[tuple[float, str, str]] = []


def seconds() -> float:
    """Return the seconds since the story began."""
    return time.monotonic() - _STARTED


def tell(text: str) -> None:
    """Print a line of progress."""
    with _LOCK:
        print(f"{seconds():5.1f} s  {text}", flush=True)


def note(words: str, sort: str = "step") -> None:
    """Remember what happened now, for the page."""
    with _LOCK:
        EVENTS.append((seconds(), sort, words))


@contextmanager
def step(title: str, sort: str = "step") -> Iterator[None]:
    """Tell that a step begins; while it takes long, say every few seconds that it still goes on."""
    tell(title)
    note(title, sort)
    is_done = threading.Event()

    def beat() -> None:
        while not is_done.wait(_BEAT_SECONDS):
            tell("  ...")

    thread = threading.Thread(target=beat, daemon=True)
    if not sys.stdout.isatty():
        yield
        return
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()


def check(is_so: bool, what: str) -> None:
    """End the story where something is not as it must be: it shows what is so, not what should be.

    Raises:
        SystemExit: it is not.
    """
    if not is_so:
        raise SystemExit(f"the story does not hold: {what}")
