"""``kafkaframes spec propose PROPOSAL [INPUT]...``: compares the size of real traffic before and after a change."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from kafkaframes.cli.options import make_json_option, ports_option, workers_option
from kafkaframes.cli.text import print_table, print_text
from kafkaframes.cli.workers import exit_if_unread, run_traffic_tasks, spark_option, split_traffic_tasks
from kafkaframes.errors.words import count_text, verb_text

if TYPE_CHECKING:
    from kafkaframes.jobs.analyze.outcome import SizeComparison, SizeTotals
    from kafkaframes.jobs.analyze.proposals import ProposalSettings
    from kafkaframes.jobs.analyze.scale import ByteRate

_COUNT_HEADINGS = ("count", "before", "after", "saved", "%")
_MAX_PRINTED_CHANGES = 60


@click.command("propose")
@click.argument("proposal", metavar="PROPOSAL")
@click.argument("paths", nargs=-1, metavar="[INPUT]...")
@click.option("--before", metavar="SPECS", help="Specs before the change  [default: the catalog].")
@click.option("--value", "values", multiple=True, metavar="PATH=VALUE", help="Value of a new field; repeatable.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["client", "connection", "second"]),
    help="Also print a table by this property.",
)
@click.option("--scale", "mix", metavar="MIX", help="Mix of calls for which to print bytes per second and per day.")
@click.option("-o", "--output", metavar="FILE", help="HTML page to write.")
@ports_option
@make_json_option("Print one JSON object per line, by API, version, direction, kind and --by.")
@spark_option
@workers_option
def command(
    proposal: str,
    paths: tuple[str, ...],
    before: str | None,
    values: tuple[str, ...],
    by: tuple[str, ...],
    mix: str | None,
    output: str | None,
    ports: str,
    as_json: bool,
    on_spark: bool,
    jobs: int | None,
) -> None:
    """Compare the size of real messages before and after a change of message specs.

    PROPOSAL is a file, folder, jar, zip or REF:path with the changed specs (other messages stay unchanged), or kip-636,
    flexible or tag-header. INPUT is a capture or a broker's request log. Each message is decoded with the old specs,
    and encoded with the new specs. A message's size with the old specs is compared with the recorded size (a request
    log only has the sizes of records). Messages of unchanged versions are raised to the newest version of the old and
    of the new specs.

    --value MetadataResponse.Topics.Owner=VALUE sets a new field: JSON (null, 7, "text"), 1..100 (numbers, or lengths of
    text), or @FILE.py:NAME, a function that gets the struct as a dict. Other new fields have their default values.

    MIX is a CSV file (api,version,calls_per_second) or recorded traffic. Break-even is the share of fields that may be
    set before moving them to tagged fields costs bytes.

    Exit status: 0, or 1 if a part of the traffic could not be read (see standard error).
    """
    from kafkaframes.capture.streams import parse_ports
    from kafkaframes.jobs.analyze.measure import make_proposal_settings, scale_mix
    from kafkaframes.jobs.analyze.outcome import SizeComparison, merge_outcomes
    from kafkaframes.jobs.analyze.size_comparison import ComparisonTask, run_comparison_task

    settings = make_proposal_settings(proposal, before, values, by)
    outcome = SizeComparison()
    if paths:
        tasks, share_bytes = split_traffic_tasks(paths, ports, jobs)
        work = [ComparisonTask(task, settings) for task in tasks]
        outcome = merge_outcomes(
            run_traffic_tasks(run_comparison_task, work, share_bytes, on_spark=on_spark, jobs=jobs)
        )
    rows = scale_mix(mix, outcome, settings, parse_ports(ports)) if mix is not None else []
    if output is not None:
        _write_page(output, settings, outcome, rows, paths)
    if as_json:
        _print_json(outcome, rows, settings)
    else:
        if not paths or settings.after is not None:
            _print_changes(settings, is_whole=not paths)
        _print_outcome(outcome, settings, by)
        _print_scaled(rows, settings)
    exit_if_unread(outcome.coverage)


def _write_page(
    output: str, settings: ProposalSettings, outcome: SizeComparison, rows: Sequence[ByteRate], paths: tuple[str, ...]
) -> None:
    from kafkaframes import __version__
    from kafkaframes.jobs.report.proposal_page import build_proposal_page
    from kafkaframes.storage.files.atomic import write_output

    write_output(output, build_proposal_page(settings, outcome, rows, paths=paths, version=__version__))


def _print_changes(settings: ProposalSettings, *, is_whole: bool) -> None:
    from kafkaframes.jobs.analyze.proposals import list_spec_changes

    changed_rows = list(list_spec_changes(settings))
    lines = 0
    for message, changes in changed_rows:
        if lines > _MAX_PRINTED_CHANGES and not is_whole:
            print_text(
                f"... and more: {count_text(len(changed_rows), 'message')} "
                f"{verb_text(len(changed_rows), 'changes', 'change')}; --output lists them all"
            )
            return
        lines += 1 + len(changes)
        print_text(f"{message}:" if changes else f"{message}: layout unchanged")
        for change in changes:
            print_text(f"  {change.kind} {'.'.join(change.path)}: {change.text}" if change.path else f"  {change.text}")


def _print_json(outcome: SizeComparison, rows: Sequence[ByteRate], settings: ProposalSettings) -> None:
    from kafkaframes.jobs.report.proposal_page import build_json_rows

    for row in build_json_rows(settings, outcome, rows):
        print_text(json.dumps(row))


def _print_outcome(outcome: SizeComparison, settings: ProposalSettings, by: tuple[str, ...]) -> None:
    from kafkaframes.jobs.analyze.proposals import SAME

    for kind, title in settings.proposal.kinds.items():
        selection = outcome.sum_totals_by("api_key", "api_version", "direction", kind=kind)
        totals_by_group = {
            size_group: size_totals for size_group, size_totals in selection.items() if size_totals.messages
        }
        if not totals_by_group:
            continue
        names = sorted(
            {name for size_totals in totals_by_group.values() for name in size_totals.counts} - _HIDDEN_COUNTS
        )
        rows = [
            [f"{settings.find_api_name(key)} {version} {direction}", *_format_totals(size_totals, names)]
            for (key, version, direction), size_totals in sorted(totals_by_group.items())
            if kind != SAME
        ]
        print_text(f"{title}:")
        totals = [
            ["all", *_format_totals(size_totals, names)] for size_totals in outcome.sum_totals_by(kind=kind).values()
        ]
        print_table(["message", *_COUNT_HEADINGS, *names, "break-even"], [*rows, *totals])
        for dimension in by:
            cells = [
                [name, *_format_totals(size_totals, names)]
                for name, size_totals in _group_totals(outcome, dimension, kind)
            ]
            print_text(f"{title}, by {dimension}:")
            print_table([dimension, *_COUNT_HEADINGS, *names, "break-even"], cells)
        _print_lengths(outcome.sum_totals_by(kind=kind)[()])
    for line in _format_omissions(outcome):
        print_text(line)


def _print_lengths(total: SizeTotals) -> None:
    from kafkaframes.jobs.analyze.outcome import summarize_lengths

    summaries = summarize_lengths(total)
    if not summaries:
        return
    print_text(
        "Lengths of arrays (in elements), strings, byte fields and record sets (in bytes); null counts as one byte:"
    )
    names = ("fields", "count", "null", "one-byte length", "at most 100", "median", "90 %", "99 %", "largest")
    rows = [
        [
            summary.kind,
            *map(str, (summary.count, summary.nulls)),
            *(f"{100 * share / summary.count:.2f} %" for share in (summary.one_byte, summary.hundred)),
            *(
                "-" if length is None else str(length)
                for length in (summary.median, summary.p90, summary.p99, summary.maximum)
            ),
        ]
        for summary in summaries
    ]
    print_table(names, rows)


_HIDDEN_COUNTS = frozenset({"bytes of unset", "moved", "moved and set"})  # counts that the table omits


def _group_totals(outcome: SizeComparison, dimension: str, kind: str) -> Iterator[tuple[str, SizeTotals]]:
    """Yield (label, totals) for each value of a dimension that has messages."""

    from kafkaframes.jobs.analyze.outcome import format_label

    for (name,), size_totals in sorted(
        outcome.sum_totals_by(dimension, kind=kind).items(), key=lambda item: str(item[0])
    ):
        if size_totals.messages:
            yield format_label(name), size_totals


def _format_totals(size_totals: SizeTotals, names: Sequence[str]) -> list[str]:
    """Return the cells of a row: counts, sizes before and after, the saved share and the break-even."""
    break_even_text = "" if size_totals.break_even_share is None else f"{100 * size_totals.break_even_share:.0f} %"
    numbers = (size_totals.messages, size_totals.before, size_totals.after, size_totals.saved_bytes)
    return [
        *map(str, numbers),
        f"{100 * size_totals.saved_share:.2f}",
        *(str(size_totals.counts[name]) for name in names),
        break_even_text,
    ]


def _format_omissions(outcome: SizeComparison) -> Iterator[str]:
    """Yield the lines after the tables: omitted messages with reasons, and the comparison with the wire sizes."""
    totals = outcome.sum_totals_by().values()
    checked_count, mismatched_count = (
        sum(getattr(size_totals, name) for size_totals in totals) for name in ("checked", "mismatched")
    )
    if outcome.totals_by_group:
        yield f"{count_text(checked_count, 'size')} compared with the recorded bytes, {mismatched_count} differ"
    if outcome.duration_s is not None:
        for (kind,), size_totals in outcome.sum_totals_by("kind").items():
            if size_totals.messages:
                before, after = (size / outcome.duration_s for size in (size_totals.before, size_totals.after))
                rates = f"{before:,.0f} bytes per second before, {after:,.0f} after"
                yield f"{kind}: {rates}, over {outcome.duration_s:,.1f} s"
    for (kind,), size_totals in outcome.sum_totals_by("kind").items():
        if size_totals.omitted_count:
            yield f"{kind}: {count_text(size_totals.omitted_count, 'message')}"
        reasons = Counter(size_totals.reasons)
        yield from (f"  {count} x {reason}" for reason, count in reasons.most_common())


def _print_scaled(rows: Sequence[ByteRate], settings: ProposalSettings) -> None:
    from kafkaframes.jobs.analyze.scale import EXAMPLE_TEXT_BYTES, SECONDS_PER_DAY

    for kind, title in settings.proposal.kinds.items():
        selection = [row for row in rows if row.kind == kind]
        if not selection:
            continue
        cells = [
            [
                f"{settings.find_api_name(row.api_key)} {row.api_version} {row.direction}",
                f"{row.calls_per_second:g}",
                *(f"{size:,.0f}" for size in (row.before, row.after, row.saved_bytes_per_s * SECONDS_PER_DAY)),
                row.basis,
            ]
            for row in selection
        ]
        size_before, size_after = (sum(getattr(row, name) for row in selection) for name in ("before", "after"))
        total = [
            "all",
            "",
            f"{size_before:,.0f}",
            f"{size_after:,.0f}",
            f"{(size_before - size_after) * SECONDS_PER_DAY:,.0f}",
            "",
        ]
        print_text(f"{title}, scaled:")
        print_table(["message", "calls/s", "bytes/s before", "after", "saved a day", "basis"], [*cells, total])
    if rows:
        print_text(
            "Assumptions: the size of a recorded message is the average of the measured messages of its version. An "
            "example"
        )
        print_text(
            f"has one element in each array, strings of {EXAMPLE_TEXT_BYTES} bytes, no errors and no tagged fields."
        )
