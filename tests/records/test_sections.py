"""Many sections read as one give what a reader for each gives."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import mutations

import kafkaframes
from kafkaframes.errors import CorruptRecordError
from kafkaframes.records.chunks import Memory
from kafkaframes.records.columns import DROPMALFORMED, PERMISSIVE, ReadOptions, RecordReader
from kafkaframes.records.scan import as_array
from kafkaframes.records.sections import read_sections

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "position", "base_offset")


def one_by_one(sections, options):
    """What a reader for each section says."""
    tables, errors = [], {}
    for number, section in enumerate(sections):
        reader = RecordReader(Memory(as_array(section)), options)
        tables.append(pa.Table.from_batches(list(reader), reader.schema))
        if reader.errors:
            errors[number] = reader.errors
    return tables, errors


def some_sections(seed):
    choose = random.Random(seed)
    made = []
    for _ in range(choose.randrange(0, 6)):
        raw = bytearray(b"" if choose.random() < 0.1 else mutations.some_log(choose.randrange(2**40), damage=0.05))
        if raw and choose.random() < 0.3:
            raw[choose.randrange(min(len(raw), 40))] = choose.randrange(256)
        made.append(bytes(raw[: choose.randrange(len(raw) + 1)] if choose.random() < 0.3 else raw))
    return made


@given(st.integers(0, 1 << 40), st.sampled_from([PERMISSIVE, DROPMALFORMED]), st.booleans())
def test_sections_read_as_one_give_what_each_gives(seed, mode, with_position):
    sections = some_sections(seed)
    options = ReadOptions(columns=COLUMNS if with_position else COLUMNS[:5], mode=mode)
    tables, errors = one_by_one(sections, options)
    found = read_sections(sections, options)
    assert found.errors == errors
    assert len(found.starts) == len(sections) + 1
    for number, table in enumerate(tables):
        start, end = int(found.starts[number]), int(found.starts[number + 1])
        assert found.table.slice(start, end - start).equals(table)
    assert found.table.num_rows == sum(table.num_rows for table in tables)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_as_sections_give_what_each_gives(one, other):
    batch = kafkaframes.build_records({"value": [b"v"]})
    sections = [one, batch + other, other, batch[:16] + one]
    options = ReadOptions(columns=COLUMNS)
    tables, errors = one_by_one(sections, options)
    found = read_sections(sections, options)
    assert found.errors == errors
    assert found.table.equals(pa.concat_tables(tables))


def test_damage_fails_fast():
    data = bytearray(kafkaframes.build_records({"value": [b"v"]}))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        read_sections([b"", bytes(data)], ReadOptions(mode="FAILFAST"))
    with pytest.raises(CorruptRecordError, match="size of a batch"):
        read_sections([bytes(30)], ReadOptions(mode="FAILFAST"))
