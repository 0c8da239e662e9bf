"""A segment on a local disk as a source of batches (``BatchSource`` in ``records/scan.py``).

The file is read with ``preadv`` into one buffer and not mapped: if a mapped file is truncated, SIGBUS kills the
process. The file stays open, so a broker may rename or delete it. If the file is truncated, the rest is read, and the
scan ends with the status ``TRUNCATED_SOURCE``. Bytes that are appended after the read has started are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError

VANISHED_REASON = "was deleted after the read was planned"
SHORTENED_REASON = "has become shorter since the read was planned"


@dataclass(slots=True)
class ByteCounter:
    """A counter of fetched bytes; for a tiered segment, of the stored bytes of its objects."""

    bytes_read: int = 0


class SegmentFile:
    """An open segment file. Use ``open_segment_file`` to create one.

    Attributes:
        size_bytes: size when the file was opened.
        damage: always None, because a local file has no damaged chunks; it can only become shorter.
    """

    damage = None

    def __init__(self, name: str, descriptor: int, size_bytes: int, meter: ByteCounter) -> None:
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
        read_bytes = 0
        try:
            while read_bytes < length:
                count = os.preadv(self._descriptor, [self._buffer[read_bytes:length].data], position + read_bytes)
                if count == 0:
                    break
                read_bytes += count
        except OSError as error:
            raise LogDirError(f"cannot be read: {error.strerror or error}", file=self.name) from error
        self._meter.bytes_read += read_bytes
        return self._buffer[:read_bytes]


@contextmanager
def open_segment_file(
    path: str, *, meter: ByteCounter | None = None, planned_bytes: int | None = None
) -> Iterator[SegmentFile]:
    """Open a file for reading.

    Args:
        planned_bytes: size of the file when the read was planned; None if the read was not planned.

    Raises:
        LogDirError: the file is missing, unreadable for this user, not a regular file, or shorter than planned.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        if planned_bytes is not None and isinstance(error, FileNotFoundError | NotADirectoryError):
            raise LogDirError(VANISHED_REASON, file=path) from error
        reason = error.strerror if isinstance(error, OSError) else error
        raise LogDirError(f"cannot be read: {reason}", file=path) from error
    try:
        if os.path.isdir(path):
            raise LogDirError("is a directory, not a segment", file=path)
        size_bytes = os.fstat(descriptor).st_size
        if planned_bytes is not None and size_bytes < planned_bytes:
            raise LogDirError(SHORTENED_REASON, file=path)
        yield SegmentFile(path, descriptor, size_bytes, meter or ByteCounter())
    finally:
        os.close(descriptor)
