"""Run ``decompress`` on damaged streams for a minute: it returns a value or a reason quickly, within its limit.

The fast path (``native``) gets the same streams between protected pages and must give the same verdict.

Run: python tests/fuzz/records_decompress.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.records import streams
from tests.records.test_native import assert_equal_or_unusual

from kafkaframes.records.codecs import CODECS, decompress
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES

SLOWEST_SECONDS = 5.0
MAX_GUARDED_BYTES = 1 << 22


def main(seconds: float, seed: int) -> None:
    choose = random.Random(seed)
    deadline, case_count, failure_count = time.monotonic() + seconds, 0, 0
    while time.monotonic() < deadline:
        codec, _, payload = streams.choose_stream(choose)
        for read_as in (codec, choose.choice(list(CODECS))):
            magic, limit = choose.choice([0, 1, 2]), choose.choice([0, 1, 5000, DEFAULT_LIMIT_BYTES])
            began = time.monotonic()
            result = decompress(read_as, payload, magic=magic, limit_bytes=limit)
            took = time.monotonic() - began
            if len(result.data) > limit or took > SLOWEST_SECONDS:
                raise SystemExit(f"seed {seed}, case {case_count}: {len(result.data)} bytes of {limit} in {took:.1f} s")
            if len(payload) < MAX_GUARDED_BYTES:
                assert_equal_or_unusual(read_as, payload, limit=min(limit, MAX_GUARDED_BYTES))
            case_count += 1
            failure_count += result.error is not None
    print(f"{case_count} streams, {failure_count} of them damaged, each with a value or a reason (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
