"""The options of ``kafkaframes mirror``."""

from click.testing import CliRunner

from kafkaframes.cli.main import cli


def test_the_help_lists_every_kind_of_source_and_target(tmp_path):
    help_text = CliRunner().invoke(cli, ["mirror", "--help"]).output
    for option in ("--from", "--to", "--topic", "--follow", "--dry-run", "--state", "--on-damage", "--json"):
        assert option in help_text
    wrong = CliRunner().invoke(cli, ["mirror", "--from", "a:1", "--to", "b", "--from-property", "x"])
    assert "--from-property x: must be KEY=VALUE" in str(wrong.exception)
