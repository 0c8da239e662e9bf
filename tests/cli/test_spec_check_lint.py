"""``kafkaframes spec lint``: errors, warnings and its exit status."""

from tests.protocol.spec.test_check import build_source

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}
REQUEST, RESPONSE = build_source("FooRequest", FIELD_A), build_source("FooResponse", FIELD_A, type="response")


def test_lint_reports_errors_and_warnings(spec_here, tmp_path):
    tmp_path.joinpath("good.json").write_text(REQUEST)
    tmp_path.joinpath("odd.json").write_text(
        build_source("FooRequest", {**FIELD_A, "type": "[]int32", "fields": [FIELD_A]})
    )
    tmp_path.joinpath("bad.json").write_text(build_source("FooRequest", {**FIELD_A, "type": "int33"}))
    assert spec_here("lint", "good.json").exit_code == 0
    odd = spec_here("lint", "odd.json")
    assert odd.exit_code == 0
    assert "warning: odd.json:1: A: the fields of []int32 are ignored" in odd.output.replace("  ", " ")
    assert spec_here("lint", "odd.json", "--strict").exit_code == 1
    bad = spec_here("lint", "bad.json", "good.json")
    assert bad.exit_code == 1
    assert "int33" in bad.output


ERROR_CODE_FIELD = {"name": "ErrorCode", "type": "int16", "versions": "0+"}


def test_lint_finds_untagged_errors_in_rewritten_responses_or_with_a_flag_in_all(spec_here, tmp_path):
    second = {"name": "SecondErrorCode", "type": "int16", "versions": "3+"}
    new = {**ERROR_CODE_FIELD, "tag": 0, "taggedVersions": "3+"}
    tmp_path.joinpath("new.json").write_text(build_source("FooResponse", new, second, type="response"))
    result = spec_here("lint", "new.json")
    assert "SecondErrorCode: mandatory in version 3, although other errors" in result.output
    assert "(untagged-error)" in result.output
    assert (result.exit_code, spec_here("lint", "new.json", "--strict").exit_code) == (0, 1)
    tmp_path.joinpath("plain.json").write_text(build_source("FooResponse", ERROR_CODE_FIELD, second, type="response"))
    assert "untagged-error" not in spec_here("lint", "plain.json").output
    by_flag = spec_here("lint", "plain.json", "--tagged-errors", "--strict")
    assert by_flag.exit_code == 1
    assert by_flag.output.count("(untagged-error)") == 2
