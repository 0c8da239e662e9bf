"""Read the records of one ordinary set and write each in another format at once (numba).

Start reading at ``fast_rebuild.py``, not here.

1. Addresses in, ``(count, largest timestamp, first timestamp, contiguous, size)`` out. A count of 0 says that something
   is odd: a size that does not fit, a varint that is longer than it need be, a timestamp out of range, a key that is
   missing where one is needed.
2. What is written starts at ``out``, which has room for all bytes read and ``MOST_OVERHEAD`` more for each record.
3. Headers are copied as they stand in format 2, with their count; formats 0 and 1 have none. A name that is not ASCII
   is odd: where it is not UTF-8, Kafka writes other bytes.
"""

import numpy as np

from kafkaframes.append._kernels_context import (
    APPEND_TIME,
    HIGHEST_MS,
    LOWEST_MS,
    NEED_KEY,
    NO_TIMESTAMP,
    NOW_MS,
    TO_MAGIC,
)
from kafkaframes.records._kernels_build import (
    store_i8,
    store_i32,
    store_i64,
    varint_size,
    write_blob,
    write_sized,
    write_varint,
)
from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    AT_SIZE,
    OLD_ATTRIBUTES,
    OLD_CRC,
    OLD_CRC_FROM,
    OLD_TIMESTAMP,
    OVERHEAD,
    V0_HEADER,
    V1_HEADER,
)
from kafkaframes.records.layout import LOG_APPEND_TIME, MIN_RECORD_BYTES
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import (
    OK,
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

MOST_OVERHEAD = 36  # five varints of 5 bytes, one of 10, the attributes; a message of format 1 has 34
_LENGTHS = 8  # of key and value
_NO = (np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


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
def _is_ascii(address, position, size):
    """Tell whether no byte is above 127: text of which Kafka, which reads and writes names as text, keeps each byte."""
    bits = np.int64(0)
    for place in range(position, position + size):
        bits |= load_u8(address, place)
    return bits < 0x80


@device
def _skip_headers(address, position, end):
    """Step over the headers: (fits, count, position). Names beyond ASCII do not fit: they may have to be mended."""
    fits, count, position = _read_number(address, position, end)
    if not fits or count < 0 or count > end - position:
        return False, 0, position
    for _ in range(count):
        fits, name_at, size, position = _read_blob(address, position, end)
        if not fits or size < 0 or not _is_ascii(address, name_at, size):
            return False, 0, position
        fits, _, size, position = _read_blob(address, position, end)
        if not fits:
            return False, 0, position
    return True, count, position


@device
def _is_late(timestamp, context):
    """Tell whether a timestamp is out of range."""
    return timestamp != NO_TIMESTAMP and (timestamp < context[LOWEST_MS] or timestamp > context[HIGHEST_MS])


@device
def _write_message(source, key_at, key_size, value_at, value_size, timestamp, offset, out, start, context):
    """Write one message of format 0 or 1 with its CRC."""
    magic, attributes = context[TO_MAGIC], np.int64(0)
    if magic and context[APPEND_TIME]:
        attributes, timestamp = np.int64(LOG_APPEND_TIME), context[NOW_MS]
    store_i64(out, start, offset)
    store_i8(out, start + AT_MAGIC, magic)
    store_i8(out, start + OLD_ATTRIBUTES, attributes)
    if magic:
        store_i64(out, start + OLD_TIMESTAMP, timestamp)
    position = start + (V1_HEADER if magic else V0_HEADER)
    position = write_sized(out, position, source, key_at, key_size)
    position = write_sized(out, position, source, value_at, value_size)
    store_i32(out, start + AT_SIZE, position - start - OVERHEAD)
    store_i32(out, start + OLD_CRC, crc32_of(out, start + OLD_CRC_FROM, position))
    return position


@device
def _write(
    source,
    key_at,
    key_size,
    value_at,
    value_size,
    headers_at,
    headers_size,
    timestamp,
    first,
    number,
    out,
    to,
    offset,
    relative,
    context,
):
    """Write one record at ``to``; return where the next goes. ``first`` is the first record's timestamp."""
    if context[TO_MAGIC] < 2:
        offset = number if relative else offset + number
        return _write_message(source, key_at, key_size, value_at, value_size, timestamp, offset, out, to, context)
    delta = timestamp - first
    size = 1 + varint_size(delta) + varint_size(number) + max(headers_size, 1)
    size += varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0)
    to = write_varint(out, to, size)
    store_i8(out, to, 0)
    to = write_varint(out, to + 1, delta)
    to = write_varint(out, to, number)
    to = write_blob(out, to, source, key_at, key_size)
    to = write_blob(out, to, source, value_at, value_size)
    store_i8(out, to, 0)
    if headers_size > 1:
        copy_bytes(out, to, source, headers_at, headers_size)
    return to + max(headers_size, 1)


@device
def room_for(size, count, magic):
    """Return the bytes that ``size`` bytes of records can become; of formats 0 and 1 their count is not known."""
    if magic < 2:
        count = size // ((V1_HEADER if magic else V0_HEADER) + _LENGTHS)
    return size + MOST_OVERHEAD * count


@device
def can_hold(size, count):
    """Tell whether a section of this size can hold this number of records of format 2."""
    return count <= size // MIN_RECORD_BYTES


@device
def rewrite_batch(source, position, end, count, base_offset, base_timestamp, out, offset, relative, context):
    """Read the ``count`` records of a format 2 batch, and write each."""
    largest, first, to = np.int64(NO_TIMESTAMP), np.int64(0), np.int64(0)
    contiguous = np.int64(base_offset == 0)
    for number in range(count):
        status, length, position = read_varint(source, position, end)
        if status != OK or length <= 0 or length > end - position:
            return _NO
        stop = position + length
        status, delta, position = read_varlong(source, position + 1, stop)
        if status != OK:
            return _NO
        status, offset_delta, position = read_varint(source, position, stop)
        timestamp = base_timestamp + delta
        if status != OK or _is_late(timestamp, context):
            return _NO
        fits, key_at, key_size, position = _read_blob(source, position, stop)
        if not fits or (context[NEED_KEY] and key_size < 0):
            return _NO
        fits, value_at, value_size, headers_at = _read_blob(source, position, stop)
        if not fits:
            return _NO
        fits, headers, position = _skip_headers(source, headers_at, stop)
        if not fits or position != stop or (headers and context[TO_MAGIC] < 2):
            return _NO
        if number == 0:
            first = timestamp
        to = _write(
            source,
            key_at,
            key_size,
            value_at,
            value_size,
            headers_at,
            position - headers_at,
            timestamp,
            first,
            number,
            out,
            to,
            offset,
            relative,
            context,
        )
        largest = max(largest, timestamp)
        if offset_delta != number:
            contiguous = np.int64(0)
    if position != end:
        return _NO
    return np.int64(count), largest, first, contiguous, to


@device
def rewrite_messages(source, position, end, magic, wrapper_offset, out, offset, relative, context):
    """Read messages of format 0 or 1 in a row, and write each; ``wrapper_offset`` is -1 without a wrapper."""
    header = V1_HEADER if magic else V0_HEADER
    number, largest, first, to = np.int64(0), np.int64(NO_TIMESTAMP), np.int64(0), np.int64(0)
    contiguous, before = np.int64(1), np.int64(-1)
    while position < end:
        if end - position < header + _LENGTHS:
            return _NO
        stop = position + OVERHEAD + load_i32(source, position + AT_SIZE)
        if stop < position + header + _LENGTHS or stop > end:
            return _NO
        if load_i8(source, position + AT_MAGIC) != magic or load_u8(source, position + OLD_ATTRIBUTES):
            return _NO
        if crc32_of(source, position + OLD_CRC_FROM, stop) != load_u32(source, position + OLD_CRC):
            return _NO
        inner_offset = load_i64(source, position)
        if wrapper_offset >= 0 and inner_offset <= before:
            return _NO
        timestamp = load_i64(source, position + OLD_TIMESTAMP) if magic else np.int64(NO_TIMESTAMP)
        if _is_late(timestamp, context):
            return _NO
        key_at, key_size = position + header + 4, load_i32(source, position + header)
        if key_size < -1 or key_size > stop - key_at - 4 or (context[NEED_KEY] and key_size < 0):
            return _NO
        value_at = key_at + max(key_size, 0) + 4
        value_size = load_i32(source, value_at - 4)
        if value_size < -1 or value_at + max(value_size, 0) != stop:
            return _NO
        if number == 0:
            first = timestamp
        to = _write(
            source,
            key_at,
            key_size,
            value_at,
            value_size,
            np.int64(0),
            np.int64(0),
            timestamp,
            first,
            number,
            out,
            to,
            offset,
            relative,
            context,
        )
        largest = max(largest, timestamp)
        if inner_offset != number:
            contiguous = np.int64(0)
        before = inner_offset
        position = stop
        number += 1
    if wrapper_offset > 0 and wrapper_offset < before:
        return _NO
    if wrapper_offset != 0 and wrapper_offset != number - 1:
        contiguous = np.int64(0)
    return number, largest, first, contiguous, to
