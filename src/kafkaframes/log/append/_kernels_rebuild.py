"""Write one ordinary set, which ``_kernels.take`` has opened, in another format or for another codec (numba).

Start reading at ``fast_rebuild.py``, not here.

1. ``rewrite`` answers ``WRITTEN``: what goes into the log is at OUT_AT; or ``PLAIN``: the records are there and wait
   for their compressor, and for ``wrap`` to put them behind a header. Both say that nothing at all is odd.
2. ``ODD`` is no verdict: the general path (``validator.py``) decides. ``NO_OUT`` asks for more memory.
3. Nothing is written beyond OUT_SIZE bytes.
"""

import numpy as np
from numba import types

from kafkaframes.log.append._kernels_desk import (
    ANY_CODEC,
    APPEND_TIME,
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
    ODD,
    OUT_AT,
    OUT_SIZE,
    PLAIN,
    REASSIGN,
    SENT,
    TO_CODEC,
    TO_MAGIC,
    WRITTEN,
)
from kafkaframes.log.append._kernels_records import can_hold, rewrite_batch, rewrite_messages, room_for
from kafkaframes.records._kernels_build import store_i8, store_i16, store_i32, store_i64
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    LOG_APPEND_TIME,
    MESSAGE_V0,
    MESSAGE_V1,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
    ZSTD,
)
from kafkaframes.wire._jit import OUT_INT64S, device, kernel
from kafkaframes.wire._kernels import address_of, copy_bytes, crc32_of, crc32c_of, load_i16, load_i32, load_i64, load_u8

_SIZE_AT, _CRC_AT, _CRC_FROM = MESSAGE_V1.place_of("size"), MESSAGE_V1.place_of("crc"), MESSAGE_V1.end_of("crc")
_MAGIC_AT, _ATTRIBUTES_AT = MESSAGE_V1.place_of("magic"), MESSAGE_V1.place_of("attributes")
_TIMESTAMP_AT = MESSAGE_V1.place_of("timestamp")
_LENGTHS = 8  # of key and value
_HEADER_V0, _HEADER_V1, _HEADER_V2 = MESSAGE_V0.size, MESSAGE_V1.size, BATCH_V2.size
_CRC_V2_AT, _CRC_V2_FROM = BATCH_V2.place_of("crc"), BATCH_V2.end_of("crc")
_EPOCH_AT, _COUNT_AT = BATCH_V2.place_of("leader_epoch"), BATCH_V2.place_of("count")
_ATTRIBUTES_V2_AT, _DELTA_AT = BATCH_V2.place_of("attributes"), BATCH_V2.place_of("last_offset_delta")
_BASE_MS_AT, _MAX_MS_AT = BATCH_V2.place_of("base_timestamp"), BATCH_V2.place_of("max_timestamp")
_PRODUCER_AT, _PRODUCER_EPOCH_AT = BATCH_V2.place_of("producer_id"), BATCH_V2.place_of("producer_epoch")
_SEQUENCE_AT = BATCH_V2.place_of("base_sequence")
_NO = (np.int64(ODD), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@device
def _can_be_written(sent, magic, codec, target, desk):
    """Tell whether nothing stands against another format or codec."""
    if magic == desk[TO_MAGIC] and target == codec and target == 0:
        return False
    producer, epoch, transactional = np.int64(-1), np.int64(-1), np.int64(0)
    if magic == 2:
        producer, epoch = load_i64(sent, _PRODUCER_AT), load_i16(sent, _PRODUCER_EPOCH_AT)
        transactional = load_i16(sent, _ATTRIBUTES_V2_AT) & TRANSACTIONAL
    if desk[TO_MAGIC] < 2:
        return transactional == 0 and producer < 0 and target != ZSTD
    if producer < 0:
        return transactional == 0 and producer == -1
    return epoch != -1


@device
def _write_batch_header(sent, magic, codec, size, offset, desk):
    """Write the header of a format 2 batch whose records, ``size`` bytes, stand behind it at OUT_AT."""
    out = desk[OUT_AT]
    transactional = load_i16(sent, _ATTRIBUTES_V2_AT) & TRANSACTIONAL if magic == 2 else 0
    store_i64(out, 0, offset)
    store_i32(out, _SIZE_AT, _HEADER_V2 - OVERHEAD_BYTES + size)
    store_i32(out, _EPOCH_AT, desk[LEADER_EPOCH])
    store_i8(out, _MAGIC_AT, 2)
    store_i16(out, _ATTRIBUTES_V2_AT, codec | transactional | (LOG_APPEND_TIME if desk[APPEND_TIME] else 0))
    store_i32(out, _DELTA_AT, desk[COUNT] - 1)
    store_i64(out, _BASE_MS_AT, desk[FIRST_MS])
    store_i64(out, _MAX_MS_AT, desk[LARGEST_MS])
    if magic == 2:
        copy_bytes(out, _PRODUCER_AT, sent, _PRODUCER_AT, _COUNT_AT - _PRODUCER_AT)
    else:
        store_i64(out, _PRODUCER_AT, -1)
        store_i16(out, _PRODUCER_EPOCH_AT, -1)
        store_i32(out, _SEQUENCE_AT, -1)
    store_i32(out, _COUNT_AT, desk[COUNT])
    store_i32(out, _CRC_V2_AT, crc32c_of(out, _CRC_V2_FROM, _HEADER_V2 + size))


@device
def _write_wrapper_header(header, codec, size, offset, desk):
    """Write a wrapper's header: no key, the offset of the last record, the largest timestamp."""
    out, magic = desk[OUT_AT], desk[TO_MAGIC]
    store_i64(out, 0, offset + desk[COUNT] - 1)
    store_i32(out, _SIZE_AT, header - OVERHEAD_BYTES + size)
    store_i8(out, _MAGIC_AT, magic)
    store_i8(out, _ATTRIBUTES_AT, codec | (LOG_APPEND_TIME if magic and desk[APPEND_TIME] else 0))
    if magic:
        store_i64(out, _TIMESTAMP_AT, desk[LARGEST_MS])
    store_i32(out, header - _LENGTHS, -1)
    store_i32(out, header - 4, size)
    store_i32(out, _CRC_AT, crc32_of(out, _CRC_FROM, header + size))


@kernel(types.UniTuple(types.int64, 5)(SENT, types.int64, OUT_INT64S))
def rewrite(data, offset, desk):
    """Write the records of an opened set: (answer, records, largest timestamp, size, bytes that held them)."""
    sent, content, start, end = address_of(data), desk[HELD_AT], desk[HELD_START], desk[HELD_END]
    magic = load_u8(sent, _MAGIC_AT)
    codec = load_u8(sent, _ATTRIBUTES_V2_AT + 1 if magic == 2 else _ATTRIBUTES_AT) & CODEC_MASK
    target = codec if desk[TO_CODEC] == ANY_CODEC else desk[TO_CODEC]
    if not _can_be_written(sent, magic, codec, target, desk):
        return _NO
    from_count = load_i32(sent, _COUNT_AT) if magic == 2 else np.int64(0)
    if magic == 2 and not can_hold(end - start, from_count):
        return _NO
    header = np.int64(_HEADER_V2 if desk[TO_MAGIC] == 2 and target == 0 else 0)
    room = header + room_for(end - start, from_count, magic)
    if room > desk[OUT_SIZE]:
        return np.int64(NO_OUT), room, np.int64(0), np.int64(0), np.int64(0)
    relative, out = desk[TO_MAGIC] == 1 and target != 0, desk[OUT_AT] + header
    if magic == 2:
        base_offset, base_timestamp = load_i64(sent, 0), load_i64(sent, _BASE_MS_AT)
        count, largest, first, contiguous, size = rewrite_batch(
            content, start, end, from_count, base_offset, base_timestamp, out, offset, relative, desk
        )
    else:
        wrapper_offset = load_i64(sent, 0) if codec else np.int64(-1)
        count, largest, first, contiguous, size = rewrite_messages(
            content, start, end, magic, wrapper_offset, out, offset, relative, desk
        )
    if count == 0:
        return _NO
    if magic == desk[TO_MAGIC] and codec == target and magic and (contiguous or (magic == 2 and not desk[REASSIGN])):
        return _NO
    desk[FIRST_MS], desk[COUNT] = first, count
    desk[LARGEST_MS] = desk[NOW_MS] if desk[APPEND_TIME] else largest
    reported = desk[NOW_MS] if desk[APPEND_TIME] else (largest if desk[TO_MAGIC] else np.int64(NO_TIMESTAMP))
    if target != 0:
        return np.int64(PLAIN), count, reported, size, end - start
    if header:
        _write_batch_header(sent, magic, target, size, offset, desk)
    return np.int64(WRITTEN if header + size <= desk[MOST_BYTES] else ODD), count, reported, header + size, end - start


@kernel(types.int64(SENT, SENT, types.int64, types.int64, OUT_INT64S))
def wrap(data, packed, codec, offset, desk):
    """Put the compressed records behind a header; return the size of both, or ``ODD`` where a limit is exceeded.

    ``data`` is what was sent, to which ``rewrite`` has just answered ``PLAIN``.
    """
    sent, size = address_of(data), np.int64(len(packed))
    magic = desk[TO_MAGIC]
    header = np.int64(_HEADER_V2 if magic == 2 else (_HEADER_V1 if magic else _HEADER_V0) + _LENGTHS)
    if header + size > desk[MOST_BYTES]:
        return np.int64(ODD)
    if header + size > desk[OUT_SIZE]:
        return np.int64(NO_OUT)
    copy_bytes(desk[OUT_AT], header, address_of(packed), 0, size)
    if magic == 2:
        _write_batch_header(sent, load_u8(sent, _MAGIC_AT), codec, size, offset, desk)
    else:
        _write_wrapper_header(header, codec, size, offset, desk)
    return header + size
