"""The writer's files for a stream of batches equal the files of the broker that wrote those batches."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.records.build import build_records
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.segment_writer import PartitionWriter, SegmentSettings
from kafkaframes.wire.checksum import crc32c

LOGS = Path(__file__).parents[2] / "data" / "logs"


def build_batch(first: int, count: int, *, magic: int = 2, size: int = 10, **options) -> bytes:
    columns = {
        "offset": list(range(first, first + count)),
        "timestamp": [1_700_000_000_000 + offset for offset in range(first, first + count)],
        "value": [b"v" * size] * count,
    }
    return build_records(columns, record_format=magic, **options)


def test_files_equal_those_of_the_broker_that_appended_the_batches(tmp_path):
    (source,) = discover(str(LOGS / "kraft-4x-transactions"))
    compared_counts = {"log": 0, "txnindex": 0, "snapshot": 0, "leader-epoch-checkpoint": 0}
    for partition in source.partitions:
        if partition.topic.startswith("__cluster") or not partition.segments:
            continue
        directory = tmp_path / str(partition.topic_partition)
        directory.mkdir()
        topic_id = partition.metadata.topic_id
        with PartitionWriter(directory, start_offset=partition.segments[0].base_offset, topic_id=topic_id) as writer:
            for segment in partition.segments:
                writer.roll(segment.base_offset)
                writer.append(Path(segment.path).read_bytes())
            writer.close()
        for theirs in sorted(Path(partition.directory).iterdir()):
            kind = theirs.suffix.removeprefix(".") or theirs.name
            if kind in compared_counts:
                assert (directory / theirs.name).read_bytes() == theirs.read_bytes(), theirs
                compared_counts[kind] += theirs.stat().st_size > 0
        assert {path.name for path in directory.iterdir()} == {
            path.name for path in Path(partition.directory).iterdir()
        }
    assert all(compared_counts.values()), compared_counts


def test_segments_are_rolled_for_size_and_verify_finds_them_in_order(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    with PartitionWriter(directory, settings=SegmentSettings(segment_bytes=5000), topic_id="A" * 22) as writer:
        for first in range(0, 1000, 100):
            writer.append(build_batch(first, 100, batch_bytes=500, leader_epoch=first // 300))
        written_log = writer.close()
    assert len(written_log.segments) > 3
    assert all(segment.size_bytes <= 5000 for segment in written_log.segments)
    assert [segment.base_offset for segment in written_log.segments[1:]] == [
        segment.next_offset for segment in written_log.segments[:-1]
    ]
    assert written_log.log_end_offset == 1000
    assert [(epoch.leader_epoch, epoch.start_offset) for epoch in written_log.epochs] == [
        (0, 0),
        (1, 300),
        (2, 600),
        (3, 900),
    ]
    assert verify(discover(str(tmp_path))).findings == []


@example([(2**31, 1, 0)], 4000)  # 2^31 above the base of the empty first segment, in each format
@example([(2**31, 1, 1)], 4000)
@example([(2**31, 1, 2)], 4000)
@example([(2**31 - 1, 1, 2)], 4000)  # the largest relative offset
@example([(2**31 - 2, 4, 2)], 4000)  # the batch starts within the range of the empty first segment and ends outside
@example([(0, 1, 2), (2**31 - 3, 4, 2)], 4000)
@example([(0, 1, 0), (2**31 - 3, 4, 1)], 4000)
@example([(2**32, 1, 2), (2**32, 1, 1)], 100)
@given(
    st.lists(st.tuples(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from((0, 1, 2))), max_size=6),
    st.integers(100, 4000),
)
def test_batches_with_gaps_of_any_size_are_written_to_segments_that_indexes_can_address(
    tmp_path_factory, plan, segment_bytes
):
    """A relative offset has 31 bits (LogSegment.canConvertToRelativeOffset), also in an empty first segment."""
    directory = tmp_path_factory.mktemp("log") / "t-0"
    directory.mkdir()
    offset, whole = 5, b""
    with PartitionWriter(directory, start_offset=5, settings=SegmentSettings(segment_bytes=segment_bytes)) as writer:
        for hole, count, magic in plan:
            data = build_batch(offset + hole, count, magic=magic)
            offset += hole + count
            whole += data
            writer.append(data)
        written_log = writer.close()
    paths = sorted(directory.glob("*.log"))
    assert b"".join(path.read_bytes() for path in paths) == whole
    assert [int(path.stem) for path in paths] == [segment.base_offset for segment in written_log.segments]
    assert (written_log.log_start_offset, written_log.log_end_offset) == (5, offset)
    for one in written_log.segments:
        assert one.next_offset - one.base_offset <= 2**31
    assert verify(discover(str(directory.parent))).findings == []


@pytest.mark.parametrize("start_offset", [0, 2**31 - 4, 2**31])
def test_a_compacted_batch_may_span_all_relative_offsets_of_its_segment(tmp_path, start_offset):
    """The cleaner keeps a batch's base offset and last offset delta (KIP-98), so that a batch can span 2^31 offsets."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    with PartitionWriter(directory, start_offset=start_offset) as writer:
        for base_offset in (start_offset + 3, start_offset + 3 + 2**31):
            batch = bytearray(build_batch(base_offset, 2))
            struct.pack_into(">i", batch, 23, 2**31 - 1)  # last offset delta
            struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
            writer.append(batch)
        written_log = writer.close()
    assert [(segment.base_offset, segment.next_offset) for segment in written_log.segments] == [
        (start_offset, start_offset),
        (start_offset + 3, start_offset + 3 + 2**31),
        (start_offset + 3 + 2**31, start_offset + 3 + 2**32),
    ]
    assert verify(discover(str(tmp_path))).findings == []


def test_an_empty_log_has_one_empty_segment(tmp_path):
    with PartitionWriter(tmp_path, start_offset=70) as writer:
        written_log = writer.close()
    assert (written_log.log_start_offset, written_log.log_end_offset) == (70, 70)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(f"{70:020}.{kind}" for kind in ("index", "log", "timeindex")),
        "leader-epoch-checkpoint",
    ]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda writer: writer.append(build_batch(4, 5)), "must increase"),
        (lambda writer: writer.append(build_batch(5, 5)[:-1]), "not whole batches"),
        (lambda writer: writer.roll(3), "below the log end offset"),
    ],
)
def test_invalid_appends_are_rejected_and_files_are_closed(tmp_path, act, reason):
    with PartitionWriter(tmp_path) as writer:
        writer.append(build_batch(0, 5))
        with pytest.raises(LogDirError, match=reason):
            act(writer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("segment_bytes", [0, 2**31])
def test_invalid_segment_sizes_are_rejected(segment_bytes):
    with pytest.raises(OptionError, match="segment_bytes"):
        SegmentSettings(segment_bytes=segment_bytes)
