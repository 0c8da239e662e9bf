"""Is one large partition compacted faster by Spark's workers than by one process, with the same result?

The log of ``cleaner.py``: every key twice, far apart. Wall seconds, session start and a first small job aside; CPU
seconds of all processes. The files of both ways are compared byte for byte.

Run:      python benchmarks/compaction_spark.py [--sizes 100,400,1000,2000] [--keep DIR]
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import kafkaframes
from cleaner import write_log
from kafkaframes.log.cleaner import CleanerSettings
from kafkaframes.log.rewrite.compaction import compact
from kafkaframes.spark import jobs

SETTINGS = CleanerSettings(now_ms=1_800_000_000_000)


def seconds_of(source: Path, target: Path, **how: Any) -> float:
    shutil.rmtree(target, ignore_errors=True)
    begin = time.perf_counter()
    compact(str(source), target, SETTINGS, **how)
    return time.perf_counter() - begin


def peak_mb_of_workers() -> int:
    """Return the largest peak of a Python worker of Spark's, in MB."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, command = status.read_text(), (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if b"pyspark" in command and b"daemon" in command and f"Uid:\t{os.getuid()}" in text:
            peaks += [int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,400,1000,2000")
    parser.add_argument("--keep", help="where logs of earlier runs are, and new ones stay")
    parser.add_argument("--repeat", type=int, default=2, help="the best of so many counts")
    options = parser.parse_args()
    spark = kafkaframes.spark.session("compaction", master="local[2]")
    run = jobs.runner(spark)
    with tempfile.TemporaryDirectory() as temporary:
        logs = Path(options.keep or temporary)
        print(f"{'MB':>6} {'alone s':>8} {'MB/s':>6} {'Spark s':>8} {'MB/s':>6} {'ratio':>6} {'worker MB':>10}")
        for round_, megabytes in enumerate([100, *map(int, options.sizes.split(","))]):
            source = logs / str(megabytes) / "t-0"
            if not source.exists():
                source.parent.mkdir(parents=True, exist_ok=True)
                write_log(source, megabytes * 1_000_000, "lz4")
            alone, shared = Path(temporary) / "alone", Path(temporary) / "shared"
            split = replace(jobs.split(spark), above_bytes=0)
            ours = min(seconds_of(source, alone) for _ in range(options.repeat))
            theirs = min(seconds_of(source, shared, run=run, split=split) for _ in range(options.repeat))
            compared = filecmp.dircmp(alone, shared, ignore=["_SUCCESS"])
            same = filecmp.cmpfiles(alone, shared, compared.common_files, shallow=False)
            assert not compared.left_only
            assert not compared.right_only
            assert [name for name in same[1] + same[2] if name != "_SUCCESS"] == []
            if round_:
                row = f"{ours:>8.2f} {megabytes / ours:>6.0f} {theirs:>8.2f} {megabytes / theirs:>6.0f}"
                print(f"{megabytes:>6} {row} {ours / theirs:>6.2f} {peak_mb_of_workers():>10}")
    spark.stop()


if __name__ == "__main__":
    main()
