"""One verdict whatever the columns: which columns are asked for changes neither the records nor what is damage."""

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

# These choose the kernel and its work; every other column is computed from batch headers and offsets.
DECIDING = ("timestamp_type", "key", "value", "headers", "key_size", "crc_ok")
SUBSETS = [names or ("offset",) for size in range(7) for names in itertools.combinations(DECIDING, size)]
OTHERS = [(name,) for name in COLUMNS if name not in DECIDING]
BOUNDS = ((None, None), (3, 1004), (1001, None), (None, 2002))


def read(data, columns, **options):
    """Read the columns: a table, the damage, and the end of the source."""
    reader = RecordReader(MemorySource(as_array(data)), ReadOptions(columns=columns, **options))
    return pa.Table.from_batches(list(reader), reader.schema), reader.errors, reader.end


def failure(data, columns, **options):
    """Return the message of FAIL's error; None without an error."""
    reader = RecordReader(MemorySource(as_array(data)), ReadOptions(columns=columns, on_damage=FAIL, **options))
    try:
        list(reader)
    except CorruptRecordError as error:
        return str(error)
    return None


def assert_one_verdict(data, subsets, *, on_damage=KEEP, **options):
    """Compare each subset with all columns."""
    table, errors, end = read(data, tuple(COLUMNS), on_damage=on_damage, **options)
    table.validate(full=True)
    expected_error = failure(data, tuple(COLUMNS), **options)
    for columns in subsets:
        subset, *rest = read(data, columns, on_damage=on_damage, **options)
        assert rest == [errors, end], columns
        assert subset.equals(table.select(columns)), columns
        assert failure(data, columns, **options) == expected_error, columns
    return errors


def header_claims(count, pairs=b""):
    """Return a record whose header count does not match its headers."""
    body = b"\0\0\0\x01\x02v" + mutations.varint(count) + pairs
    return mutations.varint(len(body)) + body


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("claimed_count", [-1, 1, 3, 63, 64, 1000, 2**31 - 1])
def test_headers_that_are_claimed_and_not_there(claimed_count, codec):
    # longer than the part that a kernel reads without bounds checks
    tail = header_claims(1, b"\2a" + mutations.varint(60) + b"x" * 60)
    section = mutations.compress(codec, header_claims(claimed_count) + header_claims(0) + tail)
    sound = kafkaframes.build_records({"value": [b"x" * 50] * 2}, base_offset=10)
    data = mutations.batch_v2(section, count=3, attributes=codec) + sound
    errors = assert_one_verdict(data, [*SUBSETS, *OTHERS])
    assert [(error.position, error.records) for error in errors] == [(0, 0)]
    assert failure(data, ("value",)) is not None
    assert read(data, ("offset",))[0]["offset"].to_pylist() == [10, 11]


@pytest.mark.parametrize("seed", range(12))
def test_every_subset_of_columns_gives_one_verdict(seed):
    data = mutations.some_log(seed, damage=0.3)
    assert_one_verdict(data, [*SUBSETS, *OTHERS])


@given(st.integers(0, 1 << 40), st.sampled_from([KEEP, DROP]))
def test_some_subsets_of_columns_give_one_verdict_with_bounds_and_modes(seed, mode):
    choose = random.Random(seed)
    first, end = choose.choice(BOUNDS)
    assert_one_verdict(
        mutations.some_log(seed),
        choose.sample([*SUBSETS, *OTHERS], 6),
        on_damage=mode,
        first_offset=first,
        end_offset=end,
        chunk_bytes=choose.choice([1, 3000, 1 << 20]),
        verify_crc=choose.random() < 0.8,
        control_records=choose.random() < 0.8,
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_the_base_offset_of_a_compressed_message_does_not_depend_on_the_bounds(magic):
    """It is the first inner record's, whether that record is wanted or not; made the short way and the long."""
    data = kafkaframes.build_records({"value": [b"v"] * 5}, record_format=magic, codec="gzip", base_offset=100)
    for extra in ((), ("key_size",)):
        rows, _, _ = read(data, ("offset", "base_offset", *extra), first_offset=102)
        assert rows["offset"].to_pylist() == [102, 103, 104]
        assert rows["base_offset"].to_pylist() == [100, 100, 100]
