"""Copy keys, values and headers out of indexed records into Arrow's buffers (numba).

Start reading at ``columns.py`` and ``fused.py``, not here. ``gather_binary`` and ``index_headers`` have plain twins of
the same name in ``_reference.py``; ``read_columns`` is compared with the long way that they are part of.
Inside, arrays are addresses (``address_of``): arrays cost too much from call to call.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_index import QUICK_BYTES, WHOLE_DATA, index_batch, quick_record
from kafkaframes.records._kernels_scan import (
    APPEND_TIME,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    I64,
    MAGIC,
    MAX_TIMESTAMP,
    crc_is_right,
)
from kafkaframes.records.reasons import WHOLE
from kafkaframes.wire._jit import (
    BYTES,
    INT8S,
    INT32S,
    INT64S,
    OUT_BYTES,
    OUT_INT8S,
    OUT_INT32S,
    OUT_INT64S,
    TABLE,
    inlined,
    kernel,
)
from kafkaframes.wire._kernels import (
    address_of,
    copy_32,
    copy_bytes,
    load_u8,
    read_varint,
    store_item_8,
    store_item_32,
    store_item_64,
)

# What ``read_columns`` is asked for, and what it tells of each column.
WANT_CRC, WANT_KEY, WANT_VALUE, WANT_HEADERS = 1, 2, 4, 8
KEYS, KEY_NULLS, VALUES, VALUE_NULLS, HEADER_KEYS, HEADER_VALUES, HEADER_NULLS = range(7)
# What a copy may read and write beyond its bytes.
SLACK_BYTES = 32


@inlined
def _copy(target, to, buf, start, size, limit):
    """Copy; up to 256 bytes by 32, where ``limit``, the end of ``buf``, leaves room (the next overwrites the rest).

    ``target`` must have room, too.
    """
    if size <= 256 and start + size + 31 <= limit:
        for done in range(0, size, 32):
            copy_32(target, to + done, buf, start + done)
    else:
        copy_bytes(target, to, buf, start, size)


@inlined
def _append(buf, place, size, limit, here, to, offsets, data, validity):
    """Append a byte string to a column of ``here`` values and ``to`` bytes; return its bytes and whether it is null."""
    if here & 7 == 0:
        store_item_8(validity, here >> 3, 0xFF)
    null = size < 0
    if null:
        store_item_8(validity, here >> 3, load_u8(validity, here >> 3) & ~(1 << (here & 7)))
    else:
        _copy(data, to, buf, place, size, limit)
        to += size
    store_item_32(offsets, here + 1, to)
    return to, np.int64(null)


@kernel(I64(BYTES, INT64S, INT32S, I64, OUT_INT32S, OUT_BYTES, OUT_BYTES))
def gather_binary(buf, places, sizes, count, offsets, data, validity):
    """Copy ``count`` byte strings into Arrow's three buffers; return how many are null (negative sizes).

    ``validity`` must hold a byte for each eight values, rounded up; ``data`` the sum of the sizes.
    """
    source, starts, target, valid = address_of(buf), address_of(offsets), address_of(data), address_of(validity)
    offsets[0] = 0
    to, nulls = np.int64(0), np.int64(0)
    for here in range(count):
        size = np.int64(sizes[here])
        limit = buf.size if to + size + SLACK_BYTES <= data.size else 0
        to, null = _append(source, places[here], size, limit, here, to, starts, target, valid)
        nulls += null
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


@inlined
def _append_headers(
    buf, place, count, limit, total, name_end, content_end, nulls,
    name_offsets, names, content_offsets, contents, validity,
):  # fmt: skip
    """Append ``count`` checked headers to columns of ``total``; return total, the columns' bytes and the nulls."""
    for _ in range(count):
        _, size, place = read_varint(buf, place, limit)
        _copy(names, name_end, buf, place, size, limit)
        name_end += size
        store_item_32(name_offsets, total + 1, name_end)
        _, size, place = read_varint(buf, place + size, limit)
        content_end, null = _append(buf, place, size, limit, total, content_end, content_offsets, contents, validity)
        place += max(size, 0)
        nulls += null
        total += 1
    return total, name_end, content_end, nulls


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

    A batch at a time, so that its bytes come into the cache once: on cold bytes that is half the time of one step after
    the other. Ordinary records go from their bytes to the columns at once; from the first other one of a batch on, they
    are indexed with all care into ``key_at`` to ``header_counts``, scratch for one batch's records, and then copied.
    ``wanted`` has the bits ``WANT_*``; arrays of what is not wanted may be empty, the others of bytes have
    ``SLACK_BYTES`` to spare. ``sizes`` gets the bytes and nulls of each column.
    """
    data, limit = address_of(buf), buf.size
    offsets_at, stamps_at = address_of(offsets), address_of(stamps)
    key_to, key_data, key_valid = address_of(key_offsets), address_of(keys), address_of(key_validity)
    value_to, value_data, value_valid = address_of(value_offsets), address_of(values), address_of(value_validity)
    lists_at, name_to, name_data = address_of(lists), address_of(name_offsets), address_of(names)
    content_to, content_data = address_of(content_offsets), address_of(contents)
    content_valid = address_of(content_validity)
    want_key, want_value, want_headers = wanted & WANT_KEY != 0, wanted & WANT_VALUE != 0, wanted & WANT_HEADERS != 0
    key_end, value_end, name_end, content_end, total = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    key_nulls, value_nulls, content_nulls = np.int64(0), np.int64(0), np.int64(0)
    if want_key:
        key_offsets[0] = 0
    if want_value:
        value_offsets[0] = 0
    if want_headers:
        lists[0] = 0
        name_offsets[0] = 0
        content_offsets[0] = 0
    row = np.int64(0)
    for batch in range(table.shape[1]):
        if wanted & WANT_CRC:
            crc_ok[batch] = crc_is_right(source, table, batch)
        position, end, done = starts[batch], ends[batch], np.int64(0)
        count = table[COUNT, batch] if table[MAGIC, batch] >= 2 and kinds[batch] == WHOLE_DATA else -1
        base, stamp = table[BASE_OFFSET, batch], table[BASE_TIMESTAMP, batch]
        append, append_stamp = table[ATTRIBUTES, batch] & APPEND_TIME, table[MAX_TIMESTAMP, batch]
        while done < count and end - position >= QUICK_BYTES:
            (
                stop, stamp_delta, delta, key_place, key_bytes, value_place, value_bytes, headers_place, header_count,
            ) = quick_record(data, position, end)  # fmt: skip
            if stop < 0 or (done + 1 == count and stop != end):
                break
            here = row + done
            store_item_64(offsets_at, here, base + delta)
            store_item_64(stamps_at, here, append_stamp if append else stamp + stamp_delta)
            if want_key:
                key_end, null = _append(data, key_place, key_bytes, limit, here, key_end, key_to, key_data, key_valid)
                key_nulls += null
            if want_value:
                value_end, null = _append(
                    data, value_place, value_bytes, limit, here, value_end, value_to, value_data, value_valid
                )
                value_nulls += null
            if want_headers:
                total, name_end, content_end, content_nulls = _append_headers(
                    data, headers_place, np.int64(header_count), limit, total, name_end, content_end, content_nulls,
                    name_to, name_data, content_to, content_data, content_valid,
                )  # fmt: skip
                store_item_32(lists_at, here + 1, total)
            position = stop
            done += 1
        status, where = WHOLE, position
        if count < 1 or done < count:
            known = done
            done, status, where = index_batch(
                data, position, end, known, kinds[batch], 0, table, batch,
                row, -known, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
            )  # fmt: skip
            for slot in range(done - known):
                here = row + known + slot
                if want_key:
                    key_end, null = _append(
                        data, key_at[slot], np.int64(key_size[slot]), limit, here, key_end, key_to, key_data, key_valid
                    )
                    key_nulls += null
                if want_value:
                    value_end, null = _append(
                        data, value_at[slot], np.int64(value_size[slot]), limit, here, value_end,
                        value_to, value_data, value_valid,
                    )  # fmt: skip
                    value_nulls += null
                if want_headers:
                    total, name_end, content_end, content_nulls = _append_headers(
                        data, headers_at[slot], np.int64(header_counts[slot]), limit, total,
                        name_end, content_end, content_nulls,
                        name_to, name_data, content_to, content_data, content_valid,
                    )  # fmt: skip
                    store_item_32(lists_at, here + 1, total)
        rows[batch] = done
        statuses[batch] = status
        wheres[batch] = where
        row += done
    sizes[KEYS], sizes[KEY_NULLS], sizes[VALUES], sizes[VALUE_NULLS] = key_end, key_nulls, value_end, value_nulls
    sizes[HEADER_KEYS], sizes[HEADER_VALUES], sizes[HEADER_NULLS] = name_end, content_end, content_nulls
    return row
