"""A whole segment, window by window: the headers of its batches as columns, with their bytes or without.

Without bytes a batch larger than a window is stepped over, so that a scan of headers reads less than the file. Memory
is a window (or the largest batch) and a table of headers, whatever the segment's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.records.chunks import Chunk, Chunks
from kafkaframes.records.layout import BATCH_COLUMNS, COLUMN
from kafkaframes.records.reasons import END, MORE
from kafkaframes.records.scan import CUT, FILE, Batches, Bytes, End, Ints, as_array
from kafkaframes.storage.files.filesystem import ReadAt

WINDOW_BYTES = 4 << 20
_NO_BATCHES: Ints = np.empty((len(BATCH_COLUMNS), 0), np.int64)
_NO_BYTES: Bytes = np.empty(0, np.uint8)


class Window(NamedTuple):
    """Consecutive batches of a segment.

    Attributes:
        batches: positions are those in the file; ``end.goes_on`` on all windows but the last, which may have none.
        data: bytes from ``start`` on; they hold each batch as a whole if that was asked for.
        start: the position of ``data[0]`` in the file.
    """

    batches: Batches
    data: Bytes
    start: int

    def in_data(self) -> Batches:
        """Return the batches with positions counted from ``data[0]``, as the functions of ``records`` want them."""
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
        read_at: of the file.
        size_bytes: of the file; a batch beyond it is torn.
        position: a byte at which a batch starts.
        whole: give the bytes of the batches, too.
        window_bytes: read at once.
        file: named in errors.

    Raises:
        LogDirError: the file cannot be read, or has become shorter than ``size_bytes`` meanwhile.
    """
    source = _Source(read_at, size_bytes, file)
    chunks = Chunks(source, rules=FILE, start=position, end=size_bytes, chunk_bytes=window_bytes, whole=whole)
    end, start = End(position, MORE), position
    for chunk in chunks:
        start, end = chunk.base, _end_of(chunk, size_bytes)
        table = chunk.batches.table.copy() if start else chunk.batches.table
        table[COLUMN["position"]] += start
        yield Window(Batches(table, end), chunk.data, start)
    if end.goes_on and chunks.end is not None:
        yield Window(Batches(_NO_BATCHES, chunks.end), _NO_BYTES, start)


def _end_of(chunk: Chunk, size_bytes: int) -> End:
    """Return where in the file the batches of a chunk end, and why."""
    end = chunk.batches.end
    after = chunk.base + end.position
    return End(after, END if end.goes_on and after >= size_bytes else end.status)


class _Source(NamedTuple):
    """A file that must not be smaller than it was when it was listed."""

    read_at: ReadAt
    size_bytes: int
    name: str | None
    damage: None = None

    def read(self, position: int, length: int) -> Bytes:
        """Return ``length`` bytes from ``position`` on.

        Raises:
            LogDirError: there are fewer.
        """
        data = self.read_at(position, length)
        if len(data) < length:
            raise LogDirError(End(0, CUT).reason, position=position + len(data), file=self.name)
        return as_array(data)
