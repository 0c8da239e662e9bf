"""Avro values resolve from the writer's schema to the table's: by the specification, and as in Java's library.

``tests/data/avro/verdicts.jsonl.gz`` has the results of Avro 1.12.1's generic reader for random pairs of schemas.
``tests/interop/test_avro_differential.py`` compares 5,000 others.
"""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.scan.values.avro_pairs import SchemaPair, encode_zigzag, sized_bytes, yield_differences

from kafkaframes.errors import OptionError
from kafkaframes.scan.values.avro_values import AvroDecoder
from kafkaframes.scan.values.columns import MAX_COLUMNS, decode_to_struct

JAVA_RESULTS_PATH = Path(__file__).parents[2] / "data" / "avro" / "verdicts.jsonl.gz"
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
DATE = {"type": "int", "logicalType": "date"}
TIME_MILLIS = {"type": "int", "logicalType": "time-millis"}
TIME_MICROS = {"type": "long", "logicalType": "time-micros"}


def build_record_schema(*fields, name="R"):
    """Return a record's schema of (name, type) or (name, type, default)."""
    rows = [
        {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) > 2 else {})} for field in fields
    ]
    return {"type": "record", "name": name, "fields": rows}


def decimal(precision, scale):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def resolve(writer, reader, *values):
    """Return the column v of values as Python objects, or the reason."""
    decoder = AvroDecoder(build_record_schema(("v", reader)), lambda value: (build_record_schema(("v", writer)), value))
    struct, reasons = decode_to_struct(pa.array(values, pa.binary()), decoder)
    column = struct.field("v").to_pylist()
    return [reasons.get(row, column[row]) for row in range(len(values))]


def test_results_on_random_pairs_equal_those_of_java():
    differences_by_number, refused_count, total = {}, 0, 0
    for number, line in enumerate(gzip.decompress(JAVA_RESULTS_PATH.read_bytes()).splitlines()):
        writer, reader, values, verdicts = json.loads(line)
        refused_count += sum("error" in verdict for verdict in verdicts)
        total += len(verdicts)
        if difference := yield_differences(
            SchemaPair(writer, reader, [bytes.fromhex(value) for value in values]), verdicts
        ):
            differences_by_number[number] = difference
    assert differences_by_number == {}
    assert total > 900
    assert 0.1 < refused_count / total < 0.5


@pytest.mark.parametrize(
    ("kind", "default", "expected_value"),
    [
        (MILLIS, 1_700_000_000_000, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (MICROS, 1_700_000_000_000_000, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        (DATE, 19_675, datetime(2023, 11, 14).date()),
        ("bytes", "\u00ff\u00e9", b"\xff\xe9"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u00fe", b"\xff\xfe"),
        (decimal(6, 2), "\u0004\u00d2", Decimal("12.34")),
        (["null", MILLIS], None, None),
        ([MILLIS, "null"], 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (
            build_record_schema(("at", MILLIS, 0), ("n", "int", 7), name="In"),
            {},
            {"at": datetime(1970, 1, 1, tzinfo=UTC), "n": 7},
        ),
        ({"type": "array", "items": decimal(4, 1)}, ["\u0001", "\u00ff"], [Decimal("0.1"), Decimal("-0.1")]),
        ({"type": "map", "values": "bytes"}, {"k": "\u00ff"}, [("k", b"\xff")]),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
        ("double", 3, 3.0),
    ],
)
def test_defaults_have_the_values_of_the_schema(kind, default, expected_value):
    """In fastavro#814, fastavro#869 and AVRO-3775, defaults kept their form in the schema's JSON."""
    decoder = AvroDecoder(
        build_record_schema(("id", "int"), ("v", kind, default)),
        lambda value: (build_record_schema(("id", "int")), value),
    )
    struct, reasons = decode_to_struct(pa.array([encode_zigzag(1)], pa.binary()), decoder)
    assert reasons == {}
    assert struct.to_pylist() == [{"id": 1, "v": expected_value}]


def test_a_default_of_a_wrong_type_is_the_reason_of_records_that_need_it():
    decoder = AvroDecoder(
        build_record_schema(("id", "int"), ("v", "int", "x")), lambda value: (build_record_schema(("id", "int")), value)
    )
    _, reasons = decode_to_struct(pa.array([encode_zigzag(1)], pa.binary()), decoder)
    assert reasons[0].endswith("R: the default of field v is invalid: 'x' is not of type int")


INSTANT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("writer", "reader", "number", "expected_value"),
    [
        ("long", MILLIS, 1_700_000_000_000, INSTANT),
        ("long", MICROS, 1_700_000_000_000_000, INSTANT),
        (MILLIS, "long", 1_700_000_000_000, 1_700_000_000_000),
        (MILLIS, MICROS, 1_700_000_000_000, INSTANT),
        (MICROS, MILLIS, 1_700_000_000_000_000, INSTANT),
        (MICROS, MILLIS, 1_700_000_000_000_001, INSTANT.replace(microsecond=1)),
        (NANOS, MICROS, 1_700_000_000_000_001_999, INSTANT.replace(microsecond=1)),
        (MILLIS, NANOS, 1_700_000_000_000, 1_700_000_000_000_000_000),
        (DATE, MILLIS, 19_675, datetime(2023, 11, 14, tzinfo=UTC)),
        ("int", DATE, 19_675, INSTANT.date()),
        (DATE, "int", 19_675, 19_675),
        (DATE, "double", 19_675, 19_675.0),
        ("int", MILLIS, 1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        (TIME_MILLIS, TIME_MICROS, 1_500, 1_500_000),
        (MILLIS, ["null", "long", "string"], 5, "5"),
        ("long", "float", 16_777_217, 16_777_216.0),
        ("long", "double", 2**53 + 1, 2.0**53),
    ],
)
def test_units_of_logical_types_are_kept(writer, reader, number, expected_value):
    """A number without a unit gets the reader's unit. A number with a unit keeps it, so that its meaning does not
    change.
    """
    assert resolve(writer, reader, encode_zigzag(number)) == [expected_value]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "message"),
    [
        (TIME_MILLIS, MILLIS, encode_zigzag(1), "written as time-millis, which cannot be read as timestamp-millis"),
        (DATE, TIME_MICROS, encode_zigzag(1), "written as date, which cannot be read as time-micros"),
        ("string", "int", sized_bytes(b"1"), "written as string, which cannot be read as int"),
        ("long", "int", encode_zigzag(1), "written as long, which cannot be read as int"),
        (MILLIS, MILLIS, encode_zigzag(2**62), f"{2**62} (timestamp-millis) is beyond the range of its column"),
        (decimal(9, 3), decimal(9, 1), sized_bytes(b"\x01"), "cannot be converted to scale 1 without a loss of digits"),
        (decimal(9, 0), decimal(2, 0), sized_bytes(b"\x64"), "the decimal has more than 2 digits"),
        ("bytes", "string", sized_bytes(b"\xff"), "the text is not UTF-8"),
        ("boolean", "boolean", b"\x02", "byte 2 is not a boolean"),
        ("long", "long", b"\xff" * 10 + b"\x01", "the number has more than 64 bits"),
        ("string", "string", encode_zigzag(9) + b"x", "expected 9 bytes of text or data, found 1"),
        (["null", "int"], ["null", "int"], encode_zigzag(-1), "the union has 2 types, but no branch -1"),
        (
            {"type": "array", "items": "int"},
            {"type": "array", "items": "int"},
            encode_zigzag(2**40),
            "elements in 0 bytes",
        ),
        ({"type": "array", "items": "null"}, "int", encode_zigzag(2**40), "cannot be read as int"),
    ],
)
def test_unresolvable_values_are_bad_records_with_a_reason(writer, reader, value, message):
    assert message in resolve(writer, reader, value)[0]


def test_decimals_keep_their_value_when_the_scale_grows():
    values = [sized_bytes((1234).to_bytes(2, "big")), sized_bytes((-5).to_bytes(1, "big", signed=True))]
    assert resolve(decimal(6, 2), decimal(10, 4), *values) == [Decimal("12.3400"), Decimal("-0.0500")]
    assert resolve(decimal(6, 4), decimal(6, 2), sized_bytes((123400).to_bytes(3, "big"))) == [Decimal("12.34")]
    assert resolve("bytes", decimal(6, 2), values[0]) == [Decimal("12.34")]
    assert resolve(decimal(6, 2), "bytes", values[0]) == [b"\x04\xd2"]


def test_a_decimal_without_precision_is_bytes_and_one_above_38_digits_is_text():
    assert resolve("bytes", {"type": "bytes", "logicalType": "decimal"}, sized_bytes(b"\x01")) == [b"\x01"]
    wide = decimal(50, 2)
    assert resolve(wide, wide, sized_bytes((10**44 + 5).to_bytes(20, "big"))) == [f"{10**42}.05"]


def test_unions_of_several_types_are_json_text():
    union = [
        "null",
        "int",
        "string",
        build_record_schema(("a", MILLIS), name="In"),
        {"type": "array", "items": "boolean"},
        "bytes",
    ]
    moment = encode_zigzag(1_700_000_000_250)
    assert resolve(
        union,
        union,
        encode_zigzag(0),
        encode_zigzag(1) + encode_zigzag(5),
        encode_zigzag(2) + sized_bytes(b'say "hi"'),
        encode_zigzag(3) + moment,
        encode_zigzag(4) + encode_zigzag(2) + b"\1\0" + b"\0",
        encode_zigzag(5) + sized_bytes(b"\xff"),
        encode_zigzag(3) + encode_zigzag(2**60),
    ) == [
        None,
        "5",
        '"say \\"hi\\""',
        '{"a":"2023-11-14T22:13:20.250Z"}',
        "[true,false]",
        '"ÿ"',
        f'{{"a":{2**60}}}',
    ]  # fmt: skip


def test_recursive_types_are_json_text_to_the_recursion_limit():
    fields = [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"], "default": None}]
    node = {"type": "record", "name": "Node", "fields": fields}
    decoder = AvroDecoder(node, lambda value: (None, value))
    assert [str(field.type) for field in decoder.fields] == ["int32", "string"]

    def nest(depth):
        return (
            b"".join(encode_zigzag(n) + encode_zigzag(1) for n in range(depth))
            + encode_zigzag(depth)
            + encode_zigzag(0)
        )

    values = pa.array([nest(0), nest(2), nest(200), nest(100_000)], pa.binary())
    struct, reasons = decode_to_struct(values, decoder)
    rows = struct.to_pylist()
    assert rows[:2] == [{"n": 0, "next": None}, {"n": 0, "next": '{"n":1,"next":{"n":2,"next":null}}'}]
    assert rows[2]["next"].count('"n"') == 200
    assert list(reasons) == [3]  # at this depth, fastavro crashed the process
    assert "nested too deeply" in reasons[3]


def test_a_recursive_type_of_the_writer_alone_is_skipped():
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    writer, reader = build_record_schema(("gone", node), ("v", "int")), build_record_schema(("v", "int"))
    decoder = AvroDecoder(reader, lambda value: (writer, value))
    assert decoder.decode(encode_zigzag(1) * 3 + encode_zigzag(0) + encode_zigzag(4)) == {"v": 4}


def nest_doubled_records(levels):
    inner = [{"name": "x0", "type": build_record_schema(("a", "int"), name="n0")}]
    for n in range(1, levels + 1):
        inner.append(
            {"name": f"x{n}", "type": build_record_schema(("l", f"n{n - 1}"), ("r", f"n{n - 1}"), name=f"n{n}")}
        )
    return {"type": "record", "name": "Top", "fields": inner}


def test_exponential_schemas_are_rejected_by_the_name_of_the_type():
    with pytest.raises(OptionError, match=rf"type n\d+, at x\d.*, has more than {MAX_COLUMNS} columns"):
        AvroDecoder(nest_doubled_records(22), lambda value: (None, value))
    assert len(AvroDecoder(nest_doubled_records(6), lambda value: (None, value)).fields) == 7
    wrapped_schema = "int"
    for level in range(60):
        wrapped_schema = build_record_schema(("a", wrapped_schema), name=f"d{level}")
    with pytest.raises(OptionError, match=r"is nested more than 50 levels deep"):
        AvroDecoder(wrapped_schema, lambda value: (None, value))


def test_an_exponential_writer_schema_has_no_cost():
    """The reader has one field. The writer's types each refer to the next one twice, 60 levels deep."""
    writer = nest_doubled_records(60)
    reader = build_record_schema(("x0", build_record_schema(("a", "int"), name="n0")), name="Top")
    decoder = AvroDecoder(reader, lambda value: (writer, value))
    assert "is truncated" in decode_to_struct(pa.array([encode_zigzag(1)], pa.binary()), decoder)[1][0]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "record", "name": "R"}, "record R has no fields"),
        ({"type": "enum", "name": "E", "symbols": []}, "enum E has no symbols"),
        ({"type": "fixed", "name": "F", "size": "4"}, "fixed F has no size"),
        ({"type": "array"}, "array without items"),
        ([["null"]], "a union is directly inside a union"),
        (build_record_schema(("a", build_record_schema(("b", "int"))), ("c", "int")), "type R is defined twice"),
        (build_record_schema(("a", "int"), ("a", "int")), "has the field a twice"),
        (5, "5 is not a type"),
        ({"name": "x"}, "has no type"),
    ],
)
def test_an_invalid_schema_is_rejected_by_name(schema, message):
    with pytest.raises(OptionError, match=message):
        AvroDecoder(schema, lambda value: (None, value))


def test_names_with_namespaces_and_aliases_are_resolved():
    writer = {
        "type": "record", "name": "old.Order", "fields": [
            {"name": "sku", "type": {"type": "fixed", "name": "Sku", "size": 1}},
            {"name": "again", "type": "old.Sku"},
        ],
    }  # fmt: skip
    article = {"type": "fixed", "name": "Article", "aliases": ["old.Sku"], "size": 1}
    reader = {
        "type": "record", "name": "Order", "namespace": "new", "aliases": ["old.Order"], "fields": [
            {"name": "article", "aliases": ["sku"], "type": article},
            {"name": "again", "type": "Article"},
        ],
    }  # fmt: skip
    decoder = AvroDecoder(reader, lambda value: (writer, value))
    assert decoder.decode(b"ab") == {"article": b"a", "again": b"b"}
