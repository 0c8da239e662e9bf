"""The examples of KIP-482, with bytes that were computed by hand, and the tag header of an earlier draft."""

import json

import pytest

from kafkaframes.errors import DecodeError, EncodeError, OptionError
from kafkaframes.protocol.messages import class_of
from kafkaframes.protocol.spec import load_message

# The FooResponse of the KIP, which as printed is not valid JSON (a stray brace, a missing comma, an ellipsis), with the
# "versions" that Kafka requires. UserAgent and Bar have equal tag numbers, because each struct has its own.
FOO_RESPONSE = {
    "apiKey": 99,
    "type": "response",
    "name": "FooResponse",
    "validVersions": "0-9",
    "flexibleVersions": "9+",
    "fields": [
        {"name": "UserAgent", "type": "string", "tag": 0, "versions": "9+", "taggedVersions": "9+"},
        {
            "name": "Foos",
            "type": "[]Foo",
            "versions": "0+",
            "fields": [
                {
                    "name": "Bar",
                    "type": "string",
                    "tag": 0,
                    "versions": "9+",
                    "taggedVersions": "9+",
                    "default": "hello world",
                },
                {"name": "Baz", "type": "int16", "versions": "0+"},
            ],
        },
    ],
}
Foo = class_of(load_message(json.dumps(FOO_RESPONSE)))

EXAMPLES = [
    # version 9, by hand:
    # 02           one element (count + 1)
    #   0001       Baz
    #   01         one tag
    #     00 03    tag 0 (Bar), 3 bytes
    #     03 6869  a compact string: length + 1 = 3, "hi"
    # 01           one tag at the top
    #   00 03 03 7561   tag 0 (UserAgent), 3 bytes: length + 1 = 3, "ua"
    (9, {"user_agent": "ua", "foos": [{"bar": "hi", "baz": 1}]}, "02 0001 01 00 03 03 6869 01 00 03 03 7561"),
    # Bar has its default and is not written, so the element ends with a zero, the count of an empty tag section
    (9, {"user_agent": "ua", "foos": [{"baz": 1}]}, "02 0001 00 01 00 03 03 7561"),
    (9, {"foos": [{"baz": 1}]}, "02 0001 00 00"),
    # version 8 is not flexible: it has an int32 count and no tag sections
    (8, {"foos": [{"baz": 1}]}, "00000001 0001"),
    # an empty array is one byte in version 9 (01), four in version 8
    (9, {}, "01 00"),
    (8, {}, "00000000"),
]


def _value(fields):
    return Foo(**{**fields, "foos": [Foo.Foo(**one) for one in fields.get("foos", ())]})


@pytest.mark.parametrize(("version", "fields", "expected_hex"), EXAMPLES)
def test_the_example_of_the_kip_has_the_specified_bytes(version, fields, expected_hex):
    data = bytes.fromhex(expected_hex)
    assert _value(fields).encode(version) == data
    for mode in ("reference", "strict"):
        assert Foo.decode(data, version, mode=mode) == _value(fields)


def test_an_error_for_a_tagged_field_names_its_first_version():
    with pytest.raises(
        EncodeError, match=r"version 8 lacks this field; its first version is 9 \(at \$\.Foos\[0\]\.Bar\)"
    ):
        _value({"foos": [{"bar": "hi", "baz": 1}]}).encode(8)


def test_any_struct_can_have_additional_tags():
    """The motivation of the KIP is an additional field that is independent of versions."""
    value = _value({"foos": [{"baz": 1}]})
    value.unknown_tags = [(10_001, b"trace")]
    value.foos[0].unknown_tags.append((20_000, b""))
    data = value.encode(9)
    assert data.hex() == "02" + "0001" + "01" + "a09c01" + "00" + "01" + "914e" + "05" + b"trace".hex()
    back = Foo.decode(data, 9, mode="strict")
    assert back == value
    assert (back.unknown_tags, back.foos[0].unknown_tags) == ([(10_001, b"trace")], [(20_000, b"")])
    assert back != _value({"foos": [{"baz": 1}]})
    with pytest.raises(EncodeError, match="does not support"):
        value.encode(8)


@pytest.mark.parametrize(
    "tags", [[(5, b""), (5, b"")], [(6, b""), (5, b"")], [(-1, b"")], [(2**31 - 1, b"")], [("5", b"")], [(5, "x")]]
)
def test_unknown_tags_must_be_ascending_numbers_with_bytes(tags):
    with pytest.raises(EncodeError, match="unknown tag"):
        _value({}).replace(unknown_tags=tags).encode(9)


def test_the_draft_tag_header_takes_one_byte_instead_of_two():
    value = _value({"user_agent": "ua", "foos": [{"bar": "hi", "baz": 1}]})
    drafted_bytes = value.encode(9, tag_header="interleaved")
    # length 3 and tag 0 interleave to 0b000101 = 05
    assert drafted_bytes.hex(" ") == "02 00 01 01 05 03 68 69 01 05 03 75 61"
    assert Foo.decode(drafted_bytes, 9, tag_header="interleaved", mode="strict") == value
    assert len(drafted_bytes) == len(value.encode(9)) - 2
    with pytest.raises(DecodeError):
        Foo.decode(drafted_bytes, 9)
    with pytest.raises(OptionError, match="interleaved"):
        value.encode(9, tag_header="other")


def test_compact_types_save_the_bytes_of_the_kip():
    """A small array saves 3 bytes, a bytes field 3, and a string 1. A null is 00, and an empty value is 01."""
    fields = [
        {"name": "A", "type": "[]int8", "versions": "0+", "nullableVersions": "0+"},
        {"name": "B", "type": "bytes", "versions": "0+", "nullableVersions": "0+"},
        {"name": "S", "type": "string", "versions": "0+", "nullableVersions": "0+"},
    ]
    spec = {"name": "Sizes", "type": "data", "validVersions": "0-1", "flexibleVersions": "1+", "fields": fields}
    cls = class_of(load_message(json.dumps(spec)))
    full = cls(a=[1], b=b"b", s="s")
    assert full.size(0) - full.size(1) == 3 + 3 + 1 - 1  # minus the byte of the tag section
    assert cls(a=None, b=None, s=None).encode(1).hex() == "00000000"
    assert cls().encode(1).hex() == "01010100"
