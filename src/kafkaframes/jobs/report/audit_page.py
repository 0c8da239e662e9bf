"""An audit as one HTML page, in the design of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkaframes.jobs.audit.audit import FINE, Audit, ClientAudit, Finding
from kafkaframes.jobs.audit.audit_text import NOBODY, action_text, library_text, notes, time_text
from kafkaframes.jobs.report.sections import card, empty
from kafkaframes.jobs.report.tables import Markup, html_page, join, tag

_MOST_PATHS: Final = 4
_STATES: Final = {"removed": "bad", "deprecated": "warn", "unknown": "", "fine": "good"}


def audit_page(audit: Audit, *, paths: Sequence[str], version: str) -> str:
    """Return the page."""
    tiles = tag("div", (_tile(verdict, audit) for verdict in _STATES), class_="tiles")
    names = ", ".join(Path(path).name for path in paths[:_MOST_PATHS])
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    cards = [
        _clients(audit),
        card(
            "disk",
            "Record formats on disk",
            _table(audit.disk) if audit.disk else empty("No log was looked at."),
            wide=True,
        ),
    ]
    if said := notes(audit):
        cards.append(card("notes", "Notes", tag("ul", (tag("li", note) for note in said)), wide=True))
    title = f"Upgrade to Kafka {audit.target.name}"
    where = (tag("code", names), more)
    made = f"Made by kafkaframes {version}"
    return html_page(title, heading=title, where=where, made=made, tiles=tiles, cards=cards, version=version)


def _tile(verdict: str, audit: Audit) -> Markup:
    count = sum(judged.verdict == verdict for judged in audit.clients)
    state = _STATES[verdict] if count else ""
    return tag(
        "div",
        tag("span", verdict.capitalize(), class_="name"),
        tag("b", str(count)),
        tag("span", "client" if count == 1 else "clients", class_="soft"),
        class_=f"tile {state}".strip(),
    )


def _clients(audit: Audit) -> Markup:
    if not audit.clients:
        return card("clients", "Clients", empty("No traffic was looked at."), wide=True)
    names = ("Client", "Library", "Host", "Verdict", "What to do")
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in names)))
    rows = (_client_rows(judged, audit) for judged in audit.clients)
    return card("clients", "Clients", tag("table", head, tag("tbody", rows), class_="audit stacked"), wide=True)


def _client_rows(judged: ClientAudit, audit: Audit) -> Markup:
    """Return a client's row, and one below it with the findings, folded."""
    shown = [finding for finding in judged.findings if finding.verdict != FINE] or list(judged.findings)
    evidence = None if judged.guess is None else tag("p", f"A guess: {judged.guess.evidence}", class_="note")
    count = "1 finding" if len(shown) == 1 else f"{len(shown)} findings"
    details = tag("details", tag("summary", count), evidence, _table(shown))
    cells = (
        tag("td", tag("b", judged.client.client_id or NOBODY), class_="name"),
        tag("td", library_text(judged)),
        tag("td", judged.client.address or "", class_="short"),
        tag("td", verdict_badge(judged), class_="short"),
        tag("td", action_text(judged, audit.target)),
    )
    return join([tag("tr", cells, class_="client"), tag("tr", tag("td", details, colspan="5"))])


def verdict_badge(judged: ClientAudit) -> Markup:
    """Return a client's verdict, red where the upgrade breaks it."""
    return tag("span", judged.verdict, class_=f"badge {_STATES[judged.verdict]}".strip())


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
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in names)))
    return tag("table", head, tag("tbody", rows), class_="audit stacked")
