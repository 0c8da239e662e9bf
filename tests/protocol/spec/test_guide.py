"""The protocol guide: one page with every version of every message, which needs no network."""

import json
import re
import shutil
import subprocess

import pytest

from kafkaframes.protocol.spec import catalog, load_message
from kafkaframes.protocol.spec.guide import make_guide_data, make_guide_page, make_wire_pages
from kafkaframes.protocol.spec.layout import layout_rows
from kafkaframes.protocol.spec.model import PRIMITIVES


def test_the_guide_has_the_layout_of_every_version():
    data = make_guide_data()
    assert [one["name"] for one in data["messages"]] == list(catalog.list_names())
    for one in data["messages"]:
        spec = catalog.load_spec(one["name"])
        assert len(one["versions"]) == len(list(spec.valid_versions))
        for version, (flexible, _, layout, _) in zip(spec.valid_versions, one["versions"], strict=True):
            assert flexible == spec.is_flexible(version)
            names = [data["rows"][number][1] for number in data["layouts"][layout]]
            assert names == [row.name for row in layout_rows(spec, version)]


def test_the_page_is_complete_and_needs_no_network():
    page = make_guide_page()
    assert not re.search(r"https?://|<link|src=|@import", page)
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)[1]
    assert "</script" not in script
    data = json.loads(re.search(r"^const data = (.*);$", script, re.MULTILINE)[1].replace("<\\/", "</"))
    assert data["release"] == catalog.newest_release()


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_script_is_valid_javascript(tmp_path):
    path = tmp_path / "guide.js"
    path.write_text(re.search(r"<script>(.*)</script>", make_guide_page(), re.DOTALL)[1])
    subprocess.run(["node", "--check", str(path)], check=True)


def sections():
    return {(page, title): tables for page, _, several in make_wire_pages() for title, _, tables in several}


def test_the_guide_explains_types_and_headers():
    """The guide's examples are created by the writers, and compared with expected bytes here."""
    ((_, types),) = sections()["types", "Primitive types"]
    assert {row[0] for row in types} == set(PRIMITIVES)
    by_name = {row[0]: row[3:] for row in types}
    assert (by_name["int16"], by_name["string"]) == (("01 2c", "01 2c"), ("00 03 68 c3 a9", "04 68 c3 a9"))
    ((_, numbers),) = sections()["types", "Varints"]
    assert {row[0]: row[1:] for row in numbers}["300"] == ("ac 02", "d8 04")
    ((_, header),) = sections()["records", "Batch, format 2"]
    assert [(row[0], row[1]) for row in header][-1] == ("57", "count")
    ((_, client),) = sections()["frames", "RequestHeader 2"]
    assert ("ClientId", "NULLABLE_STRING", "2 + n") in client


def test_the_guide_contains_specs_of_a_proposal_and_the_catalog():
    fields = [{"name": "Mood", "type": "int8", "versions": "0+", "about": "How loud it is."}]
    half = {"apiKey": 200, "type": "request", "validVersions": "0", "flexibleVersions": "0+", "fields": fields}
    spec = load_message(json.dumps(half | {"name": "GreetRequest"}))
    data = make_guide_data({spec.name: spec})
    (own,) = [one for one in data["messages"] if one["own"]]
    assert (own["name"], own["key"], own["current"]) == ("GreetRequest", 200, "0")
    assert data["fields"]["Mood"] == "How loud it is."
    assert len(data["messages"]) == len(catalog.list_names()) + 1
