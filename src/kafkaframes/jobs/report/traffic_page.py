"""Draw recorded traffic, or an audit, as one HTML page without network access, in the design of the log report."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkaframes.capture.coverage import UnreadData, merge_files
from kafkaframes.errors import ErrorCode
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.analyze.proposals import FLEXIBLE, INFLEXIBLE, RAISED
from kafkaframes.jobs.audit.audit import ALL, FINE, NOTHING, PART, REMOVED, Audit, AuditVerdict, ClientAudit
from kafkaframes.jobs.audit.audit_text import (
    NO_CLIENT_ID_TEXT,
    action_text,
    describe_coverage,
    library_text,
    notes,
    second_text,
)
from kafkaframes.jobs.report import charts
from kafkaframes.jobs.report.charts import Bar, ChartColumn, ChartPart
from kafkaframes.jobs.report.histograms import calendar_edges
from kafkaframes.jobs.report.sections import card, empty, time_ticks
from kafkaframes.jobs.report.tables import Field, Markup, html_page, join, number, path_codes, table, tag
from kafkaframes.jobs.report.traffic import ApiTraffic, TrafficReport
from kafkaframes.jobs.report.words import NONE, minute_text, size_mark, size_text, time_text

_MAX_PATHS: Final = 4
_STATES: Final = {"removed": "bad", "deprecated": "warn", "unknown": "", "fine": "good"}


def audit_page(audit: Audit, *, paths: Sequence[str], version: str) -> str:
    """Return an audit as HTML."""
    names = ", ".join(Path(path).name for path in paths[:_MAX_PATHS])
    remark = f" and {len(paths) - _MAX_PATHS} more" if len(paths) > _MAX_PATHS else ""
    cards = [
        *_unread_cards("" if audit.judged == ALL else describe_coverage(audit), audit.unread),
        _client_cards(audit),
        card(
            "disk",
            "Record formats on disk",
            _table(audit.disk) if audit.disk else empty("No log was read."),
            wide=True,
        ),
    ]
    if note_texts := notes(audit):
        cards.append(card("notes", "Notes", tag("ul", (tag("li", note) for note in note_texts)), wide=True))
    title = f"Upgrade to Kafka {audit.target.name}"
    location = (tag("code", names), remark)
    footer = f"Made by kafkaframes {version}"
    return html_page(
        title,
        heading=title,
        location=location,
        footer=footer,
        tiles=[_verdict_tile(audit.judged), *(_tile(verdict, audit) for verdict in _STATES)],
        cards=cards,
        version=version,
    )


_COVERAGE_COLORS: Final = {ALL: "good", PART: "warn", NOTHING: "bad"}
_MAX_ENTRIES: Final = 200


def _verdict_tile(verdict: str) -> tuple[str, str, str, str]:
    return "Judged", verdict, "of the input", _COVERAGE_COLORS[verdict]


def _unread_cards(words: str, entries: Sequence[UnreadData]) -> list[Markup]:
    """Return the card on unread parts of the input, if there are any."""
    if not words:
        return []
    fields = [
        Field("Kind", lambda entry: tag("b", entry.kind)),
        Field("Not read", lambda entry: entry.text, wide=True),
        Field("File", lambda entry: entry.file, wide=True, is_minor=True),
    ]
    rows = table(entries[:_MAX_ENTRIES], fields, name="unread data", is_stacked=True) if entries else None
    return [card("judged", "What was not read", rows, note=words, wide=True)]


def _tile(verdict: str, audit: Audit) -> tuple[str, str, str, str]:
    count = sum(client.verdict == verdict for client in audit.clients)
    return verdict.capitalize(), str(count), "client" if count == 1 else "clients", _STATES[verdict] if count else ""


def _client_cards(audit: Audit) -> Markup:
    if not audit.clients:
        return card("clients", "Clients", empty("No traffic was read."), wide=True)
    names = ("Client", "Library", "Host", "Verdict", "What to do", "First request", "Last request")
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in names)))
    rows = (_client_rows(client, audit) for client in audit.clients)
    return card("clients", "Clients", tag("table", head, tag("tbody", rows), class_="audit stacked"), wide=True)


def _client_rows(client: ClientAudit, audit: Audit) -> Markup:
    """Return a client's row, and a collapsed row with its findings."""
    listed_findings = [finding for finding in client.findings if finding.verdict != FINE] or list(client.findings)
    evidence = None if client.guess is None else tag("p", f"A guess: {client.guess.evidence}", class_="note")
    count = count_text(len(listed_findings), "finding")
    details = tag("details", tag("summary", count), evidence, _table(listed_findings))
    cells = (
        tag("td", tag("b", client.client.client_id or NO_CLIENT_ID_TEXT), class_="name"),
        tag("td", library_text(client)),
        tag("td", client.client.address or "", class_="short"),
        tag("td", verdict_badge(client), class_="short"),
        tag("td", action_text(client, audit.target) or "nothing"),
        tag("td", second_text(_first(client.findings)) or "", class_="short"),
        tag("td", second_text(_last(client.findings)) or "", class_="short"),
    )
    return join([tag("tr", cells, class_="client"), tag("tr", tag("td", details, colspan=str(len(cells))))])


def _first(findings: Sequence[AuditVerdict]) -> int | None:
    return min((finding.use_count.first for finding in findings if finding.use_count.first is not None), default=None)


def _last(findings: Sequence[AuditVerdict]) -> int | None:
    return max((finding.use_count.last for finding in findings if finding.use_count.last is not None), default=None)


def verdict_badge(client: ClientAudit) -> Markup:
    """Return a client's verdict as a badge, red if the upgrade breaks it."""
    return _badge(client.verdict)


def _badge(verdict: str) -> Markup:
    return tag("span", verdict, class_=f"badge {_STATES[verdict]}".strip())


def _table(findings: Sequence[AuditVerdict]) -> Markup:
    names = ("Verdict", "What", "Count", "First", "Last", "Why")
    rows = (
        tag(
            "tr",
            tag("td", _badge(finding.verdict), class_="short"),
            tag("td", finding.subject),
            tag("td", f"{finding.use_count.count:,}"),
            tag("td", second_text(finding.use_count.first) or "", class_="short"),
            tag("td", second_text(finding.use_count.last) or "", class_="short"),
            tag("td", finding.reason),
        )
        for finding in findings
    )
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in names)))
    return tag("table", head, tag("tbody", rows), class_="audit stacked")


_MAX_BARS: Final = 20
_KIP_636: Final = {
    FLEXIBLE: "flexible",
    INFLEXIBLE: "not flexible",
    RAISED: "raised to a flexible version",
}
_SECTIONS: Final = {
    "clients": "Upgrade",
    "bytes": "Bytes",
    "time": "Time",
    "errors": "Errors",
    "apis": "APIs",
    "kip-636": "KIP-636",
    "connections": "Connections",
}


def traffic_page(report: TrafficReport, *, version: str, generated_at: int) -> str:
    """Return a traffic report as HTML."""
    return html_page(
        "Kafka traffic report",
        heading="Kafka traffic report",
        location=path_codes(report.paths, 4),
        footer=f"Read {minute_text(generated_at)} UTC by kafkaframes {version}",
        tiles=_tiles(report),
        cards=_cards(report),
        sections=_SECTIONS,
        data=report.as_json(),
        version=version,
    )


def _cards(report: TrafficReport) -> list[Markup]:
    return [
        *_unread_cards(report.judged_text, report.coverage.unread),
        _clients(report),
        _bytes(report),
        _times(report),
        _errors(report),
        _apis(report),
        _kip_636(report),
        _connections(report),
    ]


def _tiles(report: TrafficReport) -> tuple[tuple[str, str, str, str], ...]:
    request_bytes = sum(one.request_bytes for one in report.apis.values())
    response_bytes = sum(one.response_bytes for one in report.apis.values())
    broken_clients, upgrade = list[ClientAudit](), ""
    if report.audit is not None:
        broken_clients = [one for one in report.audit.clients if one.verdict == REMOVED]
        upgrade = f"{'breaks' if len(broken_clients) == 1 else 'break'} on {report.audit.target.name}"
    return (
        _verdict_tile(report.judged),
        ("Calls", f"{report.calls:,}", count_text(len(report.apis), "API version"), ""),
        ("Requests", size_text(request_bytes), "without size prefixes", ""),
        ("Responses", size_text(response_bytes), "without size prefixes", ""),
        ("Errors", f"{sum(report.error_codes.values()):,}", "error codes in responses", ""),
        (
            "Gaps",
            f"{sum(report.gaps.values()):,}",
            count_text(report.incomplete, "incomplete call"),
            "bad" if report.gaps else "good",
        ),
        (
            "Upgrade",
            count_text(len(broken_clients), "client"),
            upgrade,
            "bad" if broken_clients else _upgrade_state(report),
        ),
    )


def _upgrade_state(report: TrafficReport) -> str:
    """Return the tile's state if the upgrade breaks no known client: ``good`` only if everything was judged."""
    return "good" if report.judged == ALL else ""


def _sort_apis(report: TrafficReport) -> list[ApiTraffic]:
    return sorted(report.apis.values(), key=lambda entry: -(entry.request_bytes + entry.response_bytes))


def _name(entry: ApiTraffic) -> str:
    return f"{entry.api} {entry.version}" if entry.version >= 0 else "unknown"


def _bytes(report: TrafficReport) -> Markup:
    rows = []
    for entry in _sort_apis(report)[:_MAX_BARS]:
        parts = [
            ChartPart("c0", entry.request_bytes, f"{_name(entry)}\nrequests: {size_text(entry.request_bytes)}"),
            ChartPart("c1", entry.response_bytes, f"{_name(entry)}\nresponses: {size_text(entry.response_bytes)}"),
        ]
        whole = entry.request_bytes + entry.response_bytes
        rows.append(
            Bar(_name(entry), count_text(entry.calls, "call"), [part for part in parts if part.value], size_text(whole))
        )
    if not any(row.parts for row in rows):
        return card("bytes", "Bytes by API and version", empty("A request log has no sizes on the wire."), wide=True)
    bar_chart = charts.bars(rows, axis=size_mark, name="bytes on the wire", binary=True)
    legend = charts.legend([("c0", "requests"), ("c1", "responses")])
    return card("bytes", "Bytes by API and version", legend, bar_chart, note="The largest first.", wide=True)


def _times(report: TrafficReport) -> Markup:
    if not report.minutes:
        return card("time", "Calls over time", empty("No call has a time."))
    edges, unit = calendar_edges(min(report.minutes) * 1000, max(report.minutes) * 1000, 1000)
    counts = [0] * (len(edges) - 1)
    for second, count in report.minutes.items():
        counts[bisect_right(edges, second * 1000) - 1] += count
    columns = [
        ChartColumn([ChartPart("c0", count, "")], f"{time_text(start)}\n{count_text(count, 'call')}")
        for start, count in zip(edges, counts, strict=False)
    ]
    label = f"calls per {unit}"
    column_chart = charts.columns(columns, time_ticks(edges), x_name="time, UTC", y_name=label, label=label)
    return card(
        "time", "Calls over time", column_chart, wide=not report.error_codes
    )  # narrow next to the card of errors


def _milliseconds(value: float | None) -> str:
    return NONE if value is None else f"{value:,.3g} ms"


def _quantile(share: float) -> Field:
    name = "Median" if share == 0.5 else f"{share:.0%}"
    return Field(
        name,
        lambda entry: _milliseconds(entry.quantile(share)),
        lambda entry: entry.quantile(share) or -1.0,
        share == 0.5,
    )


def _apis(report: TrafficReport) -> Markup:
    fields = [
        Field("API", lambda entry: tag("b", _name(entry)), wide=True),
        number("Calls", "calls"),
        number("Requests", "request_bytes", size_text, is_minor=True),
        number("Responses", "response_bytes", size_text, is_minor=True),
        _quantile(0.5),
        _quantile(0.99),
        number("Errors", "errors", none=0),
    ]
    note = "Latency: from a whole request to a whole response, right within 9 %."
    return card(
        "apis",
        "APIs and latency",
        table(_sort_apis(report), fields, name="APIs", searchable=True),
        note=note,
        wide=True,
    )


def _errors(report: TrafficReport) -> Markup:
    if not report.error_codes:
        return card("errors", "Errors", empty("No response has an error code."), wide=True)
    rows = report.error_codes.most_common(40)
    fields = [
        Field("API", lambda row: row[0][0]),
        Field("Error", lambda row: tag("b", ErrorCode(row[0][1]).name), wide=True),
        Field("Code", lambda row: str(row[0][1]), lambda row: float(row[0][1])),
        Field("Times", lambda row: f"{row[1]:,}", lambda row: float(row[1])),
    ]
    return card("errors", "Errors", table(rows, fields, name="errors"))


def _clients(report: TrafficReport) -> Markup:
    result = report.audit
    if result is None or not result.clients:
        return card("clients", "What an upgrade would break", empty("There is no client."))
    fields = [
        Field("Verdict", verdict_badge),
        Field("Client", lambda client: tag("b", client.client.client_id or NO_CLIENT_ID_TEXT), wide=True),
        Field("Library", library_text, wide=True),
        Field("Host", lambda judged: judged.client.address or "", is_minor=True),
        Field("What to do", lambda judged: action_text(judged, result.target) or NONE, wide=True),
    ]
    title = f"What an upgrade to Kafka {result.target.name} would break"
    note = "For the details, and for other releases: kafkaframes audit."
    return card(
        "clients",
        title,
        table(result.clients[:200], fields, name="clients", searchable=True, is_stacked=True),
        note=note,
        wide=True,
    )


def _kip_636(report: TrafficReport) -> Markup:
    rows = [(_KIP_636[kind], weight) for (kind,), weight in report.kip_636.by("kind").items() if weight.messages]
    if not rows:
        return card("kip-636", "KIP-636", empty("There is no response."))
    fields = [
        Field("Responses", lambda row: tag("b", row[0]), wide=True),
        Field("Count", lambda row: f"{row[1].messages:,}", lambda row: float(row[1].messages)),
        Field("Before", lambda row: size_text(row[1].before), lambda row: float(row[1].before), True),
        Field("After", lambda row: size_text(row[1].after), lambda row: float(row[1].after)),
        Field("Saved", lambda row: f"{row[1].saved:,} B", lambda row: float(row[1].saved)),
    ]
    note = "KIP-636 makes error codes and messages tagged fields. Each response was encoded again in that form."
    return card("kip-636", "What KIP-636 would save", table(rows, fields, name="KIP-636"), note=note)


def _amount(entry: UnreadData) -> int:
    return entry.packets or entry.connections or entry.lines or 1


def _connections(report: TrafficReport) -> Markup:
    rows = [*((f"connections: {name}", count) for name, count in report.connections.most_common())]
    rows += [(f"gaps: {name}", count) for name, count in report.gaps.most_common()]
    rows += [(f"not needed: {entry.reason}", _amount(entry)) for entry in merge_files(report.coverage.harmless)]
    if not rows:
        return card("connections", "Connections and gaps", empty("A request log names no connection's packets."))
    fields = [
        Field("What", lambda row: row[0], wide=True),
        Field("Count", lambda row: f"{row[1]:,}", lambda row: float(row[1])),
    ]
    return card("connections", "Connections and gaps", table(rows, fields, name="connections"))
