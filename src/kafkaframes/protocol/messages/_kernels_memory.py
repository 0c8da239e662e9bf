"""Stores at byte addresses, and loads that ``wire._kernels`` lacks, for the message kernels.

A message kernel reads one ``uint8`` array (the messages) and writes another (the arena with every column's Arrow
buffers). The width of an access therefore cannot follow from the array's dtype. Each function compiles to one machine
instruction and checks nothing: **each caller checks bounds first**. Indices are bytes, except in ``at``. Values are
int64.

* ``load_u16``, ``store_i16 store_i32 store_i64``: big-endian, as on Kafka's wire.
* ``get8 get32 get64`` and ``put8 put16 put32 put64``: native byte order, little-endian as in Arrow.
* ``at``: an element of an int64 table.
"""

from __future__ import annotations

from typing import Any

from kafkaframes.wire._jit import intrinsic, ir, plain, types
from kafkaframes.wire._kernels import _get_byte_pointer

_I64 = ir.IntType(64)


def _make_loader(bits: int, *, big_endian: bool, signed: bool, element_bytes: int = 1) -> Any:
    def load(typingctx: Any, array: Any, index: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            index = args[1] if element_bytes == 1 else builder.mul(args[1], ir.Constant(_I64, element_bytes))
            address = _get_byte_pointer(context, builder, signature.args[0], args[0], index)
            value = builder.load(builder.bitcast(address, ir.IntType(bits).as_pointer()))
            value.align = 1
            if big_endian and bits > 8:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, _I64) if signed else builder.zext(value, _I64)

        return types.int64(array, types.int64), codegen

    in_python = plain.create_loader(bits, signed=signed, big_endian=big_endian, element_bytes=element_bytes)
    return intrinsic(in_python)(load)


def _storer(bits: int, *, big_endian: bool = False) -> Any:
    def store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            address = _get_byte_pointer(context, builder, signature.args[0], args[0], args[1])
            value = builder.trunc(args[2], ir.IntType(bits)) if bits < 64 else args[2]
            if big_endian and bits > 8:
                value = builder.bswap(value)
            done = builder.store(value, builder.bitcast(address, ir.IntType(bits).as_pointer()))
            done.align = 1
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), codegen

    return intrinsic(plain.create_storer(bits, big_endian=big_endian))(store)


load_u16 = _make_loader(16, big_endian=True, signed=False)
get8 = _make_loader(8, big_endian=False, signed=False)
get32 = _make_loader(32, big_endian=False, signed=True)
get64 = _make_loader(64, big_endian=False, signed=True)
at = _make_loader(64, big_endian=False, signed=True, element_bytes=8)

put8 = _storer(8)
put16 = _storer(16)
put32 = _storer(32)
put64 = _storer(64)
store_i16 = _storer(16, big_endian=True)
store_i32 = _storer(32, big_endian=True)
store_i64 = _storer(64, big_endian=True)
