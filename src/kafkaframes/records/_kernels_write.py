"""Write batches, messages and records, field by field (numba). No other kernel writes Kafka's formats.

The kernels that build (``_kernels_build.py``), append and rewrite batches call these functions. Python code does not
call them.

1. ``out`` and the sources of bytes are addresses (``address_of``): passing an array costs two atomic operations per
   call.
2. A writer returns the position after the written bytes. The caller ensures that ``out`` is large enough: in addition
   to keys, values and headers, a record takes at most ``MAX_RECORD_OVERHEAD_BYTES`` bytes, and a message
   ``V1_HEADER + LENGTH_FIELDS_BYTES``.
3. A size of -1 means null; smaller sizes do not occur. ``layout.py`` has the positions of header fields.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
    V2_BASE_SEQUENCE,
    V2_BASE_TIMESTAMP,
    V2_COUNT,
    V2_CRC,
    V2_CRC_FROM,
    V2_DELTA,
    V2_EPOCH,
    V2_HEADER,
    V2_MAX_TIMESTAMP,
    V2_PRODUCER_EPOCH,
    V2_PRODUCER_ID,
)
from kafkaframes.wire._jit import device, intrinsic, ir, plain, types
from kafkaframes.wire._kernels import copy_bytes, crc32_of, crc32c_of

MAX_RECORD_OVERHEAD_BYTES = (
    36  # five varints of 5 bytes (length, offset, key, value, headers), one of 10, the attributes
)


def _make_store(name: str, bits: int) -> Any:
    """Return an intrinsic that stores a big-endian integer of ``bits`` at a position after an address."""

    def define_call(typingctx: Any, address: Any, position: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            width = ir.IntType(bits)
            start = builder.inttoptr(args[0], ir.IntType(8).as_pointer())
            pointer = builder.bitcast(builder.gep(start, [args[1]]), width.as_pointer())
            value = args[2] if bits == 64 else builder.trunc(args[2], width)
            builder.store(value if bits == 8 else builder.bswap(value), pointer).align = 1
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64), codegen

    define_call.__name__ = name
    return intrinsic(plain.create_storer(bits, big_endian=True))(define_call)


store_i8, store_i16 = _make_store("store_i8", 8), _make_store("store_i16", 16)
store_i32, store_i64 = _make_store("store_i32", 32), _make_store("store_i64", 64)


@intrinsic(lambda value: np.int64(max(int(value).bit_length(), 1)))
def _significant_bits(typingctx: Any, value: Any) -> Any:
    """Return the number of significant bits; 1 for the value 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(64)
        zeros = builder.ctlz(builder.or_(args[0], wide(1)), ir.IntType(1)(1))
        return builder.sub(wide(64), zeros)

    return types.int64(types.uint64), codegen


# ------------------------------------------------------------------------------------------- integers and bytes


@device
def varint_size(value):
    """Return the size of a zigzag varint (32 or 64 bits), in bytes."""
    bits = _significant_bits(np.uint64((value << 1) ^ (value >> 63)))
    return (bits * 9 + 64) >> 6  # = (bits + 6) // 7 for 1 to 64


@device
def write_varint(out, position, value):
    """Write a zigzag varint (32 or 64 bits)."""
    bits = np.uint64((value << 1) ^ (value >> 63))
    while bits >= np.uint64(0x80):
        store_i8(out, position, np.int64(bits | np.uint64(0x80)))
        bits >>= np.uint64(7)
        position += 1
    store_i8(out, position, np.int64(bits))
    return position + 1


@device
def blob_size(size):
    """Return the size of a byte string and of the varint before it, in bytes."""
    return 1 if size < 0 else varint_size(size) + size


@device
def write_blob(out, position, source, at, size):
    """Write the size of a byte string as a varint, and then its bytes, as in format 2."""
    position = write_varint(out, position, size)
    if size > 0:
        copy_bytes(out, position, source, at, size)
        return position + size
    return position


@device
def _write_sized(out, position, source, at, size):
    """Write the size of a byte string in four bytes, and then its bytes, as in formats 0 and 1."""
    store_i32(out, position, size)
    if size > 0:
        copy_bytes(out, position + 4, source, at, size)
        return position + 4 + size
    return position + 4


# ----------------------------------------------------------------------------------------------------- format 2


@device
def record_size(timestamp_delta, offset_delta, key_size, value_size):
    """Return the size of a record's body (without the length before it), without its headers and their count."""
    size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    return size + blob_size(key_size) + blob_size(value_size)


@device
def write_record(
    out, position, size, timestamp_delta, offset_delta, keys, key_at, key_size, values, value_at, value_size
):
    """Write a record up to its headers.

    ``size`` is the size of the whole body, including the headers and their count.
    """
    position = write_varint(out, position, size)
    store_i8(out, position, 0)  # attributes, unused
    position = write_varint(out, position + 1, timestamp_delta)
    position = write_varint(out, position, offset_delta)
    position = write_blob(out, position, keys, key_at, key_size)
    return write_blob(out, position, values, value_at, value_size)


@device
def write_batch_header(
    out, at, base_offset, leader_epoch, attributes, last_offset_delta, base_timestamp, max_timestamp,
    producer_id, producer_epoch, base_sequence, count,
):  # fmt: skip
    """Write the header of a batch without size and CRC; return the position of the records."""
    store_i64(out, at, base_offset)
    store_i32(out, at + V2_EPOCH, leader_epoch)
    store_i8(out, at + AT_MAGIC, 2)
    store_i16(out, at + V2_ATTRIBUTES, attributes)
    store_i32(out, at + V2_DELTA, last_offset_delta)
    store_i64(out, at + V2_BASE_TIMESTAMP, base_timestamp)
    store_i64(out, at + V2_MAX_TIMESTAMP, max_timestamp)
    store_i64(out, at + V2_PRODUCER_ID, producer_id)
    store_i16(out, at + V2_PRODUCER_EPOCH, producer_epoch)
    store_i32(out, at + V2_BASE_SEQUENCE, base_sequence)
    store_i32(out, at + V2_COUNT, count)
    return at + V2_HEADER


@device
def finish_batch(out, at, end):
    """Set size and CRC of a batch that ends at ``end``, and return its size."""
    store_i32(out, at + AT_SIZE, end - at - OVERHEAD)
    store_i32(out, at + V2_CRC, crc32c_of(out, at + V2_CRC_FROM, end))
    return end - at


# ------------------------------------------------------------------------------------------------ formats 0 and 1


@device
def message_size(magic, key_size, value_size):
    """Return the size of a whole message."""
    return (V1_HEADER if magic else V0_HEADER) + LENGTH_FIELDS_BYTES + max(key_size, 0) + max(value_size, 0)


@device
def _write_message_header(out, at, magic, attributes, offset, timestamp):
    """Write the header of a message without size and CRC; return the position of the key. Format 0 has no timestamp."""
    store_i64(out, at, offset)
    store_i8(out, at + AT_MAGIC, magic)
    store_i8(out, at + OLD_ATTRIBUTES, attributes)
    if magic:
        store_i64(out, at + OLD_TIMESTAMP, timestamp)
        return at + V1_HEADER
    return at + V0_HEADER


@device
def _finish_message(out, at, end):
    """Set size and CRC of a message that ends at ``end``, and return its end."""
    store_i32(out, at + AT_SIZE, end - at - OVERHEAD)
    store_i32(out, at + OLD_CRC, crc32_of(out, at + OLD_CRC_FROM, end))
    return end


@device
def write_message(out, at, magic, attributes, offset, timestamp, keys, key_at, key_size, values, value_at, value_size):
    """Write one whole message."""
    position = _write_message_header(out, at, magic, attributes, offset, timestamp)
    position = _write_sized(out, position, keys, key_at, key_size)
    position = _write_sized(out, position, values, value_at, value_size)
    return _finish_message(out, at, position)


@device
def wrapper_header_size(magic):
    """Return the size of the bytes before the compressed messages in a wrapper."""
    return (V1_HEADER if magic else V0_HEADER) + LENGTH_FIELDS_BYTES


@device
def finish_wrapper(out, at, magic, attributes, offset, timestamp, size):
    """Write the header of a wrapper before ``size`` bytes of compressed messages that are already in place.

    A wrapper has a null key, the offset of its last message and the largest timestamp. Returns the end of the wrapper.
    """
    position = _write_message_header(out, at, magic, attributes, offset, timestamp)
    store_i32(out, position, -1)
    store_i32(out, position + 4, size)
    return _finish_message(out, at, position + LENGTH_FIELDS_BYTES + size)
