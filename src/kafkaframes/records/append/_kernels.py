"""Validate one ordinary record set and assign its offsets in place (numba).

Start reading at ``entry.py``.

1. ``validate_in_place`` gets a record set and a context (``KernelContext``): addresses of functions, memory, and
   settings as numbers. If the kernel answers ``IN_PLACE``, the set is valid and has its offsets. If the kernel answers
   ``NEEDS_REBUILD``, header, CRC and stream are valid, and ``_kernels_rebuild.py`` rebuilds the set. With every other
   answer the set is unchanged.
2. ``UNUSUAL`` is not a rejection: the general path (``validator.py``) decides as Kafka would. ``NEEDS_CONTENT`` asks
   for the content, decompressed by ``codecs.decompress``. ``TOO_SMALL`` asks for more memory.
3. The kernels never write more than CONTENT_SIZE bytes of content, and never access bytes outside the record set.
4. The check functions return a record count. If this count is above zero, every record is whole, offsets are 0, 1, 2,
   ..., keys are present if required, and timestamps are in range.
"""

import numpy as np

from kafkaframes.records._kernels_codecs import decompress_stream, max_fast_path_content_bytes
from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    AT_SIZE,
    LENGTH_FIELDS_BYTES,
    OLD_ATTRIBUTES,
    OLD_CRC,
    OLD_CRC_FROM,
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
    APPEND_TIME,
    BATCH_LIMIT,
    CONTENT_AT,
    CONTENT_KNOWN,
    CONTENT_SIZE,
    IN_PLACE,
    LEADER_EPOCH,
    MAX_SAFE_MS,
    NEED_KEY,
    NEEDS_CONTENT,
    NEEDS_REBUILD,
    NO_TIMESTAMP,
    NOW_MS,
    REASSIGN,
    RECORD_SET,
    RECORDS_AT,
    RECORDS_END,
    RECORDS_START,
    TO_MAGIC,
    TOO_SMALL,
    TRUSTED,
    UNUSUAL,
    is_out_of_range,
    read_format_and_codecs,
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
    """Skip a byte string and the length before it: (whether it fits, its length, position after it)."""
    status, length, position = read_varint(address, position, end)
    if status != OK or length > end - position:
        return 0, 0, position
    return 1, length, position + max(length, 0)


@device
def _skip_record(address, position, end):
    """Read a record's deltas and skip the rest: (fits, timestamp delta, offset delta, key length, position)."""
    # The start is the same as in ``_kernels_rebuild.rewrite_batch``. A shared function made this loop 10 % slower, and
    # 40 % as inline_device: 89 us for 5,000 records became 98 and 122 (2026-11-22, AMD EPYC, CPU time).
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
    """Validate the ``count`` records of a format 2 batch in ``start`` to ``end``: (count, largest timestamp)."""
    position, largest = start, np.int64(NO_TIMESTAMP)
    need_key = context[NEED_KEY]
    for number in range(count):
        fits, delta, offset_delta, key_length, position = _skip_record(address, position, end)
        if not fits or offset_delta != number or (need_key and key_length < 0):
            return _NO_RECORDS
        timestamp = base_timestamp + delta
        if is_out_of_range(timestamp, context):
            return _NO_RECORDS
        largest = max(largest, timestamp)
    if position != end:
        return _NO_RECORDS
    return np.int64(count), largest


@device
def check_messages(address, position, end, magic, wrapper_offset, context):
    """Validate messages of format 0 or 1, including their CRCs: (count, largest timestamp).

    ``wrapper_offset`` is the offset of the messages' wrapper. The inner offsets must then be 0, 1, 2, ....
    ``wrapper_offset`` is -1 for messages without a wrapper. Such messages must be uncompressed, and their offsets are
    not checked.
    """
    number, largest = np.int64(0), np.int64(NO_TIMESTAMP)
    inside = wrapper_offset >= 0
    rejected_attributes = CODEC_MASK if inside else 0xFF
    while position < end:
        stop, timestamp, _, _, _, _ = read_message(address, position, end, magic, rejected_attributes, context)
        if stop < 0 or (inside and load_i64(address, position) != number):
            return _NO_RECORDS
        largest = max(largest, timestamp)
        position = stop
        number += 1
    if wrapper_offset > 0 and wrapper_offset != number - 1:
        return _NO_RECORDS
    return number, largest


MAX_CONTENT_BYTES = 64 << 20  # larger content is decompressed outside the kernel

_UNSUPPORTED_FLAGS = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_PRESERVED_FLAGS = CODEC_MASK | TRANSACTIONAL
_UNUSUAL_RESULT = (np.int64(UNUSUAL), np.int64(0), np.int64(0), np.int64(0))


# ------------------------------------------------------------------------------------------------- the header


@device
def _supports_batch_header(set_at, size, context):
    """Return whether the kernels support the header of a format 2 batch and its CRC is correct."""
    attributes, count = load_i16(set_at, V2_ATTRIBUTES), load_i32(set_at, V2_COUNT)
    last_delta = load_i32(set_at, V2_DELTA)
    if attributes & _UNSUPPORTED_FLAGS or attributes & CODEC_MASK > ZSTD or load_i64(set_at, 0) < 0 or count <= 0:
        return False
    may_have_holes = (context[TRUSTED] or context[REASSIGN]) and last_delta >= 0
    if last_delta + 1 != count and not may_have_holes:
        return False
    if load_i64(set_at, V2_PRODUCER_ID) >= 0 and load_i32(set_at, V2_BASE_SEQUENCE) < 0:
        return False
    base_timestamp = load_i64(set_at, V2_BASE_TIMESTAMP)
    if base_timestamp < NO_TIMESTAMP or base_timestamp > MAX_SAFE_MS:
        return False
    return crc32c_of(set_at, V2_CRC_FROM, size) == load_u32(set_at, V2_CRC)


@device
def _supports_wrapper(set_at, size, header):
    """Return whether the kernels support a compressed message of format 0 or 1 (a wrapper) and its CRC is correct."""
    attributes = load_u8(set_at, OLD_ATTRIBUTES)
    if attributes & CODEC_MASK >= ZSTD or attributes & LOG_APPEND_TIME or load_i64(set_at, 0) < 0:
        return False
    if load_i32(set_at, header) != -1 or load_i32(set_at, header + 4) != size - header - 8:
        return False
    return crc32_of(set_at, OLD_CRC_FROM, size) == load_u32(set_at, OLD_CRC)


@device
def _header_size(set_at, size, context):
    """Return the header size of a single batch or wrapper, 0 for uncompressed messages, ``NEEDS_CONTENT`` otherwise."""
    if size < V0_HEADER + LENGTH_FIELDS_BYTES or size > context[BATCH_LIMIT]:
        return np.int64(NEEDS_CONTENT)
    magic = load_u8(set_at, AT_MAGIC)
    alone = load_i32(set_at, AT_SIZE) + OVERHEAD == size
    if magic == 2:
        return np.int64(
            V2_HEADER
            if alone and size >= V2_HEADER and _supports_batch_header(set_at, size, context)
            else NEEDS_CONTENT
        )
    header = V1_HEADER if magic else V0_HEADER
    if magic > 2 or size < header + LENGTH_FIELDS_BYTES:
        return np.int64(NEEDS_CONTENT)
    if load_u8(set_at, OLD_ATTRIBUTES) & CODEC_MASK == 0:
        return np.int64(0)
    return np.int64(
        header + LENGTH_FIELDS_BYTES if alone and _supports_wrapper(set_at, size, header) else NEEDS_CONTENT
    )


@device
def _open_content(set_at, start, end, codec, magic, context):
    """Return the position of the decompressed records: (status, address, start, end)."""
    if codec == 0:
        return np.int64(1), set_at, np.int64(start), np.int64(end)
    content = context[CONTENT_AT]
    if context[CONTENT_KNOWN] >= 0:
        return np.int64(1), content, np.int64(0), context[CONTENT_KNOWN]
    capacity = max_fast_path_content_bytes(end - start, MAX_CONTENT_BYTES)
    if capacity > context[CONTENT_SIZE]:
        return np.int64(TOO_SMALL), content, np.int64(0), np.int64(capacity)
    size = decompress_stream(codec, magic, set_at, start, end, content, capacity, context)
    return np.int64(1 if size >= 0 else NEEDS_CONTENT), content, np.int64(0), np.int64(size)


# --------------------------------------------------------------------------------------------------- in place


@device
def _patch_batch(set_at, size, offset, largest, context):
    """Write a batch's offset and leader epoch, and its timestamp, timestamp type and CRC if they change."""
    store_i64(set_at, 0, offset)
    store_i32(set_at, V2_EPOCH, context[LEADER_EPOCH])
    if context[APPEND_TIME] or largest != load_i64(set_at, V2_MAX_TIMESTAMP):
        kind = LOG_APPEND_TIME if context[APPEND_TIME] else 0
        store_i16(set_at, V2_ATTRIBUTES, load_i16(set_at, V2_ATTRIBUTES) & _PRESERVED_FLAGS | kind)
        store_i64(set_at, V2_MAX_TIMESTAMP, largest)
        store_i32(set_at, V2_CRC, crc32c_of(set_at, V2_CRC_FROM, size))


@device
def _patch_wrapper(set_at, size, offset, largest, context):
    """Write the offset of a wrapper's last record, and its timestamp, timestamp type and CRC if they change."""
    store_i64(set_at, 0, offset)
    if context[APPEND_TIME] or largest != load_i64(set_at, OLD_TIMESTAMP):
        kind = LOG_APPEND_TIME if context[APPEND_TIME] else 0
        store_i8(set_at, OLD_ATTRIBUTES, load_u8(set_at, OLD_ATTRIBUTES) & CODEC_MASK | kind)
        store_i64(set_at, OLD_TIMESTAMP, largest)
        store_i32(set_at, OLD_CRC, crc32_of(set_at, OLD_CRC_FROM, size))


@device
def _patch_messages(set_at, size, offset, magic, context):
    """Write each message's offset. With LogAppendTime, write its timestamp, timestamp type and CRC as well."""
    position = np.int64(0)
    while position < size:
        stop = position + OVERHEAD + load_i32(set_at, position + AT_SIZE)
        store_i64(set_at, position, offset)
        if magic and context[APPEND_TIME]:
            store_i8(set_at, position + OLD_ATTRIBUTES, LOG_APPEND_TIME)
            store_i64(set_at, position + OLD_TIMESTAMP, context[NOW_MS])
            store_i32(set_at, position + OLD_CRC, crc32_of(set_at, position + OLD_CRC_FROM, stop))
        position = stop
        offset += 1


@device
def _validate_set_in_place(set_at, size, magic, codec, content, start, end, offset, context):
    """Validate a set that has the log's format and codec, and assign its offsets: (records, largest timestamp)."""
    if magic == 2:
        count = load_i32(set_at, V2_COUNT)
        if load_i32(set_at, V2_DELTA) + 1 != count or (load_i64(set_at, 0) != 0 and not context[REASSIGN]):
            return np.int64(0), np.int64(0)
        count, largest = check_batch(content, start, end, count, load_i64(set_at, V2_BASE_TIMESTAMP), context)
    else:
        wrapper_offset = load_i64(set_at, 0) if codec else np.int64(-1)
        count, largest = check_messages(content, start, end, magic, wrapper_offset, context)
    if count == 0:
        return count, largest
    if magic and context[APPEND_TIME]:
        largest = context[NOW_MS]
    if magic == 2:
        _patch_batch(set_at, size, offset, largest, context)
    elif codec == 0:
        _patch_messages(set_at, size, offset, magic, context)
    else:
        _patch_wrapper(set_at, size, offset + count - 1, largest, context)
    return count, largest


@kernel(types.UniTuple(types.int64, 4)(RECORD_SET, types.int64, OUT_INT64S))
def validate_in_place(data, offset, context):
    """Validate a set and assign its offsets in place: (answer, records, largest timestamp, size).

    ``NEEDS_REBUILD``: the set is decompressed but must be rebuilt. ``TOO_SMALL``: (answer, required bytes, 0, 0).
    """
    set_at, size = address_of(data), np.int64(len(data))
    header = _header_size(set_at, size, context)
    if header < 0 or offset < 0 or offset > MAX_SAFE_MS:
        return _UNUSUAL_RESULT
    magic, codec, target = read_format_and_codecs(set_at, context)
    status, content, start, end = _open_content(set_at, header, size, codec, magic, context)
    if status < 0:
        return status, end, np.int64(0), np.int64(0)
    if magic == context[TO_MAGIC] and target == codec and (magic != 0 or codec == 0):
        count, largest = _validate_set_in_place(set_at, size, magic, codec, content, start, end, offset, context)
        if count:
            return np.int64(IN_PLACE), count, largest, size
    context[RECORDS_AT], context[RECORDS_START], context[RECORDS_END] = content, start, end
    return np.int64(NEEDS_REBUILD), np.int64(0), np.int64(0), np.int64(0)
