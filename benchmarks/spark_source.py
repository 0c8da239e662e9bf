"""Compare ``kafka-log`` with the fastest source that Spark's Python API allows.

An aggregate over offset, timestamp and value length in ``local[2]``, over a log of 16 KiB batches of 100-byte JSON
values, against the same query over a source that yields as many such rows as prebuilt Arrow batches of 1 MB and does
nothing else. Both sides run in turn in one session; the best of the rounds counts, the ratio is what matters.

    python benchmarks/spark_source.py [--megabytes 200] [--rounds 5]
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import shutil
import struct
import tempfile
import time
from pathlib import Path

import psutil
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import kafkaframes

TARGET_RATIOS = {"none": 0.80, "lz4": 0.65, "zstd": 0.50, "gzip": 0.45}
BATCH_BYTES = 16 << 10
DIFFERENT_BATCHES = 400
QUERY_COLUMNS = (
    "max(offset) AS last",
    "max(timestamp) AS latest",
    "sum(octet_length(value)) AS bytes",
    "count(*) AS records",
)
START_MS = 1_700_000_000_000


def make_values(rng):
    """JSON of 100 bytes, as an order system might write."""
    while True:
        order = {"id": rng.randrange(10**8), "customer": f"c{rng.randrange(10**5)}", "cents": rng.randrange(10**6)}
        text = json.dumps(order | {"city": rng.choice(("Oslo", "Lima", "Pune", "Kyiv", "Bonn")), "note": ""})
        yield (text[:-2] + f"{rng.getrandbits(160):x}"[: 100 - len(text)].ljust(100 - len(text), "x") + '"}').encode()


def build_batches(codec):
    """Return DIFFERENT_BATCHES batches of about BATCH_BYTES before compression, as (bytes, records)."""
    rng = random.Random(7)
    source = make_values(rng)
    rows = DIFFERENT_BATCHES * BATCH_BYTES // 108
    columns = {"value": [next(source) for _ in range(rows)], "timestamp": [START_MS + n for n in range(rows)]}
    raw = kafkaframes.build_records(columns, codec=codec, batch_bytes=BATCH_BYTES)
    batches, position = [], 0
    while position < len(raw):
        end = position + 12 + int.from_bytes(raw[position + 8 : position + 12], "big")
        batches.append((raw[position:end], int.from_bytes(raw[position + 57 : position + 61], "big")))
        position = end
    return batches


def write_log(directory, codec, plain_bytes):
    """Write one segment; the CRC does not cover base offsets, so the batches can be repeated. Return its records."""
    batches, offset, written_bytes = build_batches(codec), 0, 0
    directory.mkdir(parents=True)
    with open(directory / f"{0:020}.log", "wb") as log:
        while written_bytes < plain_bytes:
            raw, records = batches[written_bytes // BATCH_BYTES % len(batches)]
            log.write(struct.pack(">q", offset) + raw[8:])
            offset += records
            written_bytes += BATCH_BYTES
    return offset


class PrebuiltReader(DataSourceReader):
    """Yields one prepared batch again and again."""

    def __init__(self, options):
        self.rows, self.tasks = int(options["rows"]), int(options["tasks"])

    def partitions(self):
        return [InputPartition(n) for n in range(self.tasks)]

    def read(self, partition):
        import pyarrow as pa

        per_batch, remaining_rows = 9000, self.rows // self.tasks
        kinds = [
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", "UTC")),
            pa.field("value", pa.binary()),
        ]
        source = make_values(random.Random(1))
        columns = [
            pa.array(range(per_batch), pa.int64()),
            pa.array([(START_MS + n) * 1000 for n in range(per_batch)], pa.timestamp("us", "UTC")),
            pa.array([next(source) for _ in range(per_batch)], pa.binary()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(kinds))
        while remaining_rows > 0:
            yield batch.slice(0, min(remaining_rows, per_batch))
            remaining_rows -= per_batch


class PrebuiltSource(DataSource):
    """A Spark data source whose tasks return one prepared batch again and again."""

    @classmethod
    def name(cls):
        return "prebuilt"

    def schema(self):
        return "offset bigint, timestamp timestamp, value binary"

    def reader(self, schema):
        return PrebuiltReader(self.options)


def read_cpu_seconds():
    """Return the CPU time of the JVM and the Python workers so far."""
    spent = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:2])
    return spent


def time_best_rounds(rounds, *sides):
    """Run the sides in turn; return each one's best wall and CPU time in seconds, and its last answer."""
    best, answers = [[float("inf")] * 2 for _ in sides], [None] * len(sides)
    for _ in range(rounds):
        for number, side in enumerate(sides):
            start_s, spent = time.perf_counter(), read_cpu_seconds()
            answers[number] = side()
            times = time.perf_counter() - start_s, read_cpu_seconds() - spent
            best[number] = [min(pair) for pair in zip(best[number], times, strict=True)]
    return best, answers


def measure_codec(spark, codec, directory, plain_bytes, rounds):
    """Return the line of one codec's result."""
    rows = write_log(directory / codec / "bench-0", codec, plain_bytes)

    def ours():
        frame = spark.read.format("kafka-log").option("columns", "offset,timestamp,value").load(str(directory / codec))
        return frame.selectExpr(*QUERY_COLUMNS).first()

    tasks = (
        spark.read.format("kafka-log").option("columns", "offset").load(str(directory / codec)).rdd.getNumPartitions()
    )

    def prebuilt():
        frame = spark.read.format("prebuilt").option("rows", str(rows)).option("tasks", str(tasks)).load()
        return frame.selectExpr(*QUERY_COLUMNS).first()

    ours(), prebuilt()
    ((mine, my_cpu), (theirs, their_cpu)), (answer, _) = time_best_rounds(rounds, ours, prebuilt)
    if (answer["records"], answer["last"], answer["bytes"]) != (rows, rows - 1, rows * 100):
        raise SystemExit(f"{codec}: wrong answer {answer}, {rows} records were written")
    shutil.rmtree(directory / codec)
    speeds = f"{rows / mine / 1e6:.1f} | {rows / theirs / 1e6:.1f}"
    ratios = f"{theirs / mine:.0%} | {their_cpu / my_cpu:.0%} | {TARGET_RATIOS[codec]:.0%}"
    return f"| {codec} | {tasks} | {speeds} | {ratios} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400, help="of values, before compression")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codecs", nargs="*", default=list(TARGET_RATIOS))
    options = parser.parse_args()
    lines = [
        "| codec | tasks | kafka-log, M records/s | prebuilt, M records/s | ratio | ratio of CPU | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    spark = kafkaframes.spark.session("benchmark", master="local[2]")
    spark.dataSource.register(PrebuiltSource)
    with tempfile.TemporaryDirectory() as folder:
        for codec in options.codecs:
            lines.append(measure_codec(spark, codec, Path(folder), options.megabytes << 20, options.rounds))
            print(lines[-1], flush=True)
    spark.stop()
    where = f"{datetime.date.today()}, 2 cores shared, load {os.getloadavg()[0]:.1f}"
    title = f"# kafka-log compared with prebuilt Arrow batches, local[2], {where}\n"
    text = "\n".join([title, *lines, ""])
    print(text)
    (Path(__file__).parent / "results" / "spark_source.md").write_text(text)


if __name__ == "__main__":
    main()
