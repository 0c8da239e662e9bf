"""Copy keys, values and headers out of indexed records into Arrow's buffers (numba).

Start reading at ``columns.py``. ``gather_binary`` and ``index_headers`` have plain Python twins of the same name in
``tests/records/reference.py``. The device functions take addresses (``address_of``), because passing an array is slow.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_scan import I64
from kafkaframes.wire._jit import BYTES, INT32S, INT64S, OUT_BYTES, OUT_INT32S, OUT_INT64S, inline_device, kernel
from kafkaframes.wire._kernels import (
    address_of,
    copy_32,
    copy_bytes,
    load_u8,
    read_varint,
    store_item_8,
    store_item_32,
)

# Number of bytes that a copy may read and write after its own bytes.
SLACK_BYTES = 32


@inline_device
def _copy_byte_string(target, to, buf, start, size, limit):
    """Copy a byte string. Up to 256 bytes are copied in steps of 32 if the last step ends before ``limit``.

    ``limit`` is the end of ``buf``. ``target`` must have space for whole steps; the next byte string overwrites the
    surplus.
    """
    if size <= 256 and start + size + 31 <= limit:
        for done in range(0, size, 32):
            copy_32(target, to + done, buf, start + done)
    else:
        copy_bytes(target, to, buf, start, size)


@inline_device
def _append_byte_string(buf, position, size, limit, here, to, offsets, data, validity):
    """Append a byte string to a column of ``here`` values and ``to`` bytes.

    Return the new byte count, and 1 if the string is null.
    """
    if here & 7 == 0:
        store_item_8(validity, here >> 3, 0xFF)
    null = size < 0
    if null:
        store_item_8(validity, here >> 3, load_u8(validity, here >> 3) & ~(1 << (here & 7)))
    else:
        _copy_byte_string(data, to, buf, position, size, limit)
        to += size
    store_item_32(offsets, here + 1, to)
    return to, np.int64(null)


@kernel(I64(BYTES, INT64S, INT32S, I64, OUT_INT32S, OUT_BYTES, OUT_BYTES))
def gather_binary(buf, positions, sizes, count, offsets, data, validity):
    """Copy ``count`` byte strings into Arrow's three buffers; return how many are null (negative sizes).

    ``validity`` needs a byte for each eight values, rounded up; ``data`` needs the sum of the sizes.
    """
    source, starts, target, valid = address_of(buf), address_of(offsets), address_of(data), address_of(validity)
    offsets[0] = 0
    to, nulls = np.int64(0), np.int64(0)
    for here in range(count):
        size = np.int64(sizes[here])
        limit = buf.size if to + size + SLACK_BYTES <= data.size else 0
        to, null = _append_byte_string(source, positions[here], size, limit, here, to, starts, target, valid)
        nulls += null
    return nulls


@kernel(I64(BYTES, INT64S, INT32S, I64, OUT_INT32S, OUT_INT64S, OUT_INT32S, OUT_INT64S, OUT_INT32S))
def index_headers(buf, positions, counts, records, lists, key_at, key_size, value_at, value_size):
    """Index the headers of ``records`` records, which ``index_records`` has checked; return their number.

    ``lists`` gets Arrow's list offsets.
    """
    total = 0
    lists[0] = 0
    for record in range(records):
        position = positions[record]
        for _ in range(counts[record]):
            _, length, position = read_varint(buf, position, buf.size)
            key_at[total] = position
            key_size[total] = length
            position += length
            _, length, position = read_varint(buf, position, buf.size)
            value_at[total] = position
            value_size[total] = length
            position += max(length, 0)
            total += 1
        lists[record + 1] = total
    return total
