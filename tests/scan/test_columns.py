"""The columns of a ``kafka-log`` read; without a JVM."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaframes
from kafkaframes.errors import OptionError
from kafkaframes.scan.arrow import SparkConversion, build_arrow_schema, rebatch, repeat_origin
from kafkaframes.scan.columns import RECORD_COLUMNS, SPARK_COLUMNS, TABLE_COLUMNS, choose_columns, format_ddl
from kafkaframes.scan.log.planning import Segment


def names(*positional, **options):
    return [column.name for column in choose_columns(*positional, **options)]


def test_the_default_columns_are_those_of_sparks_source():
    assert tuple(names(None)) == SPARK_COLUMNS
    assert names(None, include_headers=True) == [*SPARK_COLUMNS, "headers"]
    assert names(["headers"], include_headers=True) == ["headers"]
    assert "headers" not in names(None, include_headers=True, table="batches")


def test_rows_of_several_copies_have_a_source_column():
    assert names(["offset"], source=True) == ["offset", "source"]
    assert names(["SOURCE"], source=True) == ["source"]


def test_column_names_are_case_insensitive_and_keep_the_requested_order():
    assert names(["TIMESTAMPTYPE", "key"]) == ["timestampType", "key"]
    with pytest.raises(OptionError, match="columns contains offset twice"):
        choose_columns(["offset", "Offset"])
    with pytest.raises(OptionError, match="columns: ofset does not exist; did you mean offset"):
        choose_columns(["ofset"])
    with pytest.raises(OptionError, match="one of key, value"):
        choose_columns(["zzz"])


def test_a_comment_is_on_the_first_column():
    assert format_ddl(choose_columns(["key", "offset"]), "why") == "`key` binary COMMENT 'why', `offset` bigint"


TARGET_BYTES = 1000


def batch_of(lengths):
    return pa.record_batch({"value": pa.array([bytes([n % 256]) * n for n in lengths], pa.binary())})


@given(st.lists(st.lists(st.integers(0, 3 * TARGET_BYTES), max_size=8), max_size=12))
def test_regrouping_keeps_rows_and_approaches_the_target_size(lengths):
    batches = [batch_of(length) for length in lengths]
    batches_read = list(rebatch(batches, target=TARGET_BYTES))
    assert [value for batch in batches_read for value in batch["value"].to_pylist()] == [
        value for batch in batches for value in batch["value"].to_pylist()
    ]
    assert all(batch.num_rows > 0 for batch in batches_read)
    largest_row = max((n for length in lengths for n in length), default=0) + 8
    assert all(batch.nbytes <= TARGET_BYTES + largest_row * 2 or batch.num_rows == 1 for batch in batches_read)


def test_many_small_batches_are_combined():
    assert len(list(rebatch((batch_of([6]) for _ in range(1000)), target=TARGET_BYTES))) <= 20


def test_batches_are_consumed_one_at_a_time():
    batches_taken = []

    def source():
        for n in range(100):
            batches_taken.append(n)
            yield batch_of([900])

    next(rebatch(source(), target=TARGET_BYTES))
    assert len(batches_taken) <= 2


SEGMENT = Segment("/logs/orders-3/0.log", 100, 0, "orders", 3, "/logs/orders-3", source="/logs")


@pytest.mark.parametrize("table", TABLE_COLUMNS)
def test_every_column_of_every_table_has_a_type(table):
    names = [column.name for column in TABLE_COLUMNS[table]]
    schema = build_arrow_schema(choose_columns(names, table=table))
    assert schema.names == names
    assert not any(pa.types.is_dictionary(one.type) or pa.types.is_large_binary(one.type) for one in schema)


def test_rows_have_the_fields_of_their_segment_and_records():
    columns = choose_columns(["topic", "partition", "offset", "timestamp", "headers", "codec"])
    raw = kafkaframes.build_records(
        [{"value": b"a", "timestamp": 5, "headers": [("h", b"1")]}, {"value": b"b", "timestamp": 6}], codec="gzip"
    )
    conversion = SparkConversion(columns)
    (batch,) = kafkaframes.read_records(raw, columns=conversion.sources)
    record_batch = conversion.convert_batch(batch, SEGMENT)
    record_batch.validate(full=True)
    first, second = record_batch.to_pylist()
    assert (first["topic"], first["partition"], first["offset"], first["codec"]) == ("orders", 3, 0, "gzip")
    assert first["timestamp"].timestamp() == 0.005
    assert (first["headers"], second["headers"]) == ([{"key": "h", "value": b"1"}], None)


def test_rows_are_counted_even_without_record_columns():
    assert SparkConversion(choose_columns(["topic", "file"])).sources == ("offset",)
    assert repeat_origin(SEGMENT, RECORD_COLUMNS[2], 3).to_pylist() == ["orders"] * 3
