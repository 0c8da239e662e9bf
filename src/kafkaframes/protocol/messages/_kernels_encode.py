"""The table-driven encoder: reads an arena by the same programs with which ``_kernels_decode.py`` fills one.

``_gather.py`` copies the Arrow input to the arena and validates it (nulls, lengths, order of unknown tags). The caller
allocates ``out`` for the largest possible size. Encoding therefore cannot fail.

As in Kafka's writers, tagged fields that differ from their defaults are written first, in ascending order. Unknown tags
follow, whatever their numbers. A tag's size precedes its payload: one byte is reserved for it, and the payload is moved
if the size needs more.
"""

from __future__ import annotations

from kafkaframes.protocol.messages._kernels_decode import FRAME_WORDS, is_default
from kafkaframes.protocol.messages._kernels_memory import (
    at,
    get8,
    get32,
    get64,
    put8,
    put64,
    store_i16,
    store_i32,
    store_i64,
)
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import address_of, copy_bytes


@device
def write_varint(out, pos, value):
    while value >= 0x80:
        put8(out, pos, (value & 0x7F) | 0x80)
        value >>= 7
        pos += 1
    put8(out, pos, value)
    return pos + 1


@device
def write_length(out, pos, length, flags):
    """Write a length or count (-1: null): compact, int16 (flag 4) or int32."""
    if flags & 1:
        return write_varint(out, pos, length + 1)
    if flags & 4:
        store_i16(out, pos, length)
        return pos + 2
    store_i32(out, pos, length)
    return pos + 4


@device
def bit_at(arena, base, row):
    return (get8(arena, base + (row >> 3)) >> (row & 7)) & 1


@device
def write_fixed(out, pos, arena, source, count, width):
    if width == 4:
        for k in range(count):
            store_i32(out, pos + k * 4, get32(arena, source + k * 4))
    elif width == 8:
        for k in range(count):
            store_i64(out, pos + k * 8, get64(arena, source + k * 8))
    elif width == 2:
        for k in range(count):
            store_i16(out, pos + k * 2, get32(arena, source + k * 2))
    else:
        copy_bytes(out, pos, arena, source, count * width)
    return pos + count * width


@device
def close_tag(out, start, end):
    """Write the payload's size before ``start:end``; move the payload if the size needs more bytes. Return its end."""
    size = end - start
    more = 0
    left = size >> 7
    while left:
        more += 1
        left >>= 7
    if more:
        for k in range(size - 1, -1, -1):
            put8(out, start + more + k, get8(out, start + k))
    write_varint(out, start - 1, size)
    return end + more


@device
def next_tag(ops, columns, tags, consts, addresses, arena, table, size, tag, level, row):
    """Return the first tag from ``tag`` on whose field differs from its default; ``size`` if none does."""
    while tag < size:
        entry = at(tags, table + tag)
        if entry >= 0:
            mark = (entry - 1) * 8
            first, last = at(ops, mark + 1), at(ops, mark + 2)
            if not is_default(columns, addresses, consts, arena, first, last, level, row):
                return tag
        tag += 1
    return size


_SIGNATURE = types.int64(
    INT64S, INT64S, INT64S, BYTES, INT64S, BYTES, BYTES, types.int64, OUT_BYTES, OUT_INT64S, OUT_INT64S
)


@kernel(_SIGNATURE)
def encode(ops_, columns_, tags_, consts_, addresses_, arena_, present, count, out_, ends, stack):
    """Encode rows ``0:count``; rows that are not present have no bytes. Arguments: see ``_kernels_decode``."""
    ops, columns, tags, consts = address_of(ops_), address_of(columns_), address_of(tags_), address_of(consts_)
    addresses, arena, out = address_of(addresses_), address_of(arena_), address_of(out_)
    pos = 0
    for i in range(count):
        row = i
        level = 0
        sp = 0
        pc = 0
        while present[i]:
            entry = pc * 8
            op = at(ops, entry)
            column = at(ops, entry + 1)
            base = at(ops, entry + 5)
            pc += 1
            if op == 3:
                store_i32(out, pos, get32(arena, base + row * 4))
                pos += 4
            elif op == 2:
                store_i16(out, pos, get32(arena, base + row * 2))
                pos += 2
            elif op == 9:  # VAR
                flags = at(ops, entry + 2)
                if flags & 2 and not bit_at(arena, at(ops, entry + 6), row):
                    pos = write_length(out, pos, -1, flags)
                else:
                    start = get32(arena, base + row * 4)
                    size = get32(arena, base + row * 4 + 4) - start
                    pos = write_length(out, pos, size, flags)
                    copy_bytes(out, pos, arena, at(ops, entry + 7) + start, size)
                    pos += size
            elif op == 12 or op == 10:  # FIXED_ARRAY, ARRAY
                flags = at(ops, entry + 2)
                start = get32(arena, base + row * 4)
                size = get32(arena, base + row * 4 + 4) - start
                if flags & 2 and not bit_at(arena, at(ops, entry + 6), row):
                    pos = write_length(out, pos, -1, flags & 3)
                    size = 0
                else:
                    pos = write_length(out, pos, size, flags & 3)
                if op == 12:
                    width = flags >> 8
                    pos = write_fixed(out, pos, arena, at(ops, entry + 7) + start * width, size, width)
                elif size == 0:
                    pc = at(ops, entry + 3)
                else:
                    stack[sp] = row
                    stack[sp + 1] = start + size
                    stack[sp + 2] = level
                    sp += FRAME_WORDS
                    row = start
                    level = at(ops, entry + 4)
            elif op == 11:  # NEXT
                row += 1
                if row < stack[sp - 3]:
                    pc = at(ops, entry + 2)
                else:
                    sp -= FRAME_WORDS
                    row = stack[sp]
                    level = stack[sp + 2]
            elif op == 15:  # TAGS
                table, known = at(ops, entry + 2), at(ops, entry + 3)
                written = get32(arena, base + row * 4 + 4) - get32(arena, base + row * 4)
                tag = next_tag(ops, columns, tags, consts, addresses, arena, table, known, 0, level, row)
                stack[sp] = at(ops, entry + 4)
                stack[sp + 1] = tag
                while tag < known:
                    written += 1
                    tag = next_tag(ops, columns, tags, consts, addresses, arena, table, known, tag + 1, level, row)
                pos = write_varint(out, pos, written)
                if written == 0:
                    pc = at(ops, entry + 4)
                else:
                    sp += FRAME_WORDS
            elif op == 16:  # TAG_STEP
                tag = stack[sp - 3]
                if tag < at(ops, entry + 3):
                    pos = write_varint(out, pos, tag) + 1
                    stack[sp - 1] = pos
                    pc = at(tags, at(ops, entry + 2) + tag)
                    continue
                offsets = at(addresses, (column + 2) * 4)
                for slot in range(get32(arena, base + row * 4), get32(arena, base + row * 4 + 4)):
                    start = get32(arena, offsets + slot * 4)
                    size = get32(arena, offsets + slot * 4 + 4) - start
                    pos = write_varint(out, pos, get32(arena, at(addresses, (column + 1) * 4) + slot * 4))
                    pos = write_varint(out, pos, size)
                    copy_bytes(out, pos, arena, at(addresses, (column + 2) * 4 + 2) + start, size)
                    pos += size
                sp -= FRAME_WORDS
                pc = stack[sp]
            elif op == 17:  # TAG_BACK
                pos = close_tag(out, stack[sp - 1], pos)
                step = at(ops, entry + 2)
                table, known = at(ops, step * 8 + 2), at(ops, step * 8 + 3)
                tag = stack[sp - 3] + 1
                stack[sp - 3] = next_tag(ops, columns, tags, consts, addresses, arena, table, known, tag, level, row)
                pc = step
            elif op == 4:
                store_i64(out, pos, get64(arena, base + row * 8))
                pos += 8
            elif op == 1:
                put8(out, pos, get8(arena, base + row))
                pos += 1
            elif op == 7:  # BOOL
                put8(out, pos, bit_at(arena, base, row))
                pos += 1
            elif op == 8:  # UUID
                put64(out, pos, get64(arena, base + row * 16))
                put64(out, pos + 8, get64(arena, base + row * 16 + 8))
                pos += 16
            elif op == 5:
                store_i16(out, pos, get32(arena, base + row * 4))
                pos += 2
            elif op == 6:
                store_i32(out, pos, get64(arena, base + row * 8))
                pos += 4
            elif op == 13:  # STRUCT
                valid = bit_at(arena, at(ops, entry + 6), row)
                put8(out, pos, valid if at(ops, entry + 2) else valid * 2 - 1)
                pos += 1
                if not valid:
                    pc = at(ops, entry + 3)
            elif op == 0:
                break
        ends[i + 1] = pos
    return pos
