"""KIP-636's rewrite: tagged fields, remaining fields, and no other change on the wire."""

from __future__ import annotations

import json

import pytest
from tests.protocol.messages.values import make_value

from kafkaframes.errors import SpecError
from kafkaframes.protocol.messages import class_of
from kafkaframes.protocol.spec import catalog, load_message
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.evolution import compare_sets
from kafkaframes.protocol.spec.kip_636 import (
    COUNTS_OF_OCTOBER_2024,
    count_changes,
    find_untagged_errors,
    rewrite_errors,
)

CODE = {"name": "ErrorCode", "type": "int16", "versions": "0+"}
TEXT = {"name": "ErrorMessage", "type": "string", "versions": "0+", "nullableVersions": "0+"}
SPECS = {name: catalog.load_spec(name) for api in catalog.list_apis() for name in (api.request, api.response)}
DONE = rewrite_errors(SPECS)
APIS = [pytest.param(api, id=f"{api.response}-v{api.version}") for api in DONE.apis]


def pair(*fields, request=None, valid="0-1", flexible="1+", **top):
    base = {"apiKey": 9000, "validVersions": valid, "flexibleVersions": flexible}
    request_spec = {**base, "type": "request", "name": "FooRequest", "fields": [], **(request or {})}
    response_spec = {**base, "type": "response", "name": "FooResponse", "fields": list(fields), **top}
    return {spec.name: spec for spec in (load_message(json.dumps(one)) for one in (request_spec, response_spec))}


def one_field(report, name="ErrorCode"):
    return report.specs["FooResponse"].struct.field(name)


@pytest.mark.parametrize("api", APIS)
def test_every_rewritten_api_is_written_and_read_and_its_old_versions_have_the_same_bytes(api):
    for name in (api.request, api.response):
        old, new = class_of(SPECS[name]), class_of(DONE.specs[name])
        for version in old.spec.valid_versions:
            if version != api.version:
                data = make_value(old, version, 5, unknown_tags=True).encode(version)
                assert new.decode(data, version, mode="strict").encode(version) == data
        for seed in range(3):
            value = make_value(new, api.version, seed, unknown_tags=True)
            data = value.encode(api.version)
            assert new.decode(data, api.version, mode="strict") == value
            assert new.decode_columns([data], api.version).field("_error").null_count == 1
            assert new.from_json(value.to_json(api.version, records="base64"), api.version).encode(api.version) == data


@pytest.mark.parametrize("api", APIS)
def test_an_answer_without_errors_is_shorter_by_two_bytes_a_code_and_one_a_message(api):
    """The document's figures for the top-level fields: an answer of defaults has no elements."""
    old, new = class_of(SPECS[api.response]), class_of(DONE.specs[api.response])
    top = [field for field in DONE.fields if field.message == api.response and len(field.path) == 1]
    saved_bytes = sum(2 if one.kind == "code" else 1 for one in top)
    null = dict.fromkeys(new.spec.struct.field(one.path[0]).snake_name for one in top if one.kind == "message")
    if api.is_flexible_new:  # OffsetDelete: an array's count is shorter by three bytes, and a tag section is new
        saved_bytes += 3 - 1
    before = old(**null).size(api.before)
    assert before - new().size(api.version) == saved_bytes
    if ("ErrorCode",) in [one.path for one in top]:
        assert new(error_code=1).size(api.version) - new().size(api.version) == 4


def test_a_rewrite_of_a_rewrite_changes_nothing_and_the_same_input_gives_the_same_text():
    again = rewrite_errors(DONE.specs)
    assert (again.specs, again.apis, again.fields) == (DONE.specs, (), ())
    texts = {name: to_text(spec) for name, spec in DONE.specs.items()}
    assert {name: load_message(text) for name, text in texts.items()} == DONE.specs
    assert {name: to_text(spec) for name, spec in rewrite_errors(SPECS).specs.items()} == texts


def test_what_the_catalogs_rewrite_comes_to():
    figures = count_changes(DONE)
    assert figures.keys() == COUNTS_OF_OCTOBER_2024.keys()
    assert (
        figures["responses"],
        figures["responses rewritten"],
        figures["codes tagged"],
        figures["messages tagged"],
    ) == (
        95,
        93,
        119,
        56,
    )
    kept_reasons = {".".join((one.message, *one.path)): one.reason for one in DONE.unchanged}
    assert kept_reasons.keys() == {
        "SaslHandshakeResponse", "ApiVersionsResponse", "OffsetFetchResponse.ErrorCode",
        "FindCoordinatorResponse.ErrorCode", "FindCoordinatorResponse.ErrorMessage",
    }  # fmt: skip
    assert "KAFKA-9577" in kept_reasons["SaslHandshakeResponse"]
    assert "KIP-511" in kept_reasons["ApiVersionsResponse"]
    assert [api.response for api in DONE.apis if api.is_flexible_new] == ["OffsetDeleteResponse"]
    assert [api.response for api in DONE.apis if api.version == api.before] == ["InitProducerIdResponse"]


def test_as_written_and_by_suffix():
    report = rewrite_errors(SPECS, suffix=True, as_written=True)
    assert len(report.apis) == 94
    assert {"PartitionErrorCode", "AcknowledgeErrorMessage", "BatchIndexErrorMessage"} <= {
        field.path[-1] for field in report.fields
    }
    assert {api.response: api.version for api in report.apis}["InitProducerIdResponse"] == 7
    assert "ApiVersionsResponse" in {field.message for field in report.fields}
    kept_reasons = {".".join((one.message, *one.path)): one.reason for one in report.unchanged}
    assert kept_reasons["CreateTopicsResponse.Topics.TopicConfigErrorCode"] == "it already has tag 0"
    assert "SaslHandshakeResponse" in kept_reasons
    assert rewrite_errors(report.specs, suffix=True, as_written=True).specs == report.specs


def test_the_checker_calls_all_but_three_defaults_harmless():
    """Versions 0 of CreateTopics, 0 and 1 of DescribeQuorum lack the message: their readers find another default."""
    findings = list(compare_sets(SPECS, DONE.specs))
    breaking = [
        (finding.message, finding.where, finding.rule.name) for finding in findings if finding.verdict == "breaking"
    ]
    assert breaking == [
        ("CreateTopicsResponse", "Topics.ErrorMessage", "default-changed"),
        ("DescribeQuorumResponse", "ErrorMessage", "default-changed"),
        ("DescribeQuorumResponse", "Topics.Partitions.ErrorMessage", "default-changed"),
    ]
    assert sum(finding.rule.name == "default-to-null" for finding in findings) == 24


def test_tags_go_on_where_the_struct_has_some():
    tagged_field = {"name": "T", "type": "int8", "versions": "1+", "tag": 0, "taggedVersions": "1+"}
    report = rewrite_errors(pair(TEXT, tagged_field, CODE))
    assert [(field.path, field.tag, field.version) for field in report.fields] == [
        (("ErrorMessage",), 1, 2),
        (("ErrorCode",), 2, 2),
    ]
    assert one_field(report, "ErrorMessage").default is None
    assert report.specs["FooRequest"].valid_versions == report.specs["FooResponse"].valid_versions


def test_ranges_that_end_at_the_newest_version_go_on():
    ended_field = {"name": "A", "type": "string", "versions": "0-1", "nullableVersions": "1", "flexibleVersions": "1"}
    closed_field = {**CODE, "versions": "0-1"}
    top = {
        "commonStructs": [
            {"name": "S", "versions": "0-1", "fields": [{"name": "X", "type": "int8", "versions": "0-1"}]}
        ]
    }
    uses = {"name": "L", "type": "[]S", "versions": "0-1"}
    report = rewrite_errors(
        pair(
            closed_field, ended_field, uses, request={"fields": [{"name": "R", "type": "int8", "versions": "1"}]}, **top
        )
    )
    response = report.specs["FooResponse"]
    assert str(one_field(report).versions) == "0+"
    assert [str(one_field(report, "A").versions), str(one_field(report, "A").nullable_versions)] == ["0-2", "1-2"]
    assert str(response.structs["S"].fields[0].versions) == "0-2"
    assert str(report.specs["FooRequest"].struct.field("R").versions) == "1-2"


@pytest.mark.parametrize("where", ["request", "response"])
def test_a_field_that_waits_for_the_next_version_is_an_error(where):
    waiting = {"name": "Later", "type": "int8", "versions": "2+"}
    specs = pair(CODE, waiting) if where == "response" else pair(CODE, request={"fields": [waiting]})
    with pytest.raises(SpecError, match="declares other fields for it"):
        rewrite_errors(specs)


def test_a_message_that_some_version_cannot_be_null_in_keeps_its_default():
    report = rewrite_errors(pair(CODE, {**TEXT, "nullableVersions": "1+"}))
    assert (one_field(report, "ErrorMessage").default, report.fields[1].is_null_default_new) == ("", False)
    report = rewrite_errors(pair(CODE, {"name": "ErrorMessage", "type": "string", "versions": "0+"}))
    assert one_field(report, "ErrorMessage").default == ""
    assert load_message(to_text(report.specs["FooResponse"])) == report.specs["FooResponse"]


def test_a_struct_used_twice_is_tagged_once():
    common = {"commonStructs": [{"name": "S", "versions": "0+", "fields": [CODE, TEXT]}]}
    uses = [{"name": name, "type": kind, "versions": "0+"} for name, kind in (("A", "[]S"), ("B", "S"))]
    report = rewrite_errors(pair(*uses, **common))
    assert [(field.path, field.arrays) for field in report.fields] == [
        (("A", "ErrorCode"), 1),
        (("A", "ErrorMessage"), 1),
    ]


def test_an_inflexible_api_turns_flexible_with_its_headers():
    report = rewrite_errors(
        pair(CODE, flexible="none", headerVersions={"0+": "0"}, request={"headerVersions": {"0+": "1"}})
    )
    request, response = report.specs["FooRequest"], report.specs["FooResponse"]
    assert (str(request.flexible_versions), str(response.flexible_versions)) == ("2+", "2+")
    assert [(request.header_version(v), response.header_version(v)) for v in (1, 2)] == [(1, 0), (2, 1)]
    load_message(to_text(request))


def test_an_unreleased_version_is_changed_in_place_but_as_written_it_is_raised():
    specs = pair(CODE, request={"latestVersionUnstable": True})
    report = rewrite_errors(specs)
    assert (str(report.specs["FooResponse"].valid_versions), str(one_field(report).tagged_versions)) == ("0-1", "1+")
    assert rewrite_errors(report.specs).specs == report.specs
    assert str(rewrite_errors(specs, as_written=True).specs["FooResponse"].valid_versions) == "0-2"
    assert {one.verdict for one in compare_sets(specs, report.specs)} == {"note", "compatible"}


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ({"FooResponse": pair(CODE)["FooResponse"]}, "its request is missing"),
        (pair(valid="none", flexible="none"), "removed"),
        (pair({**CODE, "name": "Code"}), "already tagged"),
        (pair(CODE, request={"validVersions": "0-3"}), "its request has versions 0-3"),
        (pair({**CODE, "type": "[]int16"}), "its type is"),
        (pair({**CODE, "versions": "0"}), "does not have it"),
        (
            pair({"name": "L", "type": "[]S", "versions": "0+", "fields": [{**CODE, "mapKey": True}]}),
            "a key cannot be tagged",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_rewritten_stays_and_says_why(specs, reason):
    report = rewrite_errors(specs)
    assert report.specs == specs
    assert any(reason in one.reason for one in report.unchanged), report.unchanged


def test_what_is_no_request_or_response_is_passed_on():
    data = load_message(
        json.dumps({"type": "data", "name": "D", "validVersions": "0", "flexibleVersions": "none", "fields": [CODE]})
    )
    assert rewrite_errors({"D": data}).specs == {"D": data}


# ---- the guard: "easily forgotten about" ----

SECOND_CODE = {"name": "SecondErrorCode", "type": "int16", "versions": "2+"}
SECOND_TEXT = {"name": "SecondErrorMessage", "type": "string", "versions": "2+", "nullableVersions": "2+"}


def add_fields(spec, *fields, struct=None):
    """Return a spec with more fields at the end of its top level, or of one of its structs."""
    value = json.loads(to_text(spec))
    target = (
        value["fields"] if struct is None else next(one for one in value["fields"] if one["name"] == struct)["fields"]
    )
    target += fields
    return load_message(json.dumps(value))


def find_untagged(spec, **options):
    return [".".join(error.path) for error in find_untagged_errors(spec, **options)]


def test_no_spec_of_kafka_and_no_rewritten_one_has_an_untagged_error():
    every = [catalog.load_spec(name) for name in catalog.list_names()]
    assert [spec.name for spec in every if find_untagged_errors(spec)] == []
    for options in ({}, {"suffix": True}, {"suffix": True, "as_written": True}):
        report = rewrite_errors(SPECS, **options)
        assert [name for name, spec in report.specs.items() if find_untagged_errors(spec)] == []


@pytest.mark.parametrize("suffix", [False, True], ids=["exact names", "suffix"])
@pytest.mark.parametrize("api", APIS)
def test_an_error_added_to_a_rewritten_response_is_found_and_the_next_rewrite_tags_it(api, suffix):
    specs = rewrite_errors({name: SPECS[name] for name in (api.request, api.response)}, suffix=suffix).specs
    newest = f"{api.version}+"
    code, text = {**SECOND_CODE, "versions": newest}, {**SECOND_TEXT, "versions": newest, "nullableVersions": newest}
    specs |= {api.response: add_fields(specs[api.response], code, text)}
    assert find_untagged(specs[api.response]) == ["SecondErrorCode", "SecondErrorMessage"]
    again = rewrite_errors(specs, suffix=suffix)
    assert [field.path for field in again.fields] == [("SecondErrorCode",), ("SecondErrorMessage",)]
    assert find_untagged(again.specs[api.response]) == []


def test_errors_in_new_and_in_common_structs_are_found():
    inner = {"name": "Parts", "type": "[]Part", "versions": "2+", "fields": [CODE]}
    specs = rewrite_errors(pair(CODE)).specs
    assert find_untagged(add_fields(specs["FooResponse"], inner)) == ["Parts.ErrorCode"]
    shared_structs = {"name": "Node", "versions": "0+", "fields": [{**CODE, "versions": "2+"}]}
    uses = {"name": "Left", "type": "Node", "versions": "0+"}, {"name": "Right", "type": "[]Node", "versions": "2+"}
    response = pair(
        {**CODE, "tag": 0, "taggedVersions": "2+"}, *uses, valid="0-2", commonStructs=[shared_structs]
    )["FooResponse"]  # fmt: skip
    assert find_untagged(response) == ["Left.ErrorCode"]


def test_only_names_and_types_of_errors_and_only_versions_in_use_are_found():
    specs = rewrite_errors(pair(CODE, TEXT)).specs
    others = [
        {"name": "ErrorCodes", "type": "[]int16", "versions": "2+"},
        {"name": "OtherErrorCode", "type": "int32", "versions": "2+"},
        {"name": "OldErrorCode", "type": "int16", "versions": "0-1"},
        {"name": "LaterErrorCode", "type": "int16", "versions": "3+"},
        {"name": "OlderErrorCode", "type": "int16", "versions": "1+"},  # the rewrite by exact names left it
    ]
    assert find_untagged(add_fields(specs["FooResponse"], *others)) == []
    assert find_untagged(add_fields(specs["FooResponse"], *others), is_required=True) == ["OlderErrorCode"]


def test_responses_that_were_never_rewritten_are_held_to_the_rule_by_the_flag_alone():
    plain = pair(CODE, TEXT, {**SECOND_CODE, "versions": "1+"})["FooResponse"]
    assert find_untagged(plain) == []
    assert find_untagged(plain, is_required=True) == ["ErrorCode", "ErrorMessage", "SecondErrorCode"]
    tags_by_suffix = pair(CODE, {**SECOND_CODE, "versions": "1+", "tag": 0, "taggedVersions": "1+"})["FooResponse"]
    new = {"name": "ThirdErrorCode", "type": "int16", "versions": "1+"}
    # like CreateTopicsResponse, whose ErrorCode is mandatory
    assert find_untagged(add_fields(tags_by_suffix, new)) == []
    assert find_untagged(SPECS["ApiVersionsResponse"], is_required=True) == []
    assert find_untagged(SPECS["SaslHandshakeResponse"], is_required=True) == []
