"""Measure the gain of KIP-31: offsets assigned in place compared with a rebuilt set, per codec and format.

The same batches of about 16 KiB (120 records of 100-byte JSON values; all differ) go through ``validate_and_assign``
twice: with the codec that they have, so that only their headers change, and with inner offsets that force a rebuild
(formats 0 and 1), or through another codec's topic and back (format 2: the cost of compressing is what counts). CPU
seconds per GB of uncompressed records; the in-place result must have the same payload.

Run:      python benchmarks/append.py [--quick]
Saves:    benchmarks/results/append.md
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from kafkaframes.records.append import AppendSettings, validate_and_assign
from kafkaframes.records.build import build_batch
from kafkaframes.records.codecs import codec_of
from kafkaframes.records.rows import rows_of

RESULTS_FILE = Path(__file__).parent / "results" / "append.md"
RECORDS_PER_SET = 120
# Rates of Kafka's own classes on one core with Java 17, in MB/s of uncompressed bytes. They are not measured in this
# run.
JAVA_RATES = {
    (1, "gzip"): 226,
    (2, "gzip"): 301,
    (1, "snappy"): 425,
    (2, "snappy"): 627,
    (1, "lz4"): 681,
    (2, "lz4"): 1157,
    (2, "zstd"): 432,
}
JAVA_RATIOS = {"gzip": "7.6 / 10", "snappy": "2.3 / 3.4", "lz4": "3.2 / 5.4", "zstd": "-"}


def build_sets(magic: int, codec: str, count: int, first: int) -> tuple[list[bytes], int]:
    """Build sets with inner offsets that start at ``first``; with 0, they are appended in place."""
    rng = np.random.default_rng(magic)
    sets, size = [], 0
    for _ in range(count):
        values = [
            f'{{"order_id":{n},"customer":"c{n % 99991:05}","note":"{rng.bytes(18).hex()}"}}'.ljust(100)[:100].encode()
            for n in rng.integers(0, 1 << 40, RECORDS_PER_SET)
        ]
        rows = rows_of(
            {
                "offset": pa.array(range(first, first + RECORDS_PER_SET)),
                "timestamp": pa.array([1_700_000_000_000] * RECORDS_PER_SET),
                "value": values,
            }
        )
        sets.append(build_batch(rows, record_format=magic, codec=codec_of(codec)))
        size += RECORDS_PER_SET * 110 + 61
    return sets, size


def time_round(sets: list[bytes], settings: AppendSettings) -> tuple[float, list[bytes]]:
    """Validate the sets as an append does, and return the best CPU seconds and the appended bytes."""
    best = float("inf")
    for _ in range(3):
        before, offset, out = time.process_time(), 0, []
        for one in sets:
            append_result = validate_and_assign(one, offset, settings)
            offset = append_result.next_offset
            out.append(append_result.records)
        best = min(best, time.process_time() - before)
    return best, out


def main() -> None:
    """Run the benchmark, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    count = 100 if parser.parse_args().quick else 1500
    lines = [
        "| format | codec | in place, MB/s | rebuilt, MB/s | times | Java in place, MB/s | Java, times (v1 / v2) |",
        "|---|---|---|---|---|---|---|",
    ]
    for magic, codec in [(1, "gzip"), (2, "gzip"), (1, "snappy"), (2, "snappy"), (1, "lz4"), (2, "lz4"), (2, "zstd")]:
        sets, size = build_sets(magic, codec, count, 0)
        fast, out = time_round(sets, AppendSettings(record_format=magic))
        assert all(one[61:] == other[61:] for one, other in zip(sets, out, strict=True))
        holes, _ = build_sets(magic, codec, count // 4, 1)
        slow, rebuilt = time_round(
            holes, AppendSettings(record_format=magic, on_noncontiguous="reassign", origin="REPLICATION")
        )
        assert len(rebuilt) == len(holes)
        slow *= len(sets) / len(holes)
        rates = f"{size / fast / 1e6:.0f} | {size / slow / 1e6:.0f} | {slow / fast:.1f}"
        lines.append(f"| {magic} | {codec} | {rates} | {JAVA_RATES[magic, codec]} | {JAVA_RATIOS[codec]} |")
        print(lines[-1], flush=True)
    if count > 100:
        RESULTS_FILE.write_text(
            "# Assigning offsets in place and by rebuilding\n\n2026-11-21, 2 cores shared; "
            "`python benchmarks/append.py`.\n\n" + "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    main()
