"""``kafkaframes spec show``: tables, BNF, JSON, and spec files."""

import json
import shutil

from tests.cli.calling import ask_spec as run

from kafkaframes.protocol.spec.catalog.reading import MESSAGES_FOLDER


def test_a_version_is_shown():
    out = run("show", "MetadataResponse", "12")
    assert "version 12 (flexible, header 1)" in out
    assert [line.split()[:2] for line in out.splitlines() if "Rack" in line] == [["Rack", "COMPACT_NULLABLE_STRING"]]


def test_all_versions_of_request_and_response_are_shown():
    out = run("show", "Metadata")
    assert "MetadataRequest: request 3, versions 0-13, flexible 9+" in out
    assert "MetadataResponse: response 3" in out


def test_bnf_and_json_are_shown():
    assert "COMPACT_ARRAY of INT32" in run("show", "FetchRequest", "13", "--bnf")
    description = json.loads(run("show", "ApiVersionsResponse", "3", "--json"))
    tagged_fields = [field for field in description["fields"] if "tag" in field]
    assert [field["tag"] for field in tagged_fields] == [0, 1, 2, 3]
    assert json.loads(run("show", "ApiVersionsResponse", "--json"))["validVersions"] == "0-5"


def test_the_spec_in_a_file_is_shown(tmp_path):
    path = tmp_path / "Mine.json"
    shutil.copy(MESSAGES_FOLDER / "RequestHeader.json", path)
    assert "ClientId" in run("show", str(path), "2")


def test_descriptions_of_fields_are_shown(tmp_path):
    path = tmp_path / "Mine.json"
    field = {"name": "A", "type": "int8", "versions": "0+", "about": "How loud it is."}
    top = {"type": "data", "name": "Mine", "validVersions": "0", "flexibleVersions": "none", "fields": [field]}
    path.write_text(json.dumps(top))
    assert "How loud it is." in run("show", str(path))
    assert "How loud it is." in run("show", str(path), "0")
