"""Reading of segments continues after damaged chunks."""

from dataclasses import dataclass, field

import pytest

from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.records.reasons import END, TORN
from kafkaframes.records.scan import ScanEnd
from kafkaframes.storage.files.filesystem import FileInfo
from kafkaframes.storage.files.indexes import OffsetIndex, write_offset_index
from kafkaframes.storage.log.open_segment import DamagedRange, OpenSegment, StoredSegment

SEGMENT_PATH = (
    "/store/t-AAAAAAAAAAAAAAAAAAAAAQ/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAQ!/t-0/00000000000000000000.log"
)
CHUNK_ERROR = DamagedChunkError("a chunk", position=7, file="object", lost=(100, 200))


@dataclass
class RangeStore:
    """A file system with one segment and its index."""

    size_bytes: int = 400
    positions: list[int] = field(default_factory=lambda: [90, 150, 210, 300])

    def stat(self, path):
        return FileInfo(path, "segment", self.size_bytes)

    def read(self, path, *, position=0, length=None):
        import numpy as np

        assert path == SEGMENT_PATH.removesuffix(".log") + ".index"
        numbers = np.array(self.positions, np.int64)
        return write_offset_index(OffsetIndex(0, numbers, numbers))


def source(damage=None):
    return StoredSegment(SEGMENT_PATH, 400, lambda position, length: b"", damage=damage)


def read(stored_source, ends, *, store=None, end=400, on_damage="keep"):
    gaps, starts = [], []
    segment = OpenSegment(store or RangeStore(), SEGMENT_PATH, stored_source)
    for run in segment.read_runs(end=end, on_damage=on_damage, on_gap=gaps.append):
        starts.append(run.start)
        run.end = ends[len(starts) - 1]
    return starts, gaps


def test_a_segment_without_damage_is_one_run():
    assert read(source(), [ScanEnd(400, END)]) == ([0], [])


def test_reading_continues_at_the_first_batch_after_the_chunk():
    starts, (gap,) = read(source(CHUNK_ERROR), [ScanEnd(95, TORN), ScanEnd(400, END)])
    assert starts == [0, 210]
    assert gap == DamagedRange(CHUNK_ERROR, 95, 210)
    assert "bytes 100 to 200 of the segment are lost; reading continues at byte 210" in str(gap)


@pytest.mark.parametrize(("positions", "end"), [([90, 150], 400), ([90, 300], 300)])
def test_reading_stops_if_no_batch_after_the_chunk_is_known_or_requested(positions, end):
    starts, (gap,) = read(source(CHUNK_ERROR), [ScanEnd(95, TORN)], store=RangeStore(positions=positions), end=end)
    assert (starts, gap.end) == ([0], None)
    assert "the data after it is not read" in str(gap)


def test_fail_raises_the_damage():
    with pytest.raises(DamagedChunkError, match="a chunk"):
        read(source(CHUNK_ERROR), [ScanEnd(95, TORN)], on_damage="fail")


def test_the_damage_is_reported_once():
    segment = OpenSegment(RangeStore(), SEGMENT_PATH, source(CHUNK_ERROR))
    assert segment.take_damage() is CHUNK_ERROR
    assert segment.take_damage() is None


def test_who_wanted_no_more_is_told_of_no_damage():
    assert read(source(CHUNK_ERROR), [None], on_damage="fail") == ([0], [])


def test_a_file_truncated_during_the_read_is_an_error():
    with pytest.raises(LogDirError, match="shorter since the read was planned"):
        read(source(), [ScanEnd(300, TORN)], store=RangeStore(size_bytes=300))
