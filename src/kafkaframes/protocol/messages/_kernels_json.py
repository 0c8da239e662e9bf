"""Write the JSON form of many messages from their columns (numba). Start at ``json_text.py``.

1. Kernels take arrays and addresses and return numbers. The kernels raise no exceptions, create no objects, do no I/O
   and allocate no memory. ``json_text.py`` ensures that every address belongs to a buffer of the current array, and
   keeps the array alive.
2. Space is checked before each value is written. If the remaining space is too small, the kernel stops before the
   current message. The caller grows ``out`` and resumes.
3. Messages with tags that the spec does not declare are marked and left to the plain twin, ``json_form.py``.
"""

from __future__ import annotations

from kafkaframes.protocol.messages._kernels_memory import at, get8, get32, get64, put8, put64
from kafkaframes.wire._jit import BYTES, INT64S, OUT_BYTES, OUT_INT64S, device, kernel, types
from kafkaframes.wire._kernels import address_of, copy_bytes

I64 = types.int64
# Operations. A row of ``ops``: operation, offset and length of its name in ``names``, then arguments by operation.
END, OPEN, CLOSE, LIST, NEXT, UNLESS_DEFAULT, UNKNOWN, INT, BOOL, UUID, TEXT, BYTES_OP, EMPTY, SIZE = range(14)
OP_WIDTH = 9
O_OP, O_NAME, O_NAME_SIZE, O_VALID, O_VALUES, O_DATA, O_WIDTH, O_TARGET, O_LAST = range(9)
# Rows of ``checks``: the conditions under which a tagged field has its default.
CHECK_WIDTH = 6
C_KIND, C_VALID, C_VALUES, C_WIDTH, C_BITS, C_DATA = range(6)
IS_NULL, IS_NUMBER, IS_EMPTY, IS_TEXT, IS_BIT, IS_UUID, IS_PRESENT = range(7)
DONE, FULL = range(2)
STACK_FRAME = 3  # row, last row, the operation after LIST
_MAX_INTEGER_CHARS = 21  # space for a decimal int64 with its sign

QUOTE, COMMA, ZERO, MINUS, BACKSLASH = 0x22, 0x2C, 0x30, 0x2D, 0x5C
OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET = 0x7B, 0x7D, 0x5B, 0x5D


@device
def _is_null(valid, row):
    return valid != 0 and not (get8(valid, row >> 3) >> (row & 7)) & 1


@device
def _load_number(values, width, row):
    if width == 1:
        value = get8(values, row)
        return value - 256 if value > 127 else value
    if width == 2:
        value = get8(values, 2 * row) | get8(values, 2 * row + 1) << 8
        return value - 65536 if value > 32767 else value
    return get32(values, 4 * row) if width == 4 else get64(values, 8 * row)


@device
def _is_default(checks, first, last, row):
    """Return whether all columns ``first:last`` have their default in a row."""
    for check in range(first, last):
        base = check * CHECK_WIDTH
        kind = at(checks, base + C_KIND)
        null = _is_null(at(checks, base + C_VALID), row)
        values = at(checks, base + C_VALUES)
        bits = at(checks, base + C_BITS)
        if kind == IS_NULL:
            same = null
        elif null:
            same = False
        elif kind == IS_PRESENT:
            same = True
        elif kind == IS_NUMBER:
            same = _load_number(values, at(checks, base + C_WIDTH), row) == bits
        elif kind == IS_BIT:
            same = ((get8(values, row >> 3) >> (row & 7)) & 1) == bits
        elif kind == IS_UUID:
            same = get64(values, 16 * row) == 0 and get64(values, 16 * row + 8) == 0
        elif kind == IS_EMPTY:
            same = get32(values, 4 * row + 4) == get32(values, 4 * row)
        else:
            start = get32(values, 4 * row)
            size = get32(values, 4 * row + 4) - start
            same = size == at(checks, base + C_WIDTH)
            for position in range(size):
                if not same:
                    break
                same = get8(at(checks, base + C_DATA), start + position) == get8(bits, position)
        if not same:
            return False
    return True


@device
def _put_number(out, pos, value):
    """Write a decimal number; return its end."""
    if 0 <= value < 10:
        put8(out, pos, ZERO + value)
        return pos + 1
    if value < 0:
        put8(out, pos, MINUS)
        pos += 1
    else:
        value = -value  # the minimum value has no positive counterpart
    position = pos + _MAX_INTEGER_CHARS
    while value != 0:
        above = value // 10
        digit = value - above * 10
        if digit:
            above += 1
            digit = 10 - digit
        position -= 1
        put8(out, position, ZERO + digit)
        value = above
    for at_ in range(position, pos + _MAX_INTEGER_CHARS):
        put8(out, pos, get8(out, at_))
        pos += 1
    return pos


@device
def _put_text(out, pos, data, start, size):
    """Write a JSON string; return its end. Only characters that JSON requires to be escaped are escaped."""
    put8(out, pos, QUOTE)
    pos += 1
    for position in range(start, start + size):
        byte = get8(data, position)
        if byte >= 0x20 and byte != QUOTE and byte != BACKSLASH:
            put8(out, pos, byte)
            pos += 1
            continue
        put8(out, pos, BACKSLASH)
        short = 0
        if byte in (QUOTE, BACKSLASH):
            short = byte
        elif byte == 0x08:
            short = 0x62
        elif byte == 0x09:
            short = 0x74
        elif byte == 0x0A:
            short = 0x6E
        elif byte == 0x0C:
            short = 0x66
        elif byte == 0x0D:
            short = 0x72
        if short:
            put8(out, pos + 1, short)
            pos += 2
            continue
        put8(out, pos + 1, 0x75)
        put8(out, pos + 2, ZERO)
        put8(out, pos + 3, ZERO)
        put8(out, pos + 4, ZERO + (byte >> 4))
        put8(out, pos + 5, (byte & 15) + (ZERO if byte & 15 < 10 else 0x57))
        pos += 6
    put8(out, pos, QUOTE)
    return pos + 1


@device
def _base64_letter(six, url):
    if six < 26:
        return 0x41 + six
    if six < 52:
        return 0x61 + six - 26
    if six < 62:
        return ZERO + six - 52
    if six == 62:
        return MINUS if url else 0x2B
    return 0x5F if url else 0x2F


@device
def _put_base64(out, pos, data, start, size, url):
    """Write bytes as quoted base64. ``url`` selects the URL alphabet (``-`` and ``_``) without padding."""
    put8(out, pos, QUOTE)
    pos += 1
    position = start
    end = start + size
    while position < end:
        left = min(end - position, 3)
        word = get8(data, position) << 16
        if left > 1:
            word |= get8(data, position + 1) << 8
        if left > 2:
            word |= get8(data, position + 2)
        for step in range(4):
            if step <= left:
                six = (word >> (18 - 6 * step)) & 63
                put8(out, pos, _base64_letter(six, url))
                pos += 1
            elif not url:
                put8(out, pos, 0x3D)
                pos += 1
        position += 3
    put8(out, pos, QUOTE)
    return pos + 1


@device
def _put_null(out, pos):
    put8(out, pos, 0x6E)
    put8(out, pos + 1, 0x75)
    put8(out, pos + 2, 0x6C)
    put8(out, pos + 3, 0x6C)
    return pos + 4


@device
def _put_bool(out, pos, value):
    if value:
        put8(out, pos, 0x74)
        put8(out, pos + 1, 0x72)
        put8(out, pos + 2, 0x75)
        put8(out, pos + 3, 0x65)
        return pos + 4
    put8(out, pos, 0x66)
    put8(out, pos + 1, 0x61)
    put8(out, pos + 2, 0x6C)
    put8(out, pos + 3, 0x73)
    put8(out, pos + 4, 0x65)
    return pos + 5


@device
def _max_value_bytes(op, values, row):
    """Return the largest size of a value without its name, in bytes."""
    if op in (TEXT, BYTES_OP):
        return 6 * (get32(values, 4 * row + 4) - get32(values, 4 * row)) + 8
    return 48


@device
def _put_name(out, pos, start, names, name, size):
    """Write the comma before a value, except before the first one, and the value's name."""
    if pos > start:
        before = get8(out, pos - 1)
        if before != OPEN_BRACE and before != OPEN_BRACKET:
            put8(out, pos, COMMA)
            pos += 1
    copy_bytes(out, pos, names, name, size)
    return pos + size


@device
def _put_value(out, pos, op, ops, base, row):
    values = at(ops, base + O_VALUES)
    if op == INT:
        return _put_number(out, pos, _load_number(values, at(ops, base + O_WIDTH), row))
    if op == BOOL:
        return _put_bool(out, pos, (get8(values, row >> 3) >> (row & 7)) & 1)
    if op == UUID:
        return _put_base64(out, pos, values, 16 * row, 16, True)
    if op == EMPTY:
        put8(out, pos, QUOTE)
        put8(out, pos + 1, QUOTE)
        return pos + 2
    start = get32(values, 4 * row)
    size = get32(values, 4 * row + 4) - start
    if op == TEXT:
        return _put_text(out, pos, at(ops, base + O_DATA), start, size)
    if op == SIZE:
        return _put_number(out, pos, size)
    return _put_base64(out, pos, at(ops, base + O_DATA), start, size, False)


@device
def _put_message(ops, checks, names, message, out, start, limit, stack):
    """Write one message; return its end, -1 if space is too small, -2 if it has undeclared tags."""
    pos = start
    row = message
    base = 0
    depth = 0
    while True:
        op = at(ops, base + O_OP)
        if op == END:
            return pos
        size = at(ops, base + O_NAME_SIZE)
        values = at(ops, base + O_VALUES)
        if pos + size + _max_value_bytes(op, values, row) > limit:
            return -1
        if op == CLOSE:
            put8(out, pos, CLOSE_BRACE)
            pos += 1
        elif op == NEXT:
            frame = (depth - 1) * STACK_FRAME
            row += 1
            if row < at(stack, frame + 1):
                base = at(stack, frame + 2)
                continue
            put8(out, pos, CLOSE_BRACKET)
            pos += 1
            row = at(stack, frame)
            depth -= 1
        elif op == UNLESS_DEFAULT:
            if _is_default(checks, at(ops, base + O_WIDTH), at(ops, base + O_LAST), row):
                base = at(ops, base + O_TARGET)
                continue
        elif op == UNKNOWN:
            if get32(values, 4 * row + 4) > get32(values, 4 * row):
                return -2
        else:
            pos = _put_name(out, pos, start, names, at(ops, base + O_NAME), size)
            if op != SIZE and _is_null(at(ops, base + O_VALID), row):
                pos = _put_null(out, pos)
                base = at(ops, base + O_TARGET)
                continue
            if op == OPEN:
                put8(out, pos, OPEN_BRACE)
                pos += 1
            elif op == LIST:
                put8(out, pos, OPEN_BRACKET)
                pos += 1
                first = get32(values, 4 * row)
                last = get32(values, 4 * row + 4)
                if first == last:
                    put8(out, pos, CLOSE_BRACKET)
                    pos += 1
                    base = at(ops, base + O_TARGET)
                    continue
                frame = depth * STACK_FRAME
                _push_frame(stack, frame, row, last, base + OP_WIDTH)
                depth += 1
                row = first
            else:
                pos = _put_value(out, pos, op, ops, base, row)
        base += OP_WIDTH


@device
def _push_frame(stack, frame, row, last, base):
    put64(stack, 8 * frame, row)
    put64(stack, 8 * frame + 8, last)
    put64(stack, 8 * frame + 16, base)


@kernel(types.UniTuple(I64, 3)(INT64S, INT64S, BYTES, OUT_BYTES, I64, I64, I64, OUT_BYTES, OUT_INT64S, OUT_INT64S))
def write_json(ops_, checks_, names_, left_out, message, count, pos, out_, ends, stack_):
    """Write messages from ``message`` on; return (DONE or FULL, next message, its start in ``out``).

    Messages that are marked in ``left_out`` are skipped. A message with undeclared tags gets marked and skipped.
    """
    ops = address_of(ops_)
    checks = address_of(checks_)
    names = address_of(names_)
    out = address_of(out_)
    stack = address_of(stack_)
    while message < count:
        if not left_out[message]:
            end = _put_message(ops, checks, names, message, out, pos, out_.size, stack)
            if end == -1:
                return FULL, message, pos
            if end == -2:
                left_out[message] = 1
            else:
                pos = end
        message += 1
        ends[message] = pos
    return DONE, message, pos
