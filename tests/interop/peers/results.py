"""Outcomes of the performances: ``docs/everyday_peers.json``, which runs write and docs/everyday-peers.md shows.

    python -m tests.interop.peers.results ADAPTER PYTHON [NAME ...]

performs with one client and prints its results, next to the expected ones.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.peers.behaviours import ADAPTERS, Performance, load_performances

PATH: Final = Path(__file__).parents[3] / "docs" / "everyday_peers.json"
EQUAL, DIFFERS, CANNOT = "equal", "differs", "cannot"
SOMETIMES: Final = "sometimes "  # begins the reason for a difference that depends on timing within the peer


class Result(NamedTuple):
    """A performance by one client.

    Attributes:
        verdict: ``EQUAL``, ``DIFFERS`` or ``CANNOT``.
        fault: what a test reports, if the client behaves otherwise than the performance says; else empty.
    """

    verdict: str
    fault: str


def judge(performance: Performance, adapter: str, outcome: str, value: Any) -> Result:
    """Compare the results of a client's user with those of our client's user."""
    verdict = CANNOT if outcome == "cannot" else DIFFERS
    if outcome == "sees" and value == performance.sees:
        verdict = EQUAL
    reason = performance.differences.get(adapter, "")
    if (verdict != EQUAL) == bool(reason) or reason.startswith(SOMETIMES):
        return Result(verdict, "")
    if verdict == EQUAL:
        return Result(verdict, f"sees {value!r} as our users do; remove the difference {adapter!r}")
    return Result(verdict, f"{outcome}: {value}\nexpected: {performance.sees!r}")


def store(adapter: str, version: str, verdicts: dict[str, str]) -> None:
    """Put the verdicts of a whole run in the place of the client's older ones."""
    verdicts_by_client = load()
    verdicts_by_client[adapter] = {"version": version, "date": f"{datetime.now(UTC):%Y-%m-%d}", "verdicts": verdicts}
    PATH.write_text(json.dumps(verdicts_by_client, indent=1, sort_keys=True) + "\n")


def load() -> dict[str, Any]:
    """Return for each adapter its version, the date of its run and its verdicts."""
    verdicts_by_client: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return verdicts_by_client


def main(adapter: str, python: str, names: list[str]) -> int:
    """Perform with one client; return the number of performances that are not as expected."""
    from tests.interop.peers.stage import Performer

    performances = load_performances()
    performer = Performer(adapter, python)
    faults = 0
    try:
        for name in names or performances:
            result = judge(performances[name], adapter, *performer.perform(name))
            faults += bool(result.fault)
            print(result.verdict, name, result.fault, flush=True)
    finally:
        performer.close()
    return faults


if __name__ == "__main__":
    if sys.argv[1] not in ADAPTERS:
        raise SystemExit(f"unknown adapter {sys.argv[1]}; expected one of {', '.join(ADAPTERS)}")
    sys.exit(bool(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
