"""The story's output: a line for each step with the seconds since the start, and the ten lines at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STARTED = time.monotonic()
_LOCK = threading.Lock()
_PROGRESS_SECONDS = 5.0
# (seconds since the start, kind, text) for the page; the kind is step, batch or kill.
EVENTS: list[tuple[float, str, str]] = []


def seconds() -> float:
    """Return the seconds since the story began."""
    return time.monotonic() - _STARTED


def tell(text: str) -> None:
    """Print a line of progress."""
    with _LOCK:
        print(f"{seconds():5.1f} s  {text}", flush=True)


def note(words: str, sort: str = "step") -> None:
    """Record an event for the page."""
    with _LOCK:
        EVENTS.append((seconds(), sort, words))


@contextmanager
def step(title: str, sort: str = "step") -> Iterator[None]:
    """Print that a step begins. While it runs, print a line every few seconds."""
    tell(title)
    note(title, sort)
    is_done = threading.Event()

    def beat() -> None:
        """Print a line every few seconds until the step is done."""
        while not is_done.wait(_PROGRESS_SECONDS):
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
    """End the story if an expectation is not met, because the page must only show measured results.

    Raises:
        SystemExit: the expectation is not met.
    """
    if not is_so:
        raise SystemExit(f"expectation of the story failed: {what}")
