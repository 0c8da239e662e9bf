"""Measure how many records per second ``dump-log`` prints: text and JSON lines, lz4, 100-byte values, 16 KiB batches.

    python benchmarks/dump_log.py [--records N] [--codec lz4] [--value-bytes 100] [--kafka 'COMMAND']

Both sides are whole processes that write to a file: ``kafkaframes dump-log --deep-iteration
--print-data-log`` and, with ``--kafka``, a command that takes kafka-dump-log's flags (``make interop`` has one). The
rate is that of the whole run, start of Python or of Java included.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import kafkaframes

DUMP_FLAGS = ("--deep-iteration", "--print-data-log", "--files")
RECORDS_PER_PIECE = 50_000


class RunResult(NamedTuple):
    """The result of a run: its name, wall and CPU seconds, records per second, printed bytes."""

    name: str
    seconds: float
    cpu_seconds: float
    records_per_second: float
    printed: int


def write_segment(path: Path, *, records: int, codec: str, value_bytes: int) -> None:
    """Write a segment of records with different values, in another order in each piece."""
    random = np.random.default_rng(7)
    numbers = random.integers(0, 10**9, RECORDS_PER_PIECE).tolist()
    values = [b'{"order":%d,"customer":"c-%d","city":"Lisboa","at":%d,"note":"' % (n, n % 997, n) for n in numbers]
    value = pa.array([value.ljust(value_bytes - 2, b"x") + b'"}' for value in values], pa.binary())
    key = pa.array([b"k%d" % (n % 5000) for n in numbers], pa.binary())
    with path.open("wb") as file:
        for first in range(0, records, RECORDS_PER_PIECE):
            order = random.permutation(RECORDS_PER_PIECE)[: records - first]
            offsets = np.arange(first, first + len(order))
            columns = {"offset": offsets, "timestamp": 1_760_000_000_000 + offsets}
            columns |= {"key": key.take(order), "value": value.take(order)}
            file.write(kafkaframes.build_records(pa.table(columns), codec=codec))


def time_runs(name: str, command: list[str], records: int, *, repeat: int = 3) -> RunResult:
    """Run a command several times; return the best run."""
    best = cpu = float("inf")
    printed_bytes = 0
    for _ in range(repeat):
        with tempfile.TemporaryFile() as out:
            start_s, start_cpu_s = time.perf_counter(), _read_children_cpu()
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True)
            best = min(best, time.perf_counter() - start_s)
            cpu = min(cpu, _read_children_cpu() - start_cpu_s)
            printed_bytes = out.seek(0, os.SEEK_END)
    return RunResult(name, best, cpu, records / best, printed_bytes)


def _read_children_cpu() -> float:
    """Return the CPU time of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure_forms(path: Path, records: int, kafka: str | None, repeat: int) -> Iterator[RunResult]:
    """Yield this package's results, then Kafka's."""
    ours = [sys.executable, "-m", "kafkaframes", "dump-log"]
    for form in ("text", "jsonl"):
        yield time_runs(
            f"kafkaframes {form}", [*ours, "--format", form, *DUMP_FLAGS, str(path)], records, repeat=repeat
        )
    if kafka:
        yield time_runs("kafka-dump-log", [*shlex.split(kafka), *DUMP_FLAGS, str(path)], records, repeat=repeat)


def main(arguments: list[str] | None = None) -> dict[str, RunResult]:
    """Print a table; return the results by name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kafka", help="a command that takes kafka-dump-log's flags")
    options = parser.parse_args(arguments)
    results: dict[str, RunResult] = {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "00000000000000000000.log"
        write_segment(path, records=options.records, codec=options.codec, value_bytes=options.value_bytes)
        print(f"{options.records:,} records, {options.codec}, {options.value_bytes}-byte values, ", end="")
        print(f"{path.stat().st_size / 1e6:.0f} MB on disk")
        for result in measure_forms(path, options.records, options.kafka, options.repeat):
            results[result.name] = result
            rate, size = result.records_per_second / 1e6, result.printed / 1e6
            print(f"{result.name:20} {result.seconds:7.2f} s ({result.cpu_seconds:6.2f} s CPU) ", end="")
            print(f"{rate:6.2f} M records/s {size:8.0f} MB printed")
    if "kafka-dump-log" in results:
        for form in ("text", "jsonl"):
            ratio = results["kafka-dump-log"].seconds / results[f"kafkaframes {form}"].seconds
            cpu = results["kafka-dump-log"].cpu_seconds / results[f"kafkaframes {form}"].cpu_seconds
            print(f"kafkaframes {form} is {ratio:.1f} times as fast as kafka-dump-log (goal: 2), CPU {cpu:.1f}")
    return results


if __name__ == "__main__":
    main()
