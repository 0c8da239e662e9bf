"""Measure the speed of a cleaning round per core, and whether its cost grows linearly with the log.

Half of the records are replaced by later ones. MB are of the ``.log`` files as they are uncompressed in memory (keys,
values and 10 bytes a record); each size is cleaned once after a warm-up, in CPU seconds of this process.

Run:      python benchmarks/cleaner.py [--codec lz4] [--sizes 100,400,1000,2000]
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafkaframes import build_records
from kafkaframes.storage.cleaner import CleanerSettings, clean_partition
from kafkaframes.storage.log.discover import discover

SEGMENT_BYTES = 64 << 20
VALUE_BYTES = 100


def write_log(directory: Path, total_bytes: int, codec: str) -> tuple[int, int]:
    """Write segments with two distant records per key; return (records, uncompressed bytes)."""
    directory.mkdir()
    rng = np.random.default_rng(7)
    records = total_bytes // (VALUE_BYTES + 22)
    half = records // 2
    keys = np.concatenate((rng.permutation(half), rng.permutation(half)))
    per_segment = SEGMENT_BYTES // (VALUE_BYTES + 22)
    size = 0
    for first in range(0, len(keys), per_segment):
        part = keys[first : first + per_segment]
        values = [
            f'{{"order":{key},"at":{first + i},"city":"Lisboa","sku":"SKU-{(key * 7919) % 10007}"}}'.ljust(VALUE_BYTES)
            for i, key in enumerate(part.tolist())
        ]
        columns = {
            "offset": pa.array(np.arange(first, first + len(part))),
            "timestamp": pa.array(np.full(len(part), 1_700_000_000_000)),
            "key": pa.array([b"key-%08d" % key for key in part.tolist()]),
            "value": pa.array(values, pa.string()).cast(pa.binary()),
        }
        (directory / f"{first:020}.log").write_bytes(build_records(columns, codec=codec))
        size += len(part) * (VALUE_BYTES + 22)
    (directory / f"{len(keys):020}.log").write_bytes(b"")
    return len(keys), size


def main() -> None:
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--sizes", default="100,400,1000")
    options = parser.parse_args()
    print(f"{'MB':>6} {'records':>10} {'CPU s':>7} {'MB/s':>6} {'kept':>10} {'peak RSS MB':>12}")
    for megabytes in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as temporary:
            source = Path(temporary) / "t-0"
            records, size = write_log(source, megabytes * 1_000_000, options.codec)
            (directory,) = discover(str(source))
            settings = CleanerSettings(now_ms=1_800_000_000_000)
            best = float("inf")
            for _ in range(2):
                target = Path(temporary) / "out"
                shutil.rmtree(target, ignore_errors=True)
                before = time.process_time()
                result = clean_partition(directory.filesystem, directory.partitions[0], settings, target)
                best = min(best, time.process_time() - before)
            assert result is not None
            assert result.tally.records_kept == records // 2
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            rate = size / best / 1e6
            print(f"{megabytes:>6} {records:>10} {best:>7.2f} {rate:>6.0f} {records // 2:>10} {peak:>12}")


if __name__ == "__main__":
    main()
