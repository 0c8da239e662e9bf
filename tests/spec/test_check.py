"""Checking sets of specs: pairs, renames, what came and went; the command's exit status."""

import json
import zipfile

import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.spec import load_message
from kafkaframes.spec.check import check_sets

A = {"name": "A", "type": "int32", "versions": "0+"}


def source(name, *fields, **top):
    base = {"apiKey": 9000, "type": "request", "name": name, "validVersions": "0-3", "flexibleVersions": "2+"}
    return json.dumps({**base, **top, "fields": list(fields)})


def specs(*sources):
    return {spec.name: spec for spec in map(load_message, sources)}


def rules(old, new):
    return {(one.rule.name, one.message) for one in check_sets(specs(*old), specs(*new))}


REQUEST, RESPONSE = source("FooRequest", A), source("FooResponse", A, type="response")


def test_nothing_changed():
    assert rules([REQUEST, RESPONSE], [REQUEST, RESPONSE]) == set()


def test_came_and_went():
    assert rules([REQUEST], [RESPONSE]) == {("message-gone", "FooRequest"), ("message-added", "FooResponse")}
    assert rules([source("FooRequest", validVersions="none")], []) == set()


def test_renamed_by_its_key():
    assert rules([REQUEST], [source("BarRequest", A)]) == {("message-renamed", "BarRequest")}
    changed = source("BarRequest", {**A, "type": "int8"})
    assert ("field-type", "BarRequest") in rules([REQUEST], [changed])


def test_a_response_is_as_unreleased_as_its_request():
    """``latestVersionUnstable`` stands in the request alone, and holds for both."""
    unstable = source("FooRequest", A, latestVersionUnstable=True)
    changed = source("FooResponse", A, {**A, "name": "B", "versions": "3+"}, type="response")
    for request, verdict in ((unstable, "note"), (REQUEST, "breaking")):
        found = list(check_sets(specs(request, RESPONSE), specs(request, changed)))
        assert [(one.rule.name, one.verdict) for one in found] == [("field-added", verdict)]


def test_halves_must_agree():
    found = rules([REQUEST, RESPONSE], [REQUEST, source("FooResponse", A, type="response", validVersions="0-4")])
    assert ("pair-versions", "FooRequest") in found


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli, ["spec", *arguments])

    return run


def test_exit_status_and_words(run, tmp_path):
    tmp_path.joinpath("old.json").write_text(REQUEST)
    tmp_path.joinpath("same.json").write_text(REQUEST)
    tmp_path.joinpath("new.json").write_text(source("FooRequest", A, {**A, "name": "B"}))
    tmp_path.joinpath("note.json").write_text(source("FooRequest", A, validVersions="1-3"))
    assert run("check", "old.json", "same.json").exit_code == 0
    broken = run("check", "old.json", "new.json")
    assert broken.exit_code == 1
    assert "B: int32 was not in this version in 0-3 (field-added)" in broken.output
    assert run("check", "old.json", "note.json").exit_code == 0
    assert run("check", "old.json", "note.json", "--strict").exit_code == 1
    row = json.loads(run("check", "old.json", "new.json", "--json").output)
    assert (row["verdict"], row["field"], row["versions"]) == ("breaking", "B", "0-3")
    missing = run("check", "old.json", "nowhere.json")
    assert missing.exit_code != 0
    assert "nowhere.json" in str(missing.exception)


def test_archives_directories_and_jars_are_places(run, tmp_path):
    with zipfile.ZipFile(tmp_path / "4.4.0.zip", "w") as archive:
        archive.writestr("kafka-clients/FooRequest.json", REQUEST)
        archive.writestr("kafka-clients/other.json", "{}")
    with zipfile.ZipFile(tmp_path / "kafka-clients-4.5.0.jar", "w") as jar:
        jar.writestr("common/message/FooRequest.json", REQUEST)
    folder = tmp_path / "specs"
    folder.mkdir()
    folder.joinpath("FooRequest.json").write_text(REQUEST)
    for old in ("4.4.0.zip", "specs"):
        assert run("check", old, "kafka-clients-4.5.0.jar").exit_code == 0
    tmp_path.joinpath("broken.zip").write_bytes(b"PK nonsense")
    assert run("check", "broken.zip", "specs").exit_code != 0


def test_git_refs_are_places(run, tmp_path):
    import subprocess

    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(("git", *identity, *arguments), check=True, capture_output=True)

    git("init", "-q")
    tmp_path.joinpath("FooRequest.json").write_text(REQUEST)
    git("add", "FooRequest.json")
    git("commit", "-qm", "one")
    tmp_path.joinpath("FooRequest.json").write_text(source("FooRequest"))
    assert run("check", "HEAD:FooRequest.json", "FooRequest.json").exit_code == 1
    assert run("check", "HEAD:.", "HEAD:FooRequest.json").exit_code == 0
    assert run("check", "NOREF:x", "FooRequest.json").exit_code != 0


def test_lint_tells_errors_and_warnings(run, tmp_path):
    tmp_path.joinpath("good.json").write_text(REQUEST)
    tmp_path.joinpath("odd.json").write_text(source("FooRequest", {**A, "type": "[]int32", "fields": [A]}))
    tmp_path.joinpath("bad.json").write_text(source("FooRequest", {**A, "type": "int33"}))
    assert run("lint", "good.json").exit_code == 0
    odd = run("lint", "odd.json")
    assert odd.exit_code == 0
    assert "warning: odd.json:1: A: the fields of []int32 are ignored" in odd.output.replace("  ", " ")
    assert run("lint", "odd.json", "--strict").exit_code == 1
    bad = run("lint", "bad.json", "good.json")
    assert bad.exit_code == 1
    assert "int33" in bad.output
