"""The selected columns change neither the records that are read nor the reported damage."""

import itertools
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import mutations

import kafkaframes
from kafkaframes.errors import CorruptRecordError
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.reasons import DROP, FAIL, KEEP
from kafkaframes.records.scan import MemorySource, as_array

# The selection of these columns decides which kernel runs. Other columns are computed from headers and offsets.
KERNEL_COLUMNS = ("timestamp_type", "key", "value", "headers", "key_size", "crc_ok")
COLUMN_SUBSETS = [names or ("offset",) for size in range(7) for names in itertools.combinations(KERNEL_COLUMNS, size)]
OTHER_COLUMNS = [(name,) for name in COLUMNS if name not in KERNEL_COLUMNS]
OFFSET_BOUNDS = ((None, None), (3, 1004), (1001, None), (None, 2002))


def read_columns(data, columns, **options):
    """Return (table, errors, end position) of a read of the columns."""
    reader = RecordReader(MemorySource(as_array(data)), ReadOptions(columns=columns, **options))
    return pa.Table.from_batches(list(reader), reader.schema), reader.errors, reader.end


def read_failfast_message(data, columns, **options):
    """Return the error message of a read that fails at damage, or None."""
    reader = RecordReader(MemorySource(as_array(data)), ReadOptions(columns=columns, on_damage=FAIL, **options))
    try:
        list(reader)
    except CorruptRecordError as error:
        return str(error)
    return None


def assert_subsets_agree(data, subsets, *, on_damage=KEEP, **options):
    """Assert that a read of each subset gives the same rows and errors as a read of all columns."""
    table, errors, end = read_columns(data, tuple(COLUMNS), on_damage=on_damage, **options)
    table.validate(full=True)
    expected_error = read_failfast_message(data, tuple(COLUMNS), **options)
    for columns in subsets:
        subset, *rest = read_columns(data, columns, on_damage=on_damage, **options)
        assert rest == [errors, end], columns
        assert subset.equals(table.select(columns)), columns
        assert read_failfast_message(data, columns, **options) == expected_error, columns
    return errors


def build_record_with_header_count(count, pairs=b""):
    """Return a record whose header count does not match its headers."""
    body = b"\0\0\0\x01\x02v" + mutations.encode_varint(count) + pairs
    return mutations.encode_varint(len(body)) + body


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("claimed_count", [-1, 1, 3, 63, 64, 1000, 2**31 - 1])
def test_missing_headers_are_reported_for_every_subset(claimed_count, codec):
    # longer than the part that a kernel reads without bounds checks
    tail = build_record_with_header_count(1, b"\2a" + mutations.encode_varint(60) + b"x" * 60)
    section = mutations.compress(
        codec, build_record_with_header_count(claimed_count) + build_record_with_header_count(0) + tail
    )
    sound = kafkaframes.build_records({"value": [b"x" * 50] * 2}, base_offset=10)
    data = mutations.build_batch_v2(section, count=3, attributes=codec) + sound
    errors = assert_subsets_agree(data, [*COLUMN_SUBSETS, *OTHER_COLUMNS])
    assert [(error.position, error.records) for error in errors] == [(0, 0)]
    assert read_failfast_message(data, ("value",)) is not None
    assert read_columns(data, ("offset",))[0]["offset"].to_pylist() == [10, 11]


@pytest.mark.parametrize("seed", range(12))
def test_every_subset_of_columns_reports_equal_damage(seed):
    data = mutations.choose_log(seed, damage=0.3)
    assert_subsets_agree(data, [*COLUMN_SUBSETS, *OTHER_COLUMNS])


@given(st.integers(0, 1 << 40), st.sampled_from([KEEP, DROP]))
def test_subsets_report_equal_damage_with_bounds_and_modes(seed, mode):
    choose = random.Random(seed)
    first, end = choose.choice(OFFSET_BOUNDS)
    assert_subsets_agree(
        mutations.choose_log(seed),
        choose.sample([*COLUMN_SUBSETS, *OTHER_COLUMNS], 6),
        on_damage=mode,
        first_offset=first,
        end_offset=end,
        chunk_bytes=choose.choice([1, 3000, 1 << 20]),
        verify_crc=choose.random() < 0.8,
        control_records=choose.random() < 0.8,
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_has_its_base_offset_for_all_bounds(magic):
    """The base offset is that of the first inner record, even if the bounds exclude this record, on both paths."""
    data = kafkaframes.build_records({"value": [b"v"] * 5}, record_format=magic, codec="gzip", base_offset=100)
    for extra in ((), ("key_size",)):
        rows, _, _ = read_columns(data, ("offset", "base_offset", *extra), first_offset=102)
        assert rows["offset"].to_pylist() == [102, 103, 104]
        assert rows["base_offset"].to_pylist() == [100, 100, 100]
