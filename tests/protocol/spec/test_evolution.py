"""The evolution rules, each with changes that it reports."""

import json

import pytest

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.changes import EVOLUTION_RULES, format_versions, most_severe
from kafkaframes.protocol.spec.evolution import compare_messages

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}
FIELD_B = {"name": "B", "type": "string", "versions": "1+", "nullableVersions": "2+"}
TAGGED_FIELD = {"name": "T", "type": "int32", "versions": "2+", "tag": 0, "taggedVersions": "2+"}
FIELD_X = {"name": "X", "type": "int8", "versions": "0+"}
VERSION_4_ADDED = {("versions-added", "-", "4")}
UNSTABLE = {"latestVersionUnstable": True}
INFLEXIBLE = {"flexibleVersions": "none"}


def build_spec(*fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": "FooRequest", "validVersions": "0-3", "flexibleVersions": "2+"}
    return load_message(json.dumps({**base, **top, "fields": list(fields)}))


def list_field(*fields, kind="S", name="L"):
    return {"name": name, "type": f"[]{kind}", "versions": "0+", "fields": list(fields)}


def with_(field, **changes):
    return {**field, **changes}


def key(kind, versions, api_key):
    return build_spec(FIELD_A, type=kind, validVersions=versions, apiKey=api_key, **INFLEXIBLE)


TEXT = {"name": "M", "type": "string", "versions": "0+", "nullableVersions": "0+"}
NULL_TEXT = {**TEXT, "default": "null"}
NULL_BYTES = with_(FIELD_A, type="bytes", nullableVersions="0+", default="null")
NAN = with_(FIELD_A, type="float64", default="NaN")
TAGGED_STRUCT = with_(TAGGED_FIELD, type="S", fields=[with_(FIELD_X, versions="2+")])
OLD_SPEC = build_spec(FIELD_A, FIELD_B, TAGGED_FIELD)

# description of the change: (old spec, new spec, {(rule, place, versions)})
CHANGES = {
    "nothing": (OLD_SPEC, OLD_SPEC, set()),
    "new version": (OLD_SPEC, build_spec(FIELD_A, FIELD_B, TAGGED_FIELD, validVersions="0-4"), VERSION_4_ADDED),
    "lowered": (
        OLD_SPEC,
        build_spec(FIELD_A, FIELD_B, TAGGED_FIELD, validVersions="0-2"),
        {("versions-lowered", "-", "3")},
    ),
    "raised": (
        OLD_SPEC,
        build_spec(FIELD_A, FIELD_B, TAGGED_FIELD, validVersions="2-3"),
        {("versions-removed", "-", "0-1")},
    ),
    "below": (build_spec(FIELD_A, validVersions="2-3"), build_spec(FIELD_A), {("versions-below", "-", "0-1")}),
    "api removed": (OLD_SPEC, build_spec(validVersions="none"), {("api-removed", "-", "")}),
    "key": (build_spec(FIELD_A), build_spec(FIELD_A, apiKey=1), {("api-key", "-", "")}),
    "type": (build_spec(FIELD_A), build_spec(FIELD_A, type="data"), {("message-type", "-", "")}),
    "name": (build_spec(FIELD_A), build_spec(FIELD_A, name="BarRequest"), {("message-renamed", "-", "")}),
    "listeners": (build_spec(FIELD_A), build_spec(FIELD_A, listeners=["broker"]), {("listeners", "-", "")}),
    "flexible earlier": (build_spec(FIELD_A), build_spec(FIELD_A, flexibleVersions="1+"), {("flexibility", "-", "1")}),
    "flexible later": (build_spec(FIELD_A), build_spec(FIELD_A, **INFLEXIBLE), {("flexibility", "-", "2-3")}),
    "flexible beyond the versions": (
        build_spec(FIELD_A, **INFLEXIBLE),
        build_spec(FIELD_A, flexibleVersions="4+"),
        set(),
    ),
    "header": (
        build_spec(FIELD_A),
        build_spec(FIELD_A, headerVersions={"0-1": "1", "2": "2", "3+": "3"}),
        {("header-version", "-", "3")},
    ),
    "field added": (build_spec(FIELD_A), build_spec(FIELD_A, FIELD_X), {("field-added", "X", "0-3")}),
    "field removed": (build_spec(FIELD_A, FIELD_X), build_spec(FIELD_A), {("field-removed", "X", "0-3")}),
    "closed for a new version": (
        build_spec(FIELD_A),
        build_spec(with_(FIELD_A, versions="0-3"), validVersions="0-4"),
        VERSION_4_ADDED,
    ),
    "closed in an old version": (
        build_spec(FIELD_A),
        build_spec(with_(FIELD_A, versions="0-2")),
        {("field-removed", "A", "3")},
    ),
    "order": (build_spec(FIELD_A, FIELD_X), build_spec(FIELD_X, FIELD_A), {("field-order", "-", "0-3")}),
    "renamed": (
        build_spec(FIELD_A, FIELD_X),
        build_spec(with_(FIELD_A, name="Z"), FIELD_X),
        {("field-renamed", "Z", "0-3")},
    ),
    "type of a field": (build_spec(FIELD_A), build_spec(with_(FIELD_A, type="uint32")), {("field-type", "A", "0-3")}),
    "records": (
        build_spec(NULL_BYTES),
        build_spec(with_(FIELD_A, type="records", nullableVersions="0+")),
        {("records-are-bytes", "A", "0-3")},
    ),
    "struct of one field": (
        build_spec(with_(FIELD_A, name="L", type="[]int8"), **INFLEXIBLE),
        build_spec(list_field(FIELD_X), **INFLEXIBLE),
        {("array-of-struct", "L", "0-3")},
    ),
    "nullable": (
        build_spec(FIELD_B),
        build_spec(with_(FIELD_B, nullableVersions="1+")),
        {("field-nullable", "B", "1")},
    ),
    "nullable in a new version": (
        build_spec(with_(FIELD_B, nullableVersions="none")),
        build_spec(with_(FIELD_B, nullableVersions="4+"), validVersions="0-4"),
        VERSION_4_ADDED,
    ),
    "compact": (
        build_spec(with_(FIELD_A, type="string")),
        build_spec(with_(FIELD_A, type="string", **INFLEXIBLE)),
        {("field-compact", "A", "2-3")},
    ),
    "inner field": (
        build_spec(list_field(FIELD_X)),
        build_spec(list_field(with_(FIELD_X, type="int16"))),
        {("field-type", "L.X", "0-3")},
    ),
    "struct renamed": (
        build_spec(list_field(FIELD_X)),
        build_spec(list_field(FIELD_X, kind="Other")),
        {("struct-renamed", "L", "0-3")},
    ),
    "mandatory to tagged": (
        build_spec(FIELD_A),
        build_spec(with_(FIELD_A, tag=0, taggedVersions="3+")),
        {("became-tagged", "A", "3"), ("tagged-added", "A", "3")},
    ),
    "mandatory to tagged in a new version": (
        build_spec(FIELD_A),
        build_spec(with_(FIELD_A, tag=0, taggedVersions="4+"), validVersions="0-4"),
        VERSION_4_ADDED,
    ),
    "tagged to mandatory": (
        build_spec(TAGGED_FIELD),
        build_spec({"name": "T", "type": "int32", "versions": "2+"}),
        {("became-mandatory", "T", "2-3"), ("tag-removed", "T", "")},
    ),
    "tagged added": (build_spec(FIELD_A), build_spec(FIELD_A, TAGGED_FIELD), {("tagged-added", "T", "2-3")}),
    "tag removed": (build_spec(FIELD_A, TAGGED_FIELD), build_spec(FIELD_A), {("tag-removed", "T", "")}),
    "tag reused": (build_spec(TAGGED_FIELD), build_spec(with_(TAGGED_FIELD, name="U")), {("tag-reused", "U", "")}),
    "tag's name in other letters": (
        build_spec(TAGGED_FIELD),
        build_spec(with_(TAGGED_FIELD, name="t")),
        {("field-renamed", "t", "")},
    ),
    "renamed with records": (
        build_spec(NULL_BYTES),
        build_spec(with_(FIELD_A, name="R", type="records", nullableVersions="0+")),
        {("field-renamed", "R", "0-3"), ("records-are-bytes", "R", "0-3")},
    ),
    "tag moved": (
        build_spec(TAGGED_FIELD),
        build_spec(with_(TAGGED_FIELD, tag=1), with_(TAGGED_FIELD, name="U")),
        {("tag-moved", "T", ""), ("tagged-added", "T", "2-3")},
    ),
    "type of a tag": (build_spec(TAGGED_FIELD), build_spec(with_(TAGGED_FIELD, type="int64")), {("tag-type", "T", "")}),
    "tag nullable": (
        build_spec(with_(TAGGED_FIELD, type="string")),
        build_spec(with_(TAGGED_FIELD, type="string", nullableVersions="2+")),
        {("tag-nullable", "T", "")},
    ),
    "tag narrowed": (
        build_spec(TAGGED_FIELD),
        build_spec(with_(TAGGED_FIELD, versions="3+", taggedVersions="3+")),
        {("tag-narrowed", "T", "2")},
    ),
    "inside a tag": (
        build_spec(TAGGED_STRUCT),
        build_spec(with_(TAGGED_STRUCT, fields=[with_(FIELD_X, versions="2+", type="int16")])),
        {("field-type", "T.X", "2-3")},
    ),
    "tag below a renamed field": (
        build_spec(list_field(FIELD_X, TAGGED_FIELD)),
        build_spec(list_field(FIELD_X, TAGGED_FIELD, name="M")),
        {("field-renamed", "M", "0-3")},
    ),
    "default": (build_spec(FIELD_A), build_spec(with_(FIELD_A, default="1")), {("default-changed", "A", "")}),
    "empty to null, carried by every version": (
        build_spec(TEXT),
        build_spec(NULL_TEXT),
        {("default-to-null", "M", "")},
    ),
    "empty to null, in structs of an array that is new": (
        build_spec(with_(list_field(with_(TEXT, versions="1+")), versions="1+")),
        build_spec(with_(list_field(with_(NULL_TEXT, versions="1+")), versions="1+")),
        {("default-to-null", "L.M", "")},
    ),
    "empty to null, in a struct that a version lacks": (
        build_spec(with_(list_field(TEXT), versions="1+", type="S")),
        build_spec(with_(list_field(NULL_TEXT), versions="1+", type="S")),
        {("default-changed", "L.M", "")},
    ),
    "empty to null, not in the oldest version": (
        build_spec(with_(TEXT, versions="1+")),
        build_spec(with_(NULL_TEXT, versions="1+")),
        {("default-changed", "M", "")},
    ),
    "empty to null, a tag": (
        build_spec(with_(TEXT, tag=0, taggedVersions="3+")),
        build_spec(with_(NULL_TEXT, tag=0, taggedVersions="3+")),
        {("default-changed", "M", "")},
    ),
    "null to empty": (build_spec(NULL_TEXT), build_spec(TEXT), {("default-changed", "M", "")}),
    "empty list to null": (
        build_spec(with_(TEXT, type="[]int8")),
        build_spec(with_(NULL_TEXT, type="[]int8")),
        {("default-changed", "M", "")},
    ),
    "default told otherwise": (
        build_spec(with_(FIELD_A, default="0x10")),
        build_spec(with_(FIELD_A, default="16")),
        set(),
    ),
    "NaN": (build_spec(NAN), build_spec(NAN), set()),
    "ignorable": (build_spec(FIELD_A), build_spec(with_(FIELD_A, ignorable=True)), {("ignorable", "A", "")}),
    "map key": (
        build_spec(list_field(FIELD_X)),
        build_spec(list_field(with_(FIELD_X, mapKey=True))),
        {("map-key", "L.X", "")},
    ),
    "stability": (build_spec(FIELD_A), build_spec(FIELD_A, **UNSTABLE), {("stability", "-", "")}),
    "convention of keys": (key("data", "2", None), key("coordinator-key", "0", 2), {("record-convention", "-", "")}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_has_its_findings(name):
    old, new, expected_findings = CHANGES[name]
    findings = compare_messages(old, new)
    assert {(finding.rule.name, finding.where, finding.versions) for finding in findings} == expected_findings
    assert all(finding.verdict == finding.rule.verdict for finding in findings)


def test_a_common_struct_is_compared_everywhere():
    def build_struct_used_twice(kind):
        uses = [{"name": name, "type": "S", "versions": "0+"} for name in "AB"]
        return build_spec(*uses, commonStructs=[{"name": "S", "versions": "0+", "fields": [with_(FIELD_X, type=kind)]}])

    assert {
        one.where for one in compare_messages(build_struct_used_twice("int8"), build_struct_used_twice("int16"))
    } == {"A.X", "B.X"}


def test_an_unstable_version_can_change():
    findings = compare_messages(
        build_spec(FIELD_A, **UNSTABLE), build_spec(FIELD_A, with_(FIELD_X, versions="3+"), **UNSTABLE)
    )
    assert [(finding.rule.name, finding.verdict) for finding in findings] == [("field-added", "note")]
    assert (
        most_severe(compare_messages(build_spec(FIELD_A, **UNSTABLE), build_spec(FIELD_A, FIELD_X, **UNSTABLE)))
        == "breaking"
    )


def test_every_rule_has_a_test_case():
    tried_rules = {rule for _, _, expected_findings in CHANGES.values() for rule, _, _ in expected_findings}
    of_sets = {"message-gone", "message-added", "pair-versions", "language"}  # tests/protocol/spec/test_check.py
    assert tried_rules == EVOLUTION_RULES.keys() - of_sets


def test_versions_are_formatted():
    assert format_versions([]) == ""
    assert format_versions([3, 1, 2, 9]) == "1-3, 9"
