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
QUICK_BYTES = 40
I64 = types.int64
# What ``read_columns`` is asked for, and what it tells of each column.
WANT_CRC, WANT_KEY, WANT_VALUE, WANT_HEADERS = 1, 2, 4, 8
KEYS, KEY_NULLS, VALUES, VALUE_NULLS, HEADER_KEYS, HEADER_VALUES, HEADER_NULLS = range(7)


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


@device
def _crc_ok(buf, table, row):
    at, size = table[POSITION, row], table[SIZE, row]
    if table[MAGIC, row] < 2:
        return crc32_of(buf, at + OLD_CRC_FROM, at + size) == table[CRC, row]
    return size >= V2_HEADER and crc32c_of(buf, at + V2_CRC_FROM, at + size) == table[CRC, row]


@kernel(types.void(BYTES, TABLE, I64, I64, OUT_INT8S))
def check_crcs(buf, table, first, last, ok):
    """Set ``ok`` for each batch of rows ``first`` to ``last``: its CRC is that of its bytes."""
    for row in range(first, last):
        ok[row] = _crc_ok(buf, table, row)


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
def _short_varint(buf, position):
    """Read an unsigned varint of up to three bytes that are known to be there; -1 for a longer one."""
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


@device
def _quick_record(buf, start, end):
    """Index a whole, ordinary record that starts at ``start``, or give up.

    Ordinary: varints of up to three bytes, 40 bytes of the section still to come (so that none needs its bounds
    checked), fewer than 64 headers. It accepts nothing that the careful path would refuse: all places only grow, and
    the last one must be where the record's length says. Returns the next position or -1, and what is stored otherwise.
    """
    length, body = _short_varint(buf, start)
    if length < 0 or length & 1:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    stop = body + (length >> 1)
    if stop > end:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    stamp, position = _short_varint(buf, body + 1)
    if stamp < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    delta, position = _short_varint(buf, position)
    if delta < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    key, key_at = _short_varint(buf, position)
    if key < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    key_size = (key >> 1) ^ -(key & 1)
    position = key_at + max(key_size, 0)
    if position + 3 > end:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    value, value_at = _short_varint(buf, position)
    if value < 0:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    value_size = (value >> 1) ^ -(value & 1)
    position = value_at + max(value_size, 0)
    if position >= stop:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    count = load_u8(buf, position)
    headers_at = position + 1
    if count == 0:
        position += 1
    elif count & 0x81 == 0:
        status, position = _skip_headers(buf, headers_at, stop, count >> 1)
        if status != WHOLE:
            return -1, 0, 0, 0, 0, 0, 0, 0, 0
    if position != stop:
        return -1, 0, 0, 0, 0, 0, 0, 0, 0
    return (
        stop, (stamp >> 1) ^ -(stamp & 1), (delta >> 1) ^ -(delta & 1),
        key_at, key_size, value_at, value_size, headers_at, count >> 1,
    )  # fmt: skip


@device
def _index_v2(
    buf, start, end, damaged, lenient, table, batch,
    row, slot, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
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
        if not lenient and done + 1 < count and end - at >= QUICK_BYTES:
            here, there = row + done, slot + done
            (
                position, stamp_delta, offset_delta,
                key_at[there], key_size[there], value_at[there], value_size[there],
                headers_at[there], header_counts[there],
            ) = _quick_record(buf, at, end)  # fmt: skip
            if position >= 0:
                offsets[here] = base + offset_delta
                stamps[here] = append_stamp if append else stamp + stamp_delta
                done += 1
                continue
            position = at
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
        here, there = row + done, slot + done
        offsets[here] = base + offset_delta
        stamps[here] = append_stamp if append else stamp + delta
        status, length, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        if length > stop - position:
            return done, FIELD_PAST_RECORD, at
        key_at[there] = position
        key_size[there] = length
        position += max(length, 0)
        status, length, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        if length > stop - position:
            return done, FIELD_PAST_RECORD, at
        value_at[there] = position
        value_size[there] = length
        position += max(length, 0)
        status, length, position = read_varint(buf, position, stop)
        if status != OK:
            return done, BAD_VARINT, at
        if length < 0 or (not lenient and length > stop - position):
            return done, BAD_HEADER_COUNT, at
        headers_at[there] = position
        header_counts[there] = length
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
    buf, at, end, row, slot, stamp, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts
):
    """Index the message of format 0 or 1 whose CRC stands at ``at``; tell whether its key and value can be read."""
    is_v0 = load_i8(buf, at + AT_MAGIC - OVERHEAD) == 0
    stamps[row] = stamp
    headers_at[slot] = at
    header_counts[slot] = 0
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
    row, slot, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
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
            buf, at, stop, row + done, slot + done, stamp,
            offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
        ):  # fmt: skip
            return done, UNREADABLE_FIELD, position
        position = stop
    return count, WHOLE, position


@device
def _index_batch(
    buf, start, end, kind, lenient, table, batch,
    row, slot, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
):  # fmt: skip
    """Index one batch of any format; offsets and timestamps go to ``row`` and on, the rest to ``slot`` and on."""
    if kind == SKIPPED:
        return 0, WHOLE, start
    if table[MAGIC, batch] >= 2:
        return _index_v2(
            buf, start, end, kind == DAMAGED_DATA, lenient, table, batch,
            row, slot, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
        )  # fmt: skip
    if table[ATTRIBUTES, batch] & CODEC_MASK:
        return _index_set(
            buf, start, end, kind == DAMAGED_DATA, table, batch,
            row, slot, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
        )  # fmt: skip
    offsets[row] = table[BASE_OFFSET, batch]
    if not _index_message(
        buf, start, end, row, slot, table[MAX_TIMESTAMP, batch],
        offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
    ):  # fmt: skip
        return 0, UNREADABLE_FIELD, start
    return 1, WHOLE, start


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
        done, status, where = _index_batch(
            buf, starts[batch], ends[batch], kinds[batch], lenient, table, batch,
            row, row, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
        )  # fmt: skip
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


@device
def _gather(buf, places, sizes, count, row, to, offsets, data, validity):
    """Append ``count`` byte strings to a column of ``row`` values and ``to`` bytes; return (bytes, nulls)."""
    nulls = 0
    for index in range(count):
        here = row + index
        size = np.int64(sizes[index])
        if here & 7 == 0:
            validity[here >> 3] = 0xFF
        if size < 0:
            nulls += 1
            validity[here >> 3] &= np.uint8(~(1 << (here & 7)) & 0xFF)
        else:
            _copy(data, to, buf, places[index], size)
            to += size
        offsets[here + 1] = to
    return to, nulls


@kernel(I64(BYTES, INT64S, INT32S, I64, OUT_INT32S, OUT_BYTES, OUT_BYTES))
def gather_binary(buf, places, sizes, count, offsets, data, validity):
    """Copy ``count`` byte strings into Arrow's three buffers; return how many are null (negative sizes).

    ``validity`` must hold a byte for each eight values, rounded up; ``data`` the sum of the sizes.
    """
    offsets[0] = 0
    return _gather(buf, places, sizes, count, 0, 0, offsets, data, validity)[1]


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


# --------------------------------------------------------------------------------------------- all in one


@device
def _append_headers(
    buf, headers_at, header_counts, records, row, lists, key_offsets, keys, value_offsets, values, validity, sizes
):
    """Append the headers of one batch's records."""
    total, key_end, value_end, nulls = np.int64(lists[row]), sizes[HEADER_KEYS], sizes[HEADER_VALUES], 0
    for record in range(records):
        position = headers_at[record]
        for _ in range(header_counts[record]):
            _, length, position = read_varint(buf, position, buf.size)
            _copy(keys, key_end, buf, position, length)
            key_end += length
            position += length
            _, length, position = read_varint(buf, position, buf.size)
            if total & 7 == 0:
                validity[total >> 3] = 0xFF
            if length < 0:
                validity[total >> 3] &= np.uint8(~(1 << (total & 7)) & 0xFF)
                nulls += 1
            else:
                _copy(values, value_end, buf, position, length)
                value_end += length
                position += length
            total += 1
            key_offsets[total] = key_end
            value_offsets[total] = value_end
        lists[row + record + 1] = total
    sizes[HEADER_KEYS] = key_end
    sizes[HEADER_VALUES] = value_end
    sizes[HEADER_NULLS] += nulls


@kernel(
    I64(
        BYTES, BYTES, TABLE, INT64S, INT64S, INT8S, I64,
        OUT_INT8S, OUT_INT64S, OUT_INT64S,
        OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_INT32S,
        OUT_INT32S, OUT_BYTES, OUT_BYTES, OUT_INT32S, OUT_BYTES, OUT_BYTES,
        OUT_INT32S, OUT_INT32S, OUT_BYTES, OUT_INT32S, OUT_BYTES, OUT_BYTES,
        OUT_INT64S, OUT_INT64S, OUT_INT64S, OUT_INT64S,
    )
)  # fmt: skip
def read_columns(
    source, buf, table, starts, ends, kinds, wanted,
    crc_ok, offsets, stamps,
    key_at, key_size, value_at, value_size, headers_at, header_counts,
    key_offsets, keys, key_validity, value_offsets, values, value_validity,
    lists, name_offsets, names, content_offsets, contents, content_validity,
    rows, statuses, wheres, sizes,
):  # fmt: skip
    """Do ``check_crcs``, ``index_records`` and the gathering for all batches of ``table``; return how many records.

    A batch at a time, so that its bytes come into the cache once and its index never leaves it: on cold bytes that is
    half the time of one step after the other. ``key_at`` to ``header_counts`` are scratch for one batch's records.
    ``wanted`` has the bits ``WANT_*``; arrays of what is not wanted may be empty. ``sizes`` gets the bytes and
    nulls of each column.
    """
    row = 0
    sizes[:] = 0
    if wanted & WANT_KEY:
        key_offsets[0] = 0
    if wanted & WANT_VALUE:
        value_offsets[0] = 0
    if wanted & WANT_HEADERS:
        lists[0] = 0
        name_offsets[0] = 0
        content_offsets[0] = 0
    for batch in range(table.shape[1]):
        if wanted & WANT_CRC:
            crc_ok[batch] = _crc_ok(source, table, batch)
        done, status, where = _index_batch(
            buf, starts[batch], ends[batch], kinds[batch], 0, table, batch,
            row, 0, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
        )  # fmt: skip
        if wanted & WANT_KEY:
            sizes[KEYS], nulls = _gather(buf, key_at, key_size, done, row, sizes[KEYS], key_offsets, keys, key_validity)
            sizes[KEY_NULLS] += nulls
        if wanted & WANT_VALUE:
            sizes[VALUES], nulls = _gather(
                buf, value_at, value_size, done, row, sizes[VALUES], value_offsets, values, value_validity
            )
            sizes[VALUE_NULLS] += nulls
        if wanted & WANT_HEADERS:
            _append_headers(
                buf, headers_at, header_counts, done, row, lists,
                name_offsets, names, content_offsets, contents, content_validity, sizes,
            )  # fmt: skip
        rows[batch] = done
        statuses[batch] = status
        wheres[batch] = where
        row += done
    return row
