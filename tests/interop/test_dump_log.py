"""``kafkaframes dump-log`` prints the same as kafka-dump-log of 4.3.1, 3.9.1 and 2.8.2 for random logs, and is
faster.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks import dump_log as benchmark

from kafkaframes.jobs.dump.styles import TextOptions
from kafkaframes.jobs.dump.text import dump_text
from kafkaframes.records.build import build_end_transaction, build_records

VERSIONS = ("4.3.1", "3.9.1", "2.8.2")
FLAGS = (
    ("--deep-iteration", "--print-data-log"),
    ("--deep-iteration",),
    ("--print-data-log", "--skip-record-metadata"),
    (),
)
CODECS = {0: ("none", "gzip", "snappy", "lz4"), 1: ("none", "gzip", "snappy", "lz4")}
CODECS[2] = (*CODECS[1], "zstd")
TEXT_PIECES = (
    b"",
    b"k",
    b"key with spaces",
    "ключ 🎈".encode(),
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"two\nlines",
    b"x" * 300,
)
MIN_SPEED_RATIO = 2.0


@pytest.fixture(scope="module")
def tool(oracle: Path) -> list[str]:
    """A function that runs kafka-dump-log of a version. The test is skipped if Kafka's jars cannot be fetched."""
    command = [sys.executable, str(oracle.parent / "real_kafka.py")]
    for version in VERSIONS:
        process = subprocess.run([*command, "fetch", version], capture_output=True, text=True, timeout=900, check=False)
        if process.returncode:
            pytest.skip(f"Kafka {version} cannot be fetched: {process.stderr[-200:]}")
    return [*command, "dump-log"]


def columns_of(choose: random.Random, magic: int, first: int) -> tuple[dict[str, list[Any]], int]:
    offsets = []
    for _ in range(choose.randrange(1, 30)):
        first += choose.choice([1, 1, 1, 7])
        offsets.append(first)
    columns: dict[str, list[Any]] = {
        "offset": offsets,
        "timestamp": [choose.choice([-1, 0, 1_760_000_000_000 + offset]) for offset in offsets],
        "key": [choose.choice([None, *TEXT_PIECES]) for _ in offsets],
        "value": [choose.choice([None, *TEXT_PIECES]) for _ in offsets],
    }
    if magic == 2:
        names = ["", "a", "ünï", "with, comma"]
        columns["headers"] = [[(choose.choice(names), b"v") for _ in range(choose.randrange(3))] for _ in offsets]
    return columns, first


def write_log(folder: Path, seed: int) -> Path:
    """Write a segment with batches of one or all formats, with offset gaps, markers and delete horizons."""
    choose = random.Random(seed)
    offset, raw = choose.choice([0, 170]) - 1, b""
    path = folder / f"t-{seed}" / f"{offset + 1:020}.log"
    for _ in range(12):
        magic = choose.choice([0, 1, 2, 2, 2])
        options: dict[str, Any] = {"record_format": magic, "codec": choose.choice(CODECS[magic])}
        if magic == 2 and choose.random() < 0.4:
            options |= {"producer_id": 7, "producer_epoch": 1, "base_sequence": choose.choice([0, 2**31 - 3])}
        if magic == 2 and choose.random() < 0.2:
            options["delete_horizon_ms"] = 1_800_000_000_000
        if magic and choose.random() < 0.3:
            options["timestamp_type"] = "LogAppendTime"
        columns, offset = columns_of(choose, magic, offset)
        raw += build_records(columns, **options)
        if magic == 2 and choose.random() < 0.4:
            offset += 1
            commit = choose.random() < 0.5
            raw += build_end_transaction(commit=commit, offset=offset, timestamp=5, producer_id=7, producer_epoch=1)
    path.parent.mkdir()
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_tool_prints_the_same_lines(tool, tmp_path, version, flags):
    paths = [write_log(tmp_path, seed) for seed in range(12)]
    theirs = subprocess.run(
        [*tool, version, *flags, "--files", ",".join(map(str, paths))], capture_output=True, timeout=300, check=True
    )
    options = TextOptions(style=version, **{flag[2:].replace("-", "_"): True for flag in flags})
    dumped_texts = [dump_text(str(path), options) for path in paths]
    ours = b"".join(b"".join(text) for text in dumped_texts)
    assert ours.split(b"\n") == theirs.stdout.split(b"\n")
    our_errors = sorted(line for text in dumped_texts for line in text.format_error_lines())
    their_errors = theirs.stderr.decode().splitlines()
    assert our_errors == sorted(line for line in their_errors if not line.startswith("Picked up JAVA_TOOL_OPTIONS"))


def test_kafkas_tool_takes_at_least_twice_as_long(tool):
    results = benchmark.main(["--records", "1000000", "--kafka", " ".join([*tool, "4.3.1"])])
    for form in ("text", "jsonl"):
        assert results["kafka-dump-log"].seconds / results[f"kafkaframes {form}"].seconds >= MIN_SPEED_RATIO
