"""XXH32, the checksum of LZ4 frames (numba), and little-endian integers. ``_kernels_codecs.py`` calls it.

https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; seed 0. No byte after ``end`` is read. Sums are kept in
64-bit integers and masked to 32 bits where higher bits would matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkaframes.records._kernels_scan import I64
from kafkaframes.wire._jit import device, inline_device, intrinsic, ir, plain
from kafkaframes.wire._kernels import _get_byte_pointer, load_u8

_UINT32_MASK = 0xFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393


def _make_load_le(name: str, bits: int) -> Any:
    """Return an intrinsic that loads an unsigned little-endian integer of up to 32 bits at any position."""

    def define_call(typingctx: Any, array: Any, position: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _get_byte_pointer(context, builder, signature.args[0], args[0], args[1])
            value = builder.load(builder.bitcast(pointer, ir.IntType(bits).as_pointer()))
            value.align = 1
            return builder.zext(value, ir.IntType(64))

        return I64(array, I64), codegen

    define_call.__name__ = name
    return intrinsic(plain.create_loader(bits, signed=False, big_endian=False))(define_call)


load_le16, load_le32 = _make_load_le("load_le16", 16), _make_load_le("load_le32", 32)


@inline_device
def _rotate(value, bits):
    return ((value << bits) | (value >> (32 - bits))) & _UINT32_MASK


def _plain_round(lane: Any, word: Any) -> Any:
    product = (int(lane) + int(word) * _P2) & _UINT32_MASK
    return np.int64((product << 13 | product >> 19) * _P1 & _UINT32_MASK)


@intrinsic(_plain_round)
def _mix_word(typingctx: Any, lane: Any, word: Any) -> Any:
    """Mix one word into a lane with 32-bit arithmetic: in 64 bits, the masks took a third of the time."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrow, wide = ir.IntType(32), ir.IntType(64)
        old, more = (builder.trunc(one, narrow) for one in args)
        product = builder.add(old, builder.mul(more, ir.Constant(narrow, _P2)))
        left_bits, right = (ir.Constant(narrow, bits) for bits in (13, 32 - 13))
        rotation = builder.or_(builder.shl(product, left_bits), builder.lshr(product, right))
        return builder.zext(builder.mul(rotation, ir.Constant(narrow, _P1)), wide)

    return I64(I64, I64), codegen


@device
def xxh32(data, start, end):
    """Return the checksum of the bytes from ``start`` to ``end``."""
    position, size = start, end - start
    value = np.int64(_P5)
    if size >= 16:
        first, second, third, fourth = (
            np.int64((_P1 + _P2) & _UINT32_MASK),
            np.int64(_P2),
            np.int64(0),
            np.int64(-_P1 & _UINT32_MASK),
        )
        while end - position >= 16:
            first = _mix_word(first, load_le32(data, position))
            second = _mix_word(second, load_le32(data, position + 4))
            third = _mix_word(third, load_le32(data, position + 8))
            fourth = _mix_word(fourth, load_le32(data, position + 12))
            position += 16
        value = (_rotate(first, 1) + _rotate(second, 7) + _rotate(third, 12) + _rotate(fourth, 18)) & _UINT32_MASK
    value = (value + size) & _UINT32_MASK
    while end - position >= 4:
        value = (_rotate((value + load_le32(data, position) * _P3) & _UINT32_MASK, 17) * _P4) & _UINT32_MASK
        position += 4
    while position < end:
        value = (_rotate((value + load_u8(data, position) * _P5) & _UINT32_MASK, 11) * _P1) & _UINT32_MASK
        position += 1
    value = ((value ^ (value >> 15)) * _P2) & _UINT32_MASK
    value = ((value ^ (value >> 13)) * _P3) & _UINT32_MASK
    return value ^ (value >> 16)
