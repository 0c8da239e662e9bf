"""Append random record sets for a minute: the fast path equals the general path, and stays within its buffers.

Run: python tests/fuzz/append.py [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.records.append.append_sets import choose_record_set, choose_settings
from tests.records.append.test_append_ways import append_in_guarded_memory, append_or_get_error, assert_both_paths_agree
from tests.records.mutations import choose_batch_v2, choose_messages

from kafkaframes.records.append import ValidatedRecords


def main(seconds: float, seed: int) -> None:
    choose = random.Random(seed)
    deadline, set_count, accepted_count = time.monotonic() + seconds, 0, 0
    while time.monotonic() < deadline:
        dice = choose.random()
        sent_set = (
            choose_record_set(choose)
            if dice < 0.6
            else choose_batch_v2(choose, 0)
            if dice < 0.8
            else choose_messages(choose, 0)
        )
        for _ in range(3):
            settings, offset = choose_settings(choose), choose.choice((0, 1000, 2**31))
            assert_both_paths_agree(sent_set, offset, settings)
            append_in_guarded_memory(sent_set, offset, settings)
            accepted_count += isinstance(append_or_get_error(sent_set, offset, settings), ValidatedRecords)
            set_count += 1
    print(f"{set_count} appends, {accepted_count} of them accepted, with the same answer by both paths (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
