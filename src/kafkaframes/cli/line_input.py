"""Lines of a file or of standard input, as they come: a slow pipe such as ``tail -f`` is read line by line.

Ctrl-C and SIGTERM end the reading, not the command: lines that were read complete are still returned.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import UnsupportedOperation
from types import FrameType
from typing import BinaryIO, Final

_READ_BYTES: Final = 1 << 18
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """The first Ctrl-C or SIGTERM that the process has received since ``catch_signals``, if any.

    Attributes:
        number: the signal.
        descriptor: a file descriptor that can be read once the signal has come.
    """

    def __init__(self) -> None:
        """Wait for none."""
        self.number: int | None = None
        self.descriptor, self._writer = os.pipe()

    def take(self, number: int, _: FrameType | None) -> None:
        """Remember the first signal; the second one ends the command at once."""
        if self.number is not None:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.number = number
        os.write(self._writer, b"x")

    def close(self) -> None:
        """Close the descriptors."""
        os.close(self.descriptor)
        os.close(self._writer)


@contextmanager
def catch_signals() -> Iterator[StopSignal]:
    """Hold back the first Ctrl-C or SIGTERM until the end of the block, where it takes its usual effect."""
    stop = StopSignal()
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.signal(number, stop.take) for number in _SIGNALS} if is_main else {}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        stop.close()
    if stop.number is not None:
        signal.raise_signal(stop.number)


def read_lines(stream: BinaryIO, stop: StopSignal, *, linger_s: float, max_lines: int) -> Iterator[list[bytes]]:
    """Yield lines, without their ends, in groups.

    Args:
        stream: the input.
        stop: ends the reading. A line that is incomplete then is not returned.
        linger_s: seconds after the first line of a group at which the group ends.
        max_lines: size of the largest group.
    """
    descriptor = _descriptor(stream)
    lines: list[bytes] = []
    tail: list[bytes] = []  # of an incomplete line
    due = 0.0
    while stop.number is None:
        left_s = max(due - time.monotonic(), 0.0) if lines else None
        if lines and left_s == 0.0:
            yield lines
            lines = []
            continue
        if not _wait(descriptor, stop, left_s):
            continue
        data = stream.read(_READ_BYTES) if descriptor is None else os.read(descriptor, _READ_BYTES)
        if not data:
            last = b"".join(tail)
            lines += [last] if last else []
            break
        first, *others = data.split(b"\n")
        tail.append(first)
        if others:
            due = due if lines else time.monotonic() + linger_s
            lines += [b"".join(tail), *others[:-1]]
            tail = [others[-1]]
        while len(lines) >= max_lines:
            yield lines[:max_lines]
            lines = lines[max_lines:]
    for start in range(0, len(lines), max_lines):
        yield lines[start : start + max_lines]


def _descriptor(stream: BinaryIO) -> int | None:
    """Return a stream's file descriptor; None for one in memory."""
    try:
        return stream.fileno()
    except (UnsupportedOperation, AttributeError):
        return None


def _wait(descriptor: int | None, stop: StopSignal, timeout_s: float | None) -> bool:
    """Wait until there is something to read; return False if the time is over, or a signal has come."""
    if descriptor is None:
        return True
    ready, _, _ = select.select([descriptor, stop.descriptor], [], [], timeout_s)
    return descriptor in ready and stop.descriptor not in ready
