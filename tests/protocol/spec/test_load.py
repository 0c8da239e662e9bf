"""Loading: a real-looking file becomes the typed model; what is wrong says where."""

import json
import uuid

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import FieldType, Versions, load_message
from kafkaframes.protocol.spec.load import PUBLISHED_DIALECT
from kafkaframes.protocol.spec.model import snake_case

THING = """// a comment with a "quote"
{
  "apiKey": "9000", /* Jackson
  reads a number in quotes */
  "type": "request", "listeners": "broker", "name": "ThingRequest", // trailing
  "validVersions": "0-3", "flexibleVersions": "2+",
  "fields": [
    { "name": "TopicId", "type": "uuid", "versions": "0+", "ignorable": "true", "about": "http://x // no comment" },
    { "name": "Limit", "type": "int32", "versions": "0+", "default": -1, "tag": "0", "taggedVersions": "3+" },
    { "name": "Things", "type": "[]Thing", "versions": "1+", "nullableVersions": "2+", "fields": [
      { "name": "Key", "type": "string", "versions": "1+", "mapKey": 1 },
      { "name": "Twin", "type": "Twin", "versions": "2+", "nullableVersions": "2+", "default": "null" } ]}
  ],
  "commonStructs": [ { "name": "Twin", "versions": "2+", "fields": [
    { "name": "A", "type": "int8", "versions": "2+" }, null_here ] } ]
}"""
GOOD = THING.replace(", null_here", "")


def test_a_whole_file():
    spec = load_message(GOOD)
    assert (spec.api_key, spec.type, spec.listeners) == (9000, "request", ("broker",))
    assert spec.valid_versions == Versions(0, 3)
    topic_id, limit, things = spec.struct.fields
    assert topic_id.default == uuid.UUID(int=0)
    assert topic_id.ignorable
    assert (limit.default, limit.tag, limit.is_tagged(2), limit.is_tagged(3)) == (-1, 0, False, True)
    assert things.type == FieldType("Thing", is_array=True)
    assert any(field.map_key for field in spec.struct_of(things).fields)
    twin = spec.struct_of(things).field("Twin")
    assert twin.default is None
    assert spec.struct_of(twin).is_common
    assert [one.name for one in spec.struct.fields_at(3)] == ["TopicId", "Things"]
    assert [one.name for one in spec.struct.tags_at(3)] == ["Limit"]


def test_bytes_and_a_byte_order_mark():
    assert load_message(b"\xef\xbb\xbf" + GOOD.encode()) == load_message(GOOD)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_other_encodings_of_json_are_known_by_their_first_bytes(encoding):
    """As Jackson reads them."""
    assert load_message(GOOD.encode(encoding)) == load_message(GOOD)


def test_an_error_names_file_line_and_field():
    wrong = GOOD.replace('"name": "A", "type": "int8"', '"name": "A", "type": "int9"')
    with pytest.raises(SpecError) as caught:
        load_message(wrong, file="ThingRequest.json")
    assert caught.value.file == "ThingRequest.json:15"
    assert caught.value.path == ("Twin", "A")
    assert "int9" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not contain JSON"),
        ("{", "invalid JSON"),
        (THING, "invalid JSON"),
        (GOOD + " {}", "after the closing brace"),
        ("/* open", "is not closed"),
        ("[]", "expected an object"),
        ("[" * 200, "levels"),
        ('{"a": NaN}', "invalid JSON"),
        (b"\xff{}", "UTF-8"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b"\xff\xfe", "does not contain JSON"),
        (GOOD.replace('"apiKey"', '"apikey"'), "unknown key"),
    ],
)
def test_no_spec(text, words):
    with pytest.raises(SpecError, match=words):
        load_message(text)


def test_a_published_file_may_have_text_behind_it():
    assert load_message(GOOD + " ] }", dialect=PUBLISHED_DIALECT) == load_message(GOOD)


def test_header_versions():
    def header(key, kind, version):
        suffix = {"request": "Request", "response": "Response"}[kind]
        fields = {"apiKey": key, "type": kind, "name": "X" + suffix, "validVersions": "0-3", "flexibleVersions": "3+"}
        return load_message(json.dumps(fields)).header_version(version)

    assert [header(1, "request", v) for v in (2, 3)] == [1, 2]
    assert [header(1, "response", v) for v in (2, 3)] == [0, 1]
    assert header(18, "response", 3) == 0
    assert [header(7, "request", v) for v in (0, 1)] == [0, 1]


def test_names():
    assert snake_case("isKRaftController") == "is_kraft_controller"
    assert snake_case("TopicId") == "topic_id"
