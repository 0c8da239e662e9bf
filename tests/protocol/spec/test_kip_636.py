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

ERROR_CODE = {"name": "ErrorCode", "type": "int16", "versions": "0+"}
ERROR_MESSAGE = {"name": "ErrorMessage", "type": "string", "versions": "0+", "nullableVersions": "0+"}
SPECS = {name: catalog.load_spec(name) for api in catalog.list_apis() for name in (api.request, api.response)}
REWRITTEN = rewrite_errors(SPECS)
APIS = [pytest.param(api, id=f"{api.response}-v{api.version}") for api in REWRITTEN.apis]


def build_pair(*fields, request=None, valid="0-1", flexible="1+", **top):
    base = {"apiKey": 9000, "validVersions": valid, "flexibleVersions": flexible}
    request_spec = {**base, "type": "request", "name": "FooRequest", "fields": [], **(request or {})}
    response_spec = {**base, "type": "response", "name": "FooResponse", "fields": list(fields), **top}
    return {spec.name: spec for spec in (load_message(json.dumps(one)) for one in (request_spec, response_spec))}


def one_field(report, name="ErrorCode"):
    return report.specs["FooResponse"].struct.field(name)


@pytest.mark.parametrize("api", APIS)
def test_rewritten_apis_survive_a_round_trip_and_keep_the_bytes_of_old_versions(api):
    for name in (api.request, api.response):
        old, new = class_of(SPECS[name]), class_of(REWRITTEN.specs[name])
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
def test_a_response_without_errors_saves_two_bytes_per_code_and_one_per_message(api):
    """The figures are those of the KIP for top-level fields, because a response of defaults has no elements."""
    old, new = class_of(SPECS[api.response]), class_of(REWRITTEN.specs[api.response])
    top = [field for field in REWRITTEN.fields if field.message == api.response and len(field.path) == 1]
    saved_bytes = sum(2 if one.kind == "code" else 1 for one in top)
    null = dict.fromkeys(new.spec.struct.field(one.path[0]).snake_name for one in top if one.kind == "message")
    if api.is_flexible_new:  # OffsetDelete: the array count is three bytes shorter, and there is a new tag section
        saved_bytes += 3 - 1
    before = old(**null).size(api.before)
    assert before - new().size(api.version) == saved_bytes
    if ("ErrorCode",) in [one.path for one in top]:
        assert new(error_code=1).size(api.version) - new().size(api.version) == 4


def test_a_second_rewrite_changes_nothing_and_rewrites_are_deterministic():
    again = rewrite_errors(REWRITTEN.specs)
    assert (again.specs, again.apis, again.fields) == (REWRITTEN.specs, (), ())
    texts = {name: to_text(spec) for name, spec in REWRITTEN.specs.items()}
    assert {name: load_message(text) for name, text in texts.items()} == REWRITTEN.specs
    assert {name: to_text(spec) for name, spec in rewrite_errors(SPECS).specs.items()} == texts


def test_the_figures_of_the_catalog_rewrite():
    figures = count_changes(REWRITTEN)
    assert figures.keys() == COUNTS_OF_OCTOBER_2024.keys()
    assert (
        figures["responses"],
        figures["responses rewritten"],
        figures["error codes that became tagged"],
        figures["error messages that became tagged"],
    ) == (
        95,
        93,
        119,
        56,
    )
    kept_reasons = {".".join((one.message, *one.path)): one.reason for one in REWRITTEN.unchanged}
    assert kept_reasons.keys() == {
        "SaslHandshakeResponse", "ApiVersionsResponse", "OffsetFetchResponse.ErrorCode",
        "FindCoordinatorResponse.ErrorCode", "FindCoordinatorResponse.ErrorMessage",
    }  # fmt: skip
    assert "KAFKA-9577" in kept_reasons["SaslHandshakeResponse"]
    assert "KIP-511" in kept_reasons["ApiVersionsResponse"]
    assert [api.response for api in REWRITTEN.apis if api.is_flexible_new] == ["OffsetDeleteResponse"]
    assert [api.response for api in REWRITTEN.apis if api.version == api.before] == ["InitProducerIdResponse"]


def test_rewrites_as_written_and_by_suffix():
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


def test_the_checker_reports_only_three_defaults_as_breaking():
    """CreateTopics 0 and DescribeQuorum 0 and 1 lack the error message, so the default changes for their readers."""
    findings = list(compare_sets(SPECS, REWRITTEN.specs))
    breaking = [
        (finding.message, finding.where, finding.rule.name) for finding in findings if finding.verdict == "breaking"
    ]
    assert breaking == [
        ("CreateTopicsResponse", "Topics.ErrorMessage", "default-changed"),
        ("DescribeQuorumResponse", "ErrorMessage", "default-changed"),
        ("DescribeQuorumResponse", "Topics.Partitions.ErrorMessage", "default-changed"),
    ]
    assert sum(finding.rule.name == "default-to-null" for finding in findings) == 24


def test_new_tags_follow_the_existing_tags_of_a_struct():
    tagged_field = {"name": "T", "type": "int8", "versions": "1+", "tag": 0, "taggedVersions": "1+"}
    report = rewrite_errors(build_pair(ERROR_MESSAGE, tagged_field, ERROR_CODE))
    assert [(field.path, field.tag, field.version) for field in report.fields] == [
        (("ErrorMessage",), 1, 2),
        (("ErrorCode",), 2, 2),
    ]
    assert one_field(report, "ErrorMessage").default is None
    assert report.specs["FooRequest"].valid_versions == report.specs["FooResponse"].valid_versions


def test_ranges_that_end_at_the_newest_version_are_extended():
    ended_field = {"name": "A", "type": "string", "versions": "0-1", "nullableVersions": "1", "flexibleVersions": "1"}
    closed_field = {**ERROR_CODE, "versions": "0-1"}
    top = {
        "commonStructs": [
            {"name": "S", "versions": "0-1", "fields": [{"name": "X", "type": "int8", "versions": "0-1"}]}
        ]
    }
    uses = {"name": "L", "type": "[]S", "versions": "0-1"}
    report = rewrite_errors(
        build_pair(
            closed_field, ended_field, uses, request={"fields": [{"name": "R", "type": "int8", "versions": "1"}]}, **top
        )
    )
    response = report.specs["FooResponse"]
    assert str(one_field(report).versions) == "0+"
    assert [str(one_field(report, "A").versions), str(one_field(report, "A").nullable_versions)] == ["0-2", "1-2"]
    assert str(response.structs["S"].fields[0].versions) == "0-2"
    assert str(report.specs["FooRequest"].struct.field("R").versions) == "1-2"


@pytest.mark.parametrize("where", ["request", "response"])
def test_a_field_with_a_future_version_is_an_error(where):
    waiting = {"name": "Later", "type": "int8", "versions": "2+"}
    specs = (
        build_pair(ERROR_CODE, waiting)
        if where == "response"
        else build_pair(ERROR_CODE, request={"fields": [waiting]})
    )
    with pytest.raises(SpecError, match="declares other fields for it"):
        rewrite_errors(specs)


def test_a_message_that_is_not_nullable_in_a_version_keeps_its_default():
    report = rewrite_errors(build_pair(ERROR_CODE, {**ERROR_MESSAGE, "nullableVersions": "1+"}))
    assert (one_field(report, "ErrorMessage").default, report.fields[1].is_null_default_new) == ("", False)
    report = rewrite_errors(build_pair(ERROR_CODE, {"name": "ErrorMessage", "type": "string", "versions": "0+"}))
    assert one_field(report, "ErrorMessage").default == ""
    assert load_message(to_text(report.specs["FooResponse"])) == report.specs["FooResponse"]


def test_a_struct_used_twice_is_tagged_once():
    common = {"commonStructs": [{"name": "S", "versions": "0+", "fields": [ERROR_CODE, ERROR_MESSAGE]}]}
    uses = [{"name": name, "type": kind, "versions": "0+"} for name, kind in (("A", "[]S"), ("B", "S"))]
    report = rewrite_errors(build_pair(*uses, **common))
    assert [(field.path, field.arrays) for field in report.fields] == [
        (("A", "ErrorCode"), 1),
        (("A", "ErrorMessage"), 1),
    ]


def test_an_inflexible_api_becomes_flexible_with_its_headers():
    report = rewrite_errors(
        build_pair(ERROR_CODE, flexible="none", headerVersions={"0+": "0"}, request={"headerVersions": {"0+": "1"}})
    )
    request, response = report.specs["FooRequest"], report.specs["FooResponse"]
    assert (str(request.flexible_versions), str(response.flexible_versions)) == ("2+", "2+")
    assert [(request.header_version(v), response.header_version(v)) for v in (1, 2)] == [(1, 0), (2, 1)]
    load_message(to_text(request))


def test_an_unreleased_version_is_changed_in_place_or_raised_as_written():
    specs = build_pair(ERROR_CODE, request={"latestVersionUnstable": True})
    report = rewrite_errors(specs)
    assert (str(report.specs["FooResponse"].valid_versions), str(one_field(report).tagged_versions)) == ("0-1", "1+")
    assert rewrite_errors(report.specs).specs == report.specs
    assert str(rewrite_errors(specs, as_written=True).specs["FooResponse"].valid_versions) == "0-2"
    assert {one.verdict for one in compare_sets(specs, report.specs)} == {"note", "compatible"}


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ({"FooResponse": build_pair(ERROR_CODE)["FooResponse"]}, "its request is missing"),
        (build_pair(valid="none", flexible="none"), "removed"),
        (build_pair({**ERROR_CODE, "name": "Code"}), "already tagged"),
        (build_pair(ERROR_CODE, request={"validVersions": "0-3"}), "its request has versions 0-3"),
        (build_pair({**ERROR_CODE, "type": "[]int16"}), "its type is"),
        (build_pair({**ERROR_CODE, "versions": "0"}), "does not have it"),
        (
            build_pair({"name": "L", "type": "[]S", "versions": "0+", "fields": [{**ERROR_CODE, "mapKey": True}]}),
            "a key cannot be tagged",
        ),
    ],
)  # fmt: skip
def test_specs_that_cannot_be_rewritten_are_kept_with_a_reason(specs, reason):
    report = rewrite_errors(specs)
    assert report.specs == specs
    assert any(reason in one.reason for one in report.unchanged), report.unchanged


def test_specs_of_other_types_are_unchanged():
    data = load_message(
        json.dumps(
            {"type": "data", "name": "D", "validVersions": "0", "flexibleVersions": "none", "fields": [ERROR_CODE]}
        )
    )
    assert rewrite_errors({"D": data}).specs == {"D": data}


# ---- the guard: "easily forgotten about" ----

SECOND_ERROR_CODE = {"name": "SecondErrorCode", "type": "int16", "versions": "2+"}
SECOND_ERROR_MESSAGE = {"name": "SecondErrorMessage", "type": "string", "versions": "2+", "nullableVersions": "2+"}


def add_fields(spec, *fields, struct=None):
    """Return a spec with additional fields at the end of its top level or of ``struct``."""
    value = json.loads(to_text(spec))
    target = (
        value["fields"] if struct is None else next(one for one in value["fields"] if one["name"] == struct)["fields"]
    )
    target += fields
    return load_message(json.dumps(value))


def find_untagged(spec, **options):
    return [".".join(error.path) for error in find_untagged_errors(spec, **options)]


def test_neither_kafka_nor_rewritten_specs_have_new_untagged_errors():
    every = [catalog.load_spec(name) for name in catalog.list_names()]
    assert [spec.name for spec in every if find_untagged_errors(spec)] == []
    for options in ({}, {"suffix": True}, {"suffix": True, "as_written": True}):
        report = rewrite_errors(SPECS, **options)
        assert [name for name, spec in report.specs.items() if find_untagged_errors(spec)] == []


@pytest.mark.parametrize("suffix", [False, True], ids=["exact names", "suffix"])
@pytest.mark.parametrize("api", APIS)
def test_an_error_added_to_a_rewritten_response_is_found_and_tagged(api, suffix):
    specs = rewrite_errors({name: SPECS[name] for name in (api.request, api.response)}, suffix=suffix).specs
    newest = f"{api.version}+"
    code, text = (
        {**SECOND_ERROR_CODE, "versions": newest},
        {**SECOND_ERROR_MESSAGE, "versions": newest, "nullableVersions": newest},
    )
    specs |= {api.response: add_fields(specs[api.response], code, text)}
    assert find_untagged(specs[api.response]) == ["SecondErrorCode", "SecondErrorMessage"]
    again = rewrite_errors(specs, suffix=suffix)
    assert [field.path for field in again.fields] == [("SecondErrorCode",), ("SecondErrorMessage",)]
    assert find_untagged(again.specs[api.response]) == []


def test_errors_in_new_and_in_common_structs_are_found():
    inner = {"name": "Parts", "type": "[]Part", "versions": "2+", "fields": [ERROR_CODE]}
    specs = rewrite_errors(build_pair(ERROR_CODE)).specs
    assert find_untagged(add_fields(specs["FooResponse"], inner)) == ["Parts.ErrorCode"]
    shared_structs = {"name": "Node", "versions": "0+", "fields": [{**ERROR_CODE, "versions": "2+"}]}
    uses = {"name": "Left", "type": "Node", "versions": "0+"}, {"name": "Right", "type": "[]Node", "versions": "2+"}
    response = build_pair(
        {**ERROR_CODE, "tag": 0, "taggedVersions": "2+"}, *uses, valid="0-2", commonStructs=[shared_structs]
    )["FooResponse"]  # fmt: skip
    assert find_untagged(response) == ["Left.ErrorCode"]


def test_only_error_fields_of_current_versions_are_found():
    specs = rewrite_errors(build_pair(ERROR_CODE, ERROR_MESSAGE)).specs
    others = [
        {"name": "ErrorCodes", "type": "[]int16", "versions": "2+"},
        {"name": "OtherErrorCode", "type": "int32", "versions": "2+"},
        {"name": "OldErrorCode", "type": "int16", "versions": "0-1"},
        {"name": "LaterErrorCode", "type": "int16", "versions": "3+"},
        {"name": "OlderErrorCode", "type": "int16", "versions": "1+"},  # the rewrite by exact names does not change it
    ]
    assert find_untagged(add_fields(specs["FooResponse"], *others)) == []
    assert find_untagged(add_fields(specs["FooResponse"], *others), is_required=True) == ["OlderErrorCode"]


def test_responses_without_a_rewrite_are_only_checked_with_the_option():
    plain = build_pair(ERROR_CODE, ERROR_MESSAGE, {**SECOND_ERROR_CODE, "versions": "1+"})["FooResponse"]
    assert find_untagged(plain) == []
    assert find_untagged(plain, is_required=True) == ["ErrorCode", "ErrorMessage", "SecondErrorCode"]
    tags_by_suffix = build_pair(ERROR_CODE, {**SECOND_ERROR_CODE, "versions": "1+", "tag": 0, "taggedVersions": "1+"})[
        "FooResponse"
    ]
    new = {"name": "ThirdErrorCode", "type": "int16", "versions": "1+"}
    # like CreateTopicsResponse, whose ErrorCode is mandatory
    assert find_untagged(add_fields(tags_by_suffix, new)) == []
    assert find_untagged(SPECS["ApiVersionsResponse"], is_required=True) == []
    assert find_untagged(SPECS["SaslHandshakeResponse"], is_required=True) == []
