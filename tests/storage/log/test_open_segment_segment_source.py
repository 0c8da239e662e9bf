"""A segment in a store: bounded reads, and the effects of a failing store or a damaged chunk."""

import pytest

from kafkaframes.errors import DamagedChunkError, LogDirError
from kafkaframes.storage.log import open_segment
from kafkaframes.storage.log.open_segment import StoredSegment

DATA = bytes(range(200))


def test_requests_to_a_store_are_large_and_within_the_segment(monkeypatch):
    monkeypatch.setattr(open_segment, "MIN_STORE_READ_BYTES", 50)
    ranges = []

    def read_at(position, length):
        ranges.append((position, length))
        return DATA[position : position + length]

    segment = StoredSegment("s", 120, read_at)
    pieces = [bytes(segment.read(position, 10)) for position in range(0, 130, 10)]
    assert b"".join(pieces) == DATA[:120]
    assert [position for position, _ in ranges[:3]] == [0, 50, 100]
    assert all(position + length <= 120 for position, length in ranges)


def test_too_few_bytes_from_a_store_are_an_error():
    segment = StoredSegment("s", 200, lambda position, length: DATA[position : position + length - 1])
    with pytest.raises(LogDirError, match="the store returned 199 of 200 bytes"):
        segment.read(0, 10)


def test_a_segment_ends_before_a_damaged_chunk():
    def read_at(position, length):
        if position + length > 100:
            raise DamagedChunkError("gone", position=1, file="o", lost=(100, 150))
        return DATA[position : position + length]

    segment = StoredSegment("s", 200, read_at)
    assert bytes(segment.read(40, 100)) == DATA[40:100]
    assert segment.damage.lost == (100, 150)
