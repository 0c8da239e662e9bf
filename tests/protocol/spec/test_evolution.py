"""Rules of evolution one by one: the name and the severity of a change."""

import json

import pytest

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.changes import EVOLUTION_RULES, most_severe, version_text
from kafkaframes.protocol.spec.evolution import compare_messages

A = {"name": "A", "type": "int32", "versions": "0+"}
B = {"name": "B", "type": "string", "versions": "1+", "nullableVersions": "2+"}
T = {"name": "T", "type": "int32", "versions": "2+", "tag": 0, "taggedVersions": "2+"}
X = {"name": "X", "type": "int8", "versions": "0+"}
NEW_4 = {("versions-added", "-", "4")}
UNSTABLE = {"latestVersionUnstable": True}
INFLEXIBLE = {"flexibleVersions": "none"}


def spec(*fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": "FooRequest", "validVersions": "0-3", "flexibleVersions": "2+"}
    return load_message(json.dumps({**base, **top, "fields": list(fields)}))


def list_field(*fields, kind="S", name="L"):
    return {"name": name, "type": f"[]{kind}", "versions": "0+", "fields": list(fields)}


def with_(field, **changes):
    return {**field, **changes}


def key(kind, versions, api_key):
    return spec(A, type=kind, validVersions=versions, apiKey=api_key, **INFLEXIBLE)


TEXT = {"name": "M", "type": "string", "versions": "0+", "nullableVersions": "0+"}
NULL_TEXT = {**TEXT, "default": "null"}
NULL_BYTES = with_(A, type="bytes", nullableVersions="0+", default="null")
NAN = with_(A, type="float64", default="NaN")
TAGGED_STRUCT = with_(T, type="S", fields=[with_(X, versions="2+")])
OLD = spec(A, B, T)

# what changed: (old, new, {(rule, place, versions)})
CHANGES = {
    "nothing": (OLD, OLD, set()),
    "new version": (OLD, spec(A, B, T, validVersions="0-4"), NEW_4),
    "lowered": (OLD, spec(A, B, T, validVersions="0-2"), {("versions-lowered", "-", "3")}),
    "raised": (OLD, spec(A, B, T, validVersions="2-3"), {("versions-removed", "-", "0-1")}),
    "below": (spec(A, validVersions="2-3"), spec(A), {("versions-below", "-", "0-1")}),
    "api removed": (OLD, spec(validVersions="none"), {("api-removed", "-", "")}),
    "key": (spec(A), spec(A, apiKey=1), {("api-key", "-", "")}),
    "type": (spec(A), spec(A, type="data"), {("message-type", "-", "")}),
    "name": (spec(A), spec(A, name="BarRequest"), {("message-renamed", "-", "")}),
    "listeners": (spec(A), spec(A, listeners=["broker"]), {("listeners", "-", "")}),
    "flexible earlier": (spec(A), spec(A, flexibleVersions="1+"), {("flexibility", "-", "1")}),
    "flexible later": (spec(A), spec(A, **INFLEXIBLE), {("flexibility", "-", "2-3")}),
    "flexible beyond the versions": (spec(A, **INFLEXIBLE), spec(A, flexibleVersions="4+"), set()),
    "header": (spec(A), spec(A, headerVersions={"0-1": "1", "2": "2", "3+": "3"}), {("header-version", "-", "3")}),
    "field added": (spec(A), spec(A, X), {("field-added", "X", "0-3")}),
    "field removed": (spec(A, X), spec(A), {("field-removed", "X", "0-3")}),
    "closed for a new version": (spec(A), spec(with_(A, versions="0-3"), validVersions="0-4"), NEW_4),
    "closed in an old version": (spec(A), spec(with_(A, versions="0-2")), {("field-removed", "A", "3")}),
    "order": (spec(A, X), spec(X, A), {("field-order", "-", "0-3")}),
    "renamed": (spec(A, X), spec(with_(A, name="Z"), X), {("field-renamed", "Z", "0-3")}),
    "type of a field": (spec(A), spec(with_(A, type="uint32")), {("field-type", "A", "0-3")}),
    "records": (
        spec(NULL_BYTES),
        spec(with_(A, type="records", nullableVersions="0+")),
        {("records-are-bytes", "A", "0-3")},
    ),
    "struct of one field": (
        spec(with_(A, name="L", type="[]int8"), **INFLEXIBLE),
        spec(list_field(X), **INFLEXIBLE),
        {("array-of-struct", "L", "0-3")},
    ),
    "nullable": (spec(B), spec(with_(B, nullableVersions="1+")), {("field-nullable", "B", "1")}),
    "nullable in a new version": (
        spec(with_(B, nullableVersions="none")),
        spec(with_(B, nullableVersions="4+"), validVersions="0-4"),
        NEW_4,
    ),
    "compact": (
        spec(with_(A, type="string")),
        spec(with_(A, type="string", **INFLEXIBLE)),
        {("field-compact", "A", "2-3")},
    ),
    "inner field": (spec(list_field(X)), spec(list_field(with_(X, type="int16"))), {("field-type", "L.X", "0-3")}),
    "struct renamed": (spec(list_field(X)), spec(list_field(X, kind="Other")), {("struct-renamed", "L", "0-3")}),
    "mandatory to tagged": (
        spec(A),
        spec(with_(A, tag=0, taggedVersions="3+")),
        {("became-tagged", "A", "3"), ("tagged-added", "A", "3")},
    ),
    "mandatory to tagged in a new version": (
        spec(A),
        spec(with_(A, tag=0, taggedVersions="4+"), validVersions="0-4"),
        NEW_4,
    ),
    "tagged to mandatory": (
        spec(T),
        spec({"name": "T", "type": "int32", "versions": "2+"}),
        {("became-mandatory", "T", "2-3"), ("tag-removed", "T", "")},
    ),
    "tagged added": (spec(A), spec(A, T), {("tagged-added", "T", "2-3")}),
    "tag removed": (spec(A, T), spec(A), {("tag-removed", "T", "")}),
    "tag reused": (spec(T), spec(with_(T, name="U")), {("tag-reused", "U", "")}),
    "tag's name in other letters": (spec(T), spec(with_(T, name="t")), {("field-renamed", "t", "")}),
    "renamed with records": (
        spec(NULL_BYTES),
        spec(with_(A, name="R", type="records", nullableVersions="0+")),
        {("field-renamed", "R", "0-3"), ("records-are-bytes", "R", "0-3")},
    ),
    "tag moved": (
        spec(T),
        spec(with_(T, tag=1), with_(T, name="U")),
        {("tag-moved", "T", ""), ("tagged-added", "T", "2-3")},
    ),
    "type of a tag": (spec(T), spec(with_(T, type="int64")), {("tag-type", "T", "")}),
    "tag nullable": (
        spec(with_(T, type="string")),
        spec(with_(T, type="string", nullableVersions="2+")),
        {("tag-nullable", "T", "")},
    ),
    "tag narrowed": (spec(T), spec(with_(T, versions="3+", taggedVersions="3+")), {("tag-narrowed", "T", "2")}),
    "inside a tag": (
        spec(TAGGED_STRUCT),
        spec(with_(TAGGED_STRUCT, fields=[with_(X, versions="2+", type="int16")])),
        {("field-type", "T.X", "2-3")},
    ),
    "tag below a renamed field": (
        spec(list_field(X, T)),
        spec(list_field(X, T, name="M")),
        {("field-renamed", "M", "0-3")},
    ),
    "default": (spec(A), spec(with_(A, default="1")), {("default-changed", "A", "")}),
    "empty to null, carried by every version": (spec(TEXT), spec(NULL_TEXT), {("default-to-null", "M", "")}),
    "empty to null, in structs of an array that is new": (
        spec(with_(list_field(with_(TEXT, versions="1+")), versions="1+")),
        spec(with_(list_field(with_(NULL_TEXT, versions="1+")), versions="1+")),
        {("default-to-null", "L.M", "")},
    ),
    "empty to null, in a struct that a version lacks": (
        spec(with_(list_field(TEXT), versions="1+", type="S")),
        spec(with_(list_field(NULL_TEXT), versions="1+", type="S")),
        {("default-changed", "L.M", "")},
    ),
    "empty to null, not in the oldest version": (
        spec(with_(TEXT, versions="1+")),
        spec(with_(NULL_TEXT, versions="1+")),
        {("default-changed", "M", "")},
    ),
    "empty to null, a tag": (
        spec(with_(TEXT, tag=0, taggedVersions="3+")),
        spec(with_(NULL_TEXT, tag=0, taggedVersions="3+")),
        {("default-changed", "M", "")},
    ),
    "null to empty": (spec(NULL_TEXT), spec(TEXT), {("default-changed", "M", "")}),
    "empty list to null": (
        spec(with_(TEXT, type="[]int8")),
        spec(with_(NULL_TEXT, type="[]int8")),
        {("default-changed", "M", "")},
    ),
    "default told otherwise": (spec(with_(A, default="0x10")), spec(with_(A, default="16")), set()),
    "NaN": (spec(NAN), spec(NAN), set()),
    "ignorable": (spec(A), spec(with_(A, ignorable=True)), {("ignorable", "A", "")}),
    "map key": (spec(list_field(X)), spec(list_field(with_(X, mapKey=True))), {("map-key", "L.X", "")}),
    "stability": (spec(A), spec(A, **UNSTABLE), {("stability", "-", "")}),
    "convention of keys": (key("data", "2", None), key("coordinator-key", "0", 2), {("record-convention", "-", "")}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change(name):
    old, new, expected_findings = CHANGES[name]
    findings = compare_messages(old, new)
    assert {(finding.rule.name, finding.where, finding.versions) for finding in findings} == expected_findings
    assert all(finding.verdict == finding.rule.verdict for finding in findings)


def test_a_common_struct_is_followed_wherever_it_is_used():
    def twice(kind):
        uses = [{"name": name, "type": "S", "versions": "0+"} for name in "AB"]
        return spec(*uses, commonStructs=[{"name": "S", "versions": "0+", "fields": [with_(X, type=kind)]}])

    assert {one.where for one in compare_messages(twice("int8"), twice("int16"))} == {"A.X", "B.X"}


def test_an_unstable_version_may_change():
    findings = compare_messages(spec(A, **UNSTABLE), spec(A, with_(X, versions="3+"), **UNSTABLE))
    assert [(finding.rule.name, finding.verdict) for finding in findings] == [("field-added", "note")]
    assert most_severe(compare_messages(spec(A, **UNSTABLE), spec(A, X, **UNSTABLE))) == "breaking"


def test_every_rule_is_tried():
    tried_rules = {rule for _, _, expected_findings in CHANGES.values() for rule, _, _ in expected_findings}
    of_sets = {"message-gone", "message-added", "pair-versions", "language"}  # tests/protocol/spec/test_check.py
    assert tried_rules == EVOLUTION_RULES.keys() - of_sets


def test_version_text():
    assert version_text([]) == ""
    assert version_text([3, 1, 2, 9]) == "1-3, 9"
