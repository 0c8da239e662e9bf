"""Draw a protocol proposal as one HTML page: the changes, their cost or savings, and the clients that they break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.analyze.outcome import (
    LengthSummary,
    SizeComparison,
    SizeTotals,
    format_label,
    summarize_lengths,
    totals_to_json,
)
from kafkaframes.jobs.analyze.proposals import ProposalSettings, list_spec_changes
from kafkaframes.jobs.analyze.scale import SECONDS_PER_DAY, ByteRate
from kafkaframes.jobs.report.sections import build_card, format_empty_text
from kafkaframes.jobs.report.tables import (
    Markup,
    TableColumn,
    build_html_page,
    format_paths,
    make_breakable,
    make_table,
    make_tag,
)
from kafkaframes.jobs.report.words import NO_VALUE_TEXT, format_size
from kafkaframes.protocol.spec.changes import SEVERITY_BY_VERDICT
from kafkaframes.protocol.spec.evolution import compare_sets

_MAX_CHANGES, _MAX_FINDINGS, _MAX_PATHS = 400, 400, 6
_Card: TypeAlias = tuple[str, Markup]  # title in the list of sections, and the card's markup


class _TotalsRow(NamedTuple):
    """A table row: a label, and the message sizes before and after the proposal."""

    name: str
    size_totals: SizeTotals


def build_proposal_page(
    settings: ProposalSettings,
    outcome: SizeComparison,
    mix_rows: Sequence[ByteRate] = (),
    *,
    paths: Sequence[str] = (),
    version: str,
) -> str:
    """Return the proposal as HTML."""
    title = settings.proposal.title if settings.after is None else f"Proposal: {settings.name}"
    cards = {
        "changes": ("Changes", _build_changes_table(settings)),
        **_build_compatibility_table(settings),
        **{name: (section, section_card) for name, section, section_card in _build_cost_cards(settings, outcome)},
        **_build_scale_card(settings, mix_rows),
        "left-out": ("Left out", _build_omission_card(outcome)),
    }
    return build_html_page(
        title,
        heading=title,
        location=format_paths(paths, _MAX_PATHS),
        footer=f"Created by kafkaframes {version}",
        tiles=_build_tiles(outcome),
        cards=[section_card for _, section_card in cards.values()],
        sections={name: section for name, (section, _) in cards.items()},
        data=build_json_rows(settings, outcome, mix_rows),
        version=version,
    )


def build_json_rows(
    settings: ProposalSettings, outcome: SizeComparison, mix_rows: Sequence[ByteRate]
) -> list[dict[str, Any]]:
    """Return the totals as JSON: a row for each group of messages, then the rows of the mix of calls."""
    groups = sorted(outcome.totals_by_group.items(), key=lambda item: str(item[0]))
    return [
        *(
            {"api": settings.find_api_name(group.api_key), **group._asdict(), **totals_to_json(size_totals)}
            for group, size_totals in groups
        ),
        *(
            {"api": settings.find_api_name(row.api_key), **row._asdict(), "kind": f"scale: {row.kind}"}
            for row in mix_rows
        ),
    ]


def _build_tiles(outcome: SizeComparison) -> Iterator[tuple[str, str, str, str]]:
    for (kind,), size_totals in outcome.sum_totals_by("kind").items():
        if size_totals.messages:
            share = (
                f"{100 * size_totals.saved_share:.2f} % of {format_size(size_totals.before)}"
                if size_totals.before
                else ""
            )
            yield f"Saved, {kind}", f"{size_totals.saved_bytes:,} B", share, ""


def _build_changes_table(settings: ProposalSettings) -> Markup:
    """Return the card that lists the changed fields."""
    rows = [
        (message, change.kind, make_breakable(".".join(change.path) or NO_VALUE_TEXT, "."), change.text)
        for message, changes in list_spec_changes(settings)
        for change in changes
    ]
    if not rows:
        return build_card(
            "changes",
            "What changes in the specs",
            format_empty_text("Fields do not change; the layout of all messages does."),
        )
    names = ("Message", "Change", "Field", "Wire layout")
    fields = [TableColumn(name, lambda row, at=index: row[at], wide=index > 1) for index, name in enumerate(names)]  # type: ignore[misc]
    note = f"{count_text(len(rows), 'change')} of the newest versions" + (
        ", the first shown." if len(rows) > _MAX_CHANGES else "."
    )
    change_table = make_table(rows[:_MAX_CHANGES], fields, name="changes", searchable=len(rows) > 20, is_stacked=True)
    return build_card("changes", "What changes in the specs", change_table, note=note, wide=True)


def _build_compatibility_table(settings: ProposalSettings) -> dict[str, _Card]:
    """Return the card with the findings on compatibility, by its id; empty without new specs."""
    if settings.after is None:
        return {}
    specs = settings.specs_before
    findings = [
        finding for finding in compare_sets(specs, specs | dict(settings.after)) if finding.verdict != "compatible"
    ]
    findings.sort(key=lambda finding: -SEVERITY_BY_VERDICT[finding.verdict])
    fields = [
        TableColumn("Verdict", lambda finding: make_tag("b", finding.verdict)),
        TableColumn("Message", lambda finding: finding.message),
        TableColumn("Field", lambda finding: make_breakable(finding.where, "."), wide=True),
        TableColumn("What", lambda finding: finding.text, wide=True),
        TableColumn("Why", lambda finding: finding.rule.source, wide=True),
    ]
    finding_table = format_empty_text("All requests stay compatible, so no client breaks.")
    if findings:
        finding_table = make_table(findings[:_MAX_FINDINGS], fields, name="findings", is_stacked=True)
    note = "According to KIP-482's rules for compatible changes (command spec check)."
    return {"breaks": ("Whom it breaks", build_card("breaks", "Whom it breaks", finding_table, note=note, wide=True))}


def _build_cost_cards(settings: ProposalSettings, outcome: SizeComparison) -> Iterator[tuple[str, str, Markup]]:
    """Yield (id, title in the list of sections, card) for each kind of comparison."""
    for kind, title in settings.proposal.kinds.items():
        totals_by_group = sorted(outcome.sum_totals_by("api_key", "api_version", "direction", kind=kind).items())
        rows = [
            _TotalsRow(f"{settings.find_api_name(message_kind[0])} {message_kind[1]} {message_kind[2]}", size_totals)
            for message_kind, size_totals in totals_by_group
        ]
        rows = [row for row in rows if row.size_totals.messages]
        if not rows:
            continue
        total = _TotalsRow("all", outcome.sum_totals_by(kind=kind)[()])
        yield kind, kind.capitalize(), _build_totals_card(kind, title, [*rows, total])
        if total.size_totals.lengths:
            yield (
                f"{kind}-lengths",
                "Lengths",
                _build_lengths_card(f"{kind}-lengths", summarize_lengths(total.size_totals)),
            )
        for dimension in settings.by:
            sums = outcome.sum_totals_by(dimension, kind=kind).items()
            rows_by_size = [
                _TotalsRow(format_label(name), size_totals) for (name,), size_totals in sums if size_totals.messages
            ]
            name = f"{kind}-{dimension}"
            yield name, f"by {dimension}", _build_totals_card(name, f"{title}, by {dimension}", sorted(rows_by_size))


def _build_totals_card(name: str, title: str, rows: Sequence[_TotalsRow]) -> Markup:
    """Return the card of a table of message sizes before and after the proposal."""
    fields = [
        TableColumn("What", lambda row: make_tag("b", row.name), wide=True),
        _make_number_column("Count", "messages"),
        _make_number_column("Before, bytes", "before"),
        _make_number_column("After", "after"),
        _make_number_column("Saved", "saved_bytes"),
        TableColumn("%", _format_saved_share, lambda row: row.size_totals.saved_share),
        TableColumn("Break-even", _format_break_even, lambda row: row.size_totals.break_even_share or -1.0),
    ]
    return build_card(
        name, title, make_table(rows, fields, name=title, searchable=len(rows) > 20, is_stacked=True), wide=True
    )


def _build_lengths_card(name: str, summaries: Sequence[LengthSummary]) -> Markup:
    """Return the card with the lengths of arrays, strings and bytes."""
    fields = [
        TableColumn("Fields", lambda row: make_tag("b", row.kind)),
        TableColumn("Count", lambda row: f"{row.count:,}", lambda row: float(row.count)),
        TableColumn("Null", lambda row: f"{row.nulls:,}", lambda row: float(row.nulls)),
        TableColumn("One-byte length", lambda row: f"{100 * row.one_byte / row.count:.2f} %"),
        TableColumn("At most 100", lambda row: f"{100 * row.hundred / row.count:.2f} %"),
        *(
            TableColumn(title, lambda row, name=attribute: _format_length(getattr(row, name)))  # type: ignore[misc]
            for title, attribute in (("Median", "median"), ("90 %", "p90"), ("99 %", "p99"), ("Largest", "maximum"))
        ),
    ]
    note = (
        "Lengths count the elements of arrays, and the bytes of strings, byte fields and record sets. "
        "A compact length of null takes one byte."
    )
    return build_card(
        name, "Lengths", make_table(summaries, fields, name="lengths", is_stacked=True), note=note, wide=True
    )


def _format_length(length: int | None) -> str:
    return NO_VALUE_TEXT if length is None else f"{length:,}"


def _make_number_column(name: str, attribute: str) -> TableColumn:
    """Return a table column for a number of the totals."""
    return TableColumn(
        name,
        lambda row: f"{getattr(row.size_totals, attribute):,}",
        lambda row: float(getattr(row.size_totals, attribute)),
    )


def _format_saved_share(row: _TotalsRow) -> str:
    """Return the saved share in percent."""
    return f"{100 * row.size_totals.saved_share:.2f}" if row.size_totals.before else NO_VALUE_TEXT


def _format_break_even(row: _TotalsRow) -> str:
    """Return the break-even share in percent."""
    return (
        NO_VALUE_TEXT if row.size_totals.break_even_share is None else f"{100 * row.size_totals.break_even_share:.0f} %"
    )


def _build_scale_card(settings: ProposalSettings, rows: Sequence[ByteRate]) -> dict[str, _Card]:
    """Return the card with the bytes per second of a mix of calls, by its id; empty without a mix."""
    if not rows:
        return {}
    fields: list[Any] = [
        TableColumn(
            "Message", lambda row: f"{settings.find_api_name(row.api_key)} {row.api_version} {row.direction}", wide=True
        ),
        TableColumn("What", lambda row: row.kind),
        TableColumn("Calls/s", lambda row: f"{row.calls_per_second:g}", lambda row: row.calls_per_second),
        TableColumn("Bytes/s before", lambda row: f"{row.before:,.0f}", lambda row: row.before),
        TableColumn("After", lambda row: f"{row.after:,.0f}", lambda row: row.after),
        TableColumn(
            "Saved a day",
            lambda row: f"{row.saved_bytes_per_s * SECONDS_PER_DAY:,.0f}",
            lambda row: row.saved_bytes_per_s,
        ),
        TableColumn("Basis", lambda row: row.basis),
    ]
    note = (
        "The size of a recorded message is the average of the measured messages of its version. "
        "An example has no tagged fields."
    )
    mix_table = make_table(rows, fields, name="mix", is_stacked=True)
    return {"scaled": ("A mix", build_card("scaled", "A mix of calls", mix_table, note=note, wide=True))}


def _build_omission_card(outcome: SizeComparison) -> Markup:
    """Return the card with the messages that were not compared, by reason."""
    rows = [
        (kind, reason, count)
        for (kind,), size_totals in outcome.sum_totals_by("kind").items()
        for reason, count in size_totals.reasons.most_common()
    ]
    totals = outcome.sum_totals_by().values()
    checked_sizes, wrong_sizes = (
        sum(getattr(size_totals, name) for size_totals in totals) for name in ("checked", "mismatched")
    )
    note = (
        f"{count_text(checked_sizes, 'size')} {verb_text(checked_sizes, 'was', 'were')} "
        f"compared with the recorded bytes, {wrong_sizes:,} differ."
    )
    if not rows:
        return build_card(
            "left-out", "Messages that were not measured", format_empty_text("All messages were measured."), note=note
        )
    fields = [
        TableColumn("What", lambda row: row[0]),
        TableColumn("Why", lambda row: row[1], wide=True),
        TableColumn("Messages", lambda row: f"{row[2]:,}", lambda row: float(row[2])),
    ]
    omission_table = make_table(rows, fields, name="left out", is_stacked=True)
    return build_card("left-out", "Messages that were not measured", omission_table, note=note, wide=True)
