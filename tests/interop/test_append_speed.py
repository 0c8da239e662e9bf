"""Kafka's LogValidator and this package's append path process the same batches in one run, with the benefit of
KIP-31 on both sides.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interop.conftest import ROOT

from kafkaframes.records.append import AppendSettings, validate_and_assign
from kafkaframes.records.build import build_records

RESULTS = ROOT / "benchmarks" / "results" / "append_java.md"
BATCHES, RECORDS, SECONDS = 500, 120, 4.0
PLAIN_BYTES = BATCHES * RECORDS * 110
# Operation, format and codec of the source batch, by codec of the topic.
APPEND_CASES = (
    ("rebuilt, v0 (before KIP-31)", 0, None),
    ("in place, v1", 1, None),
    ("in place, v2", 2, None),
    ("compressed by the broker, v2", 2, "none"),
)
# For uncompressed batches.
UNCOMPRESSED_CASES = (("in place, v0", 0, None), ("in place, v1", 1, None), ("in place, v2", 2, None))
HEADING = """# The append path compared with Kafka's LogValidator

MB/s of uncompressed records on one core (CPU time of the best round in {seconds:.0f} s), {batches} batches of
{records} records of 100-byte JSON values that all differ; Kafka 3.9.1's classes on Java 17.
2026-11-21, 2 cores shared; `make interop`.

| codec | what | kafkaframes | Kafka's Java | ratio |
|---|---|---|---|---|
"""


def create_batches(magic: int, codec: str) -> list[bytes]:
    """Create batches as a producer sends them, each with offsets from 0 on."""
    choose, batches = random.Random(magic), []
    for _ in range(BATCHES):
        values = [
            f'{{"order_id":{choose.getrandbits(40)},"customer":"c{choose.randrange(99999):05}","note":"{choose.randbytes(18).hex()}"'
            for _ in range(RECORDS)
        ]
        columns = {
            "value": [f"{value:<99.99}}}".encode() for value in values],
            "timestamp": [1_700_000_000_000] * RECORDS,
        }
        batches.append(
            build_records(columns, record_format=magic, codec=codec, batch_records=RECORDS, batch_bytes=1 << 20)
        )
    return batches


def append_ours(batches: list[bytes], settings: AppendSettings) -> tuple[int, int, int, float]:
    """Return the batches appended in place, the next offset, the size of the result, and the seconds of the best
    round.
    """
    best, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start, offset, in_place, size = time.process_time(), 0, 0, 0
        for batch in batches:
            result = validate_and_assign(batch, offset, settings)
            offset, size = result.next_offset, size + len(result.records)
            in_place += result.in_place
        best = min(best, time.process_time() - start)
    return in_place, offset, size, best


@pytest.mark.slow
def test_appending_compared_with_kafkas_log_validator(java: Callable[..., str], tmp_path: Path) -> None:
    """Both sides accept and rebuild the same batches, and unchanged batches have the same size."""
    lines = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for operation, magic, source in UNCOMPRESSED_CASES if codec == "none" else APPEND_CASES:
            if codec == "zstd" and magic < 2:
                continue
            batches = create_batches(magic, source or codec)
            batches_file = tmp_path / f"{codec}-{magic}-{source}"
            batches_file.write_bytes(b"".join(struct.pack(">i", len(batch)) + batch for batch in batches))
            answer = java("AppendSpeed", SECONDS, magic, source or codec, codec, batches_file).split()
            in_place, offset, size, seconds = append_ours(batches, AppendSettings(record_format=magic, codec=codec))
            assert [in_place, offset] == [int(answer[0]), int(answer[1])]
            assert size == int(answer[2]) or not in_place
            rates = PLAIN_BYTES / seconds / 1e6, PLAIN_BYTES / int(answer[3]) * 1e3
            lines.append(f"| {codec} | {operation} | {rates[0]:.0f} | {rates[1]:.0f} | {rates[0] / rates[1]:.2f} |")
            print(lines[-1])
    RESULTS.write_text(HEADING.format(seconds=SECONDS, batches=BATCHES, records=RECORDS) + "\n".join(lines) + "\n")
