"""An audit as one HTML page, in the design of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkaframes.jobs.audit.audit import FINE, Audit, ClientAudit, Finding, advice
from kafkaframes.jobs.audit.audit_text import client_text, time_text
from kafkaframes.jobs.report.markup import Markup, join, tag
from kafkaframes.jobs.report.sections import card, empty

_HERE: Final = Path(__file__).parent
_STATES: Final = {"removed": "bad", "deprecated": "", "unknown": "", "fine": "good"}


def audit_page(audit: Audit, *, paths: Sequence[str], version: str) -> str:
    """Return the page."""
    tiles = tag("div", (_tile(verdict, audit) for verdict in _STATES), class_="tiles")
    where = tag("p", (tag("code", path) for path in paths[:6]), class_="paths")
    made = tag("p", f"Made by kafkaframes {version}", class_="soft")
    heading = tag("div", tag("div", tag("h1", f"Upgrade to Kafka {audit.target.name}"), where, made), class_="title")
    cards = [
        _clients(audit),
        card("disk", "Record formats on disk", _table(audit.disk) if audit.disk else empty("No log was given.")),
    ]
    if audit.notes:
        cards.append(card("notes", "Notes", tag("ul", (tag("li", note) for note in audit.notes))))
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Upgrade to Kafka {audit.target.name}"),
        tag("style", Markup((_HERE / "page.css").read_text(encoding="utf-8"))),
    ]
    body = join([tag("header", heading, tiles, class_="top"), tag("main", cards)])
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _tile(verdict: str, audit: Audit) -> Markup:
    count = sum(one.verdict == verdict for one in audit.clients)
    state = _STATES[verdict] if count else ""
    return tag(
        "div",
        tag("span", verdict.capitalize(), class_="name"),
        tag("b", str(count), class_=state or None),
        tag("span", "client" if count == 1 else "clients", class_="soft"),
        class_="tile",
    )


def _clients(audit: Audit) -> Markup:
    if not audit.clients:
        return card("clients", "Clients", empty("No traffic was given."))
    return card("clients", "Clients", [_client(one, audit) for one in audit.clients], wide=True)


def _client(one: ClientAudit, audit: Audit) -> Markup:
    said = []
    if one.guess is not None:
        release = "" if one.guess.release is None else f" {one.guess.release}"
        said.append(tag("p", f"Probably {one.guess.library}{release} (a guess: {one.guess.evidence})", class_="note"))
    wanted = advice(one, audit.target)
    if wanted is not None:
        said.append(tag("p", f"Upgrade to {wanted}", class_="note"))
    shown = [finding for finding in one.findings if finding.verdict != FINE] or list(one.findings)
    return tag(
        "details",
        tag("summary", tag("b", one.verdict, class_=_STATES[one.verdict] or None), " ", client_text(one.client)),
        said,
        _table(shown),
        open="" if one.verdict != FINE else None,
    )


def _table(findings: Sequence[Finding]) -> Markup:
    names = ("Verdict", "What", "Times", "First", "Last", "Why")
    rows = (
        tag(
            "tr",
            tag("td", finding.verdict),
            tag("td", finding.what),
            tag("td", str(finding.seen.count)),
            tag("td", time_text(finding.seen.first) or ""),
            tag("td", time_text(finding.seen.last) or ""),
            tag("td", finding.reason),
        )
        for finding in findings
    )
    head = tag("thead", tag("tr", (tag("th", name) for name in names)))
    return tag("div", tag("table", head, tag("tbody", rows)), class_="scroll")
