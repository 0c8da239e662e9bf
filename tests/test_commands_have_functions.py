"""The table in docs/results.md lists each command that has a public function."""

import runpy
from operator import attrgetter
from pathlib import Path

import pytest

import kafkaframes

DOC_TABLES = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "tables.py"))
FUNCTIONS_BY_COMMAND = DOC_TABLES["FUNCTIONS_OF_COMMANDS"]
# Commands about this machine, and the command that runs a broker until Ctrl-C (in Python, the class Broker).
COMMANDS_WITHOUT_FUNCTION = {"doctor", "kernels", "broker"}


def test_every_command_has_a_function_or_is_listed():
    commands = set(DOC_TABLES["command_names"]())
    assert commands - set(FUNCTIONS_BY_COMMAND) - COMMANDS_WITHOUT_FUNCTION == set()
    assert COMMANDS_WITHOUT_FUNCTION - commands == set()
    assert set(FUNCTIONS_BY_COMMAND) & COMMANDS_WITHOUT_FUNCTION == set()
    assert set(FUNCTIONS_BY_COMMAND) <= commands


@pytest.mark.parametrize("name", sorted({name for names in FUNCTIONS_BY_COMMAND.values() for name in names}))
def test_the_functions_are_public(name):
    first, _, rest = name.removeprefix("kafkaframes.").partition(".")
    assert first in kafkaframes.__all__
    value = getattr(kafkaframes, first)
    assert callable(attrgetter(rest)(value) if rest else value)
