"""Kernels that write records (numba). Start reading at ``build.py``.

1. Arguments are arrays and integers, results are integers. The caller allocates every array, with the sizes that
   ``measure_*`` return.
2. Each kernel has a plain Python twin in ``tests/records/reference_build.py``; one test runs both.

The arguments:

=======================================  ===============  ==============================================================
offsets, timestamps                      int64[rows]      of each record; timestamps in milliseconds
key_starts, value_starts                 int64[rows]      start of each key or value in ``keys`` or ``values``
key_lengths, value_lengths               int64[rows]      in bytes; -1 is null
keys, values, names, items               uint8[]          the bytes of all keys, values, header keys and header values
header_starts                            int64[rows + 1]  headers of row i are ``header_starts[i]`` to
                                                          ``header_starts[i + 1]``; empty: no row has any
name_starts, item_starts                 int64[headers]   start of each header key or value in ``names`` or ``items``
name_lengths, item_lengths               int64[headers]   in bytes; a value of -1 is null
magic, attributes                        int64            the format, 0 to 2; the attributes of each message
batch_bytes, batch_records               int64            limits of a batch before compression
horizon                                  int64            base timestamp in milliseconds (KIP-534); -1: the first of
                                                          each batch
same_timestamp                           int64            not 0: the records of a batch have one timestamp
starts                                   int64[rows]      output: the first row of each batch
table                                    int64[batches,]  a row for each batch, with the columns below
body_sizes                               int64[rows]      size of each record after its length varint, in bytes
checksums                                int64            0: sizes and CRCs are set later, after compression
out                                      uint8[]          output: the batches
=======================================  ===============  ==============================================================
"""

from __future__ import annotations

from kafkaframes.records._kernels_scan import MAX_INT32, V2_HEADER
from kafkaframes.records._kernels_write import (
    blob_size,
    finish_batch,
    message_size,
    record_size,
    store_i8,
    varint_size,
    write_batch_header,
    write_blob,
    write_message,
    write_record,
    write_varint,
)
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, OUT_TABLE, TABLE, device, kernel, types
from kafkaframes.wire._kernels import address_of

# Columns of ``table``. START and STOP are rows. The batch has SIZE bytes of ``out``, from POSITION on.
START, STOP, POSITION, SIZE, BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH, ATTRIBUTES = range(8)
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = range(8, 13)
COLUMN_COUNT = 13
# Groups of arguments: offsets and timestamps; byte strings; all arguments that determine sizes.
_STAMPS, _BLOBS, _SIZES = (INT64S,) * 2, (INT64S, INT64S, BYTES), (INT64S,) * 7


@device
def _measure_headers(first, last, name_lengths, item_lengths):
    size = varint_size(last - first)
    for header in range(first, last):
        size += blob_size(name_lengths[header]) + blob_size(item_lengths[header])
    return size


@kernel(types.int64(*_SIZES, *(types.int64,) * 5, OUT_INT64S))
def split_rows(
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
    """Write the first row of each batch to ``starts``; return the number of batches.

    A new batch starts if the row would exceed ``batch_bytes`` (uncompressed, with the batch header), ``batch_records``
    or an offset delta of 32 bits, or, with ``same_timestamp``, if the timestamp changes. A ``horizon`` other than -1
    is the base timestamp.
    """
    count = 0
    size = batch_bytes
    first = 0
    row = 0
    fresh = False
    while row < offsets.size:
        if magic < 2:
            row_bytes = message_size(magic, key_lengths[row], value_lengths[row])
        else:
            base = horizon if horizon != -1 else timestamps[first]
            row_bytes = record_size(
                timestamps[row] - base, offsets[row] - offsets[first], key_lengths[row], value_lengths[row]
            )
            if header_starts.size == 0:
                row_bytes += 1
            else:
                row_bytes += _measure_headers(header_starts[row], header_starts[row + 1], name_lengths, item_lengths)
            row_bytes += varint_size(row_bytes)
        fits = (
            row > 0
            and size + row_bytes <= batch_bytes
            and row - first < batch_records
            and offsets[row] - offsets[first] <= MAX_INT32
            and (same_timestamp == 0 or timestamps[row] == timestamps[first])
        )
        if fits or fresh:
            size += row_bytes
            row += 1
            fresh = False
        else:  # in a new batch the row has other deltas, and therefore another size
            starts[count] = row
            count += 1
            first = row
            size = V2_HEADER if magic >= 2 else 0
            fresh = True
    return count


@kernel(types.int64(*_SIZES, OUT_TABLE, OUT_INT64S))
def measure_v2_batches(
    offsets, timestamps, key_lengths, value_lengths, header_starts, name_lengths, item_lengths, table, body_sizes
):
    """Fill POSITION and SIZE of ``table`` and the size of every record's body; return the size of all."""
    position = 0
    for batch in range(table.shape[0]):
        size = V2_HEADER
        for row in range(table[batch, START], table[batch, STOP]):
            body = record_size(
                timestamps[row] - table[batch, BASE_TIMESTAMP],
                offsets[row] - table[batch, BASE_OFFSET],
                key_lengths[row],
                value_lengths[row],
            )
            if header_starts.size == 0:
                body += 1
            else:
                body += _measure_headers(header_starts[row], header_starts[row + 1], name_lengths, item_lengths)
            body_sizes[row] = body
            size += varint_size(body) + body
        table[batch, POSITION] = position
        table[batch, SIZE] = size
        position += size
    return position


@device
def _write_header(out, table, batch):
    """Write the header of a batch without size and CRC; return the position after it."""
    base_offset = table[batch, BASE_OFFSET]
    return write_batch_header(
        out, table[batch, POSITION], base_offset, table[batch, LEADER_EPOCH], table[batch, ATTRIBUTES],
        table[batch, LAST_OFFSET] - base_offset, table[batch, BASE_TIMESTAMP], table[batch, MAX_TIMESTAMP],
        table[batch, PRODUCER_ID], table[batch, PRODUCER_EPOCH], table[batch, BASE_SEQUENCE],
        table[batch, STOP] - table[batch, START],
    )  # fmt: skip


@kernel(types.none(*_STAMPS, *_BLOBS, *_BLOBS, INT64S, *_BLOBS, *_BLOBS, TABLE, INT64S, types.int64, OUT_BYTES))
def write_v2_batches(
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
    """Write all batches of ``table``. With ``checksums`` 0, size and CRC are set after compression."""
    # Helper functions take addresses, because passing an array costs two atomic operations per call.
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
            position = write_record(
                to, position, body_sizes[row], timestamps[row] - base_timestamp, offsets[row] - base_offset,
                key_data, key_starts[row], key_lengths[row], value_data, value_starts[row], value_lengths[row],
            )  # fmt: skip
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
            finish_batch(to, table[batch, POSITION], position)


@kernel(types.int64(INT64S, INT64S, types.int64, OUT_TABLE))
def measure_messages(key_lengths, value_lengths, magic, table):
    """Fill POSITION and SIZE of ``table`` for messages of format 0 or 1; return the size of all."""
    position = 0
    for batch in range(table.shape[0]):
        size = 0
        for row in range(table[batch, START], table[batch, STOP]):
            size += message_size(magic, key_lengths[row], value_lengths[row])
        table[batch, POSITION] = position
        table[batch, SIZE] = size
        position += size
    return position


@kernel(types.none(*_STAMPS, *_BLOBS, *_BLOBS, TABLE, types.int64, types.int64, OUT_BYTES))
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
            position = write_message(
                to, position, magic, attributes, offsets[row] - table[batch, BASE_OFFSET], timestamps[row],
                key_data, key_starts[row], key_lengths[row], value_data, value_starts[row], value_lengths[row],
            )  # fmt: skip
