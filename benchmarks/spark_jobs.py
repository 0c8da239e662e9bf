"""Measure whether verify, export, compact and table scale linearly with the log on a cluster of two executors.

A partition of 500 MB of records of 200 bytes in lz4, each key twice, is stored several times. Each command runs by
itself with ``--master``; its time includes the start of Spark. CPU seconds are of all its processes (JVMs, planners,
workers); memory is the largest PSS of one Python worker, and of all JVMs together.

Run:      python benchmarks/spark_jobs.py [--gigabytes 1,2,4] [--jobs verify,export,compact,table]
              [--master 'local-cluster[2,1,1024]']
Last:     benchmarks/results/spark_jobs.md
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from cleaner import write_log
from spark_costs import read_pss_mb

PARTITION_BYTES = 500_000_000
JOB_COMMANDS = {
    "verify": lambda log, to: ["verify", log, "--deep"],
    "export": lambda log, to: ["export", log, "--to", to],
    "compact": lambda log, to: ["compact", log, "--to", to, "--topic", "t"],
    "table": lambda log, to: ["table", log, "--to", "parquet", to],
}


def measure_command(command: list[str]) -> tuple[float, float, float, float]:
    """Run a command; return wall seconds, CPU seconds, and megabytes of the largest worker and of all JVMs."""
    spent: dict[tuple[int, float], float] = {}
    worker = jvms = 0.0
    began = time.perf_counter()
    with (
        tempfile.TemporaryFile() as output_file,
        subprocess.Popen(command, stdout=output_file, stderr=output_file) as process,
    ):
        while process.poll() is None:
            java = 0.0
            for one in [psutil.Process(process.pid), *list_descendants(process.pid)]:
                with contextlib.suppress(psutil.Error):
                    times = one.cpu_times()
                    spent[one.pid, one.create_time()] = times.user + times.system
                    if "java" in one.name():
                        java += read_pss_mb(one.pid)
                    elif one.pid != process.pid:
                        worker = max(worker, read_pss_mb(one.pid))
            jvms = max(jvms, java)
            time.sleep(0.2)
        output_file.seek(0)
        assert process.returncode == 0, output_file.read().decode()[-2000:]
    return time.perf_counter() - began, sum(spent.values()), worker, jvms


def list_descendants(pid: int) -> list[psutil.Process]:
    """Return the descendants of a process."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []


def copy_partitions(data: Path, partitions: int) -> None:
    """Copy the first partition until the given number exists."""
    for number in range(partitions):
        target = data / f"t-{number}"
        if number == 0 and not target.exists():
            data.mkdir(parents=True, exist_ok=True)
            write_log(target, PARTITION_BYTES, "lz4")
        elif not target.exists():
            shutil.copytree(data / "t-0", target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", default="1,2,4")
    parser.add_argument("--jobs", default=",".join(JOB_COMMANDS))
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    options = parser.parse_args()
    print(f"| job | GB | wall s | CPU s | a worker, MB | JVMs, MB | load |\n|{'---|' * 7}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kf-bench-") as folder:
        for size in options.gigabytes.split(","):
            copy_partitions(Path(folder, "data"), round(float(size) * 1e9 / PARTITION_BYTES))
            for job in options.jobs.split(","):
                to = Path(folder, "out")
                arguments = JOB_COMMANDS[job](str(Path(folder, "data")), str(to))
                command = [sys.executable, "-m", "kafkaframes", *arguments, "--quiet", "--master", options.master]
                wall, cpu, worker, jvms = measure_command(command)
                shutil.rmtree(to, ignore_errors=True)
                figures = (f"{wall:.1f}", f"{cpu:.1f}", f"{worker:.0f}", f"{jvms:.0f}", f"{os.getloadavg()[0]:.0f}")
                print(f"| {job} | {size} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
