"""Columns of records in the very types that Spark asks for; no JVM."""

import pyarrow as pa
import pytest

import kafkaframes
from kafkaframes.scan.columns import RECORDS, TABLES, choose_columns
from kafkaframes.scan.log.arrow import Conversion, arrow_schema, repeated
from kafkaframes.scan.log.planning import Segment

SEGMENT = Segment("/logs/orders-3/0.log", 100, 0, "orders", 3, "/logs/orders-3", source="/logs")


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_every_table_has_a_type(table):
    names = [column.name for column in TABLES[table]]
    schema = arrow_schema(choose_columns(names, table=table))
    assert schema.names == names
    assert not any(pa.types.is_dictionary(one.type) or pa.types.is_large_binary(one.type) for one in schema)


def test_rows_are_what_the_segment_and_its_records_say():
    columns = choose_columns(["topic", "partition", "offset", "timestamp", "headers", "codec"])
    raw = kafkaframes.build_records(
        [{"value": b"a", "timestamp": 5, "headers": [("h", b"1")]}, {"value": b"b", "timestamp": 6}], codec="gzip"
    )
    conversion = Conversion(columns)
    (batch,) = kafkaframes.read_records(raw, columns=conversion.sources)
    made = conversion.batch(batch, SEGMENT)
    made.validate(full=True)
    first, second = made.to_pylist()
    assert (first["topic"], first["partition"], first["offset"], first["codec"]) == ("orders", 3, 0, "gzip")
    assert first["timestamp"].timestamp() == 0.005
    assert (first["headers"], second["headers"]) == ([{"key": "h", "value": b"1"}], None)


def test_rows_are_counted_though_no_column_comes_from_a_record():
    assert Conversion(choose_columns(["topic", "file"])).sources == ("offset",)
    assert repeated(RECORDS[2], SEGMENT, 3).to_pylist() == ["orders"] * 3
