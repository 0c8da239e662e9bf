"""Decode batches: decompress them, then index the records of all of them with one kernel call.

``open_sections`` returns the position of each batch's records, decompressed if necessary. ``index_records`` returns the
offset and timestamp of every record and the positions of its key, value and headers, after the same checks as in Kafka.
Python code runs once per *compressed* batch, never per record. Damaged bytes never raise an error. Damage is reported
as a status code and a position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kafkaframes.records import _kernels_index, codecs, native
from kafkaframes.records._delivery import DamagedStreamError
from kafkaframes.records.decoded import Allocate, BatchProblem, DecodedBatches, RecordIndex, RecordSections
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    CODECS,
    COLUMN_INDEX,
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
    MAX_RECORDS,
    NULL_SET,
    SHORT_HEADER,
    UNKNOWN_CODEC,
    UNREADABLE_FIELD,
    WHOLE,
    WRAPPER_MAGIC,
)
from kafkaframes.records.scan import BatchHeaders, Bytes, Flags, Ints, split_into_runs

# Memory per record and per header in addition to its bytes: the index, and arrays derived from it.
RECORD_BYTES, HEADER_BYTES = 52, 48
# Smallest inner message of formats 0 and 1: offset, size field, and the smallest size.
_MIN_MESSAGE_BYTES = 26
# Memory is reserved (not touched) for records of this many times the size of their batches.
_EXPECTED_COMPRESSION_RATIO = 4

UNLIMITED_BUDGET = 1 << 62

AnyBytes = bytes | bytearray | memoryview


def decode_batches(
    data: Bytes,
    batches: BatchHeaders,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    total_bytes: int | None = None,
    lenient: bool = False,
) -> DecodedBatches:
    """Decompress and index all batches at once.

    Args:
        limit_bytes: largest decompressed size of a batch.
        total_bytes: largest decompressed size of all batches; None for unlimited.
        lenient: whether records are only checked like in the Kafka iterator that skips keys and values.
    """
    sections = open_sections(data, batches, limit_bytes=limit_bytes, total_bytes=total_bytes or UNLIMITED_BUDGET)
    return DecodedBatches(data, batches, sections, index_records(batches, sections, lenient=lenient), lenient=lenient)


def count_records(data: Bytes, batches: BatchHeaders) -> int:
    """Return the number of records in undamaged batches.

    The number is in the headers, except for compressed message sets of formats 0 and 1, which are decompressed.
    """
    is_v2, is_wrapper = batches.is_v2, batches.is_wrapper
    count = int(batches.column("count").sum(where=is_v2)) + int((~is_v2 & ~is_wrapper).sum())
    if is_wrapper.any():
        count += sum(int(part.index.rows.sum()) for part in decode_steps(data, batches.select(is_wrapper)))
    return count


def decode_steps(
    data: Bytes,
    batches: BatchHeaders,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    budget_bytes: int | None = None,
    skip: Flags | None = None,
    allocate: Allocate = np.empty,
    base: int = 0,
    file: str | None = None,
) -> Iterator[DecodedBatches]:
    """Decode batches in parts that fit into a memory budget. A batch that exceeds the budget becomes a separate part.

    The budget counts decompressed records, and the index of records and headers. A part is valid only as long as the
    memory from ``allocate`` is valid.

    Args:
        data, batches, limit_bytes: see ``open_sections``.
        skip: flags of batches to skip; these batches have no records and no problems in the result.
        allocate: function that returns an uninitialized array (``(size, dtype) -> array``).
        budget_bytes: memory budget of a part; None selects the budget of ``limits.current_budget``.
        base: position of the first byte of ``data`` in its source.
        file: name of the source.
    """
    budget_bytes = current_budget() if budget_bytes is None else budget_bytes
    sections = _locate_sections(data, batches, skip)
    sections = _locate_sections(data, batches, skip)
    first, content = 0, None
    while first < len(batches):
        sections, last, content = _open_until_full(
            sections._replace(buf=data), batches, first, content, limit_bytes, budget_bytes, allocate
        )
        costs = sections.ends - sections.starts + RECORD_BYTES * compute_max_row_counts(batches, sections)
        for start, stop in (
            (first + start, first + stop) for start, stop in split_into_runs(costs[first:last], budget_bytes)
        ):
            part = batches.part(start, stop)
            part_sections = sections.part(start, stop)
            index = index_records(part, part_sections, allocate=allocate)
            result = DecodedBatches(data, part, part_sections, index, start, base, file, allocate=allocate)
            yield from _split_by_headers(result, budget_bytes)
        first = last


def _split_by_headers(part: DecodedBatches, budget: int) -> Iterator[DecodedBatches]:
    """Split a part with headers that exceed the budget."""
    counts, rows = part.index.header_counts, part.index.rows
    if HEADER_BYTES * int(counts.sum(dtype=np.int64)) <= budget:
        yield part
        return
    ends = np.cumsum(rows)
    costs = HEADER_BYTES * np.diff(
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))[np.concatenate(([0], ends))]
    )
    for start, stop in split_into_runs(costs, budget):
        index = part.index.part(slice(int(ends[start] - rows[start]), int(ends[stop - 1])), slice(start, stop))
        batches, sections = part.batches.part(start, stop), part.sections.part(start, stop)
        yield replace(part, first=part.first + start, batches=batches, sections=sections, index=index)


def open_sections(
    data: Bytes,
    batches: BatchHeaders,
    *,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    total_bytes: int = UNLIMITED_BUDGET,
) -> RecordSections:
    """Return the position of each batch's records, decompressed if necessary.

    Args:
        data: the bytes that were scanned, with all batches complete.
        batches: the result of ``scan_batches``.
        limit_bytes: largest decompressed size of a batch.
        total_bytes: largest decompressed size of all batches; a stream that exceeds it counts as damaged.
    """
    sections, start, content = _locate_sections(data, batches, None), 0, None
    while start < len(batches):  # without a budget, one step decompresses all batches
        sections, start, content = _open_until_full(
            sections, batches, start, content, limit_bytes, UNLIMITED_BUDGET, np.empty, total_bytes
        )
    return sections


def _locate_sections(data: Bytes, batches: BatchHeaders, skip: Flags | None) -> RecordSections:
    """Return the position of each batch's records, compressed or not, and mark batches that cannot be read."""
    magics, sizes, positions = batches.column("magic"), batches.column("size"), batches.column("position")
    numbers = batches.codecs
    starts = positions + np.where(magics >= 2, BATCH_V2.size, OVERHEAD_BYTES)
    ends = positions + sizes
    kinds = np.full(len(batches), _kernels_index.WHOLE_DATA, np.int8)
    if skip is not None:
        kinds[skip] = _kernels_index.SKIPPED
    sections = RecordSections(data, starts, ends, kinds, {})
    for row in np.flatnonzero(
        (kinds != _kernels_index.SKIPPED) & _mask_unusual_headers(magics, numbers, sizes)
    ).tolist():
        problem = _find_header_problem(int(magics[row]), int(numbers[row]), int(sizes[row]))
        if problem is not None:
            _skip_batch(sections, row, problem)
    return sections


def _skip_batch(sections: RecordSections, row: int, status: int) -> None:
    """Mark a batch as skipped, with the status as its problem."""
    sections.kinds[row] = _kernels_index.SKIPPED
    sections.problems[row] = BatchProblem(status)


def _mask_unusual_headers(magics: Ints, numbers: Ints, sizes: Ints) -> Flags:
    """Return a mask of the batches with an unusual header, which ``_find_header_problem`` must check."""
    unusual: Flags = (magics >= 2) & (sizes < BATCH_V2.size)
    unusual |= (numbers != 0) & ((numbers >= len(CODECS)) | (magics < 0) | ((magics < 2) & (numbers == ZSTD)))
    return unusual


def _find_header_problem(magic: int, codec: int, size: int) -> int | None:
    """Return the status of a batch with a header that makes all its records unreadable."""
    if codec >= len(CODECS):
        return UNKNOWN_CODEC
    if magic >= 2:
        return SHORT_HEADER if size < BATCH_V2.size else None
    if magic not in (0, 1):
        return WRAPPER_MAGIC
    return CODEC_OF_LATER_FORMAT if codec == ZSTD else None


def _open_until_full(
    sections: RecordSections,
    batches: BatchHeaders,
    first: int,
    content: AnyBytes | None,
    limit: int,
    budget: int,
    allocate: Allocate,
    total: int = UNLIMITED_BUDGET,
) -> tuple[RecordSections, int, AnyBytes | None]:
    """Open one or more batches, from ``first`` on, until their records exceed the budget.

    If a batch is compressed, all records are copied or decompressed into one new array. The kernel opens batch after
    batch and returns only if it does not support a batch or the array is too small.

    Args:
        content: the records of batch ``first``, if they are already decompressed.

    Returns:
        The sections, the number of the next batch, and that batch's records if they are already decompressed.
    """
    codecs_used, count = batches.codecs, len(batches)
    compressed_batches = np.flatnonzero((codecs_used[first:] != 0) & (sections.kinds[first:] != _kernels_index.SKIPPED))
    if not len(compressed_batches):
        return sections, count, None
    table = np.ascontiguousarray(batches.table)
    spans = sections.ends - sections.starts
    largest = native.output_capacity(int(spans[first:].max()), limit)
    arena_bytes = min(_EXPECTED_COMPRESSION_RATIO * int(spans[first:].sum()), budget) + largest
    arena, row, size = allocate(arena_bytes, np.uint8), first, 0
    arrays = sections.starts, sections.ends, sections.kinds
    with native.borrow_call_array() as calls:
        while True:
            why = native.UNUSUAL
            if content is None:
                row, size, why = native.open_batches(sections.buf, table, row, *arrays, limit, arena, size, calls)
            if why == WHOLE:
                return sections._replace(buf=arena[:size]), count, None
            records: AnyBytes = b""
            if why == native.UNUSUAL:
                rest_bytes = max(min(limit, total - size), 0)
                records = _decompress_general(sections, table, row, rest_bytes) if content is None else content
                content = None
                if row == first and len(records) > budget:
                    sections.starts[row], sections.ends[row] = 0, len(records)
                    return sections._replace(buf=np.frombuffer(records, np.uint8)), row + 1, None
            capacity = size + len(records) + native.output_capacity(int(spans[row]), limit)
            if capacity > arena.size:
                if row > first and capacity > budget:
                    return sections._replace(buf=arena[:size]), row, records if why == native.UNUSUAL else None
                larger = allocate(max(2 * arena.size, capacity), np.uint8)
                larger[:size] = arena[:size]
                arena = larger
            if why == native.UNUSUAL:
                sections.starts[row] = size
                size += len(records)
                sections.ends[row] = size
                arena.data[size - len(records) : size] = records
                row += 1


def _decompress_general(sections: RecordSections, table: Ints, row: int, limit: int) -> bytes | bytearray | memoryview:
    """Return the records that Kafka would read from a compressed batch, and store its damage in ``sections``."""
    magic, count = int(table[COLUMN_INDEX["magic"], row]), int(table[COLUMN_INDEX["count"], row])
    codec = int(table[COLUMN_INDEX["attributes"], row]) & CODEC_MASK
    section = sections.buf[sections.starts[row] : sections.ends[row]].data
    payload = section if magic >= 2 else _read_wrapper_value(section, magic)
    if isinstance(payload, int):
        _skip_batch(sections, row, payload)
        return b""
    if magic >= 2 and count <= 0:
        damage = _open_stream(codec, payload, magic, limit)
        if damage is not None:
            sections.problems[row] = BatchProblem(DAMAGED_STREAM, str(damage))
            sections.kinds[row] = _kernels_index.SKIPPED
        return b""
    content, error = codecs.decompress(codec, payload, magic=magic, limit_bytes=limit)
    if error is not None:
        sections.problems[row] = BatchProblem(DAMAGED_STREAM, error)
        sections.kinds[row] = _kernels_index.DAMAGED_DATA
    return content


def _read_wrapper_value(message: memoryview, magic: int) -> memoryview | int:
    """Return the value of a compressed message that starts with its CRC, or the status if it is missing."""
    position = (MESSAGE_V0 if magic == 0 else MESSAGE_V1).size - OVERHEAD_BYTES
    size = -1
    for _ in range(2):
        start = position + 4
        if start > len(message):
            return UNREADABLE_FIELD
        size = int.from_bytes(message[position:start], "big", signed=True)
        position = start + max(size, 0)
    return NULL_SET if size < 0 else UNREADABLE_FIELD if position > len(message) else message[start:position]


def _open_stream(codec: int, payload: memoryview, magic: int, limit: int) -> DamagedStreamError | None:
    """Open the stream of a batch without records as Kafka does, without reading; return the error, if any.

    Raw snappy (without xerial's framing) is decompressed as a whole when it is opened.
    """
    try:
        codecs.CODECS[codecs.Codec(codec)].stream(bytes(payload), magic, limit)
    except DamagedStreamError as damage:
        return damage
    return None


def index_records(
    batches: BatchHeaders, sections: RecordSections, *, allocate: Allocate = np.empty, lenient: bool = False
) -> RecordIndex:
    """Index the records of all batches with one kernel call.

    Args:
        batches, sections: the results of ``scan_batches`` and ``open_sections``.
        allocate: function that returns an uninitialized array (``(size, dtype) -> array``).
        lenient: whether records are only checked like in the Kafka iterator that skips keys and values.
    """
    capacity = int(compute_max_row_counts(batches, sections).sum()) + 1
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
    return RecordIndex(*(column[:total] for column in columns), *per_batch)


def compute_max_row_counts(batches: BatchHeaders, sections: RecordSections) -> Ints:
    """Return for each batch the largest number of records that its bytes can hold, regardless of its header."""
    spans = sections.ends - sections.starts
    v2 = np.minimum(np.maximum(batches.column("count"), 0), spans // MIN_RECORD_BYTES + 1)
    rows = np.where(batches.is_v2, v2, spans // _MIN_MESSAGE_BYTES + 1)
    rows[sections.kinds == _kernels_index.SKIPPED] = 0
    return np.minimum(rows, MAX_RECORDS + 1)
