"""The protocol guide: one page that holds every version of every message, and nothing that needs a network."""

import json
import re
import shutil
import subprocess

import pytest

from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.guide import guide_page
from kafkaframes.protocol.spec.guide.page import guide_data
from kafkaframes.protocol.spec.render import rows


def test_every_version_has_its_layout():
    data = guide_data()
    assert [one["name"] for one in data["messages"]] == list(catalog.names())
    for one in data["messages"]:
        spec = catalog.load(one["name"])
        assert len(one["versions"]) == len(list(spec.valid_versions))
        for version, (flexible, _, layout, _) in zip(spec.valid_versions, one["versions"], strict=True):
            assert flexible == spec.is_flexible(version)
            names = [data["rows"][number][1] for number in data["layouts"][layout]]
            assert names == [row.name for row in rows(spec, version)]


def test_the_page_is_whole_and_needs_no_network():
    page = guide_page()
    assert not re.search(r"https?://|<link|src=|@import", page)
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)[1]
    assert "</script" not in script
    data = json.loads(re.search(r"^const data = (.*);$", script, re.MULTILINE)[1].replace("<\\/", "</"))
    assert data["release"] == catalog.newest_release()


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to read the script with")
def test_the_script_is_javascript(tmp_path):
    path = tmp_path / "guide.js"
    path.write_text(re.search(r"<script>(.*)</script>", guide_page(), re.DOTALL)[1])
    subprocess.run(["node", "--check", str(path)], check=True)
