"""A proposal as one HTML page, in the design of the reports: what changes, what it costs or saves, whom it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkaframes.jobs.analyze.outcome import Outcome, Weight, name_of
from kafkaframes.jobs.analyze.proposals import Question, spec_changes
from kafkaframes.jobs.analyze.scale import SECONDS_A_DAY, Scaled
from kafkaframes.jobs.report.sections import card, empty
from kafkaframes.jobs.report.tables import Field, Markup, join, path_code, table, tag
from kafkaframes.jobs.report.words import NONE, size_text
from kafkaframes.protocol.spec.changes import SEVERITY
from kafkaframes.protocol.spec.check import check_sets

_HERE: Final = Path(__file__).parent
_MOST_CHANGES, _MOST_FINDINGS = 400, 400


class _Row(NamedTuple):
    name: str
    weight: Weight


def proposal_page(
    question: Question, outcome: Outcome, scaled: Sequence[Scaled] = (), *, paths: Sequence[str] = (), version: str
) -> str:
    """Return the page."""
    title = question.proposal.title if question.after is None else f"Proposal: {question.name}"
    where = tag("p", ([", " if number else None, path_code(path)] for number, path in enumerate(paths[:6])))
    made = tag("p", f"Made by kafkaframes {version}", class_="soft")
    heading = tag("div", tag("div", tag("h1", title), where, made), class_="title")
    cards = [
        _changes(question),
        *_breaks(question),
        *_costs(question, outcome),
        *_scaled(question, scaled),
        _left_out(outcome),
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup((_HERE / "page.css").read_text(encoding="utf-8"))),
    ]
    body = join([tag("header", heading, _tiles(outcome), class_="top"), tag("main", cards)])
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _tiles(outcome: Outcome) -> Markup:
    tiles = []
    for (kind,), weight in outcome.by("kind").items():
        if weight.messages:
            share = f"{100 * weight.saved / weight.before:.2f} % of {size_text(weight.before)}" if weight.before else ""
            saved = tag("b", f"{weight.saved:,} B")
            tiles.append(tag("div", tag("span", f"Saved, {kind}"), saved, tag("small", share), class_="tile"))
    return tag("div", tiles, class_="tiles")


def _changes(question: Question) -> Markup:
    rows = [
        (message, change.kind, ".".join(change.path) or NONE, change.text)
        for message, changes in spec_changes(question)
        for change in changes
    ]
    if not rows:
        return card("changes", "What changes in the specs", empty("No field: the layout of all of them."))
    names = ("Message", "Change", "Field", "Wire layout")
    fields = [Field(name, lambda row, at=at: row[at], wide=at > 1) for at, name in enumerate(names)]  # type: ignore[misc]
    note = f"{len(rows):,} changes of the newest versions" + (
        ", the first shown." if len(rows) > _MOST_CHANGES else "."
    )
    shown = table(rows[:_MOST_CHANGES], fields, name="changes")
    return card("changes", "What changes in the specs", shown, note=note, wide=True)


def _breaks(question: Question) -> Iterator[Markup]:
    if question.after is None:
        return
    before = question.specs_before
    findings = [
        finding for finding in check_sets(before, before | dict(question.after)) if finding.verdict != "compatible"
    ]
    findings.sort(key=lambda finding: -SEVERITY[finding.verdict])
    fields = [
        Field("Verdict", lambda finding: tag("b", finding.verdict)),
        Field("Message", lambda finding: finding.message),
        Field("Field", lambda finding: finding.place, wide=True),
        Field("What", lambda finding: finding.text, wide=True),
        Field("Why", lambda finding: finding.rule.source, wide=True),
    ]
    shown = (
        table(findings[:_MOST_FINDINGS], fields, name="findings") if findings else empty("Nobody: all is compatible.")
    )
    yield card("breaks", "Whom it breaks", shown, note="By KIP-482's rules of evolution: spec check.", wide=True)


def _costs(question: Question, outcome: Outcome) -> Iterator[Markup]:
    for kind, title in question.proposal.kinds.items():
        weights = sorted(outcome.by("api_key", "api_version", "direction", kind=kind).items())
        rows = [_Row(f"{question.api_name(where[0])} {where[1]} {where[2]}", weight) for where, weight in weights]
        yield from _weighed(kind, title, [row for row in rows if row.weight.messages])
        for dimension in question.by:
            sums = outcome.by(dimension, kind=kind).items()
            some = [_Row(name_of(name), weight) for (name,), weight in sums if weight.messages]
            yield from _weighed(f"{kind}-{dimension}", f"{title}, by {dimension}", sorted(some))


def _weighed(name: str, title: str, rows: Sequence[_Row]) -> Iterator[Markup]:
    if not rows:
        return
    fields = [
        Field("What", lambda row: tag("b", row.name), wide=True),
        _number("Count", "messages"),
        _number("Before, bytes", "before"),
        _number("After", "after"),
        _number("Saved", "saved"),
        Field("%", _share, lambda row: row.weight.saved / row.weight.before if row.weight.before else 0.0),
        Field("Break-even", _even, lambda row: row.weight.break_even or -1.0),
    ]
    yield card(name, title, table(rows, fields, name=title, searchable=len(rows) > 20), wide=True)


def _number(name: str, attribute: str) -> Field:
    return Field(
        name, lambda row: f"{getattr(row.weight, attribute):,}", lambda row: float(getattr(row.weight, attribute))
    )


def _share(row: _Row) -> str:
    return f"{100 * row.weight.saved / row.weight.before:.2f}" if row.weight.before else NONE


def _even(row: _Row) -> str:
    return NONE if row.weight.break_even is None else f"{100 * row.weight.break_even:.0f} %"


def _scaled(question: Question, rows: Sequence[Scaled]) -> Iterator[Markup]:
    if not rows:
        return
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
    yield card("scaled", "A mix of calls", table(rows, fields, name="mix"), note=note, wide=True)


def _left_out(outcome: Outcome) -> Markup:
    rows = [
        (kind, reason, count)
        for (kind,), weight in outcome.by("kind").items()
        for reason, count in weight.reasons.most_common()
    ]
    totals = outcome.by().values()
    checked, mismatched = (sum(getattr(weight, name) for weight in totals) for name in ("checked", "mismatched"))
    note = f"{checked:,} sizes were checked against the wire, {mismatched:,} differ."
    if not rows:
        return card("left-out", "What is not weighed", empty("Every message was."), note=note)
    fields = [
        Field("What", lambda row: row[0]),
        Field("Why", lambda row: row[1], wide=True),
        Field("Messages", lambda row: f"{row[2]:,}", lambda row: float(row[2])),
    ]
    return card("left-out", "What is not weighed", table(rows, fields, name="left out"), note=note, wide=True)
