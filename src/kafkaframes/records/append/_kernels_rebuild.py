"""Write one ordinary set, which ``_kernels.take`` has opened, in another format or for another codec (numba).

Start reading at ``entry.py``, not here.

1. ``rewrite`` answers ``WRITTEN``: what goes into the log is at OUT_AT; or ``PLAIN``: the records are there and wait
   for their compressor, and for ``wrap`` to put them behind a header. Both say that all is usual.
2. ``UNUSUAL`` is no verdict: the general path (``validator.py``) decides. ``NO_OUT`` asks for more memory.
3. Nothing is written beyond OUT_SIZE bytes. What is written starts at ``out``, which holds as many bytes as are
   read and ``MOST_RECORD_OVERHEAD`` more a record.
4. Each record is read and written at once: ``(count, largest timestamp, first timestamp, contiguous, size)``. A count
   of 0 says that something is unusual: a size that does not fit, a varint that is longer than it need be, a timestamp
   out of range, a key that is missing where one is needed.
5. Headers are copied as they stand in format 2, with their count; formats 0 and 1 have none. A name that is not ASCII
   is unusual: where it is not UTF-8, Kafka writes other bytes.
"""

import numpy as np

from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    OLD_LENGTHS,
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
    MOST_RECORD_OVERHEAD,
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
    BYTES,
    COUNT,
    FIRST_MS,
    HELD_AT,
    HELD_END,
    HELD_START,
    LARGEST_MS,
    LEADER_EPOCH,
    MOST_BYTES,
    NEED_KEY,
    NO_OUT,
    NO_TIMESTAMP,
    NOW_MS,
    OUT_AT,
    OUT_SIZE,
    PLAIN,
    REASSIGN,
    SENT,
    TO_MAGIC,
    UNUSUAL,
    WRITTEN,
    form_of,
    is_late,
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
    """Write one record at ``to``; return where the next goes.

    Args:
        source: address of what is read.
        key_at, value_at, headers_at: bytes from it; headers with their count before them.
        key_size, value_size, headers_size: in bytes; -1 for a null key or value, 0 for no headers.
        timestamp, first: of this record and of the first one, in ms.
        number: of the record, from 0.
        out, to: address of what is written, and bytes from it.
        offset, relative: of the first record; whether messages count from it (the inner ones of a wrapper, magic 1).
        context: settings as numbers (``_kernels_context``).
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
            return _NO_RECORDS
        stop = position + length
        status, delta, position = read_varlong(source, position + 1, stop)
        if status != OK:
            return _NO_RECORDS
        status, offset_delta, position = read_varint(source, position, stop)
        timestamp = base_timestamp + delta
        if status != OK or is_late(timestamp, context):
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
        to = _write(
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
    """Read messages of format 0 or 1 in a row, and write each; ``wrapper_offset`` is -1 without a wrapper."""
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
        return _NO_RECORDS
    if wrapper_offset != 0 and wrapper_offset != number - 1:
        contiguous = np.int64(0)
    return number, largest, first, contiguous, to


_NO = (np.int64(UNUSUAL), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@device
def _can_be_written(sent, magic, codec, target, context):
    """Tell whether nothing stands against another format or codec."""
    if magic == context[TO_MAGIC] and target == codec and target == 0:
        return False
    producer, epoch, transactional = np.int64(-1), np.int64(-1), np.int64(0)
    if magic == 2:
        producer, epoch = load_i64(sent, V2_PRODUCER_ID), load_i16(sent, V2_PRODUCER_EPOCH)
        transactional = load_i16(sent, V2_ATTRIBUTES) & TRANSACTIONAL
    if context[TO_MAGIC] < 2:
        return transactional == 0 and producer < 0 and target != ZSTD
    if producer < 0:
        return transactional == 0 and producer == -1
    return epoch != -1


@device
def _finish_batch(sent, magic, codec, size, offset, context):
    """Write header and CRC of a format 2 batch whose records, ``size`` bytes, stand behind it at OUT_AT."""
    out, attributes = context[OUT_AT], codec | (LOG_APPEND_TIME if context[APPEND_TIME] else 0)
    producer, epoch, sequence = np.int64(-1), np.int64(-1), np.int64(-1)
    if magic == 2:
        attributes |= load_i16(sent, V2_ATTRIBUTES) & TRANSACTIONAL
        producer, epoch = load_i64(sent, V2_PRODUCER_ID), load_i16(sent, V2_PRODUCER_EPOCH)
        sequence = load_i32(sent, V2_BASE_SEQUENCE)
    at = write_batch_header(
        out, 0, offset, context[LEADER_EPOCH], attributes, context[COUNT] - 1, context[FIRST_MS], context[LARGEST_MS],
        producer, epoch, sequence, context[COUNT],
    )  # fmt: skip
    return finish_batch(out, 0, at + size)


@device
def _finish_wrapper(codec, size, offset, context):
    """Write header and CRC of a wrapper; its offset is that of the last record."""
    magic = context[TO_MAGIC]
    attributes = codec | (LOG_APPEND_TIME if magic and context[APPEND_TIME] else 0)
    last_offset = offset + context[COUNT] - 1
    return finish_wrapper(context[OUT_AT], 0, magic, attributes, last_offset, context[LARGEST_MS], size)


@kernel(types.UniTuple(types.int64, 5)(SENT, types.int64, OUT_INT64S))
def rewrite(data, offset, context):
    """Write the records of an opened set: (answer, records, largest timestamp, size, bytes that held them)."""
    sent, content, start, end = address_of(data), context[HELD_AT], context[HELD_START], context[HELD_END]
    magic, codec, target = form_of(sent, context)
    if not _can_be_written(sent, magic, codec, target, context):
        return _NO
    from_count = load_i32(sent, V2_COUNT) if magic == 2 else np.int64(0)
    if magic == 2 and not can_hold(end - start, from_count):
        return _NO
    header = np.int64(V2_HEADER if context[TO_MAGIC] == 2 and target == 0 else 0)
    capacity = header + capacity_for(end - start, from_count, magic)
    if capacity > context[OUT_SIZE]:
        return np.int64(NO_OUT), capacity, np.int64(0), np.int64(0), np.int64(0)
    relative, out = context[TO_MAGIC] == 1 and target != 0, context[OUT_AT] + header
    if magic == 2:
        base_timestamp = load_i64(sent, V2_BASE_TIMESTAMP)
        count, largest, first, contiguous, size = rewrite_batch(
            content, start, end, from_count, base_timestamp, out, offset, relative, context
        )
        if (
            load_i32(sent, V2_DELTA) + 1 != from_count
        ):  # a hole at the end: in place, it would begin below the log's end
            contiguous = np.int64(0)
    else:
        wrapper_offset = load_i64(sent, 0) if codec else np.int64(-1)
        count, largest, first, contiguous, size = rewrite_messages(
            content, start, end, magic, wrapper_offset, out, offset, relative, context
        )
    if count == 0:
        return _NO
    if (
        magic == context[TO_MAGIC]
        and codec == target
        and magic
        and (contiguous or (magic == 2 and not context[REASSIGN]))
    ):
        return _NO
    context[FIRST_MS], context[COUNT] = first, count
    context[LARGEST_MS] = context[NOW_MS] if context[APPEND_TIME] else largest
    reported = context[NOW_MS] if context[APPEND_TIME] else (largest if context[TO_MAGIC] else np.int64(NO_TIMESTAMP))
    if target != 0:
        return np.int64(PLAIN), count, reported, size, end - start
    if header:
        _finish_batch(sent, magic, target, size, offset, context)
    return (
        np.int64(WRITTEN if header + size <= context[MOST_BYTES] else UNUSUAL),
        count,
        reported,
        header + size,
        end - start,
    )


@kernel(types.int64(SENT, BYTES, types.int64, types.int64, OUT_INT64S))
def wrap(data, packed, codec, offset, context):
    """Put the compressed records behind a header; return the size of both, or ``UNUSUAL`` where a limit is exceeded.

    ``data`` is what was sent, to which ``rewrite`` has just answered ``PLAIN``.
    """
    sent, size = address_of(data), np.int64(len(packed))
    magic = context[TO_MAGIC]
    header = np.int64(V2_HEADER if magic == 2 else wrapper_header_size(magic))
    if header + size > context[MOST_BYTES]:
        return np.int64(UNUSUAL)
    if header + size > context[OUT_SIZE]:
        return np.int64(NO_OUT)
    copy_bytes(context[OUT_AT], header, address_of(packed), 0, size)
    if magic == 2:
        return _finish_batch(sent, load_u8(sent, AT_MAGIC), codec, size, offset, context)
    return _finish_wrapper(codec, size, offset, context)
