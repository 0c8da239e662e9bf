"""The fast path from batches to columns: too little memory, ends of chunks, and unusual streams."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records import streams
from tests.records.test_columns import assert_columns_equal_values

import kafkaframes
from kafkaframes.records import fused
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.reasons import ON_DAMAGE
from kafkaframes.records.scan import MemorySource, as_array

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def choose_bytes(choose, longest):
    return None if choose.random() < 0.1 else choose.randbytes(choose.choice([0, 1, 31, 32, 33, 100, longest]))


def choose_headers(choose):
    names = ["a", "source", "x" * 40, "é", "名"] if choose.random() < 0.3 else ["a", "source", "x" * 40]
    return [(choose.choice(names), choose_bytes(choose, 70)) for _ in range(choose.choice([0, 0, 0, 1, 2, 70]))]


def build_log(seed):
    """Return random batches of every format and codec, of few or many records, with nulls and headers."""
    choose, parts, offset = random.Random(seed), [], 0
    for _ in range(choose.randrange(1, 8)):
        magic, count = choose.choice([0, 1, 2, 2, 2]), choose.choice([1, 3, 30, 400])
        columns = {name: [choose_bytes(choose, 300) for _ in range(count)] for name in ("key", "value")}
        if magic == 2:
            columns["headers"] = [choose_headers(choose) for _ in range(count)]
        parts.append(
            kafkaframes.build_records(
                columns,
                record_format=magic,
                codec=choose.choice(CODECS[: 4 + (magic == 2)]),
                base_offset=offset,
                batch_records=choose.choice([1, 7, 400]),
                batch_bytes=1 << 20,
            )
        )
        offset += count
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_equal_for_every_chunk_size(seed):
    data = build_log(seed)
    for chunk_bytes in (1, 3000, 1 << 20):
        assert assert_columns_equal_values(data, chunk_bytes=chunk_bytes) == []


@given(st.integers(0, 1 << 30), st.integers(0, 3))
def test_damaged_logs_give_equal_rows(seed, damages):
    data, choose = bytearray(build_log(seed)), random.Random(seed)
    for _ in range(damages):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    assert_columns_equal_values(bytes(data), chunk_bytes=choose.choice([3000, 1 << 20]))


@given(st.integers(0, 1 << 30))
def test_unusual_streams_give_equal_rows(seed):
    choose = random.Random(seed)
    stream_parts = [streams.choose_stream(choose) for _ in range(choose.randrange(1, 6))]
    data = b"".join(streams.build_batch(number * 1000, *stream) for number, stream in enumerate(stream_parts))
    assert_columns_equal_values(data)


def read_rows(data, columns, **options):
    reader = RecordReader(MemorySource(as_array(data)), ReadOptions(columns=columns, **options))
    batches = [batch.select(COLUMNS) for batch in reader if batch.num_rows]
    return pa.Table.from_batches(batches) if batches else None, reader.errors


COLUMNS = ["offset", "timestamp", "key", "value", "headers", "position", "crc_ok"]


@given(st.integers(0, 1 << 30), st.integers(0, 2), st.sampled_from(ON_DAMAGE[:2]))
def test_bounds_and_modes_give_equal_rows(seed, damages, mode):
    data, choose = bytearray(build_log(seed)), random.Random(seed)
    for _ in range(damages):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    for first, end in ((None, None), (3, None), (None, 40), (5, 33), (40, 40), (0, 1 << 40)):
        options = {
            "on_damage": mode,
            "first_offset": first,
            "end_offset": end,
            "chunk_bytes": choose.choice([3000, 1 << 20]),
        }
        assert read_rows(data, COLUMNS, **options) == read_rows(data, [*COLUMNS, "key_size"], **options)


def test_headers_of_a_rejected_record_do_not_affect_later_headers():
    """A rejected record has a null header. The next batch's header at the same index must not become null."""
    pairs = [[("a", None), ("b", b"x")], [("c", None), ("d", b"12345678901234567890123456789012345678")]]
    data = bytearray(kafkaframes.build_records({"value": [b"v", b"w"], "headers": pairs}))
    place = data.index(b"1234567890") - 1
    assert data[place] == 38 << 1
    data[place] = 63 << 1
    next_batch = kafkaframes.build_records(
        {"value": [b"v" * 60], "headers": [[("e", b"y"), ("f", b"z")]]}, base_offset=9
    )
    assert len(assert_columns_equal_values(bytes(data) + next_batch)) == 1


@pytest.mark.parametrize("codec", CODECS)
def test_too_large_batches_take_the_general_path(codec, monkeypatch):
    monkeypatch.setattr(fused, "_MAX_BYTES_BY_STATUS", dict.fromkeys(fused._MAX_BYTES_BY_STATUS, 30_000))
    monkeypatch.setattr(fused, "_MIN_CONTENT_BYTES", 100_000)
    small, large = (
        kafkaframes.build_records(
            {"value": [random.Random(number).randbytes(200) for number in range(count)]},
            codec=codec,
            batch_bytes=1 << 20,
        )
        for count in (20, 400)
    )
    assert assert_columns_equal_values(small + large + large + small + small + large, chunk_bytes=10_000) == []


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_larger_than_earlier_batches_gets_enough_memory(codec):
    value = b"the same words again and again, "
    for size in (1, 100, 10_000):
        data = kafkaframes.build_records({"value": [value * size] * 40}, codec=codec, batch_bytes=1 << 26)
        assert (
            assert_columns_equal_values(kafkaframes.build_records({"value": [b"v"]}) + data + data, chunk_bytes=100_000)
            == []
        )


def test_tiny_records_reach_the_row_limit_first():
    data = kafkaframes.build_records({"value": [None] * 6_000}, batch_records=500)
    assert assert_columns_equal_values(data * 2, chunk_bytes=20_000) == []


def test_record_batches_have_about_the_target_size():
    columns = {"value": [b"%0100d" % number for number in range(60_000)]}
    for codec in CODECS:
        data = kafkaframes.build_records(columns, codec=codec)
        options = ReadOptions(columns=("offset", "value"))
        sizes = [batch.num_rows * 100 for batch in RecordReader(MemorySource(as_array(data)), options)]
        assert sum(sizes) == 6_000_000
        assert max(sizes) < 2 * fused.TARGET_PART_BYTES
        assert len(sizes) <= 9


def test_retained_columns_do_not_change():
    data = b"".join(build_log(seed) for seed in range(4))
    options = ReadOptions(columns=tuple(fused.FUSED_COLUMNS), chunk_bytes=3000)
    kept_batches = list(RecordReader(MemorySource(as_array(data)), options))
    expected_rows = [batch.to_pylist() for batch in RecordReader(MemorySource(as_array(data)), options)]
    assert len(kept_batches) > 5
    assert [batch.to_pylist() for batch in kept_batches] == expected_rows
