"""Check the records of one ordinary set that is to be taken in place (numba). Start reading at ``entry.py``, not here.

A count above zero says that nothing at all is odd: every record is whole, offsets are 0, 1, 2, ..., keys are there if
they must be, timestamps lie in range. The general path (``validator.py``) is the twin of these loops.
"""

import numpy as np

from kafkaframes.records.append._kernels_context import NEED_KEY, NO_TIMESTAMP
from kafkaframes.records.append._kernels_ordinary import is_late, read_message
from kafkaframes.records.layout import CODEC_MASK
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import OK, load_i64, read_varint, read_varlong

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
    # A record begins here as in ``_kernels_records.rewrite_batch``. One function for both made this loop 10 % slower,
    # and 40 % where it was inlined: 89 us for 5,000 records became 98 and 122 (2026-11-22, AMD EPYC, CPU time).
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
    need_key = context[NEED_KEY]
    for number in range(count):
        fits, delta, offset_delta, key_length, position = _skip_record(address, position, end)
        if not fits or offset_delta != number or (need_key and key_length < 0):
            return _NO
        timestamp = base_timestamp + delta
        if is_late(timestamp, context):
            return _NO
        largest = max(largest, timestamp)
    if position != end:
        return _NO
    return np.int64(count), largest


@device
def check_messages(address, position, end, magic, wrapper_offset, context):
    """Check messages of format 0 or 1, their CRCs among them: (count, largest timestamp).

    ``wrapper_offset`` is that of the wrapper which they were in, and their own must be 0, 1, 2, ...; it is -1 for
    messages in a row, of which none is compressed, and whose offsets do not matter.
    """
    number, largest = np.int64(0), np.int64(NO_TIMESTAMP)
    inside = wrapper_offset >= 0
    refused_attributes = CODEC_MASK if inside else 0xFF
    while position < end:
        stop, timestamp, _, _, _, _ = read_message(address, position, end, magic, refused_attributes, context)
        if stop < 0 or (inside and load_i64(address, position) != number):
            return _NO
        largest = max(largest, timestamp)
        position = stop
        number += 1
    if wrapper_offset > 0 and wrapper_offset != number - 1:
        return _NO
    return number, largest
