"""The examples of KIP-482's text: the spec that it prints, as it is and mended, and KIP-636's change."""

import json

import pytest

from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.changes import most_severe
from kafkaframes.protocol.spec.evolution import compare_messages
from kafkaframes.protocol.spec.layout import list_slots

# The document's example has a surplus brace after "fields", and lacks a comma and its end.
AS_PRINTED = """{
  "apiKey": 9000, "type": "response", "name": "FooResponse",
  "validVersions": "0-9", "flexibleVersions": "9+",
  "fields": [
   {
      { "name": "UserAgent", "type": "string", "tag": 0, "taggedVersions": "9+" },
      { "name": "Foos", "type": "[]Foo", "versions": "0+"
      "about": "Each foo." } ] } ]
}"""
MENDED = """{
  "apiKey": 9000, "type": "response", "name": "FooResponse",
  "validVersions": "0-9", "flexibleVersions": "9+",
  "fields": [
    { "name": "UserAgent", "type": "string", "tag": 0, "taggedVersions": "9+" },
    { "name": "Foos", "type": "[]Foo", "versions": "0+", "fields": [
      { "name": "Bar", "type": "string", "tag": 0, "taggedVersions": "9+", "default": "hello world" },
      { "name": "Baz", "type": "int16", "versions": "0+" } ] }
  ]
}"""


def test_the_example_as_printed_is_refused_at_its_line():
    with pytest.raises(SpecError) as caught:
        load_message(AS_PRINTED, file="FooResponse.json")
    assert caught.value.file == "FooResponse.json:6"


def test_the_example_mended():
    spec = load_message(MENDED)
    user_agent, foos = spec.struct.fields
    bar, baz = spec.struct_of(foos).fields
    # Both have tag 0, each in its own struct; a tagged field's versions are its tagged ones when none are given.
    assert (user_agent.tag, bar.tag, baz.tag) == (0, 0, None)
    assert (str(user_agent.versions), bar.default) == ("9+", "hello world")
    assert [slot.name for slot in list_slots(spec, 8)] == ["Foos"]
    assert [(slot.name, slot.tag) for slot in list_slots(spec, 9)] == [("Foos", None), ("UserAgent", 0)]
    assert (spec.header_version(8), spec.header_version(9)) == (0, 1)


def test_versions_of_a_tag_are_not_optional_as_the_document_says():
    """The error proposes what the document means by that: all flexible versions, 9+ here."""
    with pytest.raises(SpecError, match=r'tag 0 without taggedVersions: .* "taggedVersions": "9\+"') as caught:
        load_message(MENDED.replace(', "taggedVersions": "9+" }', " }"))
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
def test_the_versions_that_are_proposed_for_a_tag_are_flexible_and_have_the_field(keys, flexible, proposal):
    top = {"apiKey": 1, "type": "request", "name": "FooRequest", "validVersions": "0-12", "flexibleVersions": flexible}
    with pytest.raises(SpecError) as caught:
        load_message(json.dumps({**top, "fields": [{"name": "U", "type": "int8", "tag": 0, **keys}]}))
    assert proposal in str(caught.value)


def response(message_default, versions):
    """Return a response whose codes and messages are tagged from version 1 on, as in KIP-636."""
    tags = [{"tag": tag, "taggedVersions": "1+"} if versions == "0-1" else {} for tag in (0, 1)]
    code = {"name": "ErrorCode", "type": "int16", "versions": "0+", **tags[0]}
    text = {"name": "ErrorMessage", "type": "string", "versions": "0+", "nullableVersions": "0+", **tags[1]}
    fields = [code, text | ({"default": "null"} if message_default else {})]
    top = {"apiKey": 9000, "type": "response", "name": "FooResponse", "validVersions": versions}
    return load_message(json.dumps({**top, "flexibleVersions": "0+", "fields": fields}))


def test_kip_636_in_a_new_version():
    assert most_severe(compare_messages(response(False, "0"), response(False, "0-1"))) == "compatible"
    # Without a default of null a null message is written in three bytes. With it, the default has changed, but every
    # version has the field, so no bytes depend on it.
    changes = compare_messages(response(False, "0"), response(True, "0-1"))
    assert most_severe(changes) == "note"
    assert [(change.rule.name, change.where) for change in changes if change.verdict == "note"] == [
        ("default-to-null", "ErrorMessage")
    ]
    assert (
        most_severe(compare_messages(response(False, "0-1"), response(True, "0-1"))) == "breaking"
    )  # version 1 has it as a tag
