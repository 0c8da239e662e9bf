"""The command ``kafkaframes``: one explicit table of commands, each loaded only when it is asked for."""

from __future__ import annotations

import importlib
import sys

import click

from kafkaframes import __version__
from kafkaframes.errors import KafkaframesError

# command -> (module, one line for `kafkaframes --help`). The module's `command` is the click command; a room's
# imports are paid for only by the command that needs them.
COMMANDS: dict[str, tuple[str, str]] = {
    "doctor": ("kafkaframes.cli.doctor", "print what was found on this machine and what to do about it"),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not COMMANDS:
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafkaframes")
def cli() -> None:
    """Kafka's bytes as DataFrames."""


def main() -> None:
    """Run the command line; a mistake of the caller's or of the bytes is one clear line, not a traceback."""
    try:
        cli()
    except KafkaframesError as error:
        click.echo(f"kafkaframes: {error}", err=True)
        sys.exit(2)
