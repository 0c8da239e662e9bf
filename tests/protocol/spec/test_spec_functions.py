"""The functions for message specs return and write what the commands of ``kafkaframes spec`` print and write."""

from __future__ import annotations

import json

import pytest
from tests.cli.calling import ask

from kafkaframes import protocol
from kafkaframes.errors import OptionError, SpecError


def write_spec(folder, name="GreetRequest", valid="0", fields=()):
    folder.mkdir(exist_ok=True)
    spec = {"apiKey": 900, "type": "request", "name": name, "validVersions": valid, "flexibleVersions": "0+"}
    field = {"name": "Text", "type": "string", "versions": "0+"}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**spec, "fields": [field, *fields]}))
    return path


def test_specs_are_found_by_name_and_loaded_from_folders(tmp_path):
    assert [spec.name for spec in protocol.find_specs("Fetch")] == ["FetchRequest", "FetchResponse"]
    path = write_spec(tmp_path / "specs")
    assert set(protocol.load_specs(tmp_path / "specs")) == {"GreetRequest"}
    assert protocol.find_specs(str(path))[0].name == "GreetRequest"
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(OptionError):
            protocol.load_specs(source)
    with pytest.raises(SpecError):
        protocol.find_specs("Nothing")


def test_layouts_and_their_changes_are_returned():
    assert [row.name for row in protocol.describe_layout("HeartbeatRequest", 0)] == [
        *("GroupId", "GenerationId", "MemberId")
    ]
    newest = protocol.find_specs("HeartbeatRequest")[0].valid_versions.highest
    assert protocol.describe_layout("HeartbeatRequest") == protocol.describe_layout("HeartbeatRequest", newest)
    lines = ask("spec", "diff", "MetadataRequest", "8", "9", "--json").stdout.splitlines()
    changes = protocol.compare_versions("MetadataRequest", 8, 9)
    assert [json.loads(line)["change"] for line in lines] == [change.text for change in changes]
    with pytest.raises(OptionError, match="Metadata has several messages: MetadataRequest, MetadataResponse"):
        protocol.describe_layout("Metadata")
    with pytest.raises(OptionError, match="HeartbeatRequest has versions"):
        protocol.describe_layout("HeartbeatRequest", 99)


def test_a_check_reports_breaking_changes(tmp_path):
    write_spec(tmp_path / "old")
    write_spec(tmp_path / "new", fields=[{"name": "More", "type": "int32", "versions": "0+"}])
    check = protocol.check_specs(tmp_path / "old", tmp_path / "new")
    assert (check.verdict, check.messages) == ("breaking", 1)
    assert ask("spec", "check", str(tmp_path / "old"), str(tmp_path / "new")).exit_code == 1
    assert protocol.check_specs(tmp_path / "old", tmp_path / "old").verdict == "compatible"


def test_lint_errors_and_tag_collisions_are_found(tmp_path):
    write_spec(tmp_path / "good")
    assert protocol.lint_specs(tmp_path / "good").errors == 0
    (tmp_path / "good" / "GreetRequest.json").write_text('{"apiKey": 900, "type": "request", "validVersions": "0"}')
    result = protocol.lint_specs([tmp_path / "good"])
    assert (result.files, result.errors > 0) == (1, True)
    tag = {"name": "Extra", "type": "string", "versions": "0+", "tag": 0, "taggedVersions": "0+"}
    for folder, name in (("a", "Extra"), ("b", "Other")):
        write_spec(tmp_path / folder, fields=[tag | {"name": name}])
    table = protocol.list_tags(specs=[tmp_path / "a", tmp_path / "b"])
    assert {entry.field for entry in table.tags} == {"Extra", "Other"}
    assert len(table.collisions) > 0
    assert protocol.list_tags().collisions == ()
    assert len(protocol.list_tags().tags) > 20


def test_stubs_a_guide_and_a_proposal_are_written(tmp_path):
    write_spec(tmp_path / "specs")
    assert protocol.write_stubs(tmp_path / "specs", tmp_path / "greetings.py") == ["GreetRequest"]
    assert "GreetRequest" in (tmp_path / "greetings.pyi").read_text()
    with pytest.raises(OptionError, match=r"`to` .*: must be FILE.py"):
        protocol.write_stubs(tmp_path / "specs", tmp_path / "greetings.txt")

    def add_owner(kip):
        kip.add("MetadataResponse.Topics.Owner", "string", nullable=True)

    result = protocol.change_specs(add_owner, tmp_path / "proposal")
    assert result.changed_names == ["MetadataRequest", "MetadataResponse"]
    assert (tmp_path / "proposal" / "MetadataResponse.json").exists()
    assert all(change.verdict != "breaking" for change in result.check())
    (tmp_path / "proposal" / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match="holds other files"):
        protocol.change_specs(add_owner, tmp_path / "proposal")
    with pytest.raises(OptionError, match="`proposal` is 'kip-1'; expected kip-636"):
        protocol.rewrite_specs("kip-1", tmp_path / "other")
