"""Rewrite made-up segments for a minute: the short way writes what the long way writes, and touches no byte beyond.

Run: python tests/fuzz/rewrite.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.jobs.convert.test_fast import Maker, assert_same_bytes, guarded_runs
from tests.records import mutations

from kafkaframes.jobs.settings import RewriteSettings
from kafkaframes.records.codecs import Codec


def some_settings(choose: random.Random) -> RewriteSettings:
    """Choose a format, a codec and what to do with damage."""
    magic = choose.choice([2, 2, 2, None, None, 1, 0])
    codec = choose.choice([None, *(one for one in Codec if one is not Codec.ZSTD or magic in (None, 2))])
    level = choose.choice([None, None, 1, 6]) if codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD) else None
    return RewriteSettings(
        record_format=magic,
        codec=codec,
        level=level,
        on_loss="drop",
        mode=choose.choice(("PERMISSIVE",) * 4 + ("FAILFAST",)),
    )


def main(seconds: float, seed: int) -> None:
    choose = random.Random(seed)
    deadline, done = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        number, settings = choose.randrange(2**40), some_settings(choose)
        data = Maker(number).segment() if choose.random() < 0.6 else mutations.some_log(number)
        assert_same_bytes(data, settings)
        guarded_runs(data, settings)
        done += 1
    print(f"{done} segments: the same bytes both ways (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
