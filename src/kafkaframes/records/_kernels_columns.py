"""Read batches to columns in one pass: verify the CRC, decompress, index and copy, batch by batch (numba).

Start reading at ``fused.py``. The bytes of a batch are loaded into the cache once, and each batch is decompressed to
the same memory. The kernel returns when it needs Python (``plan`` has the reason), and continues from there when it is
called again. Tests compare the kernel's results with those of the general path (``_kernels_index``,
``_kernels_gather``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkaframes.records._kernels_codecs import UNUSUAL, max_fast_path_content_bytes, open_batch
from kafkaframes.records._kernels_gather import SLACK_BYTES
from kafkaframes.records._kernels_index import (
    SKIPPED,
    UNCHECKED_READ_BYTES,
    WHOLE_DATA,
    headers_end_at,
    index_batch,
    read_ordinary_record,
)
from kafkaframes.records._kernels_scan import (
    APPEND_TIME,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    COUNT,
    I64,
    MAGIC,
    MAX_TIMESTAMP,
    OVERHEAD,
    POSITION,
    SIZE,
    V2_HEADER,
    is_crc_valid,
)
from kafkaframes.records.layout import MIN_RECORD_BYTES
from kafkaframes.records.reasons import WHOLE
from kafkaframes.wire._jit import (
    BYTES,
    INT8S,
    OUT_BYTES,
    OUT_INT32S,
    OUT_INT64S,
    OUT_TABLE,
    TABLE,
    arrayobj,
    cgutils,
    device,
    inline_device,
    intrinsic,
    ir,
    kernel,
    plain,
    types,
)
from kafkaframes.wire._kernels import (
    OK,
    address_of,
    copy_32,
    copy_bytes,
    load_u8,
    read_varint,
    store_item_8,
    store_item_32,
    store_item_64,
)

# Reasons to return, in addition to ``UNUSUAL`` and ``TOO_SMALL``: goal or last batch reached; column buffers full.
DONE, FULL = 0, -3
# Flags: verify the CRC, and create the columns.
WANT_CRC, WANT_TYPES, WANT_KEY, WANT_VALUE, WANT_HEADERS = 1, 2, 4, 8, 16
# Prefetch distance in the source while records are copied. It saves 20 % of the time for uncompressed batches.
PREFETCH_BYTES = 32768
# Smallest inner message of formats 0 and 1: offset, size field, and the smallest size.
MIN_MESSAGE_BYTES = 26
# Indices in ``plan``. Set by the caller: the columns, the capacity of the buffers, and their positions in ``slab``.
(
    SELECTED,
    ROW_CAPACITY,
    BYTE_CAPACITY,
    AT_OFFSETS,
    AT_STAMPS,
    AT_TYPES,
    AT_KEY_OFFSETS,
    AT_KEYS,
    AT_KEY_VALID,
    AT_VALUE_OFFSETS,
    AT_VALUES,
    AT_VALUE_VALID,
    AT_LISTS,
    AT_NAME_OFFSETS,
    AT_NAMES,
    AT_CONTENT_OFFSETS,
    AT_CONTENTS,
    AT_CONTENT_VALID,
    # Also set by the caller: where to stop, and the number of the batch in ``chunk``.
    LAST,
    LIMIT,
    GOAL,
    CHUNK_ROW,
    # State between calls: the next batch, and the fill levels of the columns.
    BATCH,
    ROW,
    SPANS,
    KEY_END,
    KEY_NULLS,
    VALUE_END,
    VALUE_NULLS,
    HEADERS,
    NAME_END,
    CONTENT_END,
    CONTENT_NULLS,
    NAME_BITS,
    BAD,
    OPENED_ROW,
    OPENED_SIZE,
    # Set if the kernel returns because a buffer is full.
    NEEDED_ROWS,
    NEEDED_BYTES,
    WORDS,
) = range(40)
# Rows of ``outcomes``, per batch: number of records that were read, status of the records (``reasons.py``), position
# where they end, and whether the CRC is right.
OUTCOME_ROWS, OUTCOME_STATUS, OUTCOME_WHERE, OUTCOME_CRC = range(4)
INDEX_BYTES = 3 * (8 + 4)  # bytes of ``scratch`` per record of the largest batch


def _array_at(name: str, kind: Any, dtype: Any) -> Any:
    """Return an intrinsic that views memory at an address as an array."""

    def define_call(typingctx: Any, address: Any, size: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            element = context.get_data_type(kind.dtype)
            step = context.get_constant(types.intp, kind.dtype.bitwidth // 8)
            arrayobj.populate_array(
                array,
                data=builder.inttoptr(args[0], element.as_pointer()),
                shape=cgutils.pack_array(builder, [args[1]]),
                strides=cgutils.pack_array(builder, [step]),
                itemsize=step,
                meminfo=None,
            )
            return array._getvalue()

        return kind(I64, I64), codegen

    define_call.__name__ = name
    return intrinsic(plain.create_array_view(dtype))(define_call)


int64s_at = _array_at("int64s_at", OUT_INT64S, np.int64)
int32s_at = _array_at("int32s_at", OUT_INT32S, np.int32)


@intrinsic(plain.do_nothing)
def _prefetch(typingctx: Any, address: Any, position: Any) -> Any:
    """Prefetch the cache line at an address for reading, into the second-level cache."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        text = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [text, number, number, number]), "llvm.prefetch.p0i8"
        )
        pointer = builder.gep(builder.inttoptr(args[0], text), [args[1]])
        builder.call(function, [pointer, *(ir.Constant(number, value) for value in (0, 2, 1))])
        return context.get_dummy_value()

    return types.none(I64, I64), codegen


@device
def _mark_null(here, nulls, capacity, validity):
    """Clear the validity bit of value ``here``, and return the new null count.

    The first null initializes ``capacity`` bits.
    """
    if nulls == 0:
        for byte in range((capacity >> 3) + 1):
            store_item_8(validity, byte, 0xFF)
    store_item_8(validity, here >> 3, load_u8(validity, here >> 3) & ~(1 << (here & 7)))
    return nulls + 1


@inline_device
def _append_byte_string(buf, position, size, exact, here, to, nulls, capacity, offsets, data, validity):
    """Append a byte string to a column of ``here`` values and ``to`` bytes; return the new byte and null counts.

    Unless ``exact``, up to 31 bytes after the string are read and written as well; the next string overwrites them.
    """
    if size < 0:
        nulls = _mark_null(here, nulls, capacity, validity)
    elif exact or size > 256:
        copy_bytes(data, to, buf, position, size)
        to += size
    else:
        for copied in range(0, size, 32):
            copy_32(data, to + copied, buf, position + copied)
        to += size
    store_item_32(offsets, here + 1, to)
    return to, nulls


@inline_device
def _read_length(buf, position, stop):
    """Read the length of a header's key or value: (length, next position). The position is ``UNUSUAL`` if invalid."""
    if position >= stop:
        return 0, np.int64(UNUSUAL)
    byte = load_u8(buf, position)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    status, value, after = read_varint(buf, position, stop)
    return value, after if status == OK else np.int64(UNUSUAL)


@inline_device
def _append_headers(
    buf, position, stop, count, exact, total, name_end, content_end, nulls, capacity,
    name_offsets, names, content_offsets, contents, validity,
):  # fmt: skip
    """Append ``count`` headers to the columns; return (end of the headers, total, name end, content end, nulls).

    The end is ``UNUSUAL`` if the general path must read the record. In this case, the headers that were appended so far
    are discarded.

    Args:
        buf: address of the records.
        position, stop: positions in ``buf`` of the first header and of the record's end.
        count: number of headers of the record.
        exact: see ``_append_byte_string``.
        total, name_end, content_end, nulls: headers, bytes of keys, bytes of values and null values in the columns.
        capacity: number of headers for which ``validity`` has bits.
        name_offsets, content_offsets: addresses of Arrow's int32 offsets of keys and values.
        names, contents: addresses of the bytes of keys and values.
        validity: address of the values' validity bitmap.
    """
    for _ in range(count):
        size, position = _read_length(buf, position, stop)
        if position < 0 or size < 0 or size > stop - position:
            return np.int64(UNUSUAL), total, name_end, content_end, nulls
        name_end, _ = _append_byte_string(buf, position, size, exact, total, name_end, 0, 0, name_offsets, names, 0)
        size, position = _read_length(buf, position + size, stop)
        if position < 0 or size > stop - position:
            return np.int64(UNUSUAL), total, name_end, content_end, nulls
        content_end, nulls = _append_byte_string(
            buf, position, size, exact, total, content_end, nulls, capacity, content_offsets, contents, validity
        )  # fmt: skip
        position += max(size, 0)
        total += 1
    return position, total, name_end, content_end, nulls


@inline_device
def _max_rows(table, batch, span, kind):
    """Return the largest number of records that ``span`` bytes can hold, regardless of the batch header."""
    if kind == SKIPPED:
        return 0
    if table[MAGIC, batch] >= 2:
        return min(max(table[COUNT, batch], 0), span // MIN_RECORD_BYTES + 1)
    return span // MIN_MESSAGE_BYTES + 1


@kernel(I64(OUT_INT64S, BYTES, BYTES, TABLE, INT8S, OUT_TABLE, OUT_BYTES, OUT_BYTES, OUT_BYTES, OUT_INT64S))
def read_columns(plan, source, chunk, table, kinds, outcomes, slab, scratch, opened, calls):
    """Read batches from ``plan[BATCH]`` on; return the reason to stop.

    Ordinary records are copied to the columns directly. From the first other record of a batch on, records are
    indexed with all checks in ``scratch`` and then copied.

    Args:
        plan: int64[WORDS]; instructions and progress (the indices above).
        source: uint8[]; the source's bytes.
        chunk: uint8[]; the records of batch ``plan[CHUNK_ROW]``, decompressed by the general path.
        table: int64[columns, batches]; the batch headers from ``scan_batches``.
        kinds: int8[batches]; SKIPPED, WHOLE_DATA or DAMAGED_DATA.
        outcomes: int64[4, batches]; output, see ``OUTCOME_*``.
        slab: uint8[]; all buffers of the columns. A byte buffer has ``BYTE_CAPACITY`` bytes, the limit of all records
            read, plus ``SLACK_BYTES``; the others have ``ROW_CAPACITY`` items.
        scratch: uint8[]; INDEX_BYTES for each record of the largest batch.
        opened: uint8[]; memory for the decompressed records of one batch.
        calls: int64[]; a call array, see ``native.py``.
    """
    to = address_of(slab)
    from_source, from_opened, from_chunk = address_of(source), address_of(opened), address_of(chunk)
    column_bits, last, goal, limit_bytes = plan[SELECTED], plan[LAST], plan[GOAL], plan[LIMIT]
    row_capacity, byte_capacity, header_capacity = plan[ROW_CAPACITY], plan[BYTE_CAPACITY], plan[BYTE_CAPACITY] >> 1
    offsets, stamps = int64s_at(to + plan[AT_OFFSETS], row_capacity), int64s_at(to + plan[AT_STAMPS], row_capacity)
    index_at = address_of(scratch)
    key_at, value_at = int64s_at(index_at, row_capacity), int64s_at(index_at + 8 * row_capacity, row_capacity)
    headers_at = int64s_at(index_at + 16 * row_capacity, row_capacity)
    index_at += 24 * row_capacity
    key_size, value_size = int32s_at(index_at, row_capacity), int32s_at(index_at + 4 * row_capacity, row_capacity)
    header_counts = int32s_at(index_at + 8 * row_capacity, row_capacity)
    index = offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts
    offsets_at, stamps_at, types_at = to + plan[AT_OFFSETS], to + plan[AT_STAMPS], to + plan[AT_TYPES]
    key_to, key_data, key_valid = to + plan[AT_KEY_OFFSETS], to + plan[AT_KEYS], to + plan[AT_KEY_VALID]
    value_to, value_data = to + plan[AT_VALUE_OFFSETS], to + plan[AT_VALUES]
    value_valid, lists_at = to + plan[AT_VALUE_VALID], to + plan[AT_LISTS]
    name_to, name_data, content_to = to + plan[AT_NAME_OFFSETS], to + plan[AT_NAMES], to + plan[AT_CONTENT_OFFSETS]
    content_data, content_valid = to + plan[AT_CONTENTS], to + plan[AT_CONTENT_VALID]
    want_key, want_value = column_bits & WANT_KEY != 0, column_bits & WANT_VALUE != 0
    want_headers = column_bits & WANT_HEADERS != 0
    batch, row, spans = plan[BATCH], plan[ROW], plan[SPANS]
    key_end, key_nulls, value_end, value_nulls = plan[KEY_END], plan[KEY_NULLS], plan[VALUE_END], plan[VALUE_NULLS]
    total, name_end = plan[HEADERS], plan[NAME_END]
    content_end, content_nulls = plan[CONTENT_END], plan[CONTENT_NULLS]
    why, bad, name_bits = np.int64(DONE), plan[BAD], plan[NAME_BITS]
    if row == 0:
        store_item_32(key_to, 0, 0)
        store_item_32(value_to, 0, 0)
        store_item_32(lists_at, 0, 0)
        store_item_32(name_to, 0, 0)
        store_item_32(content_to, 0, 0)
    while batch < last and (spans < goal or row == 0):
        if column_bits & WANT_CRC:
            outcomes[OUTCOME_CRC, batch] = is_crc_valid(source, table, batch)
        magic, kind = table[MAGIC, batch], kinds[batch]
        position = table[POSITION, batch] + (V2_HEADER if magic >= 2 else OVERHEAD)
        end = table[POSITION, batch] + table[SIZE, batch]
        data, limit = from_source, source.size
        if kind == SKIPPED:
            end = position
        elif plan[CHUNK_ROW] == batch:
            data, limit, position, end = from_chunk, chunk.size, np.int64(0), chunk.size
        elif position > end:
            why = np.int64(UNUSUAL)
            break
        elif table[ATTRIBUTES, batch] & CODEC_MASK:
            if plan[OPENED_ROW] != batch:
                size = open_batch(data, position, end, table, batch, limit_bytes, from_opened, opened.size, calls)
                if size < 0:
                    plan[NEEDED_BYTES] = max_fast_path_content_bytes(end - position, limit_bytes)
                    why = size
                    break
                plan[OPENED_ROW], plan[OPENED_SIZE] = batch, size
            data, limit, position, end = from_opened, opened.size, np.int64(0), plan[OPENED_SIZE]
        span = end - position
        most = _max_rows(table, batch, span, kind)
        if row + most >= row_capacity or spans + span > byte_capacity:
            plan[NEEDED_ROWS], plan[NEEDED_BYTES] = most, span
            why = np.int64(FULL)
            break
        done, first, names_before = np.int64(0), row, name_end
        count = table[COUNT, batch] if magic >= 2 and kind == WHOLE_DATA else -1
        base, stamp = table[BASE_OFFSET, batch], table[BASE_TIMESTAMP, batch]
        append, append_stamp = table[ATTRIBUTES, batch] & APPEND_TIME, table[MAX_TIMESTAMP, batch]
        ahead = table[POSITION, batch] + PREFETCH_BYTES  # position to prefetch
        step, fetched = table[SIZE, batch] // max(count, 1) + 1, ahead
        quick = end - UNCHECKED_READ_BYTES if end + SLACK_BYTES <= limit else -1
        while done < count and position <= quick:
            (
                stop, stamp_delta, delta, key_from, key_bytes, value_from, value_bytes, following, header_count,
            ) = read_ordinary_record(data, position, end)  # fmt: skip
            if stop < 0 or (done + 1 == count and stop != end):
                break
            here = row + done
            if want_headers:
                if header_count:
                    following, more, names, contents, nulls = _append_headers(
                        data, following, stop, header_count, False, total,
                        name_end, content_end, content_nulls, header_capacity,
                        name_to, name_data, content_to, content_data, content_valid,
                    )  # fmt: skip
                    if following != stop:
                        # restore the validity bits of headers that the general path reads again
                        for header in range(total, more):
                            bits = load_u8(content_valid, header >> 3) | 1 << (header & 7)
                            store_item_8(content_valid, header >> 3, bits)
                        break
                    total, name_end, content_end, content_nulls = more, names, contents, nulls
                elif following != stop:
                    break
                store_item_32(lists_at, here + 1, total)
            elif following != stop if header_count == 0 else not headers_end_at(data, following, stop, header_count):
                break
            ahead += step
            while fetched < ahead:
                _prefetch(from_source, fetched)
                fetched += 64
            store_item_64(offsets_at, here, base + delta)
            store_item_64(stamps_at, here, append_stamp if append else stamp + stamp_delta)
            if want_key:
                key_end, key_nulls = _append_byte_string(
                    data, key_from, key_bytes, False, here, key_end, key_nulls, row_capacity,
                    key_to, key_data, key_valid,
                )  # fmt: skip
            if want_value:
                value_end, value_nulls = _append_byte_string(
                    data, value_from, value_bytes, False, here, value_end, value_nulls, row_capacity,
                    value_to, value_data, value_valid,
                )  # fmt: skip
            position = stop
            done += 1
        status, where = WHOLE, position
        if count < 1 or done < count:
            rows_before = done
            done, status, where = index_batch(
                data, position, end, rows_before, kind, 0, table, batch, row, -rows_before, index
            )
            for slot in range(done - rows_before):
                here = row + rows_before + slot
                if want_key:
                    key_end, key_nulls = _append_byte_string(
                        data, key_at[slot], np.int64(key_size[slot]), True, here, key_end, key_nulls, row_capacity,
                        key_to, key_data, key_valid,
                    )  # fmt: skip
                if want_value:
                    value_end, value_nulls = _append_byte_string(
                        data, value_at[slot], np.int64(value_size[slot]), True, here, value_end, value_nulls,
                        row_capacity, value_to, value_data, value_valid,
                    )  # fmt: skip
                if want_headers:
                    _, total, name_end, content_end, content_nulls = _append_headers(
                        data, headers_at[slot], end, np.int64(header_counts[slot]), True, total,
                        name_end, content_end, content_nulls, header_capacity,
                        name_to, name_data, content_to, content_data, content_valid,
                    )  # fmt: skip
                    store_item_32(lists_at, here + 1, total)
        row += done
        if column_bits & WANT_TYPES:
            kind_of_stamp = -1 if magic == 0 else 1 if append else 0
            for here in range(first, row):
                store_item_32(types_at, here, kind_of_stamp)
        for following in range(names_before, name_end):
            name_bits |= load_u8(name_data, following)
        outcomes[OUTCOME_ROWS, batch], outcomes[OUTCOME_STATUS, batch], outcomes[OUTCOME_WHERE, batch] = (
            done,
            status,
            where,
        )
        if status != WHOLE or (column_bits & WANT_CRC and outcomes[OUTCOME_CRC, batch] == 0):
            bad += 1
        spans += span
        batch += 1
    plan[BATCH], plan[ROW], plan[SPANS], plan[BAD] = batch, row, spans, bad
    plan[KEY_END], plan[KEY_NULLS], plan[VALUE_END], plan[VALUE_NULLS] = key_end, key_nulls, value_end, value_nulls
    plan[HEADERS], plan[NAME_END] = total, name_end
    plan[CONTENT_END], plan[CONTENT_NULLS], plan[NAME_BITS] = content_end, content_nulls, name_bits
    return why
