"""What the append kernels share: the places in a context, the answers, and how an ordinary set is read (numba).

Start reading at ``entry.py``, not here.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_codecs import CALLS
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
)
from kafkaframes.records.layout import CODEC_MASK
from kafkaframes.wire._jit import device, types
from kafkaframes.wire._kernels import (
    crc32_of,
    load_i8,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
)

# Python's bytes as they are, and a bytearray that is written to: an array made of them would cost as much as the call.
BYTES, SENT = types.Bytes(types.uint8, 1, "C", readonly=True), types.ByteArray(types.uint8, 1, "C")
# Behind the functions that ``decompress_stream`` calls: memory, the content if it is there already (its size, else -1),
# the settings, where ``take`` has found the records, and what ``rewrite`` leaves for ``wrap``.
CONTENT_AT, CONTENT_SIZE, OUT_AT, OUT_SIZE, CONTENT_KNOWN = range(CALLS, CALLS + 5)
SETTINGS = CONTENT_KNOWN + 1
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
SETTINGS_END = REASSIGN + 1
HELD_AT, HELD_START, HELD_END = range(SETTINGS_END, SETTINGS_END + 3)
FIRST_MS, LARGEST_MS, COUNT = range(HELD_END + 1, HELD_END + 4)
WORDS = COUNT + 1
OWN_WORDS = WORDS - CALLS
ANY_CODEC = -1  # as TO_CODEC: that of what was sent
# Answers: ``ANEW`` is opened and must be written anew, ``PLAIN`` is written and waits for its compressor.
UNUSUAL, IN_PLACE, ANEW, WRITTEN, PLAIN, CAREFUL, TOO_SMALL, NO_OUT = 0, 1, 2, 3, 4, -1, -2, -3
MOST_MS = 1 << 61  # beyond it sums could wrap as Java's do: the general path knows
NO_TIMESTAMP = -1


_NO = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@device
def form_of(sent, context):
    """Return the format of what was sent, its codec, and the codec that the log wants."""
    magic = load_u8(sent, AT_MAGIC)
    codec = load_u8(sent, V2_ATTRIBUTES + 1 if magic == 2 else OLD_ATTRIBUTES) & CODEC_MASK
    return magic, codec, codec if context[TO_CODEC] == ANY_CODEC else context[TO_CODEC]


@device
def is_late(timestamp, context):
    """Tell whether a timestamp is out of the range that the log takes."""
    return timestamp != NO_TIMESTAMP and (timestamp < context[LOWEST_MS] or timestamp > context[HIGHEST_MS])


@device
def read_message(source, position, end, magic, refused_attributes, context):
    """Read one message: (where the next begins, its timestamp, key_at, key_size, value_at, value_size).

    Where the next begins is -1 for anything unusual: a size that does not fit, another format, one of the bits
    ``refused_attributes``, a wrong CRC, a timestamp out of range, a key that is missing where one is needed.
    """
    header = V1_HEADER if magic else V0_HEADER
    if end - position < header + OLD_LENGTHS:
        return _NO
    stop = position + OVERHEAD + load_i32(source, position + AT_SIZE)
    if stop < position + header + OLD_LENGTHS or stop > end:
        return _NO
    if load_i8(source, position + AT_MAGIC) != magic or load_u8(source, position + OLD_ATTRIBUTES) & refused_attributes:
        return _NO
    if crc32_of(source, position + OLD_CRC_FROM, stop) != load_u32(source, position + OLD_CRC):
        return _NO
    timestamp = load_i64(source, position + OLD_TIMESTAMP) if magic else np.int64(NO_TIMESTAMP)
    key_at, key_size = position + header + 4, load_i32(source, position + header)
    if is_late(timestamp, context) or (context[NEED_KEY] and key_size < 0):
        return _NO
    if key_size < -1 or key_size > stop - key_at - 4:
        return _NO
    value_at = key_at + max(key_size, 0) + 4
    value_size = load_i32(source, value_at - 4)
    if value_size < -1 or value_at + max(value_size, 0) != stop:
        return _NO
    return stop, timestamp, key_at, key_size, value_at, value_size
