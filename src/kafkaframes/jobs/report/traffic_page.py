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
    describe_coverage,
    format_action,
    format_library,
    format_second,
    list_notes,
)
from kafkaframes.jobs.report import charts
from kafkaframes.jobs.report.charts import Bar, ChartColumn, ChartPart
from kafkaframes.jobs.report.histograms import round_calendar_edges
from kafkaframes.jobs.report.sections import build_card, format_empty_text, make_time_ticks
from kafkaframes.jobs.report.tables import (
    Markup,
    TableColumn,
    build_html_page,
    format_paths,
    join_html,
    make_number_column,
    make_table,
    make_tag,
)
from kafkaframes.jobs.report.traffic import ApiTraffic, TrafficReport
from kafkaframes.jobs.report.words import NO_VALUE_TEXT, format_minute, format_size, format_size_tick, format_time

_MAX_LISTED_PATHS: Final = 4  # number of paths in the head of the page
_VERDICT_COLORS: Final = {"removed": "bad", "deprecated": "warn", "unknown": "", "fine": "good"}


def build_audit_page(audit: Audit, *, paths: Sequence[str], version: str) -> str:
    """Return an audit as HTML."""
    names = ", ".join(Path(path).name for path in paths[:_MAX_LISTED_PATHS])
    remark = f" and {len(paths) - _MAX_LISTED_PATHS} more" if len(paths) > _MAX_LISTED_PATHS else ""
    cards = [
        *_build_unread_cards("" if audit.judged == ALL else describe_coverage(audit), audit.unread),
        _build_client_cards(audit),
        build_card(
            "disk",
            "Record formats on disk",
            _build_findings_table(audit.disk) if audit.disk else format_empty_text("The input has no logs."),
            wide=True,
        ),
    ]
    if note_texts := list_notes(audit):
        cards.append(
            build_card("notes", "Notes", make_tag("ul", (make_tag("li", note) for note in note_texts)), wide=True)
        )
    title = f"Upgrade to Kafka {audit.target.name}"
    location = (make_tag("code", names), remark)
    footer = f"Created by kafkaframes {version}"
    return build_html_page(
        title,
        heading=title,
        location=location,
        footer=footer,
        tiles=[
            _make_coverage_tile(audit.judged),
            *(_build_verdict_tile(verdict, audit) for verdict in _VERDICT_COLORS),
        ],
        cards=cards,
        version=version,
    )


_COVERAGE_COLORS: Final = {ALL: "good", PART: "warn", NOTHING: "bad"}
_MAX_LISTED_ENTRIES: Final = 200  # number of unread parts that the page lists


def _make_coverage_tile(verdict: str) -> tuple[str, str, str, str]:
    return "Checked", verdict, "of the input", _COVERAGE_COLORS[verdict]


def _build_unread_cards(text: str, entries: Sequence[UnreadData]) -> list[Markup]:
    """Return the card on unread parts of the input, if there are any."""
    if not text:
        return []
    fields = [
        TableColumn("Kind", lambda entry: make_tag("b", entry.kind)),
        TableColumn("Not read", lambda entry: entry.text, wide=True),
        TableColumn("File", lambda entry: entry.file, wide=True, is_minor=True),
    ]
    rows = make_table(entries[:_MAX_LISTED_ENTRIES], fields, name="unread data", is_stacked=True) if entries else None
    return [build_card("judged", "Unread parts of the input", rows, note=text, wide=True)]


def _build_verdict_tile(verdict: str, audit: Audit) -> tuple[str, str, str, str]:
    """Return the texts of the tile that shows how many clients have a verdict."""
    count = sum(client.verdict == verdict for client in audit.clients)
    return (
        verdict.capitalize(),
        str(count),
        "client" if count == 1 else "clients",
        _VERDICT_COLORS[verdict] if count else "",
    )


def _build_client_cards(audit: Audit) -> Markup:
    """Return the card that lists the clients with their findings."""
    if not audit.clients:
        return build_card("clients", "Clients", format_empty_text("The input has no readable traffic."), wide=True)
    names = ("Client", "Library", "Host", "Verdict", "What to do", "First request", "Last request")
    head = make_tag("thead", make_tag("tr", (make_tag("th", name, scope="col") for name in names)))
    rows = (_build_client_rows(client, audit) for client in audit.clients)
    return build_card(
        "clients", "Clients", make_tag("table", head, make_tag("tbody", rows), class_="audit stacked"), wide=True
    )


def _build_client_rows(client: ClientAudit, audit: Audit) -> Markup:
    """Return a client's row, and a collapsed row with its findings."""
    listed_findings = [finding for finding in client.findings if finding.verdict != FINE] or list(client.findings)
    evidence = None if client.guess is None else make_tag("p", f"A guess: {client.guess.evidence}", class_="note")
    count = count_text(len(listed_findings), "finding")
    details = make_tag("details", make_tag("summary", count), evidence, _build_findings_table(listed_findings))
    cells = (
        make_tag("td", make_tag("b", client.client.client_id or NO_CLIENT_ID_TEXT), class_="name"),
        make_tag("td", format_library(client)),
        make_tag("td", client.client.address or "", class_="short"),
        make_tag("td", make_verdict_badge(client), class_="short"),
        make_tag("td", format_action(client, audit.target) or "nothing"),
        make_tag("td", format_second(_first_use_time(client.findings)) or "", class_="short"),
        make_tag("td", format_second(_last_use_time(client.findings)) or "", class_="short"),
    )
    return join_html(
        [make_tag("tr", cells, class_="client"), make_tag("tr", make_tag("td", details, colspan=str(len(cells))))]
    )


def _first_use_time(findings: Sequence[AuditVerdict]) -> int | None:
    return min((finding.use_count.first for finding in findings if finding.use_count.first is not None), default=None)


def _last_use_time(findings: Sequence[AuditVerdict]) -> int | None:
    return max((finding.use_count.last for finding in findings if finding.use_count.last is not None), default=None)


def make_verdict_badge(client: ClientAudit) -> Markup:
    """Return a client's verdict as a badge, red if the upgrade breaks the client."""
    return _make_badge(client.verdict)


def _make_badge(verdict: str) -> Markup:
    return make_tag("span", verdict, class_=f"badge {_VERDICT_COLORS[verdict]}".strip())


def _build_findings_table(findings: Sequence[AuditVerdict]) -> Markup:
    """Return the table of a client's findings."""
    names = ("Verdict", "What", "Count", "First", "Last", "Why")
    rows = (
        make_tag(
            "tr",
            make_tag("td", _make_badge(finding.verdict), class_="short"),
            make_tag("td", finding.subject),
            make_tag("td", f"{finding.use_count.count:,}"),
            make_tag("td", format_second(finding.use_count.first) or "", class_="short"),
            make_tag("td", format_second(finding.use_count.last) or "", class_="short"),
            make_tag("td", finding.reason),
        )
        for finding in findings
    )
    head = make_tag("thead", make_tag("tr", (make_tag("th", name, scope="col") for name in names)))
    return make_tag("table", head, make_tag("tbody", rows), class_="audit stacked")


_MAX_BARS: Final = 20
_KIP_636_NAMES: Final = {
    FLEXIBLE: "flexible",
    INFLEXIBLE: "not flexible",
    RAISED: "raised to a flexible version",
}
_TITLE_BY_CARD: Final = {
    "clients": "Upgrade",
    "bytes": "Bytes",
    "time": "Time",
    "errors": "Errors",
    "apis": "APIs",
    "kip-636": "KIP-636",
    "connections": "Connections",
}


def build_traffic_page(report: TrafficReport, *, version: str, generated_at: int) -> str:
    """Return a traffic report as HTML."""
    return build_html_page(
        "Kafka traffic report",
        heading="Kafka traffic report",
        location=format_paths(report.paths, 4),
        footer=f"Read {format_minute(generated_at)} UTC by kafkaframes {version}",
        tiles=_build_tiles(report),
        cards=_build_cards(report),
        sections=_TITLE_BY_CARD,
        data=report.as_json(),
        version=version,
    )


def _build_cards(report: TrafficReport) -> list[Markup]:
    return [
        *_build_unread_cards(report.judged_text, report.coverage.unread),
        _draw_clients(report),
        _draw_bytes(report),
        _draw_times(report),
        _draw_errors(report),
        _draw_apis(report),
        _draw_kip_636(report),
        _draw_connections(report),
    ]


def _build_tiles(report: TrafficReport) -> tuple[tuple[str, str, str, str], ...]:
    request_bytes = sum(entry.request_bytes for entry in report.apis.values())
    response_bytes = sum(entry.response_bytes for entry in report.apis.values())
    broken_clients, upgrade = list[ClientAudit](), ""
    if report.audit is not None:
        broken_clients = [entry for entry in report.audit.clients if entry.verdict == REMOVED]
        upgrade = f"{'breaks' if len(broken_clients) == 1 else 'break'} on {report.audit.target.name}"
    return (
        _make_coverage_tile(report.judged),
        ("Calls", f"{report.calls:,}", count_text(len(report.apis), "API version"), ""),
        ("Requests", format_size(request_bytes), "without size prefixes", ""),
        ("Responses", format_size(response_bytes), "without size prefixes", ""),
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
            "bad" if broken_clients else _choose_upgrade_state(report),
        ),
    )


def _choose_upgrade_state(report: TrafficReport) -> str:
    """Return the state of the upgrade tile if no known client breaks: ``good`` only if all input was read."""
    return "good" if report.judged == ALL else ""


def _sort_apis(report: TrafficReport) -> list[ApiTraffic]:
    return sorted(report.apis.values(), key=lambda entry: -(entry.request_bytes + entry.response_bytes))


def _name_api_version(entry: ApiTraffic) -> str:
    return f"{entry.api} {entry.version}" if entry.version >= 0 else "unknown"


def _draw_bytes(report: TrafficReport) -> Markup:
    """Return the card with the bytes of requests and responses by API version."""
    rows = []
    for entry in _sort_apis(report)[:_MAX_BARS]:
        parts = [
            ChartPart(
                "c0", entry.request_bytes, f"{_name_api_version(entry)}\nrequests: {format_size(entry.request_bytes)}"
            ),
            ChartPart(
                "c1",
                entry.response_bytes,
                f"{_name_api_version(entry)}\nresponses: {format_size(entry.response_bytes)}",
            ),
        ]
        total_bytes = entry.request_bytes + entry.response_bytes
        rows.append(
            Bar(
                _name_api_version(entry),
                count_text(entry.calls, "call"),
                [part for part in parts if part.value],
                format_size(total_bytes),
            )
        )
    if not any(row.parts for row in rows):
        return build_card(
            "bytes", "Bytes by API and version", format_empty_text("A request log has no sizes on the wire."), wide=True
        )
    bar_chart = charts.draw_bars(rows, axis=format_size_tick, name="bytes on the wire", binary=True)
    legend = charts.draw_legend([("c0", "requests"), ("c1", "responses")])
    return build_card("bytes", "Bytes by API and version", legend, bar_chart, note="The largest first.", wide=True)


def _draw_times(report: TrafficReport) -> Markup:
    """Return the card with the calls over time."""
    if not report.minutes:
        return build_card("time", "Calls over time", format_empty_text("No call has a timestamp."))
    edges, unit = round_calendar_edges(min(report.minutes) * 1000, max(report.minutes) * 1000, 1000)
    counts = [0] * (len(edges) - 1)
    for second, count in report.minutes.items():
        counts[bisect_right(edges, second * 1000) - 1] += count
    columns = [
        ChartColumn([ChartPart("c0", count, "")], f"{format_time(start)}\n{count_text(count, 'call')}")
        for start, count in zip(edges, counts, strict=False)
    ]
    label = f"calls per {unit}"
    column_chart = charts.draw_columns(columns, make_time_ticks(edges), x_name="time, UTC", y_name=label, label=label)
    return build_card(
        "time", "Calls over time", column_chart, wide=not report.error_codes
    )  # narrow next to the card of errors


def _format_milliseconds(value: float | None) -> str:
    return NO_VALUE_TEXT if value is None else f"{value:,.3g} ms"


def _make_latency_column(share: float) -> TableColumn:
    """Return the table column for a quantile of the latency."""
    name = "Median" if share == 0.5 else f"{share:.0%}"
    return TableColumn(
        name,
        lambda entry: _format_milliseconds(entry.find_latency_quantile(share)),
        lambda entry: entry.find_latency_quantile(share) or -1.0,
        share == 0.5,
    )


def _draw_apis(report: TrafficReport) -> Markup:
    """Return the card with calls, bytes, latencies and errors by API version."""
    fields = [
        TableColumn("API", lambda entry: make_tag("b", _name_api_version(entry)), wide=True),
        make_number_column("Calls", "calls"),
        make_number_column("Requests", "request_bytes", format_size, is_minor=True),
        make_number_column("Responses", "response_bytes", format_size, is_minor=True),
        _make_latency_column(0.5),
        _make_latency_column(0.99),
        make_number_column("Errors", "errors", none=0),
    ]
    note = "The latency is the time from the complete request to the complete response. Its error is at most 9 %."
    return build_card(
        "apis",
        "APIs and latency",
        make_table(_sort_apis(report), fields, name="APIs", searchable=True),
        note=note,
        wide=True,
    )


def _draw_errors(report: TrafficReport) -> Markup:
    """Return the card with the error codes of responses."""
    if not report.error_codes:
        return build_card("errors", "Errors", format_empty_text("No response has an error code."), wide=True)
    rows = report.error_codes.most_common(40)
    fields = [
        TableColumn("API", lambda row: row[0][0]),
        TableColumn("Error", lambda row: make_tag("b", ErrorCode(row[0][1]).name), wide=True),
        TableColumn("Code", lambda row: str(row[0][1]), lambda row: float(row[0][1])),
        TableColumn("Times", lambda row: f"{row[1]:,}", lambda row: float(row[1])),
    ]
    return build_card("errors", "Errors", make_table(rows, fields, name="errors"))


def _draw_clients(report: TrafficReport) -> Markup:
    """Return the card with the clients, and whether an upgrade would break them."""
    result = report.audit
    if result is None or not result.clients:
        return build_card("clients", "What an upgrade would break", format_empty_text("No clients were found."))
    fields = [
        TableColumn("Verdict", make_verdict_badge),
        TableColumn("Client", lambda client: make_tag("b", client.client.client_id or NO_CLIENT_ID_TEXT), wide=True),
        TableColumn("Library", format_library, wide=True),
        TableColumn("Host", lambda judged: judged.client.address or "", is_minor=True),
        TableColumn("What to do", lambda judged: format_action(judged, result.target) or NO_VALUE_TEXT, wide=True),
    ]
    title = f"What an upgrade to Kafka {result.target.name} would break"
    note = "Run kafkaframes audit for details and for other releases."
    return build_card(
        "clients",
        title,
        make_table(result.clients[:200], fields, name="clients", searchable=True, is_stacked=True),
        note=note,
        wide=True,
    )


def _draw_kip_636(report: TrafficReport) -> Markup:
    """Return the card with the bytes that KIP-636 would save."""
    rows = [
        (_KIP_636_NAMES[kind], size_totals)
        for (kind,), size_totals in report.kip_636.sum_totals_by("kind").items()
        if size_totals.messages
    ]
    if not rows:
        return build_card("kip-636", "KIP-636", format_empty_text("No responses were recorded."))
    fields = [
        TableColumn("Responses", lambda row: make_tag("b", row[0]), wide=True),
        TableColumn("Count", lambda row: f"{row[1].messages:,}", lambda row: float(row[1].messages)),
        TableColumn("Before", lambda row: format_size(row[1].before), lambda row: float(row[1].before), True),
        TableColumn("After", lambda row: format_size(row[1].after), lambda row: float(row[1].after)),
        TableColumn("Saved", lambda row: f"{row[1].saved_bytes:,} B", lambda row: float(row[1].saved_bytes)),
    ]
    note = "KIP-636 makes error codes and messages tagged fields. Each response was encoded again in that form."
    return build_card("kip-636", "What KIP-636 would save", make_table(rows, fields, name="KIP-636"), note=note)


def _amount_of(entry: UnreadData) -> int:
    return entry.packets or entry.connections or entry.lines or 1


def _draw_connections(report: TrafficReport) -> Markup:
    """Return the card with the connections, capture gaps and unread data."""
    rows = [*((f"connections: {name}", count) for name, count in report.connections.most_common())]
    rows += [(f"gaps: {name}", count) for name, count in report.gaps.most_common()]
    rows += [(f"not needed: {entry.reason}", _amount_of(entry)) for entry in merge_files(report.coverage.harmless)]
    if not rows:
        return build_card(
            "connections",
            "Connections and gaps",
            format_empty_text("A request log does not have the packets of connections."),
        )
    fields = [
        TableColumn("What", lambda row: row[0], wide=True),
        TableColumn("Count", lambda row: f"{row[1]:,}", lambda row: float(row[1])),
    ]
    return build_card("connections", "Connections and gaps", make_table(rows, fields, name="connections"))
