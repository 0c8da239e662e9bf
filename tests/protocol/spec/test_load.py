"""Loading of specs: a realistic file becomes typed values, and errors have positions."""

import json
import uuid

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import FieldType, Versions, load_message
from kafkaframes.protocol.spec.load import PUBLISHED_DIALECT
from kafkaframes.protocol.spec.model import snake_case

THING_WITH_COMMENTS = """// a comment with a "quote"
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
VALID_SPEC = THING_WITH_COMMENTS.replace(", null_here", "")


def test_a_complete_file_is_loaded():
    spec = load_message(VALID_SPEC)
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
    assert load_message(b"\xef\xbb\xbf" + VALID_SPEC.encode()) == load_message(VALID_SPEC)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_encodings_of_json_are_detected_by_their_first_bytes(encoding):
    """Jackson does the same."""
    assert load_message(VALID_SPEC.encode(encoding)) == load_message(VALID_SPEC)


def test_an_error_has_file_line_and_field():
    wrong = VALID_SPEC.replace('"name": "A", "type": "int8"', '"name": "A", "type": "int9"')
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
        (THING_WITH_COMMENTS, "invalid JSON"),
        (VALID_SPEC + " {}", "after the closing brace"),
        ("/* open", "is not closed"),
        ("[]", "expected an object"),
        ("[" * 200, "levels"),
        ('{"a": NaN}', "invalid JSON"),
        (b"\xff{}", "UTF-8"),
        (b"\xff\xfe\x00", "UTF-16"),
        (b"\xff\xfe", "does not contain JSON"),
        (VALID_SPEC.replace('"apiKey"', '"apikey"'), "unknown key"),
    ],
)
def test_invalid_specs_are_rejected(text, words):
    with pytest.raises(SpecError, match=words):
        load_message(text)


def test_a_published_file_may_have_text_behind_it():
    assert load_message(VALID_SPEC + " ] }", dialect=PUBLISHED_DIALECT) == load_message(VALID_SPEC)


def test_header_versions_follow_from_the_flexible_versions():
    def header(key, kind, version):
        suffix = {"request": "Request", "response": "Response"}[kind]
        fields = {"apiKey": key, "type": kind, "name": "X" + suffix, "validVersions": "0-3", "flexibleVersions": "3+"}
        return load_message(json.dumps(fields)).header_version(version)

    assert [header(1, "request", v) for v in (2, 3)] == [1, 2]
    assert [header(1, "response", v) for v in (2, 3)] == [0, 1]
    assert header(18, "response", 3) == 0
    assert [header(7, "request", v) for v in (0, 1)] == [0, 1]


def test_attribute_names_are_snake_case():
    assert snake_case("isKRaftController") == "is_kraft_controller"
    assert snake_case("TopicId") == "topic_id"
