"""Scans of segments on one and on two cores, next to Parquet on the same cores.

The same rows (key, value of 100 bytes, timestamp; LZ4) are in segments and in a Parquet file. For each number of cores,
a process that may use only these reads both, in turn: into Arrow, into Polars, with a lazy Polars query, and with a
DuckDB query. Printed are the median wall time of both, Parquet's time over ours, and how much faster ours is than on
one core.

Run:    python benchmarks/scan_cores.py [--gigabytes 2] [--runs 3] [--cores 1 2]
Needs:  pip install 'kafkaframes[pandas,polars,duckdb]'
Saves:  nothing: benchmarks/results/scans.md has what it printed, with machine and date
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import kafkaframes
from clients import measure_in_turn
from scans import COLUMNS, write_data

QUERY = 'SELECT count(*), max("offset"), sum(octet_length(value)) FROM {}'


def measure_scans(log: str, parquet: str, cores: int, runs: int) -> dict[str, tuple[float, float]]:
    """Return the median wall time, in seconds, of our read and of Parquet's, by what is done with the rows."""
    pa.set_cpu_count(cores)
    scan = kafkaframes.scan_log(log).select(*COLUMNS)
    connection = duckdb.connect(config={"threads": cores})
    scan.to_duckdb(connection, "orders")
    names = list(COLUMNS)
    last_value = pl.col("offset").max(), pl.col("value").bin.size().sum()
    works: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "to_arrow()": (scan.to_arrow, lambda: pq.read_table(parquet, columns=names)),
        "to_polars()": (scan.to_polars, lambda: pl.read_parquet(parquet, columns=names)),
        "lazy().select(max, sum)": (
            lambda: scan.lazy().select(*last_value).collect(),
            lambda: pl.scan_parquet(parquet).select(*last_value).collect(),
        ),
        "DuckDB": (
            lambda: connection.execute(QUERY.format("orders")).fetchall(),
            lambda: connection.execute(QUERY.format(f"'{parquet}'")).fetchall(),
        ),
    }
    results = {}
    for label, (ours, theirs) in works.items():
        spent = measure_in_turn({"ours": ours, "parquet": theirs}, runs)
        results[label] = tuple(statistics.median(wall for _, wall in spent[name]) for name in ("ours", "parquet"))
    return results  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        log, parquet, cores = options.child
        print(json.dumps(measure_scans(log, parquet, int(cores), options.runs)))
        return
    with tempfile.TemporaryDirectory() as folder:
        log, parquet, count = write_data(Path(folder), options.gigabytes)
        print(f"{count} rows, {options.gigabytes:g} GB of segments, load {os.getloadavg()[0]:.1f}")
        alone: dict[str, list[float]] = {}
        for cores in options.cores:
            processors = sorted(os.sched_getaffinity(0))[:cores]
            command = ["taskset", "-c", ",".join(map(str, processors)), sys.executable, __file__]
            command += ["--runs", str(options.runs), "--child", str(log), str(parquet), str(cores)]
            environment = {**os.environ, "POLARS_MAX_THREADS": str(cores)}
            output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            for label, (ours, theirs) in json.loads(output.splitlines()[-1]).items():
                alone.setdefault(label, [ours, theirs])
                print(
                    f"{cores} core{'s' * (cores > 1)}  {label:24} {ours:6.2f} s  Parquet {theirs:6.2f} s,"
                    f" {theirs / ours:5.2f}x"
                    f"  scaling {alone[label][0] / ours:.2f} (Parquet {alone[label][1] / theirs:.2f})"
                )


if __name__ == "__main__":
    main()
