"""Read the records of one ordinary set and write each in another format at once (numba).

Start reading at ``fast_rebuild.py``, not here.

1. Addresses in, ``(count, largest timestamp, first timestamp, contiguous, size)`` out. A count of 0 says that something
   is odd: a size that does not fit, a varint that is longer than it need be, a timestamp out of range, a key that is
   missing where one is needed.
2. What is written starts at ``out``, which has room for all bytes read and ``MOST_RECORD_OVERHEAD`` more a record.
3. Headers are copied as they stand in format 2, with their count; formats 0 and 1 have none. A name that is not ASCII
   is odd: where it is not UTF-8, Kafka writes other bytes.
"""

import numpy as np

from kafkaframes.records._kernels_scan import OLD_LENGTHS, V0_HEADER, V1_HEADER
from kafkaframes.records._kernels_write import (
    MOST_RECORD_OVERHEAD,
    record_size,
    store_i8,
    varint_size,
    write_message,
    write_record,
)
from kafkaframes.records.append._kernels_context import APPEND_TIME, NEED_KEY, NO_TIMESTAMP, NOW_MS, TO_MAGIC
from kafkaframes.records.append._kernels_ordinary import is_late, read_message
from kafkaframes.records.layout import LOG_APPEND_TIME, MIN_RECORD_BYTES
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import OK, copy_bytes, load_i64, load_u8, read_varint, read_varlong

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
    for at in range(position, position + size):
        bits |= load_u8(address, at)
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
def _write(
    source, key_at, key_size, value_at, value_size, headers_at, headers_size,
    timestamp, first, number, out, to, offset, relative, context,
):  # fmt: skip
    """Write one record at ``to``; return where the next goes. ``first`` is the first record's timestamp."""
    magic = context[TO_MAGIC]
    if magic < 2:
        attributes = np.int64(0)
        if magic and context[APPEND_TIME]:
            attributes, timestamp = np.int64(LOG_APPEND_TIME), context[NOW_MS]
        return write_message(
            out, to, magic, attributes, number if relative else offset + number, timestamp,
            source, key_at, key_size, source, value_at, value_size,
        )  # fmt: skip
    delta = timestamp - first
    size = record_size(delta, number, key_size, value_size) + max(headers_size, 1)
    to = write_record(out, to, size, delta, number, source, key_at, key_size, source, value_at, value_size)
    if headers_size > 1:
        copy_bytes(out, to, source, headers_at, headers_size)
    else:
        store_i8(out, to, 0)
    return to + max(headers_size, 1)


@device
def capacity_for(size, count, magic):
    """Return the bytes that ``size`` bytes of records can become; of formats 0 and 1 their count is not known."""
    if magic < 2:
        count = size // ((V1_HEADER if magic else V0_HEADER) + OLD_LENGTHS)
    return size + MOST_RECORD_OVERHEAD * count


@device
def can_hold(size, count):
    """Tell whether a section of this size can hold this number of records of format 2."""
    return count <= size // MIN_RECORD_BYTES


@device
def rewrite_batch(source, position, end, count, base_timestamp, out, offset, relative, context):
    """Read the ``count`` records of a format 2 batch, and write each."""
    largest, first, to = np.int64(NO_TIMESTAMP), np.int64(0), np.int64(0)
    contiguous = np.int64(1)
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
        if status != OK or is_late(timestamp, context):
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
            source, key_at, key_size, value_at, value_size, headers_at, position - headers_at,
            timestamp, first, number, out, to, offset, relative, context,
        )  # fmt: skip
        largest = max(largest, timestamp)
        if offset_delta != number:
            contiguous = np.int64(0)
    if position != end:
        return _NO
    return np.int64(count), largest, first, contiguous, to


@device
def rewrite_messages(source, position, end, magic, wrapper_offset, out, offset, relative, context):
    """Read messages of format 0 or 1 in a row, and write each; ``wrapper_offset`` is -1 without a wrapper."""
    number, largest, first, to = np.int64(0), np.int64(NO_TIMESTAMP), np.int64(0), np.int64(0)
    contiguous, before = np.int64(1), np.int64(-1)
    while position < end:
        stop, timestamp, key_at, key_size, value_at, value_size = read_message(
            source, position, end, magic, 0xFF, context
        )
        if stop < 0:
            return _NO
        inner_offset = load_i64(source, position)
        if wrapper_offset >= 0 and inner_offset <= before:
            return _NO
        if number == 0:
            first = timestamp
        to = _write(
            source, key_at, key_size, value_at, value_size, np.int64(0), np.int64(0),
            timestamp, first, number, out, to, offset, relative, context,
        )  # fmt: skip
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
