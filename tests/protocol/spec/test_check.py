"""Checking sets of specs: pairs, renames, added and removed messages; the command's exit status."""

import json

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.evolution import compare_sets

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}


def build_source(name, *fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": name, "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({**base, **top, "fields": list(fields)})


def specs(*sources):
    return {spec.name: spec for spec in map(load_message, sources)}


def rules(old, new):
    return {(one.rule.name, one.message) for one in compare_sets(specs(*old), specs(*new))}


REQUEST, RESPONSE = build_source("FooRequest", FIELD_A), build_source("FooResponse", FIELD_A, type="response")


def test_nothing_changed():
    assert rules([REQUEST, RESPONSE], [REQUEST, RESPONSE]) == set()


def test_added_and_removed_messages_are_reported():
    assert rules([REQUEST], [RESPONSE]) == {("message-gone", "FooRequest"), ("message-added", "FooResponse")}
    assert rules([build_source("FooRequest", validVersions="none")], []) == set()


def test_a_renamed_message_is_found_by_its_key():
    assert rules([REQUEST], [build_source("BarRequest", FIELD_A)]) == {("message-renamed", "BarRequest")}
    changed_spec = build_source("BarRequest", {**FIELD_A, "type": "int8"})
    assert ("field-type", "BarRequest") in rules([REQUEST], [changed_spec])


def test_an_unstable_request_makes_its_response_unstable():
    """``latestVersionUnstable`` is in the request only, and applies to both."""
    unstable = build_source("FooRequest", FIELD_A, latestVersionUnstable=True)
    changed_spec = build_source("FooResponse", FIELD_A, {**FIELD_A, "name": "B", "versions": "3+"}, type="response")
    for request, verdict in ((unstable, "note"), (REQUEST, "breaking")):
        findings = list(compare_sets(specs(request, RESPONSE), specs(request, changed_spec)))
        assert [(finding.rule.name, finding.verdict) for finding in findings] == [("field-added", verdict)]


def test_request_and_response_must_have_equal_versions():
    findings = rules(
        [REQUEST, RESPONSE], [REQUEST, build_source("FooResponse", FIELD_A, type="response", validVersions="0-4")]
    )
    assert ("pair-versions", "FooRequest") in findings
