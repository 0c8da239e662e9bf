"""Scan a whole segment in windows: batch headers as columns, optionally with the bytes of the batches.

Without the bytes, the rest of a batch larger than a window is skipped, so that a scan reads less than the whole file.
Memory use is a window (or the largest batch) and a table of headers, whatever the size of the segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN
from kafkaframes.records.reasons import END, MORE
from kafkaframes.records.scan import FILE, SHORTENED_SOURCE, Batches, Bytes, Chunk, Chunks, Ints, ScanEnd, as_array
from kafkaframes.storage.files.filesystem import ReadAt

WINDOW_BYTES = 4 << 20
_NO_BATCHES: Ints = np.empty((len(BATCH_COLUMNS), 0), np.int64)
_NO_BYTES: Bytes = np.empty(0, np.uint8)


class Window(NamedTuple):
    """Consecutive batches of a segment.

    Attributes:
        batches: batches with their positions in the file. ``end.can_continue`` is true in all windows except the last,
            which may have no batches.
        data: bytes from ``start`` on. If the scan includes the bytes of batches, they contain each batch whole.
        start: position of ``data[0]`` in the file, in bytes.
    """

    batches: Batches
    data: Bytes
    start: int

    def in_data(self) -> Batches:
        """Return the batches with positions relative to ``data[0]``, as the functions of ``records`` expect."""
        table = self.batches.table.copy()
        table[COLUMN["position"]] -= self.start
        return Batches(table, self.batches.end)


def scan_segment(
    read_at: ReadAt,
    *,
    size_bytes: int,
    position: int = 0,
    whole: bool = False,
    window_bytes: int = WINDOW_BYTES,
    file: str | None = None,
) -> Iterator[Window]:
    """Scan a segment by the rules of Kafka's file iterator.

    Args:
        size_bytes: size of the file; a batch that ends after it is incomplete.
        position: start of a batch, in bytes.
        whole: include the bytes of the batches.

    Raises:
        LogDirError: the file cannot be read, or has become shorter than ``size_bytes``.
    """
    source = _FileSource(read_at, size_bytes, file)
    chunks = Chunks(source, rules=FILE, start=position, end=size_bytes, chunk_bytes=window_bytes, whole=whole)
    end, start = ScanEnd(position, MORE), position
    for chunk in chunks:
        start, end = chunk.base, _end_of(chunk, size_bytes)
        table = chunk.batches.table.copy() if start else chunk.batches.table
        table[COLUMN["position"]] += start
        yield Window(Batches(table, end), chunk.data, start)
    if end.can_continue and chunks.end is not None:
        yield Window(Batches(_NO_BATCHES, chunks.end), _NO_BYTES, start)


def _end_of(chunk: Chunk, size_bytes: int) -> ScanEnd:
    """Return the end position of a chunk's batches in the file, and the reason of the end."""
    end = chunk.batches.end
    after = chunk.base + end.position
    return ScanEnd(after, END if end.can_continue and after >= size_bytes else end.status)


class _FileSource(NamedTuple):
    """A file that must not become smaller than its listed size."""

    read_at: ReadAt
    size_bytes: int
    name: str | None
    damage: None = None

    def read(self, position: int, length: int) -> Bytes:
        """Return ``length`` bytes from ``position`` on.

        Raises:
            LogDirError: the file has fewer bytes.
        """
        data = self.read_at(position, length)
        if len(data) < length:
            raise LogDirError(ScanEnd(0, SHORTENED_SOURCE).reason, position=position + len(data), file=self.name)
        return as_array(data)


# ---------------------------------------------------------------------------------------------------------------------
# A segment on a local disk as a source of batches (``records/scan.py``).
#
# The file is read with ``preadv`` into one buffer and not mapped: if a mapped file is truncated, SIGBUS kills the
# process. The file stays open, so a broker may rename or delete it. If the file is truncated, the rest is read and the
# reader gets ``scan.CUT``. Bytes that are appended after the start are not read.

VANISHED_REASON = "has vanished since the read was planned"
SHORTENED_REASON = "has become shorter since the read was planned"


@dataclass(slots=True)
class Meter:
    """A counter of fetched bytes; for a tiered segment, of the stored bytes of its objects."""

    bytes_read: int = 0


class SegmentFile:
    """An open segment file. Use ``open_segment_file`` to create one.

    Attributes:
        size_bytes: size when the file was opened.
        damage: always None, because a local file has no damaged chunks; it can only become shorter.
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
    path: str, *, meter: Meter | None = None, planned_bytes: int | None = None
) -> Iterator[SegmentFile]:
    """Open a file for reading.

    Args:
        planned_bytes: size of the file when the read was planned; None if the read was not planned.

    Raises:
        LogDirError: it is missing, forbidden, not a file, or shorter than planned.
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
        yield SegmentFile(path, descriptor, size_bytes, meter or Meter())
    finally:
        os.close(descriptor)
