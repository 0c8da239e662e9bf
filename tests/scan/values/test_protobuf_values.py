"""Protobuf values: Struct, recursive messages, exponential schemas, names that differ only by case."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from kafkaframes.errors import OptionError
from kafkaframes.scan.values.columns import MAX_COLUMNS, decode_to_struct
from kafkaframes.scan.values.protobuf_values import ProtobufDecoder

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
MESSAGE, INT32, STRING, INT64 = 11, 5, 9, 3


def build_file(messages):
    """Return a file with messages, each a mapping of fields to (type, type's name, label)."""
    file = descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3", package="p")
    file.dependency.extend(["google/protobuf/struct.proto", "google/protobuf/timestamp.proto"])
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, (field, (kind, type_name, label)) in enumerate(fields.items(), 1):
            message.field.add(name=field, number=number, type=kind, type_name=type_name or None, label=label)
    return file


def build_decoder(messages, name="p.M"):
    from google.protobuf import descriptor_pool, message_factory, struct_pb2, timestamp_pb2

    files = [struct_pb2.DESCRIPTOR.serialized_pb, timestamp_pb2.DESCRIPTOR.serialized_pb]
    files.append(build_file(messages).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return ProtobufDecoder(files, name, lambda value: value), message


def decode_messages(decoder, *messages):
    values = pa.array([message.SerializeToString() for message in messages], pa.binary())
    struct, reasons = decode_to_struct(values, decoder)
    return struct.to_pylist(), reasons


def test_struct_and_its_parts_are_json_text():
    of = {
        f"{kind.lower()}": (MESSAGE, f".google.protobuf.{kind}", label)
        for kind, label in (("Struct", 1), ("Value", 1), ("ListValue", 3))
    }
    decoder, message = build_decoder({"M": of})
    assert [str(field.type) for field in decoder.fields] == ["string", "string", "list<element: string>"]
    full = message()
    full.struct.update({"a": 1, "b": [True, None, "é"], "c": {"d": 0.5}})
    full.value.string_value = "x"
    full.listvalue.add().extend([1, 2])
    endless = message()
    endless.value.number_value = float("inf")
    rows, reasons = decode_messages(decoder, full, message(), endless)
    assert json.loads(rows[0]["struct"]) == {"a": 1, "b": [True, None, "é"], "c": {"d": 0.5}}
    assert "é" in rows[0]["struct"]
    assert rows[0]["value"] == '"x"'
    assert json.loads(rows[0]["listvalue"][0]) == [1, 2]
    assert rows[1] == {"struct": None, "value": None, "listvalue": []}
    assert "google.protobuf.Value cannot be converted to JSON" in reasons[2]


def test_a_recursive_message_is_json_text():
    node = {"n": (INT32, "", 1), "next": (MESSAGE, ".p.Node", 1), "others": (MESSAGE, ".p.Node", 3)}
    decoder, message = build_decoder({"Node": node}, "p.Node")
    assert [str(field.type) for field in decoder.fields] == ["int32", "string", "list<element: string>"]
    value = message(n=1)
    value.next.n = 2
    value.next.next.n = 3
    value.others.add(n=4)
    rows, reasons = decode_messages(decoder, value, message())
    assert reasons == {}
    assert json.loads(rows[0]["next"]) == {"n": 2, "next": {"n": 3}}
    assert rows[0]["others"] == ['{"n":4}']
    assert rows[1] == {"n": 0, "next": None, "others": []}


def test_exponential_messages_are_rejected_by_the_name_of_the_type():
    messages = {"M0": {"l": (INT32, "", 1)}}
    for level in range(1, 23):
        part = (MESSAGE, f".p.M{level - 1}", 1)
        messages[f"M{level}"] = {"l": part, "r": part}
    with pytest.raises(OptionError, match=rf"Protobuf: type p\.M\d+, at l.*, has more than {MAX_COLUMNS} columns"):
        build_decoder(messages, "p.M22")
    assert len(build_decoder(messages, "p.M5")[0].fields) == 2


def test_names_that_differ_only_by_case_are_distinguished():
    inner = {"k": (INT32, "", 1), "K": (STRING, "", 1)}
    decoder, message = build_decoder(
        {
            "M": {"id": (INT32, "", 1), "ID": (INT32, "", 1), "Offset": (INT64, "", 1), "o": (MESSAGE, ".p.In", 1)},
            "In": inner,
        }
    )
    rows, reasons = decode_messages(decoder, message(id=1, ID=2, Offset=3, o={"k": 4, "K": "x"}))
    assert reasons == {}
    assert rows == [{"id": 1, "ID_3843": 2, "value_Offset": 3, "o": {"k": 4, "K_86be": "x"}}]


def test_an_instant_outside_its_column_is_a_bad_record():
    decoder, message = build_decoder({"M": {"at": (MESSAGE, ".google.protobuf.Timestamp", 1)}})
    far, near = message(), message()
    far.at.seconds, near.at.seconds = 2**62, 253_402_300_800
    struct, reasons = decode_to_struct(
        pa.array([far.SerializeToString(), near.SerializeToString()], pa.binary()), decoder
    )
    assert reasons == {0: f"{2**62} seconds (Timestamp) are beyond the range of a column"}
    assert struct.field("at").cast(pa.int64()).to_pylist()[1] == 253_402_300_800_000_000
