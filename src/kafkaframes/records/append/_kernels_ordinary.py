"""Read an ordinary set (numba): what the kernels have in common that check one and that write one anew.

Start reading at ``entry.py``, not here.
"""

from __future__ import annotations

import numpy as np

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
from kafkaframes.records.append._kernels_context import (
    ANY_CODEC,
    HIGHEST_MS,
    LOWEST_MS,
    NEED_KEY,
    NO_TIMESTAMP,
    TO_CODEC,
)
from kafkaframes.records.layout import CODEC_MASK
from kafkaframes.wire._jit import device
from kafkaframes.wire._kernels import (
    crc32_of,
    load_i8,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
)

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

    Where the next begins is -1 if anything is odd: a size that does not fit, another format, one of the bits
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
