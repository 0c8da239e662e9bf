"""A slice of a segment as stretches: bytes in memory, and the headers of the whole batches in them. No pyspark.

Batches are cut by the rules of Kafka's file iterator (``records.scan``). The file is read in pieces of a few megabytes,
so what is held does not grow with it; only a batch larger than a piece is read in one. Files are read, not mapped: a
mapped file that a broker truncates kills the process that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.log.filesystem import filesystem_for
from kafkaframes.records.layout import CODEC_MASK, OVERHEAD_BYTES
from kafkaframes.records.scan import FILE, Batches, Bytes, End, as_array, scan
from kafkaframes.spark.planning import Slice

READ_BYTES = 4 << 20
# A stretch holds about so many bytes once its batches are decompressed, if they shrink to a quarter as most do.
STRETCH_BYTES = 1 << 20
_GUESSED_RATIO = 4


class Stretch(NamedTuple):
    """Neighbouring batches. ``base`` is the file's position of the first byte of ``data``.

    The last stretch of a slice that does not end with a whole batch has no batches: its ``end`` says where the slice's
    batches end and why, and ``rest_bytes`` how much lies behind that cannot be read.
    """

    base: int
    data: Bytes
    batches: Batches
    rest_bytes: int = 0

    @property
    def is_end(self) -> bool:
        """Whether this tells of bytes that are no batch."""
        return len(self.batches) == 0

    @property
    def end(self) -> End:
        """How the slice's batches ended, where ``is_end``."""
        return self.batches.end

    @property
    def end_position(self) -> int:
        """The position in the file at which the slice's batches ended, where ``is_end``."""
        return self.base + self.end.position

    def position_of(self, row: int) -> int:
        """Return a batch's byte position in the file."""
        return self.base + int(self.batches.column("position")[row])


def read_stretches(piece: Slice, *, read_bytes: int = READ_BYTES) -> Iterator[Stretch]:
    """Yield the batches of a slice in order; behind a place where the framing breaks none can be found.

    Raises:
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
        if not found.end.goes_on:
            if position + start < piece.end:
                yield Stretch(position, data, Batches(found.table[:, :0], found.end), piece.end - position - start)
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
