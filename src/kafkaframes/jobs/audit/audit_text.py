"""Format an audit as JSON and as lines of text. Pure functions. The caller must escape unprintable characters, because
the texts contain parts of the input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kafkaframes.capture.coverage import entry_to_json, summarize_entries
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.audit.audit import (
    ALL,
    DEPRECATED,
    FINE,
    NOTHING,
    REMOVED,
    UNKNOWN,
    VERDICTS,
    Audit,
    AuditVerdict,
    ClientAudit,
    ClientIdentity,
    find_required_upgrade,
    find_worst_verdict,
)
from kafkaframes.protocol.spec.releases import Release

NO_CLIENT_ID_TEXT: Final = "(no client id)"


def format_second(microseconds: int | None) -> str | None:
    """Return a time in microseconds as UTC text with seconds."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def audit_to_json(audit: Audit) -> dict[str, Any]:
    """Return an audit as a JSON object."""
    return {
        "judged": audit.judged,
        "target": audit.target.name,
        "verdict": audit.verdict,
        "exitStatus": audit.exit_status,
        "clients": [_client_to_json(client_audit, audit.target) for client_audit in audit.clients],
        "brokers": [_client_to_json(client_audit, audit.target) for client_audit in audit.brokers],
        "disk": [_finding_to_json(finding) for finding in audit.disk],
        "unread": [entry_to_json(entry) for entry in audit.unread],
        "harmless": [entry_to_json(entry) for entry in audit.harmless],
        "notes": list(audit.notes),
    }


def _client_to_json(client_audit: ClientAudit, target: Release) -> dict[str, Any]:
    """Return the findings on one client as a JSON object."""
    client = client_audit.client
    return {
        "clientId": client.client_id,
        "address": client.address,
        "softwareName": client.software_name,
        "softwareVersion": client.software_version,
        "guess": None if client_audit.guess is None else client_audit.guess._asdict(),
        "verdict": client_audit.verdict,
        "upgradeTo": find_required_upgrade(client_audit, target),
        "findings": [_finding_to_json(finding) for finding in client_audit.findings],
    }


def _finding_to_json(finding: AuditVerdict) -> dict[str, Any]:
    """Return a finding as a JSON object."""
    use = finding.format_use
    return {
        "verdict": finding.verdict,
        "what": finding.subject,
        "reason": finding.reason,
        "apiKey": finding.api_key,
        "apiVersion": finding.api_version,
        "lowestAccepted": finding.lowest,
        "highestAccepted": finding.highest,
        "magic": None if use is None else use.magic,
        "where": None if use is None else use.where,
        "topic": None if use is None else use.topic,
        "count": finding.use_count.count,
        "first": format_second(finding.use_count.first),
        "last": format_second(finding.use_count.last),
    }


def format_client(client: ClientIdentity) -> str:
    """Return a client's id, address and software as text.

    >>> format_client(ClientIdentity("billing", "10.0.0.7", None, None))
    'billing at 10.0.0.7'
    """
    name = client.client_id or NO_CLIENT_ID_TEXT
    software = (
        "" if client.software_name is None else f", {client.software_name} {client.software_version or ''}".rstrip()
    )
    return f"{name}{'' if client.address is None else ' at ' + client.address}{software}"


def format_library(client_audit: ClientAudit) -> str:
    """Return the name and release of a client's library, with "probably" for a guess."""
    if client_audit.client.software_name is not None:
        return f"{client_audit.client.software_name} {client_audit.client.software_version or ''}".rstrip()
    if client_audit.guess is None:
        return "unknown"
    return f"probably {client_audit.guess.library} {client_audit.guess.release or ''}".rstrip()


def format_action(client_audit: ClientAudit, target: Release) -> str:
    """Return the necessary action for a client in a few words; "" if its verdict is ``fine``."""
    if client_audit.verdict == FINE:
        return ""
    names = list(
        dict.fromkeys(finding.subject for finding in client_audit.findings if finding.verdict == client_audit.verdict)
    )
    uses = ", ".join(names[:_MAX_LISTED_API_NAMES]) + (
        f" and {len(names) - _MAX_LISTED_API_NAMES} more" if len(names) > _MAX_LISTED_API_NAMES else ""
    )
    upgrade = find_required_upgrade(client_audit, target)
    return (
        f"{_ACTION_BY_VERDICT[client_audit.verdict]} {upgrade} ({uses})"
        if upgrade
        else f"{_ACTION_BY_VERDICT[client_audit.verdict]}: {uses}"
    )


_ACTION_BY_VERDICT: Final = {
    REMOVED: "upgrade to",
    DEPRECATED: "plan to replace",
    UNKNOWN: "find out whether it works without",
}
_MAX_LISTED_API_NAMES: Final = 3  # number of API names in an action


def format_audit(audit: Audit, *, verbose: bool = False) -> Iterator[str]:
    """Yield an audit as lines: one for each client that is not fine.

    ``verbose`` adds the other clients and all findings.

    If parts of the input were not checked, the first line describes them.
    """
    if audit.judged != ALL:
        yield describe_coverage(audit)
    yield f"Upgrade to {audit.target.name}: {_format_verdict_counts(audit)}"
    shown_clients = [client_audit for client_audit in audit.clients if verbose or client_audit.verdict != FINE]
    rows = [_format_client_row(client_audit, audit.target) for client_audit in shown_clients]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for client_audit, row in zip(shown_clients, rows, strict=True):
        yield ("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[4]])).rstrip()
        if verbose:
            yield from _format_details(client_audit)
    for finding in audit.disk:
        if verbose or finding.verdict != FINE:
            yield f"{finding.verdict:10}  {finding.subject}: {_format_occurrences(finding)}; {finding.reason}"
    if shown_clients and not verbose:
        yield "Use -v to list each request with the reason for its verdict."
    yield from (f"note: {note}" for note in list_notes(audit))


def describe_coverage(audit: Audit) -> str:
    """Return a sentence that states how much of the input was assessed and summarizes the unread parts."""
    unread = summarize_entries(audit.unread)
    if audit.judged == ALL:
        return "All of the input was checked."
    if audit.judged == NOTHING:
        details = f" ({unread})" if unread else ""
        return f"Nothing was checked: no request or record of the input could be read{details}."
    return f"Part of the input was checked. Not read: {unread}."


def list_notes(audit: Audit) -> list[str]:
    """Return the limits of the verdicts as sentences.

    The first sentence names the brokers, which do not get a verdict.
    """
    names = ", ".join(sorted({format_client(client_audit.client) for client_audit in audit.brokers}))
    brokers = [f"brokers of the cluster, which the upgrade replaces, are not checked: {names}"] if names else []
    unaffected_clients = (
        [f"not read, because the verdict does not depend on it: {summarize_entries(audit.harmless)}"]
        if audit.harmless
        else []
    )
    return [*brokers, *audit.notes, *unaffected_clients]


def _format_client_row(client_audit: ClientAudit, target: Release) -> tuple[str, str, str, str, str]:
    """Return the texts of a client's line: verdict, client id, host, library and action."""
    client = client_audit.client
    name, host = client.client_id or NO_CLIENT_ID_TEXT, client.address or ""
    return f"{client_audit.verdict:10}", name, host, format_library(client_audit), format_action(client_audit, target)


def _format_details(client_audit: ClientAudit) -> Iterator[str]:
    """Yield the lines below a client's line: the evidence for its library, and its findings."""
    if client_audit.guess is not None:
        yield f"    guessed from {client_audit.guess.evidence}"
    for finding in client_audit.findings:
        yield f"    {finding.verdict:10}  {finding.subject}: {_format_occurrences(finding)}; {finding.reason}"


def _format_verdict_counts(audit: Audit) -> str:
    """Return as text how many clients, and how many topics in log directories, have each verdict."""
    if audit.judged == NOTHING:
        return "the input had nothing to check"
    parts = []
    if audit.clients or not audit.disk:
        counts = Counter(client_audit.verdict for client_audit in audit.clients)
        parts.append(_join_counts(count_text(len(audit.clients), "client"), counts, _TEXT_BY_VERDICT))
    if audit.disk:
        verdicts: dict[str, str] = {}  # the worst verdict of each topic
        for finding in audit.disk:
            topic = finding.format_use.topic if finding.format_use else None
            name = topic or finding.subject
            verdicts[name] = find_worst_verdict((finding.verdict, verdicts.get(name, FINE)))
        title = count_text(len(verdicts), "topic on disk", "topics on disk")
        parts.append(_join_counts(title, Counter(verdicts.values()), _TEXT_BY_DISK_VERDICT))
    return "; ".join(parts)


def _join_counts(title: str, counts: Mapping[str, int], text_by_verdict: Mapping[str, str]) -> str:
    """Return a title, followed by the number of clients or topics with each verdict."""
    texts = [f"{counts[verdict]} {text_by_verdict[verdict]}" for verdict in reversed(VERDICTS) if counts.get(verdict)]
    return title + (f": {', '.join(texts)}" if texts else "")


_TEXT_BY_DISK_VERDICT: Final = {
    REMOVED: "in removed formats",
    DEPRECATED: "in deprecated formats",
    UNKNOWN: "could not be checked",
    FINE: "fine",
}
_TEXT_BY_VERDICT: Final = {
    REMOVED: "would break",
    DEPRECATED: "use deprecated versions",
    UNKNOWN: "could not be checked",
    FINE: "fine",
}


def _format_occurrences(finding: AuditVerdict) -> str:
    """Return how often and when an API or record format was used, as text."""
    occurrences = finding.use_count
    first, last = format_second(occurrences.first), format_second(occurrences.last)
    time_text = "" if first is None else f" ({first})" if first == last else f" ({first} to {last})"
    return f"{occurrences.count} times{time_text}" if occurrences.count != 1 else f"once{time_text}"
