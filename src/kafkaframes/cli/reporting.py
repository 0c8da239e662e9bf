"""What ``report`` does: measure every segment, and write one page or one JSON object."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from kafkaframes import __version__
from kafkaframes.cli.options import PAGE
from kafkaframes.cli.text import count_text, say, size_text
from kafkaframes.cli.workers import runner
from kafkaframes.errors import OptionError
from kafkaframes.jobs.report.model import Report
from kafkaframes.jobs.report.page import report_page
from kafkaframes.jobs.report.survey import make_report
from kafkaframes.jobs.settings import SelectionSettings
from kafkaframes.storage.files.atomic import named_file, refuse_inside
from kafkaframes.storage.log.discover import discover, selected

EXIT_UNREAD = 1
_STANDARD_OUTPUT = "-"


def _milliseconds(text: str | None) -> int:
    """Return a time given in ISO 8601 as milliseconds; without one the clock's, or SOURCE_DATE_EPOCH's."""
    if text is None:
        fixed = os.environ.get("SOURCE_DATE_EPOCH")
        return int(fixed) * 1000 if fixed and fixed.isdecimal() else time.time_ns() // 1_000_000
    try:
        flags = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(f"--generated-at {text}: must be a time such as 2026-11-21T15:00:00") from error
    return int((flags if flags.tzinfo else flags.replace(tzinfo=UTC)).timestamp() * 1000)


def _write(text: str, output: str) -> None:
    if output == _STANDARD_OUTPUT:
        click.echo(text, nl=not text.endswith("\n"))
        return
    with named_file(output) as out:
        out.write(text.encode("utf-8", "backslashreplace"))


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


def run_on_traffic(
    paths: Sequence[str], output: str | None, kind: str, generated_at: str | None, specs: str | None
) -> None:
    """Report on captures and request logs."""
    from kafkaframes.capture.files import find_files
    from kafkaframes.jobs.report.traffic import make_traffic_report
    from kafkaframes.jobs.report.traffic_page import traffic_page

    to = output or ("report.html" if kind == PAGE else _STANDARD_OUTPUT)
    when = _milliseconds(generated_at)
    _check(to, paths)
    report = make_traffic_report(find_files(paths), specs=specs)
    text = (
        traffic_page(report, version=__version__, generated_at=when) if kind == PAGE else json.dumps(report.as_json())
    )
    _write(text, to)
    if to != _STANDARD_OUTPUT:
        say(f"{to}: {count_text(report.calls, 'call')}")


def run(
    *,
    paths: tuple[str, ...],
    output: str | None,
    kind: str,
    generated_at: str | None,
    jobs: int | None,
    settings: SelectionSettings,
) -> None:
    """Write the report on ``paths`` to a file, or to standard output."""
    to = output or ("report.html" if kind == PAGE else _STANDARD_OUTPUT)
    when = _milliseconds(generated_at)
    _check(to, paths)
    result = selected(discover(paths, options=settings.storage), settings.topics, settings.partitions)
    with runner(None, jobs, label="measuring") as work:
        report = make_report(
            result, paths=paths, version=__version__, generated_at=when, options=settings.storage, run=work
        )
    _write(report_page(report) if kind == PAGE else json.dumps(report.as_json()), to)
    if to != _STANDARD_OUTPUT:
        say(_said(report, to))
    if any(one.check == "unreadable" for one in report.findings):
        sys.exit(EXIT_UNREAD)
