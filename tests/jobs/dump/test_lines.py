"""The line kernel: examples, and agreement with its reference on any rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.dump import reference

from kafkaframes.jobs.dump import _kernels, lines
from kafkaframes.jobs.dump.lines import (
    Base64Part,
    BytesPart,
    BytesSlices,
    NullBranchPart,
    NumberPart,
    TextPart,
    WordPart,
    plan_line,
)

EVERY_PART = plan_line(
    TextPart(b"<"),
    NumberPart("n"),
    WordPart("w", (b"none", b"", b"long word")),
    NullBranchPart("a", (TextPart(b"null"), NullBranchPart("b", (TextPart(b" both"),))), (BytesPart("a"),)),
    TextPart(b"|"),
    Base64Part("b"),
    TextPart(b">\n"),
)
INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(INT64, st.integers(-2, 5), st.none() | st.binary(), st.none() | st.binary()), max_size=6)


def columns(rows):
    numbers, words, a, b = zip(*rows, strict=True) if rows else ((), (), (), ())
    return {
        "n": np.array(numbers, np.int64),
        "w": np.array(words, np.int64),
        "a": pa.array(a, pa.binary()),
        "b": pa.array(b, pa.large_binary()),
    }


@pytest.mark.parametrize("backend", [reference, _kernels], ids=["reference", "numba"])
@pytest.mark.parametrize("value", [0, 1, -1, 9, 10, 99, -100, 2**63 - 1, -(2**63)])
def test_numbers_are_printed_in_decimal(backend, value, monkeypatch):
    monkeypatch.setattr(lines, "kernels", backend)
    assert bytes(plan_line(NumberPart("n")).render_lines({"n": np.array([value])}, 1).data) == str(value).encode()


@pytest.mark.parametrize("backend", [reference, _kernels], ids=["reference", "numba"])
def test_each_part_prints_its_field(backend, monkeypatch):
    monkeypatch.setattr(lines, "kernels", backend)
    rows = [(7, 0, b"key", b"value"), (-8, 2, None, b"v"), (9, 1, None, None), (0, 9, b"", b"va")]
    rendered_rows = EVERY_PART.render_lines(columns(rows), 4)
    assert bytes(rendered_rows.data).splitlines() == [
        b"<7nonekey|dmFsdWU=>",
        b"<-8long wordnull|dg==>",
        b"<9null both|>",
        b"<0long word|dmE=>",
    ]
    assert bytes(rendered_rows.slice_lines(1, 3)) == b"<-8long wordnull|dg==>\n<9null both|>\n"
    assert bytes(rendered_rows.slice_lines(2, 2)) == b""


@given(ROWS)
def test_the_kernel_agrees_with_its_reference_on_any_rows(rows):
    fast = EVERY_PART.render_lines(columns(rows), len(rows))
    kernel, lines.kernels = lines.kernels, reference
    try:
        slow = EVERY_PART.render_lines(columns(rows), len(rows))
    finally:
        lines.kernels = kernel
    assert bytes(fast.data) == bytes(slow.data)
    np.testing.assert_array_equal(fast.ends, slow.ends)


@pytest.mark.parametrize("backend", [reference, _kernels], ids=["reference", "numba"])
def test_a_buffer_that_is_too_small_is_reported_and_never_overrun(backend):
    line, out, ends = EVERY_PART, np.full(64, 7, np.uint8), np.zeros(1, np.int64)
    values = columns([(123456, 2, b"a key", b"a value")])
    slices = lines._view_bytes_columns([values[name] for name in line.bytes_columns])
    numbers = np.array([values["n"], values["w"]])
    for size in range(36):
        status, used_bytes = backend.render(
            line.program, line.pool, line.word_starts, line.word_ends, numbers, *slices, out[:size], ends
        )
        assert used_bytes <= size
        assert (out[size:] == 7).all()
        assert status == _kernels.FULL


def test_a_slice_of_a_column_is_printed_alone():
    whole = pa.array([b"one", None, b"three", b"four"])
    line = plan_line(NullBranchPart("key", (TextPart(b"-"),), (BytesPart("key"),)), TextPart(b" "))
    assert bytes(line.render_lines({"key": whole[1:3]}, 2).data) == b"- three "
    assert bytes(line.render_lines({"key": whole[3:]}, 1).data) == b"four "


def test_the_values_of_a_bytes_column_may_be_anywhere_in_its_data():
    column = BytesSlices(np.frombuffer(b"..key..", np.uint8), np.array([2, 0, 6]), np.array([3, -1, 0], np.int32))
    line = plan_line(NullBranchPart("key", (TextPart(b"null"),), (BytesPart("key"),)), TextPart(b"/"))
    assert bytes(line.render_lines({"key": column}, 3).data) == b"key/null//"


def test_many_rows_are_rendered_in_portions(monkeypatch):
    line = plan_line(NumberPart("n"), TextPart(b":"), BytesPart("key"), TextPart(b","))
    rows = {"n": np.arange(10), "key": pa.array([b"x" * n if n % 3 else None for n in range(10)])}
    whole = line.render_lines(rows, 10)
    monkeypatch.setattr(lines, "MAX_ROWS_PER_PORTION", 3)
    pieces = line.render_lines(rows, 10)
    assert bytes(whole.data) == bytes(pieces.data)
    np.testing.assert_array_equal(whole.ends, pieces.ends)


def test_too_many_bytes_columns_are_rejected_by_the_plan():
    with pytest.raises(ValueError, match="8 bytes columns, not 9"):
        plan_line(*(BytesPart(f"c{i}") for i in range(9)))
