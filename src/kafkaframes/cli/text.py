"""What every command writes for people: sizes, times, and the text of others, which may try to steer the terminal.

Names of topics and files, ids, and everything else that comes out of a log are not to be trusted. A command prints them
``printable``: no escape sequence reaches the terminal, and no name that is not UTF-8 stops a command.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import RawIOBase
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

import click

from kafkaframes.errors import OptionError
from kafkaframes.jobs.report.words import count_text, size_text, time_text
from kafkaframes.storage.files.names import printable
from kafkaframes.storage.files.units import parse_time

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
    from rich.console import Console


__all__ = [
    "base64_text", "console", "count_text", "if_anybody_reads", "is_quiet", "milliseconds", "note", "print_table",
    "printable", "quiet_option", "records_out", "say", "show", "size_text", "time_text",
]  # fmt: skip
_PIPED_WIDTH = 200  # a pipe has no width of its own
_QUIET = "kafkaframes.quiet"  # of a context, and of those below it
_STEERING = re.compile(r"[^\n\t]+")


def say(text: object = "", *, err: bool = False) -> None:
    """Print text, each line of it printable."""
    click.echo("\n".join(map(printable, str(text).split("\n"))), err=err)


def _be_quiet(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from kafkaframes.kernels import demand

        demand.is_quiet = context.meta[_QUIET] = True
        context.call_on_close(partial(setattr, demand, "is_quiet", False))


quiet_option = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    callback=_be_quiet,
    help="Only results, warnings and errors: no progress, no notes.",
)


def is_quiet() -> bool:
    """Return whether the command that runs was called with ``--quiet``."""
    context = click.get_current_context(silent=True)
    return context is not None and _QUIET in context.meta


def note(text: str) -> None:
    """Say on standard error what is neither a result nor a warning; nothing under ``--quiet``."""
    if not is_quiet():
        with if_anybody_reads():
            say(text, err=True)


@contextmanager
def if_anybody_reads() -> Iterator[None]:
    """Go on where standard error is a pipe that nobody reads any more: from then on it goes nowhere.

    Who has started a broker often reads its first line only, and closes the pipe.
    """
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def base64_text(raw: bytes | None) -> str | None:
    """Return bytes of records as JSON holds them."""
    return None if raw is None else b64encode(raw).decode()


def console(*, stderr: bool = False, width: int = _PIPED_WIDTH) -> Console:
    """Return what prints tables and colours; in a pipe it is as wide as is said, and plain."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    made = Console(highlight=False, stderr=stderr, width=None if stream.isatty() else width)
    setattr(made, "on_broken_pipe", _closed)  # noqa: B010  # rich would exit with 1
    return made


def records_out(*, is_text: bool = True) -> BinaryIO:
    """Return standard output for what is in records, as it is; a terminal gets it printable, and nothing but text."""
    sys.stdout.flush()
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    if not is_text:
        raise OptionError("an Arrow stream is no text for a terminal: pipe it, or write it to a file")
    return cast(BinaryIO, _Shown(sys.stdout.buffer))


class _Shown(RawIOBase):
    """Takes bytes in parts, which may end within a character, and shows them on a terminal."""

    def __init__(self, terminal: BinaryIO) -> None:
        super().__init__()
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        text = self._decoder.decode(data)
        self._terminal.write(
            _STEERING.sub(lambda result: printable(result[0]), text).encode("utf-8", "backslashreplace")
        )
        return memoryview(data).nbytes

    def flush(self) -> None:
        self._terminal.flush()


def _closed() -> NoReturn:
    raise BrokenPipeError


def show(to: Console, text: object, **options: Any) -> None:
    """Print a line in a style on a console: as it is, but printable."""
    to.print("\n".join(map(printable, str(text).split("\n"))), highlight=False, markup=False, **options)


def milliseconds(text: str) -> int:
    """Read a time: milliseconds since 1970, or a date in ISO 8601 (UTC where it names no zone).

    >>> milliseconds("1760000000000"), milliseconds("2025-10-09T08:53:20Z")
    (1760000000000, 1760000000000)
    """
    try:
        return parse_time(text)
    except ValueError as error:
        raise OptionError(f"no time: {text!r}: {error}") from None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, dim: Sequence[bool] = ()) -> None:
    """Print rows under their columns; the column ``name`` or else the first is bold, an empty column is left out.

    ``dim`` says which rows are of less weight.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used = [index for index, _ in enumerate(columns) if any(row[index] for row in rows)]
    bold = columns.index("name") if "name" in columns else 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index in used:
        is_last = index == used[-1]
        table.add_column(columns[index], no_wrap=not is_last, style="bold" if index == bold else "")
    for number, row in enumerate(rows):
        style = "dim" if number < len(dim) and dim[number] else ""
        table.add_row(*(Text(printable(row[index])) for index in used), style=style)
    console().print(table)
