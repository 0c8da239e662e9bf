"""``kafkaframes spec guide`` writes a file, or an index in a directory."""

from click.testing import CliRunner

from kafkaframes.cli.main import cli


def test_the_command_writes_a_file_or_an_index(tmp_path):
    for target, path in ((tmp_path / "a.html", tmp_path / "a.html"), (tmp_path / "site", tmp_path / "site/index.html")):
        assert CliRunner().invoke(cli, ["spec", "guide", "-o", str(target)]).exit_code == 0
        assert path.read_text().startswith("<!doctype html>")
