"""Compare many small segments with few large ones in Spark, and measure the memory of reading one large segment.

The same bytes lie in 8 segments and in 1,000; ``kafka-log`` runs one aggregate over each in ``local[2]``, in turn, best
of three. Then one process reads a segment of 128 MB, another one of 2 GB; their peaks of memory are printed.

Run:      python benchmarks/spark_segments.py
Saves:    benchmarks/results/spark_segments.md
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import kafkaframes

RESULTS_FILE = Path(__file__).parent / "results" / "spark_segments.md"
PEAK_CODE = """
import resource, sys, kafkaframes
rows = sum(batch.num_rows for batch in kafkaframes.read_records(sys.argv[1]))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def make_columns(first: int, count: int, size: int) -> pa.Table:
    """Return columns of records for one segment."""
    rng = np.random.default_rng(first)
    data = rng.integers(97, 123, count * size, np.uint8).tobytes()
    values = [data[at : at + size] for at in range(0, len(data), size)]
    return pa.table({"offset": pa.array(np.arange(first, first + count)), "value": pa.array(values, pa.binary())})


def write_segments(directory: Path, segments: int, records: int) -> None:
    """Write segments with a number of records each."""
    directory.mkdir(parents=True)
    each = records // segments
    for number in range(segments):
        data = kafkaframes.build_records(make_columns(number * each, each, 100), codec="lz4")
        (directory / f"{number * each:020}.log").write_bytes(data)


def time_read(spark: object, path: Path, expected_count: int) -> float:
    """Return the seconds of a Spark read, after a check of its record count."""
    before = time.perf_counter()
    frame = spark.read.format("kafka-log").load(str(path))  # type: ignore[attr-defined]
    row = frame.selectExpr("count(*)", "max(offset)", "sum(length(value))").first()
    assert row[0] == expected_count
    return time.perf_counter() - before


def measure_peak(path: Path) -> tuple[int, int]:
    """Return the peak memory of a process that reads a segment."""
    out = subprocess.run(
        [sys.executable, "-c", PEAK_CODE, str(path)], capture_output=True, text=True, check=True
    ).stdout
    rows, megabytes = map(int, out.split())
    return rows, megabytes


def main() -> None:
    records = 4_000_000
    lines = [
        "# Small and large segments on Spark",
        "",
        "2026-11-21, 2 cores shared; `python benchmarks/spark_segments.py`.",
        "",
    ]
    with tempfile.TemporaryDirectory() as temporary:
        few, many = Path(temporary) / "few" / "t-0", Path(temporary) / "many" / "t-0"
        write_segments(few, 8, records)
        write_segments(many, 1000, records)
        spark = kafkaframes.spark.session(master="local[2]")
        time_read(spark, few, records)
        times = [(time_read(spark, few, records), time_read(spark, many, records)) for _ in range(3)]
        spark.stop()
        one, other = min(pair[0] for pair in times), min(pair[1] for pair in times)
        lines.append(
            f"400 MB of values, lz4, aggregate in local[2]: 8 segments {one:.2f} s, 1,000 segments {other:.2f} s"
        )
        lines.append(f"({other / one:.2f} times; goal: at most 1.5).")
        print("\n".join(lines[4:]))
    with tempfile.TemporaryDirectory() as temporary:
        for megabytes in (128, 2000):
            path = Path(temporary) / f"{0:020}.log"
            with path.open("wb") as out:
                for first in range(0, megabytes * 1000, 32_000):
                    out.write(kafkaframes.build_records(make_columns(first, 32_000, 1000)))
            rows, most = measure_peak(path)
            lines += ["", f"A segment of {path.stat().st_size / 1e6:.0f} MB, {rows} records: peak {most} MiB."]
            print(lines[-1], flush=True)
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
