"""Run long tests one after the other, and store how each one ended, for the table in docs/long-tests.md.

    python tools/long_runs.py "make fuzz" "make soak-broker"
    python docs/tables.py

The checkout must not have uncommitted changes outside docs/, because a result belongs to a commit. The output of a
command is in out/long-runs. The row of a command replaces that of its last run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

TOP: Final = Path(__file__).parents[1]
RESULTS: Final = TOP / "docs" / "long_runs.json"
_PYTEST_SUMMARY: Final = re.compile(r"^=*\s*(\d+ (?:passed|failed|skipped|error).*?) in [\d.]+s\b.*$")
_JUDGES_SUMMARY: Final = re.compile(r"^in all: (.*)$")
_FUZZ_SCRIPT: Final = re.compile(r"^== tests/fuzz/")


def summarize_output(lines: Iterable[str]) -> str:
    """Return a summary of a command's output: counts of pytest, comparisons or scripts, or its last line."""
    summaries: list[str] = []
    judges = ""
    script_count = 0
    last_line = ""
    for line in (raw_line.strip() for raw_line in lines):
        if match := _PYTEST_SUMMARY.match(line):
            summaries.append(match[1])
        elif match := _JUDGES_SUMMARY.match(line):
            judges = match[1]
        elif _FUZZ_SCRIPT.match(line):
            script_count += 1
        if line and not line.startswith("make["):
            last_line = line
    if script_count:
        return f"{script_count} scripts"
    if summaries:
        return "; ".join([*summaries, f"compared with other software: {judges}"] if judges else summaries)
    return last_line or "no output"


def run_command(command: str, log: Path, top: Path) -> dict[str, Any]:
    """Run a shell command with its output in a file, and return the row of its result."""
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with log.open("wb") as output:
        status = subprocess.run(command, shell=True, cwd=top, stdout=output, stderr=subprocess.STDOUT).returncode
    return {
        "status": status,
        "result": summarize_output(log.read_text(encoding="utf-8", errors="replace").splitlines()),
        "minutes": round((time.monotonic() - start) / 60, 1),
        "date": datetime.date.today().isoformat(),
        "machine": describe_machine(),
    }


def describe_machine() -> str:
    """Return the system, the Python version and the number of cores."""
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    system = release.get("PRETTY_NAME") or platform.platform()
    return f"{system}, Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores"


def store_result(results: Path, command: str, row: dict[str, Any]) -> None:
    """Store the result of a command, in place of its last result."""
    rows = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    rows[command] = row
    results.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: Sequence[str], top: Path = TOP, results: Path = RESULTS) -> int:
    """Run the commands; return 1 if one failed, or if the checkout has uncommitted changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+", metavar="COMMAND", help='a shell command, such as "make fuzz"')
    options = parser.parse_args(arguments)
    changes = _git(top, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude)docs")
    if changes:
        print(f"long_runs: uncommitted changes: {', '.join(changes.split()[1::2])}; commit them first", file=sys.stderr)
        return 1
    commit = _git(top, "rev-parse", "--short=8", "HEAD")
    has_failed = False
    for command in options.commands:
        log = top / "out" / "long-runs" / (re.sub(r"[^\w.-]+", "-", command) + ".log")
        row = {"commit": commit, **run_command(command, log, top)}
        store_result(results, command, row)
        print(f"{command}: {describe_status(row)}, {row['result']} ({row['minutes']} min); {log}", flush=True)
        has_failed |= row["status"] != 0
    return int(has_failed)


def describe_status(row: dict[str, Any]) -> str:
    """Return whether a run passed, with the exit status of a failed one."""
    return "passed" if row["status"] == 0 else f"failed (exit status {row['status']})"


def _git(top: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
