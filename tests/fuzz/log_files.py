"""Damage the files of a real partition for a minute: each reader returns a value or an error, each command a result.

Run: python tests/fuzz/log_files.py [seconds] [seed]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.storage.log.delivered import yield_delivered_offsets
from tests.storage.log.lookups import find_offset

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.dump.summary import list_tasks, summarize_all_headers, summarize_quickly
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import find_offset_for_timestamp, log_end_offset
from kafkaframes.storage.log.transactions import ISOLATION_LEVELS, read_transactions
from kafkaframes.storage.recovery.plan import plan_recovery

LOGS = Path(__file__).parents[1] / "data" / "logs"
SOURCES = [
    LOGS / "kraft-4x-transactions" / "payments-0",
    LOGS / "unclean-half-finished-swap" / "before" / "plain-0",
    LOGS / "zk-28-mixed" / "mixed-gzip-0",
]
SLOWEST_SECONDS = 20.0


def damage(choose: random.Random, path: Path) -> None:
    """Damage one file: flip bits in it, or truncate, extend, empty, swap or remove it."""
    raw = bytearray(path.read_bytes())
    kind = choose.choice(["flip", "flip", "flip", "cut", "grow", "zeros", "empty", "remove", "other"])
    if kind == "remove":
        path.unlink()
        return
    if kind == "other":
        raw = bytearray(choose.choice(sorted(path.parent.iterdir())).read_bytes())
    elif kind == "flip" and raw:
        for _ in range(choose.randint(1, 8)):
            raw[choose.randrange(len(raw))] = choose.choice([0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)])
    elif kind == "cut":
        del raw[choose.randrange(len(raw) + 1) :]
    elif kind in ("grow", "zeros"):
        size = choose.randint(1, 100)
        raw += choose.randbytes(size) if kind == "grow" else bytes(size)
    else:
        raw = bytearray()
    path.write_bytes(raw)


def use_all_readers(path: Path) -> bool:
    """Read a partition with all readers. Return whether all readers succeeded."""
    try:
        directories = discover(str(path))
        for directory in directories:
            files = directory.filesystem
            for partition in directory.partitions:
                plan_recovery(directory, partition)
                state = read_transactions(files, partition)
                for isolation in ISOLATION_LEVELS:
                    sum(1 for _ in yield_delivered_offsets(files, partition, isolation=isolation, state=state))
                log_end_offset(files, partition)
                find_offset(files, partition, 100)
                find_offset_for_timestamp(files, partition, 1_760_000_000_000)
        for task in list_tasks(directories):
            summarize_quickly(*task)
            summarize_all_headers(*task)
        verify(directories, deep=True)
    except LogDirError:
        return False
    return True


def main(seconds: float, seed: int) -> None:
    choose = random.Random(seed)
    deadline, run_count, refused_count = time.monotonic() + seconds, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        while time.monotonic() < deadline:
            path = Path(scratch) / f"case-{run_count}" / "fuzzed-0"
            shutil.copytree(choose.choice(SOURCES), path)
            for _ in range(choose.randint(1, 4)):
                damage(choose, choose.choice(sorted(path.iterdir())))
            began = time.monotonic()
            refused_count += not use_all_readers(path)
            if time.monotonic() - began > SLOWEST_SECONDS:
                raise SystemExit(f"seed {seed}, case {run_count} took {time.monotonic() - began:.0f} s")
            shutil.rmtree(path.parent)
            run_count += 1
    print(f"{run_count} damaged partitions, {refused_count} of them rejected with an error (seed {seed})")


if __name__ == "__main__":
    main(
        float(sys.argv[1]) if len(sys.argv) > 1 else 60.0,
        int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**9),
    )
