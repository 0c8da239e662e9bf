"""Kernels return the same results as their reference in plain Python, on the vectors and on any bytes."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import reference

from kafkaframes.records import _kernels_gather, _kernels_index, _kernels_scan, decode
from kafkaframes.records.layout import BATCH_COLUMNS, BATCH_V2
from kafkaframes.records.scan import BatchHeaders, ScanEnd, as_array

VECTORS = sorted((Path(__file__).parent.parent / "data" / "records").glob("*.bin"))
INDEX_TYPES = (np.int64, np.int64, np.int64, np.int32, np.int64, np.int32, np.int64, np.int32)
_KERNEL_MODULES = (_kernels_scan, _kernels_index, _kernels_gather)
KERNELS = SimpleNamespace(**{name: kernel for file in _KERNEL_MODULES for name, kernel in vars(file).items()})


def damage_vector(data):
    """Return a vector with some bytes changed, which may also be truncated."""
    raw = bytearray(data.draw(st.sampled_from(VECTORS)).read_bytes())[:4000]
    for _ in range(data.draw(st.integers(0, 5))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    return bytes(raw[: data.draw(st.integers(0, len(raw)))])


def run_both(name, *arguments, outputs):
    """Run the kernel and the reference, each with its own outputs. Return [(result, outputs), ...]."""
    answers = []
    for backend in (KERNELS, reference):
        mine = [output.copy() for output in outputs]
        answers.append((getattr(backend, name)(*arguments, *mine), mine))
    return answers


def assert_kernel_equals_reference(name, *arguments, outputs):
    (fast, fast_outputs), (slow, slow_outputs) = run_both(name, *arguments, outputs=outputs)
    assert fast == slow
    for one, other in zip(fast_outputs, slow_outputs, strict=True):
        np.testing.assert_array_equal(one, other)
    return fast, fast_outputs


def scan_batches_with(raw, rules):
    table = np.zeros((len(BATCH_COLUMNS), 200), np.int64)
    array = as_array(raw)
    (rows, position, status), (table,) = assert_kernel_equals_reference(
        "scan_batches", array, 0, len(raw), rules, 1, outputs=[table]
    )
    batches = BatchHeaders(np.ascontiguousarray(table[:, :rows]), ScanEnd(position, status))
    assert_kernel_equals_reference("check_crcs", array, batches.table, 0, rows, outputs=[np.zeros(rows, np.int8)])
    return array, batches


def assert_equal_indexes(raw, rules, *, lenient):
    array, batches = scan_batches_with(raw, rules)
    sections = decode.open_sections(array, batches)
    capacity = int(decode.compute_max_row_counts(batches, sections).sum()) + 1
    columns = [np.zeros(capacity, dtype) for dtype in INDEX_TYPES]
    per_batch = [np.zeros(len(batches), np.int64) for _ in range(2)]
    arguments = (sections.buf, batches.table, 0, len(batches), sections.starts, sections.ends, sections.kinds, lenient)
    answers = []
    for backend in (KERNELS, reference):
        mine = [output.copy() for output in (*columns, *per_batch)]
        total = backend.index_records(*arguments, *mine, np.zeros(len(batches), np.int64))
        answers.append((total, [column[:total] for column in mine[:8]], mine[8:]))
    (fast, fast_columns, fast_rows), (slow, slow_columns, slow_rows) = answers
    assert fast == slow
    for one, other in zip([*fast_columns, *fast_rows], [*slow_columns, *slow_rows], strict=True):
        np.testing.assert_array_equal(one, other)
    if not lenient:
        assert_equal_columns(sections.buf, fast_columns, fast)


def assert_equal_columns(buf, columns, total):
    for places, sizes in ((columns[2], columns[3]), (columns[4], columns[5])):
        size = int(sizes[sizes > 0].sum())
        outputs = [np.zeros(total + 1, np.int32), np.zeros(size, np.uint8), np.zeros((total + 7) // 8, np.uint8)]
        assert_kernel_equals_reference("gather_binary", buf, places, sizes, total, outputs=outputs)
    headers = int(columns[7].sum())
    outputs = [np.zeros(total + 1, np.int32)]
    outputs += [np.zeros(headers, dtype) for dtype in (np.int64, np.int32, np.int64, np.int32)]
    assert_kernel_equals_reference("index_headers", buf, columns[6], columns[7], total, outputs=outputs)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rules", [0, 1], ids=["file", "memory"])
def test_kernels_equal_the_reference_on_every_vector(path, rules):
    for lenient in (0, 1):
        assert_equal_indexes(path.read_bytes(), rules, lenient=lenient)


@given(st.data(), st.integers(0, 1), st.integers(0, 1))
def test_on_damaged_vectors(data, rules, lenient):
    assert_equal_indexes(damage_vector(data), rules, lenient=lenient)


@given(st.binary(max_size=200), st.integers(0, 1))
def test_on_any_bytes(raw, rules):
    assert_equal_indexes(raw, rules, lenient=0)


@given(st.binary(max_size=120), st.integers(-1, 12), st.integers(0, 0x7F), st.integers(0, 1))
def test_kernels_equal_the_reference_for_any_records_section(section, count, flags, lenient):
    """The header is valid, so that the section is read. The codec in the flags causes other kinds of damage."""
    raw = bytearray(BATCH_V2.size) + section
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[16] = 2
    raw[21:23] = (flags & 0x78).to_bytes(2, "big")
    raw[57:61] = count.to_bytes(4, "big", signed=True)
    assert_equal_indexes(bytes(raw), 1, lenient=lenient)


@pytest.mark.parametrize("rules", [0, 1])
@pytest.mark.parametrize("end", [0, 5, 12, 17, 18, 26, 61, 200])
def test_a_scan_of_incomplete_data_requests_more(rules, end):
    raw = next(path for path in VECTORS if path.stem == "v2_ok_two_batches").read_bytes()
    for whole in (0, 1):
        for have in range(0, end + 1, 7):
            table = np.zeros((len(BATCH_COLUMNS), 1), np.int64)
            assert_kernel_equals_reference("scan_batches", as_array(raw[:have]), 0, end, rules, whole, outputs=[table])
