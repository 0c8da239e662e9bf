"""Search in a segment: kernel and plain walk find equal batches, for any bytes and index entries."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.partition.builders import NOW_MS, build_batch, lead, new_log
from tests.storage.partition.memory_disk import MemoryDisk

from kafkaframes.errors import CorruptRecordError
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.disk import OnlineDisk
from kafkaframes.storage.partition import segment as module
from kafkaframes.storage.partition.fetch import LOG_END
from kafkaframes.storage.partition.segment import BatchWindow, LogSegment
from kafkaframes.storage.partition.settings import LogSettings

BATCHES = [build_batch(1), build_batch(3), build_batch(40, value=b"v" * 300), build_batch(2, codec="gzip")]
BATCHES += [
    build_records({"value": [b"old", b"er"]}, record_format=magic, codec=codec)
    for magic in (0, 1)
    for codec in ("none", "gzip")
]


def build_segment(raw, entries, *, base_offset=0):
    """Return a segment with these bytes and these index entries (offset, position)."""
    disk = MemoryDisk()
    disk.make_directory("/t-0")
    segment = LogSegment(OnlineDisk(disk), "/t-0", base_offset, size_bytes=0, now_ms=NOW_MS)
    segment.activate(LogSettings(segment_index_bytes=4096))
    segment._file.write(0, raw)
    segment.size_bytes = len(raw)
    for offset, position in entries:
        segment.index.append(offset, position)
    return segment


def find_or_get_error(find, offset):
    """Return the batch found, or the error at the end of the batches."""
    try:
        return find(offset)
    except CorruptRecordError as error:
        return "corrupt", error.position


def assert_kernel_finds_like_plain_walk(segment, offset):
    batch_found, plain = (
        find_or_get_error(segment.find_batch, offset),
        find_or_get_error(segment.find_batch_by_headers, offset),
    )
    assert (batch_found and batch_found[:2]) == (plain and plain[:2])
    if isinstance(batch_found, BatchWindow):
        raw = segment.read_at(0, segment.size_bytes)
        assert batch_found.batch_bytes(batch_found.size) in (
            None,
            raw[batch_found.position : batch_found.position + batch_found.size],
        )


@given(
    pieces=st.lists(st.tuples(st.sampled_from(BATCHES), st.integers(-2, 50)), max_size=12),
    damage=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    cut_size=st.integers(0, 80),
    places=st.lists(st.integers(0, 12), max_size=3),
    wrong=st.integers(-3, 3),
    base_offset=st.sampled_from((0, 5)),
    window=st.sampled_from((61, 100, 700, 16 << 10)),
)
def test_kernel_and_plain_walk_find_equal_batches(pieces, damage, cut_size, places, wrong, base_offset, window):
    raw, offset, starts = bytearray(), 0, []
    for piece, step in pieces:
        starts.append((max(offset, base_offset), len(raw)))
        placed_batch = bytearray(piece)
        struct.pack_into(">q", placed_batch, 0, offset)
        raw += placed_batch
        offset += step
    for place, value in damage:
        if raw:
            raw[place % len(raw)] = value
    entries = sorted(
        {(starts[place][0] + (wrong if wrong > 0 else 0), starts[place][1]) for place in places if place < len(starts)}
    )
    if wrong < 0:
        entries = [(at, position - wrong) for at, position in entries]
    increasing = []
    for one in entries:
        if not increasing or (one[0] > increasing[-1][0] and one[1] > increasing[-1][1]):
            increasing.append(one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "WINDOW_BYTES", window)
        segment = build_segment(bytes(raw[: max(len(raw) - cut_size, 0)]), increasing, base_offset=base_offset)
        for wanted_offset in range(-1, 60, 7):
            assert_kernel_finds_like_plain_walk(segment, wanted_offset)


@pytest.mark.parametrize("size", [-1, 0, 5, 13])
def test_an_invalid_batch_size_is_an_error(size):
    """Kafka's FileLogInputStream does the same. A size that exceeds the file ends the valid part."""
    raw = bytearray(build_batch(1) * 2)
    at = len(raw) // 2
    struct.pack_into(">q", raw, at, 1)
    struct.pack_into(">i", raw, at + 8, size)
    segment = build_segment(bytes(raw), [])
    assert find_or_get_error(segment.find_batch, 0)[:2] == (0, at)
    assert find_or_get_error(segment.find_batch, 1) == ("corrupt", at)
    struct.pack_into(">i", raw, at + 8, 1000)
    assert build_segment(bytes(raw), []).find_batch(1) is None


def test_offsets_near_the_maximum_are_found():
    raw = bytearray(build_batch(3))
    for base in (2**62, 2**62 + 1, 2**63 - 3, 2**63 - 1):
        struct.pack_into(">q", raw, 0, base)
        segment = build_segment(bytes(raw), [])
        for wanted_offset in (0, base - 1, base, base + 2, base + 3):
            if wanted_offset < 2**63:
                assert_kernel_finds_like_plain_walk(segment, wanted_offset)


def test_a_file_range_contains_the_bytes_of_a_read(tmp_path):
    log = new_log(tmp_path, segment_bytes=40_000)
    for number in range(30):
        lead(log, build_batch(20, value=b"%d" % number * 100))
    assert len(log.segment_bases) > 1
    for offset in (0, 17, 200, 599):
        plain = log.read(offset, max_bytes=20_000, isolation=LOG_END)
        lazy = log.read(offset, max_bytes=20_000, isolation=LOG_END, min_range_bytes=1)
        assert plain.file_range is None
        assert lazy.records == b""
        assert lazy.file_range.read(1 << 20) == plain.records
        assert len(lazy.file_range) == len(plain.records)
        assert lazy._replace(records=b"", file_range=None) == plain._replace(records=b"")
        lazy.file_range.close()
    file_range = log.read(0, max_bytes=20_000, isolation=LOG_END, min_range_bytes=1).file_range
    before = log.read(0, max_bytes=20_000, isolation=LOG_END).records
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(500)
    log.delete_old_segments(now_ms=NOW_MS)
    log.remove_deleted_files(now_ms=NOW_MS + 10**9)
    assert file_range.read(100) == before[:100]
    file_range.skip(100)
    assert file_range.read(1 << 20) == before[100:]


def test_small_reads_and_memory_disks_give_bytes_instead_of_file_ranges(tmp_path):
    log = new_log(tmp_path)
    lead(log, build_batch(2))
    assert log.read(0, max_bytes=1 << 20, isolation=LOG_END, min_range_bytes=1 << 16).file_range is None
    raw = build_batch(5)
    assert build_segment(raw, []).file_range(0, len(raw)) is None
