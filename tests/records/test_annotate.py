"""Drawings of batches contain every byte once and the reader's values, and end at damage."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import mutations

import kafkaframes
from kafkaframes.records.annotate import HEADERS, RECORDS, are_records, draw_records
from kafkaframes.records.batch import read_batches

VECTORS = sorted((Path(__file__).parent.parent / "data" / "records").glob("*.bin"))


def draw_and_check(data, depth=RECORDS):
    """Draw ``data``, and assert that the runs have no gaps and, without an error, cover all bytes."""
    drawings = draw_records(data, depth=depth)
    for drawing in drawings:
        for before, run in itertools.pairwise(drawing.runs):
            assert before.end == run.start
        assert all(0 <= run.start < run.end <= len(drawing.data) for run in drawing.runs)
        assert drawing.error is not None or drawing.position == len(drawing.data)
    return drawings


def describe_fields(data, **options):
    drawings = draw_and_check(data, **options)
    return {run.path: run.words for drawing in drawings for run in drawing.runs}


def test_a_varint_is_shown_with_its_zig_zag_value_and_its_bits():
    data = kafkaframes.build_records({"value": [b"v", b"w"], "timestamp": [1000, 1300]}, base_offset=7)
    words = describe_fields(data)
    assert words["batches[0].records[1].timestamp_delta"] == "300 -> 1300  zig-zag of 600, 11011000 00000100"
    assert words["batches[0].records[1].offset_delta"] == "1 -> 8  zig-zag of 2, 00000010"
    assert words["batches[0].records[0].key_length"] == "-1  zig-zag of 1, 00000001"
    assert words["batches[0].crc"].endswith("(right)")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("record_format", [0, 1, 2])
def test_all_records_are_drawn_for_every_codec(record_format, codec):
    if codec == "zstd" and record_format < 2:
        return
    values = [b"value %d" % number * number for number in range(40)]
    data = kafkaframes.build_records({"value": values}, codec=codec, record_format=record_format, batch_records=20)
    drawings = draw_and_check(data)
    assert [drawing.error for drawing in drawings] == [None] * len(drawings)
    lengths = [run for drawing in drawings for run in drawing.runs if run.path.endswith(".value_length")]
    wrappers = 2 if record_format < 2 and codec != "none" else 0
    assert len(lengths) == 40 + wrappers
    assert are_records(data)


def test_records_below_the_depth_are_drawn_as_bytes():
    data = kafkaframes.build_records({"value": [b"v"] * 9}, codec="gzip")
    (drawing,) = draw_and_check(data, HEADERS)
    assert drawing.runs[-1].path == "batches[0].records"


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vectors_are_drawn_up_to_their_damage(path):
    draw_and_check(path.read_bytes())


@given(st.integers(0, 1 << 40))
def test_damage_found_by_the_reader_is_drawn_as_damage(seed):
    data = mutations.choose_batch_v2(mutations.random.Random(seed), 0, damage=0.3)
    (batch,) = read_batches(data)
    errors = [drawing.error for drawing in draw_and_check(data) if drawing.error is not None]
    left_over = batch.damage is not None and "left" in batch.damage.reason  # drawn as bytes after the last record
    assert bool(errors) == (batch.damage is not None) or left_over


@given(st.binary(max_size=300))
def test_any_bytes_are_drawn_or_rejected(data):
    draw_and_check(data)
    are_records(data)


@given(st.integers(0, 1 << 40), st.integers(0, 3))
def test_any_truncated_log_is_drawn(seed, flips):
    choose = mutations.random.Random(seed)
    data = bytearray(mutations.choose_log(seed))
    for _ in range(flips):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    draw_and_check(bytes(data[: choose.randrange(len(data) + 1)]))
