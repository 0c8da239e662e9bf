"""Columns equal the decoded Python values, for valid and damaged bytes, and the public read functions."""

from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.borders import yield_border_columns

import kafkaframes
from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.records import layout
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.makers import COLUMNS, read_batches_table
from kafkaframes.records.reasons import DAMAGED_STREAM, RECORD_REASONS, SMALL_SIZE
from kafkaframes.records.scan import FILE, MEMORY, TRUNCATED_SOURCE, Chunks, MemorySource, as_array

VECTORS = sorted((Path(__file__).parent.parent / "data" / "records").glob("*.bin"))
TIMESTAMP_TYPE_NUMBERS = {name: number for number, name in layout.TIMESTAMP_TYPES.items()}


@lru_cache(maxsize=1)  # repeated calls with other chunk sizes
def list_expected_rows(data, rules=MEMORY):
    """Return the expected rows, built from decoded Python values."""
    return list(_yield_expected_rows(data, rules))


def _yield_expected_rows(data, rules):
    for batch in read_batches(data, rules=rules):
        for record in batch.records:
            yield {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "timestamp_type": TIMESTAMP_TYPE_NUMBERS[record.timestamp_type],
                "key": record.key,
                "value": record.value,
                "headers": [(header.key, header.value) for header in record.headers],
                "base_offset": batch.base_offset,
                "position": batch.position,
                "magic": batch.magic,
                "codec": batch.codec,
                "producer_id": batch.producer_id,
                "producer_epoch": batch.producer_epoch,
                "sequence": record.sequence,
                "leader_epoch": batch.leader_epoch,
                "transactional": batch.transactional,
                "control": batch.control,
                "crc_ok": batch.valid,
                "last_offset": batch.last_offset,
                "batch_size": batch.size,
                "delete_horizon": batch.delete_horizon,
                "key_size": -1 if record.key is None else len(record.key),
                "value_size": -1 if record.value is None else len(record.value),
            }


def yield_rows(batches):
    for batch in batches:
        batch.validate(full=True)
        names = batch.schema.names
        plain = [
            column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
            for column in batch.columns
        ]
        for values in zip(*plain, strict=True):
            row = dict(zip(names, values, strict=True))
            if "headers" in row:
                row["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
            yield row


SIZE_COLUMNS = ("key_size", "value_size")  # if one of these is selected, the general path builds the columns


def assert_columns_equal_values(data, *, rules=MEMORY, chunk_bytes=1 << 20):
    """Assert that the columns of both paths equal the Python values, and that both paths report the same damage."""
    expected_rows = list_expected_rows(data, rules)
    errors = []
    for without in ((), SIZE_COLUMNS):
        columns = tuple(name for name in COLUMNS if name not in without)
        reader = RecordReader(
            MemorySource(as_array(data)), ReadOptions(columns=columns, rules=rules, chunk_bytes=chunk_bytes)
        )
        assert list(yield_rows(reader)) == [
            {name: value for name, value in row.items() if name not in without} for row in expected_rows
        ]
        errors.append(reader.errors)
    assert errors[0] == errors[1]
    return errors[0]


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rules", [MEMORY, FILE])
def test_columns_equal_values(path, rules):
    assert_columns_equal_values(path.read_bytes(), rules=rules)


@pytest.mark.parametrize("record_format", [0, 1, 2])
def test_columns_equal_values_at_size_limits_of_varints(record_format):
    for what, columns in yield_border_columns(headers=record_format == 2):
        if record_format == 0:
            columns = {name: column for name, column in columns.items() if name != "timestamp"}
        data = build_records(columns, record_format=record_format, batch_bytes=1 << 24)
        assert not assert_columns_equal_values(data), what
        values = [row["value"] for row in list_expected_rows(data, MEMORY)]
        assert values == columns["value"], what


def test_there_are_vectors():
    assert len(VECTORS) == 160


@pytest.mark.parametrize("chunk_bytes", [1, 100, 1000, 5000])
def test_the_chunk_size_does_not_change_the_rows(chunk_bytes):
    data = b"".join(path.read_bytes() for path in VECTORS if "_ok" in path.stem or "mixed" in path.stem)
    assert_columns_equal_values(data, chunk_bytes=chunk_bytes)


@given(st.data())
def test_columns_equal_values_on_damaged_bytes(data):
    raw = bytearray(data.draw(st.sampled_from(VECTORS)).read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut_at = data.draw(st.integers(0, len(raw)))
    assert_columns_equal_values(bytes(raw[:cut_at]), rules=data.draw(st.sampled_from([MEMORY, FILE])))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_a_crash(raw):
    for rules in (MEMORY, FILE):
        assert_columns_equal_values(raw, rules=rules)


def vector(name):
    return next(path for path in VECTORS if path.stem == name)


def read_offsets(source, **options):
    reader = kafkaframes.read_records(source, columns=["offset"], **options)
    return list(chain.from_iterable(batch["offset"].to_pylist() for batch in reader)), reader.errors


def test_keep_returns_records_before_the_damage_and_reports_it():
    offsets_read, errors = read_offsets(vector("v2_lz4_truncated"))
    assert offsets_read == list(range(32))
    (error,) = errors
    assert (error.position, error.base_offset, error.status, error.records) == (0, 0, DAMAGED_STREAM, 32)
    assert error.file == str(vector("v2_lz4_truncated"))
    assert error.reason.startswith(RECORD_REASONS[DAMAGED_STREAM])


def test_drop_skips_only_damaged_batches():
    offsets_read, errors = read_offsets(vector("v2_crc_bad_second"), on_damage="drop")
    assert offsets_read == [0, 1, 2, 6, 7, 8]
    assert [error.records for error in errors] == [0]
    assert read_offsets(vector("v2_crc_bad_second"), on_damage="drop", verify_crc=False) == (list(range(9)), [])


def test_fail_raises_an_error_with_file_and_position():
    with pytest.raises(CorruptRecordError, match=r"v2_crc_bad_second\.bin, byte 88"):
        read_offsets(vector("v2_crc_bad_second"), on_damage="fail")


def test_invalid_bytes_after_the_last_batch_are_reported():
    path = vector("v2_zero_tail_preallocated")
    offsets_read, errors = read_offsets(path)
    assert offsets_read == [0, 1, 2]
    assert [(error.position, error.status) for error in errors] == [(88, SMALL_SIZE)]
    assert read_offsets(vector("v2_truncated_header")) == ([0, 1, 2], [])


def test_offset_bounds_and_control_records_filter_rows():
    data = vector("v2_ok_two_batches").read_bytes()
    everything = read_offsets(data)[0]
    assert read_offsets(data, start=2, end=4)[0] == [offset for offset in everything if 2 <= offset < 4]
    control = vector("v2_control_commit").read_bytes()
    assert read_offsets(control, control_records=False)[0] == []
    assert read_offsets(control)[0] == [0]


def test_records_within_the_decompression_limit_are_kept():
    offsets_read, errors = read_offsets(vector("v2_gzip_ok"), limit_bytes=10_000)
    assert 0 < len(offsets_read) < 60
    assert offsets_read == list(range(len(offsets_read)))
    assert len(errors) == 1


def test_several_files_are_read_in_order():
    path = vector("v2_ok_two_batches")
    once = read_offsets(path)[0]
    assert read_offsets([path, str(path)])[0] == once * 2


def test_errors_name_files_that_cannot_be_opened(tmp_path):
    for path in (tmp_path / "missing.log", tmp_path):
        with pytest.raises(LogDirError, match=path.name):
            read_offsets(path)
        with pytest.raises(LogDirError, match=path.name):
            kafkaframes.read_batches(path)


def test_unknown_columns_and_modes_are_rejected_before_reading():
    with pytest.raises(OptionError, match="'ofset'"):
        kafkaframes.read_records(b"", columns=["ofset"])
    with pytest.raises(OptionError, match="'STRICT'"):
        kafkaframes.read_records(b"", on_damage="STRICT")


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
@pytest.mark.parametrize("in_memory", [True, False])
def test_the_batch_table_equals_the_values(path, in_memory):
    table = kafkaframes.read_batches(path.read_bytes() if in_memory else path)
    walk = read_batches(path.read_bytes(), rules=MEMORY if in_memory else FILE)
    plain = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    rows = pa.table(plain, names=table.column_names).to_pylist()
    for row, batch in zip(rows, walk, strict=True):
        plain_message = batch.magic < 2 and batch.codec == "none"
        compressed_message = batch.magic < 2 and not plain_message
        expected_columns = {
            name: getattr(batch, name)
            for name in table.column_names
            if name not in ("file", "timestamp_type", "base_offset", "count", "codec")
        }
        expected_columns["timestamp_type"] = TIMESTAMP_TYPE_NUMBERS[batch.timestamp_type]
        expected_columns["codec"] = batch.codec or "unknown"
        expected_columns["base_offset"] = batch.last_offset if batch.magic < 2 else batch.base_offset
        short = batch.magic >= 2 and batch.size < layout.BATCH_V2.size
        expected_columns["count"] = None if compressed_message or short else 1 if plain_message else batch.count
        row.pop("file", None)
        assert row == expected_columns
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert int(metadata["end_position"]) == walk.end.position
    assert metadata["end_corrupt"] == str(walk.end.is_corrupt).lower()


class ShrinkingSource:
    """A source that loses its second half after the first read."""

    name = "cut.log"
    damage = None

    def __init__(self, data):
        self.data = as_array(data)
        self.size_bytes = len(data)
        self.reads = 0

    def read(self, position, length):
        self.reads += 1
        end = self.size_bytes if self.reads == 1 else self.size_bytes // 2
        return self.data[position : min(position + length, end)]


def test_a_source_truncated_during_the_read_ends_there():
    data = vector("v2_ok_two_batches").read_bytes() * 20
    chunks = Chunks(ShrinkingSource(data), rules=FILE, chunk_bytes=len(data) // 4)
    sizes = [int(chunk.batches.column("size").sum()) for chunk in chunks]
    assert sum(sizes) == chunks.end.position <= len(data) // 2
    assert len(data) // 2 - chunks.end.position < 200
    assert chunks.end.status == TRUNCATED_SOURCE


@pytest.mark.parametrize("columns", [["offset"], ["key_size"]])
@pytest.mark.parametrize("whole_batches", [True, False])
def test_a_source_truncated_during_the_read_is_reported(columns, whole_batches):
    """The source is truncated after a batch or in the middle of one."""
    one = vector("v2_ok_two_batches").read_bytes()
    data = one * 20 if whole_batches else one * 20 + b"x" * 20
    options = {"columns": columns, "rules": FILE, "chunk_bytes": len(data) // 4}
    reader = RecordReader(ShrinkingSource(data), ReadOptions(**options))
    assert 0 < sum(batch.num_rows for batch in reader) <= 60
    assert [(error.file, error.reason) for error in reader.errors] == [
        ("cut.log", "the file became shorter while it was read")
    ]
    with pytest.raises(CorruptRecordError, match=r"became shorter while it was read.*cut\.log"):
        list(RecordReader(ShrinkingSource(data), ReadOptions(**options, on_damage="fail")))


def test_scanning_headers_of_a_source_truncated_during_the_read_fails():
    data = vector("v2_ok_two_batches").read_bytes() * 60_000
    with pytest.raises(LogDirError, match=r"became shorter while it was read.*cut\.log"):
        read_batches_table(ShrinkingSource(data), rules=FILE)


def test_a_segment_can_shrink_grow_or_be_deleted_during_the_read(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    data = vector("v2_ok_two_batches").read_bytes() * 60_000  # several chunks
    path.write_bytes(data)
    whole = 6 * 60_000 if len(read_offsets(data[: len(data) // 60_000])[0]) == 6 else None
    reader = kafkaframes.read_records(path, columns=["offset"])
    first = next(reader).num_rows
    with path.open("r+b") as file:
        file.truncate(len(data) - 100)
    path.unlink()
    rest = sum(batch.num_rows for batch in reader)
    assert first
    assert whole is None or whole - 6 <= first + rest < whole
    (error,) = reader.errors
    assert (error.file, error.reason) == (str(path), "the file became shorter while it was read")


def test_a_size_of_two_gigabytes_allocates_nothing():
    raw = bytearray(vector("v2_ok_two_batches").read_bytes())
    raw[8:12] = (2**31 - 20).to_bytes(4, "big")
    assert read_offsets(bytes(raw)) == ([], [])
    raw[57:61] = (2**31 - 1).to_bytes(4, "big")  # and a count of two billion records
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    assert len(read_offsets(bytes(raw))[1]) == 1


def test_only_requested_columns_are_created(monkeypatch):
    from kafkaframes.records import fused, makers

    def refuse(*_, **__):
        raise AssertionError("a value was copied")

    monkeypatch.setattr(makers, "make_binary_array", refuse)
    monkeypatch.setattr(fused._BlockSlicer, "binary_column", refuse)
    data = vector("v2_ok_two_batches")
    assert read_offsets(data)[0]
    assert list(kafkaframes.read_records(data, columns=["offset", "value_size"]))
    with pytest.raises(AssertionError, match="copied"):
        list(kafkaframes.read_records(data, columns=["value"]))


def test_empty_input_has_the_schema_and_no_batch():
    reader = kafkaframes.read_records(b"")
    assert list(reader) == []
    assert reader.schema.names == ["offset", "timestamp", "timestamp_type", "key", "value", "headers"]
    assert np.array_equal(kafkaframes.read_batches(b"").shape, (0, 18))
