"""Feed the kernels of messages between forbidden pages with damaged messages for a minute: no byte beyond, one answer.

What they read, the block that they decode into, and what they encode into each end at a page that may not be touched.
The rows must be those of the same call in ordinary memory, by the table and, where there is one, by the straight-line
decoder; rows that were read strictly must be written as the bytes they came from.

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

from tests.protocol.messages.test_every_message import _damaged
from tests.protocol.messages.values import every_pair, make_value
from tests.records.guarded import Guarded, GuardedMemory

from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import _arena, columns, message

MESSAGES = 150
MODES = ("reference", "strict")


def guarded_buffer(size: int) -> pa.Buffer:
    """Give what ``pa.allocate_buffer`` gives, before a forbidden page; it may begin at an odd address."""
    return pa.py_buffer(Guarded(size).at_end(size))


def guard() -> None:
    """Have the messages' room take its memory from here."""
    memory, given = GuardedMemory(), columns._input

    def zeros(size: int, dtype: Any = np.float64) -> np.ndarray:
        made = memory.array(size, dtype)
        made[...] = 0
        return made

    def read(messages: Any) -> tuple[Any, Any, Any]:
        buf, starts, present = given(messages)
        copy = memory.array(len(buf), np.uint8)
        copy[:] = buf
        return copy, starts, present

    columns._input = read
    columns.np = SimpleNamespace(**{**vars(np), "empty": memory.array, "zeros": zeros})
    _arena.pa = SimpleNamespace(**{**vars(pa), "allocate_buffer": guarded_buffer})


def unguarded(before: tuple[Any, ...], work: Any) -> Any:
    """Do something in ordinary memory."""
    now = columns._input, columns.np, _arena.pa
    columns._input, columns.np, _arena.pa = before
    try:
        return work()
    finally:
        columns._input, columns.np, _arena.pa = now


def shown(row: dict[str, Any]) -> str:
    """Write a row; which of several faults is met first is each decoder's own affair, the objects word it."""
    return repr(row | {"_error": row["_error"] is not None})


def some_messages(choose: random.Random, cls: type, version: int) -> list[bytes]:
    """Make sound messages, and many that are not."""
    good = [make_value(cls, version, choose.random(), unknown_tags=True).encode(version) for _ in range(4)]
    made = [*good, b"", choose.randbytes(choose.randrange(60))]
    while len(made) < MESSAGES:
        bad = choose.choice(good)
        for _ in range(choose.randrange(1, 4)):
            bad = _damaged(bad, choose) if bad else bad
        made.append(bad)
    return made


def check(choose: random.Random, name: str, version: int, before: tuple[Any, ...]) -> int:
    """Compare all answers about some messages of a kind."""
    cls = message(name)
    plan, messages, mode = cls._plan(version, DecodeError), some_messages(choose, cls, version), choose.choice(MODES)

    def decoded(specialized: bool) -> pa.StructArray:
        return columns.decode_columns(plan, messages, mode=mode, specialized=specialized)

    wanted = unguarded(before, lambda: decoded(False))
    wanted.validate(full=True)
    expected = wanted.to_pylist()
    for specialized in (False, True):
        rows = zip(messages, decoded(specialized).to_pylist(), expected, strict=True)
        for raw, found, row in rows:
            if shown(found) != shown(row):
                raise SystemExit(
                    f"{name} v{version} {mode} {specialized=} {raw.hex()[:4000]}: {found}, not {row}"[:9000]
                )
    sound = np.flatnonzero(wanted.field("_error").is_null().to_numpy(zero_copy_only=False))
    if mode == "strict" and len(sound) and "nan" not in repr(expected):
        rows = wanted.take(pa.array(sound))
        again = columns.encode_columns(plan, rows).to_pylist()
        if again != [messages[row] for row in sound.tolist()]:
            raise SystemExit(f"{name} v{version}: written anew as {again}")
    return len(messages)


def main(seconds: float, seed: int) -> None:
    """Fuzz until the time is over."""
    choose, pairs, before = random.Random(seed), every_pair(), (columns._input, columns.np, _arena.pa)
    guard()
    deadline, done = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        done += check(choose, *choose.choice(pairs), before)
    print(f"{done} messages between forbidden pages: one answer, no byte beyond (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
