"""``kafkaframes spec check``, ``lint``, ``tags``: checks specs alone, against older specs, and against proposals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from kafkaframes.cli.options import json_option_of
from kafkaframes.cli.spec_import import load_specs, read_published
from kafkaframes.cli.text import print_table, say
from kafkaframes.errors import SpecError
from kafkaframes.errors.words import count_text
from kafkaframes.protocol.spec.catalog.importing import PublishedSpec
from kafkaframes.protocol.spec.catalog.ledgers import Tag, collisions, is_same, next_free, registry, tags_of
from kafkaframes.protocol.spec.changes import SEVERITY, SpecChange, worst
from kafkaframes.protocol.spec.evolution import check_sets, compare, pair_findings
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.lint import lint, lint_set
from kafkaframes.protocol.spec.load import NEWEST, PUBLISHED, build, declaration, problems_of
from kafkaframes.protocol.spec.model import MessageSpec


@click.command("lint")
@click.argument("paths", metavar="FILE|DIR|JAR|ZIP...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Warnings fail too.")
@click.option(
    "--tagged-errors", is_flag=True, help="Warn of every error code and message that is not tagged (KIP-636)."
)
def lint_files(paths: tuple[str, ...], strict: bool, tagged_errors: bool) -> None:
    """Check message specs by the rules of Kafka's generator, and warn of mistakes that it accepts.

    A response with errors in tagged fields, as `spec rewrite kip-636` writes it, is also checked for error codes and
    messages that were added later without a tag. --tagged-errors checks all responses for untagged errors.

    Exit status: 0 clean or warnings only, 1 errors, 2 not readable.
    """
    files = [one for path in paths for one in read_published(path)]
    errors = warnings = 0
    specs: list[MessageSpec] = []
    for file in files:
        for is_error, line in _judge(file, specs, tagged_errors=tagged_errors):
            errors, warnings = errors + is_error, warnings + (not is_error)
            _print_line(is_error, line)
    for line in _between(specs) if len(files) > 1 else ():
        warnings += 1
        _print_line(False, line)
    click.echo(f"{count_text(len(files), 'file')}, {count_text(errors, 'error')}, {count_text(warnings, 'warning')}")
    raise SystemExit(int(bool(errors or (strict and warnings))))


def _print_line(is_error: bool, line: str) -> None:
    click.secho("error:   " if is_error else "warning: ", fg="red" if is_error else "yellow", nl=False)
    say(line)


def _judge(entry: PublishedSpec, specs: list[MessageSpec], *, tagged_errors: bool) -> Iterator[tuple[bool, str]]:
    """Yield (is it an error, line) for a file. A spec without errors is added to ``specs``."""
    dialect = PUBLISHED if entry.release != "0" else NEWEST
    try:
        document = JsonText(entry.text, file=entry.file)
    except SpecError as error:
        yield True, str(error)
        return
    problems = list(problems_of(document, dialect))
    is_good = not problems
    if is_good:
        declared_message = declaration(document, dialect)
        specs.append(build(declared_message))
        problems = list(lint(document, declared_message, tagged_errors=tagged_errors))
        if document.trailing:
            yield False, f"{entry.file}:{document.trailing_line}: text after the closing brace (one-object)"
    for problem in problems:
        path = ".".join(problem.path)
        line = document.line_of(problem.where)
        yield not is_good, f"{entry.file}:{line}: {f'{path}: ' if path else ''}{problem.reason} ({problem.rule})"


def _between(specs: list[MessageSpec]) -> Iterator[str]:
    for rule, message, reason in lint_set(specs):
        yield f"{message}: {reason} ({rule})"
    for finding in pair_findings(specs):
        yield f"{finding.message}: {finding.text} ({finding.rule.name})"


@click.command("tags")
@click.argument("pattern", required=False, default="")
@click.option("--specs", "sources", multiple=True, metavar="DIR|FILE", help="A proposal; give several to compare them.")
@json_option_of("One JSON object a line.")
def tags(pattern: str, sources: tuple[str, ...], as_json: bool) -> None:
    """List the tags of Kafka's messages: the field that has each, its versions, its first release.

    PATTERN keeps the messages with names that contain it. With --specs, list the tags of proposals and compare them
    with the releases and with each other: a struct's tag belongs to one field for ever. Exit status 1 if two fields
    claim one tag.
    """
    proposals = {source: list(load_specs(source).values()) for source in sources}
    own_tags = [tag for specs in proposals.values() for spec in specs for tag in tags_of(spec)]
    table = [tag for tag in own_tags or registry().values() if pattern.lower() in tag.message.lower()]
    table.sort(key=lambda tag: tag.key)
    if as_json:
        for tag in table:
            click.echo(json.dumps(tag._asdict() | {"since": _since(tag)}))
    else:
        _print_tags(table)
    clashes = list(collisions(proposals))
    for clash in clashes:
        tag = clash.tag
        click.echo(f"collision: {tag.message}.{tag.struct} tag {tag.number} ({tag.field}): {clash.text}", err=as_json)
    sys.exit(bool(clashes))


def _print_tags(table: list[Tag]) -> None:
    free = next_free([*registry().values(), *table])
    rows = [
        (tag.message, tag.struct if tag.struct != tag.message else "", *_cells(tag), str(free[tag.message, tag.struct]))
        for tag in table
    ]
    print_table(("message", "struct", "tag", "field", "type", "versions", "since", "before", "next free"), rows)
    click.echo(f"{count_text(len(table), 'tag')}")


def _cells(tag: Tag) -> tuple[str, ...]:
    earlier_releases = ", ".join(f"{name} ({release})" for name, release in tag.before)
    return str(tag.number), tag.field, tag.type, tag.versions, _since(tag) or "", earlier_releases


def _since(tag: Tag) -> str | None:
    """Return the first release with a tag. The tags of a proposal are looked up."""
    registered = registry().get(tag.key)
    return tag.since or (registered.since if registered is not None and is_same(registered, tag) else None)


_STYLES = {"breaking": "bold red", "note": "yellow", "compatible": "green"}


@click.command("check")
@click.argument("old")
@click.argument("new")
@json_option_of("One JSON object a line and finding.")
@click.option("--level", type=click.Choice(list(SEVERITY)), default="note", show_default=True, help="Least to print.")
@click.option("--strict", is_flag=True, help="Notes fail too.")
def check(old: str, new: str, as_json: bool, level: str, strict: bool) -> None:
    """Compare two specs, or two sets of them, by KIP-482's rules of evolution.

    OLD and NEW are files, directories, jars, zips or REF:path in this git repository
    (main:clients/src/main/resources/common/message). The layout of each version in both is compared field by field, and
    every tag is followed over all versions.

    Exit status: 0 compatible (perhaps with notes), 1 breaking, 2 not readable.
    """
    old_specs, new_specs = _load(old), _load(new, is_new=True)
    if len(old_specs) == len(new_specs) == 1:
        result = compare(*old_specs.values(), *new_specs.values())
    else:
        result = list(check_sets(old_specs, new_specs))
    rows = [one for one in result if SEVERITY[one.verdict] >= SEVERITY[level]]
    if as_json:
        for entry in rows:
            click.echo(json.dumps(_row(entry)))
    else:
        _print(rows, result, len(new_specs))
    verdict = worst(result)
    raise SystemExit(int(verdict == "breaking" or (strict and verdict == "note")))


def _load(path: str, *, is_new: bool = False) -> dict[str, MessageSpec]:
    """Load the specs of a source. Archives are checked less strictly than new files, which must satisfy all rules."""
    is_source = is_new and not path.endswith((".jar", ".zip"))
    return load_specs(path, NEWEST if is_source else PUBLISHED)


def _row(entry: SpecChange) -> dict[str, Any]:
    return {
        "verdict": entry.verdict,
        "message": entry.message,
        "field": ".".join(entry.path),
        "versions": entry.versions,
        "rule": entry.rule.name,
        "change": entry.text,
        "because": entry.rule.source,
    }


def _print(rows: Iterable[SpecChange], result: list[SpecChange], messages: int) -> None:
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
        style = _STYLES[entry.verdict]
        text = escape(prefix + entry.text)
        console.print(f"  [{style}]{entry.verdict:<10}[/] {text}{versions_text} [dim]({entry.rule.name})[/dim]")
        reasons[entry.rule.name] = entry.rule.source
    if reasons:
        console.print()
        for name, source in reasons.items():
            console.print(f"[dim]{name}: {escape(source)}[/dim]")
        console.print()
    counts = ", ".join(
        f"{sum(one.verdict == verdict for one in result)} {verdict}" for verdict in ("breaking", "note", "compatible")
    )
    style = _STYLES[worst(result)]
    console.print(f"[{style}]{worst(result)}[/]: {count_text(messages, 'message')}, {counts} changes")
