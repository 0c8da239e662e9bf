"""Measure ``kafkaframes report`` on a log of 1 GB. Goal: 30 s.

The log is made here: orders of about 100 bytes in batches of 16 KiB before compression, keys among 200,000, 1 GB in
the files, a quarter of it in each of zstd, lz4, gzip and no codec, in segments of 64 MB. For comparison,
``verify`` of the same log is measured in the same run, which checks every CRC.

    python benchmarks/report.py [--megabytes 1000] [--rounds 1]
"""

from __future__ import annotations

import argparse
import datetime
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kafkaframes

TARGET_SECONDS = 30
CODECS = ("zstd", "lz4", "gzip", "none")
SEGMENT_BYTES = 64 << 20
MOTIF_RECORDS = 60_000
START_MS = 1_790_000_000_000
CITY_NAMES = ("Oslo", "Lima", "Pune", "Kyiv", "Bonn")


def build_motif(codec):
    """Return the batches that are repeated in the log, as (bytes, records)."""
    rng = random.Random(7)
    rows = [
        {
            "key": b"%d" % rng.randrange(200_000),
            "value": b'{"order":%d,"city":"%s","cents":%d,"note":"%x"}'
            % (rng.randrange(10**8), rng.choice(CITY_NAMES).encode(), rng.randrange(10**6), rng.getrandbits(120)),
            "timestamp": START_MS + number * 7,
        }
        for number in range(MOTIF_RECORDS)
    ]
    raw = kafkaframes.build_records(rows, codec=codec, batch_bytes=16 << 10, producer_id=1000)
    return [
        (raw[one["position"] : one["position"] + one["size"]], one["count"])
        for one in kafkaframes.read_batches(raw).to_pylist()
    ]


def write_topic(directory, codec, size_bytes):
    """Write segments of repeated batches with offsets of their own (these lie outside the CRC); return the records."""
    batches, offset, remaining_bytes = build_motif(codec), 0, size_bytes
    directory.mkdir(parents=True)
    place = 0
    while remaining_bytes > 0:
        with open(directory / f"{offset:020}.log", "wb") as log:
            segment_bytes = 0
            while segment_bytes < min(SEGMENT_BYTES, remaining_bytes):
                raw, records = batches[place % len(batches)]
                log.write(offset.to_bytes(8, "big") + raw[8:])
                offset, segment_bytes, place = offset + records, segment_bytes + len(raw), place + 1
        remaining_bytes -= segment_bytes
    return offset


def time_command(*arguments):
    """Run a command; return its seconds and its output."""
    start_s = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-m", "kafkaframes", *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start_s
    if process.returncode > 1:
        raise SystemExit(process.stderr)
    return seconds, process.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkaframes-report-") as folder:
        log, page = Path(folder, "log"), Path(folder, "report.html")
        share = options.megabytes * 1_000_000 // len(CODECS)
        records = sum(write_topic(log / f"orders.{codec}-0", codec, share) for codec in CODECS)
        report, verify = float("inf"), float("inf")
        for _ in range(options.rounds):
            seconds, output = time_command("report", str(log), "-o", str(page))
            if f"{records:,} records" not in output:
                raise SystemExit(f"{records:,} records were written; the report says: {output}")
            report = min(report, seconds)
            verify = min(verify, time_command("verify", str(log))[0])
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        print(
            f"{datetime.date.today()}: {options.megabytes} MB, {records:,} records, "
            f"2 processes, best of {options.rounds}\n"
        )
        print("| | seconds | goal | MB/s |\n|---|---|---|---|")
        print(f"| report | {report:.1f} | <= {TARGET_SECONDS} | {options.megabytes / report:.0f} |")
        print(f"| verify | {verify:.1f} | | {options.megabytes / verify:.0f} |")
        print(f"\nreport / verify: {report / verify:.1f}x; page {page.stat().st_size >> 10} KiB; ", end="")
        print(f"peak memory of a process {peak} MiB")


if __name__ == "__main__":
    main()
