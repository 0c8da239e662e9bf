"""From the headers of many batches to an index of their records: decompress, then one kernel call for all.

``open_sections`` says where each batch's records lie, decompressed; ``index_records`` finds every record's offset and
timestamp and the places of its key, value and headers, checking what Kafka checks. Python is entered once for each
*compressed* batch, never for a record. Nothing raises on bytes from outside: damage is a number and a place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.records import _kernels_index, codecs
from kafkaframes.records._delivery import DamagedStreamError
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    CODECS,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_RECORD_BYTES,
    OVERHEAD_BYTES,
    ZSTD,
)
from kafkaframes.records.reasons import (
    CODEC_OF_LATER_FORMAT,
    DAMAGED_STREAM,
    NULL_SET,
    RECORD_REASONS,
    SHORT_HEADER,
    UNKNOWN_CODEC,
    UNREADABLE_FIELD,
    WHOLE,
    WRAPPER_MAGIC,
)
from kafkaframes.records.scan import Batches, Bytes, Ints

DEFAULT_LIMIT_BYTES = codecs.DEFAULT_LIMIT_BYTES
# The fewest bytes of one inner message of format 0 or 1: offset, size, and the least size.
_FEWEST_MESSAGE_BYTES = 26
# Room behind the arena's usual end, as much as one block of LZ4 may want.
_LARGEST_BLOCK_BYTES = 65_536

Ints32 = npt.NDArray[np.int32]
Allocate = Callable[[int, Any], npt.NDArray[Any]]


class Problem(NamedTuple):
    """Why a batch's records ended, beyond what the kernel's number says."""

    status: int
    detail: str = ""

    @property
    def reason(self) -> str:
        """The problem in words."""
        words = RECORD_REASONS[self.status]
        return f"{words}: {self.detail}" if self.detail else words


class Sections(NamedTuple):
    """Where the records of each batch lie: ``buf[starts[i]:ends[i]]``; ``problems`` has what went wrong on the way."""

    buf: Bytes
    starts: Ints
    ends: Ints
    kinds: npt.NDArray[np.int8]
    problems: dict[int, Problem]


class Index(NamedTuple):
    """One element a record, in order; ``rows``, ``statuses`` and ``wheres`` have one a batch.

    A size of a key or value below zero is null. For formats 0 and 1 ``headers_at`` is the place of the message's CRC.
    """

    offsets: Ints
    timestamps: Ints
    key_at: Ints
    key_size: Ints32
    value_at: Ints
    value_size: Ints32
    headers_at: Ints
    header_counts: Ints32
    rows: Ints
    statuses: Ints
    wheres: Ints

    def take(self, keep: npt.NDArray[np.bool_], batch_of: Ints) -> Index:
        """Return the index of the records where ``keep`` is true; ``batch_of`` is each record's batch."""
        rows = np.bincount(batch_of[keep], minlength=self.rows.size)
        per_record = {name: self._asdict()[name][keep] for name in self._fields[:8]}
        return self._replace(**per_record, rows=rows)


def open_sections(
    data: Bytes,
    batches: Batches,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    skip: npt.NDArray[np.bool_] | None = None,
    allocate: Allocate = np.empty,
) -> Sections:
    """Find, and where need be decompress, the records of each batch.

    Args:
        data: the bytes that ``batches`` was scanned from, each batch whole.
        batches: as ``scan`` returned them.
        limit_bytes: the largest decompressed size of one batch.
        skip: true for batches whose records nobody wants; they get no records and no problems.
        allocate: makes the array of decompressed records (``(size, dtype) -> array``, contents undefined).
    """
    magics, sizes, positions = batches.column("magic"), batches.column("size"), batches.column("position")
    numbers = batches.column("attributes") & CODEC_MASK
    starts = positions + np.where(magics >= 2, BATCH_V2.size, OVERHEAD_BYTES)
    ends = positions + sizes
    kinds = np.full(len(batches), _kernels_index.WHOLE_DATA, np.int8)
    if skip is not None:
        kinds[skip] = _kernels_index.SKIPPED
    sections = Sections(data, starts, ends, kinds, {})
    for row in np.flatnonzero((kinds != _kernels_index.SKIPPED) & ((starts > ends) | (numbers != 0))).tolist():
        problem = _refusal(int(magics[row]), int(numbers[row]), int(sizes[row]))
        if problem is not None:
            _refuse(sections, row, problem)
    compressed = (numbers != 0) & (kinds != _kernels_index.SKIPPED)
    if not compressed.any():
        return sections
    return _decompressed(sections, batches, compressed, limit_bytes, allocate)


def _refuse(sections: Sections, row: int, status: int) -> None:
    sections.kinds[row] = _kernels_index.SKIPPED
    sections.problems[row] = Problem(status)


def _refusal(magic: int, codec: int, size: int) -> int | None:
    """Return the reason to read no record at all from a batch that is compressed or short."""
    if codec >= len(CODECS):
        return UNKNOWN_CODEC
    if magic >= 2:
        return SHORT_HEADER if size < BATCH_V2.size else None
    if magic not in (0, 1):
        return WRAPPER_MAGIC
    return CODEC_OF_LATER_FORMAT if codec == ZSTD else None


def _decompressed(
    sections: Sections, batches: Batches, compressed: npt.NDArray[np.bool_], limit: int, allocate: Allocate
) -> Sections:
    """Put all records of the batches into one new array, the uncompressed ones copied between the others."""
    counts, magics = batches.column("count").tolist(), batches.column("magic").tolist()
    numbers = (batches.column("attributes") & CODEC_MASK).tolist()
    view = sections.buf.data
    arena = _Arena(4 * int((sections.ends - sections.starts).sum()) + _LARGEST_BLOCK_BYTES, allocate)
    sizes = np.zeros(len(batches), np.int64)
    starts, ends, kinds = sections.starts.tolist(), sections.ends.tolist(), sections.kinds.tolist()
    for row, is_compressed in enumerate(compressed.tolist()):
        if kinds[row] == _kernels_index.SKIPPED:
            continue
        whole = view[starts[row] : ends[row]]
        piece: bytes | bytearray | memoryview = whole
        if is_compressed:
            magic = magics[row]
            wrapped = whole if magic >= 2 else _wrapped_value(whole, magic)
            if isinstance(wrapped, int):
                _refuse(sections, row, wrapped)
                continue
            if magic >= 2 and counts[row] <= 0:
                piece = _opened(numbers[row], wrapped, magic, sections, row)
            else:
                size = arena.open(numbers[row], wrapped, limit)
                if size >= 0:
                    sizes[row] = size
                    continue
                piece, error = codecs.decompress(numbers[row], wrapped, magic=magic, limit_bytes=limit)
                if error is not None:
                    sections.problems[row] = Problem(DAMAGED_STREAM, error)
                    sections.kinds[row] = _kernels_index.DAMAGED_DATA
        arena.append(piece)
        sizes[row] = len(piece)
    after = np.cumsum(sizes)
    return sections._replace(buf=arena.array[: arena.size], starts=after - sizes, ends=after)


class _Arena:
    """Byte strings one after the other, each copied at once: it is in the cache, and its memory serves the next."""

    def __init__(self, room: int, allocate: Allocate) -> None:
        self.size = 0
        self.array: Bytes = allocate(room, np.uint8)
        self._view = self.array.data
        self._allocate = allocate

    def open(self, codec: int, payload: memoryview, limit: int) -> int:
        """Decompress a usual stream to the end and return its size, or -1 for any other stream."""
        size = codecs.decompress_into(codec, payload, self._view[self.size :], limit_bytes=limit)
        self.size += max(size, 0)
        return size

    def append(self, piece: bytes | bytearray | memoryview) -> None:
        end = self.size + len(piece)
        if end > self.array.size:
            grown = self._allocate(2 * end, np.uint8)
            grown[: self.size] = self.array[: self.size]
            self.array, self._view = grown, grown.data
        self._view[self.size : end] = piece
        self.size = end


def _wrapped_value(message: memoryview, magic: int) -> memoryview | int:
    """Return the value of a compressed message, which starts with its CRC, or why there is none; its key is ignored."""
    position = (MESSAGE_V0 if magic == 0 else MESSAGE_V1).size - OVERHEAD_BYTES
    size = -1
    for _ in range(2):
        start = position + 4
        if start > len(message):
            return UNREADABLE_FIELD
        size = int.from_bytes(message[position:start], "big", signed=True)
        position = start + max(size, 0)
    return NULL_SET if size < 0 else UNREADABLE_FIELD if position > len(message) else message[start:position]


def _opened(codec: int, payload: memoryview, magic: int, sections: Sections, row: int) -> bytes:
    """Open the stream of a batch without records, as Kafka does, and read nothing."""
    try:
        codecs.CODECS[codecs.Codec(codec)].stream(bytes(payload), magic, 0)
    except DamagedStreamError as damage:
        sections.problems[row] = Problem(DAMAGED_STREAM, str(damage))
        sections.kinds[row] = _kernels_index.SKIPPED
    return b""


def index_records(
    batches: Batches, sections: Sections, *, allocate: Allocate = np.empty, lenient: bool = False
) -> Index:
    """Index the records of all batches with one kernel call.

    Args:
        batches, sections: as ``scan`` and ``open_sections`` returned them.
        allocate: makes the arrays of the index (``(size, dtype) -> array``, contents undefined).
        lenient: check only what Kafka's iterator checks that skips keys and values.
    """
    capacity = int(most_rows(batches, sections).sum()) + 1
    columns = [allocate(capacity, np.int64), allocate(capacity, np.int64)]
    for _ in range(3):
        columns += [allocate(capacity, np.int64), allocate(capacity, np.int32)]
    per_batch = [np.zeros(len(batches), np.int64) for _ in range(3)]
    total = _kernels_index.index_records(
        sections.buf,
        np.ascontiguousarray(batches.table),
        0,
        len(batches),
        sections.starts,
        sections.ends,
        sections.kinds,
        int(lenient),
        *columns,
        *per_batch,
    )
    return Index(*(column[:total] for column in columns), *per_batch)


def most_rows(batches: Batches, sections: Sections) -> Ints:
    """Return for each batch how many records its bytes could hold at most, whatever its header says."""
    spans = sections.ends - sections.starts
    v2 = np.minimum(np.maximum(batches.column("count"), 0), spans // MIN_RECORD_BYTES + 1)
    most = np.where(batches.column("magic") >= 2, v2, spans // _FEWEST_MESSAGE_BYTES + 1)
    most[sections.kinds == _kernels_index.SKIPPED] = 0
    return most


def problem_of(row: int, index: Index, sections: Sections) -> Problem | None:
    """Return why the records of the batch ended before their time; ``None`` for a whole batch."""
    found = sections.problems.get(row)
    status = int(index.statuses[row])
    if found is not None and (sections.kinds[row] == _kernels_index.SKIPPED or status in (DAMAGED_STREAM, WHOLE)):
        return found
    return Problem(status) if status != WHOLE else None
