"""``kafkaframes spec``: list, show, diff and import say what the catalog holds."""

import json
import shutil

import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.spec.catalog.reading import FOLDER


def run(*arguments, status=0):
    result = CliRunner().invoke(cli, ["spec", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_help_names_every_command():
    assert {"list", "show", "diff", "check", "lint", "import"} <= set(run("--help").split())


def test_list():
    lines = run("list", "--json").splitlines()
    assert len(lines) == 95
    assert json.loads(lines[18]) | {"listeners": 0} == {
        "key": 18,
        "name": "ApiVersions",
        "versions": "0-5",
        "current": "0-5",
        "flexible": "3+",
        "headers": "1/0, 2/0",
        "listeners": 0,
    }
    assert "LeaderAndIsr" in run("list", "leader")
    assert "PartitionChangeRecord" in run("list", "--records")
    assert run("list", "nothing-like-it").startswith("0 APIs")


def test_show_a_version():
    out = run("show", "MetadataResponse", "12")
    assert "version 12 (flexible, header 1)" in out
    assert [line.split()[:2] for line in out.splitlines() if "Rack" in line] == [["Rack", "COMPACT_NULLABLE_STRING"]]


def test_show_all_versions_and_both_halves():
    out = run("show", "Metadata")
    assert "MetadataRequest: request 3, versions 0-13, flexible 9+" in out
    assert "MetadataResponse: response 3" in out


def test_show_bnf_and_json():
    assert "COMPACT_ARRAY of INT32" in run("show", "FetchRequest", "13", "--bnf")
    shown = json.loads(run("show", "ApiVersionsResponse", "3", "--json"))
    tagged = [field for field in shown["fields"] if "tag" in field]
    assert [field["tag"] for field in tagged] == [0, 1, 2, 3]
    assert json.loads(run("show", "ApiVersionsResponse", "--json"))["validVersions"] == "0-5"


def test_show_a_file(tmp_path):
    path = tmp_path / "Mine.json"
    shutil.copy(FOLDER / "RequestHeader.json", path)
    assert "ClientId" in run("show", str(path), "2")


def test_what_is_not_there():
    for arguments in (("show", "Nonsense"), ("show", "Metadata", "99"), ("diff", "Metadata", "0", "99")):
        run(*arguments, status=1)
    run("show", "missing.json", status=1)


def test_diff():
    out = run("diff", "MetadataRequest", "8", "10")
    assert "+ Topics.TopicId: uuid" in out
    assert "~ Topics.Name: now nullable" in out
    assert "inflexible -> flexible" in out
    assert "the same bytes" in run("diff", "ProduceRequest", "5", "6")
    row = json.loads(run("diff", "FetchRequest", "14", "15", "--json").splitlines()[0])
    assert row == {"message": "FetchRequest", "kind": "added", "field": "ReplicaState", "change": "ReplicaState, tag 1"}


@pytest.fixture
def release(tmp_path):
    folder = tmp_path / "4.4.0" / "kafka-clients"
    folder.mkdir(parents=True)
    for name in ("FetchRequest.json", "FetchResponse.json"):
        shutil.copy(FOLDER / name, folder)
    return tmp_path / "4.4.0"


def test_import_writes_checks_and_removes_only_its_own_files(release, tmp_path):
    target = tmp_path / "catalog"
    target.mkdir()
    target.joinpath("mine.json").write_text("{}")
    run("import", str(release), "-o", str(target))
    assert target.joinpath("FetchRequest.json").read_text() == FOLDER.joinpath("FetchRequest.json").read_text()
    run("import", str(release), "-o", str(target), "--check")
    release.joinpath("kafka-clients/FetchResponse.json").unlink()
    run("import", str(release), "-o", str(target), "--check", status=1)
    run("import", str(release), "-o", str(target))
    assert sorted(path.name for path in target.iterdir()) == ["FetchRequest.json", "index.json", "mine.json"]
