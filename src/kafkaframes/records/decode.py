"""From the headers of many batches to an index of their records: decompress, then one kernel call for all.

``open_sections`` says where each batch's records lie, decompressed; ``index_records`` finds every record's offset and
timestamp and the places of its key, value and headers, checking what Kafka checks. Python is entered once for each
*compressed* batch, never for a record. Nothing raises on bytes from outside: damage is a number and a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kafkaframes.records import _kernels_index, codecs, native
from kafkaframes.records._delivery import DamagedStreamError
from kafkaframes.records.decoded import Allocate, Decoded, Index, Problem, Sections
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    CODECS,
    COLUMN,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_RECORD_BYTES,
    OVERHEAD_BYTES,
    ZSTD,
)
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES, current_budget
from kafkaframes.records.reasons import (
    CODEC_OF_LATER_FORMAT,
    DAMAGED_STREAM,
    MOST_RECORDS,
    NULL_SET,
    SHORT_HEADER,
    UNKNOWN_CODEC,
    UNREADABLE_FIELD,
    WHOLE,
    WRAPPER_MAGIC,
)
from kafkaframes.records.scan import Batches, Bytes, Flags, Ints, runs_of

# What is held of each record and of each header beside its bytes: its index, and arrays that are made of that.
RECORD_BYTES, HEADER_BYTES = 52, 48
# The fewest bytes of one inner message of format 0 or 1: offset, size, and the least size.
_FEWEST_MESSAGE_BYTES = 26
# Memory is reserved, not touched, for records that are this many times as large as their batches.
_USUAL_RATIO = 4

NO_BUDGET = 1 << 62

AnyBytes = bytes | bytearray | memoryview


def decode(
    data: Bytes,
    batches: Batches,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    total_bytes: int | None = None,
    lenient: bool = False,
) -> Decoded:
    """Open and index all batches at once.

    Args:
        total_bytes: as of ``open_sections``; None is no bound.
        lenient: as Kafka's iterator that skips keys and values.
    """
    sections = open_sections(data, batches, limit_bytes=limit_bytes, total_bytes=total_bytes or NO_BUDGET)
    return Decoded(data, batches, sections, index_records(batches, sections, lenient=lenient), lenient=lenient)


def count_records(data: Bytes, batches: Batches) -> int:
    """Return how many records batches hold: by their headers, and where a message set of formats 0 and 1 is
    compressed, by opening it, for no header says it.

    Args:
        batches: good ones.
    """
    is_v2, wrapped = batches.is_v2, batches.is_wrapper
    count = int(batches.column("count").sum(where=is_v2)) + int((~is_v2 & ~wrapped).sum())
    if wrapped.any():
        count += sum(int(part.index.rows.sum()) for part in in_turn(data, batches.chosen(wrapped)))
    return count


def in_turn(
    data: Bytes,
    batches: Batches,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    budget_bytes: int | None = None,
    skip: Flags | None = None,
    allocate: Allocate = np.empty,
    base: int = 0,
    file: str | None = None,
) -> Iterator[Decoded]:
    """Open and index batches, not more at once than a budget of memory holds; one that is larger is open alone.

    Counted are the records, decompressed, with what is kept of each record and of each header. What a part says is
    valid as long as ``allocate``'s memory is.

    Args:
        data, batches, limit_bytes: as of ``open_sections``.
        skip: true for batches whose records nobody wants; they get no records and no problems.
        allocate: makes the arrays (``(size, dtype) -> array``, contents undefined).
        budget_bytes: the most bytes of all batches of a part; ``None``: what ``limits.budget`` says.
        base, file: the position of ``data``'s first byte in its source, and the source's name.
    """
    budget_bytes = current_budget() if budget_bytes is None else budget_bytes
    sections = _sections(data, batches, skip)
    first, held = 0, None
    while first < len(batches):
        sections, last, held = _open_some(
            sections._replace(buf=data), batches, first, held, limit_bytes, budget_bytes, allocate
        )
        costs = sections.ends - sections.starts + RECORD_BYTES * most_rows(batches, sections)
        for start, stop in ((first + start, first + stop) for start, stop in runs_of(costs[first:last], budget_bytes)):
            part = batches.part(start, stop)
            opened = sections.part(start, stop)
            index = index_records(part, opened, allocate=allocate)
            result = Decoded(data, part, opened, index, start, base, file, allocate=allocate)
            yield from _by_headers(result, budget_bytes)
        first = last


def _by_headers(part: Decoded, budget: int) -> Iterator[Decoded]:
    """Cut a part whose headers are more than the budget holds."""
    counts, rows = part.index.header_counts, part.index.rows
    if HEADER_BYTES * int(counts.sum(dtype=np.int64)) <= budget:
        yield part
        return
    ends = np.cumsum(rows)
    costs = HEADER_BYTES * np.diff(
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))[np.concatenate(([0], ends))]
    )
    for start, stop in runs_of(costs, budget):
        index = part.index.part(slice(int(ends[start] - rows[start]), int(ends[stop - 1])), slice(start, stop))
        batches, sections = part.batches.part(start, stop), part.sections.part(start, stop)
        yield replace(part, first=part.first + start, batches=batches, sections=sections, index=index)


def open_sections(
    data: Bytes,
    batches: Batches,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    total_bytes: int = NO_BUDGET,
) -> Sections:
    """Find, and where need be decompress, the records of each batch.

    Args:
        data: the bytes that ``batches`` was scanned from, each batch whole.
        batches: as ``scan`` returned them.
        limit_bytes: the largest decompressed size of one batch.
        total_bytes: the largest of all together; a stream that exceeds it counts as damaged.
    """
    sections, start, held = _sections(data, batches, None), 0, None
    while start < len(batches):  # a budget without end: all at once
        sections, start, held = _open_some(
            sections, batches, start, held, limit_bytes, NO_BUDGET, np.empty, total_bytes
        )
    return sections


def _sections(data: Bytes, batches: Batches, skip: Flags | None) -> Sections:
    """Find where the bytes of each batch's records lie, compressed or not, and refuse what cannot be read."""
    magics, sizes, positions = batches.column("magic"), batches.column("size"), batches.column("position")
    numbers = batches.codecs
    starts = positions + np.where(magics >= 2, BATCH_V2.size, OVERHEAD_BYTES)
    ends = positions + sizes
    kinds = np.full(len(batches), _kernels_index.WHOLE_DATA, np.int8)
    if skip is not None:
        kinds[skip] = _kernels_index.SKIPPED
    sections = Sections(data, starts, ends, kinds, {})
    for row in np.flatnonzero((kinds != _kernels_index.SKIPPED) & _may_be_refused(magics, numbers, sizes)).tolist():
        problem = _refusal(int(magics[row]), int(numbers[row]), int(sizes[row]))
        if problem is not None:
            _refuse(sections, row, problem)
    return sections


def _refuse(sections: Sections, row: int, status: int) -> None:
    sections.kinds[row] = _kernels_index.SKIPPED
    sections.problems[row] = Problem(status)


def _may_be_refused(magics: Ints, numbers: Ints, sizes: Ints) -> Flags:
    """Find the batches that ``_refusal`` must look at: it refuses no other."""
    unusual: Flags = (magics >= 2) & (sizes < BATCH_V2.size)
    unusual |= (numbers != 0) & ((numbers >= len(CODECS)) | (magics < 0) | ((magics < 2) & (numbers == ZSTD)))
    return unusual


def _refusal(magic: int, codec: int, size: int) -> int | None:
    """Return the reason to read no record at all from a batch that is compressed or short."""
    if codec >= len(CODECS):
        return UNKNOWN_CODEC
    if magic >= 2:
        return SHORT_HEADER if size < BATCH_V2.size else None
    if magic not in (0, 1):
        return WRAPPER_MAGIC
    return CODEC_OF_LATER_FORMAT if codec == ZSTD else None


def _open_some(
    sections: Sections,
    batches: Batches,
    first: int,
    held: AnyBytes | None,
    limit: int,
    budget: int,
    allocate: Allocate,
    total: int = NO_BUDGET,
) -> tuple[Sections, int, AnyBytes | None]:
    """Open batches from ``first`` on until their records exceed the budget; one batch at least.

    All records are put into one new array, those of uncompressed batches copied between the others. The kernel opens
    batch after batch and stops only where one is unusual, or where the array is too small.

    Args:
        held: the records of batch ``first``, where they were decompressed already.

    Returns:
        The sections, the batch after the last that was opened, and that one's records if they are known already.
    """
    codecs_used, count = batches.codecs, len(batches)
    compressed = np.flatnonzero((codecs_used[first:] != 0) & (sections.kinds[first:] != _kernels_index.SKIPPED))
    if not len(compressed):
        return sections, count, None
    table = np.ascontiguousarray(batches.table)
    spans = sections.ends - sections.starts
    largest = native.usual_capacity(int(spans[first:].max()), limit)
    arena_bytes = min(_USUAL_RATIO * int(spans[first:].sum()), budget) + largest
    arena, row, size = allocate(arena_bytes, np.uint8), first, 0
    arrays = sections.starts, sections.ends, sections.kinds
    with native.borrowed() as calls:
        while True:
            why = native.UNUSUAL
            if held is None:
                row, size, why = native.open_batches(sections.buf, table, row, *arrays, limit, arena, size, calls)
            if why == WHOLE:
                return sections._replace(buf=arena[:size]), count, None
            content: AnyBytes = b""
            if why == native.UNUSUAL:
                content = _careful(sections, table, row, max(min(limit, total - size), 0)) if held is None else held
                held = None
                if row == first and len(content) > budget:
                    sections.starts[row], sections.ends[row] = 0, len(content)
                    return sections._replace(buf=np.frombuffer(content, np.uint8)), row + 1, None
            needed = size + len(content) + native.usual_capacity(int(spans[row]), limit)
            if needed > arena.size:
                if row > first and needed > budget:
                    return sections._replace(buf=arena[:size]), row, content if why == native.UNUSUAL else None
                grown = allocate(max(2 * arena.size, needed), np.uint8)
                grown[:size] = arena[:size]
                arena = grown
            if why == native.UNUSUAL:
                sections.starts[row] = size
                size += len(content)
                sections.ends[row] = size
                arena.data[size - len(content) : size] = content
                row += 1


def _careful(sections: Sections, table: Ints, row: int, limit: int) -> bytes | bytearray | memoryview:
    """Return what Kafka would read of a compressed batch, and note what is wrong with it."""
    magic, count = int(table[COLUMN["magic"], row]), int(table[COLUMN["count"], row])
    codec = int(table[COLUMN["attributes"], row]) & CODEC_MASK
    whole = sections.buf[sections.starts[row] : sections.ends[row]].data
    wrapped = whole if magic >= 2 else _wrapped_value(whole, magic)
    if isinstance(wrapped, int):
        _refuse(sections, row, wrapped)
        return b""
    if magic >= 2 and count <= 0:
        damage = _opened(codec, wrapped, magic, limit)
        if damage is not None:
            sections.problems[row] = Problem(DAMAGED_STREAM, str(damage))
            sections.kinds[row] = _kernels_index.SKIPPED
        return b""
    content, error = codecs.decompress(codec, wrapped, magic=magic, limit_bytes=limit)
    if error is not None:
        sections.problems[row] = Problem(DAMAGED_STREAM, error)
        sections.kinds[row] = _kernels_index.DAMAGED_DATA
    return content


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


def _opened(codec: int, payload: memoryview, magic: int, limit: int) -> DamagedStreamError | None:
    """Open the stream of a batch without records, as Kafka does, and read nothing; return what is wrong.

    Raw snappy, without the frames of Java's writer, is decompressed whole when it is opened.
    """
    try:
        codecs.CODECS[codecs.Codec(codec)].stream(bytes(payload), magic, limit)
    except DamagedStreamError as damage:
        return damage
    return None


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
    most = np.where(batches.is_v2, v2, spans // _FEWEST_MESSAGE_BYTES + 1)
    most[sections.kinds == _kernels_index.SKIPPED] = 0
    return np.minimum(most, MOST_RECORDS + 1)
