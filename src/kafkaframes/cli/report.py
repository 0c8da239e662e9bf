"""``kafkaframes report PATH... -o report.html``: the content of a log and its faults, on one page."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaframes import __version__
from kafkaframes.cli.options import (
    PAGE,
    add_budget_option,
    add_click_options,
    add_log_settings,
    choose_format,
    make_json_option,
    specs_option,
    workers_option,
)
from kafkaframes.cli.text import format_size, print_text
from kafkaframes.cli.workers import open_runner
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.settings import PartitionSettings
from kafkaframes.storage.files.atomic import reject_nested_destination, write_output
from kafkaframes.storage.log.discover import discover, select_partitions

if TYPE_CHECKING:
    from kafkaframes.jobs.report.model import LogReport


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="File to write: a page (.html) or JSON (.json); - is standard output.  [default: report.html]",
)
@make_json_option("Print the same numbers as one JSON object, or write them to FILE.")
@click.option("--generated-at", metavar="TIME", help="Time to show on the page (ISO 8601, UTC). Default: now.")
@specs_option
@add_click_options(workers_option)
@add_budget_option
@add_log_settings("paths", kind=PartitionSettings)
def command(as_json: bool, specs: str | None, **flags: Any) -> None:
    """Write a report about Kafka logs or traffic, as one HTML page that works offline.

    The page shows sizes by topic and codec, compression, record sizes, records over time, producers, transactions,
    distinct keys, record formats, different copies, and damage. All records are read; the log is not changed.

    PATH is a broker's log directory, a directory of them, a partition, a segment, a pattern, a tiered store, or a URL
    of one of these. Specify the directories of several brokers to compare their copies.

    PATH can also be recorded traffic (captures, request logs). The page then shows bytes, latency and errors by API,
    clients, the effects of an upgrade, the savings of KIP-636, and connections. --specs only applies to traffic.

    Exit status: 0 if the report was written, even if it reports damage; 1 if it was written, but a part could not be
    read; 2 if there is nothing to report on.

    Example: kafkaframes report /var/lib/kafka/data -o report.html
    """
    from kafkaframes.capture.files import is_traffic

    paths, kind = flags["paths"], choose_format(flags["output"], as_json, default=PAGE)
    is_of_traffic = all(map(is_traffic, paths))
    if specs is not None and not is_of_traffic:
        raise OptionError("--specs requires captures or request logs")
    to = flags["output"] or ("report.html" if kind == PAGE else _STANDARD_OUTPUT)
    when = _parse_report_time(flags["generated_at"])
    _check_arguments(to, paths)
    if is_of_traffic:
        _write_traffic_report(paths, to, kind, when, specs)
    else:
        _write_log_report(paths, to, kind, when, flags["jobs"], flags["settings"])


EXIT_UNREAD = 1  # exit status if a part of the sources could not be read
_STANDARD_OUTPUT = "-"


def _parse_report_time(text: str | None) -> int:
    """Return an ISO 8601 time in milliseconds; for None, SOURCE_DATE_EPOCH or the current time."""
    if text is None:
        fixed_time = os.environ.get("SOURCE_DATE_EPOCH")
        return int(fixed_time) * 1000 if fixed_time and fixed_time.isdecimal() else time.time_ns() // 1_000_000
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(f"--generated-at {text}; expected a time such as 2026-11-21T15:00:00") from error
    return int((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


def _write_page(text: str, output: str) -> None:
    if output == _STANDARD_OUTPUT:
        click.echo(text, nl=not text.endswith("\n"))
        return
    write_output(output, text)


def _check_arguments(output: str, sources: Sequence[str]) -> None:
    """Reject invalid arguments before the sources are read, which can take minutes."""
    target = Path(output)
    if output != _STANDARD_OUTPUT and (target.is_dir() or not target.absolute().parent.is_dir()):
        problem = "is a directory" if target.is_dir() else "its directory does not exist"
        raise OptionError(f"-o {output}: {problem}")
    if output != _STANDARD_OUTPUT:
        reject_nested_destination(target, sources)


def _format_summary_line(report: LogReport, output: str) -> str:
    """Return the line that describes a written report: its path, totals and number of errors."""
    errors = report.errors()
    verdict = f"{count_text(errors, 'error')} found" if errors else "no damage found"
    if report.caveats and not errors:
        verdict += f", but {' and '.join(report.caveats)}"
    counts = f"{count_text(len(report.topics), 'topic')}, {count_text(report.total('records'), 'record')}"
    return f"{output}: {counts}, {format_size(report.total('size_bytes'))}; {verdict}"


def _write_traffic_report(paths: Sequence[str], to: str, kind: str, when: int, specs: str | None) -> None:
    """Report on captures and request logs."""
    from kafkaframes.capture.files import find_files
    from kafkaframes.jobs.audit.audit import ALL
    from kafkaframes.jobs.report.traffic import make_traffic_report
    from kafkaframes.jobs.report.traffic_page import build_traffic_page

    report = make_traffic_report(find_files(paths), specs=specs)
    page = build_traffic_page(report, version=__version__, generated_at=when) if kind == PAGE else None
    _write_page(page or json.dumps(report.as_json()), to)
    if report.judged_text:
        print_text(report.judged_text, err=to == _STANDARD_OUTPUT)
    if to != _STANDARD_OUTPUT:
        print_text(f"{to}: {count_text(report.calls, 'call')}")
    if report.judged != ALL:
        sys.exit(EXIT_UNREAD)


def _write_log_report(
    paths: Sequence[str], to: str, kind: str, when: int, jobs: int | None, settings: PartitionSettings
) -> None:
    from kafkaframes.jobs.report.page import build_report_page
    from kafkaframes.jobs.report.survey import make_report

    directories = discover(paths, options=settings.storage, omit_unreadable=True)
    result = select_partitions(directories, settings.topic_names, settings.partition_numbers)
    options = settings.storage
    with open_runner(None, jobs, label="measuring") as work:
        report = make_report(result, paths=paths, version=__version__, generated_at=when, options=options, run=work)
    _write_page(build_report_page(report) if kind == PAGE else json.dumps(report.as_json()), to)
    if to != _STANDARD_OUTPUT:
        print_text(_format_summary_line(report, to))
    if any(finding.check == "unreadable" for finding in report.findings):
        sys.exit(EXIT_UNREAD)
