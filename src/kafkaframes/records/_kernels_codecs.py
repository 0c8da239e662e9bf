"""Decompress the streams of many batches without Python (numba). Start reading at ``native.py``.

1. The kernels support only intact streams in the forms that most producers write. For all other streams the kernels
   return ``UNUSUAL``, which is not a rejection: the general path (``codecs.decompress``) then reads the stream as
   Kafka's classes do.
2. The kernels decode snappy blocks themselves. For LZ4, zstd and gzip, the kernels call the C libraries in the wheels
   by address. If an address is 0, every stream of that codec is ``UNUSUAL``.
3. The kernels never write more than ``capacity`` bytes to ``out``, and never read after ``end``. Bounds are checked
   before each copy, and the C functions take the capacity as an argument. ``tests/records/test_native.py`` verifies
   these bounds with arbitrary bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from cramjam import DecompressionError, snappy

from kafkaframes.records._kernels_index import SKIPPED
from kafkaframes.records._kernels_scan import (
    ATTRIBUTES,
    CODEC_MASK,
    COUNT,
    I64,
    MAGIC,
    OVERHEAD,
    V0_HEADER,
    V1_HEADER,
)
from kafkaframes.records._kernels_xxhash import load_le16, load_le32, xxh32
from kafkaframes.records.layout import CODECS
from kafkaframes.wire._jit import (
    BYTES,
    OUT_BYTES,
    OUT_INT8S,
    OUT_INT64S,
    TABLE,
    device,
    device_with_plain,
    inline_device,
    intrinsic,
    ir,
    kernel,
    plain,
    types,
)
from kafkaframes.wire._kernels import (
    address_of,
    copy_16,
    copy_bytes,
    load_i32,
    load_u8,
    load_u32,
    store_item_8,
)

# UNUSUAL: the kernels do not support this input, so the general path has to read it. TOO_SMALL: ``out`` is too small.
UNUSUAL, TOO_SMALL = -1, -2
# Slots of a call array: functions, their contexts, and scratch memory for their results.
(
    LZ4_DECOMPRESS,
    ZSTD_DECOMPRESS,
    ZSTD_STREAM,
    ZSTD_RESET,
    ZSTD_CONTEXT,
    GZIP_DECOMPRESS,
    GZIP_CONTEXT,
    SCRATCH,
) = range(8)
CALL_SLOTS = SCRATCH + 6
GZIP, SNAPPY, LZ4, ZSTD = (CODECS.index(name) for name in ("gzip", "snappy", "lz4", "zstd"))
# Streams with a higher ratio take the general path: they may be decompression bombs, which should not be decompressed
# twice.
USUAL_SIZE, USUAL_RATIO = 65536, 32
# Constants of ``_gzip.py``, ``_snappy.py``, ``_lz4.py`` and ``_zstd.py``; a test compares them.
GZIP_HEADER, MIN_GZIP_BYTES = 0x1F8B0800, 18
XERIAL_START, XERIAL_REST, XERIAL_HEADER = 0x82534E41, 0x50505900, 16
MAX_SNAPPY_RATIO = 22
LZ4_MAGIC, LZ4_RAW = 0x04224D18, 1 << 31
# Frame flags: version 1 and independent blocks are required, reserved bits and a dictionary are not allowed.
LZ4_FLAGS, LZ4_FIXED = 0x60, 0xE3
LZ4_BLOCK_CHECKSUMS, LZ4_CONTENT_SIZE, LZ4_CONTENT_CHECKSUM = 0x10, 0x08, 0x04
ZSTD_MAGIC, ZSTD_CHECKSUM, ZSTD_SINGLE, ZSTD_RARE_FLAGS = 0x28B52FFD, 0x04, 0x20, 0x1B
ZSTD_WINDOW, ZSTD_BLOCK, MIN_ZSTD_BYTES = 1 << 27, 1 << 17, 14


def make_call_intrinsic(name: str, count: int, bits: int) -> Any:
    """Return an intrinsic that calls the C function at an address with ``count`` words; the result has ``bits``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        function = ir.FunctionType(ir.IntType(bits), [word] * count).as_pointer()
        value = builder.call(builder.inttoptr(args[0], function), args[1:])
        return value if bits == 64 else builder.sext(value, word)

    def two(typingctx: Any, function: Any, a: Any, b: Any) -> Any:
        return I64(*[I64] * 3), codegen

    def three(typingctx: Any, function: Any, a: Any, b: Any, c: Any) -> Any:
        return I64(*[I64] * 4), codegen

    def four(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return I64(*[I64] * 5), codegen

    def five(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return I64(*[I64] * 6), codegen

    def seven(typingctx: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
        return I64(*[I64] * 8), codegen

    define_call = {2: two, 3: three, 4: four, 5: five, 7: seven}[count]
    define_call.__name__ = name
    return intrinsic(plain.create_call(bits))(define_call)


_call_2, _call_3, _call_5 = (make_call_intrinsic(f"call_{count}", count, 64) for count in (2, 3, 5))
_call_4_int, _call_7_int = (make_call_intrinsic(f"call_{count}_int", count, 32) for count in (4, 7))


# ------------------------------------------------------------------------------------------------- snappy


@inline_device
def _copy_back(out, to, offset, length, capacity):
    """Copy ``length`` (up to 64) bytes of the output from ``offset`` bytes before ``to`` to the position ``to``.

    The output has ``capacity`` bytes after ``to``.
    """
    if offset >= 16 and capacity >= 64:
        copy_16(out, to, out, to - offset)
        if length > 16:
            copy_16(out, to + 16, out, to + 16 - offset)
            if length > 32:
                copy_16(out, to + 32, out, to + 32 - offset)
                copy_16(out, to + 48, out, to + 48 - offset)
    else:
        for here in range(to, to + length):
            store_item_8(out, here, load_u8(out, here - offset))


@device
def _decode_snappy_block(data, position, end, out, size):
    """Decode the elements of a raw snappy block with exactly ``size`` bytes of content, else return ``UNUSUAL``."""
    to = np.int64(0)
    while position < end:
        tag = load_u8(data, position)
        position += 1
        length = (tag >> 2) + 1
        if tag & 3 == 0:
            if length <= 16 and end - position >= 16 and size - to >= 16:
                copy_16(out, to, data, position)
            else:
                if length > 60:
                    extra = length - 60
                    if extra > end - position:
                        return UNUSUAL
                    length = np.int64(1)
                    for index in range(extra):
                        length += load_u8(data, position + index) << (8 * index)
                    position += extra
                if length > end - position or length > size - to:
                    return UNUSUAL
                copy_bytes(out, to, data, position, length)
            position += length
            to += length
            continue
        if tag & 3 == 1:
            if position >= end:
                return UNUSUAL
            length = 4 + ((tag >> 2) & 7)
            offset = (tag >> 5) << 8 | load_u8(data, position)
            position += 1
        elif tag & 3 == 2:
            if end - position < 2:
                return UNUSUAL
            offset = load_le16(data, position)
            position += 2
        else:
            if end - position < 4:
                return UNUSUAL
            offset = load_le32(data, position)
            position += 4
        if offset == 0 or offset > to or length > size - to:
            return UNUSUAL
        _copy_back(out, to, offset, length, size - to)
        to += length
    return to if to == size else UNUSUAL


def _plain_decode_snappy_raw(data: Any, position: Any, end: Any, out: Any, capacity: Any) -> Any:
    """Decode one raw snappy block in Python: the twin of ``_decode_snappy_raw``."""
    block = plain.read_bytes(data, position, end)
    try:
        size = snappy.decompress_raw_len(block)
        if size > capacity or size > len(block) * MAX_SNAPPY_RATIO:
            return UNUSUAL
        content = bytes(snappy.decompress_raw(block))
    except DecompressionError:
        return UNUSUAL
    plain.write_bytes(out, content)
    return np.int64(size)


@device_with_plain(_plain_decode_snappy_raw)
def _decode_snappy_raw(data, position, end, out, capacity):
    """Decode one raw snappy block. An impossible length at its start is rejected before memory is used."""
    start, size = position, np.int64(0)
    for index in range(4):
        if position >= end:
            return UNUSUAL
        byte = load_u8(data, position)
        position += 1
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size > capacity or size > (end - start) * MAX_SNAPPY_RATIO:
                return UNUSUAL
            return _decode_snappy_block(data, position, end, out, size)
    return UNUSUAL


@device
def _decode_snappy(data, start, end, out, capacity):
    """Decode a snappy stream: xerial chunks after a single header, or a raw block."""
    if end - start < 8 or load_u32(data, start) != XERIAL_START or load_u32(data, start + 4) != XERIAL_REST:
        return _decode_snappy_raw(data, start, end, out, capacity)
    position, size = start + XERIAL_HEADER, np.int64(0)
    if position >= end:
        return UNUSUAL
    while position < end:
        if end - position < 4:
            return UNUSUAL
        length = load_u32(data, position)
        position += 4
        if length == 0 or length > end - position:
            return UNUSUAL
        written_bytes = _decode_snappy_raw(data, position, position + length, out + size, capacity - size)
        if written_bytes < 0:
            return UNUSUAL
        size += written_bytes
        position += length
    return size


# ---------------------------------------------------------------------------------------------------- LZ4


@inline_device
def _max_lz4_block_bytes(descriptor):
    """Return the largest block size, in bytes, that an LZ4 block descriptor allows; 0 if Kafka rejects it."""
    return np.int64(1) << (8 + (descriptor >> 3)) if descriptor & 0x0F == 0 and 0x40 <= descriptor <= 0x70 else 0


@device
def _decode_lz4(data, start, end, out, capacity, calls, magic):
    """Decode an LZ4 frame of independent blocks up to its end mark. Bytes after the end mark are ignored.

    As in Kafka, block checksums are verified, and the content checksum and content size are skipped. Format 0 ignores
    the header checksum, which Kafka's own writers computed wrongly (KAFKA-3160).
    """
    if calls[LZ4_DECOMPRESS] == 0 or end - start < 11 or load_u32(data, start) != LZ4_MAGIC:
        return UNUSUAL
    flags = load_u8(data, start + 4)
    largest = _max_lz4_block_bytes(load_u8(data, start + 5))
    position, size = start + 6 + (8 if flags & LZ4_CONTENT_SIZE else 0), np.int64(0)
    if flags & LZ4_FIXED != LZ4_FLAGS or largest == 0 or position >= end:
        return UNUSUAL
    if magic and load_u8(data, position) != xxh32(data, start + 4, position) >> 8 & 0xFF:
        return UNUSUAL
    position += 1
    checksum = 4 if flags & LZ4_BLOCK_CHECKSUMS else 0
    while end - position >= 4:
        word = load_le32(data, position)
        position += 4
        if word == 0:
            return size if flags & LZ4_CONTENT_CHECKSUM == 0 or end - position >= 4 else UNUSUAL
        length = word & ~LZ4_RAW
        if length == 0 or length > largest or length + checksum > end - position:
            return UNUSUAL
        written_bytes = length
        if word & LZ4_RAW:
            if length > capacity - size:
                return UNUSUAL
            copy_bytes(out, size, data, position, length)
        else:
            written_bytes = _call_4_int(
                calls[LZ4_DECOMPRESS], data + position, out + size, length, min(largest, capacity - size)
            )  # fmt: skip
            if written_bytes < 0:
                return UNUSUAL
        size += written_bytes
        position += length
        if checksum:
            if load_le32(data, position) != xxh32(data, position - length, position):
                return UNUSUAL
            position += checksum
    return UNUSUAL


# --------------------------------------------------------------------------------------------------- zstd


@device
def _count_zstd_blocks(data, position, end, checksum, largest):
    """Count the blocks of a zstd frame that ends at ``end``; ``UNUSUAL`` if it does not, or a block is too large."""
    count = 0
    while end - position >= 3:
        header = load_le16(data, position) | load_u8(data, position + 2) << 16
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3 or size > largest:
            return UNUSUAL
        position += 3 + (1 if kind == 1 else size)
        count += 1
        if header & 1:
            return count if position + checksum == end else UNUSUAL
    return UNUSUAL


@device
def _decode_zstd(data, start, end, out, capacity, calls):
    """Decode a zstd stream that is one frame without a dictionary.

    A single block is decoded with one call. Several blocks are decoded as a stream, which alone rejects blocks whose
    content is too large.
    """
    if calls[ZSTD_CONTEXT] == 0 or end - start < MIN_ZSTD_BYTES or load_u32(data, start) != ZSTD_MAGIC:
        return UNUSUAL
    flags = load_u8(data, start + 4)
    if flags & ZSTD_RARE_FLAGS:
        return UNUSUAL
    position, size, window = start + 5, np.int64(-1), np.int64(-1)
    if flags & ZSTD_SINGLE == 0:
        byte = load_u8(data, position)
        window = (np.int64(8) + (byte & 7)) << (7 + (byte >> 3))
        position += 1
    kind = flags >> 6
    if kind == 1:
        size = load_le16(data, position) + 256
        position += 2
    elif kind == 2:
        size = load_le32(data, position)
        position += 4
    elif kind == 3:
        return UNUSUAL  # above 4 GiB
    elif flags & ZSTD_SINGLE:
        size = load_u8(data, position)
        position += 1
    window = size if flags & ZSTD_SINGLE else window
    if window > ZSTD_WINDOW or size > capacity:
        return UNUSUAL
    largest = min(window, ZSTD_BLOCK)
    count = _count_zstd_blocks(data, position, end, 4 if flags & ZSTD_CHECKSUM else 0, largest)
    if count < 1:
        return UNUSUAL
    if count == 1:
        written_bytes = _call_5(
            calls[ZSTD_DECOMPRESS], calls[ZSTD_CONTEXT], out, min(capacity, largest), data + start, end - start
        )  # fmt: skip
        return written_bytes if written_bytes >= 0 else UNUSUAL
    return _decode_zstd_stream(data, start, end, out, capacity, calls)


@device
def _decode_zstd_stream(data, start, end, out, capacity, calls):
    """Decode one zstd frame of several blocks."""
    context, scratch = calls[ZSTD_CONTEXT], address_of(calls) + 8 * SCRATCH
    _call_2(calls[ZSTD_RESET], context, 1)
    calls[SCRATCH], calls[SCRATCH + 1], calls[SCRATCH + 2] = out, capacity, 0
    calls[SCRATCH + 3], calls[SCRATCH + 4], calls[SCRATCH + 5] = data + start, end - start, 0
    if _call_3(calls[ZSTD_STREAM], context, scratch, scratch + 24) != 0 or calls[SCRATCH + 5] != end - start:
        return UNUSUAL
    return calls[SCRATCH + 2]


# --------------------------------------------------------------------------------------------------- gzip


@device
def _decode_gzip(data, start, end, out, capacity, calls):
    """Decode a gzip stream that is one member without optional header fields; its CRC and length are verified.

    libdeflate, like ISA-L in the general path, decodes some bodies that zlib rejects (incomplete codes; 1 in 1,700
    bodies with flipped bits). Only a deliberately crafted member could then have a matching CRC and length.
    """
    if calls[GZIP_CONTEXT] == 0 or end - start < MIN_GZIP_BYTES or load_u32(data, start) != GZIP_HEADER:
        return UNUSUAL
    if load_le32(data, end - 4) > capacity:
        return UNUSUAL
    scratch = address_of(calls) + 8 * SCRATCH
    error = _call_7_int(
        calls[GZIP_DECOMPRESS], calls[GZIP_CONTEXT], data + start, end - start, out, capacity, scratch, scratch + 8
    )  # fmt: skip
    if error or calls[SCRATCH] != end - start:
        return UNUSUAL
    return calls[SCRATCH + 1]


# ---------------------------------------------------------------------------------------------------- all


@kernel(I64(I64, I64, I64, I64, I64, I64, I64, OUT_INT64S))
def decompress_stream(codec, magic, data, start, end, out, capacity, calls):
    """Decompress a supported stream of a batch of format ``magic`` to ``out``; return the size, or ``UNUSUAL``.

    The function is a kernel of its own, so that its code is compiled once and not inlined into its callers.
    """
    if codec == SNAPPY:
        return _decode_snappy(data, start, end, out, capacity)
    if codec == LZ4:
        return _decode_lz4(data, start, end, out, capacity, calls, magic)
    if codec == ZSTD:
        return _decode_zstd(data, start, end, out, capacity, calls)
    if codec == GZIP:
        return _decode_gzip(data, start, end, out, capacity, calls)
    return UNUSUAL


@device
def find_wrapped_value(data, start, end, magic):
    """Return start and end of the value of a compressed message that starts with its CRC; ``UNUSUAL`` if invalid."""
    position = start + (V0_HEADER if magic == 0 else V1_HEADER) - OVERHEAD
    if end - position < 8:
        return UNUSUAL, UNUSUAL
    size = load_i32(data, position)
    position += 4 + max(size, 0)
    if end - position < 4:
        return UNUSUAL, UNUSUAL
    size = load_i32(data, position)
    position += 4
    if size < 0 or size > end - position:
        return UNUSUAL, UNUSUAL
    return position, position + size


@inline_device
def max_fast_path_content_bytes(size, limit):
    """Return the largest content, in bytes, to which the kernels decompress a stream of ``size`` bytes."""
    return min(limit, USUAL_SIZE + USUAL_RATIO * size)


@device
def open_batch(data, start, end, table, row, limit, out, capacity, calls):
    """Decompress the records of a batch to ``out``; return their size, ``UNUSUAL``, or ``TOO_SMALL``."""
    magic, codec = table[MAGIC, row], table[ATTRIBUTES, row] & CODEC_MASK
    if magic < 0 or (magic < 2 and codec == ZSTD) or (magic >= 2 and table[COUNT, row] <= 0):
        return UNUSUAL  # for a batch without records Kafka opens the stream, but reads nothing
    if magic < 2:
        start, end = find_wrapped_value(data, start, end, magic)
        if start < 0:
            return UNUSUAL
    elif start > end:
        return UNUSUAL
    largest = max_fast_path_content_bytes(end - start, limit)
    if largest > capacity:
        return TOO_SMALL
    return decompress_stream(codec, magic, data, start, end, out, largest, calls)


@kernel(types.UniTuple(I64, 3)(BYTES, TABLE, I64, OUT_INT64S, OUT_INT64S, OUT_INT8S, I64, OUT_BYTES, I64, OUT_INT64S))
def open_batches(buf, table, row, starts, ends, kinds, limit, arena, size, calls):
    """Append the records of the batches from ``row`` on to ``arena``, which already holds ``size`` bytes.

    ``starts`` and ``ends`` change from positions in ``buf`` to positions in ``arena``. Returns ``(row, size, reason)``.
    The reason is 0 after the last batch. Any other reason applies to batch ``row``: ``UNUSUAL``, or ``TOO_SMALL`` if
    ``arena`` has no space for it.
    """
    data, out = address_of(buf), address_of(arena)
    while row < starts.size:
        start, end, count = starts[row], ends[row], np.int64(0)
        if kinds[row] != SKIPPED:
            if table[ATTRIBUTES, row] & CODEC_MASK:
                count = open_batch(data, start, end, table, row, limit, out + size, arena.size - size, calls)
                if count < 0:
                    return row, size, count
            else:
                count = max(end - start, 0)
                if count > arena.size - size:
                    return row, size, TOO_SMALL
                copy_bytes(out, size, data, start, count)
        starts[row] = size
        size += count
        ends[row] = size
        row += 1
    return row, size, 0


@kernel(I64(I64, BYTES, OUT_BYTES, I64, OUT_INT64S))
def decompress_into(codec, payload, out, limit, calls):
    """Decompress a supported stream to ``out``; return the size, ``UNUSUAL`` or ``TOO_SMALL``."""
    capacity = max_fast_path_content_bytes(payload.size, limit)
    if capacity > out.size:
        return TOO_SMALL
    return decompress_stream(codec, 2, address_of(payload), 0, payload.size, address_of(out), capacity, calls)
