"""Compress streams without Python (numba). Start reading at ``native_compress.py``, not here.

1. The bytes are those of ``codecs.compress``: the same C libraries, called by their addresses, in the same framing.
2. An address of 0 makes every stream of that codec ``ODD``: ``codecs.compress`` is to be asked then.
3. Nothing is written beyond ``room`` bytes of ``out``; there is always room in ``most_compressed`` bytes.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_codecs import GZIP, GZIP_HEADER, LZ4, LZ4_FLAGS, LZ4_MAGIC, LZ4_RAW, ODD, ZSTD, call
from kafkaframes.records._kernels_scan import I64, V2_HEADER
from kafkaframes.records._kernels_write import finish_batch, store_i8, store_i32
from kafkaframes.wire._jit import BYTES, OUT_BYTES, OUT_INT64S, device, kernel
from kafkaframes.wire._kernels import address_of, copy_bytes, crc32_of

# Places in the array of addresses: functions, their contexts and levels, and scratch for what they tell.
(
    ZSTD_STREAM,
    ZSTD_RESET,
    ZSTD_CONTEXT,
    LZ4_FAST,
    LZ4_FAST_CONTEXT,
    LZ4_HIGH,
    LZ4_HIGH_RESET,
    LZ4_HIGH_CONTEXT,
    LZ4_LEVEL,
    GZIP_COMPRESS,
    GZIP_CONTEXT,
    SCRATCH,
) = range(12)
CALLS = SCRATCH + 6
# Below: what ``_gzip.py``, ``_lz4.py`` and ``_zstd.py`` write; a test compares.
LZ4_BLOCK, LZ4_DESCRIPTOR, LZ4_CHECKSUM, LZ4_ACCELERATION = 1 << 16, 0x40, 0x82, 1
GZIP_HEAD, GZIP_TAIL, GZIP_SYSTEM = 10, 8, 0xFF
_ZSTD_CONTINUE, _ZSTD_END, _ZSTD_SESSION = 0, 2, 1

_call_2, _call_4, _call_5 = (call(f"call_{count}", count, 64) for count in (2, 4, 5))
_call_5_int, _call_6_int = (call(f"call_{count}_int", count, 32) for count in (5, 6))


@device
def most_compressed(size):
    """Return how much room the compressed form of ``size`` bytes may need while it is made, whatever the codec."""
    return size + (size >> 6) + 1024


@device
def _store_le32(out, position, value):
    for index in range(4):
        store_i8(out, position + index, value >> (8 * index) & 0xFF)


@device
def _zstd(data, size, out, room, calls):
    """Write one frame as a stream of unknown length writes it."""
    if calls[ZSTD_CONTEXT] == 0:
        return ODD
    context, scratch = calls[ZSTD_CONTEXT], address_of(calls) + 8 * SCRATCH
    _call_2(calls[ZSTD_RESET], context, _ZSTD_SESSION)
    calls[SCRATCH], calls[SCRATCH + 1], calls[SCRATCH + 2] = out, room, 0
    calls[SCRATCH + 3], calls[SCRATCH + 4], calls[SCRATCH + 5] = data, size, 0
    while calls[SCRATCH + 5] < size:
        before = calls[SCRATCH + 5]
        if (
            _call_4(calls[ZSTD_STREAM], context, scratch, scratch + 24, _ZSTD_CONTINUE) < 0
            or calls[SCRATCH + 5] == before
        ):
            return ODD
    left = np.int64(1)
    while left:
        before = calls[SCRATCH + 2]
        left = _call_4(calls[ZSTD_STREAM], context, scratch, scratch + 24, _ZSTD_END)
        if left < 0 or (left and calls[SCRATCH + 2] == before):
            return ODD
    return calls[SCRATCH + 2]


@device
def _lz4_block(data, size, out, room, calls):
    """Compress one block; return ``size`` where it does not shrink, no number above 0 where that failed.

    As a block by itself, not as the beginning of a stream, the library keeps 16-bit positions of its 64 KiB: that is
    a tenth faster and makes 5 % fewer bytes (records of words, 2026-11-22). It has room for less than ``size`` bytes
    only, as in the library's own frames.
    """
    if calls[LZ4_FAST_CONTEXT]:
        found = _call_6_int(calls[LZ4_FAST], calls[LZ4_FAST_CONTEXT], data, out, size, size - 1, LZ4_ACCELERATION)
        return found if found > 0 else size
    _call_2(calls[LZ4_HIGH_RESET], calls[LZ4_HIGH_CONTEXT], calls[LZ4_LEVEL])
    return _call_5_int(calls[LZ4_HIGH], calls[LZ4_HIGH_CONTEXT], data, out, size, room)


@device
def _lz4(data, size, out, room, calls):
    """Write one frame of independent 64 KiB blocks, with the header that formats 1 and 2 have."""
    if calls[LZ4_FAST_CONTEXT] == 0 and calls[LZ4_HIGH_CONTEXT] == 0:
        return ODD
    store_i32(out, 0, LZ4_MAGIC)
    store_i8(out, 4, LZ4_FLAGS)
    store_i8(out, 5, LZ4_DESCRIPTOR)
    store_i8(out, 6, LZ4_CHECKSUM)
    start, to = np.int64(0), np.int64(7)
    while start < size:
        length = min(size - start, LZ4_BLOCK)
        found = _lz4_block(data + start, length, out + to + 4, room - to - 4, calls)
        if found <= 0:
            return ODD
        if found < length:
            _store_le32(out, to, found)
        else:  # it did not shrink
            found = length
            _store_le32(out, to, length | LZ4_RAW)
            copy_bytes(out, to + 4, data, start, length)
        to += 4 + found
        start += length
    _store_le32(out, to, 0)
    return to + 4


@device
def _gzip(data, size, out, room, calls):
    """Write one member with the header that Java writes."""
    if calls[GZIP_CONTEXT] == 0:
        return ODD
    store_i32(out, 0, GZIP_HEADER)
    store_i32(out, 4, 0)
    store_i8(out, 8, 0)
    store_i8(out, 9, GZIP_SYSTEM)
    found = _call_5(
        calls[GZIP_COMPRESS], calls[GZIP_CONTEXT], data, size, out + GZIP_HEAD, room - GZIP_HEAD - GZIP_TAIL
    )  # fmt: skip
    if found <= 0:
        return ODD
    _store_le32(out, GZIP_HEAD + found, crc32_of(data, 0, size))
    _store_le32(out, GZIP_HEAD + found + 4, size)
    return GZIP_HEAD + found + GZIP_TAIL


@device
def compress_stream(codec, data, size, out, room, calls):
    """Write ``size`` bytes at ``data`` compressed to ``out``; return how many they became, or ``ODD``."""
    if room < most_compressed(size):
        return ODD
    if codec == ZSTD:
        return _zstd(data, size, out, room, calls)
    if codec == LZ4:
        return _lz4(data, size, out, room, calls)
    if codec == GZIP:
        return _gzip(data, size, out, room, calls)
    if codec == 0:
        copy_bytes(out, 0, data, 0, size)
        return size
    return ODD


@kernel(I64(I64, BYTES, OUT_BYTES, OUT_INT64S))
def compress_into(codec, payload, out, calls):
    """Write ``payload`` compressed into ``out`` and return its size, or ``ODD``."""
    return compress_stream(codec, address_of(payload), payload.size, address_of(out), out.size, calls)


@kernel(I64(I64, BYTES, OUT_BYTES, OUT_INT64S))
def compress_batch(codec, plain, out, calls):
    """Write the format 2 batch ``plain`` to ``out`` with its records compressed; return its size, or ``ODD``."""
    size, room = plain.size - V2_HEADER, out.size - V2_HEADER
    if size < 0 or room < 0:
        return ODD
    data, to = address_of(plain), address_of(out)
    found = compress_stream(codec, data + V2_HEADER, size, to + V2_HEADER, room, calls)
    if found < 0:
        return ODD
    copy_bytes(to, 0, data, 0, V2_HEADER)
    return finish_batch(to, 0, V2_HEADER + found)
