"""``kafkaframes spec check``, ``lint``, ``tags``: check specs alone, against older specs, and against proposals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import starmap
from typing import Any

import click

from kafkaframes.cli.options import make_json_option
from kafkaframes.cli.text import print_table, print_text
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.spec.catalog.ledgers import Tag, is_same_field, make_tag_registry, next_free_tags
from kafkaframes.protocol.spec.changes import SEVERITY_BY_VERDICT, SpecChange, SpecCheck
from kafkaframes.protocol.spec_functions import check_specs, lint_specs, list_tags


@click.command("lint")
@click.argument("paths", metavar="FILE|DIR|JAR|ZIP...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@click.option(
    "--tagged-errors", is_flag=True, help="Warn about every error code and error message that is not tagged (KIP-636)."
)
def lint_files(paths: tuple[str, ...], strict: bool, tagged_errors: bool) -> None:
    """Check message specs by the rules of Kafka's generator, and warn about mistakes that the generator accepts.

    A response with errors in tagged fields, as `spec rewrite kip-636` writes it, is also checked for error codes and
    messages that were added later without a tag. --tagged-errors checks all responses for untagged errors.

    Exit status: 0 no errors, 1 errors, 2 unreadable specs.
    """
    result = lint_specs(paths, tagged_errors=tagged_errors)
    for finding in result.findings:
        _print_line(finding.is_error, finding.text)
    counts = ((result.files, "file"), (result.errors, "error"), (result.warnings, "warning"))
    click.echo(", ".join(starmap(count_text, counts)))
    raise SystemExit(int(bool(result.errors or (strict and result.warnings))))


def _print_line(is_error: bool, line: str) -> None:
    click.secho("error:   " if is_error else "warning: ", fg="red" if is_error else "yellow", nl=False)
    print_text(line)


@click.command("tags")
@click.argument("pattern", required=False, default="")
@click.option(
    "--specs",
    "sources",
    multiple=True,
    metavar="DIR|FILE",
    help="Specs of a proposal; repeatable, to compare several proposals.",
)
@make_json_option("Print one JSON object per line.")
def list_tags_command(pattern: str, sources: tuple[str, ...], as_json: bool) -> None:
    """List the tags of Kafka's messages with their fields, versions and first releases.

    PATTERN selects the messages whose names contain it. With --specs, list the tags of proposals and compare them with
    the releases and with each other: a tag of a struct always belongs to the same field. Exit status: 1 if two fields
    have the same tag.
    """
    result = list_tags(specs=sources)
    table = [tag for tag in result.tags if pattern.lower() in tag.message.lower()]
    if as_json:
        for tag in table:
            click.echo(json.dumps(tag._asdict() | {"since": _find_first_release(tag)}))
    else:
        _print_tags(table)
    for clash in result.collisions:
        tag = clash.tag
        click.echo(f"collision: {tag.message}.{tag.struct} tag {tag.number} ({tag.field}): {clash.text}", err=as_json)
    sys.exit(bool(result.collisions))


def _print_tags(table: list[Tag]) -> None:
    free = next_free_tags([*make_tag_registry().values(), *table])
    rows = [
        (
            tag.message,
            tag.struct if tag.struct != tag.message else "",
            *_format_tag(tag),
            str(free[tag.message, tag.struct]),
        )
        for tag in table
    ]
    print_table(("message", "struct", "tag", "field", "type", "versions", "since", "before", "next free"), rows)
    click.echo(f"{count_text(len(table), 'tag')}")


def _format_tag(tag: Tag) -> tuple[str, ...]:
    """Return a tag's cells: number, field, type, versions, first release and earlier releases."""
    earlier_releases = ", ".join(f"{name} ({release})" for name, release in tag.before)
    return str(tag.number), tag.field, tag.type, tag.versions, _find_first_release(tag) or "", earlier_releases


def _find_first_release(tag: Tag) -> str | None:
    """Return the first release with a tag. If the specs do not name it, the same field of Kafka's own specs does."""
    kafka_tag = make_tag_registry().get(tag.key)
    return tag.since or (kafka_tag.since if kafka_tag is not None and is_same_field(kafka_tag, tag) else None)


_STYLES_BY_VERDICT = {"breaking": "bold red", "note": "yellow", "compatible": "green"}


@click.command("check")
@click.argument("old")
@click.argument("new")
@make_json_option("Print one JSON object per line, one for each finding.")
@click.option(
    "--level", type=click.Choice(list(SEVERITY_BY_VERDICT)), default="note", show_default=True, help="Least to print."
)
@click.option("--strict", is_flag=True, help="Notes fail too.")
def check_compatibility(old: str, new: str, as_json: bool, level: str, strict: bool) -> None:
    """Compare two specs, or two sets of specs, by KIP-482's rules for compatible changes.

    OLD and NEW are files, directories, jars, zips or REF:path in this git repository
    (main:clients/src/main/resources/common/message). The layout of each version in both is compared field by field, and
    every tag is followed across all versions.

    Exit status: 0 compatible (possibly with notes), 1 breaking, 2 unreadable specs.
    """
    result = check_specs(old, new)
    rows = [change for change in result.changes if SEVERITY_BY_VERDICT[change.verdict] >= SEVERITY_BY_VERDICT[level]]
    if as_json:
        for entry in rows:
            click.echo(json.dumps(_change_to_json(entry)))
    else:
        _print_result(rows, result)
    verdict = result.verdict
    raise SystemExit(int(verdict == "breaking" or (strict and verdict == "note")))


def _change_to_json(entry: SpecChange) -> dict[str, Any]:
    return {
        "verdict": entry.verdict,
        "message": entry.message,
        "field": ".".join(entry.path),
        "versions": entry.versions,
        "rule": entry.rule.name,
        "change": entry.text,
        "because": entry.rule.source,
    }


def _print_result(rows: Iterable[SpecChange], result: SpecCheck) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    message = None
    reasons: dict[str, str] = {}
    for entry in rows:
        if entry.message != message:
            message = entry.message
            console.print(f"[bold]{escape(message)}[/bold]")
        versions_text = f" in {entry.versions}" if entry.versions else ""
        prefix = f"{'.'.join(entry.path)}: " if entry.path else ""
        style = _STYLES_BY_VERDICT[entry.verdict]
        text = escape(prefix + entry.text)
        console.print(f"  [{style}]{entry.verdict:<10}[/] {text}{versions_text} [dim]({entry.rule.name})[/dim]")
        reasons[entry.rule.name] = entry.rule.source
    if reasons:
        console.print()
        for name, source in reasons.items():
            console.print(f"[dim]{name}: {escape(source)}[/dim]")
        console.print()
    counts = ", ".join(
        f"{sum(change.verdict == verdict for change in result.changes)} {verdict}"
        for verdict in ("breaking", "note", "compatible")
    )
    style = _STYLES_BY_VERDICT[result.verdict]
    console.print(f"[{style}]{result.verdict}[/]: {count_text(result.messages, 'message')}, {counts} changes")
