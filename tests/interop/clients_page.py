"""Write the table of docs/clients.md: a row for each client or framework, with the trials of its last run.

``python -m tests.interop`` writes this table. Rows of clients that are not part of the run stay unchanged, with their
date.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop import summary

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
# environment variable with the path of the file to which pytest writes the rows
ROWS_FILE_VARIABLE = "KAFKAFRAMES_INTEROP_CLIENTS"
PROPERTY = "client"
BEGIN, END = "<!-- clients: written by python -m tests.interop -->", "<!-- end of clients -->"
HEADER = ("client or framework", "version", "what was tried", "result", "date")


@dataclass
class ClientTrials:
    """The trials of a client in a test, for the page. A fixture creates this object before the test begins."""

    note: dict[str, str] = field(default_factory=dict)

    def begin(self, name: str, version: str, trial: str) -> None:
        self.note.update(name=name, version=version, trial=trial, seen="")

    def saw(self, words: str) -> None:
        self.note["seen"] = words


def rows_of(reports: Iterable[tuple[str, Any]], today: str) -> list[tuple[str, ...]]:
    """Return the rows of a run, from pytest's reports with their categories."""
    trials_by_client: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {}
    for category, report in reports:
        note = dict(report.user_properties).get(PROPERTY)
        if note and (report.when == "call" or category != "passed"):
            trials_by_client.setdefault((note["name"], note["version"]), {})[note["trial"]] = (category, report)
    return [(*client, *_cells(trials), today) for client, trials in trials_by_client.items()]


def _cells(trials: dict[str, tuple[str, Any]]) -> tuple[str, str]:
    """Return the trials with their observations, and their results."""
    trial_texts, failed_trials, missing = [], [], []
    for name, (category, report) in trials.items():
        seen_text = dict(report.user_properties)[PROPERTY]["seen"]
        trial_texts.append(f"{name} ({seen_text})" if seen_text else name)
        if category == "skipped":
            missing.append(summary.skip_reason(report).partition(":")[0])
        elif category != "passed":
            failed_trials.append(name)
    if failed_trials:
        return "; ".join(trial_texts), f"**failed**: {', '.join(failed_trials)}"
    return "; ".join(trial_texts), f"not tried: {missing[0]}" if missing else "passed"


def merge_rows(page: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return the page with rows merged into its table. New rows replace those of the same client and version."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    lines = [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in table.strip().splitlines()[2:]]
    rows_by_client = {line[:2]: line for line in lines} | {row[:2]: row for row in rows}
    sorted_rows = sorted(
        rows_by_client.values(), key=lambda row: (row[0].lower(), [-int(part) for part in row[1].split(".")])
    )
    table_text = "\n".join(f"| {' | '.join(row)} |" for row in (HEADER, tuple("---" for _ in HEADER), *sorted_rows))
    return f"{before}{BEGIN}\n\n{table_text}\n\n{END}{after}"


def write(results_file: Path) -> None:
    """Update the page with the rows of a run."""
    if results_file.exists():
        PAGE.write_text(merge_rows(PAGE.read_text(), [tuple(row) for row in json.loads(results_file.read_text())]))
