"""``kafkaframes analyze``: the table of its commands."""

import click
from tests.cli.calling import ask

from kafkaframes.cli.main import analyze


def test_help_names_every_analysis_and_each_can_be_loaded():
    said = ask("analyze", "--help").output
    context = click.Context(analyze)
    for name in analyze.list_commands(context):
        assert name in said
        assert analyze.get_command(context, name).name == name
