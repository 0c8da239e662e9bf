"""Rebuild an ordinary record set that ``_kernels.validate_in_place`` has validated, in another format or for another
codec (numba).

Start reading at ``entry.py``.

1. ``rewrite_set`` answers ``WRITTEN`` if the set for the log is at OUT_AT. The kernel answers ``PLAIN`` if the
   uncompressed records are at OUT_AT: the caller compresses them, and ``wrap_compressed`` adds the header.
2. ``UNUSUAL`` is not a rejection: the general path (``validator.py``) decides. ``OUT_TOO_SMALL`` asks for more memory.
3. The kernels never write more than OUT_SIZE bytes. ``out`` has the size of the input plus
   ``MAX_RECORD_OVERHEAD_BYTES`` bytes per record.
4. Each record is read and written in one step. The functions return ``(count, largest timestamp, first timestamp,
   contiguous, size)``. A count of 0 means that the kernels do not support the records: a size that does not fit, a
   varint that is not in its shortest form, a timestamp out of range, a missing key that the log requires.
5. Headers of format 2 are copied with their count; formats 0 and 1 have none. A header key that is not ASCII is
   unsupported, because Kafka replaces bytes that are not UTF-8.
"""

import numpy as np

from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    LENGTH_FIELDS_BYTES,
    V0_HEADER,
    V1_HEADER,
    V2_ATTRIBUTES,
    V2_BASE_SEQUENCE,
    V2_BASE_TIMESTAMP,
    V2_COUNT,
    V2_DELTA,
    V2_HEADER,
    V2_PRODUCER_EPOCH,
    V2_PRODUCER_ID,
)
from kafkaframes.records._kernels_write import (
    MAX_RECORD_OVERHEAD_BYTES,
    finish_batch,
    finish_wrapper,
    record_size,
    store_i8,
    varint_size,
    wrapper_header_size,
    write_batch_header,
    write_message,
    write_record,
)
from kafkaframes.records.append._kernels_context import (
    APPEND_TIME,
    BATCH_LIMIT,
    BYTES,
    COUNT,
    FIRST_MS,
    LEADER_EPOCH,
    MAX_RECORD_MS,
    NEED_KEY,
    NO_TIMESTAMP,
    NOW_MS,
    OUT_AT,
    OUT_SIZE,
    OUT_TOO_SMALL,
    PLAIN,
    REASSIGN,
    RECORD_SET,
    RECORDS_AT,
    RECORDS_END,
    RECORDS_START,
    TO_MAGIC,
    UNUSUAL,
    WRITTEN,
    is_out_of_range,
    read_format_and_codecs,
    read_message,
)
from kafkaframes.records.layout import LOG_APPEND_TIME, MIN_RECORD_BYTES, TRANSACTIONAL, ZSTD
from kafkaframes.wire._jit import OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import (
    OK,
    address_of,
    copy_bytes,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    read_varint,
    read_varlong,
)

_NO_RECORDS = (np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@device
def _read_number(address, position, end):
    """Read a varint in its shortest form: (fits, value, position)."""
    status, value, after = read_varint(address, position, end)
    return status == OK and after - position == varint_size(value), value, after


@device
def _read_blob(address, position, end):
    """Skip a byte string and the length before it: (whether it fits, its start, its size, position after it)."""
    fits, size, position = _read_number(address, position, end)
    if not fits or size > end - position or size < -1:
        return False, 0, 0, position
    return True, position, size, position + max(size, 0)


@device
def _is_ascii(address, position, size):
    """Return whether no byte is above 127. Kafka reads and writes header keys as text, which preserves ASCII."""
    bits = np.int64(0)
    for at in range(position, position + size):
        bits |= load_u8(address, at)
    return bits < 0x80


@device
def _skip_headers(address, position, end):
    """Skip the headers: (fits, count, position). Keys that are not ASCII do not fit, since Kafka may change them."""
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
def _write_record(
    source, key_at, key_size, value_at, value_size, headers_at, headers_size,
    timestamp, first, number, out, to, offset, relative, context,
):  # fmt: skip
    """Write one record at ``to``; return the position after it.

    Args:
        source: address of the input.
        key_at, value_at, headers_at: positions in the input; the headers start with their count.
        key_size, value_size, headers_size: in bytes; -1 for a null key or value, 0 for no headers.
        timestamp, first: timestamps of this record and of the first one, in milliseconds.
        number: number of the record in its batch, from 0.
        out, to: address of the output, and position in it.
        offset: offset of the first record.
        relative: whether message offsets are relative to it (inner messages of a format 1 wrapper).
        context: the context array (``_kernels_context``).
    """
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
def max_output_bytes(size, count, magic):
    """Return the largest output size, in bytes, of ``size`` bytes of records. Formats 0 and 1 have no record count."""
    if magic < 2:
        count = size // ((V1_HEADER if magic else V0_HEADER) + LENGTH_FIELDS_BYTES)
    return size + MAX_RECORD_OVERHEAD_BYTES * count


@device
def can_hold_records(size, count):
    """Return whether ``size`` bytes can hold ``count`` records of format 2."""
    return count <= size // MIN_RECORD_BYTES


@device
def rewrite_batch(source, position, end, count, base_timestamp, out, offset, relative, context):
    """Rewrite the ``count`` records of a format 2 batch."""
    largest, first, to = np.int64(NO_TIMESTAMP), np.int64(0), np.int64(0)
    contiguous = np.int64(1)
    for number in range(count):
        status, length, position = read_varint(source, position, end)
        if status != OK or length <= 0 or length > end - position:
            return _NO_RECORDS
        stop = position + length
        status, delta, position = read_varlong(source, position + 1, stop)
        if status != OK:
            return _NO_RECORDS
        status, offset_delta, position = read_varint(source, position, stop)
        timestamp = base_timestamp + delta
        if status != OK or is_out_of_range(timestamp, context):
            return _NO_RECORDS
        fits, key_at, key_size, position = _read_blob(source, position, stop)
        if not fits or (context[NEED_KEY] and key_size < 0):
            return _NO_RECORDS
        fits, value_at, value_size, headers_at = _read_blob(source, position, stop)
        if not fits:
            return _NO_RECORDS
        fits, headers, position = _skip_headers(source, headers_at, stop)
        if not fits or position != stop or (headers and context[TO_MAGIC] < 2):
            return _NO_RECORDS
        if number == 0:
            first = timestamp
        to = _write_record(
            source, key_at, key_size, value_at, value_size, headers_at, position - headers_at,
            timestamp, first, number, out, to, offset, relative, context,
        )  # fmt: skip
        largest = max(largest, timestamp)
        if offset_delta != number:
            contiguous = np.int64(0)
    if position != end:
        return _NO_RECORDS
    return np.int64(count), largest, first, contiguous, to


@device
def rewrite_messages(source, position, end, magic, wrapper_offset, out, offset, relative, context):
    """Rewrite messages of format 0 or 1; ``wrapper_offset`` is -1 if they have no wrapper."""
    number, largest, first, to = np.int64(0), np.int64(NO_TIMESTAMP), np.int64(0), np.int64(0)
    contiguous, before = np.int64(1), np.int64(-1)
    while position < end:
        stop, timestamp, key_at, key_size, value_at, value_size = read_message(
            source, position, end, magic, 0xFF, context
        )
        if stop < 0:
            return _NO_RECORDS
        inner_offset = load_i64(source, position)
        if wrapper_offset >= 0 and inner_offset <= before:
            return _NO_RECORDS
        if number == 0:
            first = timestamp
        to = _write_record(
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
        return _NO_RECORDS
    if wrapper_offset != 0 and wrapper_offset != number - 1:
        contiguous = np.int64(0)
    return number, largest, first, contiguous, to


_UNUSUAL_RESULT = (np.int64(UNUSUAL), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@device
def _can_be_written(set_at, magic, codec, target, context):
    """Return whether the log's format and codec can represent the set."""
    if magic == context[TO_MAGIC] and target == codec and target == 0:
        return False
    producer, epoch, transactional = np.int64(-1), np.int64(-1), np.int64(0)
    if magic == 2:
        producer, epoch = load_i64(set_at, V2_PRODUCER_ID), load_i16(set_at, V2_PRODUCER_EPOCH)
        transactional = load_i16(set_at, V2_ATTRIBUTES) & TRANSACTIONAL
    if context[TO_MAGIC] < 2:
        return transactional == 0 and producer < 0 and target != ZSTD
    if producer < 0:
        return transactional == 0 and producer == -1
    return epoch != -1


@device
def _finish_batch(set_at, magic, codec, size, offset, context):
    """Write header and CRC of a format 2 batch, whose records (``size`` bytes) are already at OUT_AT."""
    out, attributes = context[OUT_AT], codec | (LOG_APPEND_TIME if context[APPEND_TIME] else 0)
    producer, epoch, sequence = np.int64(-1), np.int64(-1), np.int64(-1)
    if magic == 2:
        attributes |= load_i16(set_at, V2_ATTRIBUTES) & TRANSACTIONAL
        producer, epoch = load_i64(set_at, V2_PRODUCER_ID), load_i16(set_at, V2_PRODUCER_EPOCH)
        sequence = load_i32(set_at, V2_BASE_SEQUENCE)
    at = write_batch_header(
        out, 0, offset, context[LEADER_EPOCH], attributes, context[COUNT] - 1, context[FIRST_MS],
        context[MAX_RECORD_MS], producer, epoch, sequence, context[COUNT],
    )  # fmt: skip
    return finish_batch(out, 0, at + size)


@device
def _finish_wrapper(codec, size, offset, context):
    """Write header and CRC of a wrapper with the offset of its last record."""
    magic = context[TO_MAGIC]
    attributes = codec | (LOG_APPEND_TIME if magic and context[APPEND_TIME] else 0)
    last_offset = offset + context[COUNT] - 1
    return finish_wrapper(context[OUT_AT], 0, magic, attributes, last_offset, context[MAX_RECORD_MS], size)


@kernel(types.UniTuple(types.int64, 5)(RECORD_SET, types.int64, OUT_INT64S))
def rewrite_set(data, offset, context):
    """Rewrite the records of a validated set: (answer, records, largest timestamp, size, size of the old records)."""
    set_at, content, start, end = address_of(data), context[RECORDS_AT], context[RECORDS_START], context[RECORDS_END]
    magic, codec, target = read_format_and_codecs(set_at, context)
    if not _can_be_written(set_at, magic, codec, target, context):
        return _UNUSUAL_RESULT
    from_count = load_i32(set_at, V2_COUNT) if magic == 2 else np.int64(0)
    if magic == 2 and not can_hold_records(end - start, from_count):
        return _UNUSUAL_RESULT
    header = np.int64(V2_HEADER if context[TO_MAGIC] == 2 and target == 0 else 0)
    capacity = header + max_output_bytes(end - start, from_count, magic)
    if capacity > context[OUT_SIZE]:
        return np.int64(OUT_TOO_SMALL), capacity, np.int64(0), np.int64(0), np.int64(0)
    relative, out = context[TO_MAGIC] == 1 and target != 0, context[OUT_AT] + header
    if magic == 2:
        base_timestamp = load_i64(set_at, V2_BASE_TIMESTAMP)
        count, largest, first, contiguous, size = rewrite_batch(
            content, start, end, from_count, base_timestamp, out, offset, relative, context
        )
        # Compaction removed the batch's last records. In place, its base offset would be below the log end offset.
        if load_i32(set_at, V2_DELTA) + 1 != from_count:
            contiguous = np.int64(0)
    else:
        wrapper_offset = load_i64(set_at, 0) if codec else np.int64(-1)
        count, largest, first, contiguous, size = rewrite_messages(
            content, start, end, magic, wrapper_offset, out, offset, relative, context
        )
    if count == 0:
        return _UNUSUAL_RESULT
    if (
        magic == context[TO_MAGIC]
        and codec == target
        and magic
        and (contiguous or (magic == 2 and not context[REASSIGN]))
    ):
        return _UNUSUAL_RESULT
    context[FIRST_MS], context[COUNT] = first, count
    context[MAX_RECORD_MS] = context[NOW_MS] if context[APPEND_TIME] else largest
    max_ms = context[NOW_MS] if context[APPEND_TIME] else (largest if context[TO_MAGIC] else np.int64(NO_TIMESTAMP))
    if target != 0:
        return np.int64(PLAIN), count, max_ms, size, end - start
    if header:
        _finish_batch(set_at, magic, target, size, offset, context)
    return (
        np.int64(WRITTEN if header + size <= context[BATCH_LIMIT] else UNUSUAL),
        count,
        max_ms,
        header + size,
        end - start,
    )


@kernel(types.int64(RECORD_SET, BYTES, types.int64, types.int64, OUT_INT64S))
def wrap_compressed(data, payload, codec, offset, context):
    """Write a batch header before compressed records; return the batch size, or ``UNUSUAL`` if it exceeds the limit.

    ``data`` is the record set for which ``rewrite_set`` just answered ``PLAIN``.
    """
    set_at, size = address_of(data), np.int64(len(payload))
    magic = context[TO_MAGIC]
    header = np.int64(V2_HEADER if magic == 2 else wrapper_header_size(magic))
    if header + size > context[BATCH_LIMIT]:
        return np.int64(UNUSUAL)
    if header + size > context[OUT_SIZE]:
        return np.int64(OUT_TOO_SMALL)
    copy_bytes(context[OUT_AT], header, address_of(payload), 0, size)
    if magic == 2:
        return _finish_batch(set_at, load_u8(set_at, AT_MAGIC), codec, size, offset, context)
    return _finish_wrapper(codec, size, offset, context)
