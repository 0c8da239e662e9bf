"""``kafkaframes spec lint``: errors, warnings and its exit status."""

from tests.protocol.spec.test_check import source

A = {"name": "A", "type": "int32", "versions": "0+"}
REQUEST, RESPONSE = source("FooRequest", A), source("FooResponse", A, type="response")


def test_lint_tells_errors_and_warnings(spec_here, tmp_path):
    tmp_path.joinpath("good.json").write_text(REQUEST)
    tmp_path.joinpath("odd.json").write_text(source("FooRequest", {**A, "type": "[]int32", "fields": [A]}))
    tmp_path.joinpath("bad.json").write_text(source("FooRequest", {**A, "type": "int33"}))
    assert spec_here("lint", "good.json").exit_code == 0
    odd = spec_here("lint", "odd.json")
    assert odd.exit_code == 0
    assert "warning: odd.json:1: A: the fields of []int32 are ignored" in odd.output.replace("  ", " ")
    assert spec_here("lint", "odd.json", "--strict").exit_code == 1
    bad = spec_here("lint", "bad.json", "good.json")
    assert bad.exit_code == 1
    assert "int33" in bad.output
