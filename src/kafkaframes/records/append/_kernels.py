"""Open one ordinary set, check every record, and give it its offsets in place (numba).

Start reading at ``entry.py``, not here.

1. ``take`` gets what was sent, and a context (``KernelContext``): addresses of functions, memory, settings as numbers.
   If it answers ``IN_PLACE``, all is usual, and what was sent has its offsets: it goes into the log as it is; if
   ``ANEW``, header, CRC and stream are in order, and ``_kernels_rebuild.py`` goes on with the content. With every
   other answer nothing of what was sent has changed.
2. ``UNUSUAL`` is no verdict: the general path (``validator.py``, which is the twin of these kernels) decides what Kafka
   would say. ``CAREFUL`` asks for the content, decompressed by ``codecs.decompress``; ``TOO_SMALL`` asks for more
   memory.
3. Nothing is written beyond CONTENT_SIZE bytes, nothing read or written beyond what was sent.
4. Of checked records, a count above zero says that every record is whole, offsets are 0, 1, 2, ..., keys are there if
   they must be, timestamps lie in range.
"""

import numpy as np

from kafkaframes.records._kernels_codecs import decompress_stream, usual_capacity
from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    AT_SIZE,
    OLD_ATTRIBUTES,
    OLD_CRC,
    OLD_CRC_FROM,
    OLD_LENGTHS,
    OLD_TIMESTAMP,
    OVERHEAD,
    V0_HEADER,
    V1_HEADER,
    V2_ATTRIBUTES,
    V2_BASE_SEQUENCE,
    V2_BASE_TIMESTAMP,
    V2_COUNT,
    V2_CRC,
    V2_CRC_FROM,
    V2_DELTA,
    V2_EPOCH,
    V2_HEADER,
    V2_MAX_TIMESTAMP,
    V2_PRODUCER_ID,
)
from kafkaframes.records._kernels_write import store_i8, store_i16, store_i32, store_i64
from kafkaframes.records.append._kernels_context import (
    ANEW,
    APPEND_TIME,
    CAREFUL,
    CONTENT_AT,
    CONTENT_KNOWN,
    CONTENT_SIZE,
    HELD_AT,
    HELD_END,
    HELD_START,
    IN_PLACE,
    LEADER_EPOCH,
    MOST_BYTES,
    MOST_MS,
    NEED_KEY,
    NO_TIMESTAMP,
    NOW_MS,
    REASSIGN,
    SENT,
    TO_MAGIC,
    TOO_SMALL,
    TRUSTED,
    UNUSUAL,
    form_of,
    is_late,
    read_message,
)
from kafkaframes.records.layout import CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, ZSTD
from kafkaframes.wire._jit import OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import (
    OK,
    address_of,
    crc32_of,
    crc32c_of,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    read_varint,
    read_varlong,
)

_NO_RECORDS = (np.int64(0), np.int64(0))


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
    # A record begins here as in ``_kernels_rebuild.rewrite_batch``. One function for both made this loop 10 % slower,
    # and 40 % where it was inline_device: 89 us for 5,000 records became 98 and 122 (2026-11-22, AMD EPYC, CPU time).
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
            return _NO_RECORDS
        timestamp = base_timestamp + delta
        if is_late(timestamp, context):
            return _NO_RECORDS
        largest = max(largest, timestamp)
    if position != end:
        return _NO_RECORDS
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
            return _NO_RECORDS
        largest = max(largest, timestamp)
        position = stop
        number += 1
    if wrapper_offset > 0 and wrapper_offset != number - 1:
        return _NO_RECORDS
    return number, largest


LARGEST_OPENED = 64 << 20  # what is larger is decompressed by the careful path

_RARE_FLAGS = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_KEPT_FLAGS = CODEC_MASK | TRANSACTIONAL
_NO = (np.int64(UNUSUAL), np.int64(0), np.int64(0), np.int64(0))


# ------------------------------------------------------------------------------------------------- the header


@device
def _is_usual_batch(sent, size, context):
    """Tell whether the header of a format 2 batch is usual, and its CRC right."""
    attributes, count = load_i16(sent, V2_ATTRIBUTES), load_i32(sent, V2_COUNT)
    last_delta = load_i32(sent, V2_DELTA)
    if attributes & _RARE_FLAGS or attributes & CODEC_MASK > ZSTD or load_i64(sent, 0) < 0 or count <= 0:
        return False
    may_have_holes = (context[TRUSTED] or context[REASSIGN]) and last_delta >= 0
    if last_delta + 1 != count and not may_have_holes:
        return False
    if load_i64(sent, V2_PRODUCER_ID) >= 0 and load_i32(sent, V2_BASE_SEQUENCE) < 0:
        return False
    base_timestamp = load_i64(sent, V2_BASE_TIMESTAMP)
    if base_timestamp < NO_TIMESTAMP or base_timestamp > MOST_MS:
        return False
    return crc32c_of(sent, V2_CRC_FROM, size) == load_u32(sent, V2_CRC)


@device
def _is_usual_wrapper(sent, size, header):
    """Tell whether a compressed message of format 0 or 1 is a usual wrapper."""
    attributes = load_u8(sent, OLD_ATTRIBUTES)
    if attributes & CODEC_MASK >= ZSTD or attributes & LOG_APPEND_TIME or load_i64(sent, 0) < 0:
        return False
    if load_i32(sent, header) != -1 or load_i32(sent, header + 4) != size - header - 8:
        return False
    return crc32_of(sent, OLD_CRC_FROM, size) == load_u32(sent, OLD_CRC)


@device
def _header_size(sent, size, context):
    """Return what precedes the records of one batch or wrapper, 0 for messages in a row, ``CAREFUL`` for neither."""
    if size < V0_HEADER + OLD_LENGTHS or size > context[MOST_BYTES]:
        return np.int64(CAREFUL)
    magic = load_u8(sent, AT_MAGIC)
    alone = load_i32(sent, AT_SIZE) + OVERHEAD == size
    if magic == 2:
        return np.int64(V2_HEADER if alone and size >= V2_HEADER and _is_usual_batch(sent, size, context) else CAREFUL)
    header = V1_HEADER if magic else V0_HEADER
    if magic > 2 or size < header + OLD_LENGTHS:
        return np.int64(CAREFUL)
    if load_u8(sent, OLD_ATTRIBUTES) & CODEC_MASK == 0:
        return np.int64(0)
    return np.int64(header + OLD_LENGTHS if alone and _is_usual_wrapper(sent, size, header) else CAREFUL)


@device
def _open(sent, start, end, codec, magic, context):
    """Return where the records are: (status, address, start, end)."""
    if codec == 0:
        return np.int64(1), sent, np.int64(start), np.int64(end)
    content = context[CONTENT_AT]
    if context[CONTENT_KNOWN] >= 0:
        return np.int64(1), content, np.int64(0), context[CONTENT_KNOWN]
    capacity = usual_capacity(end - start, LARGEST_OPENED)
    if capacity > context[CONTENT_SIZE]:
        return np.int64(TOO_SMALL), content, np.int64(0), np.int64(capacity)
    size = decompress_stream(codec, magic, sent, start, end, content, capacity, context)
    return np.int64(1 if size >= 0 else CAREFUL), content, np.int64(0), np.int64(size)


# --------------------------------------------------------------------------------------------------- in place


@device
def _patch_batch(sent, size, offset, largest, context):
    """Write the offset and the leader epoch; the timestamp, its type and the CRC only if they change."""
    store_i64(sent, 0, offset)
    store_i32(sent, V2_EPOCH, context[LEADER_EPOCH])
    if context[APPEND_TIME] or largest != load_i64(sent, V2_MAX_TIMESTAMP):
        kind = LOG_APPEND_TIME if context[APPEND_TIME] else 0
        store_i16(sent, V2_ATTRIBUTES, load_i16(sent, V2_ATTRIBUTES) & _KEPT_FLAGS | kind)
        store_i64(sent, V2_MAX_TIMESTAMP, largest)
        store_i32(sent, V2_CRC, crc32c_of(sent, V2_CRC_FROM, size))


@device
def _patch_wrapper(sent, size, offset, largest, context):
    """Write the offset, which is the last record's; the timestamp, its type and the CRC only if they change."""
    store_i64(sent, 0, offset)
    if context[APPEND_TIME] or largest != load_i64(sent, OLD_TIMESTAMP):
        kind = LOG_APPEND_TIME if context[APPEND_TIME] else 0
        store_i8(sent, OLD_ATTRIBUTES, load_u8(sent, OLD_ATTRIBUTES) & CODEC_MASK | kind)
        store_i64(sent, OLD_TIMESTAMP, largest)
        store_i32(sent, OLD_CRC, crc32_of(sent, OLD_CRC_FROM, size))


@device
def _patch_row(sent, size, offset, magic, context):
    """Write each message's offset; where the log gives the time, that, its type and the CRC."""
    position = np.int64(0)
    while position < size:
        stop = position + OVERHEAD + load_i32(sent, position + AT_SIZE)
        store_i64(sent, position, offset)
        if magic and context[APPEND_TIME]:
            store_i8(sent, position + OLD_ATTRIBUTES, LOG_APPEND_TIME)
            store_i64(sent, position + OLD_TIMESTAMP, context[NOW_MS])
            store_i32(sent, position + OLD_CRC, crc32_of(sent, position + OLD_CRC_FROM, stop))
        position = stop
        offset += 1


@device
def _take_in_place(sent, size, magic, codec, content, start, end, offset, context):
    """Check a set that has the log's format and codec, and give it offsets: (records, largest timestamp)."""
    if magic == 2:
        count = load_i32(sent, V2_COUNT)
        if load_i32(sent, V2_DELTA) + 1 != count or (load_i64(sent, 0) != 0 and not context[REASSIGN]):
            return np.int64(0), np.int64(0)
        count, largest = check_batch(content, start, end, count, load_i64(sent, V2_BASE_TIMESTAMP), context)
    else:
        wrapper_offset = load_i64(sent, 0) if codec else np.int64(-1)
        count, largest = check_messages(content, start, end, magic, wrapper_offset, context)
    if count == 0:
        return count, largest
    if magic and context[APPEND_TIME]:
        largest = context[NOW_MS]
    if magic == 2:
        _patch_batch(sent, size, offset, largest, context)
    elif codec == 0:
        _patch_row(sent, size, offset, magic, context)
    else:
        _patch_wrapper(sent, size, offset + count - 1, largest, context)
    return count, largest


@kernel(types.UniTuple(types.int64, 4)(SENT, types.int64, OUT_INT64S))
def take(data, offset, context):
    """Take a set in place: (answer, records, largest timestamp, size); or what is asked for: (answer, bytes, 0, 0).

    ``ANEW`` says that it is opened, and that it cannot stay as it is.
    """
    sent, size = address_of(data), np.int64(len(data))
    header = _header_size(sent, size, context)
    if header < 0 or offset < 0 or offset > MOST_MS:
        return _NO
    magic, codec, target = form_of(sent, context)
    status, content, start, end = _open(sent, header, size, codec, magic, context)
    if status < 0:
        return status, end, np.int64(0), np.int64(0)
    if magic == context[TO_MAGIC] and target == codec and (magic != 0 or codec == 0):
        count, largest = _take_in_place(sent, size, magic, codec, content, start, end, offset, context)
        if count:
            return np.int64(IN_PLACE), count, largest, size
    context[HELD_AT], context[HELD_START], context[HELD_END] = content, start, end
    return np.int64(ANEW), np.int64(0), np.int64(0), np.int64(0)
