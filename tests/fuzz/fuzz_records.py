"""Read damaged record sets for a while: no crash, and kernels give the same results as their references.

Run: python tests/fuzz/fuzz_records.py [--seconds 60] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from kafkaframes.records.scan import FILE, MEMORY

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))  # the fuzzer calls the comparisons of the tests

from tests.records.test_columns import assert_columns_equal_values  # noqa: E402
from tests.records.test_twins import assert_equal_indexes  # noqa: E402

VECTORS = sorted((ROOT / "tests" / "data" / "records").glob("*.bin"))


def damage(raw: bytearray, random_: random.Random) -> bytes:
    """Change, remove, repeat or insert a few bytes."""
    for _ in range(random_.randrange(6)):
        if not raw:
            break
        place = random_.randrange(len(raw))
        mutation = random_.randrange(4)
        if mutation == 0:
            raw[place] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
        elif mutation == 1:
            del raw[place : place + random_.randrange(1, 9)]
        elif mutation == 2:
            raw[place:place] = raw[max(place - 16, 0) : place]
        else:
            raw[place:place] = random_.randbytes(random_.randrange(1, 9))
    return bytes(raw[: random_.randrange(len(raw) + 1)] if random_.randrange(4) == 0 else raw)


def main() -> None:
    """Fuzz for the given number of seconds.

    After a failure, the last lines of the traceback have the seed and the bytes.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    stop, runs = time.monotonic() + options.seconds, 0
    while time.monotonic() < stop:
        parts = [random_.choice(VECTORS).read_bytes()[:4000] for _ in range(random_.randrange(1, 3))]
        raw = damage(bytearray(b"".join(parts)), random_)
        try:
            for rules in (MEMORY, FILE):
                assert_columns_equal_values(raw, rules=rules, chunk_bytes=random_.choice((100, 1000, 1 << 20)))
            assert_equal_indexes(raw, random_.randrange(2), lenient=random_.randrange(2))
        except BaseException:
            print(f"seed {options.seed}, run {runs}: {raw.hex()}")
            raise
        runs += 1
    print(f"records: {runs} damaged record sets")


if __name__ == "__main__":
    main()
