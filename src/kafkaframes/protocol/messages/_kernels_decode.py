"""The table-driven decoder: it runs a ``_program.ColumnProgram`` on many messages. Start at ``columns.py``.

1. Kernels take arrays and integers and return a status. The kernels raise no exceptions, create no objects, do no I/O
   and allocate no memory. Device functions take addresses instead of arrays (``wire._kernels.address_of`` has the
   reason).
2. The caller owns the arena (every column's Arrow buffers) and passes the capacity of each level and column. If a
   buffer is full, the kernel stops before the current message and returns the required capacity. The caller grows the
   arena and resumes.
3. The decoder has no counters to roll back. A list's rows start at its row's offset, and a row of a column is final
   only after the next row has been written. An invalid message, a repeated tag or a resumed message is therefore simply
   overwritten. An invalid message leaves one row of defaults.

In ``reference`` mode, the semantics are those of Kafka's generated readers. In ``strict`` mode only canonical bytes are
valid. ``plan.py`` specifies the encoding that each operation reads. The plain twin is the interpreter of objects; one
test runs both on arbitrary bytes.

Arguments, also of ``_kernels_encode.encode``:

======================  ================================================================================================
ops, columns, tags      the program, by rows of int64 (``_program.py``); buffer addresses are in ``ops``
consts                  the bytes of default values
addresses               four values per column: base, validity, data, data capacity in bytes
capacities              row capacity of each level
buf, starts             messages; message i is ``buf[starts[i]:starts[i + 1]]``
first, last             range of messages to decode
strict                  whether bytes must be canonical
arena                   the memory that contains all addresses
status, positions       each message's status and end position; a message that is not OK on entry gets defaults
bad_text                set for a column with a string that is not UTF-8 (only without ``strict``)
present, count          whether row i is a message, and the number of rows to encode
out, ends               output buffer, and the end of message i in it: ``ends[i + 1]``
stack                   FRAME_WORDS int64 for each open list and each open tag section
======================  ================================================================================================
"""

from __future__ import annotations

import numpy as np

from kafkaframes.protocol.messages._kernels_memory import at, get8, get32, get64, load_u16, put8, put16, put32, put64
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, device, inline_device, kernel, types
from kafkaframes.wire._kernels import address_of, copy_bytes, load_i8, load_i16, load_i32, load_i64, load_u8, load_u32

# Status of a message; ``columns.py`` has the texts. FULL_* end the call, not the message.
OK, SKIPPED, TRUNCATED, OVERLONG_VARINT, NULL, TOO_LONG, NEGATIVE_SIZE, REFUSED_TAG, TRAILING = range(9)
NOT_CANONICAL, TAG_ORDER, TAG_SIZE, BAD_UTF8, TOO_MANY, HOLDS_DEFAULT, NEGATIVE_COUNT = range(9, 16)
DONE, FULL_ROWS, FULL_DATA = range(3)

FRAME_WORDS = (
    4  # int64 per stack frame: saved row, last row or tag count, loop start or last tag, end of the current tag
)


@device
def read_long_varint(buf, pos, end):
    """Read a varint of two bytes or more; returns the same as ``read_varint``."""
    value = load_u8(buf, pos) & 0x7F
    shift = 7
    while True:
        pos += 1
        if pos >= end:
            return 0, -TRUNCATED, 0
        byte = load_u8(buf, pos)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            return 0, -OVERLONG_VARINT, 0
    unusual = 1 if byte == 0 or value > 0xFFFFFFFF else 0
    value &= 0xFFFFFFFF
    return value - ((value & 0x80000000) << 1), pos + 1, unusual


@inline_device
def read_varint(buf, pos, end):
    """Return (value as Java's int, end position or minus a status, 1 if longer than necessary)."""
    if pos >= end:
        return 0, -TRUNCATED, 0
    byte = load_u8(buf, pos)
    if byte < 0x80:
        return byte, pos + 1, 0
    return read_long_varint(buf, pos, end)


@inline_device
def read_length(buf, pos, end, flags, strict):
    """Read a length or count: compact, int16 (flag 4, strings) or int32. Return (length, end or -status)."""
    if flags & 1:
        value, after, unusual = read_varint(buf, pos, end)
        if after < 0:
            return value, after
        length = value - 1
        if length < -1:
            if strict:
                return 0, -NOT_CANONICAL
            if length < -0x80000000:
                length = 0x7FFFFFFF  # Java's int wraps around
        elif strict and unusual:
            return 0, -NOT_CANONICAL
        return length, after
    size = 2 if flags & 4 else 4
    if end - pos < size:
        return 0, -TRUNCATED
    length = load_i16(buf, pos) if flags & 4 else load_i32(buf, pos)
    if strict and length < -1:
        return 0, -NOT_CANONICAL
    return length, pos + size


@inline_device
def put_bit(arena, base, row, bit):
    """Set or clear the bit ``row`` of the bitmap at ``base``."""
    address = base + (row >> 3)
    shift = row & 7
    put8(arena, address, (get8(arena, address) & ~(1 << shift)) | (bit << shift))


@inline_device
def copy_text(arena, target, buf, pos, size):
    """Copy text and return whether it is all ASCII.

    Copies up to 32 bytes, the size of nearly all names, use no loop. LLVM vectorizes every loop, and the set-up of a
    vector loop costs more than such a copy.
    """
    high = 0
    if size >= 8:
        first, last = get64(buf, pos), get64(buf, pos + size - 8)
        high = first | last
        put64(arena, target, first)
        if size > 16:
            second, third = get64(buf, pos + 8), get64(buf, pos + size - 16)
            high |= second | third
            put64(arena, target + 8, second)
            put64(arena, target + size - 16, third)
            for done in range(16, size - 16, 8):
                word = get64(buf, pos + done)
                high |= word
                put64(arena, target + done, word)
        put64(arena, target + size - 8, last)
    elif size >= 4:
        first, last = get32(buf, pos), get32(buf, pos + size - 4)
        high = (first | last) & 0x80808080
        put32(arena, target, first)
        put32(arena, target + size - 4, last)
    elif size > 0:
        first, middle, last = get8(buf, pos), get8(buf, pos + (size >> 1)), get8(buf, pos + size - 1)
        high = (first | middle | last) & 0x80
        put8(arena, target, first)
        put8(arena, target + (size >> 1), middle)
        put8(arena, target + size - 1, last)
    return high & -0x7F7F7F7F7F7F7F80 == 0


@device
def is_utf8(buf, pos, size):
    """Return whether the bytes are valid UTF-8: shortest forms, no surrogates, nothing above U+10FFFF."""
    end = pos + size
    while pos < end:
        lead = load_u8(buf, pos)
        pos += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF  # range of the first continuation byte
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        if end - pos < more:
            return False
        byte = load_u8(buf, pos)
        if byte < low or byte > high:
            return False
        for k in range(1, more):
            if load_u8(buf, pos + k) & 0xC0 != 0x80:
                return False
        pos += more
    return True


@device
def fill_defaults(columns, addresses, consts, arena, first, last, level, row):
    """Write a level's defaults in the columns ``first:last`` at ``row``; return 0, or 1 + the full column."""
    for column in range(first, last):
        entry = column * 8
        if at(columns, entry + 1) != level:
            continue
        kind = at(columns, entry)
        base = at(addresses, column * 4)
        if at(columns, entry + 3):
            put_bit(arena, at(addresses, column * 4 + 1), row, 1 - at(columns, entry + 7))
        bits = at(columns, entry + 4)
        if kind == 1:
            put8(arena, base + row, bits)
        elif kind == 2:
            put16(arena, base + row * 2, bits)
        elif kind == 4:
            put32(arena, base + row * 4, bits)
        elif kind == 8:
            put64(arena, base + row * 8, bits)
        elif kind == 16:
            size = at(columns, entry + 6)
            put64(arena, base + row * 16, 0)
            put64(arena, base + row * 16 + 8, 0)
            copy_bytes(arena, base + row * 16, consts, at(columns, entry + 5), size)
        elif kind == 32:
            put_bit(arena, base, row, bits)
        elif kind == 33:
            size = at(columns, entry + 6)
            start = get32(arena, base + row * 4)
            if start + size > at(addresses, column * 4 + 3):
                return column + 1
            copy_bytes(arena, at(addresses, column * 4 + 2) + start, consts, at(columns, entry + 5), size)
            put32(arena, base + row * 4 + 4, start + size)
        elif kind == 34:
            put32(arena, base + row * 4 + 4, get32(arena, base + row * 4))
    return 0


@device
def is_default(columns, addresses, consts, arena, first, last, level, row):
    """Return whether the field in the columns ``first:last`` has its default at ``row``, by Kafka's comparison."""
    column = first
    while column < last:
        entry = column * 8
        here = column
        column += 1
        if at(columns, entry + 1) != level:
            continue
        kind = at(columns, entry)
        base = at(addresses, here * 4)
        if at(columns, entry + 3):
            null = 1 - ((get8(arena, at(addresses, here * 4 + 1) + (row >> 3)) >> (row & 7)) & 1)
            if null != at(columns, entry + 7):
                return False
            if null:
                if kind == 35:
                    column = at(columns, entry + 2)
                continue
        bits = at(columns, entry + 4)
        if kind == 1:
            if (get8(arena, base + row) ^ bits) & 0xFF:
                return False
        elif kind == 2:
            if (get32(arena, base + row * 2) ^ bits) & 0xFFFF:
                return False
        elif kind == 4:
            if get32(arena, base + row * 4) != bits:
                return False
        elif kind == 8:
            value = get64(arena, base + row * 8)
            if at(columns, entry + 5):
                magnitude = value & 0x7FFFFFFFFFFFFFFF
                if magnitude > 0x7FF0000000000000 or (value != bits and (magnitude | (bits & 0x7FFFFFFFFFFFFFFF)) != 0):
                    return False  # NaN differs from everything, and the two zeros are equal
            elif value != bits:
                return False
        elif kind == 32:
            if (get8(arena, base + (row >> 3)) >> (row & 7)) & 1 != bits:
                return False
        elif kind == 16 or kind == 33:
            size = at(columns, entry + 6)
            default = at(columns, entry + 5)
            start = base + row * 16
            if kind == 33:
                offset = get32(arena, base + row * 4)
                if get32(arena, base + row * 4 + 4) - offset != size:
                    return False
                start = at(addresses, here * 4 + 2) + offset
            elif size == 0 and get64(arena, start) | get64(arena, start + 8):
                return False
            for k in range(size):
                if get8(arena, start + k) != get8(consts, default + k):
                    return False
        elif kind == 34 and get32(arena, base + row * 4) != get32(arena, base + row * 4 + 4):
            return False
    return True


@device
def keep_tag(addresses, capacities, arena, base, column, child, row, buf, pos, end, tag, size):
    """Append an undeclared tag to its struct's list; return (0, status or -FULL_*, column or level, capacity)."""
    if size < 0:
        return NEGATIVE_SIZE, 0, 0
    if size > end - pos:
        return TRUNCATED, 0, 0
    slot = get32(arena, base + row * 4 + 4)
    if slot + 1 > at(capacities, child):
        return -FULL_ROWS, child, slot + 1
    offsets = at(addresses, (column + 2) * 4)
    offset = get32(arena, offsets + slot * 4)
    if offset + size > at(addresses, (column + 2) * 4 + 3):
        return -FULL_DATA, column + 2, offset + size
    put32(arena, at(addresses, (column + 1) * 4) + slot * 4, tag)
    copy_bytes(arena, at(addresses, (column + 2) * 4 + 2) + offset, buf, pos, size)
    put32(arena, offsets + slot * 4 + 4, offset + size)
    put32(arena, base + row * 4 + 4, slot + 1)
    return 0, 0, 0


@inline_device
def copy_fixed(arena, target, buf, pos, count, width):
    """Copy ``count`` big-endian values of ``width`` bytes to native byte order."""
    if width == 4:
        if count > 4:
            for k in range(count):
                put32(arena, target + k * 4, load_i32(buf, pos + k * 4))
        elif count > 0:  # short arrays, such as replica lists, are faster without vector loops
            put32(arena, target, load_i32(buf, pos))
            if count > 1:
                put32(arena, target + 4, load_i32(buf, pos + 4))
                if count > 2:
                    put32(arena, target + 8, load_i32(buf, pos + 8))
                    if count > 3:
                        put32(arena, target + 12, load_i32(buf, pos + 12))
    elif width == 8:
        for k in range(count):
            put64(arena, target + k * 8, load_i64(buf, pos + k * 8))
    elif width == 2:
        for k in range(count):
            put16(arena, target + k * 2, load_i16(buf, pos + k * 2))
    else:
        copy_bytes(arena, target, buf, pos, count * width)


_TABLES = [INT64S, INT64S, INT64S, BYTES, INT64S, INT64S]
_SIGNATURE = types.UniTuple(types.int64, 4)(
    *_TABLES, BYTES, INT64S, types.int64, types.int64, types.boolean,
    OUT_BYTES, OUT_BYTES, OUT_INT64S, OUT_BYTES, OUT_INT64S,
)  # fmt: skip


@kernel(_SIGNATURE)
def decode(
    ops_, columns_, tags_, consts_, addresses_, capacities_, buf_, starts_, first, last, strict,
    arena_, status, positions, bad_text, stack,
):  # fmt: skip
    """Decode the messages ``first:last``.

    Return (DONE or FULL_*, message to resume at, level or column that is full, required capacity).
    """
    width = columns_.size // 8
    ops, columns, tags, consts = address_of(ops_), address_of(columns_), address_of(tags_), address_of(consts_)
    addresses, capacities, starts = address_of(addresses_), address_of(capacities_), address_of(starts_)
    buf, arena = address_of(buf_), address_of(arena_)
    for i in range(first, last):
        start = at(starts, i)
        pos = start
        end = at(starts, i + 1)
        row = i
        level = 0
        sp = 0
        pc = 0
        failure = np.int64(status[i])
        while failure == 0:
            entry = pc * 8
            op = at(ops, entry)
            column = at(ops, entry + 1)
            base = at(ops, entry + 5)
            pc += 1
            if op == 3:
                if end - pos < 4:
                    failure = TRUNCATED
                    break
                put32(arena, base + row * 4, load_i32(buf, pos))
                pos += 4
            elif op == 2:
                if end - pos < 2:
                    failure = TRUNCATED
                    break
                put16(arena, base + row * 2, load_i16(buf, pos))
                pos += 2
            elif op == 9:  # VAR
                flags = at(ops, entry + 2)
                length, after = read_length(buf, pos, end, flags, strict)
                if after < 0:
                    failure = -after
                    break
                offset = get32(arena, base + row * 4)
                if length < 0:
                    if flags & 2 == 0:
                        failure = NULL
                        break
                    length = 0
                    put_bit(arena, at(ops, entry + 6), row, 0)
                else:
                    if flags & 4 and length > 0x7FFF:
                        failure = TOO_LONG
                        break
                    if length > end - after:
                        failure = TRUNCATED
                        break
                    if offset + length > at(addresses, column * 4 + 3):
                        return FULL_DATA, i, column, offset + length
                    if flags & 2:
                        put_bit(arena, at(ops, entry + 6), row, 1)
                    target = at(ops, entry + 7) + offset
                    if flags & 4:
                        if not copy_text(arena, target, buf, after, length) and not is_utf8(buf, after, length):
                            if strict:
                                failure = BAD_UTF8
                                break
                            bad_text[column] = 1
                    else:
                        copy_bytes(arena, target, buf, after, length)
                put32(arena, base + row * 4 + 4, offset + length)
                pos = after + length
            elif op == 12 or op == 10:  # FIXED_ARRAY, ARRAY
                flags = at(ops, entry + 2)
                count, after = read_length(buf, pos, end, flags & 3, strict)
                if after < 0:
                    failure = -after
                    break
                child = at(ops, entry + 4)
                offset = get32(arena, base + row * 4)
                if count < 0:
                    if flags & 2 == 0:
                        failure = NULL
                        break
                    count = 0
                    put_bit(arena, at(ops, entry + 6), row, 0)
                else:
                    if count > end - after or count * (flags >> 8) > end - after:
                        failure = TRUNCATED
                        break
                    if flags & 2:
                        put_bit(arena, at(ops, entry + 6), row, 1)
                if offset + count > at(capacities, child):
                    return FULL_ROWS, i, child, offset + count
                put32(arena, base + row * 4 + 4, offset + count)
                pos = after
                if op == 12:
                    size = flags >> 8
                    copy_fixed(arena, at(ops, entry + 7) + offset * size, buf, pos, count, size)
                    pos += count * size
                elif count == 0:
                    pc = at(ops, entry + 3)
                else:
                    stack[sp] = row
                    stack[sp + 1] = offset + count
                    stack[sp + 2] = level
                    sp += FRAME_WORDS
                    row = offset
                    level = child
            elif op == 11:  # NEXT
                row += 1
                if row < stack[sp - 3]:
                    pc = at(ops, entry + 2)
                else:
                    sp -= FRAME_WORDS
                    row = stack[sp]
                    level = stack[sp + 2]
            elif op == 15:  # TAGS
                count, after, unusual = read_varint(buf, pos, end)
                if after < 0:
                    failure = -after
                    break
                if strict and (unusual or count < 0):
                    failure = NOT_CANONICAL
                    break
                if count < 0:
                    failure = NEGATIVE_COUNT
                    break
                put32(arena, base + row * 4 + 4, get32(arena, base + row * 4))
                pos = after
                if count == 0:
                    pc = at(ops, entry + 4)
                else:
                    stack[sp] = at(ops, entry + 4)
                    stack[sp + 1] = count
                    stack[sp + 2] = -1
                    sp += FRAME_WORDS
            elif op == 16:  # TAG_STEP
                if stack[sp - 3] == 0:
                    sp -= FRAME_WORDS
                    pc = stack[sp]
                    continue
                stack[sp - 3] -= 1
                tag, after, unusual = read_varint(buf, pos, end)
                if after < 0:
                    failure = -after
                    break
                size, begin, unusual_size = read_varint(buf, after, end)
                if begin < 0:
                    failure = -begin
                    pos = after
                    break
                if strict:
                    if unusual or unusual_size:
                        failure = NOT_CANONICAL
                        break
                    if tag <= stack[sp - 2]:
                        failure = TAG_ORDER
                        break
                    stack[sp - 2] = tag
                    stack[sp - 1] = begin + size
                if 0 <= tag < at(ops, entry + 3):
                    pc = at(tags, at(ops, entry + 2) + tag)
                    if pc < 0:
                        failure = REFUSED_TAG
                        break
                    pos = begin
                    continue
                child = at(ops, entry + 4)
                failure, which, need = keep_tag(
                    addresses, capacities, arena, base, column, child, row, buf, begin, end, tag, size
                )
                if failure < 0:
                    return -failure, i, which, need
                if failure:
                    break
                pos = begin + size
                pc -= 1
            elif op == 17:  # TAG_BACK
                if strict:
                    if pos != stack[sp - 1]:
                        failure = TAG_SIZE
                        break
                    if is_default(columns, addresses, consts, arena, column, at(ops, entry + 3), level, row):
                        failure = HOLDS_DEFAULT
                        break
                pc = at(ops, entry + 2)
            elif op == 4:
                if end - pos < 8:
                    failure = TRUNCATED
                    break
                put64(arena, base + row * 8, load_i64(buf, pos))
                pos += 8
            elif op == 1:
                if pos >= end:
                    failure = TRUNCATED
                    break
                put8(arena, base + row, load_u8(buf, pos))
                pos += 1
            elif op == 7:  # BOOL
                if pos >= end:
                    failure = TRUNCATED
                    break
                byte = load_u8(buf, pos)
                if strict and byte > 1:
                    failure = NOT_CANONICAL
                    break
                put_bit(arena, base, row, 1 if byte else 0)
                pos += 1
            elif op == 8:  # UUID
                if end - pos < 16:
                    failure = TRUNCATED
                    break
                put64(arena, base + row * 16, get64(buf, pos))
                put64(arena, base + row * 16 + 8, get64(buf, pos + 8))
                pos += 16
            elif op == 5:
                if end - pos < 2:
                    failure = TRUNCATED
                    break
                put32(arena, base + row * 4, load_u16(buf, pos))
                pos += 2
            elif op == 6:
                if end - pos < 4:
                    failure = TRUNCATED
                    break
                put64(arena, base + row * 8, load_u32(buf, pos))
                pos += 4
            elif op == 13:  # STRUCT
                if at(ops, entry + 2):
                    marker, after, unusual = read_varint(buf, pos, end)
                    if after < 0:
                        failure = -after
                        break
                    marker -= 1
                    if strict and (unusual or marker > 0 or marker < -1):
                        failure = NOT_CANONICAL
                        break
                else:
                    if pos >= end:
                        failure = TRUNCATED
                        break
                    marker = load_i8(buf, pos)
                    after = pos + 1
                    if strict and marker != 1 and marker != -1:
                        failure = NOT_CANONICAL
                        break
                pos = after
                put_bit(arena, at(ops, entry + 6), row, 0 if marker < 0 else 1)
                if marker < 0:
                    full = fill_defaults(columns, addresses, consts, arena, column + 1, at(ops, entry + 4), level, row)
                    if full:
                        return FULL_DATA, i, full - 1, at(addresses, (full - 1) * 4 + 3) + 1
                    pc = at(ops, entry + 3)
            elif op == 14:  # FILL
                full = fill_defaults(columns, addresses, consts, arena, column, at(ops, entry + 2), level, row)
                if full:
                    return FULL_DATA, i, full - 1, at(addresses, (full - 1) * 4 + 3) + 1
            else:  # END
                if pos != end:
                    failure = TRAILING
                break
        if failure:
            status[i] = failure
            positions[i] = pos - start
            full = fill_defaults(columns, addresses, consts, arena, 0, width, 0, i)
            if full:
                return FULL_DATA, i, full - 1, at(addresses, (full - 1) * 4 + 3) + 1
    return DONE, last, 0, 0
