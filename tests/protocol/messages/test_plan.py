"""A plan lists the fields of one version in the order of the encoding."""

import json

import pytest

from kafkaframes.errors import OptionError, SpecError
from kafkaframes.protocol.messages.plan import MutableDefault, attribute_name, plan_message
from kafkaframes.protocol.spec import load_message

SPEC = {
    "name": "ThingRequest",
    "type": "request",
    "apiKey": 1,
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "fields": [
        {"name": "Id", "type": "int32", "versions": "0+"},
        {"name": "Name", "type": "string", "versions": "1+", "nullableVersions": "2+", "default": ""},
        {"name": "Trace", "type": "uuid", "versions": "2+", "taggedVersions": "3+", "tag": 1, "ignorable": True},
        {"name": "Agent", "type": "string", "versions": "3+", "taggedVersions": "3+", "tag": 0, "default": "me"},
        {
            "name": "Parts",
            "type": "[]Part",
            "versions": "0+",
            "fields": [{"name": "Class", "type": "int8", "versions": "0+"}],
        },
    ],
}


def _plan(version, spec=SPEC):
    return plan_message(load_message(json.dumps(spec)), version)


def _names(fields):
    return [field.name for field in fields]


@pytest.mark.parametrize(
    ("version", "fields", "tagged_fields", "refused_tags", "absent", "min_size"),
    [
        (0, ["Id", "Parts"], [], (0, 1), ["Name", "Trace", "Agent"], 8),
        (1, ["Id", "Name", "Parts"], [], (0, 1), ["Trace", "Agent"], 10),
        (2, ["Id", "Name", "Trace", "Parts"], [], (0, 1), ["Agent"], 23),
        (3, ["Id", "Name", "Parts"], ["Agent", "Trace"], (), [], 7),
    ],
)
def test_each_version_has_its_own_layout(version, fields, tagged_fields, refused_tags, absent, min_size):
    root = _plan(version).root
    assert (_names(root.fields), _names(root.tagged_fields), root.refused_tags, _names(root.absent), root.min_size) == (
        fields,
        tagged_fields,
        refused_tags,
        absent,
        min_size,
    )
    assert root.flexible == (version >= 2)


def test_fields_have_their_encoding_names_and_defaults():
    plan = _plan(2)
    name, parts = plan.root.fields[1], plan.root.fields[3]
    assert (name.nullable, name.compact, name.attribute, name.json_name) == (True, True, "name", "name")
    assert (parts.array, parts.type, parts.default) == (True, "struct", MutableDefault.ARRAY)
    assert parts.struct is plan.structs[0]
    assert parts.struct.fields[0].attribute == "class_"
    assert [(one.name, one.first_version, one.ignorable) for one in plan.root.absent] == [("Agent", 3, False)]


def test_a_plan_is_created_once():
    spec = load_message(json.dumps(SPEC))
    assert plan_message(spec, 3) is plan_message(spec, 3)
    assert plan_message(spec, 2) is not plan_message(spec, 3)


@pytest.mark.parametrize("version", [-1, 4, 99])
def test_a_missing_version_is_rejected(version):
    with pytest.raises(OptionError, match=r"expected 0-3"):
        _plan(version)


def test_a_client_id_keeps_its_own_encoding():
    header = {
        "name": "ThingHeader",
        "type": "header",
        "validVersions": "1-2",
        "flexibleVersions": "2+",
        "fields": [{"name": "ClientId", "type": "string", "versions": "1+", "flexibleVersions": "none"}],
    }
    root = _plan(2, header).root
    assert (root.flexible, root.fields[0].compact) == (True, False)


def test_attribute_names_avoid_class_members_and_keywords():
    spec = load_message(json.dumps(SPEC))
    assert attribute_name(spec.struct.fields[0]) == "id"
    assert attribute_name(spec.structs["Part"].fields[0]) == "class_"


def test_a_struct_that_contains_itself_is_rejected():
    spec = load_message(json.dumps(SPEC))
    part = spec.structs["Part"]
    again = type(part)(part.name, part.versions, (*part.fields, spec.struct.fields[4]))
    spec.structs["Part"] = again
    with pytest.raises(SpecError, match="contains itself"):
        plan_message(spec, 0)
