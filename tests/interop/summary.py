"""Summarise a run of this folder: each claim, the number of agreements with each version of Kafka, and skipped
comparisons.

A comparison that could not run is listed with its reason, and does not count as an agreement.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# matches a broker's version, the first parameter of a test that starts a broker
_VERSION = re.compile(r"\[(\d+\.\d+\.\d+)\b")
_ALL = "all"
OUTCOMES = ("agreed", "FAILED", "NOT ASKED")


@dataclass
class TestedClaim:
    """A test file's claim: its first sentence, the outcomes by version, and the reasons of skipped tests."""

    sentence: str
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)


def group_claims(reports: Iterable[tuple[str, Any]], sentences: dict[str, str]) -> dict[str, TestedClaim]:
    """Group pytest's reports, which have categories, by file and version.

    A test that fails in its call and in its teardown counts once. Reports of setup and teardown count only if they
    failed.
    """
    claims: dict[str, TestedClaim] = {}
    worst: dict[str, tuple[int, str]] = {}
    for category, report in reports:
        outcome = {"passed": 0, "skipped": 2}.get(category, 1)
        if outcome == 0 and report.when != "call":
            continue
        if outcome == 1 or report.nodeid not in worst:
            worst[report.nodeid] = (outcome, skip_reason(report) if outcome == 2 else "")
    for nodeid, (outcome, reason) in worst.items():
        file = nodeid.partition("::")[0]
        claim = claims.setdefault(file, TestedClaim(sentences.get(file, file)))
        version = _VERSION.search(nodeid)
        claim.outcomes.setdefault(f"Kafka {version[1]}" if version else _ALL, Counter())[OUTCOMES[outcome]] += 1
        if reason:
            claim.reasons[reason] += 1
    return claims


def skip_reason(report: Any) -> str:
    """Return why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")


def summary_lines(claims: dict[str, TestedClaim]) -> Iterator[str]:
    """Yield the table."""
    total: Counter[str] = Counter()
    for file, claim in sorted(claims.items()):
        yield f"{claim.sentence}  ({file.rpartition('/')[2]})"
        for judge, counts in sorted(claim.outcomes.items()):
            total += counts
            yield f"    {'' if judge == _ALL else judge + ': '}{_count_text(counts)}"
        for reason, count in claim.reasons.items():
            yield f"    not asked ({count}): {reason}"
    yield f"in all: {_count_text(total)}"


def _count_text(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
