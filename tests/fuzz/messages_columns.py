"""Decode damaged and random messages to columns for a minute: each row equals the decoded object, and arrays are valid.

Run: python tests/fuzz/messages_columns.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.protocol.messages.rows import to_row
from tests.protocol.messages.test_every_message import _damage
from tests.protocol.messages.values import list_message_versions, make_value

from kafkaframes.errors import DecodeError, EncodeError
from kafkaframes.protocol.messages import message

MODES = ("reference", "strict")


def expected_row(cls, data, version, mode):
    """Return the row that the columns must contain, from the decoded object."""
    plan = cls.codec(version).plan.root
    try:
        return to_row(cls.decode(data, version, mode=mode), plan)
    except DecodeError as error:
        return dict.fromkeys(to_row(cls(), plan)) | {"_error": str(error)}


def encode_again(cls, columns, version):
    """Return the bytes of each row, or None if it cannot be encoded."""
    for index in range(len(columns)):
        try:
            yield cls.encode_columns(columns.slice(index, 1), version)[0].as_py()
        except EncodeError:
            yield None


def check_columns(choose: random.Random, pairs: list[tuple[str, int]]) -> int:
    name, version = choose.choice(pairs)
    cls, mode = message(name), choose.choice(MODES)
    good = [make_value(cls, version, choose.random(), unknown_tags=True).encode(version) for _ in range(3)]
    messages = [*good, choose.randbytes(choose.randrange(40))]
    for _ in range(8):
        bad = choose.choice(good)
        for _ in range(choose.randrange(1, 4)):
            bad = _damage(bad, choose) if bad else bad
        messages.append(bad)
    columns = cls.decode_columns(messages, version, mode=mode)
    columns.validate(full=True)
    for data, row, again in zip(messages, columns.to_pylist(), encode_again(cls, columns, version), strict=True):
        row_wanted = expected_row(cls, data, version, mode)
        if repr(row) != repr(row_wanted):
            raise SystemExit(f"{name} v{version} {mode} {data.hex()}: {row}, not {row_wanted}")
        if mode == "strict" and row["_error"] is None and "nan" not in repr(row) and again != data:
            raise SystemExit(f"{name} v{version} {data.hex()} is encoded again as {again!r}")
    return len(messages)


def main(seconds: float, seed: int) -> None:
    choose, pairs = random.Random(seed), list_message_versions()
    deadline, message_count = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        message_count += check_columns(choose, pairs)
    print(f"{message_count} messages, whose columns equal their objects (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32),
    )
