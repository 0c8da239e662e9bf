"""Compare two forms of compiled kernels: libraries that load without numba, and numba's own cache entries.

Run:      python benchmarks/kernel_starts.py         (some minutes: each way compiles into an empty folder first)
Results:  benchmarks/results/kernel_starts.md

Three ways, each with a folder of its own: libraries for the fixed processor; numba's entries for this very processor
(what numba does by itself), and for the fixed one. Seconds are CPU time of whole processes (user and system), medians
of interleaved rounds; records and calls are the best of several in one process.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT_FOLDER = Path(__file__).parents[1]
LOG_FILE = next((ROOT_FOLDER / "examples" / "logs").glob("*/*/*.log"))
ROUNDS = 7
CPU_FEATURES = "+sse4.2,+avx2,+bmi,+bmi2,+fma,+f16c,+lzcnt,+movbe,+pclmul"
FIXED_TARGET = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": CPU_FEATURES}
TARGET_SETTINGS: dict[str, dict[str, str]] = {
    "libraries, fixed processor": {},
    "numba's cache, this processor": {"KAFKAFRAMES_TARGET": "this-machine"},
    "numba's cache, fixed processor": {"KAFKAFRAMES_TARGET": "this-machine", **FIXED_TARGET},
}
READ_CODE = """
import json, sys, time
import numpy as np, pyarrow as pa
import kafkaframes
from kafkaframes.wire import _kernels
keys = [b"key-%d" % (i % 5000) for i in range(100_000)]
values = [b"value-%d" % i * 8 for i in range(100_000)]
data = kafkaframes.build_records(pa.table({"key": keys, "value": values}), codec=sys.argv[1])
best = []
for _ in range(9):
    started = time.process_time()
    rows = sum(batch.num_rows for batch in kafkaframes.read_records(data))
    best.append(time.process_time() - started)
buffer = np.zeros(64, np.uint8)
calls = []
for _ in range(7):
    started = time.process_time()
    for _ in range(20000):
        _kernels.varint_at(buffer, 0, 64)
    calls.append((time.process_time() - started) / 20000 * 1e9)
print(json.dumps([rows / min(best) / 1e6, min(calls), "numba" in sys.modules]))
"""


def time_process(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """Run a process; return its CPU seconds and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, process.stdout


def folder_bytes(folder: Path) -> int:
    """Return the total size of all files under a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Compile in each way, then measure starts and reads in turn."""
    dump = [sys.executable, "-m", "kafkaframes", "dump-log", "--print-data-log", str(LOG_FILE)]
    with tempfile.TemporaryDirectory() as base:
        environments, compile_s = {}, {}
        for number, (way, settings) in enumerate(TARGET_SETTINGS.items()):
            folder = Path(base) / str(number)
            environments[way] = {**os.environ, "KAFKAFRAMES_CACHE_DIR": str(folder), **settings}
            compile_s[way], _ = time_process(dump, environments[way])
        starts: dict[str, list[float]] = {way: [] for way in TARGET_SETTINGS}
        for _ in range(ROUNDS):
            for way in TARGET_SETTINGS:
                starts[way].append(time_process(dump, environments[way])[0])
        print("| way | compiling, s | starting dump-log, s | size, KB | records, M/s: none, lz4 | a call, ns |")
        print("|---|---|---|---|---|---|")
        for number, way in enumerate(TARGET_SETTINGS):
            size = folder_bytes(Path(base) / str(number)) / 1000
            speeds = [
                json.loads(time_process([sys.executable, "-c", READ_CODE, codec], environments[way])[1])
                for codec in ("none", "lz4")
            ]
            speed, call = ", ".join(f"{speed[0]:.1f}" for speed in speeds), min(speed[1] for speed in speeds)
            start = statistics.median(starts[way])
            print(f"| {way} | {compile_s[way]:.1f} | {start:.2f} | {size:.0f} | {speed} | {call:.0f} |")


if __name__ == "__main__":
    main()
