"""Find the batches in a sequence of bytes, by reading their headers only.

Nothing is decompressed, and only the framing is checked.

Kafka has two iterators over batches, with different rules:

* ``MEMORY`` (``ByteBufferLogInputStream``): a magic other than 0, 1 or 2 is an error.
* ``FILE`` (``FileLogInputStream``): any magic of 2 or above is read as format 2, any below as a message of format 0
  or 1. Up to 17 bytes at the end are ignored.

Both iterators stop without an error at an incomplete last batch, and with an error at an impossible size.

``Chunks`` splits a source of any size into chunks of some megabytes of complete batches, so memory is bounded. A source
provides its size and its bytes; other packages open the files. A batch that is larger than a chunk becomes a separate
chunk. A batch is read only if its size fits into the source.
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
    COLUMN_INDEX,
    CONTROL,
    LOG_APPEND_TIME,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
)
from kafkaframes.records.reasons import CORRUPT_END_REASONS, END_REASONS, FULL, MORE

MEMORY, FILE = "memory", "file"
# The argument ``memory_rules`` of the scan kernel.
MEMORY_RULES_FLAGS = {MEMORY: 1, FILE: 0}
# Status of a scan of a source with fewer bytes than its size; the kernels never return it.
TRUNCATED_SOURCE = -1
# Rows of a scan's table. A scan continues with another table, so this bounds memory, not the size of logs.
MAX_TABLE_ROWS = 16_384
# The status codes that mean lost bytes: Kafka's iterator ends with an error, or the source was truncated.
DAMAGED_END_REASONS = CORRUPT_END_REASONS | {TRUNCATED_SOURCE}
_MIN_BATCH_BYTES = 26  # size of a format 0 message without key and value

_END_REASONS = END_REASONS | {TRUNCATED_SOURCE: "the file became shorter while it was read"}

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


class ScanEnd(NamedTuple):
    """The end of a scan: its position and its reason.

    Attributes:
        position: the end of the last batch.
        status: a status code of ``reasons.py``. After ``MORE`` and ``FULL`` the scan can continue from ``position``.
    """

    position: int
    status: int

    @property
    def can_continue(self) -> bool:
        """Whether more bytes or another table would yield more batches."""
        return self.status in (MORE, FULL)

    @property
    def is_corrupt(self) -> bool:
        """Whether Kafka's iterator ends with an error here."""
        return self.status in CORRUPT_END_REASONS

    @property
    def reason(self) -> str:
        """The reason for the end, as text."""
        return _END_REASONS.get(self.status, "more to read")


class BatchHeaders(NamedTuple):
    """The headers of consecutive batches: ``table`` has a row per name in ``BATCH_COLUMNS`` and a column per batch."""

    table: Ints
    end: ScanEnd

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def part(self, first: int, last: int) -> BatchHeaders:
        """Return the batches ``first`` to ``last`` (exclusive)."""
        return BatchHeaders(self.table[:, first:last], self.end)

    def column(self, name: str) -> Ints:
        """Return one field of all batches; -1 if a batch's format has no such field, or its header ends before it."""
        row: Ints = self.table[COLUMN_INDEX[name]]
        return row

    # Arrays with one element per batch, computed at each access.

    @property
    def is_v2(self) -> Flags:
        """A mask of the batches that are read as format 2. The other batches are messages of format 0 or 1."""
        result: Flags = self.column("magic") >= 2
        return result

    @property
    def codecs(self) -> Ints:
        """The codec numbers; 5, 6 and 7 are unknown to Kafka."""
        return self.column("attributes") & CODEC_MASK

    @property
    def is_wrapper(self) -> Flags:
        """A mask of the batches that are compressed messages of format 0 or 1, with a message set inside."""
        result: Flags = ~self.is_v2 & (self.codecs != 0)
        return result

    def mask_flag(self, bit: int) -> Flags:
        """Return whether each batch has an attribute flag. Format 1 has only the timestamp type, format 0 has none."""
        lowest = 1 if bit == LOG_APPEND_TIME else 2
        result: Flags = (self.column("magic") >= lowest) & ((self.column("attributes") & bit) != 0)
        return result

    @property
    def is_control(self) -> Flags:
        """A mask of the control batches."""
        return self.mask_flag(CONTROL)

    @property
    def is_transactional(self) -> Flags:
        """A mask of the batches that belong to a transaction, as data or as its marker."""
        return self.mask_flag(TRANSACTIONAL)

    def select(self, selection: Flags | Ints) -> BatchHeaders:
        """Return the selected batches; ``selection`` is flags or batch numbers."""
        return BatchHeaders(np.ascontiguousarray(self.table[:, selection]), self.end)


def as_array(data: bytes | bytearray | memoryview | Bytes) -> Bytes:
    """Return a read-only array that shares the memory of ``data``."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


def scan_batches(
    data: bytes | bytearray | memoryview | Bytes,
    *,
    position: int = 0,
    end: int | None = None,
    rules: str = MEMORY,
    includes_data: bool = True,
    allocate: Callable[[int, Any], Any] = np.empty,
) -> BatchHeaders:
    """Scan the batches in ``data``, up to ``MAX_TABLE_ROWS`` of them.

    Args:
        data: the bytes to scan; they may be only the first part of a source.
        position: position of the first batch in ``data``.
        end: size of the source, counted from the start of ``data``; None is the size of ``data``.
        rules: ``MEMORY`` or ``FILE``.
        includes_data: whether a batch must be completely in ``data``; if False, its header is enough.
        allocate: function that returns the memory for the table (``(size, dtype) -> array``).
    """
    array = as_array(data)
    end = array.size if end is None else end
    capacity = min(MAX_TABLE_ROWS, max(array.size - position, 0) // _MIN_BATCH_BYTES + 1)
    table: Ints = allocate(len(BATCH_COLUMNS) * capacity, np.int64).reshape(len(BATCH_COLUMNS), capacity)
    rows, stopped, status = _kernels_scan.scan_batches(
        array, position, end, MEMORY_RULES_FLAGS[rules], int(includes_data), table
    )
    return BatchHeaders(table[:, :rows], ScanEnd(int(stopped), int(status)))


def scan_all(data: bytes | bytearray | memoryview | Bytes, *, rules: str = MEMORY) -> BatchHeaders:
    """Scan all batches of ``data``."""
    tables, position = [], 0
    while True:
        result = scan_batches(data, position=position, rules=rules)
        tables.append(result.table)
        if not result.end.can_continue:
            return BatchHeaders(np.ascontiguousarray(np.concatenate(tables, axis=1)), result.end)
        position = result.end.position


def check_crcs(data: Any, batches: BatchHeaders) -> npt.NDArray[np.int8]:
    """Return 1 for each batch with a correct CRC, and 0 for the others.

    The result is 0 for a batch that is too short for a CRC.
    """
    ok: npt.NDArray[np.int8] = np.empty(len(batches), np.int8)
    _kernels_scan.check_crcs(as_array(data), np.ascontiguousarray(batches.table), 0, len(batches), ok)
    return ok


def check_message_crcs(data: Any, positions: Ints) -> npt.NDArray[np.int8]:
    """Return 1 for each message of format 0 or 1 with a correct CRC, and 0 for the others.

    Args:
        positions: positions of the messages' CRCs in ``data`` (``RecordIndex.headers_at`` in formats 0 and 1).
    """
    ok: npt.NDArray[np.int8] = np.empty(len(positions), np.int8)
    _kernels_scan.check_message_crcs(as_array(data), np.ascontiguousarray(positions), ok)
    return ok


def get_timestamp_types(magics: Ints, attributes: Ints) -> npt.NDArray[np.int32]:
    """Return each batch's timestamp type: -1 (format 0, without timestamps), 0 (CreateTime) or 1 (LogAppendTime)."""
    append = (attributes & LOG_APPEND_TIME) != 0
    return np.where(magics == 0, -1, append).astype(np.int32)


CHUNK_BYTES = 2 << 20


class BatchSource(Protocol):
    """A sequence of bytes that holds consecutive batches."""

    @property
    def name(self) -> str | None:
        """The source's name in reports; None for bytes in memory."""
        ...

    @property
    def size_bytes(self) -> int:
        """The current size. A log that is being written may become larger later."""
        ...

    @property
    def damage(self) -> Exception | None:
        """The reason why the source has fewer bytes than its size, if the source reports it; otherwise None."""
        ...

    def read(self, position: int, length: int) -> Bytes:
        """Return up to ``length`` bytes from ``position``, fewer at the end; valid until the next read."""
        ...


class Chunk(NamedTuple):
    """Some complete batches of a source, and their bytes. ``data`` starts at position ``base`` of the source."""

    base: int
    data: Bytes
    batches: BatchHeaders


class MemorySource(NamedTuple):
    """A source in memory."""

    data: Bytes
    name: str | None = None
    damage: Exception | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the bytes."""
        return int(self.data.size)

    def read(self, position: int, length: int) -> Bytes:
        """Return a view of the bytes."""
        return self.data[position : position + length]


class ScannedChunk:
    """A source of one chunk, for bytes in memory whose batch headers are already known; used instead of ``Chunks``."""

    def __init__(self, data: Bytes, batches: BatchHeaders) -> None:
        self._chunk = Chunk(0, data, batches)
        self.end: ScanEnd | None = batches.end

    def __iter__(self) -> Iterator[Chunk]:
        if len(self._chunk.batches):
            yield self._chunk


class Chunks:
    """An iterator over a source's chunks.

    After the iteration, ``end`` contains the position at which the batches end, and the reason.

    A source that has fewer bytes than its size was truncated during the scan. For such a source, ``end.status`` is
    ``TRUNCATED_SOURCE``, unless the source reports damage of its own.
    """

    def __init__(
        self,
        source: BatchSource,
        *,
        rules: str,
        start: int = 0,
        end: int | None = None,
        chunk_bytes: int = CHUNK_BYTES,
        includes_data: bool = True,
        allocate: Callable[[int, Any], Any] = np.empty,
    ) -> None:
        self.end: ScanEnd | None = None
        self._source = source
        self._rules = rules
        self._position = start
        self._limit = end
        self._chunk_bytes = max(chunk_bytes, BATCH_V2.size)
        self._includes_data = includes_data
        self._allocate = allocate

    def __iter__(self) -> Iterator[Chunk]:
        limit = self._source.size_bytes if self._limit is None else min(self._limit, self._source.size_bytes)
        base, read_bytes, is_cut = self._position, self._chunk_bytes, False
        while True:
            data = self._source.read(base, min(read_bytes, max(limit - base, 0)))
            if base + data.size < limit and data.size < read_bytes:
                limit, is_cut = base + data.size, self._source.damage is None
            position = 0
            while True:
                batches = scan_batches(
                    data,
                    position=position,
                    end=limit - base,
                    rules=self._rules,
                    includes_data=self._includes_data,
                    allocate=self._allocate,
                )
                count, status = batches.table.shape[1], batches.end.status
                if count:
                    yield Chunk(base, data, batches)
                position = batches.end.position
                if status == MORE:
                    break
                if status != FULL:
                    is_cut = is_cut and not batches.end.is_corrupt
                    self.end = ScanEnd(base + position, TRUNCATED_SOURCE if is_cut else status)
                    return
            read_bytes = self._chunk_bytes if position else self._next_read_bytes(data, read_bytes)
            base += position

    def _next_read_bytes(self, data: Bytes, read_bytes: int) -> int:
        """Return how many bytes to read for the batch at the start of ``data``; the scan has checked its size."""
        size = int.from_bytes(data[8:OVERHEAD_BYTES].tobytes(), "big", signed=True) + OVERHEAD_BYTES
        return max(size, read_bytes) if self._includes_data else read_bytes


def split_chunk(chunk: Chunk, ratio: float, target_bytes: int) -> Iterator[Chunk]:
    """Split a chunk so that the records of each part, ``ratio`` times the batch sizes, have about ``target_bytes``."""
    for first, last in split_into_runs(chunk.batches.column("size"), max(int(target_bytes / max(ratio, 1.0)), 1)):
        yield chunk._replace(batches=chunk.batches.part(first, last))


def split_into_runs(sizes: Ints, max_size: int, *, max_count: int = 1 << 62) -> Iterator[tuple[int, int]]:
    """Divide sizes into runs of consecutive sizes, and yield the (first, end) indexes of each run.

    Each run has a sum of at most ``max_size`` and 1 to ``max_count`` sizes.

    >>> list(split_into_runs(np.array([3, 4, 9, 1, 1]), 8)), list(split_into_runs(np.array([1, 1, 1]), 8, max_count=2))
    ([(0, 2), (2, 3), (3, 5)], [(0, 2), (2, 3)])
    """
    ends, first, start = np.cumsum(sizes), 0, 0
    while first < len(sizes):
        last = min(max(int(np.searchsorted(ends, start + max_size, side="right")), first + 1), first + max_count)
        yield first, last
        first, start = last, int(ends[last - 1])
