"""Commands and their public functions: the table in docs/results.md has each command that has one."""

import runpy
from operator import attrgetter
from pathlib import Path

import pytest

import kafkaframes

TABLES = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "tables.py"))
FUNCTIONS = TABLES["FUNCTIONS_OF_COMMANDS"]
# Commands of this machine, and those whose work has no public function yet.
WITHOUT_FUNCTION = {
    *("doctor", "kernels", "broker"),
    *("dump-log", "checkpoint"),
    *("audit", "record", "redact", "diff", "vectors"),
}


def test_every_command_has_a_function_or_is_listed():
    commands = {name for name in TABLES["command_names"]() if not name.startswith(("spec ", "analyze "))}
    assert commands - set(FUNCTIONS) - WITHOUT_FUNCTION == set()
    assert WITHOUT_FUNCTION - commands == set()
    assert set(FUNCTIONS) & WITHOUT_FUNCTION == set()
    assert set(FUNCTIONS) <= set(TABLES["command_names"]())


@pytest.mark.parametrize("name", sorted({name for names in FUNCTIONS.values() for name in names}))
def test_the_functions_are_public(name):
    first, _, rest = name.removeprefix("kafkaframes.").partition(".")
    assert first in kafkaframes.__all__
    value = getattr(kafkaframes, first)
    assert callable(attrgetter(rest)(value) if rest else value)
