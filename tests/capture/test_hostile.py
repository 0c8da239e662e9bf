"""Damaged captures: rows and reported gaps, or one clear error; no allocation for a length without data."""

from __future__ import annotations

import random
import resource
import struct
from pathlib import Path

import pytest
from tests.capture.conversation import CLIENT, Tape, build_streams
from tests.fuzz.captures import CAPTURES, check, damage, read_unpacked

from kafkaframes.capture.reader import CaptureOptions, read_capture

DATA = Path(__file__).parent.parent / "data" / "captures"
MAX_GROWTH_BYTES = 400 << 20


@pytest.mark.parametrize("seed", range(12))
def test_damaged_files_give_rows_or_one_error(seed, tmp_path):
    random_ = random.Random(seed)
    check(damage(bytearray(read_unpacked(CAPTURES[seed % len(CAPTURES)])[:20_000]), random_), random_, tmp_path)


def test_a_truncated_file_is_read_to_its_end(tmp_path):
    raw = read_unpacked(DATA / "raw-resets-broker43.pcap")
    path, last = tmp_path / "x.pcap", 0
    for size in [*range(24, 400, 37), *range(400, len(raw), 997), len(raw)]:
        path.write_bytes(raw[:size])
        capture = read_capture(str(path), CaptureOptions(columns=("apiName",)))
        count = sum(batch.num_rows for batch in capture)
        assert count >= last
        last = count
        of_the_file = [entry.reason for entry in capture.coverage.unread if entry.kind == "damaged"]
        assert set(of_the_file) <= {
            "the file ends inside a packet",
            "these bytes are not a Kafka frame",
        }  # one client's
    assert last == 28


def test_damage_in_the_middle_is_reported_and_later_data_are_read(tmp_path):
    raw = bytearray(read_unpacked(DATA / "raw-resets-broker43.pcap"))
    at = 24
    while at < 5000:
        at += 16 + int.from_bytes(raw[at + 8 : at + 12], "little")
    raw[at : at + 16] = b"\xff" * 16
    path = tmp_path / "x.pcap"
    path.write_bytes(raw)
    gaps = read_capture(str(path), CaptureOptions(table="gaps")).read_all().to_pylist()
    assert any(row["connection"] is None and "damaged" in row["reason"] for row in gaps)
    assert 15 < read_capture(str(path)).read_all().num_rows <= 28


@pytest.mark.parametrize("size", [2**31 - 1, -1, 0, 3, 104857600, 104857601])
def test_false_lengths_have_no_cost(size, tmp_path):
    requests, _, calls = build_streams()
    tape = (
        Tape()
        .segment(CLIENT, 0, requests)
        .segment(CLIENT, len(requests), struct.pack(">i", size) + b"\0\3\0\5" + bytes(50))
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = read_capture(tape.write(tmp_path / "x.pcapng"), CaptureOptions(columns=("correlationId",))).read_all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_BYTES >> 10
    assert {call[2] for call in calls} <= set(rows.column(0).to_pylist())


def test_truncated_gzip_is_reported(tmp_path):
    raw = (DATA / "sasl-raw-tokens-broker39.pcap.gz").read_bytes()
    path = tmp_path / "x.pcap.gz"
    path.write_bytes(raw[: len(raw) // 2])
    capture = read_capture(str(path))
    assert 0 < capture.read_all().num_rows < 290
    assert any("end early" in entry.reason for entry in capture.coverage.unread)
