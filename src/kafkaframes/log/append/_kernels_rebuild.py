"""Read the records of one ordinary set into places, and write them in another format (numba).

Start reading at ``fast_rebuild.py``, not here.

1. ``read_*`` fill one row of ``rows`` for each record (columns below: places in ``buf``, sizes with -1 for null) and
   return (count, largest timestamp, contiguous). A count of 0 says that something is odd: a size that does not fit, a
   varint that is longer than it need be, a timestamp out of range, a key that is missing where one is needed.
2. ``write_*`` write those rows; ``out`` has room for all bytes read and ``MOST_OVERHEAD`` more for each record.
3. HEADERS_AT and HEADERS_SIZE cover the headers as they stand in format 2, with their count; formats 0 and 1 have none.
"""

import numpy as np
from numba import types

from kafkaframes.records._kernels_build import (
    store_i8,
    store_i32,
    store_i64,
    varint_size,
    write_blob,
    write_sized,
    write_varint,
)
from kafkaframes.records.layout import MESSAGE_V0, MESSAGE_V1
from kafkaframes.wire._jit import BYTES, OUT_BYTES, OUT_TABLE, TABLE, device, kernel
from kafkaframes.wire._kernels import (
    OK,
    address_of,
    copy_bytes,
    crc32_of,
    load_i8,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    read_varint,
    read_varlong,
)

TIMESTAMP, KEY_AT, KEY_SIZE, VALUE_AT, VALUE_SIZE, HEADERS_AT, HEADERS_SIZE = range(7)
COLUMNS = 7
MOST_OVERHEAD = 36  # five varints of 5 bytes, one of 10, the attributes; a message of format 1 has 34
LEAST_BYTES = (MESSAGE_V0.size + 8, MESSAGE_V1.size + 8, 7)  # of a record, by format
NO_TIMESTAMP = -1
_SIZE_AT, _CRC_AT, _CRC_FROM = MESSAGE_V1.place_of("size"), MESSAGE_V1.place_of("crc"), MESSAGE_V1.end_of("crc")
_MAGIC_AT, _ATTRIBUTES_AT = MESSAGE_V1.place_of("magic"), MESSAGE_V1.place_of("attributes")
_TIMESTAMP_AT, _OVERHEAD = MESSAGE_V1.place_of("timestamp"), MESSAGE_V1.end_of("size")
_HEADER_V0, _HEADER_V1 = MESSAGE_V0.size, MESSAGE_V1.size
_NO = (np.int64(0), np.int64(0), np.int64(0))


@device
def _read_number(address, position, end):
    """Read a varint that is as short as it can be: (fits, value, position)."""
    status, value, after = read_varint(address, position, end)
    return status == OK and after - position == varint_size(value), value, after


@device
def _read_blob(address, position, end):
    """Step over a length and its bytes: (fits, place, size, position)."""
    fits, size, position = _read_number(address, position, end)
    if not fits or size > end - position or size < -1:
        return False, 0, 0, position
    return True, position, size, position + max(size, 0)


@device
def _skip_headers(address, position, end):
    """Step over the headers: (fits, count, position)."""
    fits, count, position = _read_number(address, position, end)
    if not fits or count < 0 or count > end - position:
        return False, 0, position
    for _ in range(count):
        fits, _, size, position = _read_blob(address, position, end)
        if not fits or size < 0:
            return False, 0, position
        fits, _, size, position = _read_blob(address, position, end)
        if not fits:
            return False, 0, position
    return True, count, position


@kernel(
    types.UniTuple(types.int64, 3)(
        BYTES,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        OUT_TABLE,
    )
)
def read_batch(buf, start, base_offset, base_timestamp, lowest, highest, need_key, with_headers, rows):
    """Read the records of format 2 that lie in ``buf`` from ``start`` to its end: as many as ``rows`` has."""
    address, end = address_of(buf), buf.size
    position, largest, contiguous = start, NO_TIMESTAMP, np.int64(base_offset == 0)
    for number in range(rows.shape[0]):
        status, length, position = read_varint(address, position, end)
        if status != OK or length <= 0 or length > end - position:
            return _NO
        stop = position + length
        status, delta, position = read_varlong(address, position + 1, stop)
        if status != OK:
            return _NO
        status, offset_delta, position = read_varint(address, position, stop)
        timestamp = base_timestamp + delta
        if status != OK or (timestamp != NO_TIMESTAMP and (timestamp < lowest or timestamp > highest)):
            return _NO
        fits, key_at, key_size, position = _read_blob(address, position, stop)
        if not fits or (need_key and key_size < 0):
            return _NO
        fits, value_at, value_size, headers_at = _read_blob(address, position, stop)
        if not fits:
            return _NO
        fits, headers, position = _skip_headers(address, headers_at, stop)
        if not fits or position != stop or (headers and not with_headers):
            return _NO
        rows[number, TIMESTAMP] = timestamp
        rows[number, KEY_AT], rows[number, KEY_SIZE] = key_at, key_size
        rows[number, VALUE_AT], rows[number, VALUE_SIZE] = value_at, value_size
        rows[number, HEADERS_AT], rows[number, HEADERS_SIZE] = headers_at, position - headers_at
        largest = max(largest, timestamp)
        if offset_delta != number:
            contiguous = np.int64(0)
    if position != end:
        return _NO
    return np.int64(rows.shape[0]), np.int64(largest), contiguous


@kernel(
    types.UniTuple(types.int64, 3)(
        BYTES, types.int64, types.int64, types.int64, types.int64, types.int64, OUT_TABLE
    )
)  # fmt: skip
def read_messages(buf, magic, wrapper_offset, lowest, highest, need_key, rows):
    """Read messages of format 0 or 1 in a row; ``wrapper_offset`` is -1 where they are not inside a wrapper."""
    address, end = address_of(buf), buf.size
    header = _HEADER_V1 if magic else _HEADER_V0
    position, number, largest, contiguous, before = 0, 0, NO_TIMESTAMP, np.int64(1), -1
    while position < end:
        if end - position < header + 8:
            return _NO
        stop = position + _OVERHEAD + load_i32(address, position + _SIZE_AT)
        if stop < position + header + 8 or stop > end:
            return _NO
        if load_i8(address, position + _MAGIC_AT) != magic or load_u8(address, position + _ATTRIBUTES_AT):
            return _NO
        if crc32_of(buf, position + _CRC_FROM, stop) != load_u32(address, position + _CRC_AT):
            return _NO
        offset = load_i64(address, position)
        if wrapper_offset >= 0 and offset <= before:
            return _NO
        timestamp = load_i64(address, position + _TIMESTAMP_AT) if magic else NO_TIMESTAMP
        if timestamp != NO_TIMESTAMP and (timestamp < lowest or timestamp > highest):
            return _NO
        key_size = load_i32(address, position + header)
        key_at = position + header + 4
        if key_size < -1 or key_size > stop - key_at - 4 or (need_key and key_size < 0):
            return _NO
        value_at = key_at + max(key_size, 0) + 4
        value_size = load_i32(address, value_at - 4)
        if value_size < -1 or value_at + max(value_size, 0) != stop:
            return _NO
        rows[number, TIMESTAMP] = timestamp
        rows[number, KEY_AT], rows[number, KEY_SIZE] = key_at, key_size
        rows[number, VALUE_AT], rows[number, VALUE_SIZE] = value_at, value_size
        rows[number, HEADERS_AT], rows[number, HEADERS_SIZE] = 0, 0
        largest = max(largest, timestamp)
        if offset != number:
            contiguous = np.int64(0)
        before = offset
        position = stop
        number += 1
    if wrapper_offset > 0 and wrapper_offset < before:
        return _NO
    if wrapper_offset != 0 and wrapper_offset != number - 1:
        contiguous = np.int64(0)
    return np.int64(number), np.int64(largest), contiguous


@kernel(types.int64(BYTES, TABLE, OUT_BYTES))
def write_batch(buf, rows, out):
    """Write the records of a format 2 batch, without its header; offsets are 0, 1, 2, ... from the base."""
    to, source = address_of(out), address_of(buf)
    position, base_timestamp = 0, rows[0, TIMESTAMP]
    for number in range(rows.shape[0]):
        key_size, value_size, headers_size = (
            rows[number, KEY_SIZE],
            rows[number, VALUE_SIZE],
            rows[number, HEADERS_SIZE],
        )
        delta = rows[number, TIMESTAMP] - base_timestamp
        size = 1 + varint_size(delta) + varint_size(number) + max(headers_size, 1)
        size += varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0)
        position = write_varint(to, position, size)
        store_i8(to, position, 0)
        position = write_varint(to, position + 1, delta)
        position = write_varint(to, position, number)
        position = write_blob(to, position, source, rows[number, KEY_AT], key_size)
        position = write_blob(to, position, source, rows[number, VALUE_AT], value_size)
        store_i8(to, position, 0)
        if headers_size > 1:
            copy_bytes(to, position, source, rows[number, HEADERS_AT], headers_size)
        position += max(headers_size, 1)
    return position


@kernel(types.int64(BYTES, TABLE, types.int64, types.int64, types.int64, types.int64, OUT_BYTES))
def write_messages(buf, rows, magic, first_offset, attributes, timestamp, out):
    """Write messages of format 0 or 1 with their CRCs; ``timestamp`` is that of all unless it is -1."""
    to, source = address_of(out), address_of(buf)
    position = 0
    for number in range(rows.shape[0]):
        start = position
        store_i64(to, start, first_offset + number)
        store_i8(to, start + _MAGIC_AT, magic)
        store_i8(to, start + _ATTRIBUTES_AT, attributes)
        if magic:
            store_i64(to, start + _TIMESTAMP_AT, rows[number, TIMESTAMP] if timestamp == NO_TIMESTAMP else timestamp)
        position = start + (_HEADER_V1 if magic else _HEADER_V0)
        position = write_sized(to, position, source, rows[number, KEY_AT], rows[number, KEY_SIZE])
        position = write_sized(to, position, source, rows[number, VALUE_AT], rows[number, VALUE_SIZE])
        store_i32(to, start + _SIZE_AT, position - start - _OVERHEAD)
        store_i32(to, start + _CRC_AT, crc32_of(to, start + _CRC_FROM, position))
    return position
