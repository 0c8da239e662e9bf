"""Values of JSON, Avro and Protobuf: any bytes give a row or a reason. Unsupported types are rejected by name."""

import contextlib
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import OptionError
from kafkaframes.scan.values.avro_values import AvroDecoder
from kafkaframes.scan.values.columns import REASON_COLUMN, separate_rows
from kafkaframes.scan.values.decoding import DecodingOptions, inline_avro_schema
from kafkaframes.scan.values.json_values import JsonDecoder, infer_schema
from kafkaframes.scan.values.protobuf_values import ProtobufDecoder
from kafkaframes.scan.values.registry import BadValueError, RegisteredSchema, split_indexes, split_prefix

fastavro = pytest.importorskip("fastavro")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

ORDER_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "cost", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
    ],
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": ["null", "integer"]},
        "list": {"type": "array", "items": {"type": "number"}},
        "any": {},
    },
}


def avro(schema=ORDER_SCHEMA):
    return AvroDecoder(schema, lambda value: (None, value))


def build_protobuf_decoder(**field):
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3", package="p")
    message = file.message_type.add(name="M")
    message.field.add(name="n", number=1, type=5, label=1)
    message.field.add(name="inner", number=2, **{"type": 11, "type_name": ".p.Inner", "label": 3, **field})
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="flag", number=1, type=8, label=1)
    return ProtobufDecoder([file.SerializeToString()], "", lambda value: value)


DECODERS = {
    "json": JsonDecoder(JSON_SCHEMA),
    "avro": avro(),
    "avro-strings": avro({"type": "array", "items": "string"}),
    "protobuf": build_protobuf_decoder(),
}


def decode_rows(decoder, *values):
    batch = pa.RecordBatch.from_pydict(
        {"key": pa.array([b"k"] * len(values), pa.binary()), "value": pa.array(values, pa.binary())}
    )
    good, bad = separate_rows(batch, decoder, needs_key=False)
    return good.to_pylist(), [] if bad is None else bad.column(REASON_COLUMN).to_pylist()


@pytest.mark.parametrize("name", DECODERS)
@given(values=st.lists(st.binary(max_size=60) | st.none(), max_size=6))
def test_any_bytes_give_a_row_or_a_reason(name, values):
    good, bad = decode_rows(DECODERS[name], *values)
    assert len(good) + len(bad) == len(values)
    assert all(bad)


@given(value=st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=12))  # fmt: skip  # noqa: E501
def test_sample_values_fit_the_schema_inferred_from_them(value):
    text = json.dumps(value).encode()
    try:
        decoder = JsonDecoder(infer_schema([text]))
    except OptionError:  # null, NaN, or names that collide
        return
    good, bad = decode_rows(decoder, text)
    assert (len(good), bad) == (1, []) or "UTF-8" in bad[0] or "utf-8" in bad[0]


def test_json_ignores_unknown_fields_and_rejects_other_types():
    good, bad = decode_rows(
        DECODERS["json"],
        b'{"n": 3.0, "list": [1, 2.5], "any": {"b": [1]}, "more": {"x": 1}}',
        b'{"n": true}',
        b'{"n": 9223372036854775808}',
        b'{"list": [NaN]}',
        b"[1]",
        b'{"n": 1} {}',
        b"\xff",
        b"[" * 100_000,
    )
    (row,) = good
    assert (row["n"], row["list"], row["any"]) == (3, [1.0, 2.5], '{"b":[1]}')
    assert row["other_fields"] == '{"more":{"x":1}}'
    starts = (
        "$.n: expected a 64-bit integer, found true or false",
        "$.n: expected a 64-bit integer, found a number",
        "not JSON: NaN",
        "$: expected an object, found an array",
        "not JSON",
        "not UTF-8",
        "not JSON",
    )
    for reason, start in zip(bad, starts, strict=True):
        assert reason.startswith(start)


def test_numbers_and_nulls_are_merged_and_a_conflict_is_text():
    inferred_schema = infer_schema([b'{"a": 1, "b": 1}', b'{"a": 2.5, "b": "x"}', b'{"a": null, "c": []}', b"no"])
    decoder = JsonDecoder(inferred_schema)
    assert [(field.name, str(field.type)) for field in decoder.fields][:2] == [("a", "double"), ("b", "string")]
    good, bad = decode_rows(decoder, b'{"a": 1, "b": 1}', b'{"b": "x"}')
    assert ([row["b"] for row in good], bad) == (["1", '"x"'], [])


def test_avro_types_are_decoded():
    buffer = io.BytesIO()
    value = {
        "id": 2**40, "state": "OLD", "at": 1_500, "cost": None,
        "uuid": "00000000-0000-0000-0000-000000000001", "lines": [{"a": 1}, {}],
    }  # fmt: skip
    plain = {**ORDER_SCHEMA, "fields": [{**one} for one in ORDER_SCHEMA["fields"]]}
    plain["fields"][2] = {"name": "at", "type": "long"}
    plain["fields"][4] = {"name": "uuid", "type": "string"}
    fastavro.schemaless_writer(buffer, plain, value)
    good, bad = decode_rows(avro(), buffer.getvalue(), buffer.getvalue() + b"x")
    assert bad == ["1 byte follows the Avro value"]
    assert good[0]["at"].timestamp() == 1.5
    assert good[0]["uuid"].endswith("01")
    assert good[0]["lines"] == [[("a", 1)], []]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array", "items": "null"}, "values that occupy no bytes"),
        ({"type": "record", "name": "E", "fields": []}, "record E has no fields"),
        ({"type": "nothing"}, "not an Avro schema: unknown type 'nothing'"),
    ],
)  # fmt: skip
def test_unsupported_avro_schemas_are_rejected_with_the_reason(schema, message):
    with pytest.raises(OptionError, match=message):
        avro(schema)


def test_an_overlong_int_is_a_bad_record_and_its_neighbours_are_not():
    decoder = avro({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]})
    good, bad = decode_rows(decoder, b"\x02", b"\xfe\xff\xff\xff\xff\x0f", b"\x04")
    assert [row["n"] for row in good] == [1, 2]
    assert bad == ["the value does not match its Avro schema: 274877906943 is not a 32-bit int"]


def test_a_registered_avro_schema_includes_its_references():
    line = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    order = {"type": "record", "name": "O", "fields": [{"name": "a", "type": "Line"}, {"name": "b", "type": "Line"}]}
    schema = inline_avro_schema(RegisteredSchema("AVRO", json.dumps(order), (("Line", json.dumps(line)),)))
    assert [field.type for field in avro(schema).fields] == [pa.struct([("sku", pa.string())])] * 2


def test_protobuf_types_without_a_column_are_rejected_by_name():
    with pytest.raises(OptionError, match=r"message 'p\.Other'"):
        ProtobufDecoder([descriptor_pb2.FileDescriptorProto(name="x").SerializeToString()], "p.Other", bytes)


@given(value=st.binary(max_size=20))
def test_prefixes_of_any_bytes(value):
    for split_value in (split_prefix, split_indexes):
        with contextlib.suppress(BadValueError):
            _, rest = split_value(value)
            assert value.endswith(rest)


def test_a_pickled_decoding_creates_one_decoder_per_process():
    import pickle

    decoding = DecodingOptions("json", json.dumps(JSON_SCHEMA).encode())
    assert pickle.loads(pickle.dumps(decoding)).get_decoder() is decoding.get_decoder()
    with pytest.raises(OptionError, match="not a JSON Schema"):
        DecodingOptions("json", b"{").get_decoder()
