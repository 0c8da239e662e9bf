"""Check the records of one ordinary set that is to be taken in place (numba). Start reading at ``fast.py``, not here.

A count above zero says that nothing at all is odd: every record is whole, offsets are 0, 1, 2, ..., keys are there if
they must be, timestamps lie in range. The general path (``validator.py``) is the twin of these loops.
"""

import numpy as np

from kafkaframes.append._kernels_context import HIGHEST_MS, LOWEST_MS, NEED_KEY, NO_TIMESTAMP
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
from kafkaframes.records.layout import CODEC_MASK
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import (
    OK,
    crc32_of,
    load_i8,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    read_varint,
    read_varlong,
)

_NO = (np.int64(0), np.int64(0))


@device
def _skip_bytes(address, position, end):
    """Step over a length and its bytes: (fits, length, position)."""
    status, length, position = read_varint(address, position, end)
    if status != OK or length > end - position:
        return 0, 0, position
    return 1, length, position + max(length, 0)


@device
def _skip_record(address, position, end):
    """Read a record's deltas and step over the rest: (fits, timestamp delta, offset delta, key length, position)."""
    status, length, position = read_varint(address, position, end)
    if status != OK or length <= 0 or length > end - position:
        return 0, 0, 0, 0, position
    stop = position + length
    status, delta, position = read_varlong(address, position + 1, stop)
    if status != OK:
        return 0, 0, 0, 0, position
    status, offset_delta, position = read_varint(address, position, stop)
    if status != OK:
        return 0, 0, 0, 0, position
    fits, key_length, position = _skip_bytes(address, position, stop)
    if not fits:
        return 0, 0, 0, 0, position
    fits, _, position = _skip_bytes(address, position, stop)
    if not fits:
        return 0, 0, 0, 0, position
    status, headers, position = read_varint(address, position, stop)
    if status != OK or headers < 0 or headers > stop - position:
        return 0, 0, 0, 0, position
    for _ in range(headers):
        fits, name_length, position = _skip_bytes(address, position, stop)
        if not fits or name_length < 0:
            return 0, 0, 0, 0, position
        fits, _, position = _skip_bytes(address, position, stop)
        if not fits:
            return 0, 0, 0, 0, position
    return position == stop, delta, offset_delta, key_length, position


@device
def check_batch(address, start, end, count, base_timestamp, context):
    """Check the ``count`` records of a format 2 batch, from ``start`` to ``end``: (count, largest timestamp)."""
    position, largest = start, np.int64(NO_TIMESTAMP)
    lowest, highest, need_key = context[LOWEST_MS], context[HIGHEST_MS], context[NEED_KEY]
    for number in range(count):
        fits, delta, offset_delta, key_length, position = _skip_record(address, position, end)
        if not fits or offset_delta != number or (need_key and key_length < 0):
            return _NO
        timestamp = base_timestamp + delta
        if timestamp != NO_TIMESTAMP and (timestamp < lowest or timestamp > highest):
            return _NO
        largest = max(largest, timestamp)
    if position != end:
        return _NO
    return np.int64(count), largest


@device
def check_set(address, position, end, wrapper_offset, context):
    """Check the messages of a decompressed format 1 set, their own CRCs among them: (count, largest timestamp)."""
    number, largest = np.int64(0), np.int64(NO_TIMESTAMP)
    lowest, highest, need_key = context[LOWEST_MS], context[HIGHEST_MS], context[NEED_KEY]
    while position < end:
        if end - position < V1_HEADER + 8:
            return _NO
        size = load_i32(address, position + AT_SIZE)
        stop = position + OVERHEAD + size
        if size < V1_HEADER + 8 - OVERHEAD or stop > end or load_i64(address, position) != number:
            return _NO
        if load_i8(address, position + AT_MAGIC) != 1 or load_u8(address, position + OLD_ATTRIBUTES) & CODEC_MASK:
            return _NO
        if crc32_of(address, position + OLD_CRC_FROM, stop) != load_u32(address, position + OLD_CRC):
            return _NO
        timestamp = load_i64(address, position + OLD_TIMESTAMP)
        if timestamp != NO_TIMESTAMP and (timestamp < lowest or timestamp > highest):
            return _NO
        key_length = load_i32(address, position + V1_HEADER)
        at = position + V1_HEADER + 4 + max(key_length, 0)
        if (need_key and key_length < 0) or at > stop - 4 or at < 0:
            return _NO
        if load_i32(address, at) > stop - at - 4:
            return _NO
        largest = max(largest, timestamp)
        position = stop
        number += 1
    if number == 0 or (wrapper_offset != 0 and wrapper_offset != number - 1):
        return _NO
    return number, largest


@device
def check_row(address, position, end, magic, context):
    """Check messages of format 0 or 1 in a row, none of them compressed: (count, largest timestamp)."""
    number, largest = np.int64(0), np.int64(NO_TIMESTAMP)
    lowest, highest, need_key = context[LOWEST_MS], context[HIGHEST_MS], context[NEED_KEY]
    header = V1_HEADER if magic else V0_HEADER
    while position < end:
        if end - position < header + 8:
            return _NO
        stop = position + OVERHEAD + load_i32(address, position + AT_SIZE)
        if stop < position + header + 8 or stop > end:
            return _NO
        if load_i8(address, position + AT_MAGIC) != magic or load_u8(address, position + OLD_ATTRIBUTES):
            return _NO
        if crc32_of(address, position + OLD_CRC_FROM, stop) != load_u32(address, position + OLD_CRC):
            return _NO
        timestamp = load_i64(address, position + OLD_TIMESTAMP) if magic else np.int64(NO_TIMESTAMP)
        if timestamp != NO_TIMESTAMP and (timestamp < lowest or timestamp > highest):
            return _NO
        key_length, at = load_i32(address, position + header), position + header + 4
        if key_length < -1 or key_length > stop - at - 4 or (need_key and key_length < 0):
            return _NO
        at += max(key_length, 0) + 4
        value_length = load_i32(address, at - 4)
        if value_length < -1 or at + max(value_length, 0) != stop:
            return _NO
        largest = max(largest, timestamp)
        position = stop
        number += 1
    return number, largest
