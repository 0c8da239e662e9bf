"""Read lines of a file or of standard input as they arrive, also from a slow pipe such as ``tail -f``.

Ctrl-C and SIGTERM end the input but not the command. Complete lines that were read before are still returned.
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

_READ_CHUNK_BYTES: Final = 1 << 18
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """The first Ctrl-C or SIGTERM, if any, that the process has received since ``catch_signals`` was entered.

    Attributes:
        number: number of the signal; None if none was received.
        descriptor: file descriptor that becomes readable when the signal arrives.
    """

    def __init__(self) -> None:
        """Create an object that has received no signal."""
        self.number: int | None = None
        self.descriptor, self._writer = os.pipe()

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """Store the first signal. A second signal ends the command at once."""
        if self.number is not None:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.number = number
        os.write(self._writer, b"x")

    def close(self) -> None:
        """Close the file descriptors."""
        os.close(self.descriptor)
        os.close(self._writer)


@contextmanager
def catch_signals() -> Iterator[StopSignal]:
    """Defer the first Ctrl-C or SIGTERM to the end of the block, where it has its usual effect."""
    stop = StopSignal()
    is_main_thread = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.signal(number, stop.handle_signal) for number in _STOP_SIGNALS} if is_main_thread else {}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        stop.close()
    if stop.number is not None:
        signal.raise_signal(stop.number)


def read_lines(stream: BinaryIO, stop: StopSignal, *, linger_s: float, max_lines: int) -> Iterator[list[bytes]]:
    """Yield groups of lines without their line ends.

    Args:
        stream: input to read.
        stop: object that ends the input when the process receives a signal. An incomplete line is then discarded.
        linger_s: longest time to collect lines after the first line of a group, in seconds.
        max_lines: largest number of lines in a group.
    """
    descriptor = _find_descriptor(stream)
    lines: list[bytes] = []
    tail: list[bytes] = []  # parts of an incomplete line
    group_deadline = 0.0
    while stop.number is None:
        remaining_s = max(group_deadline - time.monotonic(), 0.0) if lines else None
        if lines and remaining_s == 0.0:
            yield lines
            lines = []
            continue
        if not _wait_until_readable(descriptor, stop, remaining_s):
            continue
        data = stream.read(_READ_CHUNK_BYTES) if descriptor is None else os.read(descriptor, _READ_CHUNK_BYTES)
        if not data:
            last = b"".join(tail)
            lines += [last] if last else []
            break
        first, *more_lines = data.split(b"\n")
        tail.append(first)
        if more_lines:
            group_deadline = group_deadline if lines else time.monotonic() + linger_s
            lines += [b"".join(tail), *more_lines[:-1]]
            tail = [more_lines[-1]]
        while len(lines) >= max_lines:
            yield lines[:max_lines]
            lines = lines[max_lines:]
    for start in range(0, len(lines), max_lines):
        yield lines[start : start + max_lines]


def _find_descriptor(stream: BinaryIO) -> int | None:
    """Return a stream's file descriptor; None for an in-memory stream."""
    try:
        return stream.fileno()
    except (UnsupportedOperation, AttributeError):
        return None


def _wait_until_readable(descriptor: int | None, stop: StopSignal, timeout_s: float | None) -> bool:
    """Wait until the input is readable. Return False after the timeout or if a signal arrived."""
    if descriptor is None:
        return True
    ready, _, _ = select.select([descriptor, stop.descriptor], [], [], timeout_s)
    return descriptor in ready and stop.descriptor not in ready
