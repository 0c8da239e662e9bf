"""Outcomes of the behaviours on each cluster: ``docs/everyday.json``, which runs write and docs/everyday.md shows.

    python -m tests.everyday.outcomes embedded 3.9.1 4.3.1

runs this folder once for each named column and stores the outcomes. ``make interop`` does the same for real clusters.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

COLUMNS: Final = {"embedded": "embedded broker", "3.9.1": "Kafka 3.9.1", "4.3.1": "Kafka 4.3.1"}
PATH: Final = Path(__file__).parents[2] / "docs" / "everyday.json"
# environment variable with the path of the file to which a run writes its outcomes
RESULTS: Final = "KAFKAFRAMES_EVERYDAY_RESULTS"
TIMEOUT_S: Final = 3_600
HOLDS, DIFFERS, NOT_RUN = "yes", "**no**", ""


def run_column(column: str, results: Path) -> subprocess.CompletedProcess[str]:
    """Run the behaviours against one cluster; the outcomes are written to ``results``."""
    environment = os.environ | {"KAFKAFRAMES_EVERYDAY": column, RESULTS: str(results)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "300"]
    return subprocess.run(
        [*command, str(Path(__file__).parent)],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def store(column: str, results: Path) -> None:
    """Replace a column's outcomes by those of a complete run."""
    outcomes_by_column = load()
    outcomes = {key: cell_of(counts) for key, counts in json.loads(results.read_text()).items()}
    outcomes_by_column[column] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "outcomes": dict(sorted(outcomes.items()))}
    PATH.write_text(json.dumps(outcomes_by_column, indent=1, sort_keys=True) + "\n")


def load() -> dict[str, Any]:
    """Return each column's date and the outcomes of its behaviours."""
    outcomes_by_column: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return outcomes_by_column


def cell_of(counts: dict[str, int]) -> str:
    """Return the table cell for the outcomes of a behaviour's tests.

    >>> cell_of({"passed": 2, "skipped": 1}), cell_of({"passed": 1, "failed": 1}), cell_of({"skipped": 1})
    ('yes', '**no**', '')
    """
    if counts.get("failed"):
        return DIFFERS
    return HOLDS if counts.get("passed") else NOT_RUN


def main(columns: list[str]) -> int:
    """Run columns and store their outcomes; return 1 if a behaviour does not hold."""
    status = 0
    for column in columns:
        with tempfile.TemporaryDirectory() as directory:
            results = Path(directory) / "outcomes.json"
            process = run_column(column, results)
            print(process.stdout if process.returncode else process.stdout[-3_000:], flush=True)
            status |= process.returncode
            store(column, results)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
