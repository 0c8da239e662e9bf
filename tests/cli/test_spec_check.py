"""``kafkaframes spec check``: its exit status, its words and its JSON."""

import json

from tests.protocol.spec.test_check import build_source

FIELD_A = {"name": "A", "type": "int32", "versions": "0+"}
REQUEST, RESPONSE = build_source("FooRequest", FIELD_A), build_source("FooResponse", FIELD_A, type="response")


def test_the_exit_status_and_the_output_depend_on_the_changes(spec_here, tmp_path):
    tmp_path.joinpath("old.json").write_text(REQUEST)
    tmp_path.joinpath("same.json").write_text(REQUEST)
    tmp_path.joinpath("new.json").write_text(build_source("FooRequest", FIELD_A, {**FIELD_A, "name": "B"}))
    tmp_path.joinpath("note.json").write_text(build_source("FooRequest", FIELD_A, validVersions="1-3"))
    assert spec_here("check", "old.json", "same.json").exit_code == 0
    result = spec_here("check", "old.json", "new.json")
    assert result.exit_code == 1
    assert "B: int32 was not in this version in 0-3 (field-added)" in result.output
    assert spec_here("check", "old.json", "note.json").exit_code == 0
    assert spec_here("check", "old.json", "note.json", "--strict").exit_code == 1
    row = json.loads(spec_here("check", "old.json", "new.json", "--json").output)
    assert (row["verdict"], row["field"], row["versions"]) == ("breaking", "B", "0-3")
    missing = spec_here("check", "old.json", "nowhere.json")
    assert missing.exit_code != 0
    assert "nowhere.json" in str(missing.exception)
