"""Help texts and errors of mistyped commands import neither kernels nor numba nor pyarrow."""

import json
import subprocess
import sys

import click
import pytest

from kafkaframes.cli.main import COMMANDS, cli

HEAVY = ("numba", "llvmlite", "numpy", "pyarrow", "pyspark", "cramjam")
RUN_CODE = """
import json, sys
import kafkaframes.cli.main as main
known = set()
for line in sys.stdin:
    sys.argv = ["kafkaframes", *json.loads(line)]
    try:
        main.main()
    except SystemExit as end:
        status = end.code
    heavy = {name for name in sys.modules if "._kernels" in name or name in %r}
    print("\\n" + json.dumps([status, sorted(heavy - known)]), flush=True)
    known |= heavy
"""


def _list_subcommands():
    """Return the subcommands, such as ``analyze records`` and ``topics create``."""
    context = click.Context(cli)
    groups = {name: command for name in COMMANDS if isinstance(command := cli.get_command(context, name), click.Group)}
    return [(name, one) for name, group in groups.items() for one in group.list_commands(context)]


SUBCOMMANDS = _list_subcommands()


@pytest.fixture(scope="module")
def imports_by_command():
    """Run every command with ``--help`` and without options in one process. Return the modules that each command
    imports.
    """
    questions = [["--help"], ["no-such-command"], ["--no-such-option"]]
    questions += [[name, "--help"] for name in COMMANDS]
    questions += [[name, "--no-such-option"] for name in COMMANDS]
    questions += [[*names, "--help"] for names in SUBCOMMANDS]
    questions += [["convert"], ["kernels", "warm", "--help"], ["kernels", "pack"], ["kernels", "path"]]
    text = "".join(json.dumps(question) + "\n" for question in questions)
    command = [sys.executable, "-c", RUN_CODE % (HEAVY,)]
    process = subprocess.run(command, input=text, capture_output=True, text=True, timeout=250, check=False)
    answers = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("[")]
    assert len(answers) == len(questions), process.stderr
    return dict(zip(map(tuple, questions), answers, strict=True))


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_imports_nothing_that_reads_logs(imports_by_command, name):
    assert imports_by_command[(name, "--help") if name else ("--help",)] == [0, []]


@pytest.mark.parametrize("names", SUBCOMMANDS, ids=" ".join)
def test_help_of_a_commands_command_imports_nothing_either(imports_by_command, names):
    assert imports_by_command[(*names, "--help")] == [0, []]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_a_wrong_flag_imports_nothing_that_reads_logs(imports_by_command, name):
    assert imports_by_command[(name, "--no-such-option") if name else ("--no-such-option",)] == [2, []]


def test_other_usage_errors_import_no_heavy_module(imports_by_command):
    for question in (("no-such-command",), ("convert",), ("kernels", "pack")):
        assert imports_by_command[question] == [2, []]
    assert imports_by_command["kernels", "path"] == [0, []]
