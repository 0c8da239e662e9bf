"""Scan, index and gather record batches (numba). Start reading at ``scan.py`` and ``decode.py``, not here.

1. Arrays and integers in, numbers out. No exceptions, no objects, no I/O. Every array is made by the caller.
2. ``index_records`` finds each record's offset, timestamp and the places of its key, value and headers, and checks what
   Kafka checks; ``gather_*`` then copy the columns that were asked for. What is not asked for is not touched.
3. Each kernel has a plain twin of the same name in ``_reference.py``; ``tests/records/test_twins.py`` runs both.
"""

from __future__ import annotations

import numpy as np
from numba import types

from kafkaframes.records import layout
from kafkaframes.records.layout import BATCH_V2, MESSAGE_V0, MESSAGE_V1, PLACE
from kafkaframes.records.reasons import (
    BAD_HEADER_COUNT,
    BAD_MAGIC,
    BAD_RECORD_LENGTH,
    BAD_VARINT,
    DAMAGED_STREAM,
    EMPTY_SET,
    END,
    FIELD_PAST_RECORD,
    FULL,
    HUGE_SIZE,
    LEFT_OVER,
    LENGTH_MISMATCH,
    MORE,
    NEGATIVE_COUNT,
    NESTED,
    NULL_HEADER_KEY,
    OFFSET_BELOW_INNER,
    PREMATURE_END,
    SMALL_INNER_SIZE,
    SMALL_SIZE,
    TORN,
    UNREADABLE_FIELD,
    WHOLE,
)
from kafkaframes.wire._jit import (
    BYTES,
    INT8S,
    INT32S,
    INT64S,
    OUT_BYTES,
    OUT_INT8S,
    OUT_INT32S,
    OUT_INT64S,
    OUT_TABLE,
    TABLE,
    device,
    kernel,
)
from kafkaframes.wire._kernels import (
    OK,
    TRUNCATED,
    copy_32,
    copy_bytes,
    crc32_of,
    crc32c_of,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    read_varint,
    read_varlong,
)

POSITION, SIZE, MAGIC, CRC, ATTRIBUTES = (PLACE[name] for name in ("position", "size", "magic", "crc", "attributes"))
BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH = PLACE["base_offset"], PLACE["last_offset"], PLACE["leader_epoch"]
BASE_TIMESTAMP, MAX_TIMESTAMP = PLACE["base_timestamp"], PLACE["max_timestamp"]
PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = PLACE["producer_id"], PLACE["producer_epoch"], PLACE["base_sequence"]
COUNT = PLACE["count"]

OVERHEAD, TO_MAGIC, MIN_SIZE = layout.OVERHEAD_BYTES, layout.BYTES_TO_MAGIC, layout.MIN_SIZE
AT_SIZE, AT_MAGIC = MESSAGE_V0.place_of("size"), MESSAGE_V0.place_of("magic")
OLD_CRC, OLD_ATTRIBUTES = MESSAGE_V0.place_of("crc"), MESSAGE_V0.place_of("attributes")
OLD_TIMESTAMP, OLD_CRC_FROM = MESSAGE_V1.place_of("timestamp"), MESSAGE_V0.end_of("crc")
V0_HEADER, V1_HEADER, V2_HEADER = MESSAGE_V0.size, MESSAGE_V1.size, BATCH_V2.size
V2_EPOCH, V2_CRC, V2_CRC_FROM = BATCH_V2.place_of("leader_epoch"), BATCH_V2.place_of("crc"), BATCH_V2.end_of("crc")
V2_ATTRIBUTES, V2_DELTA = BATCH_V2.place_of("attributes"), BATCH_V2.place_of("last_offset_delta")
V2_BASE_TIMESTAMP, V2_MAX_TIMESTAMP = BATCH_V2.place_of("base_timestamp"), BATCH_V2.place_of("max_timestamp")
V2_PRODUCER_ID, V2_PRODUCER_EPOCH = BATCH_V2.place_of("producer_id"), BATCH_V2.place_of("producer_epoch")
V2_BASE_SEQUENCE, V2_COUNT = BATCH_V2.place_of("base_sequence"), BATCH_V2.place_of("count")
CODEC_MASK, APPEND_TIME = layout.CODEC_MASK, layout.LOG_APPEND_TIME
# What the data of a batch is.
SKIPPED, WHOLE_DATA, DAMAGED_DATA = 0, 1, 2
LARGEST = 2**31 - 1
I64 = types.int64


# --------------------------------------------------------------------------------------------------- scan


@device
def _scan_old(buf, at, magic, table, row):
    table[CRC, row] = load_u32(buf, at + OLD_CRC)
    table[ATTRIBUTES, row] = load_u8(buf, at + OLD_ATTRIBUTES)
    timestamp = load_i64(buf, at + OLD_TIMESTAMP) if magic != 0 else -1
    offset = load_i64(buf, at)
    table[BASE_OFFSET, row] = offset
    table[LAST_OFFSET, row] = offset
    table[BASE_TIMESTAMP, row] = timestamp
    table[MAX_TIMESTAMP, row] = timestamp
    table[LEADER_EPOCH, row] = -1
    table[PRODUCER_ID, row] = -1
    table[PRODUCER_EPOCH, row] = -1
    table[BASE_SEQUENCE, row] = -1
    table[COUNT, row] = -1


@device
def _scan_v2(buf, at, size, table, row):
    """Fill a row; fields that a batch shorter than its header does not have are -1 (who needs them compares sizes)."""
    table[CRC, row] = load_u32(buf, at + V2_CRC)
    table[ATTRIBUTES, row] = load_i16(buf, at + V2_ATTRIBUTES)
    base = load_i64(buf, at)
    table[BASE_OFFSET, row] = base
    table[LEADER_EPOCH, row] = load_i32(buf, at + V2_EPOCH)
    if size >= V2_HEADER:
        table[LAST_OFFSET, row] = base + load_i32(buf, at + V2_DELTA)
        table[BASE_TIMESTAMP, row] = load_i64(buf, at + V2_BASE_TIMESTAMP)
        table[MAX_TIMESTAMP, row] = load_i64(buf, at + V2_MAX_TIMESTAMP)
        table[PRODUCER_ID, row] = load_i64(buf, at + V2_PRODUCER_ID)
        table[PRODUCER_EPOCH, row] = load_i16(buf, at + V2_PRODUCER_EPOCH)
        table[BASE_SEQUENCE, row] = load_i32(buf, at + V2_BASE_SEQUENCE)
        table[COUNT, row] = load_i32(buf, at + V2_COUNT)
        return
    table[LAST_OFFSET, row] = base + load_i32(buf, at + V2_DELTA) if size >= V2_BASE_TIMESTAMP else -1
    table[BASE_TIMESTAMP, row] = load_i64(buf, at + V2_BASE_TIMESTAMP) if size >= V2_MAX_TIMESTAMP else -1
    table[MAX_TIMESTAMP, row] = load_i64(buf, at + V2_MAX_TIMESTAMP) if size >= V2_PRODUCER_ID else -1
    table[PRODUCER_ID, row] = load_i64(buf, at + V2_PRODUCER_ID) if size >= V2_PRODUCER_EPOCH else -1
    table[PRODUCER_EPOCH, row] = load_i16(buf, at + V2_PRODUCER_EPOCH) if size >= V2_BASE_SEQUENCE else -1
    table[BASE_SEQUENCE, row] = load_i32(buf, at + V2_BASE_SEQUENCE) if size >= V2_COUNT else -1
    table[COUNT, row] = -1


@kernel(types.Tuple((I64, I64, I64))(BYTES, I64, I64, I64, I64, OUT_TABLE))
def scan_batches(buf, position, end, memory_rules, whole, table):
    """Cut ``buf`` from ``position`` into batches; the source itself goes on to ``end``, perhaps beyond ``buf``.

    Returns ``(rows, position, status)``: where the next batch would start, and one of the ends of ``reasons.py``.
    With ``whole`` a batch must lie in ``buf`` as a whole, else its header is enough.
    """
    row = 0
    while True:
        left = end - position
        if left <= 0:
            return row, position, END
        if left < OVERHEAD or (not memory_rules and left <= TO_MAGIC):
            return row, position, TORN
        if position + min(left, V2_HEADER) > buf.size:
            return row, position, MORE
        body = load_i32(buf, position + AT_SIZE)
        if body < MIN_SIZE:
            return row, position, SMALL_SIZE
        if memory_rules:
            if left < TO_MAGIC:
                return row, position, TORN
            magic = load_i8(buf, position + AT_MAGIC)
            if magic < 0 or magic > 2:
                return row, position, BAD_MAGIC
            if body > LARGEST - OVERHEAD:
                return row, position, HUGE_SIZE
        size = body + OVERHEAD
        if size > left:
            return row, position, TORN
        if whole and position + size > buf.size:
            return row, position, MORE
        if row == table.shape[1]:
            return row, position, FULL
        magic = load_i8(buf, position + AT_MAGIC)
        table[POSITION, row] = position
        table[SIZE, row] = size
        table[MAGIC, row] = magic
        if magic < 2:
            _scan_old(buf, position, magic, table, row)
        else:
            _scan_v2(buf, position, size, table, row)
        row += 1
        position += size


@kernel(types.void(BYTES, TABLE, I64, I64, OUT_INT8S))
def check_crcs(buf, table, first, last, ok):
    """Set ``ok`` for each batch of rows ``first`` to ``last``: its CRC is that of its bytes."""
    for row in range(first, last):
        at, size = table[POSITION, row], table[SIZE, row]
        if table[MAGIC, row] < 2:
            ok[row] = crc32_of(buf, at + OLD_CRC_FROM, at + size) == table[CRC, row]
        elif size < V2_HEADER:
            ok[row] = 0
        else:
            ok[row] = crc32c_of(buf, at + V2_CRC_FROM, at + size) == table[CRC, row]


# -------------------------------------------------------------------------------------------------- index


@device
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


@device
def _index_v2(
    buf, start, end, damaged, lenient, table, batch,
    row, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
):  # fmt: skip
    """Index one batch of magic 2, whose records lie in ``buf[start:end]``; return (rows, status, where)."""
    count = table[COUNT, batch]
    if count < 0:
        return 0, NEGATIVE_COUNT, start
    base, stamp, append = (
        table[BASE_OFFSET, batch],
        table[BASE_TIMESTAMP, batch],
        table[ATTRIBUTES, batch] & APPEND_TIME,
    )
    append_stamp = table[MAX_TIMESTAMP, batch]
    position = start
    done = 0
    while done < count:
        at = position
        status, length, position = read_varint(buf, position, end)
        if status != OK:
            if status == TRUNCATED:
                return done, DAMAGED_STREAM if damaged else PREMATURE_END, at
            return done, BAD_VARINT, at
        if lenient:
            stop = end
        else:
            if length < 0:
                return done, BAD_RECORD_LENGTH, at
            if length > end - position:
                return done, DAMAGED_STREAM if damaged else BAD_RECORD_LENGTH, at
            stop = position + length
        if position >= stop:
            return done, BAD_VARINT, at
        position += 1  # attributes, unused
        status, delta, position = read_varlong(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        status, offset_delta, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        here = row + done
        offsets[here] = base + offset_delta
        stamps[here] = append_stamp if append else stamp + delta
        status, length, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        if length > stop - position:
            return done, FIELD_PAST_RECORD, at
        key_at[here] = position
        key_size[here] = length
        position += max(length, 0)
        status, length, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        if length > stop - position:
            return done, FIELD_PAST_RECORD, at
        value_at[here] = position
        value_size[here] = length
        position += max(length, 0)
        status, length, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        if length < 0 or (not lenient and length > stop - position):
            return done, BAD_HEADER_COUNT, at
        headers_at[here] = position
        header_counts[here] = length
        if length > 0:
            status, position = _skip_headers(buf, position, stop, length)
            if status != WHOLE:
                return done, status, at
        if not lenient and position != stop:
            return done, LENGTH_MISMATCH, at
        if done + 1 == count:
            if position != end:
                return done, LEFT_OVER, at
            if damaged:
                return done, DAMAGED_STREAM, at
        done += 1
    return done, WHOLE, position


@device
def _index_message(
    buf, at, end, row, stamp, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts
):
    """Index the message of format 0 or 1 whose CRC stands at ``at``; tell whether its key and value can be read."""
    is_v0 = load_i8(buf, at + AT_MAGIC - OVERHEAD) == 0
    stamps[row] = stamp
    headers_at[row] = at
    header_counts[row] = 0
    position = at + (V0_HEADER if is_v0 else V1_HEADER) - OVERHEAD
    if end - position < 4:
        return False
    length = load_i32(buf, position)
    position += 4
    if length > end - position:
        return False
    key_at[row] = position
    key_size[row] = length
    position += max(length, 0)
    if end - position < 4:
        return False
    length = load_i32(buf, position)
    position += 4
    if length > end - position:
        return False
    value_at[row] = position
    value_size[row] = length
    return True


@device
def _walk_set(buf, start, end, damaged):
    """Find the last whole inner message: (count, its offset, status)."""
    position = start
    count, last = 0, 0
    while end - position >= OVERHEAD:
        size = load_i32(buf, position + AT_SIZE)
        if size < MIN_SIZE:
            return count, last, SMALL_INNER_SIZE
        if size > end - position - OVERHEAD:
            break  # Kafka drops a torn last message without a word
        last = load_i64(buf, position)
        count += 1
        position += OVERHEAD + size
    if damaged:
        return count, last, DAMAGED_STREAM
    return count, last, EMPTY_SET if count == 0 else WHOLE


@device
def _index_set(
    buf, start, end, damaged, table, batch,
    row, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
):  # fmt: skip
    """Index the messages inside a compressed one of format 0 or 1 (KIP-31: offsets are relative to the last's)."""
    count, last, status = _walk_set(buf, start, end, damaged)
    if status != WHOLE:
        return 0, status, start
    relative = table[MAGIC, batch] == 1
    wrapper_offset = table[BASE_OFFSET, batch]
    base = 0
    if relative and wrapper_offset != 0:  # 0: old librdkafka left it so
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
        magic = load_i8(buf, at + AT_MAGIC - OVERHEAD)  # may differ from the wrapper's (KAFKA-4298)
        stamp = -1 if magic == 0 else load_i64(buf, at + OLD_TIMESTAMP - OVERHEAD)
        if magic == 1 and append:
            stamp = table[MAX_TIMESTAMP, batch]
        offsets[row + done] = base + load_i64(buf, position)
        if not _index_message(
            buf, at, stop, row + done, stamp,
            offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
        ):  # fmt: skip
            return done, UNREADABLE_FIELD, position
        position = stop
    return count, WHOLE, position


@kernel(
    I64(
        BYTES,
        TABLE,
        I64,
        I64,
        INT64S,
        INT64S,
        INT8S,
        I64,
        OUT_INT64S,
        OUT_INT64S,
        OUT_INT64S,
        OUT_INT32S,
        OUT_INT64S,
        OUT_INT32S,
        OUT_INT64S,
        OUT_INT32S,
        OUT_INT64S,
        OUT_INT64S,
        OUT_INT64S,
    )
)
def index_records(
    buf, table, first, last, starts, ends, kinds, lenient,
    offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
    rows, statuses, wheres,
):  # fmt: skip
    """Index the records of the batches in rows ``first`` to ``last`` of a scan's table; return how many.

    ``starts`` and ``ends`` say where in ``buf`` the records section (magic 2), the decompressed set or the plain
    message of each batch lies; ``kinds`` what it is (``SKIPPED``, ``WHOLE_DATA``, ``DAMAGED_DATA``). For each batch
    ``rows`` gets the records that Kafka delivers, ``statuses`` why they ended and ``wheres`` at which byte of ``buf``.
    ``lenient`` reads as Kafka's iterator that skips keys and values: it does not check that fields fill a record.

    For formats 0 and 1 ``headers_at`` is the place of the message's CRC, and ``header_counts`` 0.
    """
    row = 0
    for batch in range(first, last):
        done, status, where = 0, WHOLE, starts[batch]
        damaged = kinds[batch] == DAMAGED_DATA
        if kinds[batch] == SKIPPED:
            pass
        elif table[MAGIC, batch] >= 2:
            done, status, where = _index_v2(
                buf, starts[batch], ends[batch], damaged, lenient, table, batch,
                row, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
            )  # fmt: skip
        elif table[ATTRIBUTES, batch] & CODEC_MASK:
            done, status, where = _index_set(
                buf, starts[batch], ends[batch], damaged, table, batch,
                row, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
            )  # fmt: skip
        else:
            offsets[row] = table[BASE_OFFSET, batch]
            done = 1
            if not _index_message(
                buf, starts[batch], ends[batch], row, table[MAX_TIMESTAMP, batch],
                offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
            ):  # fmt: skip
                done, status = 0, UNREADABLE_FIELD
        rows[batch] = done
        statuses[batch] = status
        wheres[batch] = where
        row += done
    return row


# ------------------------------------------------------------------------------------------------- gather


@device
def _copy(target, to, buf, start, size):
    """Copy; up to 256 bytes by 32, where both arrays have 31 bytes to spare (what is written beyond is overwritten)."""
    if size <= 256 and start + size + 31 <= buf.size and to + size + 31 <= target.size:
        for done in range(0, size, 32):
            copy_32(target, to + done, buf, start + done)
    else:
        copy_bytes(target, to, buf, start, size)


@kernel(I64(BYTES, INT64S, INT32S, I64, OUT_INT32S, OUT_BYTES, OUT_BYTES))
def gather_binary(buf, places, sizes, count, offsets, data, validity):
    """Copy ``count`` byte strings into Arrow's three buffers; return how many are null (negative sizes).

    ``validity`` must hold a byte for each eight values, rounded up; ``data`` the sum of the sizes.
    """
    nulls = 0
    to = 0
    offsets[0] = 0
    for byte in range((count + 7) // 8):
        validity[byte] = 0xFF
    for row in range(count):
        size = np.int64(sizes[row])
        if size < 0:
            nulls += 1
            validity[row >> 3] &= np.uint8(~(1 << (row & 7)) & 0xFF)
        else:
            _copy(data, to, buf, places[row], size)
            to += size
        offsets[row + 1] = to
    return nulls


@kernel(I64(BYTES, INT64S, INT32S, I64, OUT_INT32S, OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_INT32S))
def index_headers(buf, places, counts, records, lists, key_at, key_size, value_at, value_size):
    """Index the headers of ``records`` records, which ``index_records`` has checked; return their number.

    ``lists`` gets Arrow's list offsets.
    """
    total = 0
    lists[0] = 0
    for record in range(records):
        position = places[record]
        for _ in range(counts[record]):
            _, length, position = read_varint(buf, position, buf.size)
            key_at[total] = position
            key_size[total] = length
            position += length
            _, length, position = read_varint(buf, position, buf.size)
            value_at[total] = position
            value_size[total] = length
            position += max(length, 0)
            total += 1
        lists[record + 1] = total
    return total
