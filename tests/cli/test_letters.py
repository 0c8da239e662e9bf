"""A letter means the same in every command, and a thing that commands share has the same flag in each."""

import json

import click
import pytest
from tests.cli.calling import ask

from kafkaframes.cli.main import cli
from kafkaframes.cli.text import quiet_option

# Letter -> the flag that it is short for, or the parameter of a flag that has letters only.
FLAG_BY_LETTER = {
    "-b": "--bootstrap-server",
    "-c": "count", "-e": "--exit", "-f": "pattern", "-F": "--fixed-strings", "-g": "--group",
    "-H": "--header", "-i": "--ignore-case",
    "-J": "envelopes", "-K": "delimiter", "-m": "--max-count", "-o": "--output",
    "-p": "--partition", "-t": "--topic", "-v": "--verbose", "-X": "properties", "-z": "--codec",
}  # fmt: skip
COMMON_LETTERS = {"-b", "-o", "-t"}  # if a command has the flag, it has the letter


def _yield_options(command, words=()):
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from _yield_options(command.get_command(context, name), (*words, name))
    yield from ((" ".join(words), option) for option in command.params if isinstance(option, click.Option))


OPTIONS = list(_yield_options(cli))


def test_a_letter_has_one_meaning():
    for command, option in OPTIONS:
        names = [*option.opts, *option.secondary_opts]
        for letter in (name for name in names if not name.startswith("--")):
            flags = {name for name in names if name.startswith("--")} or {option.name}
            assert flags == {FLAG_BY_LETTER[letter]}, command


def test_a_shared_flag_has_its_letter_in_every_command():
    for command, option in OPTIONS:
        for letter in COMMON_LETTERS:
            names = option.opts if command != "checkpoint convert" else ()  # in this command, topics are new names
            assert FLAG_BY_LETTER[letter] not in names or letter in names, command


def test_every_command_can_be_quiet():
    commands = {command for command, _ in OPTIONS}
    assert {command for command, option in OPTIONS if option is quiet_option} == commands
    assert {"", "export", "topics", "topics list", "spec", "spec show", "kernels warm"} <= commands


def test_json_is_a_flag_and_not_a_format():
    for command, option in OPTIONS:
        if "--format" in option.opts:
            assert not {"text", "html"} & set(option.type.choices) or command == "dump-log", command


@pytest.mark.parametrize("group", ["topics", "groups", "configs"])
def test_cluster_options_can_precede_the_subcommand(broker, group):
    server = broker.bootstrap_servers
    rest = ["show", "broker", "1", "--all"] if group == "configs" else ["list"]
    before = ask(group, "-b", server, "-X", "client.id=me", *rest, "--json")
    after = ask(group, *rest, "-b", server, "-X", "client.id=me", "--json")
    assert before.exit_code == after.exit_code == 0, before.exception
    assert json.loads(before.output) == json.loads(after.output)


def test_options_after_the_subcommand_take_precedence(broker):
    assert ask("topics", "-b", "127.0.0.1:1", "list", "-b", broker.bootstrap_servers).exit_code == 0
    result = ask("topics", "-X", "no.such=1", "list", "-X", "client.id=me", "-b", broker.bootstrap_servers)
    assert "no.such" in str(result.exception)
