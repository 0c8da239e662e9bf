"""Cut bytes into batches by their headers alone: nothing is decompressed, nothing is checked but the framing.

Kafka has two iterators over batches, and they differ:

* ``MEMORY`` (``ByteBufferLogInputStream``): a magic that is none of 0, 1, 2 is an error.
* ``FILE`` (``FileLogInputStream``): any magic of 2 and above is read as format 2, any below as a message of
  format 0 or 1; a tail of up to 17 bytes is not looked at.

Both stop without an error where the last batch is not whole, and with one where a size is impossible.

``Chunks`` cuts a source that may be large into chunks of some megabytes, each of whole batches: bounded memory. A
source answers two questions, its size and its bytes; who opens files is another package's matter. A batch larger than
a chunk is one of its own, and is read only after its size was found to lie within the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kafkaframes.records import _kernels_scan
from kafkaframes.records.layout import (
    BATCH_COLUMNS,
    BATCH_V2,
    CODEC_MASK,
    COLUMN,
    CONTROL,
    LOG_APPEND_TIME,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
)
from kafkaframes.records.reasons import CORRUPT_ENDS, END_REASONS, FULL, MORE

MEMORY, FILE = "memory", "file"
RULES = {MEMORY: 1, FILE: 0}
# How a scan of a source ends whose bytes came to an end before the size it gave: no kernel's number.
CUT = -1
# Rows of a scan's table: a scan goes on with the next table, so this bounds memory, not logs.
TABLE_ROWS = 16_384
# The ends of a scan behind which bytes are lost: where Kafka's iterator ends with an error, and that of a cut source.
DAMAGED_ENDS = CORRUPT_ENDS | {CUT}
_FEWEST_BATCH_BYTES = 26

_REASONS = END_REASONS | {CUT: "the file became shorter while it was read"}

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


class End(NamedTuple):
    """How a scan ended.

    Attributes:
        position: the byte after the last batch.
        status: a number of ``reasons.py``; ``MORE`` and ``FULL`` mean that the scan can go on from ``position``.
    """

    position: int
    status: int

    @property
    def goes_on(self) -> bool:
        """Whether more bytes or another table would give more batches."""
        return self.status in (MORE, FULL)

    @property
    def corrupt(self) -> bool:
        """Whether Kafka's iterator ends with an error here, not silently."""
        return self.status in CORRUPT_ENDS

    @property
    def reason(self) -> str:
        """The end in words."""
        return _REASONS.get(self.status, "more to read")


class Batches(NamedTuple):
    """The headers of consecutive batches: one row of ``table`` for each of ``BATCH_COLUMNS``, one column a batch."""

    table: Ints
    end: End

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def part(self, first: int, last: int) -> Batches:
        """Return the batches from number ``first`` on, below ``last``."""
        return Batches(self.table[:, first:last], self.end)

    def column(self, name: str) -> Ints:
        """Return one field of all batches; -1 where a batch's format or its size lacks it."""
        row: Ints = self.table[COLUMN[name]]
        return row

    # One element a batch, each computed when it is asked for.

    @property
    def is_v2(self) -> Flags:
        """Which batches are read as format 2: the others are messages of format 0 or 1."""
        result: Flags = self.column("magic") >= 2
        return result

    @property
    def codecs(self) -> Ints:
        """The numbers of the codecs; 5, 6 and 7 are unknown to Kafka."""
        return self.column("attributes") & CODEC_MASK

    @property
    def is_wrapper(self) -> Flags:
        """Which are compressed messages of format 0 or 1, each with a set of messages inside."""
        result: Flags = ~self.is_v2 & (self.codecs != 0)
        return result

    def flag(self, bit: int) -> Flags:
        """Return a flag; formats 0 and 1 have only that of the timestamp type (format 1)."""
        lowest = 1 if bit == LOG_APPEND_TIME else 2
        result: Flags = (self.column("magic") >= lowest) & ((self.column("attributes") & bit) != 0)
        return result

    @property
    def is_control(self) -> Flags:
        """Which are control batches."""
        return self.flag(CONTROL)

    @property
    def is_transactional(self) -> Flags:
        """Which belong to a transaction, as data or as its marker."""
        return self.flag(TRANSACTIONAL)

    def select(self, selection: Flags | Ints) -> Batches:
        """Return the selected batches; ``selection`` is flags or batch numbers."""
        return Batches(np.ascontiguousarray(self.table[:, selection]), self.end)


def as_array(data: bytes | bytearray | memoryview | Bytes) -> Bytes:
    """View bytes as a read-only array, without copying."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


def scan(
    data: bytes | bytearray | memoryview | Bytes,
    *,
    position: int = 0,
    end: int | None = None,
    rules: str = MEMORY,
    whole: bool = True,
    allocate: Callable[[int, Any], Any] = np.empty,
) -> Batches:
    """Scan the batches that lie in ``data``, up to ``TABLE_ROWS`` of them.

    Args:
        data: the bytes at hand; perhaps only the first part of their source.
        position: the byte of ``data`` at which a batch starts.
        end: the size of the source in bytes, counted from ``data``'s first; the size of ``data`` by default.
        rules: ``MEMORY`` or ``FILE``.
        whole: ask for batches that lie in ``data`` as a whole; otherwise the header is enough.
        allocate: makes the table (``(size, dtype) -> array``).
    """
    array = as_array(data)
    end = array.size if end is None else end
    capacity = min(TABLE_ROWS, max(array.size - position, 0) // _FEWEST_BATCH_BYTES + 1)
    table: Ints = allocate(len(BATCH_COLUMNS) * capacity, np.int64).reshape(len(BATCH_COLUMNS), capacity)
    rows, stopped, status = _kernels_scan.scan_batches(array, position, end, RULES[rules], int(whole), table)
    return Batches(table[:, :rows], End(int(stopped), int(status)))


def scan_all(data: bytes | bytearray | memoryview | Bytes, *, rules: str = MEMORY) -> Batches:
    """Scan every batch of ``data``, however many; the table grows with them."""
    tables, position = [], 0
    while True:
        result = scan(data, position=position, rules=rules)
        tables.append(result.table)
        if not result.end.goes_on:
            return Batches(np.ascontiguousarray(np.concatenate(tables, axis=1)), result.end)
        position = result.end.position


def check_crcs(data: Any, batches: Batches) -> npt.NDArray[np.int8]:
    """Return 1 for each batch whose CRC is that of its bytes, else 0 (also where it is too short to have one)."""
    ok: npt.NDArray[np.int8] = np.empty(len(batches), np.int8)
    _kernels_scan.check_crcs(as_array(data), np.ascontiguousarray(batches.table), 0, len(batches), ok)
    return ok


def check_message_crcs(data: Any, positions: Ints) -> npt.NDArray[np.int8]:
    """Return 1 for each message of format 0 or 1 whose CRC is that of its bytes, else 0.

    Args:
        positions: where in ``data`` each one's CRC lies (``Index.headers_at`` of formats 0 and 1).
    """
    ok: npt.NDArray[np.int8] = np.empty(len(positions), np.int8)
    _kernels_scan.check_message_crcs(as_array(data), np.ascontiguousarray(positions), ok)
    return ok


def timestamp_types(magics: Ints, attributes: Ints) -> npt.NDArray[np.int32]:
    """Return -1 (none: format 0), 0 (CreateTime) or 1 (LogAppendTime) for each batch."""
    append = (attributes & LOG_APPEND_TIME) != 0
    return np.where(magics == 0, -1, append).astype(np.int32)


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
    for first, last in runs_of(chunk.batches.column("size"), max(int(target_bytes / max(ratio, 1.0)), 1)):
        yield chunk._replace(batches=chunk.batches.part(first, last))


def runs_of(sizes: Ints, most: int, *, longest: int = 1 << 62) -> Iterator[tuple[int, int]]:
    """Cut a row of sizes where their sum would exceed ``most``, or their number ``longest``; each run has one at least.

    >>> list(runs_of(np.array([3, 4, 9, 1, 1]), 8)), list(runs_of(np.array([1, 1, 1]), 8, longest=2))
    ([(0, 2), (2, 3), (3, 5)], [(0, 2), (2, 3)])
    """
    after, first, before = np.cumsum(sizes), 0, 0
    while first < len(sizes):
        last = min(max(int(np.searchsorted(after, before + most, side="right")), first + 1), first + longest)
        yield first, last
        first, before = last, int(after[last - 1])
