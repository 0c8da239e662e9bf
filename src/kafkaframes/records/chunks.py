"""A source of batches in chunks of some megabytes, each of whole batches: bounded memory, however large the source.

A source answers two questions, its size and its bytes; who opens files is another package's matter. A chunk is scanned
with the rules of one of Kafka's iterators; a batch larger than a chunk is one of its own, and is read only after
its size was found to lie within the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from kafkaframes.records.layout import BATCH_V2, OVERHEAD_BYTES
from kafkaframes.records.reasons import FULL, MORE
from kafkaframes.records.scan import CUT, Batches, Bytes, End, scan

CHUNK_BYTES = 2 << 20


class Source(Protocol):
    """Bytes that hold batches one after the other."""

    @property
    def name(self) -> str | None:
        """What to call the source in reports; None for bytes in memory."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size now; a log that is written to may grow afterwards."""
        ...

    @property
    def damage(self) -> Exception | None:
        """Why the source gives fewer bytes than its size says, where it knows; None where it does not."""
        ...

    def read(self, position: int, length: int) -> Bytes:
        """Return up to ``length`` bytes from ``position`` on, fewer at the source's end; valid until the next read."""
        ...


class Chunk(NamedTuple):
    """Whole batches. Positions in ``batches`` count from ``data``'s first byte, which is the source's ``base``."""

    base: int
    data: Bytes
    batches: Batches


class Memory(NamedTuple):
    """A source that is in memory already."""

    data: Bytes
    name: str | None = None
    damage: Exception | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the bytes."""
        return int(self.data.size)

    def read(self, position: int, length: int) -> Bytes:
        """Return a view."""
        return self.data[position : position + length]


class Scanned:
    """The one chunk of bytes in memory whose batches are known: what ``Chunks`` would find, without a second look."""

    def __init__(self, data: Bytes, batches: Batches) -> None:
        self._chunk = Chunk(0, data, batches)
        self.end: End | None = batches.end

    def __iter__(self) -> Iterator[Chunk]:
        if len(self._chunk.batches):
            yield self._chunk


class Chunks:
    """Iterate over a source's chunks; afterwards ``end`` says where (in the source) and why they ended.

    A source that gives fewer bytes than its size says was cut meanwhile: then ``end.status`` is ``scan.CUT``, unless
    the source itself tells of its damage.
    """

    def __init__(
        self,
        source: Source,
        *,
        rules: str,
        start: int = 0,
        end: int | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        whole: bool = True,
        allocate: Callable[[int, Any], Any] = np.empty,
    ) -> None:
        self.end: End | None = None
        self._source = source
        self._rules = rules
        self._position = start
        self._limit = end
        self._chunk_bytes = max(chunk_bytes, BATCH_V2.size)
        self._whole = whole
        self._allocate = allocate

    def __iter__(self) -> Iterator[Chunk]:
        limit = self._source.size_bytes if self._limit is None else min(self._limit, self._source.size_bytes)
        base, requested, is_cut = self._position, self._chunk_bytes, False
        while True:
            data = self._source.read(base, min(requested, max(limit - base, 0)))
            if base + data.size < limit and data.size < requested:
                limit, is_cut = base + data.size, self._source.damage is None
            position = 0
            while True:
                batches = scan(
                    data,
                    position=position,
                    end=limit - base,
                    rules=self._rules,
                    whole=self._whole,
                    allocate=self._allocate,
                )
                scanned, status = batches.table.shape[1], batches.end.status
                if scanned:
                    yield Chunk(base, data, batches)
                position = batches.end.position
                if status == MORE:
                    break
                if status != FULL:
                    is_cut = is_cut and not batches.end.corrupt
                    self.end = End(base + position, CUT if is_cut else status)
                    return
            requested = self._chunk_bytes if position else self._size_of_next(data, requested)
            base += position

    def _size_of_next(self, data: Bytes, requested: int) -> int:
        """Return how much to read for the batch that ``data`` begins with; its size was found to be possible."""
        size = int.from_bytes(data[8:OVERHEAD_BYTES].tobytes(), "big", signed=True) + OVERHEAD_BYTES
        return max(size, requested) if self._whole else requested


def parts_of(chunk: Chunk, ratio: float, target_bytes: int) -> Iterator[Chunk]:
    """Cut a chunk where its batches' records, ``ratio`` times as large as the batches, reach ``target_bytes``."""
    batches = chunk.batches
    after = np.cumsum(batches.column("size"))
    step = max(int(target_bytes / max(ratio, 1.0)), 1)
    first = 0
    while first < len(batches):
        before = int(after[first - 1]) if first else 0
        last = max(int(np.searchsorted(after, before + step, side="right")), first + 1)
        yield chunk._replace(batches=Batches(batches.table[:, first:last], batches.end))
        first = last
