"""Compare every kind of reference data in a folder. The exit status is 1 after any disagreement.

    python -m tests.agreement ../shared [--kind records ...]

The folder is laid out as ``vectors`` and ``corpus`` are, together or as one of the two.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.agreement.kind import Case, Kind, compare_case
from tests.agreement.kinds import (
    append,
    captures,
    cleaned,
    codec,
    committed,
    dumplog,
    evolution,
    logs,
    lookups,
    messages,
    record_sets,
    spec,
    tiered,
    unclean,
)

# One line per kind: import its KIND here and add it. The order is that of the summary.
KINDS: tuple[Kind, ...] = (
    record_sets.RECORDS_KIND,
    record_sets.BATCHES_KIND,
    logs.KIND,
    dumplog.KIND,
    codec.KIND,
    messages.KIND,
    spec.KIND,
    evolution.KIND,
    lookups.KIND,
    committed.KIND,
    unclean.KIND,
    append.KIND,
    cleaned.KIND,
    tiered.KIND,
    captures.KIND,
)
_BY_NAME = {kind.name: kind for kind in KINDS}
MAX_LINES = 10  # printed for one case


def _find_kind_folders(root: Path, folder: str) -> Iterator[Path]:
    """Return a kind's folder in DIR, which is the shared folder or its ``vectors`` or ``corpus``."""
    for base in (root, root / "vectors", root / "corpus"):
        if (base / folder).is_dir():
            yield base / folder


def _list_tasks(root: Path, kind_names: list[str] | None) -> tuple[list[tuple[Kind, Case]], list[str]]:
    """Return every case of the selected kinds, and a line for each existing folder without cases."""
    tasks: list[tuple[Kind, Case]] = []
    empty: list[str] = []
    for kind in KINDS:
        if kind_names and kind.name not in kind_names:
            continue
        for place in (place for folder in kind.folders for place in _find_kind_folders(root, folder)):
            kind_cases = [(kind, case) for case in kind.cases(place)]
            tasks += kind_cases
            if not kind_cases:
                empty.append(f"{kind.name}: {place} exists, but contains no case")
    return tasks, empty


def _print_lines(kind: str, case: str, lines: list[str]) -> None:
    for line in lines[:MAX_LINES]:
        print(f"{kind}: {case}: {line}")
    if len(lines) > MAX_LINES:
        print(f"{kind}: {case}: ... and {len(lines) - MAX_LINES} more")


def main(arguments: list[str] | None = None) -> int:
    """Run the kinds. Return the exit status."""
    parser = argparse.ArgumentParser(prog="make agreement", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", action="append", choices=sorted(_BY_NAME), help="only this kind (may be repeated)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder")
    start_s = time.monotonic()
    tasks, empty = _list_tasks(options.folder, options.kind)
    agree: Counter[str] = Counter()
    disagree: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        for name, case, lines in pool.imap_unordered(compare_case, tasks, chunksize=1):
            (disagree if lines else agree)[name] += 1
            _print_lines(name, case, lines)
    for line in empty:
        print(line)
    for name in _BY_NAME:
        if agree[name] + disagree[name]:
            print(f"{name}: {agree[name]} agree, {disagree[name]} disagree")
    if not tasks:
        print(f"{options.folder} has no cases of any kind")
    print(f"({time.monotonic() - start_s:.0f} s)")
    return 1 if disagree or empty or not tasks else 0


if __name__ == "__main__":
    sys.exit(main())
