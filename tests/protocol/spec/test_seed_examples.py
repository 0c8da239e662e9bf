"""The examples in the text of KIP-482: its spec, as printed and corrected, and the change of KIP-636."""

import json

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.changes import most_severe
from kafkaframes.protocol.spec.evolution import compare_messages
from kafkaframes.protocol.spec.layout import list_slots

# The example of the KIP has an additional brace after "fields", and lacks a comma and its end.
PRINTED_SPEC = """{
  "apiKey": 9000, "type": "response", "name": "FooResponse",
  "validVersions": "0-9", "flexibleVersions": "9+",
  "fields": [
   {
      { "name": "UserAgent", "type": "string", "tag": 0, "taggedVersions": "9+" },
      { "name": "Foos", "type": "[]Foo", "versions": "0+"
      "about": "Each foo." } ] } ]
}"""
CORRECTED_SPEC = """{
  "apiKey": 9000, "type": "response", "name": "FooResponse",
  "validVersions": "0-9", "flexibleVersions": "9+",
  "fields": [
    { "name": "UserAgent", "type": "string", "tag": 0, "taggedVersions": "9+" },
    { "name": "Foos", "type": "[]Foo", "versions": "0+", "fields": [
      { "name": "Bar", "type": "string", "tag": 0, "taggedVersions": "9+", "default": "hello world" },
      { "name": "Baz", "type": "int16", "versions": "0+" } ] }
  ]
}"""


def test_the_printed_example_is_rejected_with_its_line():
    with pytest.raises(SpecError) as caught:
        load_message(PRINTED_SPEC, file="FooResponse.json")
    assert caught.value.file == "FooResponse.json:6"


def test_the_corrected_example_is_loaded():
    spec = load_message(CORRECTED_SPEC)
    user_agent, foos = spec.struct.fields
    bar, baz = spec.struct_of(foos).fields
    # Both have tag 0, each in its own struct. By default, the versions of a tagged field are its tagged versions.
    assert (user_agent.tag, bar.tag, baz.tag) == (0, 0, None)
    assert (str(user_agent.versions), bar.default) == ("9+", "hello world")
    assert [slot.name for slot in list_slots(spec, 8)] == ["Foos"]
    assert [(slot.name, slot.tag) for slot in list_slots(spec, 9)] == [("Foos", None), ("UserAgent", 0)]
    assert (spec.header_version(8), spec.header_version(9)) == (0, 1)


def test_versions_of_a_tag_are_required_unlike_in_the_kip():
    """The error proposes the versions that the KIP implies: all flexible versions, here 9+."""
    with pytest.raises(SpecError, match=r'tag 0 without taggedVersions: .* "taggedVersions": "9\+"') as caught:
        load_message(CORRECTED_SPEC.replace(', "taggedVersions": "9+" }', " }"))
    assert caught.value.path


@pytest.mark.parametrize(
    ("keys", "flexible", "proposal"),
    [
        ({"versions": "0+"}, "9+", '"taggedVersions": "9+"'),
        ({"versions": "11+"}, "9+", '"taggedVersions": "11+"'),
        ({}, "none", "no version that has the field is flexible"),
        ({"versions": "0-3"}, "9+", "no version that has the field is flexible"),
        ({"versions": "0-10"}, "9+", "must be open"),
    ],
)
def test_proposed_tag_versions_are_flexible_and_have_the_field(keys, flexible, proposal):
    top = {"apiKey": 1, "type": "request", "name": "FooRequest", "validVersions": "0-12", "flexibleVersions": flexible}
    with pytest.raises(SpecError) as caught:
        load_message(json.dumps({**top, "fields": [{"name": "U", "type": "int8", "tag": 0, **keys}]}))
    assert proposal in str(caught.value)


def build_response(message_default, versions):
    """Return a response whose error codes and messages are tagged since version 1, like in KIP-636."""
    tags = [{"tag": tag, "taggedVersions": "1+"} if versions == "0-1" else {} for tag in (0, 1)]
    code = {"name": "ErrorCode", "type": "int16", "versions": "0+", **tags[0]}
    text = {"name": "ErrorMessage", "type": "string", "versions": "0+", "nullableVersions": "0+", **tags[1]}
    fields = [code, text | ({"default": "null"} if message_default else {})]
    top = {"apiKey": 9000, "type": "response", "name": "FooResponse", "validVersions": versions}
    return load_message(json.dumps({**top, "flexibleVersions": "0+", "fields": fields}))


def test_kip_636_in_a_new_version():
    assert most_severe(compare_messages(build_response(False, "0"), build_response(False, "0-1"))) == "compatible"
    # Without the default null, a null message takes three bytes. The changed default does not affect the encoding,
    # because every version has the field.
    changes = compare_messages(build_response(False, "0"), build_response(True, "0-1"))
    assert most_severe(changes) == "note"
    assert [(change.rule.name, change.where) for change in changes if change.verdict == "note"] == [
        ("default-to-null", "ErrorMessage")
    ]
    assert (
        most_severe(compare_messages(build_response(False, "0-1"), build_response(True, "0-1"))) == "breaking"
    )  # in version 1, the field is tagged
