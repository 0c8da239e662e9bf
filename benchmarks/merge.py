"""Measure the cost of reading three copies of a log as one, compared with reading one copy.

LZ4 batches of 16 KiB (100-byte JSON values), three equal copies with leader epochs. Both sides run in turn in one
process; the best of the rounds counts. Three questions: rows through ``kafka-log`` in Spark (an aggregate over offset,
timestamp and value length), the same without Spark (planning and reading in this process), and the merge itself.

    python benchmarks/merge.py [--megabytes 300] [--rounds 5] [--no-spark]
"""

from __future__ import annotations

import argparse
import json
import shutil
import struct
import tempfile
import time
from pathlib import Path

from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options
from spark_source import BATCH_BYTES, QUERY_COLUMNS, build_batches

TARGET_RATIO = 1.3
SEGMENT_BYTES = 64 << 20


def write_copy(directory: Path, log_bytes: int) -> None:
    """Write one copy of about ``log_bytes``; the CRC does not cover base offset and leader epoch."""
    batches = build_batches("lz4")
    directory.mkdir(parents=True)
    offset, written_bytes, number = 0, 0, 0
    while written_bytes < log_bytes:
        with open(directory / f"{offset:020}.log", "wb") as log:
            size = 0
            while size < SEGMENT_BYTES and written_bytes < log_bytes:
                raw, records = batches[number % len(batches)]
                log.write(struct.pack(">q", offset) + raw[8:12] + struct.pack(">i", 3) + raw[16:])
                offset, size, written_bytes, number = (
                    offset + records,
                    size + len(raw),
                    written_bytes + len(raw),
                    number + 1,
                )
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")


def plan_read(paths: list[str]):
    """Plan a read like Spark's planner process."""
    options = parse_log_options({"paths": json.dumps(paths)})
    return options, plan_log(options, cores=2)


def read_here(paths: list[str]) -> int:
    """Plan and read everything in this process; return the number of records."""
    options, read_plan = plan_read(paths)
    columns = choose_columns(["value", "offset", "timestamp"])
    return sum(batch.num_rows for work in read_plan.works for batch in read_work(work, columns, options))


def read_on_spark(spark, paths: list[str]) -> int:
    """Aggregate everything in Spark; return the number of records."""
    return spark.read.format("kafka-log").load(paths).selectExpr(*QUERY_COLUMNS).collect()[0]["records"]


def compare_reads(question, one: list[str], three: list[str], rounds: int) -> tuple[float, float]:
    """Return the best times of one copy and of three copies, whose results must be equal."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds + 1):  # the first one warms up
        answers = []
        for side, paths in enumerate((one, three)):
            start_s = time.perf_counter()
            answers.append(question(paths))
            best[side] = min(best[side], time.perf_counter() - start_s)
        assert answers[0] == answers[1] or question is plan_read
    return best[0], best[1]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300, help="MB of log in one copy")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--to", type=Path, default=None, help="where the copies are written")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=options.to))
    try:
        write_copy(root / "1" / "orders-0", options.megabytes << 20)
        copies = [str(root / str(n)) for n in (1, 2, 3)]
        for copy in copies[1:]:
            shutil.copytree(copies[0], copy)
        print(f"{options.megabytes} MB of log a copy, batches of {BATCH_BYTES >> 10} KiB, lz4\n")
        print("| what | one copy | three merged | ratio | goal |\n|---|---|---|---|---|")
        questions = {"planned and read in one process": read_here, "planned only": plan_read}
        if not options.no_spark:
            import kafkaframes

            spark = kafkaframes.spark.session("merge", master="local[2]")
            spark.sparkContext.setLogLevel("ERROR")
            questions = {"aggregate in Spark, local[2]": lambda paths: read_on_spark(spark, paths)} | questions
        for name, question in questions.items():
            one, three = compare_reads(question, copies[:1], copies, options.rounds)
            goal = "" if question is plan_read else f"<= {TARGET_RATIO}"
            print(f"| {name} | {one:.3f} s | {three:.3f} s | {three / one:.2f} | {goal} |", flush=True)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
