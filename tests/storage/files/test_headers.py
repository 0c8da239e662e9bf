"""Batch headers: the plain walk and the compiled scan return equal headers, for real logs and for any bytes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.dump.summary import list_tasks, summarize_all_headers, summarize_quickly
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.headers import HeaderWalk
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.files.segment_reader import SegmentReader
from kafkaframes.storage.log.discover import discover

LOGS = Path(__file__).parents[2] / "data" / "logs"
SEGMENTS = sorted(path for path in LOGS.rglob("*.log") if path.stat().st_size)
MIXED = next(path for path in SEGMENTS if "mixed-one-segment" in str(path)).read_bytes()


def reader(raw: bytes):
    return lambda position, length: raw[position : position + length if length >= 0 else None]


def list_headers_by_walk(raw: bytes, **options):
    walk = HeaderWalk(reader(raw), size_bytes=len(raw), **options)
    return [tuple(one) for one in walk], walk.position, walk.status


def list_headers_by_scan(raw: bytes, **options):
    windows = [*scan_segment(reader(raw), size_bytes=len(raw), **options)]
    rows = [tuple(row) for window in windows for row in window.batches.table.T.tolist()]
    return rows, windows[-1].batches.end.position, windows[-1].batches.end.status


@pytest.mark.parametrize("window_bytes", [100, 1000, 1 << 20])
@pytest.mark.parametrize("includes_data", [False, True])
def test_walk_and_scan_agree_on_real_segments(window_bytes, includes_data):
    for path in SEGMENTS[::4]:
        raw = path.read_bytes()
        expected_headers = list_headers_by_walk(raw)
        assert list_headers_by_scan(raw, window_bytes=window_bytes, includes_data=includes_data) == expected_headers
        assert list_headers_by_walk(raw, window_bytes=window_bytes) == expected_headers
        assert expected_headers[1] == len(raw)


@given(st.data())
def test_walk_and_scan_agree_on_damaged_segments(data):
    raw = bytearray(MIXED[: data.draw(st.integers(0, 3000))])
    for _ in range(data.draw(st.integers(0, 4)) if raw else 0):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw += data.draw(st.binary(max_size=40)) + b"\0" * data.draw(st.integers(0, 40))
    window_bytes = data.draw(st.sampled_from([64, 300, 4096]))
    expected_headers = list_headers_by_walk(bytes(raw))
    assert list_headers_by_scan(bytes(raw), window_bytes=window_bytes) == expected_headers
    assert list_headers_by_scan(bytes(raw), window_bytes=window_bytes, includes_data=True) == expected_headers
    assert list_headers_by_walk(bytes(raw), window_bytes=window_bytes) == expected_headers


@given(st.binary(max_size=200))
def test_reading_any_bytes_ends(raw):
    rows, position, _ = list_headers_by_walk(raw)
    assert list_headers_by_scan(raw)[:2] == (rows, position)
    assert position == sum(row[1] for row in rows) <= len(raw)


@pytest.mark.parametrize("boundary", [True, False])
def test_a_file_that_shrinks_during_the_read_is_reported(boundary):
    """The error is raised for any read size, whether the file then ends after a batch or within one."""
    headers = list(HeaderWalk(reader(MIXED), size_bytes=len(MIXED)))
    middle = headers[len(headers) // 2]
    half = MIXED[: middle.position if boundary else middle.position + 20]
    for window_bytes in (100, 1000, 1 << 20):
        walk = HeaderWalk(reader(half), size_bytes=len(MIXED), window_bytes=window_bytes, file="x.log")
        with pytest.raises(LogDirError, match=r"became shorter.*x\.log"):
            list(walk)
        for whole in (True, False):
            windows = scan_segment(
                reader(half), size_bytes=len(MIXED), includes_data=whole, window_bytes=window_bytes, file="x.log"
            )
            with pytest.raises(LogDirError, match=r"became shorter.*x\.log"):
                list(windows)
    segment = Segment.from_log_file(0, "x.log", len(MIXED))
    segment_reader = SegmentReader(LocalFileSystem(), segment, reader(half), use_indexes=False)
    with pytest.raises(LogDirError, match="became shorter"):
        segment_reader.read_records(headers[-1]._replace(size=len(MIXED)))


def test_the_first_and_last_headers_equal_those_of_a_walk():
    for filesystem, segment in list_tasks(discover([str(LOGS / "kraft-4x-transactions"), str(LOGS / "zk-28-mixed")])):
        one, other = summarize_quickly(filesystem, segment), summarize_all_headers(filesystem, segment)
        assert (one.first_offset, one.last_offset, one.tail_bytes) == (
            other.first_offset,
            other.last_offset,
            other.tail_bytes,
        )
        assert other.last_timestamp >= one.last_timestamp
        assert sum(other.codecs.values()) == sum(other.magics.values()) == segment.size_bytes
        assert not one.problem


def test_a_deleted_segment_is_reported_as_a_problem(tmp_path):
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.write_bytes(MIXED)
    ((_, segment),) = list_tasks(discover(str(tmp_path)))
    path.unlink()
    for look in (summarize_quickly, summarize_all_headers):
        assert str(path) in look(LocalFileSystem(), segment).problem
