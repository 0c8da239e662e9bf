"""Discovery of segments from paths, and of positions at which they can be split, on the package's example logs."""

import shutil
from pathlib import Path

import pytest

from kafkaframes.errors import LogDirError
from kafkaframes.scan.log.discovery import discover_logs
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.resolve import plan_log

LOGS = Path(__file__).parents[3] / "examples" / "logs"
EXAMPLE_LOG_DIR = LOGS / "kafka-4.3"


def topics(*paths):
    return sorted({(s.topic, s.partition) for s in discover_logs(tuple(map(str, paths))).segments})


def read_batch_starts(path):
    raw, position, starts = path.read_bytes(), 0, []
    while position < len(raw):
        starts.append(position)
        position += 12 + int.from_bytes(raw[position + 8 : position + 12], "big")
    return starts


def test_a_log_directory_has_all_its_partitions():
    assert ("orders", 2) in topics(EXAMPLE_LOG_DIR)
    assert ("__consumer_offsets", 1) in topics(EXAMPLE_LOG_DIR)


def test_a_directory_of_log_directories_has_the_partitions_of_all():
    assert {("orders", 0), ("clickstream", 1)} <= set(topics(LOGS))


@pytest.mark.parametrize(
    "paths",
    [
        [EXAMPLE_LOG_DIR / "orders-1"],
        [f"{EXAMPLE_LOG_DIR}/orders-1/"],
        [EXAMPLE_LOG_DIR / "orders-1" / "00000000000000000000.log"],
        [f"{EXAMPLE_LOG_DIR}/orders-[1]"],
        [f"{EXAMPLE_LOG_DIR}/orders-1/*0.log"],
        [f"file://{EXAMPLE_LOG_DIR}/orders-1"],
    ],
)
def test_a_partition_a_segment_a_pattern_and_a_url(paths):
    assert topics(*paths) == [("orders", 1)]


def test_only_a_literal_path_selects_a_renamed_partition():
    assert all(s.is_named for s in discover_logs((f"{EXAMPLE_LOG_DIR}/__consumer_offsets-1/",)).segments)
    assert not any(s.is_named for s in discover_logs((f"{EXAMPLE_LOG_DIR}/__consumer_offsets-*",)).segments)


def test_renamed_directories_and_temporary_files_are_not_read(tmp_path):
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", tmp_path / "orders-0")
    shutil.copytree(EXAMPLE_LOG_DIR / "orders-0", tmp_path / f"orders-1.{'0' * 32}-delete")
    first = tmp_path / "orders-0" / "00000000000000000000.log"
    for suffix in ("deleted", "cleaned", "swap"):
        shutil.copy(first, f"{first}.{suffix}")
    segments = discover_logs((str(tmp_path),)).segments
    assert {s.directory for s in segments} == {str(tmp_path / "orders-0")}
    assert all(s.path.endswith(".log") for s in segments)


def test_a_directory_without_a_log_is_an_error(tmp_path):
    for path in (tmp_path, tmp_path / "missing", f"{tmp_path}/*.log"):
        with pytest.raises(LogDirError):
            discover_logs((str(path),))


def test_many_requested_partitions_are_planned():
    options = ReadOptions(paths=(str(EXAMPLE_LOG_DIR),), min_partitions=20)
    works = plan_log(options, cores=2).works
    assert len(works) >= 20
    planned_pieces = sorted((piece.segment.path, piece.start, piece.end) for work in works for piece in work)
    for path in {path for path, _, _ in planned_pieces}:
        starts = {0, *read_batch_starts(Path(path)), Path(path).stat().st_size}
        assert all({start, end} <= starts for piece_path, start, end in planned_pieces if piece_path == path)
