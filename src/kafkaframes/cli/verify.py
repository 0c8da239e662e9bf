"""``kafkaframes verify LOGDIR...``: checks that a log is undamaged. The exit status is the result."""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import starmap
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.options import (
    json_option,
    master_option,
    opens_batches,
    reads,
    with_options,
    workers_option,
)
from kafkaframes.cli.text import console, format_size, say, show
from kafkaframes.cli.workers import runner
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.settings import VerifySettings
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.log.discover import discover, select_partitions

if TYPE_CHECKING:
    from kafkaframes.jobs.verify.verify import VerifyReport

EXIT_DAMAGED = 1


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="LOGDIR...")
@click.option("--all", "show_all", is_flag=True, help="Print every finding, not only the first twenty of each kind.")
@click.option("--strict", is_flag=True, help="Exit 1 on warnings, too.")
@with_options(workers_option, master_option, json_option)
@opens_batches
@reads("paths", kind=VerifySettings)
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

    Exit status: 0 sound, 1 damaged (an error was found; with --strict a warning, too), 2 nothing to verify.
    Notes and warnings lose no record: a broker rebuilds indexes and snapshots.

    Every copy of a partition is verified. If there are several (brokers, disks), the output also shows how they would
    be merged, and whether the merged log has every offset undamaged.
    """
    from kafkaframes.jobs.verify.verify import add_copies, verify
    from kafkaframes.scan.log.log_range import resolve_ranges

    directories = discover(paths, options=settings.storage)
    result = select_partitions(directories, settings.topic_names, settings.partition_numbers)
    ranges = resolve_ranges(settings.selection, result, paths)
    with runner(master, jobs, label="verifying", small=True) as work:
        report = verify(result, ranges=ranges, deep=settings.deep, run=work)
    if settings.replicas == "merge":
        add_copies(report, result, paths, ranges=ranges, options=settings.storage)
    if report.not_merged:
        say(f"kafkaframes: not merged: {report.not_merged}", err=True)
    if as_json:
        click.echo(json.dumps(report.as_json()))
    else:
        _print(report, show_all=show_all)
        if report.merge_text:
            say(report.merge_text)
    limit = Severity.WARNING if strict else Severity.ERROR
    if any(finding.severity >= limit for finding in report.findings):
        sys.exit(EXIT_DAMAGED)


MAX_FINDINGS = 20  # largest number of printed findings of one check; --all shows all
_STYLES = {Severity.NOTE: "dim", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def _print(report: VerifyReport, *, show_all: bool) -> None:
    out = console()
    printed_findings: Counter[tuple[Severity, str]] = Counter()
    for finding in report.findings:
        kind = finding.severity, finding.check
        printed_findings[kind] += 1
        if show_all or printed_findings[kind] <= MAX_FINDINGS:
            show(out, str(finding), style=_STYLES[finding.severity], soft_wrap=True)
    for (severity, check), count in printed_findings.items():
        if count > MAX_FINDINGS and not show_all:
            hidden_text = f"{severity.name.lower()}: {check}: and {count - MAX_FINDINGS:,} more (--all)"
            show(out, hidden_text, style=_STYLES[severity], soft_wrap=True)
    show(out, _summary(report), style=_style(report), soft_wrap=True)


def _style(report: VerifyReport) -> str:
    if not report.is_sound:
        return "bold red"
    return "yellow" if report.caveats else "green"


def _summary(report: VerifyReport) -> str:
    by_severity = Counter(finding.severity for finding in report.findings)
    counts = ", ".join(
        count_text(by_severity[severity], severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if by_severity[severity]
    )
    counts_read = (report.partitions, "partition"), (report.segments, "segment"), (report.batches, "batch", "batches")
    read = ", ".join(starmap(count_text, counts_read))
    return f"{report.verdict}: {read}, {format_size(report.size_bytes)}; {counts or 'nothing found'}"
