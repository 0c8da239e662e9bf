"""Positions at which a segment can be split: each is the start of a batch, even if the index is wrong."""

import shutil
from pathlib import Path

import pytest

from kafkaframes.scan.log.discovery import discover_logs, find_boundaries

EXAMPLE_LOG_DIR = Path(__file__).parents[3] / "examples" / "logs" / "kafka-4.3"


def read_batch_starts(path):
    raw, position, starts = path.read_bytes(), 0, []
    while position < len(raw):
        starts.append(position)
        position += 12 + int.from_bytes(raw[position + 8 : position + 12], "big")
    return starts


@pytest.mark.parametrize("index", ["own", "none", "stale", "foreign", "odd"])
def test_segments_are_split_at_batches_whatever_the_index_contains(index, tmp_path):
    partition = tmp_path / "orders-0"
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", partition)
    log = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    file = log.with_suffix(".index")
    if index == "none":
        file.unlink()
    elif index == "stale":  # positions of an earlier version of this segment
        file.write_bytes(b"".join(n.to_bytes(4, "big") + (n * 777 + 13).to_bytes(4, "big") for n in range(1, 60)))
    elif index == "foreign":
        file.write_bytes(bytes(range(1, 255)) * 3)
    elif index == "odd":
        file.write_bytes(file.read_bytes() + b"\x00\x01\x02")
    segment = next(s for s in discover_logs((str(partition),)).segments if s.path == str(log))
    positions = [segment.size_bytes * n // 8 for n in range(1, 8)]
    boundaries = find_boundaries(segment, positions)
    starts = read_batch_starts(log)
    assert set(boundaries) <= set(starts)
    assert len(boundaries) >= 4
    if index == "none":
        assert boundaries == sorted(
            {next(s for s in starts if s >= place) for place in positions if place <= starts[-1]}
        )


def test_a_damaged_segment_is_split_only_before_the_damage(tmp_path):
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", tmp_path / "orders-0")
    log = max((tmp_path / "orders-0").glob("*.log"), key=lambda path: path.stat().st_size)
    starts = read_batch_starts(log)
    middle = starts[len(starts) // 2]
    raw = bytearray(log.read_bytes())
    raw[middle + 8 : middle + 12] = bytes(4)
    log.write_bytes(raw)
    log.with_suffix(".index").unlink()
    segment = next(s for s in discover_logs((str(log),)).segments)
    assert find_boundaries(segment, [1, len(raw) - 100]) == [starts[1]]


def test_a_segment_that_vanishes_during_planning_is_not_split(tmp_path):
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", tmp_path / "orders-0")
    segment = discover_logs((str(tmp_path),)).segments[0]
    shutil.rmtree(tmp_path / "orders-0")
    assert find_boundaries(segment, [1, 2]) == []
