"""``kafkaframes decode``: bytes to an annotated hex dump, each run of bytes beside the field that it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import click

from kafkaframes.cli.frames import annotate, read_bytes, which_message
from kafkaframes.messages.annotate import Annotated, Run

_BYTES_A_LINE: Final = 16
_MOST_LINES: Final = 4  # of one run; --all shows every byte


@click.command("decode")
@click.argument("source", metavar="HEX|FILE|-")
@which_message
@click.option(
    "--json", "as_json", is_flag=True, help="print Kafka's JSON form instead, records as base64, with unknown tags"
)
@click.option("--all", "show_all", is_flag=True, help="every byte of long values")
def command(source: str, as_json: bool, show_all: bool, **which: Any) -> None:
    """Print what each byte of a frame or a message is.

    A request names itself (with or without its size); a response takes --api and --version, any body --message and
    --version. Broken bytes are shown up to the break; the exit status is then 2.
    """
    data = read_bytes(source)
    annotated = annotate(data, **which)
    if as_json:
        forms = {name: value.to_json(version, records="base64") for name, version, value in annotated.values}
        click.echo(json.dumps(forms, indent=2, ensure_ascii=False))
    else:
        for line in dump_lines(data, annotated, show_all=show_all):
            click.echo(line)
    if annotated.error is not None:
        raise annotated.error


def dump_lines(data: bytes, annotated: Annotated, *, show_all: bool = False) -> Iterator[str]:
    """Yield the lines of the dump: position, bytes, field, value."""
    for name, version, _ in annotated.values:
        yield f"# {name} version {version}"
    paths = max((len(_label(run)) for run in annotated.runs), default=0)
    for run in annotated.runs:
        yield from _run_lines(data, run, min(paths, 70), show_all)
    if annotated.error is not None:
        rest = data[annotated.position :]
        yield f"{annotated.position:08x}  {rest[:_BYTES_A_LINE].hex(' '):<47}  ... {len(rest)} bytes not understood"


def _label(run: Run) -> str:
    plain = run.what in ("string", "bytes", "records", "bool", "uuid", "float64") or run.what.startswith(
        ("int", "uint")
    )
    return run.path if plain else f"{run.path} ({run.what})"


def _run_lines(data: bytes, run: Run, width: int, show_all: bool) -> Iterator[str]:
    raw = data[run.start : run.end]
    lines = [raw[at : at + _BYTES_A_LINE] for at in range(0, len(raw), _BYTES_A_LINE)] or [b""]
    shown = lines if show_all else lines[:_MOST_LINES]
    for index, line in enumerate(shown):
        text = f"{run.start + index * _BYTES_A_LINE:08x}  {line.hex(' '):<47}"
        yield f"{text}  {_label(run):<{width}}  {run.text()}" if index == 0 else text.rstrip()
    if len(shown) < len(lines):
        yield f"          ... {len(raw) - len(shown) * _BYTES_A_LINE} bytes more"
