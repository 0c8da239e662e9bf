"""The plain-Python reference of ``_kernels.py``: the same signature and results, without optimisation."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

LITERAL, INTEGER, CHOICE, RAW, BASE64, IF_NULL, IF_VALID = range(7)
DONE, FULL = range(2)
MAX_BYTES_COLUMNS = 8
MAX_DIGITS = 20  # length of an int64 with its sign: the space that must be free before a number is written


def _piece(step: Sequence[int], row: int, pool: bytes, words: Sequence[tuple[int, int]], numbers: Any) -> bytes:
    operation, a, b, c = step
    if operation == INTEGER:
        return b"%d" % int(numbers[a, row])
    if operation == CHOICE:
        a, b = words[b + min(max(int(numbers[a, row]), 0), c - b)]
    return pool[a:b]


def render(
    program: Any,
    pool: Any,
    word_starts: Any,
    word_ends: Any,
    numbers: Any,
    datas: Any,
    starts: Any,
    sizes: Any,
    out: Any,
    ends: Any,
) -> tuple[int, int]:
    literals = bytes(pool)
    words = list(zip(word_starts.tolist(), word_ends.tolist(), strict=True))
    position = 0
    for row in range(len(ends)):
        step = 0
        while step < len(program):
            operation, a, b, _ = (int(cell) for cell in program[step])
            step += 1
            if operation in (IF_NULL, IF_VALID, RAW, BASE64):
                size = int(sizes[a][row])
                if (operation == IF_NULL and size >= 0) or (operation == IF_VALID and size < 0):
                    step += b
                if operation in (IF_NULL, IF_VALID) or size < 0:
                    continue
                start = int(starts[a][row])
                piece = bytes(datas[a][start : start + size])
                piece = b64encode(piece) if operation == BASE64 else piece
            else:
                piece = _piece(program[step - 1].tolist(), row, literals, words, numbers)
            if position + max(len(piece), MAX_DIGITS if operation == INTEGER else 0) > len(out):
                return FULL, position
            out[position : position + len(piece)] = list(piece)
            position += len(piece)
        ends[row] = position
    return DONE, position
