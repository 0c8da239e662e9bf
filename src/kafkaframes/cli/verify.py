"""``kafkaframes verify LOGDIR...``: checks that a log is undamaged. The exit status is the result."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_log_settings,
    json_option,
    master_option,
    workers_option,
)
from kafkaframes.cli.text import format_size, make_console, print_styled, print_text
from kafkaframes.cli.workers import open_runner
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.settings import VerifySettings
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.log.discover import discover, select_partitions

if TYPE_CHECKING:
    from kafkaframes.jobs.verify.verify import VerifyReport

EXIT_DAMAGED = 1  # exit status if there are errors, or warnings with --strict


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--all", "show_all", is_flag=True, help="Print all findings instead of the first twenty of each kind.")
@click.option("--strict", is_flag=True, help="Also exit with status 1 on warnings.")
@add_click_options(workers_option, master_option, json_option)
@add_budget_option
@add_log_settings("paths", kind=VerifySettings)
def command(
    paths: tuple[str, ...],
    settings: VerifySettings,
    as_json: bool,
    show_all: bool,
    strict: bool,
    jobs: int | None,
    master: str | None,
) -> None:
    """Verify logs: CRCs, framing, offsets, epochs, sequences, indexes, transactions, checkpoints.

    Exit status: 0 undamaged, 1 damaged (errors were found, or with --strict warnings), 2 nothing to verify. Notes and
    warnings do not affect records, because a broker rebuilds indexes and snapshots.

    All copies of a partition are verified. If there are several copies (brokers, disks), the output also shows how they
    would be merged, and whether the merged log has all offsets undamaged.
    """
    from kafkaframes.jobs.verify.verify import add_copies, verify
    from kafkaframes.scan.log.log_range import resolve_ranges

    directories = discover(paths, options=settings.storage, omit_unreadable=True)
    result = select_partitions(directories, settings.topic_names, settings.partition_numbers)
    ranges = resolve_ranges(settings.selection, result, paths)
    with open_runner(master, jobs, label="verifying", small=True) as work:
        report = verify(result, ranges=ranges, deep=settings.deep, run=work)
    if settings.replicas == "merge":
        add_copies(report, result, paths, ranges=ranges, options=settings.storage)
    if report.not_merged:
        print_text(f"kafkaframes: not merged: {report.not_merged}", err=True)
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        _print_report(report, show_all=show_all)
        if report.merge_text:
            print_text(report.merge_text)
    limit = Severity.WARNING if strict else Severity.ERROR
    if any(finding.severity >= limit for finding in report.findings):
        sys.exit(EXIT_DAMAGED)


MAX_PRINTED_FINDINGS = 20  # largest number of printed findings of one check; --all shows all
_STYLES_BY_SEVERITY = {Severity.NOTE: "dim", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def _print_report(report: VerifyReport, *, show_all: bool) -> None:
    out = make_console()
    printed_findings: Counter[tuple[Severity, str]] = Counter()
    for finding in report.findings:
        kind = finding.severity, finding.check
        printed_findings[kind] += 1
        if show_all or printed_findings[kind] <= MAX_PRINTED_FINDINGS:
            print_styled(out, str(finding), style=_STYLES_BY_SEVERITY[finding.severity], soft_wrap=True)
    for (severity, check), count in printed_findings.items():
        if count > MAX_PRINTED_FINDINGS and not show_all:
            hidden_text = f"{severity.name.lower()}: {check}: and {count - MAX_PRINTED_FINDINGS:,} more (--all)"
            print_styled(out, hidden_text, style=_STYLES_BY_SEVERITY[severity], soft_wrap=True)
    print_styled(out, _format_summary(report), style=_choose_summary_style(report), soft_wrap=True)


def _choose_summary_style(report: VerifyReport) -> str:
    """Return the color of the summary line: red, yellow with caveats, or green."""
    if not report.is_sound:
        return "bold red"
    return "yellow" if report.caveats else "green"


def _format_summary(report: VerifyReport) -> str:
    """Return the verdict, the numbers of items that were read, and the number of findings by severity."""
    by_severity = Counter(finding.severity for finding in report.findings)
    counts = ", ".join(
        count_text(by_severity[severity], severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if by_severity[severity]
    )
    counts_read = (report.partitions, "partition"), (report.segments, "segment"), (report.batches, "batch", "batches")
    read = ", ".join(starmap(count_text, counts_read))
    return f"{report.verdict}: {read}, {format_size(report.size_bytes)}; {counts or 'nothing found'}"
