"""Kernels that write records (numba). Start reading at ``build.py``, not here.

1. Arrays and integers in, integers out; the caller allocates every array, as large as ``measure_*`` said.
2. Blobs (keys, values, parts of headers) are three arrays: start and length of each in one array of bytes;
   a length of -1 is null. Headers of row ``i`` are the entries ``header_starts[i]`` to ``header_starts[i + 1]``; an
   empty ``header_starts`` says that no row has any.
3. ``table`` has one row for each batch, with the columns below.
4. Each kernel has a plain twin in ``_reference_build.py``; one test runs both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkaframes.wire._jit import (
    BYTES,
    INT64S,
    OUT_BYTES,
    OUT_INT64S,
    OUT_TABLE,
    TABLE,
    device,
    intrinsic,
    ir,
    kernel,
    types,
)
from kafkaframes.wire._kernels import address_of, copy_bytes, crc32_of, crc32c_of

# Columns of ``table``. START and STOP are rows; the batch takes SIZE bytes of ``out`` from POSITION on.
START, STOP, POSITION, SIZE, BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH, ATTRIBUTES = range(8)
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = range(8, 13)
COLUMNS = 13

HEADER_V2 = 61
OVERHEAD = 12
_CRC_V2, _ATTRIBUTES_V2 = 17, 21
_CRC, _MAGIC = 12, 16
_LARGEST_DELTA = 0x7FFFFFFF


def _store(name: str, bits: int) -> Any:
    """Make an intrinsic that stores one big-endian integer of ``bits`` behind an address."""

    def typed(typingctx: Any, address: Any, position: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            width = ir.IntType(bits)
            start = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
            place = builder.bitcast(builder.gep(start, [args[1]]), width.as_pointer())
            value = args[2] if bits == 64 else builder.trunc(args[2], width)
            builder.store(value if bits == 8 else builder.bswap(value), place).align = 1
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64), code

    typed.__name__ = name
    return intrinsic(typed)


store_i8, store_i16 = _store("store_i8", 8), _store("store_i16", 16)
store_i32, store_i64 = _store("store_i32", 32), _store("store_i64", 64)


@intrinsic
def _significant_bits(typingctx: Any, value: Any) -> Any:
    """Count the bits up to the highest that is set; of 0 they are 1."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(64)
        zeros = builder.ctlz(builder.or_(args[0], wide(1)), ir.IntType(1)(1))
        return builder.sub(wide(64), zeros)

    return types.int64(types.uint64), code


@device
def varint_size(value):
    bits = _significant_bits(np.uint64((value << 1) ^ (value >> 63)))
    return (bits * 9 + 64) >> 6  # = (bits + 6) // 7 for 1 to 64


@device
def write_varint(out, position, value):
    bits = np.uint64((value << 1) ^ (value >> 63))
    while bits >= np.uint64(0x80):
        store_i8(out, position, np.int64(bits | np.uint64(0x80)))
        bits >>= np.uint64(7)
        position += 1
    store_i8(out, position, np.int64(bits))
    return position + 1


@device
def _blob_size(length):
    return 1 if length < 0 else varint_size(length) + length


@device
def write_blob(out, position, data, start, length):
    position = write_varint(out, position, length)
    if length > 0:
        copy_bytes(out, position, data, start, length)
        return position + length
    return position


@device
def _body_size(timestamp_delta, offset_delta, key_length, value_length):
    """Return the size of a v2 record after its length, without the headers behind their count."""
    size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    return size + _blob_size(key_length) + _blob_size(value_length)


@device
def _headers_size(first, last, name_lengths, item_lengths):
    size = varint_size(last - first)
    for header in range(first, last):
        size += _blob_size(name_lengths[header]) + _blob_size(item_lengths[header])
    return size


@device
def _message_size(magic, key_length, value_length):
    return OVERHEAD + (22 if magic else 14) + max(key_length, 0) + max(value_length, 0)


@kernel(
    types.int64(
        INT64S,
        INT64S,
        INT64S,
        INT64S,
        INT64S,
        INT64S,
        INT64S,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        OUT_INT64S,
    )
)
def split(
    offsets,
    timestamps,
    key_lengths,
    value_lengths,
    header_starts,
    name_lengths,
    item_lengths,
    magic,
    batch_bytes,
    batch_records,
    horizon,
    same_timestamp,
    starts,
):
    """Fill ``starts`` with the first row of each batch; return how many there are.

    A batch ends before the row that would make it larger than ``batch_bytes`` (before compression, with the
    batch's header), longer than ``batch_records``, further from its first offset than 32 bits, or, where
    ``same_timestamp`` is not 0, of two timestamps. ``horizon`` is the base of timestamps if it is not -1.
    """
    count = 0
    size = batch_bytes
    first = 0
    row = 0
    fresh = False
    while row < offsets.size:
        if magic < 2:
            needed = _message_size(magic, key_lengths[row], value_lengths[row])
        else:
            base = horizon if horizon != -1 else timestamps[first]
            needed = _body_size(
                timestamps[row] - base, offsets[row] - offsets[first], key_lengths[row], value_lengths[row]
            )
            if header_starts.size == 0:
                needed += 1
            else:
                needed += _headers_size(header_starts[row], header_starts[row + 1], name_lengths, item_lengths)
            needed += varint_size(needed)
        fits = (
            row > 0
            and size + needed <= batch_bytes
            and row - first < batch_records
            and offsets[row] - offsets[first] <= _LARGEST_DELTA
            and (same_timestamp == 0 or timestamps[row] == timestamps[first])
        )
        if fits or fresh:
            size += needed
            row += 1
            fresh = False
        else:  # a new batch: the row's deltas, and so its size, are others there
            starts[count] = row
            count += 1
            first = row
            size = HEADER_V2 if magic >= 2 else 0
            fresh = True
    return count


@kernel(types.int64(INT64S, INT64S, INT64S, INT64S, INT64S, INT64S, INT64S, OUT_TABLE, OUT_INT64S))
def measure_v2(
    offsets, timestamps, key_lengths, value_lengths, header_starts, name_lengths, item_lengths, table, body_sizes
):
    """Fill POSITION and SIZE of ``table`` and the size of every record's body; return the size of all."""
    position = 0
    for batch in range(table.shape[0]):
        size = HEADER_V2
        for row in range(table[batch, START], table[batch, STOP]):
            body = _body_size(
                timestamps[row] - table[batch, BASE_TIMESTAMP],
                offsets[row] - table[batch, BASE_OFFSET],
                key_lengths[row],
                value_lengths[row],
            )
            if header_starts.size == 0:
                body += 1
            else:
                body += _headers_size(header_starts[row], header_starts[row + 1], name_lengths, item_lengths)
            body_sizes[row] = body
            size += varint_size(body) + body
        table[batch, POSITION] = position
        table[batch, SIZE] = size
        position += size
    return position


@device
def _write_header(out, table, batch):
    position = table[batch, POSITION]
    store_i64(out, position, table[batch, BASE_OFFSET])
    store_i32(out, position + 8, table[batch, SIZE] - OVERHEAD)
    store_i32(out, position + 12, table[batch, LEADER_EPOCH])
    store_i8(out, position + 16, 2)
    store_i32(out, position + _CRC_V2, 0)
    store_i16(out, position + _ATTRIBUTES_V2, table[batch, ATTRIBUTES])
    store_i32(out, position + 23, table[batch, LAST_OFFSET] - table[batch, BASE_OFFSET])
    store_i64(out, position + 27, table[batch, BASE_TIMESTAMP])
    store_i64(out, position + 35, table[batch, MAX_TIMESTAMP])
    store_i64(out, position + 43, table[batch, PRODUCER_ID])
    store_i16(out, position + 51, table[batch, PRODUCER_EPOCH])
    store_i32(out, position + 53, table[batch, BASE_SEQUENCE])
    store_i32(out, position + 57, table[batch, STOP] - table[batch, START])
    return position + HEADER_V2


@kernel(
    types.none(
        INT64S,
        INT64S,
        INT64S,
        INT64S,
        BYTES,
        INT64S,
        INT64S,
        BYTES,
        INT64S,
        INT64S,
        INT64S,
        BYTES,
        INT64S,
        INT64S,
        BYTES,
        TABLE,
        INT64S,
        types.int64,
        OUT_BYTES,
    )
)
def write_v2(
    offsets,
    timestamps,
    key_starts,
    key_lengths,
    keys,
    value_starts,
    value_lengths,
    values,
    header_starts,
    name_starts,
    name_lengths,
    names,
    item_starts,
    item_lengths,
    items,
    table,
    body_sizes,
    checksums,
    out,
):
    """Write every batch of ``table``; CRCs only if ``checksums`` is not 0 (compression comes before them)."""
    # Helpers take addresses: an array costs them two atomic operations a call.
    to = address_of(out)
    key_data, value_data, name_data, item_data = (
        address_of(keys),
        address_of(values),
        address_of(names),
        address_of(items),
    )
    for batch in range(table.shape[0]):
        position = _write_header(to, table, batch)
        base_timestamp, base_offset = table[batch, BASE_TIMESTAMP], table[batch, BASE_OFFSET]
        for row in range(table[batch, START], table[batch, STOP]):
            position = write_varint(to, position, body_sizes[row])
            store_i8(to, position, 0)
            position = write_varint(to, position + 1, timestamps[row] - base_timestamp)
            position = write_varint(to, position, offsets[row] - base_offset)
            position = write_blob(to, position, key_data, key_starts[row], key_lengths[row])
            position = write_blob(to, position, value_data, value_starts[row], value_lengths[row])
            if header_starts.size == 0:
                store_i8(to, position, 0)
                position += 1
                continue
            first, last = header_starts[row], header_starts[row + 1]
            position = write_varint(to, position, last - first)
            for header in range(first, last):
                position = write_blob(to, position, name_data, name_starts[header], name_lengths[header])
                position = write_blob(to, position, item_data, item_starts[header], item_lengths[header])
        if checksums:
            start = table[batch, POSITION]
            store_i32(to, start + _CRC_V2, crc32c_of(to, start + _ATTRIBUTES_V2, start + table[batch, SIZE]))


@kernel(types.int64(INT64S, INT64S, types.int64, OUT_TABLE))
def measure_messages(key_lengths, value_lengths, magic, table):
    """Fill POSITION and SIZE of ``table`` for messages of format 0 or 1; return the size of all."""
    position = 0
    for batch in range(table.shape[0]):
        size = 0
        for row in range(table[batch, START], table[batch, STOP]):
            size += _message_size(magic, key_lengths[row], value_lengths[row])
        table[batch, POSITION] = position
        table[batch, SIZE] = size
        position += size
    return position


@device
def write_sized(out, position, data, start, length):
    store_i32(out, position, length)
    if length > 0:
        copy_bytes(out, position + 4, data, start, length)
        return position + 4 + length
    return position + 4


@kernel(
    types.none(
        INT64S,
        INT64S,
        INT64S,
        INT64S,
        BYTES,
        INT64S,
        INT64S,
        BYTES,
        TABLE,
        types.int64,
        types.int64,
        OUT_BYTES,
    )
)
def write_messages(
    offsets,
    timestamps,
    key_starts,
    key_lengths,
    keys,
    value_starts,
    value_lengths,
    values,
    table,
    magic,
    attributes,
    out,
):
    """Write messages of format 0 or 1 with their CRCs, offsets counted from each batch's BASE_OFFSET."""
    to, key_data, value_data = address_of(out), address_of(keys), address_of(values)
    for batch in range(table.shape[0]):
        position = table[batch, POSITION]
        for row in range(table[batch, START], table[batch, STOP]):
            start = position
            store_i64(to, start, offsets[row] - table[batch, BASE_OFFSET])
            store_i8(to, start + _MAGIC, magic)
            store_i8(to, start + 17, attributes)
            position = start + 18
            if magic:
                store_i64(to, position, timestamps[row])
                position += 8
            position = write_sized(to, position, key_data, key_starts[row], key_lengths[row])
            position = write_sized(to, position, value_data, value_starts[row], value_lengths[row])
            store_i32(to, start + 8, position - start - OVERHEAD)
            store_i32(to, start + _CRC, crc32_of(to, start + _MAGIC, position))
