"""Checking sets of specs: pairs, renames, added and removed messages; the command's exit status."""

import json

from kafkaframes.protocol.spec import load_message
from kafkaframes.protocol.spec.evolution import compare_sets

A = {"name": "A", "type": "int32", "versions": "0+"}


def source(name, *fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": name, "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({**base, **top, "fields": list(fields)})


def specs(*sources):
    return {spec.name: spec for spec in map(load_message, sources)}


def rules(old, new):
    return {(one.rule.name, one.message) for one in compare_sets(specs(*old), specs(*new))}


REQUEST, RESPONSE = source("FooRequest", A), source("FooResponse", A, type="response")


def test_nothing_changed():
    assert rules([REQUEST, RESPONSE], [REQUEST, RESPONSE]) == set()


def test_came_and_went():
    assert rules([REQUEST], [RESPONSE]) == {("message-gone", "FooRequest"), ("message-added", "FooResponse")}
    assert rules([source("FooRequest", validVersions="none")], []) == set()


def test_renamed_by_its_key():
    assert rules([REQUEST], [source("BarRequest", A)]) == {("message-renamed", "BarRequest")}
    changed_spec = source("BarRequest", {**A, "type": "int8"})
    assert ("field-type", "BarRequest") in rules([REQUEST], [changed_spec])


def test_a_response_is_as_unreleased_as_its_request():
    """``latestVersionUnstable`` is in the request only, and applies to both."""
    unstable = source("FooRequest", A, latestVersionUnstable=True)
    changed_spec = source("FooResponse", A, {**A, "name": "B", "versions": "3+"}, type="response")
    for request, verdict in ((unstable, "note"), (REQUEST, "breaking")):
        findings = list(compare_sets(specs(request, RESPONSE), specs(request, changed_spec)))
        assert [(finding.rule.name, finding.verdict) for finding in findings] == [("field-added", verdict)]


def test_halves_must_agree():
    findings = rules([REQUEST, RESPONSE], [REQUEST, source("FooResponse", A, type="response", validVersions="0-4")])
    assert ("pair-versions", "FooRequest") in findings
