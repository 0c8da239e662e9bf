"""The micro-batches that fit a mark: the marked one and those after it. Every other one is rejected with a reason."""

import json
import re

import pytest

from kafkaframes.jobs.micro_batch import StreamBatch, explain_conflict, find_mark, read_batch_offsets


def line(**offsets: int) -> str:
    return json.dumps({"in": {name.removeprefix("p"): at for name, at in offsets.items()}}, separators=(",", ":"))


MARK = StreamBatch("q", 4, "/c", "sink, topic out", (line(p0=10),), (line(p0=20, p1=7),))
FIELDS = ("query_id", "batch_id", "checkpoint", "sink", "begins", "ends")


def change_mark(**values) -> StreamBatch:
    return StreamBatch(**{name: getattr(MARK, name) for name in FIELDS} | values)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, None),
        ({"begins": None}, None),  # the first micro-batch: its start offsets are not noted
        ({"checkpoint": "/moved"}, None),
        ({"batch_id": 5, "begins": MARK.ends, "ends": (line(p0=30, p1=7),)}, None),
        ({"batch_id": 9, "begins": (line(p0=20, p1=7, p2=0),), "ends": (line(p0=30),)}, None),
        ({"query_id": "new", "batch_id": 0}, "query q has written micro-batch 4 from the same checkpoint"),
        ({"batch_id": 3}, "micro-batch 4 was written after it"),
        ({"ends": (line(p0=25, p1=7),)}, r"ends at other offsets \(in-0: offset 20, but 25 in this run\)"),
        ({"ends": (line(p0=20),)}, r"ends at other offsets \(in-1: offset 7, but none in this run\)"),
        ({"begins": (line(p0=11),)}, "begins at other offsets"),
        ({"ends": (*MARK.ends, line(p0=1))}, "ends at other offsets"),
        ({"ends": None}, "are unknown"),
        ({"sink": "sink, topic other"}, "was written to sink, topic out, but this one is for sink, topic other"),
        ({"batch_id": 5, "begins": (line(p0=19, p1=7),)}, "begins at offset 19 of in-0, .* up to offset 20"),
    ],
)
def test_micro_batches_are_compared_with_a_stored_mark(values, reason):
    stored_mark = StreamBatch.from_json("q", json.loads(json.dumps(MARK.as_json())))
    assert stored_mark == MARK
    actual_reason = explain_conflict(stored_mark, change_mark(**values))
    assert actual_reason is reason is None or re.search(reason, actual_reason)


def test_a_mark_without_offsets_fits_the_following_micro_batches():
    old = StreamBatch.from_json("q", {"batchId": 4, "openMs": 3})
    assert explain_conflict(old, change_mark(batch_id=5)) is None
    assert "kafkaframes 0.1.0 wrote the mark" in explain_conflict(old, MARK)
    assert "was written after it" in explain_conflict(old, change_mark(batch_id=3))


def test_offsets_of_very_many_partitions_are_stored_as_digests():
    many = json.dumps({"in": {str(number): 10**9 for number in range(20_000)}}, separators=(",", ":"))
    large = change_mark(begins=(line(p0=1),), ends=(many,))
    stored_mark = StreamBatch.from_json("q", large.as_json())
    assert len(json.dumps(large.as_json())) < 1_000
    assert explain_conflict(stored_mark, large) is None
    assert "ends at other offsets" in explain_conflict(
        stored_mark, change_mark(begins=(line(p0=1),), ends=(many.replace("1000000000", "7", 1),))
    )


def test_without_a_mark_of_the_query_that_of_the_same_checkpoint_applies():
    other = change_mark(query_id="x", checkpoint="/d")
    new = change_mark(query_id="new", batch_id=0)
    assert find_mark(new, {"q": MARK, "x": other}) == MARK
    assert find_mark(new, {"q": MARK, "new": new}) == new
    assert find_mark(change_mark(query_id="new", checkpoint=""), {"q": MARK}) is None
    assert find_mark(change_mark(query_id="new", sink="b"), {"q": MARK}) is None


def test_offsets_are_compared_regardless_of_whitespace():
    files = {"offsets/0": "v1\n{}\n-", "offsets/1": 'v1\n{"conf": {}}\n{"in": {"1": 2, "0": 1}}\n-\n'}
    assert read_batch_offsets(files.get, 0) == (None, ("-",))
    assert read_batch_offsets(files.get, 1) == (("-",), ('{"in":{"0":1,"1":2}}', "-"))
    assert read_batch_offsets(files.get, 2) == (('{"in":{"0":1,"1":2}}', "-"), None)


@pytest.mark.parametrize("stored_value", [None, "7", [], {}, {"batchId": "7"}, {"batchId": 7, "ends": [5]}])
def test_invalid_marks_are_rejected(stored_value):
    with pytest.raises(ValueError, match="not the mark"):
        StreamBatch.from_json("q", stored_value)
