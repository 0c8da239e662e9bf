"""Kafka's own Java classes and this package read the same bytes in one run; the tables are written to
``benchmarks/results``.

The tests fail if both sides read different data, but not if one side is slow, because the machine may be busy.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from tests.interop.conftest import ROOT

import kafkaframes

RESULTS = ROOT / "benchmarks" / "results"
RECORDS, SECONDS = 200_000, 5.0
KAFKA_VERSION = "4.3.1"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORD_HEADERS = [("source", b"bench"), ("trace", b"0123456789abcdef")]


def create_columns(count: int) -> dict[str, list[Any]]:
    """Create columns with keys, distinct 100-byte JSON values, and headers on every fourth record."""
    choose, values = random.Random(7), []
    for number in range(count):
        value = f'{{"order_id":{number},"customer":"c{choose.randrange(99999):05}","amount":{choose.random():.4f}'
        value += f',"status":"{choose.choice(("new", "paid", "sent", "back"))}","note":"{choose.getrandbits(96):024x}'
        values.append(f"{value[:98]:<98}".encode() + b'"}')
    return {
        "key": [b"key-%d" % choose.randrange(10**6) for _ in range(count)],
        "value": values,
        "timestamp": [1_700_000_000_000 + number for number in range(count)],
        "headers": [RECORD_HEADERS if number % 4 == 0 else [] for number in range(count)],
    }


def read(data: bytes) -> int:
    return sum(batch.num_rows for batch in kafkaframes.read_records(data, on_damage="fail"))


def checksum(data: bytes) -> int:
    """Return the sum of offsets, timestamps, header counts and value sizes, as the Java side computes it."""
    total = 0
    for batch in kafkaframes.read_records(data, on_damage="fail"):
        for name in ("offset", "timestamp"):
            total += int(np.asarray(batch[name].cast("int64")).sum())
        total += pc.sum(pc.binary_length(batch["value"])).as_py()
        total += pc.sum(pc.list_value_length(batch["headers"])).as_py() or 0
    return total


def best_seconds(data: bytes, seconds: float) -> float:
    """Return the CPU seconds of the fastest round, because the machine may be busy."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.process_time()
        read(data)
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.slow
def test_reading_compared_with_kafkas_reader(java: Callable[..., str], tmp_path: Path) -> None:
    columns, lines = create_columns(RECORDS), []
    for codec in CODECS:
        data = kafkaframes.build_records(columns, codec=codec, batch_records=120, batch_bytes=1 << 30)
        (tmp_path / codec).write_bytes(data)
        _, records, total, nanoseconds = java("ReaderSpeed", SECONDS, tmp_path / codec).split()
        assert int(records) == RECORDS == read(data)
        assert (int(total) - checksum(data)) % 2**64 == 0
        theirs, ours = RECORDS / int(nanoseconds) * 1e3, RECORDS / best_seconds(data, SECONDS) / 1e6
        lines.append(f"| {codec} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} |")
    heading = (
        "Records read a second, in millions: v2, 120 records of 100-byte JSON values a batch, two headers on every\n"
        "fourth record, CRC checked, CPU time of the best round in five seconds (Java: of the reading thread,\n"
        "without garbage collection). Kafka 3.9.1's classes copy keys, values and offsets to arrays (not the bytes\n"
        "of headers), ours give all six columns. 2026-11-21, 2 cores shared.\n\n"
        "| codec | kafkaframes, M/s | Kafka's Java, M/s | ratio |\n|---|---|---|---|\n"
    )
    table = heading + "\n".join(lines) + "\n"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "records_read_java.md").write_text(table)
    print(table)


@pytest.mark.slow
def test_dump_log_compared_with_kafkas(oracle: Path) -> None:
    tool = oracle.parent / "real_kafka.py"
    process = subprocess.run(
        [sys.executable, tool, "classpath", KAFKA_VERSION], capture_output=True, text=True, timeout=900, check=False
    )
    if process.returncode:
        pytest.skip(f"Kafka {KAFKA_VERSION} cannot be fetched: {process.stderr[-300:]}")
    results = dump_log_benchmark().main(
        ["--records", "1000000", "--kafka", f"{sys.executable} {tool} dump-log {KAFKA_VERSION}"]
    )
    lines = [
        f"| {name} | {result.records_per_second / 1e6:.2f} | {result.printed / 1e6:.0f} |"
        for name, result in results.items()
    ]
    heading = (
        "dump-log --deep-iteration --print-data-log: 1,000,000 records, lz4, 100-byte values, 16 KiB batches; whole\n"
        f"processes, wall clock, best of three; kafka-dump-log of {KAFKA_VERSION}. 2026-11-21, 2 cores shared.\n\n"
        "| | M records/s | MB printed |\n|---|---|---|\n"
    )
    (RESULTS / "dump_log_kafka.md").write_text(heading + "\n".join(lines) + "\n")
    assert set(results) == {"kafkaframes text", "kafkaframes jsonl", "kafka-dump-log"}
    text, theirs = results["kafkaframes text"].printed, results["kafka-dump-log"].printed
    # compare the lines, apart from the path, which is printed once, and the order of flags
    assert abs(text - theirs) < 400


def dump_log_benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("dump_log", ROOT / "benchmarks" / "dump_log.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dump_log"] = module  # dataclasses and named tuples look their module up in sys.modules
    spec.loader.exec_module(module)
    return module
