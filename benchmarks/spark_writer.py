"""Measure the write of a DataFrame as a log directory, compared with Spark's own Parquet writer.

Rows of a key and a value of 100 bytes, read from Parquet by the same session in both runs; MB are of keys and values.
Wall seconds of the best of some runs after a first small one; the kafka-log side is also split into tasks and commit.

Run:      python benchmarks/spark_writer.py [--rows 3000000] [--codec lz4] [--partitions 8]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import kafkaframes

KEY_BYTES, VALUE_BYTES = 12, 100


def time_function(function: Callable[[], None], target: Path, repeat: int) -> float:
    """Return the best time of a write to a new target."""
    best = float("inf")
    for _ in range(repeat):
        shutil.rmtree(target, ignore_errors=True)
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--partitions", default="8")
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    spark = kafkaframes.spark.session("writer", master="local[2]")
    with tempfile.TemporaryDirectory() as temporary:
        top = Path(temporary)
        value = "rpad(concat('{\"order\":', id, ',\"sku\":', id * 7919 % 10007, ',\"city\":\"Lisboa\"}'), 100, 'x')"
        rows = spark.range(0, options.rows, numPartitions=4).selectExpr(
            "cast(lpad(cast(id as string), 12, '0') as binary) as key", f"cast({value} as binary) as value"
        )
        rows.write.parquet(str(top / "input"))
        rows = spark.read.parquet(str(top / "input"))
        small = rows.limit(1000).write.format("kafka-log").option("topic", "t").mode("append")
        small.save(str(top / "small"))

        def as_log() -> None:
            writer = rows.write.format("kafka-log").option("topic", "t").option("codec", options.codec)
            writer.option("numPartitions", options.partitions).mode("append").save(str(top / "log"))

        def as_parquet() -> None:
            rows.write.option("compression", options.codec).parquet(str(top / "parquet"))

        megabytes = options.rows * (KEY_BYTES + VALUE_BYTES) / 1e6
        print(f"{options.rows} rows, {megabytes:.0f} MB, {options.codec}, {options.partitions} partitions")
        for name, function, target in (("Parquet", as_parquet, "parquet"), ("kafka-log", as_log, "log")):
            seconds = time_function(function, top / target, options.repeat)
            size = sum(file.stat().st_size for file in (top / target).rglob("*") if file.is_file()) / 1e6
            print(f"{name:>10} {seconds:6.2f} s {megabytes / seconds:6.0f} MB/s, {size:.0f} MB")
    spark.stop()


if __name__ == "__main__":
    main()
