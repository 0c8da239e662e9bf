"""Write one ordinary set, which ``_kernels.take`` has opened, in another format or for another codec (numba).

Start reading at ``fast_rebuild.py``, not here.

1. ``rewrite`` answers ``WRITTEN``: what goes into the log is at OUT_AT; or ``PLAIN``: the records are there and wait
   for their compressor, and for ``wrap`` to put them behind a header. Both say that nothing at all is odd.
2. ``UNUSUAL`` is no verdict: the general path (``validator.py``) decides. ``NO_OUT`` asks for more memory.
3. Nothing is written beyond OUT_SIZE bytes.
"""

import numpy as np

from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    V2_ATTRIBUTES,
    V2_BASE_SEQUENCE,
    V2_BASE_TIMESTAMP,
    V2_COUNT,
    V2_DELTA,
    V2_HEADER,
    V2_PRODUCER_EPOCH,
    V2_PRODUCER_ID,
)
from kafkaframes.records._kernels_write import finish_batch, finish_wrapper, wrapper_header_size, write_batch_header
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
)
from kafkaframes.records.append._kernels_ordinary import form_of
from kafkaframes.records.append._kernels_records import can_hold, capacity_for, rewrite_batch, rewrite_messages
from kafkaframes.records.layout import LOG_APPEND_TIME, TRANSACTIONAL, ZSTD
from kafkaframes.wire._jit import OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import address_of, copy_bytes, load_i16, load_i32, load_i64, load_u8

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
