"""Measure how many records per second are written, compared with aiokafka and kafka-python.

Run:   python benchmarks/records_build.py [--quick]
Saves: benchmarks/results/records_build.md

All write batches of 120 records of 100-byte JSON values with keys (format 2 about 16 KiB a batch) from what each takes:
ours from Arrow columns in pieces of 16,384 rows, the peers from Python bytes, a record a call. CPU seconds of one
process, best of three. Before anything is timed, aiokafka reads our bytes back and must find every record. aiokafka
compresses LZ4 with the high compressor, so that row says little about the rest.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiokafka.record.default_records as aiokafka_v2
import aiokafka.record.legacy_records as aiokafka_old
import kafka.record.default_records as kafka_python_v2
import kafka.record.legacy_records as kafka_python_old
import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords

import kafkaframes
from kafkaframes.records.codecs import codec_of

RESULTS_FILE = Path(__file__).parent / "results" / "records_build.md"
DATE, MACHINE = "2026-11-21", "2 cores shared"
BATCH_RECORDS, PIECE_ROWS, FIRST_MS = 120, 16_384, 1_700_000_000_000
BATCH_KINDS = [(2, codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")]
BATCH_KINDS += [(magic, codec) for magic in (1, 0) for codec in ("none", "snappy")]

Row = tuple[bytes, bytes]


def make_rows(count: int) -> list[Row]:
    """Return records for all libraries."""
    choose = random.Random(7)
    rows = []
    for number in range(count):
        value = f'{{"order_id":{number},"customer":"c{choose.randrange(99999):05}","amount":{choose.random():.4f}'
        value += (
            f',"status":"{choose.choice(("new", "paid", "sent", "back"))}","note":"{choose.getrandbits(96):024x}"}}'
        )
        rows.append((b"key-%d" % choose.randrange(10**6), value[:100].encode()))
    return rows


def make_pieces(rows: list[Row]) -> list[pa.Table]:
    """Divide the records into batches, as Arrow columns."""
    tables = []
    for first in range(0, len(rows), PIECE_ROWS):
        keys, values = zip(*rows[first : first + PIECE_ROWS], strict=True)
        stamps = pa.array(range(FIRST_MS + first, FIRST_MS + first + len(keys)), pa.int64())
        offsets = pa.array(range(first, first + len(keys)), pa.int64())
        columns = {"offset": offsets, "timestamp": stamps, "key": pa.array(keys), "value": pa.array(values)}
        tables.append(pa.table(columns))
    return tables


def build_with_ours(pieces: list[pa.Table], magic: int, codec: str) -> int:
    """Build batches with this package, and return their size."""
    return sum(
        len(
            kafkaframes.build_records(
                piece, record_format=magic, codec=codec, batch_records=BATCH_RECORDS, batch_bytes=1 << 30
            )
        )
        for piece in pieces
    )


def build_with_peer(module_v2: Any, module_old: Any, rows: list[Row], magic: int, codec: str) -> int:
    """Build batches with aiokafka or kafka-python."""
    number, total = int(codec_of(codec)), 0
    for first in range(0, len(rows), BATCH_RECORDS):
        if magic == 2:
            builder = module_v2.DefaultRecordBatchBuilder(2, number, 0, -1, -1, -1, 1 << 30)
        else:
            builder = module_old.LegacyRecordBatchBuilder(magic, number, 1 << 30)
        for delta, (key, value) in enumerate(rows[first : first + BATCH_RECORDS]):
            if magic == 2:
                builder.append(delta, FIRST_MS + first + delta, key, value, [])
            else:
                builder.append(delta, FIRST_MS + first + delta, key, value)
        total += len(builder.build())
    return total


def time_call(call: Callable[[], int], rounds: int) -> float | None:
    """Return the best time of a call."""
    best = None
    for _ in range(rounds):
        began = time.process_time()
        try:
            call()
        except Exception as error:
            if "not found" in str(error) or "not supported" in str(error).lower():
                return None
            raise
        took = time.process_time() - began
        best = took if best is None else min(best, took)
    return best


def check_batches(pieces: list[pa.Table], rows: list[Row], magic: int, codec: str) -> None:
    """Read the bytes with aiokafka; every key and value must be equal."""
    raw = b"".join(kafkaframes.build_records(piece, record_format=magic, codec=codec) for piece in pieces)
    log, records = MemoryRecords(raw), []
    while log.has_next():
        batch = log.next_batch()
        if not batch.validate_crc():
            raise SystemExit(f"format {magic}, {codec}: wrong CRC")
        records += [(record.key, record.value) for record in batch]
    if records != rows:
        raise SystemExit(f"format {magic}, {codec}: aiokafka reads something else")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use fewer records, and write no file")
    quick = parser.parse_args().quick
    rows = make_rows(20_000 if quick else 200_000)
    pieces = make_pieces(rows)
    lines = [
        f"Records written a second, in millions (MB/s of keys and values); {DATE}, {MACHINE}.",
        "",
        "| format | codec | kafkaframes | aiokafka | kafka-python | times aiokafka | times kafka-python |",
        "|---|---|---|---|---|---|---|",
    ]
    size = sum(len(key) + len(value) for key, value in rows)
    few = rows[: len(rows) // 4]
    for magic, codec in BATCH_KINDS:
        check_batches(make_pieces(few), few, magic, codec)
        rates = [
            rate(time_call(lambda m=magic, c=codec: build_with_ours(pieces, m, c), 3), len(rows)),
            rate(
                time_call(lambda m=magic, c=codec: build_with_peer(aiokafka_v2, aiokafka_old, few, m, c), 3), len(few)
            ),
            rate(
                time_call(lambda m=magic, c=codec: build_with_peer(kafka_python_v2, kafka_python_old, few, m, c), 2),
                len(few),
            ),
        ]
        cells = ["-" if rate is None else f"{rate:.2f} ({rate * size / len(rows):.0f})" for rate in rates]
        times = ["-" if rate is None else f"{rates[0] / rate:.1f}" for rate in rates[1:]]
        lines.append(f"| {magic} | {codec} | {' | '.join(cells + times)} |")
        print(lines[-1], flush=True)
    print("\n".join(lines))
    if not quick:
        RESULTS_FILE.parent.mkdir(exist_ok=True)
        RESULTS_FILE.write_text("\n".join(lines) + "\n")


def rate(seconds: float | None, count: int) -> float | None:
    return None if seconds is None else count / seconds / 1e6


if __name__ == "__main__":
    main()
