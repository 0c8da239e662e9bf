"""From paths to segments and to places where they can be cut, on the logs that ship with the product."""

import shutil
from pathlib import Path

import pytest

from kafkaframes.errors import LogDirError
from kafkaframes.spark.boundaries import find_boundaries
from kafkaframes.spark.discovery import discover_segments
from kafkaframes.spark.options import ReadOptions
from kafkaframes.spark.planning import plan_read

LOGS = Path(__file__).parents[2] / "examples" / "logs"
SHOP = LOGS / "kafka-4.3"


def topics(*paths):
    return sorted({(s.topic, s.partition) for s in discover_segments(tuple(map(str, paths)))})


def batch_starts(path):
    raw, position, starts = path.read_bytes(), 0, []
    while position < len(raw):
        starts.append(position)
        position += 12 + int.from_bytes(raw[position + 8 : position + 12], "big")
    return starts


def test_a_log_directory_gives_all_its_partitions():
    assert ("orders", 2) in topics(SHOP)
    assert ("__consumer_offsets", 1) in topics(SHOP)


def test_a_directory_of_log_directories_gives_those_of_all():
    assert {("orders", 0), ("clickstream", 1)} <= set(topics(LOGS))


@pytest.mark.parametrize(
    "paths",
    [
        [SHOP / "orders-1"],
        [f"{SHOP}/orders-1/"],
        [SHOP / "orders-1" / "00000000000000000000.log"],
        [f"{SHOP}/orders-[1]"],
        [f"{SHOP}/orders-1/*0.log"],
        [f"file://{SHOP}/orders-1"],
    ],
)
def test_a_partition_a_segment_a_pattern_and_a_url(paths):
    assert topics(*paths) == [("orders", 1)]


def test_only_a_literal_path_counts_as_naming_a_partition():
    assert all(s.named for s in discover_segments((f"{SHOP}/__consumer_offsets-1/",)))
    assert not any(s.named for s in discover_segments((f"{SHOP}/__consumer_offsets-*",)))


def test_renamed_directories_and_temporary_files_are_not_read(tmp_path):
    shutil.copytree(SHOP / "orders-0", tmp_path / "orders-0")
    shutil.copytree(SHOP / "orders-0", tmp_path / f"orders-1.{'0' * 32}-delete")
    first = tmp_path / "orders-0" / "00000000000000000000.log"
    for suffix in ("deleted", "cleaned", "swap"):
        shutil.copy(first, f"{first}.{suffix}")
    segments = discover_segments((str(tmp_path),))
    assert {s.directory for s in segments} == {str(tmp_path / "orders-0")}
    assert all(s.path.endswith(".log") for s in segments)


def test_a_place_without_a_log_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "missing", f"{tmp_path}/*.log"):
        with pytest.raises(LogDirError):
            discover_segments((str(path),))


@pytest.mark.parametrize("index", ["own", "none", "stale", "foreign", "odd"])
def test_segments_are_cut_at_batches_whatever_the_index_says(index, tmp_path):
    partition = tmp_path / "orders-0"
    shutil.copytree(SHOP / "orders-0", partition)
    log = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    file = log.with_suffix(".index")
    if index == "none":
        file.unlink()
    elif index == "stale":  # positions of another life of this segment
        file.write_bytes(b"".join(n.to_bytes(4, "big") + (n * 777 + 13).to_bytes(4, "big") for n in range(1, 60)))
    elif index == "foreign":
        file.write_bytes(bytes(range(1, 255)) * 3)
    elif index == "odd":
        file.write_bytes(file.read_bytes() + b"\x00\x01\x02")
    segment = next(s for s in discover_segments((str(partition),)) if s.path == str(log))
    wanted = [segment.size_bytes * n // 8 for n in range(1, 8)]
    found = find_boundaries(segment, wanted)
    starts = batch_starts(log)
    assert set(found) <= set(starts)
    assert len(found) >= 4
    if index == "none":
        assert found == sorted({next(s for s in starts if s >= place) for place in wanted if place <= starts[-1]})


def test_a_segment_that_is_damaged_in_the_middle_is_walked_up_to_there(tmp_path):
    shutil.copytree(SHOP / "orders-0", tmp_path / "orders-0")
    log = max((tmp_path / "orders-0").glob("*.log"), key=lambda path: path.stat().st_size)
    starts = batch_starts(log)
    middle = starts[len(starts) // 2]
    raw = bytearray(log.read_bytes())
    raw[middle + 8 : middle + 12] = bytes(4)
    log.write_bytes(raw)
    log.with_suffix(".index").unlink()
    segment = next(s for s in discover_segments((str(log),)))
    assert find_boundaries(segment, [1, len(raw) - 100]) == [starts[1]]


def test_a_segment_that_vanishes_while_planning_is_not_cut(tmp_path):
    shutil.copytree(SHOP / "orders-0", tmp_path / "orders-0")
    segment = discover_segments((str(tmp_path),))[0]
    shutil.rmtree(tmp_path / "orders-0")
    assert find_boundaries(segment, [1, 2]) == []


def test_many_partitions_asked_for_are_many_partitions_planned():
    options = ReadOptions(paths=(str(SHOP),), min_partitions=20)
    segments = discover_segments(options.paths)
    works = plan_read(segments, options, cores=2, boundaries=find_boundaries)
    assert len(works) >= 20
    planned = sorted((piece.segment.path, piece.start, piece.end) for work in works for piece in work)
    for path in {path for path, _, _ in planned}:
        starts = {0, *batch_starts(Path(path)), Path(path).stat().st_size}
        assert all({start, end} <= starts for piece_path, start, end in planned if piece_path == path)
