"""What the first row of a Spark executor costs beside its second: kernels, imports, the Python worker.

    python benchmarks/executor_start.py [EXECUTORS]

On ``local-cluster[1,1,1024]``, a log of two segments is read by one task. Each executor's process is killed, Spark
starts another one, a job without Python waits until it is there, and the same query is timed twice on it. Both are
printed with their difference, which was asked to be at most three seconds.
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


def executors() -> set[int]:
    """Return the processes of executors that this process, or the JVM that it started, has started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended since
            text = stat.read_text()
            parents[int(text.split()[0])] = int(text.rpartition(")")[2].split()[1])
    return {pid for pid in parents if is_descendant(pid, parents) and is_executor(pid)}


def is_descendant(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def replace_executor(spark) -> None:
    """Kill the executor, and wait for a job of the JVM's own on the next one."""
    before = executors()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while not executors() - before and time.monotonic() < deadline:
        time.sleep(0.1)
    spark.range(1000).selectExpr("sum(id)").collect()


def main(count: int) -> None:
    """Print the times of each executor, and the median of the differences."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "t-0").mkdir()
        for base in (0, 1000):
            columns = {"offset": list(range(base, base + 1000)), "value": [b"%d" % one for one in range(1000)]}
            data = kafkaframes.build_records(columns, codec="lz4")
            (Path(directory) / "t-0" / f"{base:020}.log").write_bytes(data)
        spark = session("executor start", master="local-cluster[1,1,1024]")
        frame = spark.read.format("kafka-log").load(directory)
        frame.limit(1).collect()  # the driver's own first time is not asked about
        differences = []
        for number in range(count):
            replace_executor(spark)
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                assert len(frame.limit(1).collect()) == 1
                seconds.append(time.perf_counter() - began)
            differences.append(seconds[0] - seconds[1])
            print(f"executor {number + 1}: first {seconds[0]:.2f} s, second {seconds[1]:.2f} s")
        print(f"first - second, median of {count}: {median(differences):.2f} s (asked: at most 3)")
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
