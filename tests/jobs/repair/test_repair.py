"""Repairs keep every valid batch, whatever is between them."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.repair.salvage import find_valid_batches

LOGS = Path(__file__).parents[2] / "data" / "logs"
BEFORE = LOGS / "unclean-flipped-bit-active" / "before"
SEGMENT = (BEFORE / "plain-0" / f"{0:020d}.log").read_bytes()
WHOLE = find_valid_batches(SEGMENT, base_offset=0, end_offset=163)


def salvage_segment(raw: bytes, **limits):
    return find_valid_batches(raw, **({"base_offset": 0, "end_offset": 163} | limits))


def test_a_sound_segment_is_kept_completely():
    assert WHOLE.merge_valid_ranges() == ((0, len(SEGMENT)),)
    assert WHOLE.losses == ()
    assert WHOLE.good_ranges[-1].next_offset == 163


@pytest.mark.parametrize("at", [0, 7, 8, 11, 16, 17, 21, 30, 57, 61, 80])
def test_damage_costs_one_batch(at):
    victim = WHOLE.good_ranges[3]
    raw = bytearray(SEGMENT)
    raw[victim.start + at] ^= 0x41
    result = salvage_segment(bytes(raw))
    assert result.good_ranges == (*WHOLE.good_ranges[:3], *WHOLE.good_ranges[4:])
    assert [(one.start, one.end) for one in result.losses] == [(victim.start, victim.end)]


def test_garbage_between_batches_is_skipped():
    at = WHOLE.good_ranges[5].start
    result = salvage_segment(SEGMENT[:at] + b"\x00\x01garbage\x02" * 9 + SEGMENT[at:])
    assert [one.base_offset for one in result.good_ranges] == [one.base_offset for one in WHOLE.good_ranges]


def test_a_duplicate_batch_is_kept_once():
    one = WHOLE.good_ranges[2]
    result = salvage_segment(SEGMENT[: one.end] + SEGMENT[one.start :])
    assert [each.base_offset for each in result.good_ranges] == [each.base_offset for each in WHOLE.good_ranges]
    assert "not in ascending order" in result.losses[0].reason


def test_a_wrong_base_offset_does_not_lose_later_batches():
    raw = bytearray(SEGMENT)
    struct.pack_into(">q", raw, WHOLE.good_ranges[1].start, 150)  # outside the CRC of format 2
    assert salvage_segment(bytes(raw)).good_ranges == (WHOLE.good_ranges[0], *WHOLE.good_ranges[2:])


@given(st.binary(max_size=300), st.integers(0, len(SEGMENT)), st.integers(0, 400))
def test_after_any_damage_the_result_has_batches_of_the_segment_only(junk, at, gone_bytes):
    raw = SEGMENT[:at] + junk + SEGMENT[at + gone_bytes :]
    result = salvage_segment(raw)
    assert {raw[one.start : one.end] for one in result.good_ranges} <= {
        SEGMENT[one.start : one.end] for one in WHOLE.good_ranges
    }
    untouched_batches = [one for one in WHOLE.good_ranges if one.end <= at or one.start >= at + gone_bytes]
    assert len(result.good_ranges) >= len(untouched_batches)
    covered_ranges = sorted(
        [(one.start, one.end) for one in result.good_ranges] + [(one.start, one.end) for one in result.losses]
    )
    assert [0, *(end for _, end in covered_ranges)] == [*(start for start, _ in covered_ranges), len(raw)]


@given(st.binary(max_size=500))
def test_any_bytes_are_kept_or_counted_as_lost(raw):
    assert sum(one.end - one.start for one in salvage_segment(raw).losses) == len(raw)


def test_work_on_hostile_bytes_is_bounded():
    header = struct.pack(">qiib", 1, 1 << 18, 0, 2)  # a possible header every 17 bytes, each of a huge batch
    assert salvage_segment(np.frombuffer(header * 20_000, np.uint8)).good_ranges == ()
