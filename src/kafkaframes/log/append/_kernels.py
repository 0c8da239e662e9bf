"""Take one ordinary set in place: open it, check every record, write its new header (numba).

Start reading at ``fast.py``, not here.

1. ``take`` gets what was sent and a desk (``desk.py``): addresses of C functions, memory, the settings as numbers. Its
   answer above zero says that nothing at all is odd: the header, the CRC, the stream; every record is whole, offsets
   are 0, 1, 2, ..., keys are there if they must be, timestamps lie in range. What goes into the log is at OUT_AT then.
2. ``ODD`` is no verdict: the general path (``validator.py``, which is the twin of these loops) decides what Kafka would
   say. ``CAREFUL`` asks for the content, decompressed by ``codecs.decompress``; ``NO_ROOM`` and ``NO_OUT``
   ask for more memory.
3. Nothing is written beyond CONTENT_SIZE and OUT_SIZE bytes, nothing read beyond what was sent.
"""

import numpy as np
from numba import types

from kafkaframes.records._kernels_build import store_i8, store_i16, store_i32, store_i64
from kafkaframes.records._kernels_codecs import CALLS, decompress_stream, usual_room
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
    OK,
    address_of,
    copy_bytes,
    crc32_of,
    crc32c_of,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    read_varint,
    read_varlong,
)

# Python's bytes as they are: an array made of them first would cost as much as the call.
_SENT = types.Bytes(types.uint8, 1, "C", readonly=True)
# Places on the desk, behind the functions that ``decompress_stream`` calls: memory, the content if it is there already
# (its size, else -1), and the settings.
CONTENT_AT, CONTENT_SIZE, OUT_AT, OUT_SIZE, READY = range(CALLS, CALLS + 5)
SETTINGS = READY + 1
(
    TO_MAGIC,
    TO_CODEC,
    LOWEST_MS,
    HIGHEST_MS,
    NEED_KEY,
    TRUSTED,
    APPEND_TIME,
    NOW_MS,
    LEADER_EPOCH,
    MOST_BYTES,
    REASSIGN,
) = range(SETTINGS, SETTINGS + 11)
WORDS = REASSIGN + 1
OWN_WORDS = WORDS - CALLS
ANY_CODEC = -1  # as TO_CODEC: that of what was sent
# Answers.
ODD, IN_PLACE, CAREFUL, NO_ROOM, NO_OUT = 0, 1, -1, -2, -3
LARGEST_OPENED = 64 << 20
MOST_MS = 1 << 61  # beyond it sums could wrap as Java's do: the general path knows

NO_TIMESTAMP = -1
_SIZE_AT, _CRC_AT, _CRC_FROM = MESSAGE_V1.place_of("size"), MESSAGE_V1.place_of("crc"), MESSAGE_V1.end_of("crc")
_MAGIC_AT, _ATTRIBUTES_AT = MESSAGE_V1.place_of("magic"), MESSAGE_V1.place_of("attributes")
_TIMESTAMP_AT, _HEADER, _OVERHEAD = MESSAGE_V1.place_of("timestamp"), MESSAGE_V1.size, MESSAGE_V1.end_of("size")
_HEADER_V0, _HEADER_V2 = MESSAGE_V0.size, BATCH_V2.size
_CRC_V2_AT, _CRC_V2_FROM, _EPOCH_AT = (
    BATCH_V2.place_of("crc"),
    BATCH_V2.end_of("crc"),
    BATCH_V2.place_of("leader_epoch"),
)
_ATTRIBUTES_V2_AT, _DELTA_AT = BATCH_V2.place_of("attributes"), BATCH_V2.place_of("last_offset_delta")
_BASE_MS_AT, _MAX_MS_AT = BATCH_V2.place_of("base_timestamp"), BATCH_V2.place_of("max_timestamp")
_PRODUCER_AT, _SEQUENCE_AT = BATCH_V2.place_of("producer_id"), BATCH_V2.place_of("base_sequence")
_COUNT_AT = BATCH_V2.place_of("count")
_ODD_FLAGS = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_KEPT_FLAGS = CODEC_MASK | TRANSACTIONAL
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


@device
def _check_batch(address, start, end, count, base_timestamp, desk):
    """Check the ``count`` records of a format 2 batch, from ``start`` to ``end``: (fits, largest timestamp)."""
    position, largest = start, np.int64(NO_TIMESTAMP)
    lowest, highest, need_key = desk[LOWEST_MS], desk[HIGHEST_MS], desk[NEED_KEY]
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
    return np.int64(count), largest


@device
def _check_set(address, position, end, wrapper_offset, desk):
    """Check the messages of a decompressed format 1 set, their own CRCs among them: (count, largest timestamp)."""
    number, largest = np.int64(0), np.int64(NO_TIMESTAMP)
    lowest, highest, need_key = desk[LOWEST_MS], desk[HIGHEST_MS], desk[NEED_KEY]
    while position < end:
        if end - position < _HEADER + 8:
            return _NO
        size = load_i32(address, position + _SIZE_AT)
        stop = position + _OVERHEAD + size
        if size < _HEADER + 8 - _OVERHEAD or stop > end or load_i64(address, position) != number:
            return _NO
        if load_i8(address, position + _MAGIC_AT) != 1 or load_u8(address, position + _ATTRIBUTES_AT) & CODEC_MASK:
            return _NO
        if crc32_of(address, position + _CRC_FROM, stop) != load_u32(address, position + _CRC_AT):
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
    return number, largest


# ------------------------------------------------------------------------------------------------- the header


@device
def _is_framed(sent, size, desk):
    """Tell whether the bytes are one batch or wrapper, or begin with a message that is not compressed."""
    if size < _HEADER_V0 + 8 or size > desk[MOST_BYTES]:
        return False
    magic = load_u8(sent, _MAGIC_AT)
    if magic > 2 or size < (_HEADER_V2 if magic == 2 else (_HEADER_V0 + 8 if magic == 0 else _HEADER + 8)):
        return False
    return load_i32(sent, _SIZE_AT) + OVERHEAD_BYTES == size


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


@kernel(types.UniTuple(types.int64, 4)(_SENT, types.int64, OUT_INT64S))
def take(data, offset, desk):
    """Take a set in place: (answer, records, largest timestamp, size), or (what is asked for, bytes, 0, 0)."""
    sent, size = address_of(data), np.int64(len(data))
    no = np.int64(0)
    if not _is_framed(sent, size, desk) or offset < 0 or offset > MOST_MS:
        return no, no, no, no
    magic = load_u8(sent, _MAGIC_AT)
    codec = load_u8(sent, _ATTRIBUTES_V2_AT + 1 if magic == 2 else _ATTRIBUTES_AT) & CODEC_MASK
    if magic != desk[TO_MAGIC] or (desk[TO_CODEC] != ANY_CODEC and desk[TO_CODEC] != codec):
        return no, no, no, no
    if magic == 2:
        header = np.int64(_HEADER_V2)
        if not _is_usual_batch(sent, size, desk) or load_i64(sent, 0) != 0:
            return no, no, no, no
        if load_i32(sent, _DELTA_AT) + 1 != load_i32(sent, _COUNT_AT):
            return no, no, no, no
    else:
        header = np.int64(_HEADER + 8)
        if magic == 0 or codec == 0 or not _is_usual_wrapper(sent, size, np.int64(_HEADER)):
            return no, no, no, no
    if size > desk[OUT_SIZE]:
        return np.int64(NO_OUT), size, no, no
    status, content, start, end = _open(sent, header, size, codec, magic, desk)
    if status < 0:
        return status, end, no, no
    if magic == 2:
        count, largest = _check_batch(
            content, start, end, load_i32(sent, _COUNT_AT), load_i64(sent, _BASE_MS_AT), desk
        )  # fmt: skip
    else:
        count, largest = _check_set(content, start, end, load_i64(sent, 0), desk)
    if count == 0:
        return no, no, no, no
    if desk[APPEND_TIME]:
        largest = desk[NOW_MS]
    copy_bytes(desk[OUT_AT], 0, sent, 0, size)
    if magic == 2:
        _patch_batch(desk[OUT_AT], size, offset, largest, desk)
    else:
        _patch_wrapper(desk[OUT_AT], size, offset + count - 1, largest, desk)
    return np.int64(IN_PLACE), count, largest, size
