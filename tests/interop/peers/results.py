"""Outcomes of the performances in ``docs/everyday_peers.json``, which runs write and docs/everyday-peers.md shows.

    python -m tests.interop.peers.results ADAPTER PYTHON [NAME ...]

runs performances with one client and prints the results next to the expected ones.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.peers.behaviours import ADAPTERS, ClientBehaviour, load_behaviours

PATH: Final = Path(__file__).parents[3] / "docs" / "everyday_peers.json"
EQUAL, DIFFERS, CANNOT = "equal", "differs", "cannot"
SOMETIMES: Final = "sometimes "  # prefix of the reason for a difference that depends on timing within the peer


class BehaviourResult(NamedTuple):
    """The result of a performance with one client.

    Attributes:
        verdict: ``EQUAL``, ``DIFFERS`` or ``CANNOT``.
        fault: the test's error message if the client does not behave as documented, otherwise empty.
    """

    verdict: str
    fault: str


def judge(performance: ClientBehaviour, adapter: str, outcome: str, value: Any) -> BehaviourResult:
    """Compare a client's result with that of this package's client."""
    verdict = CANNOT if outcome == "cannot" else DIFFERS
    if outcome == "sees" and value == performance.sees:
        verdict = EQUAL
    reason = performance.differences.get(adapter, "")
    if (verdict != EQUAL) == bool(reason) or reason.startswith(SOMETIMES):
        return BehaviourResult(verdict, "")
    if verdict == EQUAL:
        return BehaviourResult(verdict, f"{value!r} equals this package's result; remove the difference {adapter!r}")
    return BehaviourResult(verdict, f"{outcome}: {value}\nexpected: {performance.sees!r}")


def store(adapter: str, version: str, verdicts: dict[str, str]) -> None:
    """Replace a client's verdicts by those of a complete run."""
    verdicts_by_client = load()
    verdicts_by_client[adapter] = {"version": version, "date": f"{datetime.now(UTC):%Y-%m-%d}", "verdicts": verdicts}
    PATH.write_text(json.dumps(verdicts_by_client, indent=1, sort_keys=True) + "\n")


def load() -> dict[str, Any]:
    """Return each adapter's version, date of its run and verdicts."""
    verdicts_by_client: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return verdicts_by_client


def main(adapter: str, python: str, names: list[str]) -> int:
    """Run performances with one client; return the number of unexpected results."""
    from tests.interop.peers.stage import ClientProcess

    performances = load_behaviours()
    performer = ClientProcess(adapter, python)
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
