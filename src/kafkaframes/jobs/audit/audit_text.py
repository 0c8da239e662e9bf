"""An audit as JSON and as lines of text. Pure functions; what comes from outside is printed as the caller sees fit."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from kafkaframes.jobs.audit.audit import FINE, REMOVED, Audit, Client, ClientAudit, Finding, advice
from kafkaframes.protocol.spec.releases import Release

_NOBODY: Final = "(no client id)"


def time_text(microseconds: int | None) -> str | None:
    """Return a time to the second, UTC."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def as_json(audit: Audit) -> dict[str, Any]:
    """Return an audit as JSON."""
    return {
        "target": audit.target.name,
        "verdict": audit.verdict,
        "exitStatus": audit.exit_status,
        "clients": [_client(one, audit.target) for one in audit.clients],
        "disk": [_finding(one) for one in audit.disk],
        "notes": list(audit.notes),
    }


def _client(one: ClientAudit, target: Release) -> dict[str, Any]:
    client = one.client
    return {
        "clientId": client.client_id,
        "address": client.address,
        "softwareName": client.software_name,
        "softwareVersion": client.software_version,
        "guess": None if one.guess is None else one.guess._asdict(),
        "verdict": one.verdict,
        "upgradeTo": advice(one, target),
        "findings": [_finding(finding) for finding in one.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    use = finding.format_use
    return {
        "verdict": finding.verdict,
        "what": finding.what,
        "reason": finding.reason,
        "apiKey": finding.api_key,
        "apiVersion": finding.api_version,
        "lowestAccepted": finding.lowest,
        "highestAccepted": finding.highest,
        "magic": None if use is None else use.magic,
        "where": None if use is None else use.where,
        "topic": None if use is None else use.topic,
        "count": finding.seen.count,
        "first": time_text(finding.seen.first),
        "last": time_text(finding.seen.last),
    }


def client_text(client: Client) -> str:
    """Name a client.

    >>> client_text(Client("billing", "10.0.0.7", None, None))
    'billing at 10.0.0.7'
    """
    name = client.client_id or _NOBODY
    software = (
        "" if client.software_name is None else f", {client.software_name} {client.software_version or ''}".rstrip()
    )
    return f"{name}{'' if client.address is None else ' at ' + client.address}{software}"


def lines(audit: Audit, *, verbose: bool = False) -> Iterator[str]:
    """Yield an audit line by line; what is fine is only counted, unless ``verbose``."""
    yield f"Upgrade to {audit.target.name}: {_summary(audit)}"
    for one in audit.clients:
        shown = [finding for finding in one.findings if verbose or finding.verdict != FINE]
        if not shown and not verbose:
            continue
        yield ""
        yield f"{one.verdict.upper():11}{client_text(one.client)}"
        if one.guess is not None:
            release = "" if one.guess.release is None else f" {one.guess.release}"
            yield f"           probably {one.guess.library}{release} (a guess: {one.guess.evidence})"
        for finding in shown:
            yield f"  {finding.verdict:11}{finding.what}: {_often(finding)}; {finding.reason}"
        wanted = advice(one, audit.target)
        if wanted is not None:
            yield f"  upgrade to {wanted}"
    for finding in audit.disk:
        if verbose or finding.verdict != FINE:
            yield ""
            yield f"{finding.verdict.upper():11}{finding.what}: {_often(finding)}; {finding.reason}"
    if audit.notes:
        yield ""
        yield from (f"note: {note}" for note in audit.notes)


def _summary(audit: Audit) -> str:
    counts = {
        verdict: sum(one.verdict == verdict for one in audit.clients)
        for verdict in (REMOVED, "deprecated", "unknown", FINE)
    }
    texts = [f"{count} {_WORDS[verdict]}" for verdict, count in counts.items() if count]
    return f"{len(audit.clients)} clients" + (f": {', '.join(texts)}" if texts else "")


_WORDS: Final = {
    REMOVED: "would break",
    "deprecated": "use what is deprecated",
    "unknown": "cannot be judged",
    FINE: "fine",
}


def _often(finding: Finding) -> str:
    seen = finding.seen
    first, last = time_text(seen.first), time_text(seen.last)
    when = "" if first is None else f" ({first})" if first == last else f" ({first} to {last})"
    return f"{seen.count} times{when}" if seen.count != 1 else f"once{when}"
