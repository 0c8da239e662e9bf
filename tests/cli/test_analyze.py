"""``kafkaframes analyze``: the table of its commands."""

import importlib

from tests.cli.calling import ask

from kafkaframes.cli.analyze import COMMANDS


def test_help_names_every_analysis_and_each_can_be_loaded():
    said = ask("analyze", "--help").output
    for name, (module, _) in COMMANDS.items():
        assert name in said
        assert importlib.import_module(module).command.name == name
