"""Measure the first query of a Spark executor compared with its second: kernels, imports, the Python worker.

    python benchmarks/executor_start.py [EXECUTORS]

On ``local-cluster[1,1,1024]``, a log of two segments is read by one task. Each executor's process is killed, Spark
starts another one, a job without Python waits until it has started, and the same query is timed twice on it. Both are
printed with their difference, whose goal is at most three seconds: by the clock, and as CPU time of the
executor and its Python workers, which other work on the machine changes less.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import kafkaframes
from kafkaframes.spark import session


def list_processes() -> dict[int, list[int]]:
    """Return the numbers of ``/proc/PID/stat`` from the parent's on (proc(5), field 4)."""
    stat_by_pid = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended since
            text = stat.read_text()
            stat_by_pid[int(text.split()[0])] = [int(word) for word in text.rpartition(")")[2].split()[1:15]]
    return stat_by_pid


def list_executors() -> set[int]:
    """Return the executor processes among the descendants of this process."""
    stat_by_pid = list_processes()
    return {pid for pid in stat_by_pid if is_below(pid, {os.getpid()}, stat_by_pid) and is_executor(pid)}


def is_below(pid: int, tops: set[int], stat_by_pid: dict[int, list[int]]) -> bool:
    """Return whether a process is a descendant of other processes."""
    while pid in stat_by_pid:
        pid = stat_by_pid[pid][0]
        if pid in tops:
            return True
    return False


def read_cpu_seconds() -> float:
    """Return the CPU time of the executors and of their descendants."""
    stat_by_pid, tops = list_processes(), list_executors()
    ticks = sum(
        sum(times[10:14]) for pid, times in stat_by_pid.items() if pid in tops or is_below(pid, tops, stat_by_pid)
    )
    return ticks / os.sysconf("SC_CLK_TCK")


def is_executor(pid: int) -> bool:
    """Return whether a process is a Spark executor."""
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def replace_executor(spark) -> None:
    """Kill the executor, and wait until the next one has run a job without Python."""
    before = list_executors()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not list_executors() - before and time.monotonic() < deadline:
        time.sleep(0.1)
    spark.range(1000).selectExpr("sum(id)").collect()


def main(count: int) -> None:
    """Print the times of each executor, and the median of the differences."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "t-0").mkdir()
        for base in (0, 1000):
            columns = {"offset": list(range(base, base + 1000)), "value": [b"%d" % number for number in range(1000)]}
            data = kafkaframes.build_records(columns, codec="lz4")
            (Path(directory) / "t-0" / f"{base:020}.log").write_bytes(data)
        spark = session("executor start", master="local-cluster[1,1,1024]")
        frame = spark.read.format("kafka-log").load(directory)
        frame.limit(1).collect()  # the driver's own first time is not measured
        clock, cpu = [], []
        for number in range(count):
            replace_executor(spark)
            times = [time.perf_counter()], [read_cpu_seconds()]
            for _ in range(2):
                assert len(frame.limit(1).collect()) == 1
                times[0].append(time.perf_counter())
                times[1].append(read_cpu_seconds())
            (first, second), (busy, again) = ((b - a, c - b) for a, b, c in times)
            clock.append(first - second)
            cpu.append(busy - again)
            print(f"executor {number + 1}: first {first:.2f} s ({busy:.2f} of CPU), second {second:.2f} ({again:.2f})")
        print(f"first - second, median of {count}: {median(clock):.2f} s (goal: at most 3), {median(cpu):.2f} s of CPU")
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
