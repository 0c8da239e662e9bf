"""``kafkaframes report PATH... -o report.html``: what a log holds and what is wrong with it, on one page."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from kafkaframes import __version__
from kafkaframes.cli import workers
from kafkaframes.cli.options import reads, selection_options, with_options, workers_option
from kafkaframes.cli.text import count_text, say, size_text
from kafkaframes.errors import OptionError
from kafkaframes.files.atomic import refuse_inside
from kafkaframes.log.discover import discover
from kafkaframes.log.selection import selected
from kafkaframes.report.measure import Measured, Task, measure_segment
from kafkaframes.report.model import Report
from kafkaframes.report.page import report_page
from kafkaframes.report.survey import make_report

EXIT_UNREAD = 1
PAGE, JSON = "html", "json"
_STANDARD_OUTPUT = "-"


def _run(tasks: Sequence[Task], *, jobs: int | None) -> Iterator[Measured]:
    return workers.in_order(
        measure_segment, tasks, size_of=lambda task: task.segment.size_bytes, workers=jobs, label="measuring"
    )


def _milliseconds(text: str | None) -> int:
    """Return a time given in ISO 8601 as milliseconds; without one the clock's, or SOURCE_DATE_EPOCH's."""
    if text is None:
        fixed = os.environ.get("SOURCE_DATE_EPOCH")
        return int(fixed) * 1000 if fixed and fixed.isdecimal() else time.time_ns() // 1_000_000
    try:
        given = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(f"--generated-at {text}: a time as 2026-11-21T15:00:00 is wanted") from error
    return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)


def _write(text: str, output: str) -> None:
    """Write the file as a whole or not at all."""
    if output == _STANDARD_OUTPUT:
        click.echo(text, nl=not text.endswith("\n"))
        return
    target = Path(output)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OptionError(f"-o {output}: cannot be written: {error.strerror or error}") from error


def _check(output: str, sources: Sequence[str]) -> None:
    """Tell a mistake before minutes of reading."""
    target = Path(output)
    if output != _STANDARD_OUTPUT and (target.is_dir() or not target.absolute().parent.is_dir()):
        what = "is a directory" if target.is_dir() else "its directory does not exist"
        raise OptionError(f"-o {output}: {what}")
    if output != _STANDARD_OUTPUT:
        refuse_inside(target, sources)


def _said(report: Report, output: str) -> str:
    errors = report.errors()
    verdict = f"{count_text(errors, 'error')} found" if errors else "no damage found"
    counted = f"{count_text(len(report.topics), 'topic')}, {count_text(report.total('records'), 'record')}"
    return f"{output}: {counted}, {size_text(report.total('size_bytes'))}; {verdict}"


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o", "--output", metavar="FILE", help="Where it goes, - for standard output.  [default: report.html; - for json]"
)
@click.option(
    "--format",
    "kind",
    type=click.Choice([PAGE, JSON]),
    default=PAGE,
    show_default=True,
    help="A page, or the same numbers as JSON.",
)
@click.option("--generated-at", metavar="TIME", help="The time on the page (ISO 8601, UTC); by default now.")
@with_options(*selection_options, workers_option)
@reads("paths")
def command(
    paths: tuple[str, ...],
    output: str | None,
    kind: str,
    generated_at: str | None,
    jobs: int | None,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    storage: dict[str, Any],
) -> None:
    """Report what is in Kafka logs on one page that needs no network.

    Sizes by topic and codec, compression, record sizes, records over time, producers, transactions, distinct
    keys, record formats, copies that differ, damage. Every record is read, nothing is changed.

    PATH is a broker's log directory, a directory of such, a partition, a segment, a pattern, a tiered store, or a
    URL of one of these. Give the directories of several brokers to compare their copies.

    Exit status: 0 when the report was written, whatever damage it tells of; 1 when it was written and something could
    not be read; 2 when there is nothing to report on.

    Example: kafkaframes report /var/lib/kafka/data -o report.html
    """
    to = output or ("report.html" if kind == PAGE else _STANDARD_OUTPUT)
    when = _milliseconds(generated_at)
    _check(to, paths)
    found = selected(discover(paths, options=storage), topics, partitions)
    run = partial(_run, jobs=jobs)
    report = make_report(found, paths=paths, version=__version__, generated_at=when, options=storage, run=run)
    _write(report_page(report) if kind == PAGE else json.dumps(report.as_json()), to)
    if to != _STANDARD_OUTPUT:
        say(_said(report, to))
    if any(one.check == "unreadable" for one in report.findings):
        sys.exit(EXIT_UNREAD)
