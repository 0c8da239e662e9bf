"""Run the message kernels on damaged messages between protected pages for a minute: they stay within their buffers and
give equal results.

The kernels' input, the block into which they decode, and their output each end at a protected page. The rows must equal
those of the same call in ordinary memory, with the table decoder and, if it exists, with the straight-line decoder.
Rows decoded in strict mode must be encoded to the same bytes.

Run: python tests/fuzz/messages_guarded.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.protocol.messages.test_every_message import _damage
from tests.protocol.messages.values import list_message_versions, make_value
from tests.records.guarded import GuardedBlock, GuardedMemory

from kafkaframes.protocol.messages import _arena, columns, message
from kafkaframes.protocol.messages.plan import plan_message

MESSAGES_PER_CHECK = 150
MODES = ("reference", "strict")


def allocate_guarded(size: int) -> pa.Buffer:
    """Allocate memory that ends at a protected page, like ``pa.allocate_buffer``, perhaps at an odd address."""
    return pa.py_buffer(GuardedBlock(size).at_end(size))


def guard() -> None:
    """Make the message kernels allocate guarded memory."""
    memory, input_arrays = GuardedMemory(), columns._join_messages

    def zeros(size: int, dtype: Any = np.float64) -> np.ndarray:
        array = memory.new_array(size, dtype)
        array[...] = 0
        return array

    def read(messages: Any) -> tuple[Any, Any, Any]:
        buf, starts, present = input_arrays(messages)
        copy = memory.new_array(len(buf), np.uint8)
        copy[:] = buf
        return copy, starts, present

    columns._join_messages = read
    columns.np = SimpleNamespace(**{**vars(np), "empty": memory.new_array, "zeros": zeros})
    _arena.pa = SimpleNamespace(**{**vars(pa), "allocate_buffer": allocate_guarded})


def run_unguarded(before: tuple[Any, ...], work: Any) -> Any:
    """Run a function with ordinary memory allocation."""
    now = columns._join_messages, columns.np, _arena.pa
    columns._join_messages, columns.np, _arena.pa = before
    try:
        return work()
    finally:
        columns._join_messages, columns.np, _arena.pa = now


def row_text(row: dict[str, Any]) -> str:
    """Format a row without the text of its error, because decoders may find several faults in a different order."""
    return repr(row | {"_error": row["_error"] is not None})


def create_messages(choose: random.Random, cls: type, version: int) -> list[bytes]:
    """Create valid messages, and many invalid ones."""
    good = [make_value(cls, version, choose.random(), unknown_tags=True).encode(version) for _ in range(4)]
    messages = [*good, b"", choose.randbytes(choose.randrange(60))]
    while len(messages) < MESSAGES_PER_CHECK:
        bad = choose.choice(good)
        for _ in range(choose.randrange(1, 4)):
            bad = _damage(bad, choose) if bad else bad
        messages.append(bad)
    return messages


def check(choose: random.Random, name: str, version: int, before: tuple[Any, ...]) -> int:
    """Compare all results for some messages of one type and version."""
    cls = message(name)
    plan, messages, mode = plan_message(cls.spec, version), create_messages(choose, cls, version), choose.choice(MODES)

    def decode(is_specialized: bool) -> pa.StructArray:
        return columns.decode_columns(plan, messages, mode=mode, specialized=is_specialized)

    expected_column = run_unguarded(before, lambda: decode(False))
    expected_column.validate(full=True)
    expected_rows = expected_column.to_pylist()
    for is_specialized in (False, True):
        rows = zip(messages, decode(is_specialized).to_pylist(), expected_rows, strict=True)
        for raw, actual_row, row in rows:
            if row_text(actual_row) != row_text(row):
                raise SystemExit(
                    f"{name} v{version} {mode} {is_specialized=} {raw.hex()[:4000]}: {actual_row}, not {row}"[:9000]
                )
    sound = np.flatnonzero(expected_column.field("_error").is_null().to_numpy(zero_copy_only=False))
    if mode == "strict" and len(sound) and "nan" not in repr(expected_rows):
        rows = expected_column.take(pa.array(sound))
        again = columns.encode_columns(plan, rows).to_pylist()
        if again != [messages[row] for row in sound.tolist()]:
            raise SystemExit(f"{name} v{version}: encoded again as {again}")
    return len(messages)


def main(seconds: float, seed: int) -> None:
    """Fuzz for ``seconds``."""
    choose, pairs, before = (
        random.Random(seed),
        list_message_versions(),
        (columns._join_messages, columns.np, _arena.pa),
    )
    guard()
    deadline, message_count = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        message_count += check(choose, *choose.choice(pairs), before)
    print(f"{message_count} messages between protected pages, all with equal results (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
