"""``kafkaframes spec lint``: errors that Kafka's generator would stop at, and warnings about what it lets pass."""

from __future__ import annotations

from collections.abc import Iterator

import click

from kafkaframes.cli.spec_sources import published
from kafkaframes.cli.text import say
from kafkaframes.errors import SpecError
from kafkaframes.protocol.spec.catalog.importing import Published
from kafkaframes.protocol.spec.check import pair_findings
from kafkaframes.protocol.spec.jsontext import JsonText
from kafkaframes.protocol.spec.lint import lint, lint_set
from kafkaframes.protocol.spec.load import NEWEST, PUBLISHED, build, declaration, problems_of
from kafkaframes.protocol.spec.model import MessageSpec


@click.command("lint")
@click.argument("places", metavar="FILE|DIR|JAR|ZIP...", nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Warnings fail too.")
def command(places: tuple[str, ...], strict: bool) -> None:
    """Check message specs by the rules of Kafka's generator, and warn of what it accepts though it is useless or wrong.

    Exit status: 0 clean or warnings only, 1 errors, 2 not readable.
    """
    files = [one for place in places for one in published(place)]
    errors = warnings = 0
    specs: list[MessageSpec] = []
    for one in files:
        for is_error, line in _judge(one, specs):
            errors, warnings = errors + is_error, warnings + (not is_error)
            _print_line(is_error, line)
    for line in _between(specs) if len(files) > 1 else ():
        warnings += 1
        _print_line(False, line)
    click.echo(f"{len(files)} files, {errors} errors, {warnings} warnings")
    raise SystemExit(int(bool(errors or (strict and warnings))))


def _print_line(is_error: bool, line: str) -> None:
    click.secho("error:   " if is_error else "warning: ", fg="red" if is_error else "yellow", nl=False)
    say(line)


def _judge(one: Published, specs: list[MessageSpec]) -> Iterator[tuple[bool, str]]:
    """Yield (is it an error, line) for one file; a spec without errors joins ``specs``."""
    dialect = PUBLISHED if one.release != "0" else NEWEST
    try:
        document = JsonText(one.text, file=one.file)
    except SpecError as error:
        yield True, str(error)
        return
    problems = list(problems_of(document, dialect))
    is_good = not problems
    if is_good:
        declared = declaration(document, dialect)
        specs.append(build(declared))
        problems = list(lint(document, declared))
        if document.trailing:
            yield False, f"{one.file}:{document.trailing_line}: text after the closing brace (one-object)"
    for problem in problems:
        path = ".".join(problem.path)
        line = document.line_of(problem.where)
        yield not is_good, f"{one.file}:{line}: {f'{path}: ' if path else ''}{problem.reason} ({problem.rule})"


def _between(specs: list[MessageSpec]) -> Iterator[str]:
    for rule, message, reason in lint_set(specs):
        yield f"{message}: {reason} ({rule})"
    for finding in pair_findings(specs):
        yield f"{finding.message}: {finding.text} ({finding.rule.name})"
