"""Find the batch that contains an offset, in one call per window of a segment (numba); ``segment.py`` uses it.

1. ``find_batch`` reads headers like ``segment_reader.HeaderWalk`` (Kafka's FileLogInputStream). The kernel returns
   ``UNUSUAL`` if the general path, ``SegmentReader.find_batch``, has to decide. A test compares the results of both
   paths on arbitrary bytes.
2. No byte outside the window is read.
"""

from kafkaframes.records._kernels_scan import (
    AT_MAGIC,
    AT_SIZE,
    MIN_STATED_BATCH_BYTES,
    OVERHEAD,
    TO_MAGIC,
    V2_DELTA,
    V2_HEADER,
)
from kafkaframes.wire._jit import kernel, types
from kafkaframes.wire._kernels import address_of, load_i8, load_i32, load_i64

# Numba's type for Python bytes. Converting them to an array first would take longer than the call itself.
_BYTES = types.Bytes(types.uint8, 1, "C", readonly=True)
_I64 = types.int64
NONE, BATCH, MORE, UNUSUAL = 0, 1, 2, 3
ANY_OFFSET = (1 << 63) - 1
_MAX_SAFE_OFFSET = 1 << 62  # above this offset, the last offset of a batch could overflow


@kernel(types.Tuple((_I64, _I64, _I64))(_BYTES, _I64, _I64, _I64, _I64, _I64))
def find_batch(window, start, file_size, offset, base_offset, entry_offset):
    """Return ``(answer, position, size)`` of the first batch whose last offset is at or above ``offset``.

    ``window`` starts at byte ``start`` of a file of ``file_size`` bytes. A batch must start at byte ``start``. The
    batch is trusted if it fits the segment's ``base_offset`` and starts at or below ``entry_offset``, the offset of an
    index entry (``ANY_OFFSET`` without an entry). The answer ``MORE`` asks for the window from ``position`` on.
    ``NONE`` means that the batches end at this position.
    """
    data, at, window_size = address_of(window), 0, len(window)
    is_first = entry_offset != ANY_OFFSET
    while True:
        remaining_bytes = file_size - start - at
        if remaining_bytes <= TO_MAGIC:
            return UNUSUAL if is_first else NONE, start + at, 0
        if at + min(remaining_bytes, V2_HEADER) > window_size:
            return MORE, start + at, 0
        body = load_i32(data, at + AT_SIZE)
        size = body + OVERHEAD
        if body < MIN_STATED_BATCH_BYTES:
            return UNUSUAL, start + at, 0
        if size > remaining_bytes:
            return UNUSUAL if is_first else NONE, start + at, 0
        magic = load_i8(data, at + AT_MAGIC)
        first = load_i64(data, at)
        last = first
        if magic >= 2:
            if size < V2_HEADER or first > _MAX_SAFE_OFFSET:
                return UNUSUAL, start + at, size
            last = first + load_i32(data, at + V2_DELTA)
        if is_first:
            if magic < 0 or magic > 2 or first < base_offset or last < first or first > entry_offset:
                return UNUSUAL, start + at, size
            is_first = False
        if last >= offset:
            return BATCH, start + at, size
        at += size
