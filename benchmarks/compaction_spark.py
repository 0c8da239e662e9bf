"""Compare the compaction of one large partition by Spark workers and by one process: result, time and memory.

The log of ``cleaner.py``: every key twice, far apart. Wall seconds, session start and a first job aside. "in memory":
one process that keeps the keys in memory; "in steps": one process that goes the bounded way (``SplitSettings``), by
files; "Spark": the same steps shared out. The files of all three are compared byte for byte.

``--memory`` runs the two ways of one process each in a process of its own and prints their peaks instead; with
``--keys`` the log has so many records, each with another key of 100 bytes.

Run:      python benchmarks/compaction_spark.py [--sizes 100,400,1000,2000] [--keep DIR] [--memory] [--keys N]
"""

from __future__ import annotations

import argparse
import filecmp
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import kafkaframes
from cleaner import write_log
from kafkaframes.jobs.compact.compaction import compact
from kafkaframes.jobs.compact.staged_compaction import SplitSettings
from kafkaframes.spark.runtime import jobs
from kafkaframes.storage.cleaner import CleanerSettings

SETTINGS = CleanerSettings(now_ms=1_800_000_000_000)
RUN_OPTIONS: dict[str, dict[str, Any]] = {
    "in memory": {},
    "in steps": {"work_split": SplitSettings(secret=(0x5EED, -0x5EED), above_bytes=0)},
}
SEGMENT_RECORDS = 500_000


def create_log(logs: Path, megabytes: int) -> Path:
    """Write a log of about this size, and return its directory."""
    source = logs / str(megabytes) / "t-0"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        write_log(source, megabytes * 1_000_000, "lz4")
    return source


def write_log_of_keys(logs: Path, count: int) -> Path:
    """Write records with different keys of 100 bytes."""
    source = logs / f"keys-{count}" / "t-0"
    if source.exists():
        return source
    source.mkdir(parents=True)
    for first in range(0, count, SEGMENT_RECORDS):
        numbers = range(first, min(first + SEGMENT_RECORDS, count))
        keys = pa.array([b"%0100d" % (number * 7919) for number in numbers])
        columns = {"offset": pa.array(np.asarray(numbers)), "key": keys, "value": pa.array([b"v"] * len(numbers))}
        (source / f"{first:020}.log").write_bytes(kafkaframes.build_records(columns, codec="lz4"))
    (source / f"{count:020}.log").write_bytes(b"")
    return source


def time_compaction(source: Path, target: Path, **how: Any) -> float:
    """Return the seconds of a compaction."""
    shutil.rmtree(target, ignore_errors=True)
    begin = time.perf_counter()
    compact(str(source), target, SETTINGS, **how)
    return time.perf_counter() - begin


def read_worker_peak_mb() -> int:
    """Return the largest peak memory of a Spark Python worker, in MB."""
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text, command = status.read_text(), (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if b"pyspark" in command and b"daemon" in command and f"Uid:\t{os.getuid()}" in text:
            peaks += [int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


def assert_same_logs(one: Path, other: Path) -> None:
    """Check that two compacted logs are equal."""
    comparison = filecmp.dircmp(one, other, ignore=["_SUCCESS"])
    assert not comparison.left_only
    assert not comparison.right_only
    same = filecmp.cmpfiles(one, other, [name for name in comparison.common_files if name != "_SUCCESS"], shallow=False)
    assert not same[1] + same[2]


def compare_runs(logs: Path, sizes: list[int], repeat: int, targets: Path) -> None:
    """Compact each log in each way in turns, and print the best times."""
    spark = kafkaframes.spark.session("compaction", master="local[2]")
    ways = dict(RUN_OPTIONS)
    ways["Spark"] = {
        "run": jobs.create_runner(spark),
        "work_split": replace(jobs.create_split_settings(spark), above_bytes=0),
    }
    warm = ways["Spark"] | {"work_split": replace(ways["Spark"]["work_split"], here_bytes=0)}
    for how in (*RUN_OPTIONS.values(), warm):
        time_compaction(create_log(logs, 100), targets / "warm", **how)
    print("| MB | " + " | ".join(f"{name}, s | MB/s" for name in ways) + " | to memory | to steps | worker, MB |")
    for megabytes in sizes:
        source, best = create_log(logs, megabytes), dict.fromkeys(ways, float("inf"))
        for _ in range(repeat):
            for name, how in ways.items():
                best[name] = min(best[name], time_compaction(source, targets / name, **how))
        for name in list(ways)[1:]:
            assert_same_logs(targets / "in memory", targets / name)
        cells = [f"{best[name]:.2f} | {megabytes / best[name]:.0f}" for name in ways]
        ratios = [f"{best[name] / best['Spark']:.2f}" for name in RUN_OPTIONS]
        print(f"| {megabytes} | {' | '.join(cells)} | {' | '.join(ratios)} | {read_worker_peak_mb()} |", flush=True)
    spark.stop()


def print_memory(sources: list[Path], targets: Path) -> None:
    """Print the peak memory of a compaction of each log."""
    print("| log | way | s | peak of the process, MB |")
    for source in sources:
        for name in RUN_OPTIONS:
            command = [sys.executable, __file__, "--child", name, str(source), str(targets / name)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            print(f"| {source.parent.name} | {name} | {output.strip()} |", flush=True)
        assert_same_logs(*(targets / name for name in RUN_OPTIONS))


def main() -> None:
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="100,400,1000,2000")
    parser.add_argument("--keep", help="directory for the logs, which later runs reuse")
    parser.add_argument("--repeat", type=int, default=2, help="number of rounds; the best one counts")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--keys", type=int)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, source, target = options.child
        seconds = time_compaction(Path(source), Path(target), **RUN_OPTIONS[name])
        print(f"{seconds:.2f} | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}")
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        logs = Path(options.keep or temporary)
        if options.keys:
            print_memory([write_log_of_keys(logs, options.keys)], Path(temporary))
        elif options.memory:
            print_memory([create_log(logs, size) for size in sizes], Path(temporary))
        else:
            compare_runs(logs, sizes, options.repeat, Path(temporary))


if __name__ == "__main__":
    main()
