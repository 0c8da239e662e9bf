"""The line kernel: what is right by example, and that it is its plain twin on any rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.dump import reference

from kafkaframes.jobs.dump import _kernels, lines
from kafkaframes.jobs.dump.lines import Base64, IfNull, Number, Raw, Slices, Text, Word, plan_line

EVERY_PART = plan_line(
    Text(b"<"),
    Number("n"),
    Word("w", (b"none", b"", b"long word")),
    IfNull("a", (Text(b"null"), IfNull("b", (Text(b" both"),))), (Raw("a"),)),
    Text(b"|"),
    Base64("b"),
    Text(b">\n"),
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
def test_numbers_are_decimal(backend, value, monkeypatch):
    monkeypatch.setattr(lines, "kernels", backend)
    assert bytes(plan_line(Number("n")).render({"n": np.array([value])}, 1).data) == str(value).encode()


@pytest.mark.parametrize("backend", [reference, _kernels], ids=["reference", "numba"])
def test_each_part_says_its_piece(backend, monkeypatch):
    monkeypatch.setattr(lines, "kernels", backend)
    rows = [(7, 0, b"key", b"value"), (-8, 2, None, b"v"), (9, 1, None, None), (0, 9, b"", b"va")]
    rendered_rows = EVERY_PART.render(columns(rows), 4)
    assert bytes(rendered_rows.data).splitlines() == [
        b"<7nonekey|dmFsdWU=>",
        b"<-8long wordnull|dg==>",
        b"<9null both|>",
        b"<0long word|dmE=>",
    ]
    assert bytes(rendered_rows.between(1, 3)) == b"<-8long wordnull|dg==>\n<9null both|>\n"
    assert bytes(rendered_rows.between(2, 2)) == b""


@given(ROWS)
def test_the_kernel_agrees_with_its_twin_on_any_rows(rows):
    fast = EVERY_PART.render(columns(rows), len(rows))
    kernel, lines.kernels = lines.kernels, reference
    try:
        slow = EVERY_PART.render(columns(rows), len(rows))
    finally:
        lines.kernels = kernel
    assert bytes(fast.data) == bytes(slow.data)
    np.testing.assert_array_equal(fast.ends, slow.ends)


@pytest.mark.parametrize("backend", [reference, _kernels], ids=["reference", "numba"])
def test_a_buffer_that_is_too_small_is_said_and_never_overrun(backend):
    line, out, ends = EVERY_PART, np.full(64, 7, np.uint8), np.zeros(1, np.int64)
    values = columns([(123456, 2, b"a key", b"a value")])
    slices = lines._bytes_columns([values[name] for name in line.bytes_columns])
    numbers = np.array([values["n"], values["w"]])
    for size in range(36):
        status, used_bytes = backend.render(
            line.program, line.pool, line.word_starts, line.word_ends, numbers, *slices, out[:size], ends
        )
        assert used_bytes <= size
        assert (out[size:] == 7).all()
        assert status == _kernels.FULL


def test_a_slice_of_a_column_is_that_slice():
    whole = pa.array([b"one", None, b"three", b"four"])
    line = plan_line(IfNull("key", (Text(b"-"),), (Raw("key"),)), Text(b" "))
    assert bytes(line.render({"key": whole[1:3]}, 2).data) == b"- three "
    assert bytes(line.render({"key": whole[3:]}, 1).data) == b"four "


def test_a_bytes_column_may_stand_anywhere_in_its_data():
    column = Slices(np.frombuffer(b"..key..", np.uint8), np.array([2, 0, 6]), np.array([3, -1, 0], np.int32))
    line = plan_line(IfNull("key", (Text(b"null"),), (Raw("key"),)), Text(b"/"))
    assert bytes(line.render({"key": column}, 3).data) == b"key/null//"


def test_many_rows_are_rendered_in_portions(monkeypatch):
    line = plan_line(Number("n"), Text(b":"), Raw("key"), Text(b","))
    rows = {"n": np.arange(10), "key": pa.array([b"x" * n if n % 3 else None for n in range(10)])}
    whole = line.render(rows, 10)
    monkeypatch.setattr(lines, "MAX_ROWS", 3)
    pieces = line.render(rows, 10)
    assert bytes(whole.data) == bytes(pieces.data)
    np.testing.assert_array_equal(whole.ends, pieces.ends)


def test_too_many_bytes_columns_are_refused_when_planned():
    with pytest.raises(ValueError, match="8 bytes columns, not 9"):
        plan_line(*(Raw(f"c{i}") for i in range(9)))
