"""Take one ordinary set: open it, check every record, write its new header, or write it anew (numba).

Start reading at ``fast.py``, not here.

1. ``take`` gets what was sent and a desk (``desk.py``): addresses of C functions, memory, the settings as numbers. Its
   answer above zero says that nothing at all is odd; what goes into the log is at OUT_AT then, or (``PLAIN``) what is
   to be compressed, for ``wrap`` to put behind a header.
2. ``ODD`` is no verdict: the general path (``validator.py``, which is the twin of these kernels) decides what Kafka
   would say. ``CAREFUL`` asks for the content, decompressed by ``codecs.decompress``; ``NO_ROOM`` and ``NO_OUT`` ask
   for more memory.
3. Nothing is written beyond CONTENT_SIZE and OUT_SIZE bytes, nothing read beyond what was sent.
"""

import numpy as np
from numba import types

from kafkaframes.log.append._kernels_check import check_batch, check_row, check_set
from kafkaframes.log.append._kernels_desk import (
    ANY_CODEC,
    APPEND_TIME,
    CAREFUL,
    CONTENT_AT,
    CONTENT_SIZE,
    COUNT,
    FIRST_MS,
    IN_PLACE,
    LARGEST_MS,
    LEADER_EPOCH,
    MOST_BYTES,
    MOST_MS,
    NO_OUT,
    NO_ROOM,
    NO_TIMESTAMP,
    NOW_MS,
    ODD,
    OUT_AT,
    OUT_SIZE,
    PLAIN,
    READY,
    REASSIGN,
    TO_CODEC,
    TO_MAGIC,
    TRUSTED,
    WRITTEN,
)
from kafkaframes.log.append._kernels_rebuild import can_hold, rewrite_batch, rewrite_messages, room_for
from kafkaframes.records._kernels_build import store_i8, store_i16, store_i32, store_i64
from kafkaframes.records._kernels_codecs import decompress_stream, usual_room
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V0,
    MESSAGE_V1,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
    ZSTD,
)
from kafkaframes.wire._jit import OUT_INT64S, device, kernel
from kafkaframes.wire._kernels import (
    address_of,
    copy_bytes,
    crc32_of,
    crc32c_of,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
)

# Python's bytes as they are: an array made of them first would cost as much as the call.
_SENT = types.Bytes(types.uint8, 1, "C", readonly=True)
LARGEST_OPENED = 64 << 20  # what is larger is decompressed by the careful path

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
_ODD_FLAGS = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_KEPT_FLAGS = CODEC_MASK | TRANSACTIONAL
_NO = (np.int64(ODD), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


# ------------------------------------------------------------------------------------------------- the header


@device
def _is_usual_batch(sent, size, desk):
    """Tell whether nothing about the header of a format 2 batch is odd, nor its CRC."""
    attributes, count = load_i16(sent, _ATTRIBUTES_V2_AT), load_i32(sent, _COUNT_AT)
    last_delta = load_i32(sent, _DELTA_AT)
    if attributes & _ODD_FLAGS or attributes & CODEC_MASK > ZSTD or load_i64(sent, 0) < 0 or count <= 0:
        return False
    if last_delta + 1 != count and not (desk[TRUSTED] and last_delta >= 0):
        return False
    if load_i64(sent, _PRODUCER_AT) >= 0 and load_i32(sent, _SEQUENCE_AT) < 0:
        return False
    base_timestamp = load_i64(sent, _BASE_MS_AT)
    if base_timestamp < 0 or base_timestamp > MOST_MS:
        return False
    return crc32c_of(sent, _CRC_V2_FROM, size) == load_u32(sent, _CRC_V2_AT)


@device
def _is_usual_wrapper(sent, size, header):
    """Tell whether a compressed message of format 0 or 1 is a wrapper without anything odd."""
    attributes = load_u8(sent, _ATTRIBUTES_AT)
    if attributes & CODEC_MASK >= ZSTD or attributes & LOG_APPEND_TIME or load_i64(sent, 0) < 0:
        return False
    if load_i32(sent, header) != -1 or load_i32(sent, header + 4) != size - header - 8:
        return False
    return crc32_of(sent, _CRC_FROM, size) == load_u32(sent, _CRC_AT)


@device
def _header_size(sent, size, desk):
    """Return what precedes the records of one batch or wrapper, 0 for messages in a row, ``CAREFUL`` for neither."""
    if size < _HEADER_V0 + _LENGTHS or size > desk[MOST_BYTES]:
        return np.int64(CAREFUL)
    magic = load_u8(sent, _MAGIC_AT)
    alone = load_i32(sent, _SIZE_AT) + OVERHEAD_BYTES == size
    if magic == 2:
        return np.int64(_HEADER_V2 if alone and size >= _HEADER_V2 and _is_usual_batch(sent, size, desk) else CAREFUL)
    header = _HEADER_V1 if magic else _HEADER_V0
    if magic > 2 or size < header + _LENGTHS:
        return np.int64(CAREFUL)
    if load_u8(sent, _ATTRIBUTES_AT) & CODEC_MASK == 0:
        return np.int64(0)
    return np.int64(header + _LENGTHS if alone and _is_usual_wrapper(sent, size, header) else CAREFUL)


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
def _open(sent, start, end, codec, magic, desk):
    """Return where the records are: (status, address, start, end)."""
    if codec == 0:
        return np.int64(1), sent, np.int64(start), np.int64(end)
    content = desk[CONTENT_AT]
    if desk[READY] >= 0:
        return np.int64(1), content, np.int64(0), desk[READY]
    room = usual_room(end - start, LARGEST_OPENED)
    if room > desk[CONTENT_SIZE]:
        return np.int64(NO_ROOM), content, np.int64(0), np.int64(room)
    size = decompress_stream(codec, magic, sent, start, end, content, room, desk)
    return np.int64(1 if size >= 0 else CAREFUL), content, np.int64(0), np.int64(size)


# --------------------------------------------------------------------------------------------------- in place


@device
def _patch_batch(out, size, offset, largest, desk):
    """Write the offset and the leader epoch; the timestamp, its type and the CRC only if they change."""
    store_i64(out, 0, offset)
    store_i32(out, _EPOCH_AT, desk[LEADER_EPOCH])
    if desk[APPEND_TIME] or largest != load_i64(out, _MAX_MS_AT):
        kind = LOG_APPEND_TIME if desk[APPEND_TIME] else 0
        store_i16(out, _ATTRIBUTES_V2_AT, load_i16(out, _ATTRIBUTES_V2_AT) & _KEPT_FLAGS | kind)
        store_i64(out, _MAX_MS_AT, largest)
        store_i32(out, _CRC_V2_AT, crc32c_of(out, _CRC_V2_FROM, size))


@device
def _patch_wrapper(out, size, offset, largest, desk):
    """Write the offset, which is the last record's; the timestamp, its type and the CRC only if they change."""
    store_i64(out, 0, offset)
    if desk[APPEND_TIME] or largest != load_i64(out, _TIMESTAMP_AT):
        kind = LOG_APPEND_TIME if desk[APPEND_TIME] else 0
        store_i8(out, _ATTRIBUTES_AT, load_u8(out, _ATTRIBUTES_AT) & CODEC_MASK | kind)
        store_i64(out, _TIMESTAMP_AT, largest)
        store_i32(out, _CRC_AT, crc32_of(out, _CRC_FROM, size))


@device
def _patch_row(out, size, offset, magic, desk):
    """Write each message's offset; where the log gives the time, that, its type and the CRC."""
    position = np.int64(0)
    while position < size:
        stop = position + OVERHEAD_BYTES + load_i32(out, position + _SIZE_AT)
        store_i64(out, position, offset)
        if magic and desk[APPEND_TIME]:
            store_i8(out, position + _ATTRIBUTES_AT, LOG_APPEND_TIME)
            store_i64(out, position + _TIMESTAMP_AT, desk[NOW_MS])
            store_i32(out, position + _CRC_AT, crc32_of(out, position + _CRC_FROM, stop))
        position = stop
        offset += 1


@device
def _take_in_place(sent, size, magic, codec, content, start, end, offset, desk):
    """Check a set that has the log's format and codec, and give it offsets: (records, largest timestamp)."""
    if magic == 2:
        count = load_i32(sent, _COUNT_AT)
        if load_i64(sent, 0) != 0 or load_i32(sent, _DELTA_AT) + 1 != count:
            return np.int64(0), np.int64(0)
        count, largest = check_batch(content, start, end, count, load_i64(sent, _BASE_MS_AT), desk)
    elif codec:
        count, largest = check_set(content, start, end, load_i64(sent, 0), desk)
    else:
        count, largest = check_row(content, start, end, magic, desk)
    if count == 0:
        return count, largest
    if magic and desk[APPEND_TIME]:
        largest = desk[NOW_MS]
    copy_bytes(desk[OUT_AT], 0, sent, 0, size)
    if magic == 2:
        _patch_batch(desk[OUT_AT], size, offset, largest, desk)
    elif codec == 0:
        _patch_row(desk[OUT_AT], size, offset, magic, desk)
    else:
        _patch_wrapper(desk[OUT_AT], size, offset + count - 1, largest, desk)
    return count, largest


# ------------------------------------------------------------------------------------------------------- anew


@device
def _write_anew(sent, magic, codec, target, content, start, end, offset, desk):
    """Write the records in the log's format: (answer, records, largest timestamp, size, bytes that held them)."""
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


# ---------------------------------------------------------------------------------------------------- kernels


@kernel(types.UniTuple(types.int64, 5)(_SENT, types.int64, OUT_INT64S))
def take(data, offset, desk):
    """Take a set: (answer, records, largest timestamp, size, bytes that held the records); or what is asked for.

    Of a question only (answer, bytes, 0, 0, 0) is filled: how much memory is needed.
    """
    sent, size = address_of(data), np.int64(len(data))
    header = _header_size(sent, size, desk)
    if header < 0 or offset < 0 or offset > MOST_MS:
        return _NO
    magic = load_u8(sent, _MAGIC_AT)
    codec = load_u8(sent, _ATTRIBUTES_V2_AT + 1 if magic == 2 else _ATTRIBUTES_AT) & CODEC_MASK
    target = codec if desk[TO_CODEC] == ANY_CODEC else desk[TO_CODEC]
    is_same = magic == desk[TO_MAGIC] and target == codec and (magic != 0 or codec == 0)
    can_be_written = _can_be_written(sent, magic, codec, target, desk)
    if not is_same and not can_be_written:
        return _NO
    if size > desk[OUT_SIZE]:
        return np.int64(NO_OUT), size, np.int64(0), np.int64(0), np.int64(0)
    status, content, start, end = _open(sent, header, size, codec, magic, desk)
    if status < 0:
        return status, end, np.int64(0), np.int64(0), np.int64(0)
    if is_same:
        count, largest = _take_in_place(sent, size, magic, codec, content, start, end, offset, desk)
        if count:
            return np.int64(IN_PLACE), count, largest, size, end - start
    if not can_be_written:
        return _NO
    return _write_anew(sent, magic, codec, target, content, start, end, offset, desk)


@kernel(types.int64(_SENT, _SENT, types.int64, types.int64, OUT_INT64S))
def wrap(data, packed, codec, offset, desk):
    """Put the compressed records behind a header; return the size of both, or ``ODD`` where a limit is exceeded.

    ``data`` is what was sent, and ``take`` must just have answered ``PLAIN`` to it: its room is more than is needed.
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
