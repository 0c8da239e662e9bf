"""What every command writes for people: sizes, times, and the text of others, which may try to steer the terminal.

Names of topics and files, ids, and whatever else comes out of a log are somebody else's words. A command prints them
``printable``: no escape sequence reaches the terminal, and no name that is not UTF-8 stops a command.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from kafkaframes.errors import OptionError
from kafkaframes.files.names import printable
from kafkaframes.files.times import parse_time
from kafkaframes.report.words import count_text, size_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "count_text", "milliseconds", "printable", "say", "show", "size_text", "time_text"]
_PIPED_WIDTH = 200  # a pipe has no width of its own


def say(text: object = "", *, err: bool = False) -> None:
    """Print text, each line of it printable."""
    click.echo("\n".join(map(printable, str(text).split("\n"))), err=err)


def console(*, stderr: bool = False, width: int = _PIPED_WIDTH) -> Console:
    """Return what prints tables and colours; in a pipe it is as wide as is said, and plain."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    made = Console(highlight=False, stderr=stderr, width=None if stream.isatty() else width)
    setattr(made, "on_broken_pipe", _closed)  # noqa: B010  # rich would exit with 1
    return made


def _closed() -> NoReturn:
    raise BrokenPipeError


def show(to: Console, text: object, **options: Any) -> None:
    """Print a line in a style on a console: as it is, but printable."""
    to.print("\n".join(map(printable, str(text).split("\n"))), highlight=False, markup=False, **options)


def milliseconds(text: str) -> int:
    """Read a time: milliseconds since 1970, or a date in ISO 8601 (UTC where it names no zone).

    >>> milliseconds("1760000000000"), milliseconds("2025-10-09T08:53:20Z")
    (1760000000000, 1760000000000)

    Raises:
        OptionError: it is neither.
    """
    try:
        return parse_time(text)
    except ValueError as error:
        raise OptionError(f"no time: {text!r}: {error}") from None
