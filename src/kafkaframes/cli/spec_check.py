"""``kafkaframes spec check``: may the new specs follow the old ones? Exit 0, or 1 when a change breaks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.spec_sources import load_specs
from kafkaframes.protocol.spec.changes import SEVERITY, Finding, worst
from kafkaframes.protocol.spec.check import check_sets
from kafkaframes.protocol.spec.evolution import compare
from kafkaframes.protocol.spec.load import NEWEST, PUBLISHED
from kafkaframes.protocol.spec.model import MessageSpec

_STYLES = {"breaking": "bold red", "note": "yellow", "compatible": "green"}


@click.command("check")
@click.argument("old")
@click.argument("new")
@json_option_of("One JSON object a line and finding.")
@click.option("--level", type=click.Choice(list(SEVERITY)), default="note", show_default=True, help="Least to print.")
@click.option("--strict", is_flag=True, help="Notes fail too.")
def command(old: str, new: str, as_json: bool, level: str, strict: bool) -> None:
    """Compare two specs, or two sets of them, by KIP-482's rules of evolution.

    OLD and NEW are files, directories, jars, zips or REF:path in this git repository
    (main:clients/src/main/resources/common/message). Each version that both have is laid out and compared slot by
    slot, and every tag is followed over all versions.

    Exit status: 0 compatible (perhaps with notes), 1 breaking, 2 not readable.
    """
    before, after = _load(old), _load(new, is_new=True)
    if len(before) == len(after) == 1:
        found = compare(*before.values(), *after.values())
    else:
        found = list(check_sets(before, after))
    shown = [one for one in found if SEVERITY[one.verdict] >= SEVERITY[level]]
    if as_json:
        for one in shown:
            click.echo(json.dumps(_row(one)))
    else:
        _print(shown, found, len(after))
    verdict = worst(found)
    raise SystemExit(int(verdict == "breaking" or (strict and verdict == "note")))


def _load(place: str, *, is_new: bool = False) -> dict[str, MessageSpec]:
    """Load what lies at a place. A jar or zip is past mending; a new source file is held to all rules."""
    is_source = is_new and not place.endswith((".jar", ".zip"))
    return load_specs(place, NEWEST if is_source else PUBLISHED)


def _row(one: Finding) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "message": one.message,
        "field": ".".join(one.path),
        "versions": one.versions,
        "rule": one.rule.name,
        "change": one.text,
        "because": one.rule.source,
    }


def _print(shown: Iterable[Finding], found: list[Finding], messages: int) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    message = None
    reasons: dict[str, str] = {}
    for one in shown:
        if one.message != message:
            message = one.message
            console.print(f"[bold]{escape(message)}[/bold]")
        at = f" in {one.versions}" if one.versions else ""
        place = f"{'.'.join(one.path)}: " if one.path else ""
        style = _STYLES[one.verdict]
        console.print(f"  [{style}]{one.verdict:<10}[/] {escape(place + one.text)}{at} [dim]({one.rule.name})[/dim]")
        reasons[one.rule.name] = one.rule.source
    if reasons:
        console.print()
        for name, source in reasons.items():
            console.print(f"[dim]{name}: {escape(source)}[/dim]")
        console.print()
    counts = ", ".join(
        f"{sum(one.verdict == verdict for one in found)} {verdict}" for verdict in ("breaking", "note", "compatible")
    )
    style = _STYLES[worst(found)]
    console.print(f"[{style}]{worst(found)}[/]: {messages} messages, {counts} changes")
