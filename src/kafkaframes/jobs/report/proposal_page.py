"""Draw a protocol proposal as one HTML page: the changes, their cost or savings, and the clients that they break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.jobs.analyze.outcome import LengthSummary, WeighingResult, Weight, name_of, row_of, summarize_lengths
from kafkaframes.jobs.analyze.proposals import Question, spec_changes
from kafkaframes.jobs.analyze.scale import SECONDS_A_DAY, Scaled
from kafkaframes.jobs.report.sections import card, empty
from kafkaframes.jobs.report.tables import Field, Markup, breakable, html_page, path_codes, table, tag
from kafkaframes.jobs.report.words import NONE, size_text
from kafkaframes.protocol.spec.changes import SEVERITY
from kafkaframes.protocol.spec.evolution import check_sets

_MAX_CHANGES, _MAX_FINDINGS, _MAX_PATHS = 400, 400, 6
_Card: TypeAlias = tuple[str, Markup]  # its title in the list of sections, and the card


class _Row(NamedTuple):
    name: str
    weight: Weight


def proposal_page(
    question: Question,
    outcome: WeighingResult,
    mix_rows: Sequence[Scaled] = (),
    *,
    paths: Sequence[str] = (),
    version: str,
) -> str:
    """Return the proposal as HTML."""
    title = question.proposal.title if question.after is None else f"Proposal: {question.name}"
    cards = {
        "changes": ("Changes", _changes(question)),
        **_breaks(question),
        **{name: (section, section_card) for name, section, section_card in _costs(question, outcome)},
        **_scale_card(question, mix_rows),
        "left-out": ("Left out", _omission_card(outcome)),
    }
    return html_page(
        title,
        heading=title,
        location=path_codes(paths, _MAX_PATHS),
        footer=f"Made by kafkaframes {version}",
        tiles=_tiles(outcome),
        cards=[section_card for _, section_card in cards.values()],
        sections={name: section for name, (section, _) in cards.items()},
        data=json_rows(question, outcome, mix_rows),
        version=version,
    )


def json_rows(question: Question, outcome: WeighingResult, mix_rows: Sequence[Scaled]) -> list[dict[str, Any]]:
    """Return the weights as JSON: a row for each group, then the rows of a mix."""
    groups = sorted(outcome.weights.items(), key=lambda item: str(item[0]))
    return [
        *({"api": question.api_name(group.api_key), **group._asdict(), **row_of(weight)} for group, weight in groups),
        *({"api": question.api_name(row.api_key), **row._asdict(), "kind": f"scale: {row.kind}"} for row in mix_rows),
    ]


def _tiles(outcome: WeighingResult) -> Iterator[tuple[str, str, str, str]]:
    for (kind,), weight in outcome.by("kind").items():
        if weight.messages:
            share = f"{100 * weight.share:.2f} % of {size_text(weight.before)}" if weight.before else ""
            yield f"Saved, {kind}", f"{weight.saved:,} B", share, ""


def _changes(question: Question) -> Markup:
    rows = [
        (message, change.kind, breakable(".".join(change.path) or NONE, "."), change.text)
        for message, changes in spec_changes(question)
        for change in changes
    ]
    if not rows:
        return card("changes", "What changes in the specs", empty("No field: the layout of all of them."))
    names = ("Message", "Change", "Field", "Wire layout")
    fields = [Field(name, lambda row, at=index: row[at], wide=index > 1) for index, name in enumerate(names)]  # type: ignore[misc]
    note = f"{count_text(len(rows), 'change')} of the newest versions" + (
        ", the first shown." if len(rows) > _MAX_CHANGES else "."
    )
    change_table = table(rows[:_MAX_CHANGES], fields, name="changes", searchable=len(rows) > 20, is_stacked=True)
    return card("changes", "What changes in the specs", change_table, note=note, wide=True)


def _breaks(question: Question) -> dict[str, _Card]:
    if question.after is None:
        return {}
    specs = question.specs_before
    findings = [
        finding for finding in check_sets(specs, specs | dict(question.after)) if finding.verdict != "compatible"
    ]
    findings.sort(key=lambda finding: -SEVERITY[finding.verdict])
    fields = [
        Field("Verdict", lambda finding: tag("b", finding.verdict)),
        Field("Message", lambda finding: finding.message),
        Field("Field", lambda finding: breakable(finding.where, "."), wide=True),
        Field("What", lambda finding: finding.text, wide=True),
        Field("Why", lambda finding: finding.rule.source, wide=True),
    ]
    finding_table = empty("No client: all requests are compatible.")
    if findings:
        finding_table = table(findings[:_MAX_FINDINGS], fields, name="findings", is_stacked=True)
    note = "By KIP-482's rules of evolution: spec check."
    return {"breaks": ("Whom it breaks", card("breaks", "Whom it breaks", finding_table, note=note, wide=True))}


def _costs(question: Question, outcome: WeighingResult) -> Iterator[tuple[str, str, Markup]]:
    """Yield the cards of each kind: their id, their name in the list of sections, themselves."""
    for kind, title in question.proposal.kinds.items():
        weights = sorted(outcome.by("api_key", "api_version", "direction", kind=kind).items())
        rows = [
            _Row(f"{question.api_name(message_kind[0])} {message_kind[1]} {message_kind[2]}", weight)
            for message_kind, weight in weights
        ]
        rows = [row for row in rows if row.weight.messages]
        if not rows:
            continue
        total = _Row("all", outcome.by(kind=kind)[()])
        yield kind, kind.capitalize(), _weights_card(kind, title, [*rows, total])
        if total.weight.lengths:
            yield f"{kind}-lengths", "Lengths", _lengths(f"{kind}-lengths", summarize_lengths(total.weight))
        for dimension in question.by:
            sums = outcome.by(dimension, kind=kind).items()
            some = [_Row(name_of(name), weight) for (name,), weight in sums if weight.messages]
            name = f"{kind}-{dimension}"
            yield name, f"by {dimension}", _weights_card(name, f"{title}, by {dimension}", sorted(some))


def _weights_card(name: str, title: str, rows: Sequence[_Row]) -> Markup:
    fields = [
        Field("What", lambda row: tag("b", row.name), wide=True),
        _number("Count", "messages"),
        _number("Before, bytes", "before"),
        _number("After", "after"),
        _number("Saved", "saved"),
        Field("%", _share, lambda row: row.weight.share),
        Field("Break-even", _even, lambda row: row.weight.break_even or -1.0),
    ]
    return card(name, title, table(rows, fields, name=title, searchable=len(rows) > 20, is_stacked=True), wide=True)


def _lengths(name: str, summaries: Sequence[LengthSummary]) -> Markup:
    fields = [
        Field("Fields", lambda row: tag("b", row.kind)),
        Field("Count", lambda row: f"{row.count:,}", lambda row: float(row.count)),
        Field("Null", lambda row: f"{row.nulls:,}", lambda row: float(row.nulls)),
        Field("One-byte length", lambda row: f"{100 * row.one_byte / row.count:.2f} %"),
        Field("At most 100", lambda row: f"{100 * row.hundred / row.count:.2f} %"),
        *(
            Field(title, lambda row, name=attribute: _length_text(getattr(row, name)))  # type: ignore[misc]
            for title, attribute in (("Median", "median"), ("90 %", "p90"), ("99 %", "p99"), ("Largest", "maximum"))
        ),
    ]
    note = "Elements of arrays; bytes of strings, byte fields and record sets. A compact length of null takes one byte."
    return card(name, "Lengths", table(summaries, fields, name="lengths", is_stacked=True), note=note, wide=True)


def _length_text(length: int | None) -> str:
    return NONE if length is None else f"{length:,}"


def _number(name: str, attribute: str) -> Field:
    return Field(
        name, lambda row: f"{getattr(row.weight, attribute):,}", lambda row: float(getattr(row.weight, attribute))
    )


def _share(row: _Row) -> str:
    return f"{100 * row.weight.share:.2f}" if row.weight.before else NONE


def _even(row: _Row) -> str:
    return NONE if row.weight.break_even is None else f"{100 * row.weight.break_even:.0f} %"


def _scale_card(question: Question, rows: Sequence[Scaled]) -> dict[str, _Card]:
    if not rows:
        return {}
    fields: list[Any] = [
        Field("Message", lambda row: f"{question.api_name(row.api_key)} {row.api_version} {row.direction}", wide=True),
        Field("What", lambda row: row.kind),
        Field("Calls/s", lambda row: f"{row.calls_per_second:g}", lambda row: row.calls_per_second),
        Field("Bytes/s before", lambda row: f"{row.before:,.0f}", lambda row: row.before),
        Field("After", lambda row: f"{row.after:,.0f}", lambda row: row.after),
        Field("Saved a day", lambda row: f"{row.saved * SECONDS_A_DAY:,.0f}", lambda row: row.saved),
        Field("Basis", lambda row: row.basis),
    ]
    note = "A measured message is as large as those weighed at its version, on average; an example has no tagged field."
    mix_table = table(rows, fields, name="mix", is_stacked=True)
    return {"scaled": ("A mix", card("scaled", "A mix of calls", mix_table, note=note, wide=True))}


def _omission_card(outcome: WeighingResult) -> Markup:
    rows = [
        (kind, reason, count)
        for (kind,), weight in outcome.by("kind").items()
        for reason, count in weight.reasons.most_common()
    ]
    totals = outcome.by().values()
    checked_sizes, wrong_sizes = (sum(getattr(weight, name) for weight in totals) for name in ("checked", "mismatched"))
    note = (
        f"{count_text(checked_sizes, 'size')} {verb_text(checked_sizes, 'was', 'were')} "
        f"checked against the wire, {wrong_sizes:,} differ."
    )
    if not rows:
        return card("left-out", "Messages that were not weighed", empty("Every message was."), note=note)
    fields = [
        Field("What", lambda row: row[0]),
        Field("Why", lambda row: row[1], wide=True),
        Field("Messages", lambda row: f"{row[2]:,}", lambda row: float(row[2])),
    ]
    omission_table = table(rows, fields, name="left out", is_stacked=True)
    return card("left-out", "Messages that were not weighed", omission_table, note=note, wide=True)
