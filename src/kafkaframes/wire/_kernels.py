"""Loads, stores, copies, varints and checksums for kernels (numba).

``varint.py`` and ``checksum.py`` contain the same functions in plain Python and are easier to read;
``tests/wire/test_kernels.py`` compares both. Only kernel files import this module.

1. Loads do not check bounds. The caller compares the position with the end.
2. Varint readers return ``(status, value, next_position)``, never raise, and never read beyond ``end``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkaframes.wire._jit import (
    BYTES,
    cgutils,
    defer_table,
    device,
    device_with_plain,
    has_carryless_multiplication,
    has_crc32c,
    intrinsic,
    ir,
    kernel,
    plain,
    types,
)

OK, TRUNCATED, OVERLONG = 0, 1, 2

# Whether the processor has the CRC-32C instruction of SSE 4.2. Without it, the checksum uses tables.
HAS_CRC32C = has_crc32c()
# Whether the processor has carry-less multiplication, with which CRC-32 processes 16 bytes at a time.
HAS_CARRYLESS_MULTIPLICATION = has_carryless_multiplication()


def _get_byte_pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    """Return a pointer to a byte of an array. ``array`` is an array or its address (int64)."""
    if isinstance(array_type, types.Integer):
        return builder.gep(builder.inttoptr(array, ir.IntType(8).as_pointer()), [position])
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [position])


def _create_load(name: str, bits: int, result: Any, *, signed: bool) -> Any:
    """Return an intrinsic that loads a big-endian integer of ``bits`` at any position."""

    def define_load(typingctx: Any, array: Any, position: Any) -> Any:
        def generate_load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            width = ir.IntType(bits)
            pointer = builder.bitcast(
                _get_byte_pointer(context, builder, signature.args[0], args[0], args[1]), width.as_pointer()
            )
            value = builder.load(pointer)
            value.align = 1
            if bits > 8:
                value = builder.bswap(value)
            extend = builder.sext if signed else builder.zext
            return value if bits == 64 else extend(value, ir.IntType(64))

        return result(array, types.int64), generate_load

    define_load.__name__ = name
    return intrinsic(plain.create_loader(bits, signed=signed))(define_load)


load_u8 = _create_load("load_u8", 8, types.int64, signed=False)
load_i8 = _create_load("load_i8", 8, types.int64, signed=True)
load_i16 = _create_load("load_i16", 16, types.int64, signed=True)
load_i32 = _create_load("load_i32", 32, types.int64, signed=True)
load_u32 = _create_load("load_u32", 32, types.int64, signed=False)
load_i64 = _create_load("load_i64", 64, types.int64, signed=True)


def _create_store(name: str, bits: int) -> Any:
    """Return an intrinsic that stores an element of ``bits`` in an array or at an address."""

    def define_store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        def generate_store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            width = ir.IntType(bits)
            start = _get_byte_pointer(context, builder, signature.args[0], args[0], ir.Constant(ir.IntType(64), 0))
            pointer = builder.gep(builder.bitcast(start, width.as_pointer()), [args[1]])
            builder.store(args[2] if bits == 64 else builder.trunc(args[2], width), pointer).align = 1
            return context.get_dummy_value()

        return types.none(array, types.int64, types.int64), generate_store

    define_store.__name__ = name
    return intrinsic(plain.create_storer(bits, big_endian=False, element_bytes=bits // 8))(define_store)


store_item_8, store_item_32, store_item_64 = (_create_store(f"store_item_{bits}", bits) for bits in (8, 32, 64))


@intrinsic(plain.address_of)
def address_of(typingctx: Any, array: Any) -> Any:
    """Return the address of an array's first byte as an int64. The loads accept it instead of the array.

    A call with arrays costs two atomic operations per array unless numba can prove that they cancel out (measured:
    20 ns per call). A call with addresses costs nothing.
    """

    def generate_address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate_address


@intrinsic(plain.load_u64_le)
def _load_u64_le(typingctx: Any, array: Any, position: Any) -> Any:
    def generate_load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _get_byte_pointer(context, builder, signature.args[0], args[0], args[1])
        value = builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()))
        value.align = 1
        return value

    return types.uint64(array, types.int64), generate_load


@intrinsic(plain.copy_bytes)
def copy_bytes(typingctx: Any, target: Any, to: Any, source: Any, start: Any, size: Any) -> Any:
    """Copy ``source[start:start + size]`` to ``target[to:]`` with LLVM's memcpy, without numba's overlap checks."""

    def generate_copy(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there = _get_byte_pointer(context, builder, signature.args[0], args[0], args[1])
        here = _get_byte_pointer(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, there, here, args[4], 1)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), generate_copy


def _create_copy(size: int) -> Any:
    """Return an intrinsic that copies ``size`` bytes with one load and one store. Both arrays must contain them."""

    def define_copy(typingctx: Any, target: Any, to: Any, source: Any, start: Any) -> Any:
        def generate_copy(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            block = ir.VectorType(ir.IntType(8), size).as_pointer()
            there = builder.bitcast(_get_byte_pointer(context, builder, signature.args[0], args[0], args[1]), block)
            here = builder.bitcast(_get_byte_pointer(context, builder, signature.args[2], args[2], args[3]), block)
            value = builder.load(here)
            value.align = 1
            builder.store(value, there).align = 1
            return context.get_dummy_value()

        return types.none(target, types.int64, source, types.int64), generate_copy

    define_copy.__name__ = f"copy_{size}"
    return intrinsic(lambda target, to, source, start: plain.copy_bytes(target, to, source, start, size))(define_copy)


copy_16, copy_32 = _create_copy(16), _create_copy(32)


# ----------------------------------------------------------------------------------------------- varints


@device
def read_unsigned_varint(buf, position, end):
    """Read an unsigned 32-bit varint. The value is not converted to Java's signed int."""
    if position >= end:
        return TRUNCATED, 0, position
    byte = load_u8(buf, position)
    if byte < 0x80:
        return OK, byte, position + 1
    value = byte & 0x7F
    shift = 7
    for here in range(position + 1, position + 5):
        if here >= end:
            return TRUNCATED, 0, position
        byte = load_u8(buf, here)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return OK, value & 0xFFFFFFFF, here + 1
        shift += 7
    return OVERLONG, 0, position


@device
def read_varint(buf, position, end):
    """Read a zigzag-encoded int32."""
    status, value, position = read_unsigned_varint(buf, position, end)
    return status, (value >> 1) ^ -(value & 1), position


@device
def read_varlong(buf, position, end):
    """Read a zigzag-encoded int64."""
    if position >= end:
        return TRUNCATED, 0, position
    byte = load_u8(buf, position)
    if byte < 0x80:
        return OK, (byte >> 1) ^ -(byte & 1), position + 1
    value = np.uint64(byte & 0x7F)
    shift = np.uint64(7)
    for here in range(position + 1, position + 10):
        if here >= end:
            return TRUNCATED, 0, position
        byte = load_u8(buf, here)
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return OK, np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), here + 1
        shift += np.uint64(7)
    return OVERLONG, 0, position


# --------------------------------------------------------------------------------------------- checksums


def _compute_slice_tables(polynomial: int, count: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the tables that advance a reflected CRC over ``count`` bytes at once."""
    tables = np.zeros((count, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        tables[0, byte] = value
    for index in range(1, count):
        below = tables[index - 1]
        tables[index] = (below >> np.uint32(8)) ^ tables[0, below & np.uint32(0xFF)]
    return tables


def _compute_zero_tables(polynomial: int, size: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return four tables, one per byte of the CRC, that advance a reflected CRC over ``size`` zero bytes."""

    def multiply(matrix: list[int], vector: int) -> int:
        result = 0
        for row in matrix:
            if vector & 1:
                result ^= row
            vector >>= 1
        return result

    matrix = [polynomial] + [1 << bit for bit in range(31)]  # one zero bit
    power: list[int] | None = None
    bits = size * 8
    while bits:
        if bits & 1:
            power = matrix if power is None else [multiply(matrix, row) for row in power]
        matrix = [multiply(matrix, row) for row in matrix]
        bits >>= 1
    assert power is not None
    tables = np.zeros((4, 256), np.uint32)
    for byte in range(256):
        for index in range(4):
            tables[index, byte] = multiply(power, byte << (8 * index))
    return tables


_CRC32_TABLES = defer_table(_compute_slice_tables, 0xEDB88320, 16)
_CRC32C_TABLES = defer_table(_compute_slice_tables, 0x82F63B78, 16)
_LONG, _SHORT = 2048, 256  # sizes in bytes of the three interleaved streams
_OVER_LONG, _OVER_SHORT = (
    defer_table(_compute_zero_tables, 0x82F63B78, _LONG),
    defer_table(_compute_zero_tables, 0x82F63B78, _SHORT),
)


@device
def _crc_of_16(low, high, tables):
    """Return the CRC of 16 bytes that are already XORed with the CRC of the bytes before them."""
    byte = np.uint64(0xFF)
    return np.uint64(
        tables[15, low & byte]
        ^ tables[14, (low >> np.uint64(8)) & byte]
        ^ tables[13, (low >> np.uint64(16)) & byte]
        ^ tables[12, (low >> np.uint64(24)) & byte]
        ^ tables[11, (low >> np.uint64(32)) & byte]
        ^ tables[10, (low >> np.uint64(40)) & byte]
        ^ tables[9, (low >> np.uint64(48)) & byte]
        ^ tables[8, low >> np.uint64(56)]
        ^ tables[7, high & byte]
        ^ tables[6, (high >> np.uint64(8)) & byte]
        ^ tables[5, (high >> np.uint64(16)) & byte]
        ^ tables[4, (high >> np.uint64(24)) & byte]
        ^ tables[3, (high >> np.uint64(32)) & byte]
        ^ tables[2, (high >> np.uint64(40)) & byte]
        ^ tables[1, (high >> np.uint64(48)) & byte]
        ^ tables[0, high >> np.uint64(56)]
    )


@device
def _continue_crc(buf, position, end, value, tables):
    """Advance the CRC ``value`` over ``buf[position:end]``."""
    byte = np.uint64(0xFF)
    while position + 16 <= end:
        value = _crc_of_16(_load_u64_le(buf, position) ^ value, _load_u64_le(buf, position + 8), tables)
        position += 16
    if position + 8 <= end:
        low = _load_u64_le(buf, position) ^ value
        value = np.uint64(
            tables[7, low & byte]
            ^ tables[6, (low >> np.uint64(8)) & byte]
            ^ tables[5, (low >> np.uint64(16)) & byte]
            ^ tables[4, (low >> np.uint64(24)) & byte]
            ^ tables[3, (low >> np.uint64(32)) & byte]
            ^ tables[2, (low >> np.uint64(40)) & byte]
            ^ tables[1, (low >> np.uint64(48)) & byte]
            ^ tables[0, low >> np.uint64(56)]
        )
        position += 8
    while position < end:
        value = (value >> np.uint64(8)) ^ np.uint64(tables[0, (value ^ np.uint64(load_u8(buf, position))) & byte])
        position += 1
    return np.int64(value ^ np.uint64(0xFFFFFFFF))


@device
def _crc_by_tables(buf, start, end, tables):
    return _continue_crc(buf, start, end, np.uint64(0xFFFFFFFF), tables)


def _plain_crc32(buf: Any, start: Any, end: Any) -> Any:
    from kafkaframes.wire import checksum

    return np.int64(checksum.crc32(plain.read_bytes(buf, start, end)))


def _plain_crc32c(buf: Any, start: Any, end: Any) -> Any:
    from kafkaframes.wire import checksum

    return np.int64(checksum.crc32c(plain.read_bytes(buf, start, end)))


@device_with_plain(_plain_crc32)
def _crc32_by_tables(buf, start, end):
    return _crc_by_tables(buf, start, end, _CRC32_TABLES)


@intrinsic(plain.reject_call)
def _multiply_carryless(typingctx: Any, low: Any, high: Any, by_low: Any, by_high: Any) -> Any:
    """Multiply two 64-bit polynomials by two others without carries, and add the 128-bit products."""

    def generate_multiplication(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair = ir.VectorType(ir.IntType(64), 2)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(pair, [pair, pair, ir.IntType(8)]), "llvm.x86.pclmulqdq"
        )
        value, by = (_create_pair(builder, pair, *args[:2]), _create_pair(builder, pair, *args[2:]))
        products = [builder.call(function, [value, by, ir.Constant(ir.IntType(8), which)]) for which in (0x00, 0x11)]
        both = builder.xor(*products)
        parts = [builder.extract_element(both, ir.Constant(ir.IntType(32), which)) for which in (0, 1)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.uint64, 2)(
        types.uint64, types.uint64, types.uint64, types.uint64
    ), generate_multiplication


def _create_pair(builder: Any, pair: Any, low: Any, high: Any) -> Any:
    value = builder.insert_element(ir.Constant(pair, ir.Undefined), low, ir.Constant(ir.IntType(32), 0))
    return builder.insert_element(value, high, ir.Constant(ir.IntType(32), 1))


def _compute_power(bits: int) -> Any:
    """Return x^bits modulo the polynomial of CRC-32, reflected, in the form for carry-less multiplication."""
    value = 1 << 31
    for _ in range(bits):
        value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    return np.uint64(value << 1)


# Factors that advance the lower and the higher half of 16 bytes over 64 bytes, and over 16 bytes.
_BY_64, _BY_64_HIGH, _BY_16, _BY_16_HIGH = (_compute_power(bits) for bits in (512 + 32, 512 - 32, 128 + 32, 128 - 32))


@device_with_plain(_plain_crc32)
def _crc32_by_folding(buf, start, end):
    """Return the CRC-32. Fold all but the last bytes into 16 bytes with the same CRC, in four lanes if possible."""
    if end - start < 32:
        return _crc_by_tables(buf, start, end, _CRC32_TABLES)
    low, high = _load_u64_le(buf, start) ^ np.uint64(0xFFFFFFFF), _load_u64_le(buf, start + 8)
    position = start + 16
    if end - start >= 128:
        low1, high1 = _load_u64_le(buf, start + 16), _load_u64_le(buf, start + 24)
        low2, high2 = _load_u64_le(buf, start + 32), _load_u64_le(buf, start + 40)
        low3, high3 = _load_u64_le(buf, start + 48), _load_u64_le(buf, start + 56)
        position = start + 64
        while position + 64 <= end:
            low, high = _multiply_carryless(low, high, _BY_64, _BY_64_HIGH)
            low1, high1 = _multiply_carryless(low1, high1, _BY_64, _BY_64_HIGH)
            low2, high2 = _multiply_carryless(low2, high2, _BY_64, _BY_64_HIGH)
            low3, high3 = _multiply_carryless(low3, high3, _BY_64, _BY_64_HIGH)
            low, high = low ^ _load_u64_le(buf, position), high ^ _load_u64_le(buf, position + 8)
            low1, high1 = low1 ^ _load_u64_le(buf, position + 16), high1 ^ _load_u64_le(buf, position + 24)
            low2, high2 = low2 ^ _load_u64_le(buf, position + 32), high2 ^ _load_u64_le(buf, position + 40)
            low3, high3 = low3 ^ _load_u64_le(buf, position + 48), high3 ^ _load_u64_le(buf, position + 56)
            position += 64
        low, high = _multiply_carryless(low, high, _BY_16, _BY_16_HIGH)
        low, high = _multiply_carryless(low ^ low1, high ^ high1, _BY_16, _BY_16_HIGH)
        low, high = _multiply_carryless(low ^ low2, high ^ high2, _BY_16, _BY_16_HIGH)
        low, high = low ^ low3, high ^ high3
    while position + 16 <= end:
        low, high = _multiply_carryless(low, high, _BY_16, _BY_16_HIGH)
        low, high = low ^ _load_u64_le(buf, position), high ^ _load_u64_le(buf, position + 8)
        position += 16
    return _continue_crc(buf, position, end, _crc_of_16(low, high, _CRC32_TABLES), _CRC32_TABLES)


crc32_of = _crc32_by_folding if HAS_CARRYLESS_MULTIPLICATION else _crc32_by_tables


def _create_crc_step(name: str, bits: int) -> Any:
    def define_step(typingctx: Any, value: Any, data: Any) -> Any:
        def generate_step(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            wide, narrow = ir.IntType(64), ir.IntType(32)
            if bits == 64:
                function = cgutils.get_or_insert_function(
                    builder.module, ir.FunctionType(wide, [wide, wide]), "llvm.x86.sse42.crc32.64.64"
                )
                return builder.call(function, args)
            byte = ir.IntType(8)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(narrow, [narrow, byte]), "llvm.x86.sse42.crc32.32.8"
            )
            value = builder.call(function, [builder.trunc(args[0], narrow), builder.trunc(args[1], byte)])
            return builder.zext(value, wide)

        return types.uint64(types.uint64, types.uint64), generate_step

    define_step.__name__ = name
    return intrinsic(plain.reject_call)(define_step)


_crc_8_bytes, _crc_1_byte = _create_crc_step("crc_8_bytes", 64), _create_crc_step("crc_1_byte", 8)


@device
def _advance_crc(value, tables):
    byte = np.uint64(0xFF)
    return np.uint64(
        tables[0, value & byte]
        ^ tables[1, (value >> np.uint64(8)) & byte]
        ^ tables[2, (value >> np.uint64(16)) & byte]
        ^ tables[3, (value >> np.uint64(24)) & byte]
    )


@device
def _advance_three_streams(buf, position, end, value, size, tables):
    """Process three parts in parallel: the instruction has a latency of three cycles, and one can start per cycle."""
    while position + 3 * size <= end:
        second, third = np.uint64(0), np.uint64(0)
        for here in range(position, position + size, 8):
            value = _crc_8_bytes(value, _load_u64_le(buf, here))
            second = _crc_8_bytes(second, _load_u64_le(buf, here + size))
            third = _crc_8_bytes(third, _load_u64_le(buf, here + 2 * size))
        value = _advance_crc(_advance_crc(value, tables) ^ second, tables) ^ third
        position += 3 * size
    return position, value


@device_with_plain(_plain_crc32c)
def _crc32c_by_instruction(buf, start, end):
    position, value = _advance_three_streams(buf, start, end, np.uint64(0xFFFFFFFF), _LONG, _OVER_LONG)
    position, value = _advance_three_streams(buf, position, end, value, _SHORT, _OVER_SHORT)
    while position + 8 <= end:
        value = _crc_8_bytes(value, _load_u64_le(buf, position))
        position += 8
    while position < end:
        value = _crc_1_byte(value, np.uint64(load_u8(buf, position)))
        position += 1
    return np.int64(value ^ np.uint64(0xFFFFFFFF))


@device_with_plain(_plain_crc32c)
def _crc32c_by_tables(buf, start, end):
    return _crc_by_tables(buf, start, end, _CRC32C_TABLES)


crc32c_of = _crc32c_by_instruction if HAS_CRC32C else _crc32c_by_tables


# ------------------------------------------------------------------- kernels for tests of the functions above


@kernel(types.UniTuple(types.int64, 3)(BYTES, types.int64, types.int64))
def varint_at(buf, position, end):
    return read_varint(buf, position, end)


@kernel(types.UniTuple(types.int64, 3)(BYTES, types.int64, types.int64))
def varlong_at(buf, position, end):
    return read_varlong(buf, position, end)


@kernel(types.int64(BYTES, types.int64, types.int64))
def crc32(buf, start, end):
    return crc32_of(buf, start, end)


@kernel(types.int64(BYTES, types.int64, types.int64))
def crc32_by_tables(buf, start, end):
    return _crc32_by_tables(buf, start, end)


@kernel(types.int64(BYTES, types.int64, types.int64))
def crc32c(buf, start, end):
    return crc32c_of(buf, start, end)


@kernel(types.int64(BYTES, types.int64, types.int64))
def crc32c_by_tables(buf, start, end):
    return _crc32c_by_tables(buf, start, end)
