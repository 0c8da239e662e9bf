"""Print the output of commands for people: sizes, times, and text from logs, which could control the terminal.

Names of topics and files, ids, and all other text from a log are untrusted. ``escape_unprintable`` makes it safe to
print: no escape sequence reaches the terminal, and names that are not UTF-8 do not stop a command.
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
from kafkaframes.jobs.report.words import format_size, format_time
from kafkaframes.storage.files.names import escape_unprintable
from kafkaframes.storage.files.units import parse_time

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
    from rich.console import Console


__all__ = [
    "encode_base64",
    "escape_unprintable",
    "format_size",
    "format_time",
    "ignore_closed_stderr",
    "is_quiet",
    "make_console",
    "open_record_output",
    "parse_milliseconds",
    "print_note",
    "print_styled",
    "print_table",
    "print_text",
    "quiet_option",
]  # fmt: skip
_PIPED_TABLE_WIDTH = 200  # width of tables in a pipe, which has no width of its own
_QUIET_KEY = "kafkaframes.quiet"  # key in the metadata of a click context, which its subcommands share
_TEXT_WITHOUT_LINE_BREAKS_AND_TABS = re.compile(r"[^\n\t]+")


def print_text(text: object = "", *, err: bool = False) -> None:
    """Print text after making each line printable."""
    click.echo("\n".join(map(escape_unprintable, str(text).split("\n"))), err=err)


def _set_quiet(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from kafkaframes.kernels import demand

        demand.is_quiet = context.meta[_QUIET_KEY] = True
        context.call_on_close(partial(setattr, demand, "is_quiet", False))


quiet_option = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    callback=_set_quiet,
    help="Only print results, warnings and errors, without progress and notes.",
)


def is_quiet() -> bool:
    """Return whether the current command runs with ``--quiet``."""
    context = click.get_current_context(silent=True)
    return context is not None and _QUIET_KEY in context.meta


def print_note(text: str) -> None:
    """Print a message on standard error that is not a result or a warning. With ``--quiet``, print nothing."""
    if not is_quiet():
        with ignore_closed_stderr():
            print_text(text, err=True)


@contextmanager
def ignore_closed_stderr() -> Iterator[None]:
    """Continue if standard error is a closed pipe. Later messages are discarded.

    A program that starts a broker often reads only its first line, and then closes the pipe.
    """
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def encode_base64(raw: bytes | None) -> str | None:
    """Return record bytes in base64, for JSON."""
    return None if raw is None else b64encode(raw).decode()


def make_console(*, stderr: bool = False, width: int = _PIPED_TABLE_WIDTH) -> Console:
    """Return a console for tables and colors. In a pipe, the console has the given width and no colors."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    new_console = Console(highlight=False, stderr=stderr, width=None if stream.isatty() else width)
    setattr(new_console, "on_broken_pipe", _end_closed_output)  # noqa: B010  # rich would exit with 1
    return new_console


def open_record_output(*, is_text: bool = True) -> BinaryIO:
    """Return standard output for record data. A terminal only accepts text, and unprintable characters are escaped."""
    sys.stdout.flush()
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    if not is_text:
        raise OptionError("an Arrow stream cannot be printed on a terminal; pipe it, or write it to a file")
    return cast(BinaryIO, _TerminalWriter(sys.stdout.buffer))


class _TerminalWriter(RawIOBase):
    """Writes bytes to a terminal as text. A character may be split between two writes."""

    def __init__(self, terminal: BinaryIO) -> None:
        super().__init__()
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        text = self._decoder.decode(data)
        self._terminal.write(
            _TEXT_WITHOUT_LINE_BREAKS_AND_TABS.sub(lambda result: escape_unprintable(result[0]), text).encode(
                "utf-8", "backslashreplace"
            )
        )
        return memoryview(data).nbytes

    def flush(self) -> None:
        self._terminal.flush()


def _end_closed_output() -> NoReturn:
    raise BrokenPipeError


def print_styled(to: Console, text: object, **options: Any) -> None:
    """Print a line on a console in a style. Markup and unprintable characters are escaped."""
    to.print("\n".join(map(escape_unprintable, str(text).split("\n"))), highlight=False, markup=False, **options)


def parse_milliseconds(text: str) -> int:
    """Read a time: milliseconds since 1970, or a date in ISO 8601 (UTC if it has no zone).

    >>> parse_milliseconds("1760000000000"), parse_milliseconds("2025-10-09T08:53:20Z")
    (1760000000000, 1760000000000)
    """
    try:
        return parse_time(text)
    except ValueError as error:
        raise OptionError(f"not a time: {text!r}: {error}") from None


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, dim: Sequence[bool] = ()) -> None:
    """Print rows as a table. The column ``name``, or else the first, is bold. Empty columns are omitted.

    ``dim`` has True for each row to print with less emphasis.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    used_columns = [index for index, _ in enumerate(columns) if any(row[index] for row in rows)]
    bold = columns.index("name") if "name" in columns else 0
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index in used_columns:
        is_last = index == used_columns[-1]
        table.add_column(columns[index], no_wrap=not is_last, style="bold" if index == bold else "")
    for number, row in enumerate(rows):
        style = "dim" if number < len(dim) and dim[number] else ""
        table.add_row(*(Text(escape_unprintable(row[index])) for index in used_columns), style=style)
    make_console().print(table)
