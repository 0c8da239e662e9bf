"""``kafkaframes spec``: the group of its commands."""

from tests.cli.calling import ask_spec


def test_help_names_every_command():
    assert {"list", "show", "diff", "check", "lint", "import"} <= set(ask_spec("--help").split())
