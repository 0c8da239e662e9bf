"""Scan a whole segment in windows: batch headers as columns, optionally with the bytes of the batches.

If the bytes are not included, the rest of a batch that is larger than a window is skipped, so that a scan reads less
than the whole file. A scan needs memory for a window (or the largest batch) and a table of headers, regardless of the
size of the segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN_INDEX
from kafkaframes.records.reasons import END, MORE
from kafkaframes.records.scan import FILE, TRUNCATED_SOURCE, BatchHeaders, Bytes, Chunk, Chunks, Ints, ScanEnd, as_array
from kafkaframes.storage.files.filesystem import ReadAt

WINDOW_BYTES = 4 << 20  # bytes of the segment that are read and scanned at once
_NO_BATCHES: Ints = np.empty((len(BATCH_COLUMNS), 0), np.int64)
_NO_BYTES: Bytes = np.empty(0, np.uint8)


class SegmentWindow(NamedTuple):
    """Consecutive batches of a segment.

    Attributes:
        batches: batches with their positions in the file. ``end.can_continue`` is true in all windows except the last,
            which may have no batches.
        data: bytes from ``start`` on. If the scan includes the bytes of batches, each batch is in ``data`` as a whole.
        start: position of ``data[0]`` in the file, in bytes.
    """

    batches: BatchHeaders
    data: Bytes
    start: int

    def batches_in_data(self) -> BatchHeaders:
        """Return the batches with positions relative to ``data[0]``, as the functions of ``records`` expect."""
        table = self.batches.table.copy()
        table[COLUMN_INDEX["position"]] -= self.start
        return BatchHeaders(table, self.batches.end)


def scan_segment(
    read_at: ReadAt,
    *,
    size_bytes: int,
    position: int = 0,
    includes_data: bool = False,
    window_bytes: int = WINDOW_BYTES,
    file: str | None = None,
) -> Iterator[SegmentWindow]:
    """Scan a segment by the rules of Kafka's file iterator.

    Args:
        size_bytes: size of the file; a batch that ends after it is incomplete.
        position: start of a batch, in bytes.
        includes_data: whether windows contain the bytes of the batches.

    Raises:
        LogDirError: the file cannot be read, or has become shorter than ``size_bytes``.
    """
    source = _FileSource(read_at, size_bytes, file)
    chunks = Chunks(
        source, rules=FILE, start=position, end=size_bytes, chunk_bytes=window_bytes, includes_data=includes_data
    )
    end, start = ScanEnd(position, MORE), position
    for chunk in chunks:
        start, end = chunk.base, _find_chunk_end(chunk, size_bytes)
        table = chunk.batches.table.copy() if start else chunk.batches.table
        table[COLUMN_INDEX["position"]] += start
        yield SegmentWindow(BatchHeaders(table, end), chunk.data, start)
    if end.can_continue and chunks.end is not None:
        yield SegmentWindow(BatchHeaders(_NO_BATCHES, chunks.end), _NO_BYTES, start)


def _find_chunk_end(chunk: Chunk, size_bytes: int) -> ScanEnd:
    """Return the end position of a chunk's batches in the file, and the reason for the end."""
    end = chunk.batches.end
    position = chunk.base + end.position
    return ScanEnd(position, END if end.can_continue and position >= size_bytes else end.status)


class _FileSource(NamedTuple):
    """A file that must not become smaller than its listed size."""

    read_at: ReadAt
    size_bytes: int
    name: str | None
    damage: None = None

    def read(self, position: int, length: int) -> Bytes:
        """Return ``length`` bytes from ``position`` on.

        Raises:
            LogDirError: the file ends before the last requested byte.
        """
        data = self.read_at(position, length)
        if len(data) < length:
            raise LogDirError(ScanEnd(0, TRUNCATED_SOURCE).reason, position=position + len(data), file=self.name)
        return as_array(data)
