"""Commands that are loaded when they are called: misspelt names, and pipes that close."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from kafkaframes.cli.main import cli

LOG = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"


@pytest.mark.parametrize(
    ("typed_command", "hint"),
    [
        ("infos", "did you mean info"),
        ("Verfy", "did you mean verify"),
        ("dumplog", "did you mean dump-log?"),
        ("xyzzy", "expected one of info"),
    ],
)
def test_the_error_for_a_misspelt_command_suggests_the_nearest(typed_command, hint):
    result = CliRunner().invoke(cli, [typed_command, "x"])
    assert result.exit_code == 2
    assert f"unknown command {typed_command}: " in result.stderr
    assert hint in result.stderr


@pytest.mark.parametrize(
    "command",
    [["dump-log", "--deep-iteration"], ["info", "--deep"], ["verify", "--deep"], ["dump-log", "-J"]],
    ids=" ".join,
)
def test_a_closed_pipe_is_not_an_error(command):
    name, *options = command
    words = f'"{sys.executable}" -m kafkaframes {name} "{LOG}" {" ".join(options)} | head -n 1; exit ${{PIPESTATUS[0]}}'
    process = subprocess.run(["bash", "-c", words], capture_output=True, check=False, timeout=250)
    assert (process.returncode, process.stderr) == (0, b"")


def test_a_broker_with_a_closed_pipe_exits_with_0():
    """Python itself would exit with 120 because of unflushed data for a closed pipe."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr:
            if "stops it" in line:
                break
        process.stderr.close()
        process.terminate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("verify /back", ["file"]),
        ("export /backup --to o", ["file"]),
        ("dump-log /backup", ["file"]),
        ("table ord", ["file"]),
        ("topics describe ord", []),
        ("consume orders -X cli", []),
        ("grep pat", []),
        ("exp", ["plain"]),
    ],
)
def test_shells_complete_commands_and_file_names(words, kinds):
    *before, incomplete = words.split()
    completions = ShellComplete(cli, {}, "kafkaframes", "_COMPLETE").get_completions(before, incomplete)
    assert [item.type for item in completions] == kinds


def test_ctrl_c_while_arguments_are_parsed_has_the_exit_status_of_a_shell(monkeypatch):
    """Click itself prints "Aborted!" and exits with status 1, which ``verify`` uses for damage."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, "parse_args", interrupt)
    result = CliRunner().invoke(cli, ["info"])
    assert (result.exit_code, result.stderr) == (130, "kafkaframes: interrupted\n")
