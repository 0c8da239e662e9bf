"""Measure what this package's sources add to a Spark planner process: imported modules and CPU time.

Run:      python benchmarks/planner_starts.py [SRC]        (SRC: the folder src of another checkout, for both sides)
Results:  benchmarks/results/planner_starts.md

Spark starts a Python process to find sources, one for each ``load()``, two for each write and two for each micro-batch
that is written. Each process imports a PySpark module and then this package. Here the same imports run in processes of
their own, all sides in turn, without Spark. Printed are medians of CPU time (user and system), and how many times the
bare process the whole is. Before that, what the bare process costs where PySpark comes from Spark's zip, as in every
session that is not ours, and where it is the installed package (``spark/sessions/worker_files.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import pyspark

ROUNDS = 7
ROOT_FOLDER = Path(__file__).parents[1]
CLIENT_OPTIONS = '{"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}'
READ_OPTIONS = '{"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}'
VALUE_SCHEMA = "StructType([StructField('value', BinaryType())])"
PLANNER_STEPS = {  # step of Spark: the PySpark module, and the called code of this package
    "find sources": ("lookup_data_sources", "import pyspark_kafka_capture, pyspark_kafka_log, pyspark_kafka_topic"),
    "load kafka-log": (
        "create_data_source",
        "from pyspark_kafka_log import DefaultSource as S; S({'path': '.'}).schema()",
    ),
    "load kafka-topic": (
        "create_data_source",
        f"from pyspark_kafka_topic import DefaultSource as S; S({READ_OPTIONS}).schema()",
    ),
    "write kafka-topic": (
        "write_into_data_source",
        f"from pyspark_kafka_topic import DefaultSource as S; S({CLIENT_OPTIONS}).writer({VALUE_SCHEMA}, False)",
    ),
    "commit a micro-batch to kafka-topic": (
        "python_streaming_sink_runner",
        "from pyspark_kafka_topic import DefaultSource as S; "
        f"S({CLIENT_OPTIONS}).streamWriter({VALUE_SCHEMA}, False).commit([], 0)",
    ),
}
STEP_CODE = """
import json, sys, time
from pyspark.sql.types import BinaryType, StructField, StructType
import pyspark.sql.worker.{worker}
bare = time.process_time(), len(sys.modules)
{ours}
print(json.dumps([*bare, time.process_time(), len(sys.modules)]))
"""


def measure_step(step: str, source: Path, *ahead: Path) -> list[float]:
    """Return CPU seconds and modules of the bare process, and of the whole; ``ahead`` stands first on the path."""
    worker, ours = PLANNER_STEPS[step]
    command = [sys.executable, "-c", STEP_CODE.format(worker=worker, ours=ours)]
    process = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*ahead, source]))},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout)


def main() -> None:
    """Run the benchmark, and print the results."""
    sources = [ROOT_FOLDER / "src", *map(Path, sys.argv[1:2])]
    zips = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    bare_runs = [
        (measure_step(step, sources[0], *zips)[0], measure_step(step, sources[0])[0])
        for step in list(PLANNER_STEPS)[:2] * 3
    ]
    zipped_s, installed_s = (median(values) for values in zip(*bare_runs, strict=True))
    print(
        f"bare, PySpark from the zip: {zipped_s:.2f} s; installed: {installed_s:.2f} s;"
        f" {zipped_s / installed_s:.1f} times\n"
    )
    print("| step | checkout | bare, CPU s | whole, CPU s | times | modules of ours |\n|---|---|---|---|---|---|")
    for step in PLANNER_STEPS:
        runs: dict[Path, list[list[float]]] = {source: [] for source in sources}
        for _ in range(ROUNDS + 1):  # the first compiles Python files
            for source in sources:
                runs[source].append(measure_step(step, source))
        for source in sources:
            bare, before, whole, after = (median(values) for values in zip(*runs[source][1:], strict=True))
            cells = f"{bare:.2f} | {whole:.2f} | {whole / bare:.1f} | {after - before:.0f}"
            print(f"| {step} | {'this' if source == sources[0] else 'other'} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
