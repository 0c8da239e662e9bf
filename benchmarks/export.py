"""Measure the speed of an export to Parquet, the cost of small segments and of tables, and the memory.

Sides of one run, in turn; the best of the rounds counts.

* ``write.parquet``: ``spark.read.format("kafka-log").load(log).write.parquet`` in ``local[2]``.
* ``export, Spark``: ``log.export`` on the same session; ``export, 2 processes``: the same by a pool, which is started
  and stopped in the measured time.
* the same bytes in 8 and in 1,000 segments, on Spark.
* the same bytes to files and to a table of Delta and of Iceberg, in this process.
* peak memory of a process that exports one large segment, and of one with an eighth of its size.

    python benchmarks/export.py [--megabytes 512] [--rounds 2] [--large 2048]
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import kafkaframes
from kafkaframes.cli.workers import open_runner as runner_of
from kafkaframes.jobs.export.planning import plan_export
from kafkaframes.jobs.export.run import export_segments
from kafkaframes.jobs.export.task import ExportTaskSettings
from kafkaframes.jobs.job import run_here
from kafkaframes.jobs.tables.delta import DeltaTable
from kafkaframes.jobs.tables.iceberg import IcebergTable, open_catalog
from kafkaframes.jobs.tables.planning import make_log_planner
from kafkaframes.jobs.tables.run import TableRun
from kafkaframes.jobs.tables.state import make_stored_settings
from kafkaframes.spark.options import parse_log_options
from kafkaframes.spark.runtime.jobs import create_runner as spark_runner
from spark_source import read_cpu_seconds, write_log

CODECS = ("none", "zstd")
_PEAK_CODE = """
import resource, sys
from kafkaframes.cli.main import cli
cli(["export", sys.argv[1], "--to", sys.argv[2], "--workers", "1", "--json"], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def write_segments(folder, codec, megabytes, count):
    """Write a log of ``count`` segments with a total size of values in bytes; return the number of records."""
    one = folder / "one"
    rows = write_log(one, codec, (megabytes << 20) // count)
    raw = (one / f"{0:020}.log").read_bytes()
    log = folder / "bench-0"
    log.mkdir()
    for number in range(count):
        (log / f"{number * rows:020}.log").write_bytes(raw)
    shutil.rmtree(one)
    return rows * count


def make_destination(folder):
    """Return a destination that does not exist."""
    to = folder / "out"
    shutil.rmtree(to, ignore_errors=True)
    return to


def export_log(log, folder, runner):
    """Export to Parquet; return the number of records."""
    tasks = plan_export(parse_log_options({"path": str(log)})).tasks
    with nullcontext(runner) if runner else runner_of(None, 2, label="exporting") as run:
        return export_segments(tasks, ExportTaskSettings(str(make_destination(folder))), run=run).summary.records


def write_with_spark(spark, log, folder):
    """Write with Spark's writer; return the number of written records."""
    to = make_destination(folder)
    spark.read.format("kafka-log").load(str(log)).write.parquet(str(to))
    return spark.read.parquet(str(to)).count


def time_best_rounds(rounds, rows, **sides):
    """Run the sides in turn; return the best wall and CPU seconds of each."""
    times = {name: [float("inf")] * 2 for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start_s, spent = time.perf_counter(), read_cpu_seconds() + time.process_time()
            answer = side()
            pair = time.perf_counter() - start_s, read_cpu_seconds() + time.process_time() - spent
            times[name] = [min(both) for both in zip(times[name], pair, strict=True)]
            answer = answer() if callable(answer) else answer
            if answer != rows:
                raise SystemExit(f"{name}: {answer} records, {rows} were written")
    return times


def measure_formats(spark, folder, options):
    """Return the lines of the first table."""
    for codec in CODECS:
        place = folder / codec
        place.mkdir()
        rows = write_segments(place, codec, options.megabytes, 8)
        log = place / "bench-0"
        times = time_best_rounds(
            options.rounds,
            rows,
            spark=partial(write_with_spark, spark, log, place),
            on_spark=partial(export_log, log, place, spark_runner(spark)),
            pool=partial(export_log, log, place, None),
        )
        (wall, cpu), (on_spark, on_spark_cpu), (pool, _) = (times[name] for name in ("spark", "on_spark", "pool"))
        shutil.rmtree(place)
        yield (
            f"| {codec} | {wall:.1f} | {on_spark:.1f} | {pool:.1f} | {wall / on_spark:.1f}x | {wall / pool:.1f}x "
            f"| {cpu / on_spark_cpu:.1f}x | 3x |"
        )


def measure_small_exports(spark, folder, options):
    """Return the line of 1,000 small segments against 8."""
    sides, rows = {}, 0
    for count in (8, 1000):
        place = folder / str(count)
        place.mkdir()
        rows = write_segments(place, "zstd", options.megabytes, count)
        sides[str(count)] = (rows, partial(export_log, place / "bench-0", place, spark_runner(spark)))
    walls = {}
    for _ in range(options.rounds):
        for name, (rows, side) in sides.items():
            walls[name] = min(walls.get(name, float("inf")), *time_best_rounds(1, rows, side=side)["side"][:1])
    shutil.rmtree(folder / "8")
    shutil.rmtree(folder / "1000")
    return f"| {walls['8']:.1f} | {walls['1000']:.1f} | {walls['1000'] / walls['8']:.2f}x | 1.5x |"


def export_to_table(make, log, folder):
    """Export into a new table; return the number of records."""
    options = parse_log_options({"path": str(log)})
    settings = ExportTaskSettings(str(make_destination(folder)))
    job = TableRun(make(settings.to), settings, make_stored_settings(settings, isolation=options.isolation))
    return job.add_new_offsets(make_log_planner(options)).summary.records


def measure_tables(folder, options):
    """Return the line of files against tables."""
    place = folder / "tables"
    place.mkdir()
    rows = write_segments(place, "zstd", options.megabytes, 8)
    log = place / "bench-0"
    times = time_best_rounds(
        options.rounds,
        rows,
        files=partial(export_log, log, place, run_here),
        delta=partial(export_to_table, DeltaTable, log, place),
        iceberg=partial(export_to_table, lambda to: IcebergTable(open_catalog(None, to)), log, place),
    )
    shutil.rmtree(place)
    (files, files_cpu), (delta, delta_cpu), (iceberg, iceberg_cpu) = (times[name] for name in times)
    return (
        f"| {files:.1f} | {delta:.1f} | {iceberg:.1f} | {delta / files:.2f}x | {iceberg / files:.2f}x "
        f"| {delta_cpu / files_cpu:.2f}x | {iceberg_cpu / files_cpu:.2f}x |"
    )


def measure_peaks(folder, options):
    """Return the lines of the memory's table."""
    for megabytes in (options.large // 8, options.large):
        place = folder / "large"
        write_log(place / "bench-0", "zstd", megabytes << 20)
        size = (place / "bench-0" / f"{0:020}.log").stat().st_size >> 20
        command = [sys.executable, "-c", _PEAK_CODE, str(place / "bench-0"), str(place / "out")]
        output_words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        shutil.rmtree(place)
        yield f"| {megabytes} | {size} | {output_words[-1]} |"


def main():
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=512, help="MB of values, before compression")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--large", type=int, default=2048, help="megabytes of values in one segment")
    options = parser.parse_args()
    spark = kafkaframes.spark.session("benchmark", master="local[2]")
    lines = [f"# Export to Parquet, {datetime.date.today()}, 2 cores shared, load {os.getloadavg()[0]:.1f}", ""]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm = _warm_up(folder)
        write_with_spark(spark, warm, folder)
        export_log(warm, folder, spark_runner(spark))
        lines += [
            f"{options.megabytes} MB of values in 8 segments, local[2], seconds; only export writes headers.",
            "",
            "| codec | write.parquet | export, Spark | processes | ratio | ratio, processes | ratio of CPU | goal |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for line in measure_formats(spark, folder, options):
            print(line, flush=True)
            lines.append(line)
        _save_results(lines)
        lines += ["", "The same bytes (zstd) in 8 and in 1,000 segments, on Spark, seconds.", ""]
        lines += ["| 8 | 1,000 | ratio | goal |", "|---|---|---|---|", measure_small_exports(spark, folder, options)]
        spark.stop()
        _save_results(lines)
        lines += ["", "The same bytes (zstd) to files and to new tables, one process, seconds; no goal is set.", ""]
        lines += [
            "| files | Delta | Iceberg | Delta / files | Iceberg / files | CPU, Delta | CPU, Iceberg |",
            "|---|---|---|---|---|---|---|",
            measure_tables(folder, options),
        ]
        _save_results(lines)
        lines += ["", "Peak memory of the process that exports one segment (zstd).", ""]
        lines += ["| MB of values | MB of segment | peak, MiB |", "|---|---|---|", *measure_peaks(folder, options)]
    print(_save_results(lines))


def _save_results(lines):
    """Write the results file."""
    text = "\n".join([*lines, ""])
    (Path(__file__).parent / "results" / "export.md").write_text(text)
    return text


def _warm_up(folder):
    """Write a small log, and return its directory."""
    write_log(folder / "warm" / "bench-0", "zstd", 1 << 20)
    return folder / "warm"


if __name__ == "__main__":
    main()
