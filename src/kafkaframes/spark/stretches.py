"""A slice of a segment as stretches: bytes in memory, and the headers of the whole batches in them. No pyspark.

Batches are cut by the rules of Kafka's file iterator (``records.scan``). The file is read in pieces of a few megabytes,
so what is held does not grow with it; only a batch larger than a piece is read in one. Files are read, not mapped: a
mapped file that a broker truncates kills the process that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.log.filesystem import filesystem_for
from kafkaframes.records.layout import CODEC_MASK, OVERHEAD_BYTES
from kafkaframes.records.scan import FILE, Batches, Bytes, as_array, scan
from kafkaframes.spark.planning import Slice

READ_BYTES = 4 << 20
# A stretch holds about so many bytes once its batches are decompressed, if they shrink to a quarter as most do.
STRETCH_BYTES = 1 << 20
_GUESSED_RATIO = 4


class Stretch(NamedTuple):
    """Neighbouring batches. ``base`` is the file's position of the first byte of ``data``."""

    base: int
    data: Bytes
    batches: Batches

    def position_of(self, row: int) -> int:
        """Return a batch's byte position in the file."""
        return self.base + int(self.batches.column("position")[row])


def read_stretches(piece: Slice, *, read_bytes: int = READ_BYTES) -> Iterator[Stretch]:
    """Yield the batches of a slice in order.

    Raises:
        CorruptRecordError: the framing breaks; all batches before were yielded, none behind can be found.
        LogDirError: the file cannot be read, or has become shorter since the read was planned.
    """
    path = piece.segment.path
    filesystem, position, wanted = filesystem_for(path), piece.start, read_bytes
    while position < piece.end:
        length = min(wanted, piece.end - position)
        raw = filesystem.read(path, position=position, length=length)
        if len(raw) < length:
            raise LogDirError(
                "the file has become shorter since it was planned to be read", file=path, position=position
            )
        data, start = as_array(raw), 0
        while True:
            found = scan(data, position=start, end=piece.end - position, rules=FILE)
            yield from _cut(position, data, found)
            start = found.end.position
            if found.end.goes_on and len(found):
                continue  # another table full, or the rest of a batch that the next piece of the file has
            break
        if found.end.corrupt:
            raise CorruptRecordError(found.end.reason, position=position + start, file=path)
        if not found.end.goes_on:
            return
        wanted = read_bytes if start else _enough_for_first(raw)
        position += start


def _enough_for_first(raw: bytes) -> int:
    """Return how much to read for the batch that starts ``raw``; the scan found that it ends within the slice."""
    return max(OVERHEAD_BYTES + int.from_bytes(raw[OVERHEAD_BYTES - 4 : OVERHEAD_BYTES], "big"), 2 * len(raw))


def _cut(base: int, data: Bytes, found: Batches) -> Iterator[Stretch]:
    sizes = found.column("size")
    compressed = (found.column("attributes") & CODEC_MASK) != 0
    weights = np.cumsum(np.where(compressed, sizes * _GUESSED_RATIO, sizes))
    first = 0
    while first < len(found):
        before = int(weights[first - 1]) if first else 0
        last = max(int(np.searchsorted(weights, before + STRETCH_BYTES, side="right")), first + 1)
        yield Stretch(base, data, Batches(found.table[:, first:last], found.end))
        first = last
