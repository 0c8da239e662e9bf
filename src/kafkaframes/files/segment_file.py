"""A segment on a local disk as a source of batches (``records/chunks.py``).

Read with ``preadv`` into one buffer, not mapped: a mapped file that is cut while it is read kills the process with
SIGBUS. The file stays open while it is read, so a broker may rename or delete it meanwhile; if it is cut, what is
left is read, and the reader is told (``scan.CUT``); what is appended after the start is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError


class SegmentFile:
    """One open file; made by ``open_segment_file``."""

    def __init__(self, name: str, descriptor: int, size_bytes: int) -> None:
        self._name = name
        self._descriptor = descriptor
        self._size_bytes = size_bytes
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    @property
    def name(self) -> str:
        """The path."""
        return self._name

    @property
    def damage(self) -> None:
        """Nothing is known to a file: where it gives fewer bytes than it had, it was cut."""
        return None

    @property
    def size_bytes(self) -> int:
        """The size when the file was opened."""
        return self._size_bytes

    def read(self, position: int, length: int) -> npt.NDArray[np.uint8]:
        """Return up to ``length`` bytes from ``position`` on; valid until the next read.

        Raises:
            LogDirError: the disk fails.
        """
        length = max(min(length, self._size_bytes - position), 0)
        if self._buffer.size < length:
            self._buffer = np.empty(length, np.uint8)
        done = 0
        try:
            while done < length:
                count = os.preadv(self._descriptor, [self._buffer[done:length].data], position + done)
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise LogDirError(f"cannot be read: {error.strerror or error}", file=self._name) from error
        return self._buffer[:done]


@contextmanager
def open_segment_file(path: str) -> Iterator[SegmentFile]:
    """Open a file for reading.

    Raises:
        LogDirError: it is missing, forbidden, or no file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise LogDirError(f"cannot be read: {reason}", file=path) from error
    try:
        if os.path.isdir(path):
            raise LogDirError("is a directory, not a segment", file=path)
        yield SegmentFile(path, descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
