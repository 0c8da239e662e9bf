"""The context array of the append kernels, their status codes, and the functions that they share (numba).

Start reading at ``entry.py``.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_codecs import CALL_SLOTS
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

# The kernels take Python's bytes and bytearray directly: converting them to an array would cost as much as the call.
BYTES, RECORD_SET = types.Bytes(types.uint8, 1, "C", readonly=True), types.ByteArray(types.uint8, 1, "C")
# The context starts with the functions that ``decompress_stream`` calls. Then follow the memory for content and output,
# the size of the content (-1 if it is not decompressed yet), the settings, the position of the records that
# ``validate_in_place`` found, and the values that ``rewrite_set`` passes to ``wrap_compressed``.
CONTENT_AT, CONTENT_SIZE, OUT_AT, OUT_SIZE, CONTENT_KNOWN = range(CALL_SLOTS, CALL_SLOTS + 5)
FIRST_SETTING_INDEX = CONTENT_KNOWN + 1
(
    TO_MAGIC,
    TO_CODEC,
    MIN_VALID_MS,
    MAX_VALID_MS,
    NEED_KEY,
    TRUSTED,
    APPEND_TIME,
    NOW_MS,
    LEADER_EPOCH,
    BATCH_LIMIT,
    REASSIGN,
) = range(FIRST_SETTING_INDEX, FIRST_SETTING_INDEX + 11)
SETTINGS_END_INDEX = REASSIGN + 1
RECORDS_AT, RECORDS_START, RECORDS_END = range(SETTINGS_END_INDEX, SETTINGS_END_INDEX + 3)
FIRST_MS, MAX_RECORD_MS, COUNT = range(RECORDS_END + 1, RECORDS_END + 4)
CONTEXT_WORDS = COUNT + 1
EXTRA_WORDS = CONTEXT_WORDS - CALL_SLOTS  # elements of the context after the call slots
ANY_CODEC = -1  # value of TO_CODEC that keeps the codec of the record set
# Results of the kernels. NEEDS_REBUILD: the set is valid, but must be rebuilt. PLAIN: it is rebuilt, but not yet
# compressed.
UNUSUAL, IN_PLACE, NEEDS_REBUILD, WRITTEN, PLAIN, NEEDS_CONTENT, TOO_SMALL, OUT_TOO_SMALL = 0, 1, 2, 3, 4, -1, -2, -3
MAX_SAFE_MS = 1 << 61  # above this, sums could overflow as they do in Java, which the general path reproduces
NO_TIMESTAMP = -1


_NO_MESSAGE = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@device
def read_format_and_codecs(set_at, context):
    """Return the format of a record set, its codec, and the log's codec."""
    magic = load_u8(set_at, AT_MAGIC)
    codec = load_u8(set_at, V2_ATTRIBUTES + 1 if magic == 2 else OLD_ATTRIBUTES) & CODEC_MASK
    return magic, codec, codec if context[TO_CODEC] == ANY_CODEC else context[TO_CODEC]


@device
def is_out_of_range(timestamp, context):
    """Return whether a timestamp is outside the range that the log accepts."""
    return timestamp != NO_TIMESTAMP and (timestamp < context[MIN_VALID_MS] or timestamp > context[MAX_VALID_MS])


@device
def read_message(source, position, end, magic, rejected_attributes, context):
    """Read one message: (position of the next, timestamp, key_at, key_size, value_at, value_size).

    The position of the next message is -1 if the kernels do not support this message: a size that does not fit, another
    format, an attribute bit in ``rejected_attributes``, a wrong CRC, a timestamp out of range, a missing key that the
    log requires.
    """
    header = V1_HEADER if magic else V0_HEADER
    if end - position < header + LENGTH_FIELDS_BYTES:
        return _NO_MESSAGE
    stop = position + OVERHEAD + load_i32(source, position + AT_SIZE)
    if stop < position + header + LENGTH_FIELDS_BYTES or stop > end:
        return _NO_MESSAGE
    if (
        load_i8(source, position + AT_MAGIC) != magic
        or load_u8(source, position + OLD_ATTRIBUTES) & rejected_attributes
    ):
        return _NO_MESSAGE
    if crc32_of(source, position + OLD_CRC_FROM, stop) != load_u32(source, position + OLD_CRC):
        return _NO_MESSAGE
    timestamp = load_i64(source, position + OLD_TIMESTAMP) if magic else np.int64(NO_TIMESTAMP)
    key_at, key_size = position + header + 4, load_i32(source, position + header)
    if is_out_of_range(timestamp, context) or (context[NEED_KEY] and key_size < 0):
        return _NO_MESSAGE
    if key_size < -1 or key_size > stop - key_at - 4:
        return _NO_MESSAGE
    value_at = key_at + max(key_size, 0) + 4
    value_size = load_i32(source, value_at - 4)
    if value_size < -1 or value_at + max(value_size, 0) != stop:
        return _NO_MESSAGE
    return stop, timestamp, key_at, key_size, value_at, value_size
