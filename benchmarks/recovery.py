"""Measure the recovery of an unclean log, compared with reading it with CRC checks.

A log of idempotent batches (16 KiB each by default, two alternating producers), nothing flushed, no indexes but the
offset index of each segment; the last batch is torn. Timed: every batch's CRC once (``check_crcs``); the plan and
what follows from it (``plan_recovery`` and ``compute_files``); ``open_log``, which does it in place and opens the log,
as a broker does; and ``recover_to``, which copies and flushes the log, too.

Run:      python benchmarks/recovery.py [--megabytes 1024] [--batch-bytes 16384]
Saves:    benchmarks/results/recovery.md
"""

from __future__ import annotations

import argparse
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kafkaframes.records.scan import check_crcs
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.partition import open_log
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoverySettings, compute_files, recover_to
from kafkaframes.wire.checksum import crc32c

RESULTS_FILE = Path(__file__).parent / "results" / "recovery.md"
SEGMENT_BYTES = 128 << 20
_NOW_MS = 1_795_255_143_423


def build_batch(offset: int, producer: int, sequence: int, payload: bytes) -> bytes:
    """Frame a payload as a batch of format 2 with one record (whose content does not matter)."""
    body = struct.pack(">hiqqqhii", 0, 0, _NOW_MS, _NOW_MS + offset, producer, 0, sequence, 1) + payload
    head = struct.pack(">qiibI", offset, 9 + len(body), 0, 2, crc32c(body))
    return head + body


def write_log(directory: Path, size_bytes: int, batch_bytes: int) -> None:
    """Write segments of 128 MiB; the last batch lacks its second half."""
    partition = directory / "bench-0"
    partition.mkdir(parents=True)
    payload = np.random.default_rng(7).bytes(batch_bytes - 61)
    offset, written_bytes, last = 0, 0, b""
    while written_bytes < size_bytes:
        path, segment_bytes = partition / f"{offset:020d}.log", 0
        path.with_suffix(".index").touch()
        with path.open("wb") as out:
            while segment_bytes < SEGMENT_BYTES and written_bytes + segment_bytes < size_bytes:
                last = build_batch(offset, offset % 2, offset // 2, payload)
                segment_bytes += out.write(last)
                offset += 1
        written_bytes += segment_bytes
    with path.open("r+b") as out:
        out.truncate(segment_bytes - len(last) // 2)


def time_best(work: Callable[[], object]) -> tuple[float, float]:
    """Return CPU and wall seconds, the best of two."""
    best = (float("inf"), float("inf"))
    for _ in range(2):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
    return best


def main() -> None:
    """Run, print and save the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--batch-bytes", type=int, default=16384)
    options = parser.parse_args()
    settings = RecoverySettings(_NOW_MS)
    with tempfile.TemporaryDirectory() as scratch:
        write_log(Path(scratch) / "log", options.megabytes << 20, options.batch_bytes)
        (directory,) = discover(str(Path(scratch) / "log"))
        (partition,) = directory.partitions

        def read() -> None:
            for segment in partition.segments:
                with directory.filesystem.open(segment.path) as read_at:
                    for window in scan_segment(
                        read_at, size_bytes=segment.size_bytes, includes_data=True, file=segment.path
                    ):
                        assert check_crcs(window.data, window.batches_in_data()).all()

        read()  # kernels are loaded, the page cache is filled
        figures = {"read with CRC": time_best(read)}
        figures["plan and work out"] = time_best(
            lambda: compute_files(directory, plan_recovery(directory, partition), settings)
        )
        copies = iter(range(2))
        for number in range(2):
            shutil.copytree(Path(scratch) / "log", Path(scratch) / f"copy{number}")
        figures["opened in place (open_log)"] = time_best(
            lambda: open_log(f"{scratch}/copy{next(copies)}/bench-0", now_ms=_NOW_MS).abandon()
        )
        targets = iter(range(2))
        figures["the same, and write a copy"] = time_best(
            lambda: recover_to(
                directory, plan_recovery(directory, partition), settings, Path(scratch) / f"out{next(targets)}"
            )
        )
    base = figures["read with CRC"]
    lines = [
        f"# Recovery of {options.megabytes} MiB, batches of {options.batch_bytes} bytes",
        "",
        "2026-11-21, 2 cores shared, Python 3.11. Goal: at most 2x the time of reading with CRC.",
        "",
        "| | CPU s | ratio | wall s | ratio |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {cpu:.2f} | {cpu / base[0]:.2f} | {wall:.2f} | {wall / base[1]:.2f} |"
            for name, (cpu, wall) in figures.items()
        ),
    ]
    print("\n".join(lines))
    RESULTS_FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
