"""Measure a look-up, a listing of 10,000 segments, and a walk over all headers, without Spark.

Run:   PYTHONPATH=src python benchmarks/log_reading.py
Goal: a point look-up (offset, timestamp) in a 10 GB log <= 100 ms; headers >= 1 GB/s; info on 10,000 segments <= 2 s.

The logs are made here, in a scratch directory: real batches with their indexes, repeated by rewriting what is outside
the CRC (the base offset). The 10 GB log is ten sparse segments: a real header each 256 KiB, and holes
on the disk between them. Both ways of a look-up are timed
in one run, with the indexes and without. About 1.5 GB are written.
"""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.storage.log.lookups import find_offset

from kafkaframes import build_records
from kafkaframes.records.scan import check_crcs
from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.indexes import OffsetIndex, TimeIndex, write_offset_index, write_time_index
from kafkaframes.storage.files.names import name_segment_file
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.lookup import find_offset_for_timestamp

START_MS = 1_760_000_000_000
SEGMENT_BYTES = 1 << 30
RECORDS_PER_BATCH = 150
INDEX_INTERVAL_BYTES = 4096
SCANNED_BYTES = 256 << 20


def build_batch(size_bytes: int, *, records: int = RECORDS_PER_BATCH) -> bytes:
    """Return one real batch of about a given size, with first offset 0 and one millisecond per record."""
    value = size_bytes // records - 12
    rows = [{"key": b"k", "value": bytes([97 + i % 26]) * value, "timestamp": START_MS + i} for i in range(records)]
    return build_records(rows, batch_bytes=1 << 30)


def at_offset(batch: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + batch[8:]


def write_segment(directory: Path, base: int, batches: int, batch: bytes, *, sparse_to: int = 0) -> int:
    """Write a segment of equal batches with its indexes; return the next offset.

    ``sparse_to`` spreads the batches over a file of that size: the size field of each batch covers its share, so that
    the headers are real and the bytes between them are a hole.
    """
    share = max(len(batch), sparse_to // batches)
    entries, last_entry = [], 0
    with open(directory / name_segment_file(base, "log"), "wb") as file:
        for number in range(batches):
            position = number * share
            if position - last_entry > INDEX_INTERVAL_BYTES:
                entries.append((base + (number + 1) * RECORDS_PER_BATCH - 1, position, number))
                last_entry = position
            raw = bytearray(at_offset(batch, base + number * RECORDS_PER_BATCH))
            struct.pack_into(">i", raw, 8, share - 12)
            first = START_MS + (base + number * RECORDS_PER_BATCH)
            struct.pack_into(">qq", raw, 27, first, first + RECORDS_PER_BATCH - 1)
            file.seek(position)
            file.write(raw if share == len(batch) else raw[:61])
        file.truncate(batches * share)
    offsets = np.array([entry[0] for entry in entries], np.int64)
    positions = np.array([entry[1] for entry in entries], np.int64)
    index = write_offset_index(OffsetIndex(base, offsets, positions))
    (directory / name_segment_file(base, "index")).write_bytes(index)
    end = base + batches * RECORDS_PER_BATCH
    closing = np.append(offsets, end - 1) if len(offsets) == 0 or offsets[-1] != end - 1 else offsets
    times = write_time_index(TimeIndex(base, START_MS + closing, closing))
    (directory / name_segment_file(base, "timeindex")).write_bytes(times)
    return end


def time_lookups(question: Callable[[int], object], wanted_values: list[int]) -> tuple[float, float]:
    """Return the median and the longest time of one look-up."""
    question(wanted_values[0])
    took = []
    for one in wanted_values:
        start_s = time.perf_counter()
        assert question(one) is not None
        took.append((time.perf_counter() - start_s) * 1000)
    return sorted(took)[len(took) // 2], max(took)


def measure_lookups(scratch: Path) -> dict[str, float]:
    """Time look-ups in a log of 10 GB: ten segments of 1 GiB and 4,096 batches each."""
    directory = scratch / "large-0"
    directory.mkdir()
    batch = build_batch(16 << 10)
    end = 0
    for _ in range(10):
        end = write_segment(directory, end, SEGMENT_BYTES // (256 << 10), batch, sparse_to=SEGMENT_BYTES)
    ((partition,),) = ([*one.partitions] for one in discover(str(directory)))
    files = LocalFileSystem()
    wanted_offsets = random.Random(1).sample(range(end), 40)
    results: dict[str, float] = {}
    for name, use_indexes, count in (("with indexes", True, 40), ("without", False, 3)):
        question = partial(find_offset, files, partition, use_indexes=use_indexes)
        median, worst = time_lookups(question, wanted_offsets[:count])
        results[f"offset, {name}, median ms"], results[f"offset, {name}, worst ms"] = median, worst
    stamps = measure_real_timestamps(scratch)
    results |= stamps
    return results | {"log size GB": sum(segment.size_bytes for segment in partition.segments) / 1e9}


def measure_real_timestamps(scratch: Path) -> dict[str, float]:
    """Time look-ups by timestamp, which read records, in 1,000 real segments of 256 KiB."""
    directory = scratch / "times-0"
    directory.mkdir()
    batch, end = build_batch(16 << 10), 0
    for _ in range(1000):
        end = write_crc_segment(directory, end, 16, batch)
    ((partition,),) = ([*one.partitions] for one in discover(str(directory)))
    files = LocalFileSystem()
    wanted_times = [START_MS + offset for offset in random.Random(2).sample(range(end), 40)]
    check_lookup(partition, wanted_times[0])
    median, worst = time_lookups(lambda stamp: find_offset_for_timestamp(files, partition, stamp), wanted_times)
    return {"timestamp, 1,000 segments, median ms": median, "timestamp, 1,000 segments, worst ms": worst}


def check_lookup(partition: Partition, stamp: int) -> None:
    """Check that a look-up by timestamp returns the expected offset."""
    offset_found = find_offset_for_timestamp(LocalFileSystem(), partition, stamp)
    assert offset_found is not None
    assert offset_found.offset == stamp - START_MS


def write_crc_segment(directory: Path, base: int, batches: int, batch: bytes) -> int:
    """Write a segment with readable batches: timestamps are shifted and CRCs are computed again."""
    from kafkaframes.wire.checksum import crc32c

    end = write_segment(directory, base, batches, batch)
    path = directory / name_segment_file(base, "log")
    raw = bytearray(path.read_bytes())
    for position in range(0, len(raw), len(batch)):
        struct.pack_into(">I", raw, position + 17, crc32c(bytes(raw[position + 21 : position + len(batch)])))
    path.write_bytes(raw)
    return end


def measure_headers(scratch: Path) -> dict[str, float]:
    """Time a walk over all headers of 256 MB, and one that also checks each CRC, with three batch sizes."""
    results = {}
    for size, records in ((1 << 10, 10), (16 << 10, RECORDS_PER_BATCH), (256 << 10, 2000)):
        path = scratch / "scan.log"
        batch = build_batch(size, records=records)
        count = SCANNED_BYTES // len(batch)
        with open(path, "wb") as file:
            for number in range(count):
                file.write(at_offset(batch, number * records))
        size_bytes = path.stat().st_size
        with LocalFileSystem().open(str(path)) as read_at:
            for _ in range(2):
                start_s = time.perf_counter()
                seen_count = sum(len(one.batches) for one in scan_segment(read_at, size_bytes=size_bytes))
                took = time.perf_counter() - start_s
            assert seen_count == count
            start_s = time.perf_counter()
            for window in scan_segment(read_at, size_bytes=size_bytes, includes_data=True):
                assert check_crcs(window.data, window.batches_in_data()).all()
            crc_s = time.perf_counter() - start_s
        results[f"headers GB/s, batches of {size >> 10} KiB"] = size_bytes / took / 1e9
        results[f"plan of a recovery (CRC) GB/s, batches of {size >> 10} KiB"] = size_bytes / crc_s / 1e9
        path.unlink()
    return results


def measure_many_segments(scratch: Path) -> dict[str, float]:
    """Time the whole process of `kafkaframes info` on 10,000 segments."""
    batch = build_batch(4 << 10)
    for topic in range(20):
        end = 0
        directory = scratch / "many" / f"topic-{topic}-0"
        directory.mkdir(parents=True)
        for _ in range(500):
            end = write_segment(directory, end, 8, batch)
    took, busy = [], []
    for _ in range(3):
        start_s, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "kafkaframes", "info", str(scratch / "many")], check=True, stdout=subprocess.DEVNULL
        )
        took.append(time.perf_counter() - start_s)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"info on 10,000 segments, s": min(took), "info on 10,000 segments, CPU s": min(busy)}


def main() -> None:
    """Print the table and save it with the other results."""
    results: dict[str, float] = {"load average": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        for part in (measure_many_segments, measure_lookups, measure_headers):
            start_s = time.perf_counter()
            figures = part(Path(name))
            print(*(f"{what:55} {value:10.2f}" for what, value in figures.items()), sep="\n", flush=True)
            print(f"  ({time.perf_counter() - start_s:.0f} s with making the data)", flush=True)
            results |= figures
    target = Path(__file__).parent / "results" / "log_reading.json"
    target.parent.mkdir(exist_ok=True)
    machine = {"date": "2026-11-21", "machine": "2 cores shared"}
    target.write_text(json.dumps(machine | {what: round(value, 3) for what, value in results.items()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
