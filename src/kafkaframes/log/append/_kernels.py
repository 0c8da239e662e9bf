"""Check the records of one ordinary set (numba). Start reading at ``fast.py``, not here.

Bytes and integers in, ``(fits, largest timestamp)`` out. ``fits`` is 1 only if nothing at all is odd: every record is
whole, offsets are 0, 1, 2, ..., keys are there if they must be, timestamps lie in range. Anything else is 0, and the
general path (``validator.py``, which is the twin of these loops) decides what Kafka would say.
"""

import numpy as np
from numba import types

from kafkaframes.records.layout import CODEC_MASK, MESSAGE_V1
from kafkaframes.wire._jit import BYTES, device, kernel
from kafkaframes.wire._kernels import (
    OK,
    address_of,
    crc32_of,
    load_i8,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    read_varint,
    read_varlong,
)

NO_TIMESTAMP = -1
_SIZE_AT, _CRC_AT, _CRC_FROM = MESSAGE_V1.place_of("size"), MESSAGE_V1.place_of("crc"), MESSAGE_V1.end_of("crc")
_MAGIC_AT, _ATTRIBUTES_AT = MESSAGE_V1.place_of("magic"), MESSAGE_V1.place_of("attributes")
_TIMESTAMP_AT, _HEADER, _OVERHEAD = MESSAGE_V1.place_of("timestamp"), MESSAGE_V1.size, MESSAGE_V1.end_of("size")
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


@kernel(
    types.UniTuple(types.int64, 2)(
        BYTES, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64
    )
)  # fmt: skip
def check_batch(buf, start, count, base_timestamp, lowest, highest, need_key):
    """Check the ``count`` records of a format 2 batch, which lie in ``buf`` from ``start`` to its end."""
    address, end = address_of(buf), buf.size
    position, largest = start, NO_TIMESTAMP
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
    return np.int64(1), np.int64(largest)


@kernel(types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64, types.int64, types.int64))
def check_set(buf, wrapper_offset, lowest, highest, need_key):
    """Check the messages of a decompressed format 1 set, their own CRCs among them."""
    address, end = address_of(buf), buf.size
    position, number, largest = 0, 0, NO_TIMESTAMP
    while position < end:
        if end - position < _HEADER + 8:
            return _NO
        size = load_i32(address, position + _SIZE_AT)
        stop = position + _OVERHEAD + size
        if size < _HEADER + 8 - _OVERHEAD or stop > end or load_i64(address, position) != number:
            return _NO
        if load_i8(address, position + _MAGIC_AT) != 1 or load_u8(address, position + _ATTRIBUTES_AT) & CODEC_MASK:
            return _NO
        if crc32_of(buf, position + _CRC_FROM, stop) != load_u32(address, position + _CRC_AT):
            return _NO
        timestamp = load_i64(address, position + _TIMESTAMP_AT)
        if timestamp != NO_TIMESTAMP and (timestamp < lowest or timestamp > highest):
            return _NO
        key_length = load_i32(address, position + _HEADER)
        at = position + _HEADER + 4 + max(key_length, 0)
        if (need_key and key_length < 0) or at > stop - 4 or at < 0:
            return _NO
        if load_i32(address, at) > stop - at - 4:
            return _NO
        largest = max(largest, timestamp)
        position = stop
        number += 1
    if number == 0 or (wrapper_offset != 0 and wrapper_offset != number - 1):
        return _NO
    return np.int64(number), np.int64(largest)
