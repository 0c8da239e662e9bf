"""A segment on a local disk as a source of batches (``records/chunks.py``).

Read with ``preadv`` into one buffer, not mapped: a mapped file that is cut while it is read kills the process with
SIGBUS. The file stays open while it is read, so a broker may rename or delete it meanwhile; if it is cut, what is
left is read and the reader learns of it (``scan.CUT``); bytes that are appended after the start are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError

VANISHED = "has vanished since the read was planned"
SHORTER = "has become shorter since the read was planned"


@dataclass(slots=True)
class Meter:
    """Counts the bytes that are fetched: of a tiered segment those of its objects, as they are stored."""

    bytes_read: int = 0


class SegmentFile:
    """One open file; made by ``open_segment_file``.

    Attributes:
        name: the path.
        size_bytes: the size when the file was opened.
        damage: always None: a local file has no damaged chunks; it only may turn out to be shorter.
    """

    damage = None

    def __init__(self, name: str, descriptor: int, size_bytes: int, meter: Meter) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self._descriptor = descriptor
        self._meter = meter
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def read(self, position: int, length: int) -> npt.NDArray[np.uint8]:
        """Return up to ``length`` bytes from ``position`` on; valid until the next read.

        Raises:
            LogDirError: the disk fails.
        """
        length = max(min(length, self.size_bytes - position), 0)
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
            raise LogDirError(f"cannot be read: {error.strerror or error}", file=self.name) from error
        self._meter.bytes_read += done
        return self._buffer[:done]


@contextmanager
def open_segment_file(
    path: str, *, meter: Meter | None = None, planned_bytes: int | None = None
) -> Iterator[SegmentFile]:
    """Open a file for reading.

    Args:
        path: of the file.
        meter: counts the bytes that are read.
        planned_bytes: how many bytes it had when the read was planned; None where it was not looked at before.

    Raises:
        LogDirError: it is missing, forbidden, not a file, or shorter than planned.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        if planned_bytes is not None and isinstance(error, FileNotFoundError | NotADirectoryError):
            raise LogDirError(VANISHED, file=path) from error
        reason = error.strerror if isinstance(error, OSError) else error
        raise LogDirError(f"cannot be read: {reason}", file=path) from error
    try:
        if os.path.isdir(path):
            raise LogDirError("is a directory, not a segment", file=path)
        size_bytes = os.fstat(descriptor).st_size
        if planned_bytes is not None and size_bytes < planned_bytes:
            raise LogDirError(SHORTER, file=path)
        yield SegmentFile(path, descriptor, size_bytes, meter or Meter())
    finally:
        os.close(descriptor)
