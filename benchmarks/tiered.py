"""Compare tiered segments with the same segments on disk: the rate of a full read, and the bytes fetched for a small
range.

A partition of several segments of 16 KiB batches, on disk and as tiered objects (plain, zstd chunks, encrypted zstd
chunks; chunks of 4 MiB, the plugin's default), all on the local file system. Both sides are read by ``kafka-log``'s own
task code (key, value, topic, partition, offset, timestamp, timestampType), in turn, in one process, and by an aggregate
of Spark's in ``local[2]``; the best of the rounds counts. The bytes of a query are counted where they are read from the
disk, planning and reading together.

    python benchmarks/tiered.py [--megabytes 400] [--segments 4] [--rounds 5] [--data DIR] [--write]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.storage.tiered.store import KeyPair, TieredStore

import kafkaframes
from kafkaframes.scan.columns import choose_columns
from kafkaframes.scan.log.reading import read_work
from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options
from kafkaframes.storage.files import filesystem
from kafkaframes.storage.files.indexes import write_offset_index, write_time_index
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.rebuild import rebuild_indexes
from spark_source import BATCH_BYTES, QUERY_COLUMNS, build_batches, time_best_rounds

ASKED_RATE, ASKED_SHARE = 0.70, 0.03
CHUNK_BYTES = 4 << 20
RANGE_COUNT = 10  # of one percent each, spread over the log


def write_segments(directory, codec, plain_bytes, count):
    """Write segments with their indexes; return the end offset of each."""
    batches, offset, ends = build_batches(codec), 0, []
    directory.mkdir(parents=True)
    for number in range(count):
        path = directory / f"{offset:020}.log"
        with open(path, "wb") as log:
            for written_count in range(plain_bytes // count // BATCH_BYTES):
                raw, records = batches[(written_count + number) % len(batches)]
                log.write(struct.pack(">q", offset) + raw[8:])
                offset += records
        ends.append(offset)
    (log_dir,) = discover(str(directory))
    for segment in log_dir.partitions[0].segments:
        indexes = rebuild_indexes(log_dir.filesystem, segment)
        Path(segment.path).with_suffix(".index").write_bytes(write_offset_index(indexes.offset_index))
        Path(segment.path).with_suffix(".timeindex").write_bytes(write_time_index(indexes.time_index))
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return ends


def upload_segments(root, directory, ends, **settings):
    """Write segments of a log to a new tiered store, and return the store."""
    store = TieredStore(root, chunk_size=CHUNK_BYTES, **settings)
    for path, end in zip(sorted(directory.glob("*.log")), ends, strict=True):
        store.upload(path, end_offset=end - 1, epochs={0: int(path.name[:20])}, checkpoint="0\n1\n0 0\n")
    return store


def read_all(options):
    """Read everything; return seconds of the clock, of the processor, and records."""
    columns, rows = choose_columns(None), 0
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    for work in plan_log(options, cores=1).works:
        for batch in read_work(work, columns, options):
            rows += batch.num_rows
    return time.perf_counter() - start_s, time.process_time() - start_cpu_s, rows


def measure_rates(sides, rounds):
    """Read the sides in turn; return the best seconds of each, by the clock and of the processor, and the records."""
    best, rows = {}, {}
    for _ in range(rounds):
        for name, options in sides.items():
            *seconds, rows[name] = read_all(options)
            best[name] = tuple(map(min, best.get(name, seconds), seconds))
    assert len(set(rows.values())) == 1, rows
    return best, next(iter(rows.values()))


def measure_spark_rates(sides, rounds):
    """Aggregate over the sides in turn, by Spark; return the best seconds of each, by the clock and of processors."""

    def query_of(options):
        def ask():
            frame = spark.read.format("kafka-log").options(columns="offset,timestamp,value", **key_of(options))
            return frame.load(options.paths[0]).selectExpr(*QUERY_COLUMNS).first()

        return ask

    spark = kafkaframes.spark.session("benchmark", master="local[2]")
    queries_by_side = [query_of(options) for options in sides.values()]
    for one in queries_by_side:
        one()
    best, answers = time_best_rounds(rounds, *queries_by_side)
    spark.stop()
    assert len(set(map(tuple, answers))) == 1, answers
    return dict(zip(sides, best, strict=True))


class ReadCounter:
    """Counts the reads from the disk and their bytes while the context is active."""

    def __enter__(self):
        self.bytes, self.reads, self.own = 0, 0, filesystem._pread
        filesystem._pread = self.read
        return self

    def read(self, descriptor, position, length):
        data = self.own(descriptor, position, length)
        self.bytes += len(data)
        self.reads += 1
        return data

    def __exit__(self, *_):
        filesystem._pread = self.own


def query_range(options, first, end):
    """Read a range of offsets; return the bytes read from the disk, and the planned bytes."""
    offset_bounds = {"orders": {"0": first}}, {"orders": {"0": end}}
    range_options = {"startingOffsets": json.dumps(offset_bounds[0]), "endingOffsets": json.dumps(offset_bounds[1])}
    parsed_options = parse_log_options({"path": options.paths[0], **range_options, **key_of(options)})
    with ReadCounter() as counter:
        plan, rows = plan_log(parsed_options, cores=1), 0
        for work in plan.works:
            rows += sum(batch.num_rows for batch in read_work(work, choose_columns(None), parsed_options))
    assert rows == end - first, (rows, first, end)
    return counter.bytes, plan.bytes_to_fetch


def key_of(options):
    return {"keyFile": ",".join(options.storage["key_files"])} if options.storage else {}


def measure_queries(options, records, stored_bytes):
    """Return the shares of the stored bytes that queries for one percent fetch: the mean and the largest."""
    step, shares = records // RANGE_COUNT, []
    for number in range(RANGE_COUNT):
        first = number * step + step // 3
        fetched_bytes, _ = query_range(options, first, first + records // 100)
        shares.append(fetched_bytes / stored_bytes)
    return sum(shares) / len(shares), max(shares)


CHUNK_KINDS = {"plain": {}, "zstd": {"compress": True}, "zstd, encrypted": {"compress": True, "encrypt": True}}


def prepare_data(codec, plain_bytes, segments, root):
    """Write the segments and the stores; an existing data set is used unchanged."""
    if (root / codec / "done").exists():
        return
    directory = root / codec / "disk" / "orders-0"
    ends = write_segments(directory, codec, plain_bytes, segments)
    pair = KeyPair.make("one")
    (root / codec / "one.pem").write_bytes(pair.pem)
    for name, settings in CHUNK_KINDS.items():
        keys = pair if settings.get("encrypt") else None
        upload_segments(root / codec / name, directory, ends, compress=bool(settings), keys=keys)
    (root / codec / "done").touch()


def make_sides(codec, root):
    """Return the read options of the local log and of each tiered log."""
    sides = {"disk": parse_log_options({"path": str(root / codec / "disk")})}
    for name, settings in CHUNK_KINDS.items():
        key = {"keyFile": str(root / codec / "one.pem")} if settings.get("encrypt") else {}
        sides[name] = parse_log_options({"path": str(root / codec / name), **key})
    return sides


def size_of(root):
    return sum(path.stat().st_size for path in root.rglob("*.log"))


def measure_codec(codec, rounds, root, *, with_spark):
    """Yield a row for each kind of chunks."""
    sides = make_sides(codec, root)
    best, records = measure_rates(sides, rounds)
    in_spark = measure_spark_rates(sides, rounds) if with_spark else dict.fromkeys(sides, (1.0, 1.0))
    log_bytes = size_of(root / codec / "disk")
    for name in CHUNK_KINDS:
        stored_bytes = size_of(root / codec / name)
        mean, largest = measure_queries(sides[name], records, stored_bytes)
        yield {
            "batches": codec,
            "chunks": name,
            "log, MB": log_bytes / 1e6,
            "stored, MB": stored_bytes / 1e6,
            "disk, MB/s": log_bytes / 1e6 / best["disk"][0],
            "tiered, MB/s": log_bytes / 1e6 / best[name][0],
            "rate": best["disk"][0] / best[name][0],
            "cpu": best["disk"][1] / best[name][1],
            "Spark, disk": records / 1e6 / in_spark["disk"][0],
            "Spark, tiered": records / 1e6 / in_spark[name][0],
            "Spark": in_spark["disk"][0] / in_spark[name][0],
            "Spark, cpu": in_spark["disk"][1] / in_spark[name][1],
            "share, mean": mean,
            "share, most": largest,
        }


TABLE_COLUMNS = {
    "batches": "{batches}",
    "chunks": "{chunks}",
    "MB": "{log, MB:.0f}",
    "stored": "{stored, MB:.0f}",
    "one process: MB/s of disk": "{disk, MB/s:.0f}",
    "tiered": "{tiered, MB/s:.0f}",
    "of disk": "{rate:.0%}",
    "of CPU": "{cpu:.0%}",
    "Spark: M records/s of disk": "{Spark, disk:.2f}",
    "tiered ": "{Spark, tiered:.2f}",
    "of disk ": "{Spark:.0%}",
    "of CPU ": "{Spark, cpu:.0%}",
    "1 % of the offsets fetches": "{share, mean:.1%} (most {share, most:.1%})",
}


def format_table(rows):
    """Return the results as a table."""
    lines = [list(TABLE_COLUMNS), ["---"] * len(TABLE_COLUMNS)]
    lines += [[pattern.format_map(row) for pattern in TABLE_COLUMNS.values()] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codecs", default="none,lz4")
    parser.add_argument("--data", type=Path, help="folder for the data set, which later runs reuse")
    parser.add_argument("--prepare", action="store_true", help="only write the data set")
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/tiered.md")
    options = parser.parse_args()
    root, codecs = options.data or Path(tempfile.mkdtemp(prefix="kafkaframes-tiered-")), options.codecs.split(",")
    try:
        for codec in codecs:
            prepare_data(codec, options.megabytes << 20, options.segments, root)
        if options.prepare:
            return
        spark = not options.no_spark
        rows = [row for codec in codecs for row in measure_codec(codec, options.rounds, root, with_spark=spark)]
    finally:
        if options.data is None:
            shutil.rmtree(root)
    today, load = datetime.date.today(), os.getloadavg()[0]
    text = f"# Tiered segments compared with local segments, {today}, 2 shared cores, load {load:.1f}\n\n"
    text += (
        format_table(rows)
        + f"\n\nAsked: {ASKED_RATE:.0%} of the disk's rate with zstd chunks; {ASKED_SHARE:.0%} of the bytes.\n"
    )
    print(text)
    if options.write:
        (Path(__file__).parent / "results" / "tiered.md").write_text(text)


if __name__ == "__main__":
    main()
