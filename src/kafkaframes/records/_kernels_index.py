"""Index the records of batches (numba). Start reading at ``decode.py``.

1. Arguments are arrays and integers, results are numbers. The kernels raise no exceptions, create no objects and do no
   I/O. The caller allocates arrays.
2. ``index_records`` finds each record's offset and timestamp and the positions of its key, value and headers, with the
   same checks as Kafka. The device functions take addresses (``address_of``), because passing an array is slow.
3. The plain Python twin of ``index_records`` is in ``tests/records/reference.py``; ``tests/records/test_twins.py`` runs
   both.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_scan import (
    APPEND_TIME,
    AT_MAGIC,
    AT_SIZE,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CODEC_MASK,
    COUNT,
    I64,
    MAGIC,
    MAX_TIMESTAMP,
    MIN_STATED_BATCH_BYTES,
    OLD_ATTRIBUTES,
    OLD_TIMESTAMP,
    OVERHEAD,
    V0_HEADER,
    V1_HEADER,
)
from kafkaframes.records.reasons import (
    BAD_HEADER_COUNT,
    BAD_RECORD_LENGTH,
    BAD_VARINT,
    DAMAGED_STREAM,
    EMPTY_SET,
    FIELD_PAST_RECORD,
    LEFT_OVER,
    LENGTH_MISMATCH,
    MAX_HEADERS,
    MAX_RECORDS,
    NEGATIVE_COUNT,
    NESTED,
    NULL_HEADER_KEY,
    OFFSET_BELOW_INNER,
    PREMATURE_END,
    SMALL_INNER_SIZE,
    TOO_MANY_HEADERS,
    TOO_MANY_RECORDS,
    UNREADABLE_FIELD,
    WHOLE,
)
from kafkaframes.wire._jit import (
    BYTES,
    INT8S,
    INT64S,
    OUT_INT32S,
    OUT_INT64S,
    TABLE,
    device,
    inline_device,
    kernel,
)
from kafkaframes.wire._kernels import (
    OK,
    TRUNCATED,
    address_of,
    load_i8,
    load_i32,
    load_i64,
    load_u8,
    read_varint,
    read_varlong,
)

# States of the bytes of a batch's records: not read, complete, or damaged.
SKIPPED, WHOLE_DATA, DAMAGED_DATA = 0, 1, 2
UNCHECKED_READ_BYTES = 40  # if this many bytes remain, the first varints of a record need no bounds checks


@inline_device
def _skip_headers(buf, position, end, count):
    for _ in range(count):
        status, length, position = read_varint(buf, position, end)
        if status != OK:
            return BAD_VARINT, position
        if length < 0:
            return NULL_HEADER_KEY, position
        if length > end - position:
            return FIELD_PAST_RECORD, position
        position += length
        status, length, position = read_varint(buf, position, end)
        if status != OK:
            return BAD_VARINT, position
        if length > end - position:
            return FIELD_PAST_RECORD, position
        position += max(length, 0)
    return WHOLE, position


@inline_device
def read_short_varint(buf, position):
    """Read an unsigned varint of up to three bytes, which must exist; return -1 for a longer one."""
    value = load_u8(buf, position)
    if value < 0x80:
        return value, position + 1
    more = load_u8(buf, position + 1)
    value = (value & 0x7F) | (more << 7)
    if more < 0x80:
        return value, position + 2
    more = load_u8(buf, position + 2)
    if more < 0x80:
        return (value & 0x3FFF) | (more << 14), position + 3
    return -1, position


@inline_device
def read_ordinary_record(buf, start, end):
    """Find the fields of an ordinary record that starts at ``start``.

    An ordinary record has varints of up to three bytes and fewer than 64 headers, and at least 40 bytes of the section
    remain, so that no varint needs a bounds check. Returns the end of the record and its fields, or -1 if the record is
    not ordinary. Every accepted record is also valid for ``_read_any_record`` if its headers end at the record's end.
    """
    length, body = read_short_varint(buf, start)
    if length < 0 or length & 1:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    stop = body + (length >> 1)
    if stop > end:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    stamp, position = read_short_varint(buf, body + 1)
    if stamp < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    delta, position = read_short_varint(buf, position)
    if delta < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    key, key_at = read_short_varint(buf, position)
    if key < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    key_size = (key >> 1) ^ -(key & 1)
    position = key_at + max(key_size, 0)
    if position + 3 > end:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    value, value_at = read_short_varint(buf, position)
    if value < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    value_size = (value >> 1) ^ -(value & 1)
    position = value_at + max(value_size, 0)
    if position >= stop:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    count = load_u8(buf, position)
    if count & 0x81:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    return (
        stop, (stamp >> 1) ^ -(stamp & 1), (delta >> 1) ^ -(delta & 1),
        key_at, key_size, value_at, value_size, position + 1, count >> 1,
    )  # fmt: skip


@device
def headers_end_at(buf, position, stop, count):
    """Return whether ``count`` headers that Kafka would accept end exactly at ``stop``."""
    status, position = _skip_headers(buf, position, stop, count)
    return status == WHOLE and position == stop


@inline_device
def _read_any_record(buf, at, end, is_damaged, lenient):
    """Read any record that starts at ``at``: (status, end position, and the results of ``read_ordinary_record``).

    The fields must end at the record's length or, if ``lenient``, at the end of the section.
    """
    status, length, position = read_varint(buf, at, end)
    if status != OK:
        end_status = DAMAGED_STREAM if is_damaged else PREMATURE_END
        return (end_status if status == TRUNCATED else BAD_VARINT), at, 0, 0, 0, 0, 0, 0, 0, 0
    stop = end
    if not lenient:
        if length < 0:
            return BAD_RECORD_LENGTH, at, 0, 0, 0, 0, 0, 0, 0, 0
        if length > end - position:
            return (DAMAGED_STREAM if is_damaged else BAD_RECORD_LENGTH), at, 0, 0, 0, 0, 0, 0, 0, 0
        stop = position + length
    if position >= stop:
        return BAD_VARINT, at, 0, 0, 0, 0, 0, 0, 0, 0
    status, stamp_delta, position = read_varlong(buf, position + 1, stop)  # the unused attributes precede the delta
    if status != OK:
        return BAD_VARINT, at, 0, 0, 0, 0, 0, 0, 0, 0
    status, offset_delta, position = read_varint(buf, position, stop)
    if status != OK:
        return BAD_VARINT, at, 0, 0, 0, 0, 0, 0, 0, 0
    status, key_size, key_at = read_varint(buf, position, stop)
    if status != OK:
        return BAD_VARINT, at, 0, 0, 0, 0, 0, 0, 0, 0
    if key_size > stop - key_at:
        return FIELD_PAST_RECORD, at, 0, 0, 0, 0, 0, 0, 0, 0
    status, value_size, value_at = read_varint(buf, key_at + max(key_size, 0), stop)
    if status != OK:
        return BAD_VARINT, at, 0, 0, 0, 0, 0, 0, 0, 0
    if value_size > stop - value_at:
        return FIELD_PAST_RECORD, at, 0, 0, 0, 0, 0, 0, 0, 0
    status, count, position = read_varint(buf, value_at + max(value_size, 0), stop)
    if status != OK:
        return BAD_VARINT, at, 0, 0, 0, 0, 0, 0, 0, 0
    if count < 0 or (not lenient and count > stop - position):
        return BAD_HEADER_COUNT, at, 0, 0, 0, 0, 0, 0, 0, 0
    return WHOLE, stop, stamp_delta, offset_delta, key_at, key_size, value_at, value_size, position, count


@device
def _index_v2_batch(buf, start, end, done, is_damaged, lenient, table, batch, row, slot, fields):
    """Index one batch of magic 2. The batch's records from number ``done`` on are in ``buf[start:end]``.

    Each record is read by ``read_ordinary_record`` or, if it is not ordinary, by ``_read_any_record``. Both functions
    are inlined in one kernel, because a call between kernels costs 8 %.
    """
    offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts = fields
    count = table[COUNT, batch]
    if count < 0:
        return 0, NEGATIVE_COUNT, start
    base, stamp = table[BASE_OFFSET, batch], table[BASE_TIMESTAMP, batch]
    append, append_stamp = table[ATTRIBUTES, batch] & APPEND_TIME, table[MAX_TIMESTAMP, batch]
    position, headers = start, np.int64(0)
    while done < count:
        at, here, there = position, row + done, slot + done
        if done >= MAX_RECORDS:
            return done, TOO_MANY_RECORDS, at
        if not lenient and done + 1 < count and end - at >= UNCHECKED_READ_BYTES:
            (
                stop, stamp_delta, offset_delta,
                key_at[there], key_size[there], value_at[there], value_size[there],
                following, length,
            ) = read_ordinary_record(buf, at, end)  # fmt: skip
            if stop >= 0 and (following == stop if length == 0 else headers_end_at(buf, following, stop, length)):
                headers += length
                if headers > MAX_HEADERS:
                    return done, TOO_MANY_HEADERS, at
                headers_at[there], header_counts[there] = following, length
                offsets[here] = base + offset_delta
                stamps[here] = append_stamp if append else stamp + stamp_delta
                position = stop
                done += 1
                continue
        (
            status, stop, stamp_delta, offset_delta,
            key_at[there], key_size[there], value_at[there], value_size[there],
            headers_at[there], length,
        ) = _read_any_record(buf, at, end, is_damaged, lenient)  # fmt: skip
        if status == WHOLE:
            status, position = _skip_headers(buf, headers_at[there], stop, length)
        if status != WHOLE:
            return done, status, at
        headers += length
        if headers > MAX_HEADERS:
            return done, TOO_MANY_HEADERS, at
        if not lenient and position != stop:
            return done, LENGTH_MISMATCH, at
        if done + 1 == count and (position != end or is_damaged):
            return done, LEFT_OVER if position != end else DAMAGED_STREAM, at
        header_counts[there] = length
        offsets[here] = base + offset_delta
        stamps[here] = append_stamp if append else stamp + stamp_delta
        done += 1
    return done, WHOLE, position


@device
def _index_message(buf, at, end, row, slot, stamp, fields):
    """Index the message of format 0 or 1 whose CRC is at ``at``; return whether its key and value are readable.

    Unreadable fields become null.
    """
    _, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts = fields
    is_v0 = load_i8(buf, at + AT_MAGIC - OVERHEAD) == 0
    stamps[row] = stamp
    key_at[slot], value_at[slot], headers_at[slot] = at, at, at
    key_size[slot], value_size[slot], header_counts[slot] = -1, -1, 0
    position = at + (V0_HEADER if is_v0 else V1_HEADER) - OVERHEAD
    if end - position < 4:
        return False
    length = load_i32(buf, position)
    position += 4
    if length > end - position:
        return False
    key_at[slot] = position
    key_size[slot] = length
    position += max(length, 0)
    if end - position < 4:
        return False
    length = load_i32(buf, position)
    position += 4
    if length > end - position:
        return False
    value_at[slot] = position
    value_size[slot] = length
    return True


@device
def _find_last_message(buf, start, end, is_damaged):
    """Find the last whole inner message: (number of messages, its offset, status)."""
    position = start
    count, last = 0, 0
    while end - position >= OVERHEAD:
        size = load_i32(buf, position + AT_SIZE)
        if size < MIN_STATED_BATCH_BYTES:
            return count, last, SMALL_INNER_SIZE
        if size > end - position - OVERHEAD:
            break  # Kafka silently drops an incomplete last message
        last = load_i64(buf, position)
        count += 1
        position += OVERHEAD + size
    if is_damaged:
        return count, last, DAMAGED_STREAM
    if count > MAX_RECORDS:
        return count, last, TOO_MANY_RECORDS
    return count, last, EMPTY_SET if count == 0 else WHOLE


@device
def _index_message_set(buf, start, end, is_damaged, lenient, table, batch, row, slot, fields):
    """Index the messages in a compressed message of format 0 or 1 (KIP-31: offsets are relative to the last one's)."""
    count, last, status = _find_last_message(buf, start, end, is_damaged)
    if status != WHOLE:
        return 0, status, start
    relative = table[MAGIC, batch] == 1
    wrapper_offset = table[BASE_OFFSET, batch]
    base = 0
    if relative and wrapper_offset != 0:  # old librdkafka versions leave the wrapper's offset at 0
        if wrapper_offset < last:
            return 0, OFFSET_BELOW_INNER, start
        base = wrapper_offset - last
    append = table[ATTRIBUTES, batch] & APPEND_TIME if relative else 0
    position = start
    for done in range(count):
        at = position + OVERHEAD
        stop = at + load_i32(buf, position + AT_SIZE)
        if load_u8(buf, at + OLD_ATTRIBUTES - OVERHEAD) & CODEC_MASK:
            return done, NESTED, position
        magic = load_i8(buf, at + AT_MAGIC - OVERHEAD)  # the inner magic may differ from the wrapper's (KAFKA-4298)
        stamp = -1 if magic == 0 else load_i64(buf, at + OLD_TIMESTAMP - OVERHEAD)
        if magic == 1 and append:
            stamp = table[MAX_TIMESTAMP, batch]
        fields[0][row + done] = base + load_i64(buf, position)
        whole = _index_message(buf, at, stop, row + done, slot + done, stamp, fields)
        if not whole and not lenient:
            return done, UNREADABLE_FIELD, position
        position = stop
    return count, WHOLE, position


@device
def index_batch(buf, start, end, done, kind, lenient, table, batch, row, slot, fields):
    """Index one batch of any format; return (number of records, status, end position).

    ``fields`` is a tuple of the arrays that ``index_records`` fills, from ``offsets`` to ``header_counts``. Offsets and
    timestamps are written from index ``row`` on, the other fields from index ``slot`` on. If the first ``done`` records
    of a batch of magic 2 are already indexed, ``start`` is the position of the next one.
    """
    if kind == SKIPPED:
        return 0, WHOLE, start
    if table[MAGIC, batch] >= 2:
        return _index_v2_batch(buf, start, end, done, kind == DAMAGED_DATA, lenient, table, batch, row, slot, fields)
    if table[ATTRIBUTES, batch] & CODEC_MASK:
        return _index_message_set(buf, start, end, kind == DAMAGED_DATA, lenient, table, batch, row, slot, fields)
    fields[0][row] = table[BASE_OFFSET, batch]
    whole = _index_message(buf, start, end, row, slot, table[MAX_TIMESTAMP, batch], fields)
    if not whole and not lenient:
        return 0, UNREADABLE_FIELD, start
    return 1, WHOLE, start


@kernel(
    I64(
        BYTES, TABLE, I64, I64, INT64S, INT64S, INT8S, I64,
        OUT_INT64S, OUT_INT64S, OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_INT32S,
        OUT_INT64S, OUT_INT64S, OUT_INT64S,
    )
)  # fmt: skip
def index_records(
    buf, table, first, last, starts, ends, kinds, lenient,
    offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
    rows, statuses, wheres,
):  # fmt: skip
    """Index the records of the batches in rows ``first`` to ``last`` of a scan's table; return the number of records.

    Args:
        buf: uint8[]; the records sections (magic 2), decompressed sets and plain messages of all batches.
        table, first, last: int64[columns, batches]; the batch headers, and the range of batches to index.
        starts, ends: int64[batches]; start and end position of each batch's records in ``buf``.
        kinds: int8[batches]; SKIPPED, WHOLE_DATA or DAMAGED_DATA.
        lenient: if not 0, index like Kafka's iterator that skips keys and values. This iterator does not check that the
            fields fill a record, and it returns messages of formats 0 and 1 with a key or value that exceeds the
            message; these fields are null.
        offsets, stamps: int64[records]; output: offset and timestamp (in milliseconds) of each record.
        key_at, value_at, headers_at: int64[records]; output: positions in ``buf``; for formats 0 and 1, ``headers_at``
            is the position of the message's CRC.
        key_size, value_size: int32[records]; output: sizes in bytes, -1 for null.
        header_counts: int32[records]; output: number of headers; 0 for formats 0 and 1.
        rows, statuses, wheres: int64[batches]; output: number of records that Kafka returns, status of their end, and
            position of their end in ``buf``.
    """
    row, data = 0, address_of(buf)
    fields = offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts
    for batch in range(first, last):
        done, status, where = index_batch(
            data, starts[batch], ends[batch], 0, kinds[batch], lenient, table, batch, row, row, fields
        )
        rows[batch] = done
        statuses[batch] = status
        wheres[batch] = where
        row += done
    return row
