"""Measure how fast Spark ``local[2]`` reads calls from captures: small control calls, Produce and Fetch, with and
without JSON.

The captures are arguments: recorded with tcpdump under a real broker's load, and multiplied. CPU time is that of the
JVM and of its Python workers; two of their seconds are what ``local[2]`` has in a second.

Run:      python benchmarks/captures_spark.py SMALL.pcap LARGE.pcap
Saves:    benchmarks/results/captures_spark.md
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkaframes.capture.columns import CALLS_TABLE_COLUMNS
from kafkaframes.spark.sessions.builder import session

RESULTS_FILE = Path(__file__).parent / "results" / "captures_spark.md"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CORES = 2
ROUNDS = 3
ALL_COLUMNS = [column.name for column in CALLS_TABLE_COLUMNS if column.default]
COLUMNS_WITHOUT_JSON = [
    name for name in ALL_COLUMNS if name not in ("requestHeader", "request", "responseHeader", "response")
]
PLAIN_COLUMNS = ["requestTime", "latencyMs", "clientId", "apiName", "apiVersion", "correlationId", "requestSizeBytes"]


def read_cpu_seconds() -> float:
    """Return the CPU seconds of all descendants of this process so far."""
    parents, spent = {}, {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)], spent[int(name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    total = 0.0
    for process, seconds in spent.items():
        ancestor = process
        while ancestor in parents and ancestor != os.getpid():
            ancestor = parents[ancestor]
        total += seconds if ancestor == os.getpid() != process else 0
    return total


def time_best_round(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the CPU and wall seconds of the round with the least CPU time."""
    rounds = []
    for _ in range(ROUNDS):
        cpu, wall = read_cpu_seconds(), time.monotonic()
        work()
        rounds.append((read_cpu_seconds() - cpu, time.monotonic() - wall))
    return min(rounds)


def main() -> None:
    """Measure and write the table."""
    spark = session("captures", master=f"local[{CORES}]")
    lines = [
        "# Captures on Spark",
        "",
        f"`local[{CORES}]`, {time.strftime('%Y-%m-%d')}; rates for {CORES} CPU seconds, of JVM and workers together.",
        "",
        "| traffic | query | CPU s | wall s | calls/s | MB/s of the file |",
        "|---|---|---|---|---|---|",
    ]
    for kind, path in zip(("small calls", "Produce and Fetch"), sys.argv[1:3], strict=True):
        source = spark.read.format("kafka-capture")
        count = source.option("columns", "apiKey").load(path).count()
        for name, columns in (
            ("7 columns", PLAIN_COLUMNS),
            ("all but JSON", COLUMNS_WITHOUT_JSON),
            ("all", ALL_COLUMNS),
        ):
            frame = source.option("columns", ",".join(columns)).load(path)
            queries = {
                "grouped": lambda frame=frame: frame.groupBy("apiName").count().collect(),
                "every row to the JVM": lambda frame=frame: frame.write.format("noop").mode("overwrite").save(),
            }
            for query, work in queries.items():
                cpu, wall = time_best_round(work)
                rates = CORES * count / cpu, CORES * os.path.getsize(path) / 1e6 / cpu
                lines.append(
                    f"| {kind} | {name}, {query} | {cpu:.1f} | {wall:.1f} | {rates[0]:,.0f} | {rates[1]:,.0f} |"
                )
                print(lines[-1], flush=True)
    spark.stop()
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
