"""A group of commands that imports a command's module only when the command is asked for."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import click

from kafkaframes.cli.text import if_anybody_reads, quiet_option
from kafkaframes.errors import KafkaframesError
from kafkaframes.errors.exceptions import rename_settings
from kafkaframes.storage.files.names import printable


def flags_of(command: click.Command | None) -> Mapping[str, str]:
    """Return what stands for a setting's name in messages, by the settings' names."""
    commands = [command, *getattr(command, "commands", {}).values()] if command else []  # of a group: those below it
    options = [one for each in commands for one in each.params if isinstance(one, click.Option)]
    names = {str(one.name): max(one.opts, key=len) for one in options}
    flags = {flag.removeprefix("--").replace("-", "_"): flag for flag in names.values()}
    return {**(_spark_options() if "options" in names else {}), **flags, **names}


def _spark_options() -> dict[str, str]:
    from kafkaframes.spark.setting_names import setting_names

    return {name: f"--option {option}" for name, option in setting_names().items()}


EXIT_INTERRUPTED = 130
_PATH = re.compile("FILE|DIR|PATH|SRC|INPUT|CAPTURE|SOURCE|OLD|NEW")  # in what help calls a value
_PATH_TYPE = click.Path(readable=False)  # text of which shells complete the names of files; nothing else
_COMMAND = "kafkaframes.command"  # of a context: the command that runs
INTERRUPTED = "kafkaframes: interrupted"


Sections = Mapping[str, Mapping[str, tuple[str, str]]]  # heading of --help -> command -> (module[:function], help)


class LazyGroup(click.Group):
    """Commands from a table, under the headings of ``--help``: a module's ``command``, or the function it names."""

    def __init__(self, *args: Any, sections: Sections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._table = {name: row for rows in sections.values() for name, row in rows.items()}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command: errors name its flags, and Ctrl-C gives a shell's status, for 1 has meanings."""
        try:
            return super().invoke(ctx)
        except KafkaframesError as error:
            rename_settings(error, flags_of(ctx.meta.get(_COMMAND)))
            raise
        except BrokenPipeError:  # who reads had enough: `| head`
            _leave_closed_pipes()
            ctx.exit(0)
        except KeyboardInterrupt:
            click.echo(INTERRUPTED, err=True)
            ctx.exit(EXIT_INTERRUPTED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self._table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command; ``None`` if the table has no such name."""
        if name not in self._table:
            return None
        module, _, function = self._table[name][0].partition(":")
        command = getattr(importlib.import_module(module), function or "command")
        assert isinstance(command, click.Command)
        for each in (command, *getattr(command, "commands", {}).values()):
            if quiet_option not in each.params:
                each.params.append(quiet_option)
            for parameter in each.params:
                if parameter.type is click.STRING and _PATH.search(parameter.metavar or str(parameter.name).upper()):
                    parameter.type = _PATH_TYPE
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the arguments; of a misspelt one the nearest is named."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0].lower(), self._table, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(self._table)}"
            ctx.fail(f"no command {printable(args[0])}: {hint}")
        name, command, rest = super().resolve_command(ctx, args)
        ctx.meta[_COMMAND] = command
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table's lines, importing nothing."""
        width = max(map(len, self._table))
        for heading, rows in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in rows.items()])


def _leave_closed_pipes() -> None:
    """Let what is still buffered for a pipe that nobody reads go nowhere: Python would end with status 120 for it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with if_anybody_reads():
        sys.stderr.flush()
