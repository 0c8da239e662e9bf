"""``kafkaframes analyze``: the table of its commands."""

import click
from tests.cli.calling import ask

from kafkaframes.cli.main import analyze


def test_help_names_every_analysis_and_each_can_be_loaded():
    help_text = ask("analyze", "--help").output
    context = click.Context(analyze)
    for name in analyze.list_commands(context):
        assert name in help_text
        assert analyze.get_command(context, name).name == name
