"""The compiled loop that renders lines (numba). ``lines.py`` is its only caller, and the better starting point.

1. A kernel takes arrays and returns ``(status, size)``. It raises no exceptions, creates no objects and does no I/O.
2. A value of a bytes column is the ``size`` bytes of its data after ``start``. A negative size is null.
3. The caller allocates ``out`` and ``ends``. If ``out`` is too small, the status is FULL.
4. The plain-Python twin is ``tests/jobs/dump/reference.py``. One test runs both.

A program is a table of ``(operation, a, b, c)``. It runs once for each row:

========== ======================================================================
LITERAL    bytes ``a`` to ``b`` of the pool
INTEGER    number column ``a`` in decimal
CHOICE     word ``b`` + (number column ``a``) of the words, at least ``b`` and at most ``c``
RAW        bytes column ``a``
BASE64     bytes column ``a`` in base64
IF_NULL    continue if bytes column ``a`` is null; otherwise skip ``b`` operations
IF_VALID   continue if bytes column ``a`` is not null; otherwise skip ``b`` operations
========== ======================================================================
"""

import numpy as np

from kafkaframes.wire._jit import BYTES, INT32S, INT64S, OUT_BYTES, OUT_INT64S, TABLE, device, kernel, types
from kafkaframes.wire._kernels import copy_bytes

LITERAL, INTEGER, CHOICE, RAW, BASE64, IF_NULL, IF_VALID = range(7)
DONE, FULL = range(2)
MAX_BYTES_COLUMNS = 8  # fixed, because in numba the length is part of a tuple's type
_BASE64_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


@device
def _write_integer(out, position, value):
    magnitude = np.uint64(value)
    if value < 0:
        out[position] = 45
        position += 1
        magnitude = np.uint64(0) - magnitude
    end = position + 1
    remaining_digits = magnitude // np.uint64(10)
    while remaining_digits > 0:
        end += 1
        remaining_digits //= np.uint64(10)
    start = end
    while start > position:
        start -= 1
        out[start] = np.uint8(48 + magnitude % np.uint64(10))
        magnitude //= np.uint64(10)
    return end


@device
def _write_base64(out, position, data, start, end):
    whole = end - (end - start) % 3
    for i in range(start, whole, 3):
        bits = (np.uint32(data[i]) << 16) | (np.uint32(data[i + 1]) << 8) | np.uint32(data[i + 2])
        out[position] = _BASE64_DIGITS[bits >> 18]
        out[position + 1] = _BASE64_DIGITS[(bits >> 12) & 63]
        out[position + 2] = _BASE64_DIGITS[(bits >> 6) & 63]
        out[position + 3] = _BASE64_DIGITS[bits & 63]
        position += 4
    if end - whole == 1:
        out[position] = _BASE64_DIGITS[data[whole] >> 2]
        out[position + 1] = _BASE64_DIGITS[(data[whole] & 3) << 4]
        out[position + 2] = 61
        out[position + 3] = 61
        position += 4
    elif end - whole == 2:
        bits = (np.uint32(data[whole]) << 8) | np.uint32(data[whole + 1])
        out[position] = _BASE64_DIGITS[bits >> 10]
        out[position + 1] = _BASE64_DIGITS[(bits >> 4) & 63]
        out[position + 2] = _BASE64_DIGITS[(bits & 15) << 2]
        out[position + 3] = 61
        position += 4
    return position


def _columns(kind):
    return types.UniTuple(kind, MAX_BYTES_COLUMNS)


_RENDER_SIGNATURE = types.UniTuple(types.int64, 2)(
    *(TABLE, BYTES, INT64S, INT64S, TABLE),  # the program, its pool and words, the number columns
    *(_columns(BYTES), _columns(INT64S), _columns(INT32S)),  # the bytes columns: data, starts, sizes
    *(OUT_BYTES, OUT_INT64S),
)


@kernel(_RENDER_SIGNATURE)
def render(program, pool, word_starts, word_ends, numbers, datas, starts, sizes, out, ends):
    """Run ``program`` for each row. ``ends[row]`` is set to the end of the row's line in ``out``."""
    position = 0
    for row in range(ends.size):
        step = 0
        while step < program.shape[0]:
            operation, a, b, c = program[step]
            step += 1
            if operation in (LITERAL, CHOICE):
                if operation == CHOICE:
                    word = b + min(max(numbers[a, row], 0), c - b)
                    a = word_starts[word]
                    b = word_ends[word]
                if position + b - a > out.size:
                    return FULL, position
                copy_bytes(out, position, pool, a, b - a)
                position += b - a
            elif operation == INTEGER:
                if position + 20 > out.size:
                    return FULL, position
                position = _write_integer(out, position, numbers[a, row])
            else:
                size = np.int64(sizes[a][row])
                if operation == IF_NULL:
                    step += b if size >= 0 else 0
                elif operation == IF_VALID:
                    step += b if size < 0 else 0
                elif size > 0:
                    start = starts[a][row]
                    if operation == RAW:
                        if position + size > out.size:
                            return FULL, position
                        copy_bytes(out, position, datas[a], start, size)
                        position += size
                    else:
                        if position + (size + 2) // 3 * 4 > out.size:
                            return FULL, position
                        position = _write_base64(out, position, datas[a], start, start + size)
        ends[row] = position
    return DONE, position
