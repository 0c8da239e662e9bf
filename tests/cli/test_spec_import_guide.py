"""``kafkaframes spec guide`` writes a file, or an index in a directory."""

import json

from click.testing import CliRunner

from kafkaframes.cli.main import cli


def test_the_command_writes_a_file_or_an_index(tmp_path):
    for target, path in ((tmp_path / "a.html", tmp_path / "a.html"), (tmp_path / "site", tmp_path / "site/index.html")):
        assert CliRunner().invoke(cli, ["spec", "guide", "-o", str(target)]).exit_code == 0
        assert path.read_text().startswith("<!doctype html>")


def test_the_command_accepts_own_specs(tmp_path):
    spec = {"type": "data", "name": "Greeting", "validVersions": "0", "flexibleVersions": "0+", "fields": []}
    (tmp_path / "Greeting.json").write_text(json.dumps(spec))
    result = CliRunner().invoke(cli, ["spec", "guide", "-o", str(tmp_path / "a.html"), "--specs", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert '"name":"Greeting","own":true' in (tmp_path / "a.html").read_text()
