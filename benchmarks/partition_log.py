"""Measure appends to a partition's log, compared with plain writes of the same bytes.

Batches of format 2 (16 KiB of 100-byte JSON records, lz4). Timed: a plain ``write`` of each batch into a file with an
fsync for each segment; ``append_as_follower`` (CRC, offsets, indexes, producers, rolls) of one batch and of 64 at once;
``append_as_leader`` (also decompressed and checked, as Kafka's leader does) with and without a producer id. All of them
call fsync only at rolls. MB are the written bytes; those of the records are next to them.

Run:      python benchmarks/partition_log.py [--megabytes 256]
Saves:    benchmarks/results/partition_log.md
"""

from __future__ import annotations

import argparse
import os
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kafkaframes.records.build import build_records
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.storage.partition import LogSettings, create_log
from kafkaframes.wire.checksum import crc32c

RESULTS_FILE = Path(__file__).parent / "results" / "partition_log.md"
NOW_MS = 1_795_255_143_423
BATCH_RECORDS, VALUE_BYTES, KINDS = 120, 100, 64
SEGMENT_BYTES = 64 << 20
CpuAndWall = tuple[float, float]


def build_batches(*, idempotent: bool = False) -> list[bytes]:
    """Build some different batches of about 16 KiB before compression."""
    choose = np.random.default_rng(5)
    batch_list = []
    for number in range(KINDS):
        values = [
            b'{"id":%d,"customer":"c%d","amount":%d,"currency":"EUR","note":"%s"}'
            % (
                number * BATCH_RECORDS + row,
                choose.integers(9999),
                choose.integers(10**6),
                choose.bytes(16).hex().encode(),
            )
            for row in range(BATCH_RECORDS)
        ]
        columns = {
            "key": [None] * BATCH_RECORDS,
            "value": [value.ljust(VALUE_BYTES)[:VALUE_BYTES] for value in values],
            "timestamp": [NOW_MS + row for row in range(BATCH_RECORDS)],
        }
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if idempotent else {}
        batch_list.append(build_records(columns, codec="lz4", batch_bytes=1 << 20, **producer))
    return batch_list


def place_batches(pieces: list[bytes], count: int) -> list[bytes]:
    """Return a number of batches with consecutive offsets, as a leader assigns them."""
    return [struct.pack(">q", number * BATCH_RECORDS) + pieces[number % KINDS][8:] for number in range(count)]


def write_plain_file(directory: Path, ready: list[bytes]) -> None:
    """Write only the batches, with an fsync at the end of each segment."""
    number, written_bytes = 0, 0
    out = os.open(directory / "0", os.O_CREAT | os.O_WRONLY)
    for piece in ready:
        if written_bytes + len(piece) > SEGMENT_BYTES:
            os.fsync(out)
            os.close(out)
            number, written_bytes = number + 1, 0
            out = os.open(directory / str(number), os.O_CREAT | os.O_WRONLY)
        written_bytes += os.write(out, piece)
    os.fsync(out)
    os.close(out)


def append_as_follower(directory: Path, ready: list[bytes], at_once: int) -> None:
    """Append as a follower, several batches at once."""
    log = create_log(str(directory / "bench-0"), settings=LogSettings(segment_bytes=SEGMENT_BYTES), now_ms=NOW_MS)
    for start in range(0, len(ready), at_once):
        log.append_as_follower(b"".join(ready[start : start + at_once]), now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)


def append_as_leader(directory: Path, ready: list[bytes]) -> None:
    """Append as a leader, a batch at a time."""
    log = create_log(str(directory / "bench-0"), settings=LogSettings(segment_bytes=SEGMENT_BYTES), now_ms=NOW_MS)
    for piece in ready:
        log.append_as_leader(piece, leader_epoch=0, now_ms=NOW_MS)
    log.close(now_ms=NOW_MS)


def set_sequences(pieces: list[bytes], count: int) -> list[bytes]:
    """Return batches of one idempotent producer; only the headers differ (their CRCs are computed again)."""
    batch_list = []
    for number in range(count):
        raw = bytearray(pieces[number % KINDS])
        struct.pack_into(">i", raw, BATCH_V2.position_of("base_sequence"), number * BATCH_RECORDS)
        struct.pack_into(">I", raw, BATCH_V2.position_of("crc"), crc32c(bytes(raw[BATCH_V2.end_of("crc") :])))
        batch_list.append(bytes(raw))
    return batch_list


def time_best(work: Callable[[Path], object]) -> CpuAndWall:
    """Return CPU and wall seconds, the best of two."""
    best = (float("inf"), float("inf"))
    for _ in range(2):
        with tempfile.TemporaryDirectory() as scratch:
            os.sync()
            cpu, wall = time.process_time(), time.perf_counter()
            work(Path(scratch))
            best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    return best


def main() -> None:
    """Run, print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256)
    options = parser.parse_args()
    pieces, clients = build_batches(), build_batches(idempotent=True)
    mean = sum(map(len, pieces)) / KINDS
    count = int(options.megabytes * 1e6 / mean)
    ready, client = place_batches(pieces, count), [pieces[number % KINDS] for number in range(count)]
    sequences = set_sequences(clients, count)
    append_as_leader(Path(tempfile.mkdtemp()), sequences[:100])  # kernels are loaded
    figures = {
        "plain write": time_best(lambda path: write_plain_file(path, ready)),
        "append_as_follower, 64 batches at once": time_best(lambda path: append_as_follower(path, ready, 64)),
        "append_as_follower, one batch at once": time_best(lambda path: append_as_follower(path, ready, 1)),
        "append_as_leader": time_best(lambda path: append_as_leader(path, client)),
        "append_as_leader, idempotent": time_best(lambda path: append_as_leader(path, sequences)),
    }
    size = sum(map(len, ready)) / 1e6
    records = count * BATCH_RECORDS * (VALUE_BYTES + 8) / 1e6
    base = figures["plain write"]
    lines = [
        f"# Appends to a partition's log: {size:.0f} MB in {count} batches of {mean / 1000:.1f} kB (lz4)",
        "",
        f"2026-11-21, 2 cores shared, Python 3.11. {records:.0f} MB of records before compression; fsync at rolls",
        f"({SEGMENT_BYTES >> 20} MiB) and at the end. Ratio: CPU time relative to the plain write.",
        "",
        "| | CPU s | MB/s of CPU | records' MB/s | us a batch | ratio | wall s | MB/s |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {cpu:.2f} | {size / cpu:.0f} | {records / cpu:.0f} | {cpu / count * 1e6:.0f} "
            f"| {cpu / base[0]:.2f} | {wall:.2f} | {size / wall:.0f} |"
            for name, (cpu, wall) in figures.items()
        ),
    ]
    print("\n".join(lines))
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
