"""Values of random schemas: columns have the values that a library of the format wrote. Damage gives a row or a reason.

Schemas and values are generated. Each kind has a schema, a function that encodes values, and the expected columns.
"""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.scan.values.avro_values import AvroDecoder
from kafkaframes.scan.values.columns import RESERVED_COLUMNS, choose_column_names, decode_to_struct
from kafkaframes.scan.values.json_values import OTHER_FIELDS_COLUMN, JsonDecoder
from kafkaframes.scan.values.protobuf_values import ProtobufDecoder

fastavro = pytest.importorskip("fastavro")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

NAMES = st.sampled_from(
    ["a", "A", "b", "value", "value_key", "value_offset", "Value_Key", "TOPIC", *sorted(RESERVED_COLUMNS)]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
FLOAT32 = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)


def draw_field_names(names):
    """Draw names of a schema's fields. Some differ only by case, or are names of other columns."""
    return st.lists(names, min_size=1, max_size=4, unique=True)


def name_by_columns(row, reserved_names=RESERVED_COLUMNS):
    """Return the fields of a row, which are in the schema's order, by the names of its columns."""
    names = choose_column_names(row, reserved_names=reserved_names)
    return {names[name]: one for name, one in row.items()}


def same(value):
    return value


def whole_milliseconds(moment):
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def aware(moment):
    return moment.replace(tzinfo=UTC)


def decode_rows(decoder, values):
    """Return the rows, by names of columns, and the reasons."""
    struct, reasons = decode_to_struct(pa.array(values, pa.binary()), decoder)
    struct.validate(full=True)
    assert struct.null_count == sum(value is None for value in values) + len(reasons)
    return struct.to_pylist(), reasons


def damage_value(data: bytes, cut_size: int, flips: list[tuple[int, int]]) -> bytes:
    damaged_data = bytearray(data)
    for place, mask in flips:
        if damaged_data:
            damaged_data[place % len(damaged_data)] ^= mask
    return bytes(damaged_data[: len(damaged_data) - cut_size % (len(damaged_data) + 1)])


DAMAGE = st.tuples(st.integers(0, 9), st.lists(st.tuples(st.integers(0, 999), st.integers(1, 255)), max_size=3))


# ------------------------------------------------------------------------------------------------------------- Avro

AVRO_SCALARS = [
    ("boolean", st.booleans(), same),
    ("int", INT32, same),
    ("long", INT64, same),
    ("float", FLOAT32, same),
    ("double", DOUBLES, same),
    ("bytes", st.binary(max_size=4), same),
    ("string", TEXT, same),
    ({"type": "int", "logicalType": "date"}, st.dates(), same),
    ({"type": "long", "logicalType": "timestamp-millis"}, MOMENTS.map(whole_milliseconds).map(aware), same),
    ({"type": "long", "logicalType": "timestamp-micros"}, MOMENTS.map(aware), same),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, MOMENTS.map(whole_milliseconds), same),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, MOMENTS, same),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda digits: Decimal(digits).scaleb(-2)),
        same,
    ),
    ({"type": "int", "logicalType": "time-millis"}, INT32, same),
    ({"type": "long", "logicalType": "no such"}, INT64, same),
]


@st.composite
def draw_avro_schema(draw, depth=2):
    """Draw a schema, a function that encodes its values, and the expected columns."""
    numbers = count()

    def named(kind: str, **more):
        return {"type": kind, "name": f"N{next(numbers)}", **more}

    def kind(depth: int):
        choice = draw(st.integers(0, 6 if depth else 2))
        if choice == 1:
            return named("enum", symbols=["X", "Y"]), st.sampled_from("XY"), same
        if choice == 2:
            return named("fixed", size=3), st.binary(min_size=3, max_size=3), same
        if choice == 3:
            schema, values, row_of = kind(depth - 1)
            return {"type": "array", "items": schema}, st.lists(values, max_size=3), lambda some: [*map(row_of, some)]
        if choice == 4:
            schema, values, row_of = kind(depth - 1)
            return (
                {"type": "map", "values": schema},
                st.dictionaries(TEXT, values, max_size=2),
                lambda some: [(key, row_of(value)) for key, value in some.items()],
            )
        if choice == 5:
            schema, values, row_of = kind(0)
            return (
                draw(st.permutations(["null", schema])),
                st.none() | values,
                lambda one: None if one is None else row_of(one),
            )
        if choice == 6:
            return record(depth - 1, st.sampled_from("pqr"))
        return draw(st.sampled_from(AVRO_SCALARS))

    def record(depth: int, names):
        fields = {name: kind(depth) for name in draw(draw_field_names(names))}
        schema = named("record", fields=[{"name": name, "type": one[0]} for name, one in fields.items()])
        values = st.fixed_dictionaries({name: one[1] for name, one in fields.items()})
        return schema, values, lambda row: {name: one[2](row[name]) for name, one in fields.items()}

    return record(depth, NAMES)


def encode_avro(schema, value) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(remove_time_types(schema)), value)
    return buffer.getvalue()


def remove_time_types(schema):
    """Return a schema without the time-of-day types: fastavro writes such values outside the range of tables."""
    if isinstance(schema, dict):
        return {name: remove_time_types(one) for name, one in schema.items() if one not in ("time-millis", "no such")}
    return [remove_time_types(one) for one in schema] if isinstance(schema, list) else schema


@given(kind=draw_avro_schema(), data=st.data(), damage=DAMAGE)
def test_avro_values_are_decoded(kind, data, damage):
    schema, values, row_of = kind
    decoder = AvroDecoder(schema, lambda value: (None, value))
    rows = data.draw(st.lists(values, max_size=3))
    encoded_values = [encode_avro(schema, row) for row in rows]
    expected_rows = [name_by_columns(row_of(row)) for row in rows]
    assert decode_rows(decoder, [*encoded_values, None]) == ([*expected_rows, None], {})
    for one in encoded_values:  # values next to a damaged one are unchanged
        result, _ = decode_rows(decoder, [one, damage_value(one, *damage), one])
        assert result[0] == result[2] is not None


@given(kind=draw_avro_schema(depth=1), data=st.data())
def test_avro_values_of_another_schema_are_decoded(kind, data):
    """Fields that the table lacks are ignored, and those that the writer lacked have their defaults."""
    schema, values, row_of = kind
    kept_fields = data.draw(st.lists(st.sampled_from(schema["fields"]), unique_by=lambda field: field["name"]))
    late = {"name": "late", "type": ["null", "int"], "default": None}
    reader = {**schema, "fields": [*kept_fields, late]}
    decoder = AvroDecoder(reader, lambda value: (schema, value))
    row = data.draw(values)
    expected_rows = name_by_columns(
        {field["name"]: row_of(row)[field["name"]] for field in kept_fields} | {"late": None}
    )
    assert decode_rows(decoder, [encode_avro(schema, row)]) == ([expected_rows], {})


# ------------------------------------------------------------------------------------------------------------- JSON

JSON_SCALARS = [
    ({"type": "boolean"}, st.booleans(), same),
    ({"type": "integer"}, INT64, same),
    ({"type": ["integer", "null"]}, INT64 | st.none(), same),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False), same),
    ({"type": "string"}, TEXT, same),
    ({}, st.integers(), str),
]


@st.composite
def draw_json_schema(draw, depth=2):
    """Draw a JSON Schema of an object, its values, and the expected columns."""

    def kind(depth: int):
        choice = draw(st.integers(0, 2 if depth else 0))
        if choice == 1:
            schema, values, row_of = kind(depth - 1)
            some = st.none() | st.lists(values, max_size=3)
            return {"type": "array", "items": schema}, some, lambda one: one and [*map(row_of, one)]
        return record(depth - 1, st.sampled_from("pqr")) if choice == 2 else draw(st.sampled_from(JSON_SCALARS))

    def record(depth: int, names):
        fields = {name: kind(depth) for name in draw(draw_field_names(names))}
        schema = {"type": "object", "properties": {name: one[0] for name, one in fields.items()}}
        values = st.fixed_dictionaries({}, optional={name: one[1] for name, one in fields.items()})

        def row_of(row):
            return {name: one[2](row[name]) if name in row else None for name, one in fields.items()}

        return schema, values, row_of

    return record(depth, NAMES)


@given(kind=draw_json_schema(), data=st.data(), damage=DAMAGE)
def test_json_values_are_decoded(kind, data, damage):
    schema, values, row_of = kind
    decoder = JsonDecoder(schema)
    rows = data.draw(st.lists(values, max_size=3))
    encoded_values = [json.dumps(row).encode() for row in rows]
    expected_rows = [
        name_by_columns(row_of(row), {*RESERVED_COLUMNS, OTHER_FIELDS_COLUMN}) | {OTHER_FIELDS_COLUMN: None}
        for row in rows
    ]
    assert decode_rows(decoder, [*encoded_values, None]) == ([*expected_rows, None], {})
    for one in encoded_values:
        result, _ = decode_rows(decoder, [one, damage_value(one, *damage), one])
        assert result[0] == result[2] is not None


# --------------------------------------------------------------------------------------------------------- Protobuf

PROTOBUF_SCALARS = [
    (1, DOUBLES, same), (2, FLOAT32, same), (3, INT64, same), (4, st.integers(0, 2**64 - 1), Decimal),
    (5, INT32, same), (6, st.integers(0, 2**64 - 1), Decimal), (7, st.integers(0, 2**32 - 1), same),
    (8, st.booleans(), same), (9, TEXT, same), (12, st.binary(max_size=4), same), (13, st.integers(0, 2**32 - 1), same),
    (15, INT32, same), (16, INT64, same), (17, INT32, same), (18, INT64, same),
]  # fmt: skip
PROTOBUF_ZERO_VALUES = {1: 0.0, 2: 0.0, 8: False, 9: "", 12: b""}
ONE, MANY = 1, 3


@st.composite
def draw_protobuf_message(draw, depth=2):
    """Draw a file with a message, values as keywords of the message class, and the expected columns."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3", package="p")
    enum = file.enum_type.add(name="E")
    enum.value.add(name="ZERO", number=0)
    enum.value.add(name="NINE", number=9)

    def message(depth: int, names):
        descriptor = file.message_type.add(name=f"M{len(file.message_type)}")
        fields = {}
        for number, name in enumerate(draw(draw_field_names(names)), 1):
            inner = draw(st.integers(0, 2 if depth else 1))
            label = draw(st.sampled_from([ONE, MANY]))
            options, default = {}, 0
            if inner == 2:
                nested_name, values, row_of = message(depth - 1, st.sampled_from("pqr"))
                kind, options, default = 11, {"type_name": f".p.{nested_name}"}, None
            elif inner == 1:
                kind, options = 14, {"type_name": ".p.E"}
                values, default = st.sampled_from([0, 9, 5]), "ZERO"
                row_of = {0: "ZERO", 9: "NINE", 5: "5"}.get
            else:
                kind, values, row_of = draw(st.sampled_from(PROTOBUF_SCALARS))
                default = PROTOBUF_ZERO_VALUES.get(kind, 0)
            if label == MANY:
                one, values, default = row_of, st.lists(values, max_size=3), []
                row_of = lambda some, one=one: [*map(one, some)]  # noqa: E731
            elif kind != 11 and draw(st.booleans()):  # an optional field, whose presence is encoded
                descriptor.oneof_decl.add(name=f"_{name}")
                options |= {"proto3_optional": True, "oneof_index": len(descriptor.oneof_decl) - 1}
                default = None
            descriptor.field.add(name=name, number=number, type=kind, label=label, **options)
            fields[name] = (values, row_of, default)
        values = st.fixed_dictionaries({}, optional={name: one[0] for name, one in fields.items()})

        def row_of(row):
            return {name: one[1](row[name]) if name in row else one[2] for name, one in fields.items()}

        return descriptor.name, values, row_of

    name, values, row_of = message(depth, NAMES)
    return file, f"p.{name}", values, row_of


@given(kind=draw_protobuf_message(), data=st.data(), damage=DAMAGE)
def test_protobuf_values_are_decoded(kind, data, damage):
    from google.protobuf import descriptor_pool, message_factory

    file, name, values, row_of = kind
    descriptor_bytes = file.SerializeToString()
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_bytes)
    written_by = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    decoder = ProtobufDecoder([descriptor_bytes], name, same)
    rows = data.draw(st.lists(values, max_size=3))
    encoded_values = [written_by(**row).SerializeToString() for row in rows]
    expected_rows = [name_by_columns(row_of(row)) for row in rows]
    assert decode_rows(decoder, [*encoded_values, None]) == ([*expected_rows, None], {})
    for one in encoded_values:
        result, _ = decode_rows(decoder, [one, damage_value(one, *damage), one])
        assert result[0] == result[2] is not None


def test_instants_that_fit_microseconds_are_values_and_others_are_bad_records():
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": AVRO_SCALARS[8][0]}]}
    decoder = AvroDecoder(schema, lambda value: (None, value))
    plain = {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}
    milliseconds = [2**63 - 1, -(2**63), 0, 253_402_300_800_000, -62_135_596_800_001]
    struct, reasons = decode_to_struct(
        pa.array([encode_avro(plain, {"at": at}) for at in milliseconds], pa.binary()), decoder
    )
    assert struct.field("at").cast(pa.int64()).to_pylist()[2:] == [at * 1000 for at in milliseconds[2:]]
    assert {
        row: "(timestamp-millis) is beyond the range of its column" in reason for row, reason in reasons.items()
    } == {
        0: True,
        1: True,
    }
