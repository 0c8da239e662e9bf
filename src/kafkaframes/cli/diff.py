"""``kafkaframes diff``: two encodings side by side, field by field: what does a broker refuse in this frame?"""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from kafkaframes.cli.frames import annotate, read_bytes, which_message
from kafkaframes.protocol.messages.annotate import Run, compare

_WIDTH: Final = 38


@click.command("diff")
@click.argument("left", metavar="HEX|FILE")
@click.argument("right", metavar="HEX|FILE")
@which_message
@click.option("--all", "show_all", is_flag=True, help="also what is equal")
def command(left: str, right: str, show_all: bool, **which: Any) -> None:
    """Print the fields in which two encodings of one kind of message differ; exit 1 if any does.

    The bytes count: two ways to write the same value differ too.
    """
    data = read_bytes(left), read_bytes(right)
    annotated = [annotate(one, **which) for one in data]
    differ = False
    for one, other in compare(*annotated):
        same = one is not None and other is not None and _raw(data[0], one) == _raw(data[1], other)
        differ |= not same
        if show_all or not same:
            click.echo(_line(data, one, other, same))
    for side, result in zip(("left", "right"), annotated, strict=True):
        if result.error is not None:
            differ = True
            click.echo(f"! {side}: {result.error}")
    sys.exit(1 if differ else 0)


def _raw(data: bytes, run: Run) -> bytes:
    return data[run.start : run.end]


def _line(data: tuple[bytes, bytes], one: Run | None, other: Run | None, same: bool) -> str:
    run = one or other
    assert run is not None
    sides = [_side(raw, side) for raw, side in zip(data, (one, other), strict=True)]
    return f"{' ' if same else '*'} {sides[0]:<{_WIDTH}} | {sides[1]:<{_WIDTH}} {run.path} ({run.what})"


def _side(data: bytes, run: Run | None) -> str:
    if run is None:
        return "-"
    raw = _raw(data, run)
    text = f"{run.start:06x} {raw[:6].hex()}{'..' if len(raw) > 6 else ''} {run.text()}"
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 2]}.."
